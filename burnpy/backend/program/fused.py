"""Running an elementwise formula as a program, so that several operations are one pass over the memory."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import Context
from functools import lru_cache
from math import prod
from typing import Any

from burnpy.backend.operations.lists import Formula
from burnpy.backend.primitives import Float
from burnpy.backend.program.program import Extent, Input, Program
from burnpy.backend.program.trace import trace


def in_one_pass(b: Any, formula: Formula, xs: Sequence[Float], numbers: Sequence[float]) -> tuple[Float, ...]:
    """Return the results of a formula of primitives of one shape and dtype, by ``b.run``."""
    shape = xs[0].shape
    row = (1, prod(shape))
    program = program_of(formula, xs[0].dtype.name, len(xs), len(numbers))
    outs = b.run(program, [b.reshape(x, row) for x in xs], tuple([float(number) for number in numbers]))
    return tuple([b.reshape(out, shape) for out in outs])


@lru_cache(256)
def program_of(formula: Formula, dtype: str, arrays: int, numbers: int, flags: tuple[bool, ...] = ()) -> Program:
    """Return the program of a formula of primitives of a dtype, of numbers and of flags; it serves all numbers.

    Raises:
        ProgramError: the formula cannot be written as a program.
    """
    inputs = (Input(Extent.FULL, dtype),) * arrays + (Input(Extent.SCALAR, dtype),) * numbers
    return Context().run(trace, formula, inputs, *flags)  # no mode of the caller applies to the trace
