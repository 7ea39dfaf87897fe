"""Explicit Runge-Kutta steps: the classical method of order 4, and the method of Dormand and Prince of order 5."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


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
    """Take a step of the method of order 5 of Dormand and Prince, with an error estimate of order 4.

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
