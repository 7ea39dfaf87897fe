"""Kernels of operations on rows, such as normalization, found by one look-up of the shapes and dtypes of a call."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from burnpy.backend.dtypes import float32, float64, int64
from burnpy.backend.primitives import Dims, Shape
from burnpy_numpy.kernels.kernel import LEAST, LONGEST, lookup, operation_kernel

if TYPE_CHECKING:
    from burnpy_numpy.kernels.launch import Kernel

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
