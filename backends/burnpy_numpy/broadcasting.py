"""Elementwise operations whose operands are rows or columns of the result, as kernels.

NumPy starts its inner loop anew for each row of the result, which takes longer than a short row's arithmetic. A kernel
reads a row or a column beside a full operand in one pass.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy import ndarray

from burnpy.backend.dtypes import bool_, float32, float64
from burnpy.backend.primitives import DType, Shape
from burnpy_array.array_base import NUMBERS
from burnpy_numpy.kernels.kernel import lookup, operation_kernel

if TYPE_CHECKING:
    from burnpy_numpy.kernels.launch import Kernel

_COMPARISONS = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))
_OPERATIONS = _COMPARISONS | {"add", "sub", "mul", "div", "maximum", "minimum", "where"}
"""The operations whose kernels have the bits of NumPy's functions."""
_KEPT = 4096
"""The number of plans that are kept."""
LARGE = 1 << 10
"""The number of elements of the result from which a kernel takes less time than NumPy."""


class Layout(NamedTuple):
    """Operands as parts of a matrix."""

    shape: Shape  #: the shape of the result
    rows: int
    columns: int
    extents: tuple[str, ...]  #: for each operand: full, row or column
    spread: tuple[Shape | None, ...] | None
    """For each operand, the shape to expand it to before, or None for its own; None if all have their own."""


@lru_cache(maxsize=1024)
def layout(shapes: tuple[Shape, ...]) -> Layout | None:
    """Return the layout of operands of some shapes; None if they are no rows and columns, or there is little to do.

    Neighbouring dims along which the same operands vary are one. An operand that varies along the middle one of three
    is expanded to a column, which has few elements beside an operand that varies along all.

    >>> layout(((2, 3, 1000), (1000,)))
    Layout(shape=(2, 3, 1000), rows=6, columns=1000, extents=('full', 'row'), spread=None)
    >>> layout(((8, 3, 1000), (3, 1))).extents
    ('full', 'column')
    """
    ndim = max(map(len, shapes))
    padded = [(1,) * (ndim - len(own)) + own for own in shapes]
    sizes = [{*along} - {1} or {1} for along in zip(*padded, strict=True)]
    if any(len(found) > 1 for found in sizes):
        return None
    shape = tuple(size for found in sizes for size in found)
    if math.prod(shape) < LARGE:
        return None
    dims = [(k, tuple(own[k] != 1 for own in padded)) for k, n in enumerate(shape) if n != 1]
    groups = [(varies, [k for k, _ in group]) for varies, group in groupby(dims, key=lambda dim: dim[1])]
    if len(groups) == 3 and groups[0][0] == groups[2][0] and all(groups[1][0]):
        over_rows, over_columns = groups[1][0], groups[2][0]
    elif len(groups) == 2:
        over_rows, over_columns = groups[0][0], groups[1][0]
    else:
        return None
    words = {(True, True): "full", (False, True): "row", (True, False): "column"}
    extents = tuple(words.get(varies, "") for varies in zip(over_rows, over_columns, strict=True))
    if not all(extents):
        return None
    cut = groups[-1][1][0]
    by_row = (*shape[:cut], *(1,) * (len(shape) - cut))
    spread = tuple(by_row if extent == "column" else None for extent in extents) if len(groups) == 3 else None
    return Layout(shape, math.prod(shape[:cut]), math.prod(shape[cut:]), extents, spread)


def broadcast(name: str, x: Any, y: Any) -> Any:
    """Return an operation of two arrays of one dtype and of different shapes; None without a kernel for it.

    Args:
        name: the operation: "add", "maximum", "lt", …
        x: the first array.
        y: the second one.
    """
    key = name, x.shape, y.shape, x.dtype
    plan = _plans[key] if key in _plans else _planned(key, (x.shape, y.shape), x.dtype)
    if plan is None or not (x.flags.c_contiguous and y.flags.c_contiguous):
        return None
    return plan.run((x, y), ())


def broadcast_where(condition: Any, x: Any, y: Any) -> Any:
    """Return ``where`` of a condition, an array, and an array of its dtype or a number; None without a kernel."""
    arrays: tuple[Any, ...] = condition, x
    numbers: tuple[float, ...] = ()
    if type(y) in NUMBERS:
        numbers = (float(y),)
    elif type(y) is ndarray and y.dtype is x.dtype:
        arrays = condition, x, y
    else:
        return None
    shapes = tuple(array.shape for array in arrays)
    key = "where", shapes, x.dtype
    plan = _plans[key] if key in _plans else _planned(key, shapes, x.dtype)
    if plan is None or not all(type(array) is ndarray and array.flags.c_contiguous for array in arrays):
        return None
    return plan.run(arrays, numbers)


class _Plan(NamedTuple):
    """A kernel for operands of some shapes."""

    kernel: Kernel
    dtype: DType  #: of the result
    layout: Layout

    def run(self, arrays: tuple[Any, ...], numbers: tuple[float, ...]) -> Any:
        """Compute the result of C-contiguous arrays."""
        shape, rows, columns, _, spread = self.layout
        if spread is not None:
            arrays = tuple(
                array if to is None else np.ascontiguousarray(np.broadcast_to(array, to))
                for array, to in zip(arrays, spread, strict=True)
            )
        out = np.empty(shape, self.dtype)
        self.kernel.into((*arrays, out), numbers, rows, columns)
        return out


_plans: dict[Any, _Plan | None] = lookup()


def _planned(key: Any, shapes: tuple[Shape, ...], dtype: DType) -> _Plan | None:
    """Return the plan of an operation, and keep it.

    Args:
        key: the key to keep it by; it begins with the operation.
        shapes: the shapes of the arrays.
        dtype: the dtype of the arrays.
    """
    plan, name = None, key[0]
    found = layout(shapes) if name in _OPERATIONS and (dtype is float32 or dtype is float64) else None
    if found is not None:
        extents = found.extents
        if name == "where":  # of a mask and two arrays, or of a mask, an array and a number
            extents = f"mask_{extents[0]}", *extents[1:], *["scalar"] * (3 - len(shapes))
        kernel = operation_kernel(name, extents, dtype, ())
        if kernel is not None:
            plan = _Plan(kernel, bool_ if name in _COMPARISONS else dtype, found)
    if len(_plans) >= _KEPT:
        _plans.clear()
    return _plans.setdefault(key, plan)
