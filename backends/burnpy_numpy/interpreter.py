"""Running a program block by block with NumPy's functions, so that what is in between stays in the cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from burnpy.backend.dtypes import dtype_of, kind_of
from burnpy.backend.program import Extent, Instruction, Program
from burnpy_array.base import is_half
from burnpy_array.pointwise import BINARY, UNARY, sigmoid
from burnpy_numpy.row_sums import total
from burnpy_numpy.special import erf
from burnpy_numpy.threads import shared

_BLOCK = 1 << 15
"""The number of elements of a block. It does not depend on the number of threads, and so neither do sums over rows."""

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{ours: getattr(np, theirs) for ours, theirs in (*UNARY.items(), *BINARY.items())},
    "sigmoid": lambda x: sigmoid(np, x),
    "erf": erf,
    "where": np.where,
    "expand": np.asarray,
}
_largest: Any = np.maximum.reduce


def can_interpret(program: Program) -> bool:
    """Return whether a program needs one pass over the rows and has no 16-bit floats, which would be rounded too often.

    It needs one pass if no instruction uses a sum or a maximum over rows.
    """
    steps = program.instructions
    if any(is_half(dtype_of(step.dtype)) for step in steps):
        return False
    return not any(_over_rows(steps[a]) for step in steps for a in step.args)


def _over_rows(step: Instruction) -> bool:
    return step.op in ("sum", "amax") and step.value == 0


def interpret(program: Program, xs: Sequence[Any], numbers: Sequence[float]) -> list[Any]:
    """Return the results of a program that `can_interpret` accepts, in new memory."""
    given, rows, columns = program.bind(xs, numbers)
    height = max(1, _BLOCK // max(columns, 1))
    blocks = max(1, -(-rows // height))  # one for no rows, whose sums are 0
    steps = [program.instructions[k] for k in program.outputs]
    results: list[Any] = [
        [None] * blocks if _over_rows(step) else np.empty(step.extent.shape(rows, columns), dtype_of(step.dtype))
        for step in steps
    ]

    def work(begin: int, end: int) -> None:
        for block in range(begin, end):
            part = slice(block * height, min((block + 1) * height, rows))
            values = _values(program, given, part, (rows, columns))
            for result, step, k in zip(results, steps, program.outputs, strict=True):
                if _over_rows(step):
                    result[block] = values[k]
                else:
                    result[part if step.extent.over_rows else ...] = values[k]

    shared(work, blocks, height * columns)
    return [
        _joined(step, result).reshape(step.extent.shape(rows, columns)) if _over_rows(step) else result
        for step, result in zip(steps, results, strict=True)
    ]


def _joined(step: Instruction, parts: list[Any]) -> Any:
    """Add up the sums of the blocks, or take the maximum of their maxima."""
    stacked = np.stack(parts)
    return np.asarray(stacked.sum(0) if step.op == "sum" else stacked.max(0))


def _values(program: Program, given: list[Any], part: slice, sizes: tuple[int, int]) -> list[Any]:
    """Return the results of all instructions on some rows."""
    values: list[Any] = []
    for op, args, extent, name, value in program.instructions:
        dtype, operands = dtype_of(name), [values[a] for a in args]
        if op == "input":
            assert isinstance(value, int)
            x = given[value]
            values.append(dtype.type(x) if extent is Extent.SCALAR else x[part] if extent.over_rows else x)
        elif op == "constant":
            number = float.fromhex(str(value)) if kind_of(dtype) == "float" else int(str(value))
            values.append(dtype.type(number))
        elif op == "length":
            assert isinstance(value, int)
            values.append(dtype.type(sizes[value]))
        elif op == "index":
            values.append(np.arange(part.start, part.stop).reshape(-1, 1) if value == 0 else np.arange(sizes[1]))
        elif op == "cast":
            values.append(np.asarray(operands[0]).astype(dtype))
        elif op in ("sum", "amax"):
            assert isinstance(value, int)
            values.append(_reduced(op, np.asarray(operands[0]), value, program.instructions[args[0]].extent))
        elif op == "gather":
            values.append(np.take_along_axis(operands[0], operands[1], 1))
        else:
            values.append(_FUNCTIONS[op](*operands))
    return values


def _reduced(op: str, x: Any, axis: int, extent: Extent) -> Any:
    """Reduce a block, which has one dimension if it is a row: over columns to a column, over rows to a row."""
    dims = (axis,) if x.ndim == 2 else (0,)
    keepdim = axis == 1 and extent is Extent.FULL
    return total(x, dims, keepdim) if op == "sum" else _largest(x, dims, None, None, keepdim)
