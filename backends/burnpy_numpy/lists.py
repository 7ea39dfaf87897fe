"""Formulas of lists, such as the update of all parameters, of one array after another, each block by block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.dtypes import float32, float64
from burnpy.backend.operations.lists import Formula, no_results, one_position
from burnpy.backend.primitives import DType
from burnpy_array import ArrayBackend
from burnpy_array.base import NUMBERS

if TYPE_CHECKING:
    from burnpy_numpy.block_kernel import BlockKernel

_SMALL = 4096
"""The size below which an array is computed by one operation after another, unless its states are updated in place."""


class Lists(ArrayBackend):
    """Formulas of lists for NumPy; arrays of 16-bit floats, and of several dtypes, are left to the default."""

    def foreach(
        self,
        formula: Formula,
        lists: Sequence[Sequence[Any]],
        numbers: tuple[Any, ...] = (),
        flags: tuple[bool, ...] = (),
        owned: bool = False,
        skipped: Any = None,
    ) -> tuple[list[Any], ...]:
        if skipped is not None:
            return super().foreach(formula, lists, numbers, flags, owned, skipped)
        varies = not NUMBERS.issuperset(map(type, numbers))
        bound: dict[DType, Callable[..., Any]] = {}
        rows: list[Sequence[Any]] = []
        for position, row in enumerate(zip(*lists, strict=True)):
            first, kernel = row[0], None
            dtype = first.dtype
            if (owned or first.size >= _SMALL) and [x.dtype for x in row].count(dtype) == len(row):
                kernel = _kernel(formula, len(lists), len(numbers), dtype, flags)
            if kernel is None:
                rows.append(one_position(self, formula, position, row, numbers, flags))
                continue
            block = bound.get(dtype)
            if block is None or varies:
                values = [x[position] if getattr(x, "ndim", 0) else x for x in numbers] if varies else numbers
                block = bound[dtype] = kernel.bound(values)
            rows.append(self._call(kernel.into, block, row, _memory(kernel, row, owned)))
        return tuple(map(list, zip(*rows, strict=True))) if rows else no_results(lists)


@cache
def _kernel(formula: Formula, arrays: int, numbers: int, dtype: DType, flags: tuple[bool, ...]) -> BlockKernel | None:
    """Return the block kernel of a formula, whose results after the first may be in the memory of the states.

    None if the formula is no elementwise program, or returns an array that it is given.
    """
    if dtype is not float32 and dtype is not float64:
        return None
    from burnpy.backend.program import ProgramError  # not imported before the first list
    from burnpy.backend.program.fused import program_of
    from burnpy_numpy.block_kernel import BlockKernel
    from burnpy_numpy.block_source import in_one_pass

    try:
        program = program_of(formula, dtype.name, arrays, numbers, flags)
    except ProgramError:
        return None
    returned = any(program.instructions[k].op == "input" for k in program.outputs)
    if returned or not program.elementwise or not in_one_pass(program):
        return None
    return BlockKernel(program, {k: k + 1 for k in range(1, len(program.outputs))})


def _memory(kernel: BlockKernel, row: Sequence[Any], owned: bool) -> list[Any]:
    """Return memory for the results: that of the states, where they are owned, and new memory."""
    shape, dtype = row[0].shape, row[0].dtype
    outs: list[Any] = [np.empty(shape, dtype)]
    for k in range(2, 1 + len(kernel.program.outputs)):
        x = row[k] if k < len(row) else None
        in_place = owned and type(x) is np.ndarray and (layout := x.flags).c_contiguous and layout.writeable
        outs.append(x if in_place else np.empty(shape, dtype))
    return outs
