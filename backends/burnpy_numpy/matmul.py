"""Products of large matrices on burnpy's threads, if OpenBLAS would not use more of its own: see `threads.alone`."""

from __future__ import annotations

from typing import Any

import numpy as np

import burnpy_numpy.threads as threads
from burnpy.backend.dtypes import float32
from burnpy_numpy.kernels.operations import template_kernel
from burnpy_numpy.openblas import cblas_gemm, gemm, openblas

MAX_SINGLE_THREADED = 1 << 18
"""The number of multiplications up to which OpenBLAS uses one thread by itself."""

MIN_BIAS_FIRST = 1 << 17
"""The number of elements from which `affine` takes less time than a product and a sum."""

MIN_BIAS_FIRST_COMPILED = 1 << 10
"""The same where a compiled kernel calls OpenBLAS."""

MULTIPLICATIONS_PER_ELEMENT = 16
"""The number of multiplications that count as one element in `burnpy_numpy.threads.shared`."""


def product(x: Any, y: Any) -> Any:
    """Return the product of two matrices of float32 or float64."""
    rows, inner = x.shape
    columns = y.shape[1]
    if rows * inner * columns <= MAX_SINGLE_THREADED or x.dtype is not y.dtype or inner != y.shape[0] or not _ours():
        return x.dot(y)
    out = np.empty((rows, columns), x.dtype)
    by_rows = rows >= columns

    def work(start: int, stop: int) -> None:
        if by_rows:
            np.matmul(x[start:stop], y, out[start:stop])
        else:
            np.matmul(x, y[:, start:stop], out[:, start:stop])

    size = max(rows, columns)
    threads.shared(work, size, rows * inner * columns / size / MULTIPLICATIONS_PER_ELEMENT, products=True)
    return out


def affine(x: Any, weight: Any, bias: Any) -> Any:
    """Return x @ weight + bias for C-contiguous matrices x and a row ``bias`` of one dtype; None without OpenBLAS.

    The rows are filled with the bias, to which the product is added: OpenBLAS would fill them with zeros. By a kernel,
    or else, if there are many elements, by calls of Python.
    """
    (rows, inner), columns, single = x.shape, weight.shape[1], x.dtype is float32
    transposed = not weight.flags.c_contiguous
    blas, own = cblas_gemm(single), _ours()
    if blas is None or (transposed and not weight.flags.f_contiguous) or (own and rows < columns):
        return None
    dtype, width = ("float32", 16) if single else ("float64", 8)
    kernel = template_kernel("dense_kernels", "affine", dtype, width, transposed, blas.long)
    if kernel is None and rows * columns < MIN_BIAS_FIRST:
        return None
    out = np.empty((rows, columns), x.dtype)
    if kernel is None:
        work = _filled_and_added(x, weight, bias, out, transposed)
    else:
        table, sizes = (x, weight, np.ascontiguousarray(bias), out), (inner, columns)

        def multiplied(start: int, stop: int) -> None:
            kernel(table, sizes, start, stop)

        work = multiplied
        kernel.note()
    if own:
        threads.shared(work, rows, inner * columns / MULTIPLICATIONS_PER_ELEMENT, products=True)
    else:
        work(0, rows)
    return out


def _filled_and_added(x: Any, weight: Any, bias: Any, out: Any, transposed: bool) -> threads.Work:
    """Return the function that computes rows of `affine` without a kernel."""
    add, item = gemm(x.dtype), x.itemsize
    inner, columns = weight.shape
    left, target = x.ctypes.data, out.ctypes.data
    matrix = (weight.ctypes.data, inner if transposed else columns)

    def work(start: int, stop: int) -> None:
        out[start:stop] = bias
        sizes, place = (stop - start, columns, inner), target + start * columns * item
        add(sizes, (left + start * inner * item, inner), matrix, transposed, (place, columns))

    return work


def _ours() -> bool:
    """Return whether burnpy uses several threads, and NumPy uses OpenBLAS with no more threads than that."""
    if threads.COUNT == 1:
        return False
    blas = openblas()
    return blas is not None and blas.get() <= threads.COUNT
