"""The time within a step at which an event function changes its sign."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burnpy.func.control_flow.scans import scan
from burnpy.func.derivatives.jvps import jvp
from burnpy.func.solvers.adaptive_steps import State
from burnpy.func.solvers.implicit import derivative_order
from burnpy.tensor.joining import where

_HALVINGS = {"float32": 26, "float64": 55}


def event_time(event: Callable[..., Any], state: State) -> Any:
    """Return the time in the last step at which an event function of a time and a vector is 0, if it changes its sign.

    It is found by bisection. Its derivatives are those of `implicit`, with the slope as Jacobian.
    """
    still = State(*[part if isinstance(part, tuple) else part.detach() for part in state])
    still = still._replace(dense=tuple([part.detach() for part in state.dense]))
    sign = event(still.before, still.at(still.before)).detach().sign()

    def halve(bounds: tuple[Any, Any], _: None) -> tuple[tuple[Any, Any], None]:
        low, high = bounds
        middle = (low + high) * 0.5
        beyond = event(middle, still.at(middle)).detach() * sign <= 0.0
        return (where(beyond, low, middle), where(beyond, middle, high)), None

    (_, time), _ = scan(halve, (still.before, still.t), None, length=_HALVINGS[str(state.t.dtype)])
    slope = jvp(lambda t: event(t, still.at(t)), time, time.ones_like())[1].detach()
    moves = slope != 0.0
    for _ in range(derivative_order(event(time, state.at(time)))):
        value = event(time, state.at(time))
        time = time - where(moves, (value - value.detach()) / where(moves, slope, 1.0), 0.0)
    return time
