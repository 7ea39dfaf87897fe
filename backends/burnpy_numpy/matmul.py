"""Products of large matrices on burnpy's threads, if OpenBLAS would not use more of its own: see `threads.alone`."""

from __future__ import annotations

from typing import Any

import numpy as np

from burnpy_numpy import threads
from burnpy_numpy.openblas import openblas

LITTLE = 1 << 18
"""The number of multiplications up to which OpenBLAS uses one thread by itself."""

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


def _ours() -> bool:
    """Return whether burnpy uses several threads, and NumPy uses OpenBLAS with no more threads than that."""
    if threads.COUNT == 1:
        return False
    blas = openblas()
    return blas is not None and blas.get() <= threads.COUNT
