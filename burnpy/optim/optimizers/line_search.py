"""A line search: a distance along a direction that satisfies the strong Wolfe conditions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol, TypeVar


class Point(Protocol):
    """A point on a line: its distance from the start, the function's value there, and its slope along the line."""

    @property
    def distance(self) -> float:
        """The distance from the start."""
        raise NotImplementedError

    @property
    def value(self) -> float:
        """The value of the function; infinite where it is not a number."""
        raise NotImplementedError

    @property
    def slope(self) -> float:
        """The derivative of the function along the line."""
        raise NotImplementedError


P = TypeVar("P", bound=Point)

_DECREASE = 1e-4
"""The constant c₁ of the conditions: the share of the fall that the slope at the start predicts."""
_CURVATURE = 0.9
"""The constant c₂ of the conditions: the share of the slope at the start that may be left."""


def strong_wolfe(
    at: Callable[[float], P], start: P, distance: float, *, resolution: float, most: int = 25
) -> tuple[P, int]:
    """Return a point that satisfies the strong Wolfe conditions, or the lowest that was found, and the evaluations.

    First the distance grows until two points enclose such a point; then cubic interpolation narrows them. It evaluates
    the same points as PyTorch's LBFGS.

    Args:
        at: evaluates the function at a distance.
        start: the point at distance 0, where the slope is negative.
        distance: the first distance to try.
        resolution: the difference of distances at which the search ends.
        most: how many evaluations may follow the first.

    Source: Nocedal and Wright, Numerical Optimization, 2006, algorithms 3.5 and 3.6.
    """
    before, new, count = start, at(distance), 1

    def too_high(point: P) -> bool:
        return point.value > start.value + _DECREASE * point.distance * start.slope

    def flat(point: P) -> bool:
        return abs(point.slope) <= -_CURVATURE * start.slope

    while not too_high(new) and (count <= 2 or new.value < before.value):
        if flat(new):
            return new, count
        if new.slope >= 0:
            break
        if count > most:
            return _lower(start, new)[0], count
        nearest, farthest = new.distance + 0.01 * (new.distance - before.distance), new.distance * 10
        before, new, count = new, at(_lowest_between(before, new, nearest, farthest)), count + 1

    low, high = _lower(before, new)
    close_before = False
    while count <= most and abs(high.distance - low.distance) >= resolution:
        near, far = sorted((low.distance, high.distance))
        distance = _lowest_between(low, high, near, far)
        margin = 0.1 * (far - near)
        close = min(far - distance, distance - near) < margin
        if close and (close_before or distance >= far or distance <= near):
            distance = far - margin if abs(distance - far) < abs(distance - near) else near + margin
            close = False
        close_before = close
        new, count = at(distance), count + 1
        if too_high(new) or new.value >= low.value:
            low, high = _lower(low, new)
            continue
        if flat(new):
            return new, count
        low, high = new, low if new.slope * (high.distance - low.distance) >= 0 else high
    return low, count


def _lower(first: P, second: P) -> tuple[P, P]:
    """Return two points, the lower one first."""
    return (first, second) if first.value <= second.value else (second, first)


def _lowest_between(first: Point, second: Point, least: float, most: float) -> float:
    """Return the distance, from ``least`` to ``most``, at which a cubic through two points with their slopes is lowest.
    Where there is none, it is the middle."""
    near, far = (first, second) if first.distance <= second.distance else (second, first)
    width, middle = far.distance - near.distance, (least + most) / 2
    if width == 0:
        return middle
    shape = near.slope + far.slope - 3 * (far.value - near.value) / width
    square = shape * shape - near.slope * far.slope
    if not 0 <= square < math.inf:
        return middle
    root = math.sqrt(square)
    bottom = far.slope - near.slope + 2 * root
    if bottom == 0:
        return middle
    return min(max(far.distance - width * ((far.slope + root - shape) / bottom), least), most)
