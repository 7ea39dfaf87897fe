"""The selection of the kernel that an operation runs, by operation, dtypes and settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from burnpy.backend.operations.lists import Formula
from burnpy.backend.program import Program, ProgramError
from burnpy.backend.program.fused import program_of as program_of_formula
from burnpy.backend.value_range import value_range
from burnpy_array.programs import program_of
from burnpy_numpy.kernels.kernel import Kernel, enabled, kernel_of
from burnpy_numpy.kernels.operations import LEAST, LONGEST


def kernel_for(name: str, extents: tuple[str, ...], dtype: str, rest: tuple[Any, ...]) -> Kernel | None:
    """Return the kernel of an operation; None if it has none, or kernels are off."""
    if not enabled():
        return None
    program = program_of(name, extents, dtype, rest)
    return None if program is None else kernel_of(program)


def kernel_of_formula(formula: Formula, arrays: int, dtype: str, numbers: int) -> Kernel | None:
    """Return the kernel of an elementwise formula of arrays of a dtype, and of numbers; None likewise."""
    return kernel_of(program_of_formula(formula, dtype, arrays, numbers))


def run(
    default: Callable[..., Sequence[Any]], program: Program, xs: Sequence[Any], numbers: tuple[float, ...]
) -> Sequence[Any]:
    """Return the results of a program: by its kernel, else by its default."""
    xs = [np.asarray(x) for x in xs]
    given, rows, columns = program.bind(xs, numbers)
    if not program.elementwise:
        for step in program.instructions:
            if step.op == "gather":
                _check_index(program, given, step.args[1], columns)
    if rows * columns >= LEAST and (columns <= LONGEST or program.elementwise):
        kernel = kernel_of(program)
        if kernel is not None:
            return kernel(xs, numbers, rows, columns)
    return default(program, xs, numbers)


def _check_index(program: Program, given: list[Any], position: int, columns: int) -> None:
    """Refuse a gather whose index, an input, names no column: a kernel would read what is not the array's."""
    step = program.instructions[position]
    if step.op != "input" or not isinstance(step.value, int):
        raise ProgramError(f"program {program.name} gathers by an index that is not one of its inputs")
    index = given[step.value]
    least, most = value_range(index) if index.size else (0, -1)
    if least < 0 or most >= columns:
        raise ProgramError(f"program {program.name} got an index out of the range of its {columns} columns")
