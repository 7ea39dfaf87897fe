"""Products of large matrices on burnpy's threads, if OpenBLAS would not use more of its own: see `threads.alone`."""

from __future__ import annotations

from typing import Any

import numpy as np

from burnpy_numpy import threads
from burnpy_numpy.openblas import gemm, openblas

LITTLE = 1 << 18
"""The number of multiplications up to which OpenBLAS uses one thread by itself."""

LARGE = 1 << 17
"""The number of elements from which a sum takes longer than to have OpenBLAS add to a matrix."""

_DEAR = 16
"""The number of multiplications that count as one element in `burnpy_numpy.threads.shared`."""


def product(x: Any, y: Any) -> Any:
    """Return the product of two matrices of float32 or float64."""
    rows, inner = x.shape
    columns = y.shape[1]
    if rows * inner * columns <= LITTLE or x.dtype is not y.dtype or inner != y.shape[0] or not _ours():
        return x.dot(y)
    out = np.empty((rows, columns), x.dtype)
    by_rows = rows >= columns

    def work(start: int, stop: int) -> None:
        if by_rows:
            np.matmul(x[start:stop], y, out[start:stop])
        else:
            np.matmul(x, y[:, start:stop], out[:, start:stop])

    size = max(rows, columns)
    threads.shared(work, size, rows * inner * columns / size / _DEAR, products=True)
    return out


def affine(x: Any, y: Any, bias: Any) -> Any:
    """Return x @ y + bias for large C-contiguous x and a row ``bias`` of one dtype; None if OpenBLAS cannot add to it.

    The rows are filled with the bias, to which the product is added: OpenBLAS would fill them with zeros.
    """
    (rows, inner), columns, item = x.shape, y.shape[1], x.itemsize
    add, own = gemm(x.dtype), _ours()
    transposed = not y.flags.c_contiguous
    if add is None or (transposed and not y.flags.f_contiguous) or (own and rows < columns):
        return None
    out = np.empty((rows, columns), x.dtype)
    left, right, target = x.ctypes.data, y.ctypes.data, out.ctypes.data
    matrix = (right, inner if transposed else columns)

    def work(start: int, stop: int) -> None:
        out[start:stop] = bias
        sizes, place = (stop - start, columns, inner), target + start * columns * item
        add(sizes, (left + start * inner * item, inner), matrix, transposed, (place, columns))

    if own:
        threads.shared(work, rows, inner * columns / _DEAR, products=True)
    else:
        work(0, rows)
    return out


def _ours() -> bool:
    """Return whether burnpy uses several threads, and NumPy uses OpenBLAS with no more threads than that."""
    if threads.COUNT == 1:
        return False
    blas = openblas()
    return blas is not None and blas.get() <= threads.COUNT
