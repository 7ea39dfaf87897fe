"""A line search in operations of tensors, for solvers that are batched and compiled.

`burnpy.optim.optimizers.line_search`, with which L-BFGS trains models, reads values, and evaluates the points that
PyTorch does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from burnpy.func.control_flow.branches import while_loop
from burnpy.tensor.joining import where

_DECREASE, _CURVATURE, _MOST = 1e-4, 0.9, 60.0


class Point(NamedTuple):
    """A place, the value of a function there, and its gradient."""

    x: Any
    value: Any
    gradient: Any


class _Search(NamedTuple):
    point: Point
    best: Point
    share: Any
    low: Any
    high: Any
    tries: Any
    done: Any


def search(at: Callable[[Any], Point], start: Point, direction: Any, first: Any) -> tuple[Point, Any]:
    """Return a point along a direction that satisfies the weak Wolfe conditions, and whether a lower point was found.

    Steps are doubled until one is too long, and then bisected. If none satisfies the conditions in 60 trials, it is the
    lowest one.

    Args:
        at: evaluates a place.
        start: the point to start from.
        direction: a direction in which the function falls.
        first: the first step to try, in units of the direction.

    Source: Lewis and Overton, Nonsmooth optimization via quasi-Newton methods, 2013, algorithm 4.6.
    """
    slope = (start.gradient * direction).sum()
    infinite = first * 0.0 + float("inf")

    def judged(share: Any) -> tuple[Point, Any, Any]:
        point = at(start.x + direction * share)
        finite = point.value.isfinite() & point.gradient.isfinite().all()
        too_high = ~(finite & (point.value <= start.value + slope * share * _DECREASE))
        too_steep = (point.gradient * direction).sum() < slope * _CURVATURE
        return point, too_high, too_steep

    def unfinished(s: _Search) -> Any:
        return ~s.done & (s.tries < _MOST)

    def attempt(s: _Search) -> _Search:
        point, too_high, too_steep = judged(s.share)
        better = point.value < s.best.value
        best = Point(*[where(better, x, y) for x, y in zip(point, s.best, strict=True)])
        high, low = where(too_high, s.share, s.high), where(~too_high & too_steep, s.share, s.low)
        share = where(high.isfinite(), (low + high) * 0.5, s.share * 2.0)
        done = ~too_high & ~too_steep
        return _Search(point, best, where(done, s.share, share), low, high, s.tries + 1.0, done)

    zero = first * 0.0
    last = while_loop(unfinished, attempt, _Search(start, start, first, zero, infinite, zero, zero > 0.0))
    lower = last.best.value < start.value
    chosen = [where(last.done, x, y) for x, y in zip(last.point, last.best, strict=True)]
    return Point(*chosen), last.done | lower
