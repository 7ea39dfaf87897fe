"""Examples of elementwise operations, made from the declaration of the operation and the domains of its operands."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from burnpy.backend.backend import operations
from burnpy.testing.cases.samples import Array, ByKind, Large, Mask, Sample, Values
from burnpy.testing.cases.table import Example, Reference, named, row

if TYPE_CHECKING:
    from burnpy.backend.entries import Argument
    from burnpy.backend.primitives import Shape

SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, 3.0, -3.0, math.inf, -math.inf, math.nan)
"""Zeros of both signs, the infinities, NaN, and numbers on both sides of 1 and -1."""


def elementwise(
    name: str,
    reference: Reference,
    *,
    special: Sequence[float] = SPECIAL,
    options: Sequence[Example] = ((),),
    also: Sequence[Example] = (),
    loose: float = 1.0,
    **domains: tuple[float, float],
) -> None:
    """Add the examples of an elementwise operation to the table, in most cases by one line.

    The operands have one shape, no dimensions, no elements, and many elements; where they broadcast, each does so
    alone, and has no dimensions alone; each is a number where it may be one; and they have all combinations of special
    values::

        elementwise("sinh", np.sinh)
        elementwise("acosh", np.arccosh, x=(1.1, 3.0))

    Args:
        name: the operation; its operands are the arguments that are primitives.
        reference: the same computation in NumPy.
        special: values that are tried in all combinations, even outside of the domain; none if it is empty.
        options: the values of the other arguments, which follow the operands; each is tried with all examples.
        also: further examples.
        loose: the factor by which rounding errors may exceed the error of one operation.
        **domains: the least and the greatest value of an operand, by its name, between which derivatives are compared
            with differences; for ints the values are three times as large. The default is -2 and 2.

    Raises:
        ValueError: the operation has no operand of such a name.
    """
    operands = [a for a in operations()[name].arguments if a.kind]
    unknown = sorted(domains.keys() - {a.name for a in operands})
    if unknown:
        raise ValueError(f"{name} has no operand {unknown[0]}; it has {', '.join(a.name for a in operands)}")
    within = [_Operand(a, *domains.get(a.name, (-2.0, 2.0))) for a in operands]
    examples = dict(_shaped(within))
    if special:
        examples["special values"] = _combinations(operands, special)
    labels = [""] if len(options) == 1 else [f", {_listed(option)}" for option in options]
    table = {
        label + suffix: (*example, *option)
        for suffix, option in zip(labels, options, strict=True)
        for label, example in examples.items()
    }
    row(name, reference, table | named(also), loose=loose)


class _Operand:
    """An operand with its domain."""

    def __init__(self, argument: Argument, low: float, high: float) -> None:
        self.argument, self.low, self.high = argument, low, high

    def sample(self, shape: Shape, *, large: bool = False) -> Sample:
        if self.argument.kind == "Bool":
            return Mask(shape)
        return Large(shape, self.low, self.high) if large else Array(shape, self.low, self.high)

    def number(self) -> ByKind:
        """Return a number in the domain that no sample has, for each kind."""
        middle = 0.75 if self.low <= 0.75 <= self.high else (self.low + self.high) / 2
        return ByKind(middle, max(1, math.ceil(self.high)))


def _shaped(operands: list[_Operand]) -> Iterator[tuple[str, Example]]:
    """Yield examples of every combination of shapes that differs in kind, by name."""

    def shapes(first: Shape, *others: Shape, large: bool = False) -> Example:
        given = [first, *(others[k % len(others)] if others else first for k in range(len(operands) - 1))]
        return tuple(operand.sample(shape, large=large) for operand, shape in zip(operands, given, strict=True))

    def alone(k: int, given: Any, shape: Shape) -> Example:
        """Return an example in which operand k differs from the others, which have ``shape``."""
        return tuple(given if j == k else operand.sample(shape) for j, operand in enumerate(operands))

    yield "matrix", shapes((2, 3))
    yield "three dimensions", shapes((3, 1, 2))
    yield "0-d", shapes(())
    yield "empty", shapes((0, 3))
    yield "large", shapes((96, 100), large=True)
    if len(operands) > 1 and all(operand.argument.elementwise for operand in operands):
        for k, operand in enumerate(operands):
            yield f"{operand.argument.name} broadcast", alone(k, operand.sample((3,)), (2, 3))
            yield f"{operand.argument.name} broadcast along rows", alone(k, operand.sample((2, 1)), (2, 3))
            yield f"{operand.argument.name} 0-d", alone(k, operand.sample(()), (2,))
        yield "all broadcast", shapes((3, 1), (1, 2), (2,))
        yield "empty broadcast", shapes((0, 3), (1, 3), ())
        yield "large broadcast", shapes((96, 100), (100,), (96, 1), large=True)
    for k, operand in enumerate(operands):
        if operand.argument.scalar:
            yield f"{operand.argument.name} a number", alone(k, operand.number(), (2, 3))
            yield f"{operand.argument.name} a number, 0-d", alone(k, operand.number(), ())


def _combinations(operands: list[Argument], special: Sequence[float]) -> Example:
    """Return one example that has all combinations of special values."""
    count = sum(a.kind != "Bool" for a in operands)
    columns = iter(zip(*product(special, repeat=count), strict=True))
    return tuple(Mask((len(special) ** count,)) if a.kind == "Bool" else Values(next(columns)) for a in operands)


def _listed(option: Example) -> str:
    return ", ".join(map(str, option))
