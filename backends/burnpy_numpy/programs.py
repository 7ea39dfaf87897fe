"""Programs and formulas, which a kernel computes in one pass over the memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.dtypes import float32, float64, int64
from burnpy.backend.primitives import Dims, Shape, value_range
from burnpy_array import ArrayBackend
from burnpy_array.pointwise import alike
from burnpy_numpy.kernels.kernel import (
    LEAST,
    LONGEST,
    formula_kernel,
    kernels_enabled,
    lookup,
    operation_kernel,
    program_kernel,
)

if TYPE_CHECKING:
    from burnpy.backend.operations.foreach import Formula
    from burnpy.backend.programs import Program
    from burnpy_numpy.kernels.launch import Kernel
    from burnpy_numpy.plans.executor import NumPyExecutor

_plans: dict[tuple[Any, ...], tuple[Kernel, int, int, Shape] | None] = lookup()
_MOST_PLANS = 1024


def row_plan(key: tuple[Any, ...]) -> tuple[Kernel, int, int, Shape] | None:
    """Return how an operation over the last dimensions is computed by a kernel.

    Args:
        key: the operation; the extent of each array, see `operation_kernel`, one of them "full"; the other arguments;
            the last dimensions; the shapes of the arrays; and their dtypes.

    Returns:
        The kernel, the number of rows, the number of columns, and the shape of a number for each row; None without a
        kernel for these arrays.
    """
    try:
        return _plans[key]
    except KeyError:
        if len(_plans) >= _MOST_PLANS:
            _plans.clear()
        return _plans.setdefault(key, _new_row_plan(*key))


def _new_row_plan(
    name: str, extents: tuple[str, ...], rest: tuple[Any, ...], dims: Dims, *described: Any
) -> tuple[Kernel, int, int, Shape] | None:
    shapes, dtypes = described[: len(extents)], described[len(extents) :]
    shape, dtype = shapes[extents.index("full")], dtypes[extents.index("full")]
    others, last = shape[: dims[0]], shape[dims[0] :]
    rows, columns = math.prod(others), math.prod(last)
    if rows * columns < LEAST or columns > LONGEST or len(last) != len(dims) or dtype not in (float32, float64):
        return None
    for extent, each, its_dtype in zip(extents, shapes, dtypes, strict=True):
        if its_dtype is not (int64 if extent == "index" else dtype):
            return None
        if (
            math.prod(each) != rows
            if extent == "column"
            else each != {"full": shape, "row": last, "index": others}[extent]
        ):
            return None
    kernel = operation_kernel(name, extents, dtype, rest)
    return None if kernel is None else (kernel, rows, columns, (*others, *(1,) * len(dims)))


class NumPyPrograms(ArrayBackend):
    """Programs and formulas by kernels, else operation by operation."""

    def run(self, program: Program, xs: Sequence[Any], numbers: tuple[float, ...]) -> list[Any]:
        return list(self._call(_run, super().run, program, xs, numbers))

    def fuses(self, xs: Sequence[Any]) -> bool:
        """Also of arrays with one element beside others of one shape, which a kernel reads once."""
        large = [x for x in xs if x.size > 1]
        return bool(large) and large[0].size >= LEAST and alike(large) and _one_dtype(xs) and kernels_enabled()

    def executor(self) -> NumPyExecutor | None:
        if not kernels_enabled():
            return None
        from burnpy_numpy.plans.executor import NumPyExecutor  # not imported before the first plan

        return NumPyExecutor(self)

    def fused(self, formula: Formula, xs: Sequence[Any], numbers: tuple[float, ...] = ()) -> tuple[Any, ...]:
        if xs[0].size >= LEAST and alike(xs):
            kernel = formula_kernel(formula, xs, len(numbers))
            if kernel is not None:
                shapes = (xs[0].shape,) * len(kernel.program.outputs)
                return tuple(kernel.outputs(xs, shapes, 1, xs[0].size, numbers))
        elif self.fuses(xs):
            return self._fused_with_singles(formula, xs, numbers)
        return super().fused(formula, xs, numbers)

    def _fused_with_singles(self, formula: Formula, xs: Sequence[Any], numbers: tuple[float, ...]) -> tuple[Any, ...]:
        """Compute a formula of arrays of one shape, a row of the kernel, and of arrays with one element beside it."""
        singles = tuple([k for k, x in enumerate(xs) if x.size == 1])
        kernel = formula_kernel(formula, xs, len(numbers), singles)
        if kernel is None:
            return super().fused(formula, xs, numbers)
        shape = next(x.shape for x in xs if x.size > 1)
        outs = kernel(xs, numbers, 1, math.prod(shape))
        return tuple([out.reshape(shape if out.size > 1 else ()) for out in outs])


def _one_dtype(xs: Sequence[Any]) -> bool:
    return all(x.dtype is xs[0].dtype and (x.size > 1 or not x.ndim) for x in xs)


def _run(
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
        kernel = program_kernel(program)
        if kernel is not None:
            return kernel(xs, numbers, rows, columns)
    return default(program, xs, numbers)


def _check_index(program: Program, given: list[Any], position: int, columns: int) -> None:
    """Refuse a gather whose index, an input, names no column: a kernel would read what is not the array's."""
    from burnpy.backend.programs import ProgramError  # not imported before the first program

    step = program.instructions[position]
    if step.op != "input" or not isinstance(step.value, int):
        raise ProgramError(f"program {program.name} gathers by an index that is not one of its inputs")
    index = given[step.value]
    least, most = value_range(index) if index.size else (0, -1)
    if least < 0 or most >= columns:
        raise ProgramError(f"program {program.name} got an index out of the range of its {columns} columns")
