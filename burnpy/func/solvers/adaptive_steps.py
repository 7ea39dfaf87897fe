"""Steps of methods for differential equations, explicit or stiff, and the loop that chooses their sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from burnpy.backend.dtypes import epsilon, tiny
from burnpy.func.control_flow.scan_and_cond import while_loop
from burnpy.func.jacobian_products import jvp
from burnpy.func.jacobians import jacfwd
from burnpy.func.solvers.problems import Factors, is_chosen_by_where, is_tracked, select
from burnpy.tensor.joining import where
from burnpy.tensor.tensor import Tensor

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
        dtype = s.y.dtype
        small = size.abs() <= s.t.detach().abs() * (4.0 * epsilon(dtype)) + 4.0 * tiny(dtype)
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
        """Return the step again, but next to none where it is rejected. There its gradient is multiplied by 0, and
        would be NaN if the step led to values that are not finite."""
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


class Step(NamedTuple):
    """A step from (t, y) to (t + h, ``y``)."""

    y: Any
    slope: Any  #: f at its end
    error: Any  #: an estimate of the error of ``y``
    dense: tuple[Any, ...]  #: the coefficients of y(t + θ h) as a polynomial of θ, from the constant one


def rk4_step(f: Callable[..., Any], t: Any, y: Any, h: Any) -> Any:
    """Return the state after a step of the classical Runge-Kutta method.

    Source: Kutta, Beitrag zur näherungsweisen Integration totaler Differentialgleichungen, 1901.
    """
    half = h * 0.5
    a = f(t, y)
    b = f(t + half, y + a * half)
    c = f(t + half, y + b * half)
    d = f(t + h, y + c * h)
    return y + (a + (b + c) * 2.0 + d) * (h * (1 / 6))


_NODES = (1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0)
_STAGES = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
_ERROR = (-71 / 57600, 0.0, 71 / 16695, -71 / 1920, 17253 / 339200, -22 / 525, 1 / 40)
_DENSE = (
    (1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    (
        *(-8048581381 / 2820520608, 0.0, 131558114200 / 32700410799, -1754552775 / 470086768),
        *(127303824393 / 49829197408, -282668133 / 205662961, 40617522 / 29380423),
    ),
    (
        *(8663915743 / 2820520608, 0.0, -68118460800 / 10900136933, 14199869525 / 1410260304),
        *(-318862633887 / 49829197408, 2019193451 / 616988883, -110615467 / 29380423),
    ),
    (
        *(-12715105075 / 11282082432, 0.0, 87487479700 / 32700410799, -10690763975 / 1880347072),
        *(701980252875 / 199316789632, -1453857185 / 822651844, 69997945 / 29380423),
    ),
)


def dopri5_step(f: Callable[..., Any], t: Any, y: Any, slope: Any, h: Any) -> Step:
    """Take a step of Dormand and Prince's method of order 5, with an error estimate of order 4.

    Source: Dormand and Prince, A family of embedded Runge-Kutta formulae, 1980; the polynomial of order 4 between both
    ends is from Shampine, Some practical Runge-Kutta formulas, 1986.
    """
    slopes, end = [slope], y
    for node, weights in zip(_NODES, _STAGES, strict=True):
        end = y + combined(weights, slopes) * h
        slopes.append(f(t + h * node, end))
    dense = tuple([combined(weights, slopes) * h for weights in _DENSE])
    return Step(end, slopes[-1], combined(_ERROR, slopes) * h, (y, *dense))


def combined(weights: Sequence[float], terms: Sequence[Any]) -> Any:
    """Return the sum of terms with weights, without those of weight 0."""
    total: Any = None
    for weight, term in zip(weights, terms, strict=True):
        if weight:
            part = term if weight == 1.0 else term * weight
            total = part if total is None else total + part
    return total


_GAMMA = 0.25
_STIFF_NODES = (0.0, 0.386, 0.21, 0.63, 1.0, 1.0)
_DRIFTS = (0.25, -0.1043, 0.1035, -0.0362, 0.0, 0.0)
_STIFF_STAGES: tuple[tuple[float, ...], ...] = (
    (),
    (1.544,),
    (0.9466785280815826, 0.2557011698983284),
    (3.314825187068521, 2.896124015972201, 0.9986419139977817),
    (1.221224509226641, 6.019134481288629, 12.53708332932087, -0.687886036105895),
    (1.221224509226641, 6.019134481288629, 12.53708332932087, -0.687886036105895, 1.0),
)
_COUPLINGS: tuple[tuple[float, ...], ...] = (
    (),
    (-5.6688,),
    (-2.430093356833875, -0.2063599157091915),
    (-0.1073529058151375, -9.594562251023355, -20.47028614809616),
    (7.496443313967647, -10.24680431464352, -33.99990352819905, 11.7089089320616),
    (8.083246795921522, -7.981132988064893, -31.52159432874371, 16.31930543123136, -6.058818238834054),
)
_STIFF_DENSE = (
    (10.12623508344586, -7.487995877610167, -34.80091861555747, -7.992771707568823, 1.025137723295662, 0.0),
    (-0.6762803392801253, 6.087714651680015, 16.43084320892478, 24.76722511418386, -6.594389125716872, 0.0),
)


def rodas4_step(f: Callable[..., Any], t: Any, y: Any, slope: Any, h: Any) -> Step:
    """Take a step of Rodas, which is L-stable and of order 4, with an error estimate of order 3.

    Each of its six stages is a linear equation with the matrix I / (γ h) - ∂f/∂y, which is factored once.

    Source: Hairer and Wanner, Solving Ordinary Differential Equations II, 1996, section IV.7, and their code RODAS.
    """
    jacobian = jacfwd(lambda x: f(t, x))(y)
    drift = jvp(lambda s: f(s, y), t, t.ones_like())[1]
    scale = 1.0 / h
    matrix = Tensor.eye(y.shape[0], dtype=y.dtype.name, device=y.device) * (scale * (1 / _GAMMA)) - jacobian
    factors = Factors(matrix)
    stages: list[Any] = []
    end = y
    for node, drifts, weights, couplings in zip(_STIFF_NODES, _DRIFTS, _STIFF_STAGES, _COUPLINGS, strict=True):
        right = slope
        if stages:
            end = y + combined(weights, stages)
            right = f(t + h * node, end) + combined(couplings, stages) * scale
        if drifts:
            right = right + drift * (h * drifts)
        stages.append(factors.solve(right))
    error = stages[-1]
    end = end + error
    first, second = [combined(weights, stages) for weights in _STIFF_DENSE]
    dense = (y, end - y + first, second - first, -second)
    return Step(end, f(t + h, end), error, dense)
