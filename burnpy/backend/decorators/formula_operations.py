"""The entries of formulas of lists, for decorators: `Backend.foreach` of a formula is one operation of its name."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any

from burnpy.backend.backend import operations
from burnpy.backend.entries import Argument, Operation
from burnpy.backend.operations.foreach import Formula
from burnpy.backend.primitives import Float, Shape
from burnpy.backend.schema import Algebra
from burnpy.hints.signatures import signature


@lru_cache(256)
def formula_operation(
    formula: Formula, lists: int, numbers: tuple[bool, ...], flags: tuple[bool, ...], gated: bool
) -> Operation:
    """Return the entry of `Backend.foreach` of a formula.

    Its arguments are the lists and the numbers, by the names that they have in the formula; ``owned``; and ``skipped``
    if there is one. Its ``function`` computes them on a backend, and returns a tuple of lists.

    Args:
        formula: a formula of lists.
        lists: how many there are.
        numbers: for each number, whether it is a primitive.
        flags: further arguments of the formula, which are part of the operation.
        gated: whether the call may be skipped.
    """
    count = lists + len(numbers)

    def function(b: Any, *args: Any) -> tuple[list[Float], ...]:
        columns, values, rest = args[:lists], args[lists:count], args[count:]
        return b.foreach(formula, columns, values, flags, *rest)  # type: ignore[no-any-return]  # as declared

    function.__name__, function.__doc__ = getattr(formula, "__name__", "foreach"), formula.__doc__
    names = [name for name, p in signature(formula).parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD][1:]
    names = [names[k] if k < len(names) else f"argument{k}" for k in range(count)]
    arguments = [
        *[Argument(name, "Float", sequence=True, scalar=False) for name in names[:lists]],
        *[
            Argument(name, "Float" if primitive else None, sequence=False, scalar=primitive)
            for name, primitive in zip(names[lists:], numbers, strict=True)
        ],
        Argument("owned", None, sequence=False, scalar=False),
        *[Argument("skipped", "Bool", sequence=False, scalar=False)] * gated,
    ]
    return Operation(
        function.__name__,
        tuple(arguments),
        ("Float",),
        Algebra.GENERAL,
        required=False,
        function=function,
        like=None,
        view=None,
        consumes=tuple(names[2:lists]),
        indexed=None,
        counts=_flops(formula, lists, len(numbers), flags),
        product=(),
    )


def _flops(formula: Formula, lists: int, numbers: int, flags: tuple[bool, ...]) -> Callable[..., int]:
    """Return the formula of the FLOPs: the sum over its operations; 0 if it is no program."""

    @lru_cache(1)
    def of_an_element() -> int:
        from burnpy.backend.programs.program import ELEMENTWISE, ProgramError
        from burnpy.backend.programs.trace import formula_program

        known = operations()
        try:
            steps = formula_program(formula, "float32", lists, numbers, flags).instructions
        except ProgramError:
            return 0
        return sum([known[step.op].flops((), ()) for step in steps if step.op in ELEMENTWISE])

    def flops(out: Shape) -> int:
        return of_an_element() * prod(out)

    return flops
