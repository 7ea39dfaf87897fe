"""Sums over leading or trailing dimensions as products with a vector of ones: a third of the time of ``sum``."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from burnpy.backend.primitives import Dims, DType
from burnpy_numpy.threads import alone

_SMALL, _LONG, _PART = 512, 8192, 1024
"""`_SMALL`: fewer elements in all gain nothing. `_LONG`: a longer sum over some dimensions is left to ``sum``.
`_PART`: a sum of everything adds parts of this length, which is as exact as pairwise summation."""

_COLUMNS_APART = 128
"""The number of columns of a row that are multiplied beside each other."""

_LARGE = 9216
"""The size above which OpenBLAS divides a product with a vector among its threads."""

_add: Any = np.add.reduce
_multiply: Any = np.multiply
_einsum: Any = np.einsum


@lru_cache(64)
def row(value: int, length: int, dtype: DType) -> Any:
    """Return a cached read-only vector with one value in all elements."""
    vector = np.full(length, value, dtype)
    vector.flags.writeable = False
    return vector


def few(x: Any, dims: Dims, keepdim: bool) -> Any:
    """The sum of fewer than `_SMALL` float32 or float64 elements over ``dims``, with the least overhead."""
    shape = x.shape
    if len(shape) == len(dims) == 1:
        if not keepdim:
            return x.dot(row(1, shape[0], x.dtype))
    elif len(shape) == 2 and x.size:
        if len(dims) == 1:
            if dims[0]:
                out = x.dot(row(1, shape[1], x.dtype))
                return out.reshape((shape[0], 1)) if keepdim else out
            out = row(1, shape[0], x.dtype).dot(x)
            return out.reshape((1, shape[1])) if keepdim else out
        if dims and not keepdim and x.flags.c_contiguous:
            return x.reshape(-1).dot(row(1, x.size, x.dtype))
    return _add(x, dims, None, None, keepdim)


def total(x: Any, dims: Dims, keepdim: bool) -> Any:
    """The sum of a float32 or float64 array over ``dims``."""
    with alone(x.size > _LARGE):
        return _total(x, dims, keepdim)


def dots(x: Any, y: Any) -> Any:
    """The sums of the products of the elements of rows, as a column; of float32 or float64 matrices of one shape."""
    if x.shape[1] > _LONG:
        return total(_multiply(x, y), (1,), True)
    return _einsum("ij,ij->i", x, y).reshape((-1, 1))


def _total(x: Any, dims: Dims, keepdim: bool) -> Any:
    if x.size < _SMALL or not x.flags.c_contiguous or not dims or dims[-1] - dims[0] != len(dims) - 1:
        return _add(x, dims, None, None, keepdim)
    length = math.prod([x.shape[d] for d in dims])
    if len(dims) == x.ndim:
        out = _everything(x.reshape(-1))
    elif not 2 <= length <= _LONG:
        return _add(x, dims, None, None, keepdim)
    elif dims[-1] == x.ndim - 1:
        out = x.reshape((-1, length)).dot(row(1, length, x.dtype))
    elif dims[0] == 0:
        out = row(1, length, x.dtype).dot(x.reshape((length, -1)))
    else:
        return _add(x, dims, None, None, keepdim)
    if keepdim:
        return out.reshape([1 if d in dims else n for d, n in enumerate(x.shape)])
    return out if out.ndim == x.ndim - len(dims) else out.reshape([n for d, n in enumerate(x.shape) if d not in dims])


def _everything(x: Any) -> Any:
    whole = x.size - x.size % _PART
    parts = x[:whole].reshape((-1, _PART)).dot(row(1, _PART, x.dtype))
    return _add(parts) + _add(x[whole:])


def row_products(x: Any) -> Any:
    """The product of each row of a matrix: NumPy multiplies neighbours one after the other, columns beside each other.

    So the columns `_COLUMNS_APART` apart are multiplied first.
    """
    rows, columns = x.shape
    whole = columns // _COLUMNS_APART * _COLUMNS_APART
    part = x[:, :whole].reshape((rows, whole // _COLUMNS_APART, _COLUMNS_APART)).prod(1)
    while part.shape[1] > 16:  # halves are beside each other, too
        half = part.shape[1] // 2
        part = _multiply(part[:, :half], part[:, half:])
    out = part.prod(1)
    return out if whole == columns else _multiply(out, x[:, whole:].prod(1), out)
