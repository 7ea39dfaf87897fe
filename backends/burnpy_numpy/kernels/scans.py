"""`CompiledScans`: cumulative sums, products and extremes, and linear recurrences, as kernels.

Sums and products are added and multiplied in NumPy's order, and so have its bits.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.dtypes import float32, float64, int64
from burnpy_array import ArrayBackend
from burnpy_numpy.kernels.operations import MANY, block_starts, block_width, template_kernel
from burnpy_numpy.ordering import WIDE

if TYPE_CHECKING:
    from burnpy_numpy.kernels.kernel import NamedKernel

_ROWS = 8
"""The number of rows that are scanned at a time."""
_BYTES = 64
"""The size of the parts of columns that are scanned at a time, which are a line of the cache."""


class CompiledScans(ArrayBackend):
    """Scans of float32 and float64."""

    def cumsum(self, x: Any, dim: int) -> Any:
        scan = None if _beside(x, dim) >= WIDE else _scan_of("add", x, dim)
        return super().cumsum(x, dim) if scan is None else scan(x)[0]

    def cumprod(self, x: Any, dim: int) -> Any:
        scan = None if _beside(x, dim) >= WIDE else _scan_of("mul", x, dim)
        return super().cumprod(x, dim) if scan is None else scan(x)[0]

    def cummax(self, x: Any, dim: int) -> tuple[Any, Any]:
        scan = _scan_of("max", x, dim)
        return super().cummax(x, dim) if scan is None else scan(x)

    def cummin(self, x: Any, dim: int) -> tuple[Any, Any]:
        scan = _scan_of("min", x, dim)
        return super().cummin(x, dim) if scan is None else scan(x)

    def cummax_index(self, x: Any, dim: int) -> Any:
        scan = _scan_of("max", x, dim)
        return super().cummax_index(x, dim) if scan is None else scan(x)[1]

    def cummin_index(self, x: Any, dim: int) -> Any:
        scan = _scan_of("min", x, dim)
        return super().cummin_index(x, dim) if scan is None else scan(x)[1]

    def recurrence(self, factor: Any, x: Any, dim: int) -> Any:
        scan = _scan_of("recurrence", x, dim) if factor.shape == x.shape and factor.dtype is x.dtype else None
        return super().recurrence(factor, x, dim) if scan is None else scan(x, factor)[0]


class _Scan:
    """A kernel, and how it divides an array."""

    def __init__(self, kernel: NamedKernel, dim: int, width: int, combine: str) -> None:
        self.kernel, self.dim, self.width, self.combine = kernel, dim, width, combine

    def __call__(self, x: Any, factor: Any = None) -> tuple[Any, Any]:
        """Return the scan, and the indices of extremes, if it has any."""
        length, inner = x.shape[self.dim], _beside(x, self.dim)
        if inner == 1:  # blocks of rows
            starts = block_starts(x.size // length, self.width) * length
            sizes = (length, 1, length)
        else:
            firsts = np.arange(0, x.size, length * inner)
            starts = np.add.outer(firsts, block_starts(inner, self.width)).reshape(-1)
            sizes = (length, inner, 1)
        x, out = np.ascontiguousarray(x), np.empty(x.shape, x.dtype)
        other = None if factor is None else np.ascontiguousarray(factor)
        if self.combine in ("max", "min"):
            other = np.empty(x.shape, int64)
        arrays = [a for a in (x, out, starts, other) if a is not None]
        self.kernel.run(arrays, sizes, len(starts), length * self.width)
        return out, other


def _scan_of(combine: str, x: Any, dim: int) -> _Scan | None:
    """Return the scan of x along a dimension; None if there is none, for it or for so few elements."""
    if x.size < MANY or not (x.dtype is float32 or x.dtype is float64) or x.shape[dim] < 2:
        return None
    inner = _beside(x, dim)
    scans, most = (x.size // x.shape[dim], _ROWS) if inner == 1 else (inner, _BYTES // x.dtype.itemsize)
    width = block_width(scans, most)
    kernel = template_kernel("scan_kernels", "scan", x.dtype.name, combine, width, inner > 1 or width == 1)
    return None if kernel is None else _Scan(kernel, dim, width, combine)


def _beside(x: Any, dim: int) -> int:
    """Return the number of elements that lie beside each other along the dimensions after ``dim``."""
    return math.prod(x.shape[dim + 1 :])
