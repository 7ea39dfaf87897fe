"""Numbers of a model that vary with the sizes of its inputs, known by their values in several recordings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from burnpy.backend.plans.recording import Ref


class Size:
    """An int that differs between the recordings. It has no arithmetic, in which its other values would be lost."""

    __slots__ = ("values",)

    def __init__(self, values: tuple[int, ...]) -> None:
        self.values = values  #: in each recording

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Size) and self.values == other.values

    def __hash__(self) -> int:
        return hash(self.values)

    def __repr__(self) -> str:
        return " / ".join(map(str, self.values))


class Varying:
    """A float that differs between the recordings."""

    __slots__ = ("values",)

    def __init__(self, values: tuple[float, ...]) -> None:
        self.values = values

    def __repr__(self) -> str:
        return " / ".join(map(repr, self.values))


class DifferError(Exception):
    """A value that is no number differs between the recordings."""


def merged(values: Sequence[Any], operand: Callable[[Ref], Any]) -> Any:
    """Return one value for those that several recordings have in one place.

    Args:
        values: an argument of a node in each recording.
        operand: maps a value of the first recording to what stands for it.

    Raises:
        DifferError: they differ, and are no numbers.

    >>> merged([(2, 8, 0.5), (4, 8, 0.5)], lambda ref: ref)
    (2 / 4, 8, 0.5)
    """
    first = values[0]
    kind = first.__class__
    if any(value.__class__ is not kind for value in values):
        raise DifferError
    if kind is Ref:
        if any(value.number != first.number for value in values):
            raise DifferError
        return operand(first)
    if kind is tuple or kind is list:
        if any(len(value) != len(first) for value in values):
            raise DifferError
        return kind([merged(column, operand) for column in zip(*values, strict=True)])
    if kind is slice:
        ends = [merged([getattr(value, end) for value in values], operand) for end in ("start", "stop", "step")]
        return slice(*ends)
    if kind is int:
        return merged_size(values)
    if kind is float:
        same = all(value == first or (value != value and first != first) for value in values)
        return first if same else Varying(tuple(values))
    if isinstance(first, (bool, str, type(None))) and any(value != first for value in values):
        raise DifferError
    return first  # a dtype, or a function that only checks call


def merged_size(values: Sequence[int]) -> int | Size:
    """Return an int that is the same in all recordings, or else a size.

    >>> merged_size([3, 3, 3]), merged_size([2, 4, 6])
    (3, 2 / 4 / 6)
    """
    return values[0] if len(set(values)) == 1 else Size(tuple(values))


class Expression(NamedTuple):
    """A size as ``one · two · numerator // denominator + offset``, where one and two are known sizes, or None for 1."""

    one: tuple[int, ...]
    two: tuple[int, ...] | None = None
    numerator: int = 1
    denominator: int = 1
    offset: int = 0


def expression_of(values: tuple[int, ...], known: Sequence[tuple[int, ...]]) -> Expression | None:
    """Return how a size follows from known ones, in all recordings; None if no expression is found.

    >>> expression_of((8, 16, 24), [(2, 4, 6)])
    Expression(one=(2, 4, 6), two=None, numerator=4, denominator=1, offset=0)
    >>> expression_of((3, 5, 7), [(2, 4, 6)])
    Expression(one=(2, 4, 6), two=None, numerator=1, denominator=1, offset=1)
    """
    pairs = [(one, two) for k, one in enumerate(known) for two in known[k:]]
    for one, two in [*[(one, None) for one in known], *pairs]:
        product = one if two is None else tuple([a * b for a, b in zip(one, two, strict=True)])
        for a, b, p, q in zip(product, product[1:], values, values[1:], strict=False):
            if a == b:
                continue
            slope = Fraction(q - p, b - a)
            offset = p - slope * a
            exact = all(slope * x + offset == y for x, y in zip(product, values, strict=True))
            if slope and exact and offset.denominator == 1:
                return Expression(one, two, slope.numerator, slope.denominator, int(offset))
            break
    return None


POWERS: Mapping[str, Callable[[float], float]] = {
    "": lambda size: size,
    "Reciprocal": lambda size: 1.0 / size,
    "Sqrt": lambda size: size**0.5,
    "Reciprocal of Sqrt": lambda size: size**-0.5,
}
"""Functions of sizes that numbers of models are, by their operators."""


def power_of(values: tuple[float, ...], known: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], str, float] | None:
    """Return how a float follows from a known size: the size, a name in `POWERS` and a factor.

    >>> power_of((0.5, 0.25, 0.125), [(2, 4, 8)])
    ((2, 4, 8), 'Reciprocal', 1.0)
    """
    for size in known:
        if 0 in size:
            continue
        for name, power in POWERS.items():
            factor = values[0] / power(size[0])
            if all(abs(factor * power(n) - value) <= 4e-16 * abs(value) for n, value in zip(size, values, strict=True)):
                return size, name, factor
    return None
