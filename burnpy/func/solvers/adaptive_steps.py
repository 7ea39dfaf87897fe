"""The loop of steps of an adaptive method: its state, the choice of step sizes, and where it ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from burnpy.func.control_flow.branches import while_loop
from burnpy.func.solvers.implicit import is_tracked
from burnpy.func.solvers.outcomes import is_chosen_by_where, select
from burnpy.func.solvers.runge_kutta import Step
from burnpy.tensor.joining import where

SAFETY, LEAST, MOST = 0.9, 0.2, 10.0
"""The factor of a step size that is computed for an error of 1, and the range of factors from step to step."""
UNDERFLOW, NON_FINITE, EVENT = 1.0, 2.0, 3.0


class State(NamedTuple):
    """The state between two attempts of a step; all are float tensors, as kernels of plans have floats and bools."""

    t: Any
    y: Any
    slope: Any  #: f(t, y)
    h: Any  #: the size of the next step, negative if t decreases
    before: Any  #: the time at which the last step began
    dense: tuple[Any, ...]  #: the coefficients of y as a polynomial of θ, where t is before + θ (t - before)
    event: Any  #: the value of the event function
    accepted: Any
    rejected: Any
    growth: Any  #: the most by which the step size may grow: 1 after a rejected step
    status: Any  #: 0, `UNDERFLOW`, `NON_FINITE` or `EVENT`

    def at(self, time: Any) -> Any:
        """Return y at a time within the last step."""
        width = self.t - self.before
        theta = where(width == 0.0, 0.0, (time - self.before) / where(width == 0.0, 1.0, width))
        y = self.dense[-1]
        for coefficient in reversed(self.dense[:-1]):
            y = y * theta + coefficient
        return y


@dataclass(frozen=True, kw_only=True)
class AdaptiveMethod:
    """A method with an error estimate, and its tolerances.

    Args:
        f: the function of a time and a vector.
        step: takes f, t, y, f(t, y) and h, and returns a `Step`.
        order: the order of the error estimate, plus 1.
        terms: the number of coefficients of its polynomials between the ends of a step.
        rtol: the relative tolerance.
        atol: the absolute tolerance: a number, or a vector.
        end: the last time, which no step crosses.
        event: the function of a time and a vector whose change of sign ends the loop; None if there is none.
        max_steps: the number of attempts at most.
    """

    f: Callable[..., Any]
    step: Callable[..., Step]
    order: int
    terms: int
    rtol: float
    atol: Any
    end: Any
    event: Callable[..., Any] | None
    max_steps: int

    def begin(self, t: Any, y: Any, first_step: float | None) -> State:
        """Return the state at the first time."""
        slope, zero = self.f(t, y), t.detach() * 0.0
        away = (self.end - t).detach()
        if first_step is None:
            h = self._first_size(t.detach(), y.detach(), slope.detach(), away)
        else:
            h = away.sign() * first_step
        finite = slope.detach().isfinite().all() & y.detach().isfinite().all()
        event = zero if self.event is None else self.event(t, y).detach()
        dense = (y, *[y.zeros_like()] * (self.terms - 1))
        status = where(finite, zero, zero + NON_FINITE)
        return State(t, y, slope, h, t, dense, event, zero, zero, zero + MOST, status)

    def until(self, time: Any, state: State) -> State:
        """Take steps until one reaches a time, or the loop ends."""
        ahead = (self.end - state.before).detach().sign()

        def unfinished(s: State) -> Any:
            return ((time - s.t) * ahead > 0.0) & (s.status == 0.0) & (s.accepted + s.rejected < self.max_steps)

        return while_loop(unfinished, self.attempt, state)

    def attempt(self, s: State) -> State:
        """Return the state after an attempt of a step, which is accepted if its error is within the tolerances."""
        left = self.end - s.t
        last = s.h.abs() >= left.abs()
        h = where(last, left, s.h)
        new = self.step(self.f, s.t, s.y, s.slope, h)
        ratio = self._norm(new.error.detach(), s.y.detach(), new.y.detach())
        ok = ratio <= 1.0
        if is_tracked(new.y) and is_chosen_by_where(ok, (s.t,)):
            new = self._harmless(ok, s, h)
        usable = ratio == ratio  # no NaN
        root = (ratio.maximum(1e-30).log() * (-1.0 / self.order)).exp()  # which kernels have, unlike powers
        factor = where(usable, (root * SAFETY).clamp(LEAST, MOST), LEAST)
        size = h.detach() * factor.minimum(s.growth)
        t = where(last, self.end, s.t + h)
        eps = float(np.finfo(s.y.dtype).eps)
        small = size.abs() <= s.t.detach().abs() * (4.0 * eps) + float(np.finfo(s.y.dtype).tiny) * 4.0
        event, status = s.event, where(usable, UNDERFLOW, s.status * 0.0 + NON_FINITE)
        status = where(small & ~(ok & last), status, s.status)
        if self.event is not None:
            event = self.event(t, new.y).detach()
            fired = ok & (s.event != 0.0) & (event * s.event.sign() <= 0.0)
            status = where(fired, EVENT, status)
        one = s.growth * 0.0 + 1.0
        old = (s.t, s.y, s.slope, s.before, *s.dense, s.event, s.accepted, s.rejected + 1.0, one)
        taken = (t, new.y, new.slope, s.t, *new.dense, event, s.accepted + 1.0, s.rejected, one * MOST)
        t, y, slope, before, *rest = select(ok, taken, old)
        dense, (event, accepted, rejected, growth) = rest[:-4], rest[-4:]
        return State(t, y, slope, size, before, tuple(dense), event, accepted, rejected, growth, status)

    def _harmless(self, ok: Any, s: State, h: Any) -> Step:
        """Return the step again, but next to none where it is rejected.

        There its gradient is multiplied by 0, and would be NaN if the step led to values that are not finite.
        """
        t, y, slope = [where(ok, x, x.detach()) for x in (s.t, s.y, s.slope)]
        return self.step(self.f, t, y, slope, where(ok, h, h.detach() * 1e-6))

    def _norm(self, x: Any, y: Any, end: Any = None) -> Any:
        """Return the root mean square of a vector, in units of the tolerances."""
        size = y.abs() if end is None else y.abs().maximum(end.abs())
        return ((x / (size * self.rtol + self.atol)).square().sum() * (1.0 / max(y.shape[0], 1))).sqrt()

    def _first_size(self, t: Any, y: Any, slope: Any, away: Any) -> Any:
        """Return the size of the first step.

        Source: Hairer, Nørsett and Wanner, Solving Ordinary Differential Equations I, 1993, section II.4.
        """
        size, speed = self._norm(y, y), self._norm(slope, y)
        usual = (size >= 1e-5) & (speed >= 1e-5)
        h = where(usual, size / where(usual, speed, 1.0) * 0.01, 1e-6).minimum(away.abs())
        signed = h * away.sign()
        bend = self._norm(self.f(t + signed, y + slope * signed).detach() - slope, y) / where(h == 0.0, 1.0, h)
        steep = speed.maximum(bend)
        flat = steep <= 1e-15
        other = where(flat, (h * 1e-3).maximum(1e-6), (where(flat, 1.0, steep) * 100.0) ** (-1.0 / self.order))
        chosen = (h * 100.0).minimum(other).minimum(away.abs())
        return where(chosen.isfinite(), chosen, 1e-6) * away.sign()
