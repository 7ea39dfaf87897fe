"""`CompiledIndexing`: gathering, and accumulating at indices, as kernels that add one element after the other."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.dtypes import float32, float64, int64
from burnpy_array import ArrayBackend
from burnpy_numpy.kernels.operations import block_width, template_kernel

if TYPE_CHECKING:
    from burnpy_numpy.kernels.kernel import NamedKernel

_MIN_ELEMENTS = 512
"""The number of elements that are moved, from which kernels are used."""
_BYTES = 32
"""The size of the vectors by which runs are accumulated."""
_DTYPES = frozenset({float32, float64, int64})
"""The dtypes of kernels; int64 is gathered and added only."""
_COMBINE = {"prod": "mul", "amin": "min", "amax": "max"}


class CompiledIndexing(ArrayBackend):
    """Operations at indices of float32, float64 and int64. What an index out of range means, the other methods say."""

    def gather(self, x: Any, dim: int, index: Any) -> Any:
        if index.size >= _MIN_ELEMENTS and _suits(x, index, dim):
            kernel, out = (
                template_kernel("indexing_kernels", "gather", x.dtype.name, _inner(x, dim) > 1),
                np.empty(index.shape, x.dtype),
            )
            if kernel is not None and _ran(kernel, x, out, dim, index, x.shape):
                return out
        return super().gather(x, dim, index)

    def scatter_add(self, x: Any, dim: int, index: Any, src: Any) -> Any:
        if index.size >= _MIN_ELEMENTS and _suits(x, index, dim) and src.dtype is x.dtype and src.shape == index.shape:
            kernel, out = (
                template_kernel("indexing_kernels", "scatter", x.dtype.name, "add", False, _inner(x, dim) > 1, 1),
                np.array(x, order="C"),
            )
            if kernel is not None and _ran(kernel, src, out, dim, index, x.shape):
                return out
        return super().scatter_add(x, dim, index, src)

    def _add_at(self, out: Any, dim: int, index: Any, src: Any) -> None:
        if not _combined("add", out, dim, index, src):
            super()._add_at(out, dim, index, src)

    def _reduce_at(self, out: Any, dim: int, index: Any, src: Any, reduce: str) -> None:
        if not _combined(_COMBINE[reduce], out, dim, index, src):
            super()._reduce_at(out, dim, index, src, reduce)


def _inner(x: Any, dim: int) -> int:
    """Return the number of elements of a run along the dimensions after ``dim``."""
    return math.prod(x.shape[dim + 1 :])


def _suits(x: Any, index: Any, dim: int) -> bool:
    """Return whether there is an index for each element of whole slices of x, of a usual dtype."""
    return (
        x.dtype in _DTYPES
        and index.dtype is int64
        and all(n == m or d == dim for d, (n, m) in enumerate(zip(index.shape, x.shape, strict=True)))
    )


def _combined(combine: str, out: Any, dim: int, index: Any, src: Any) -> bool:
    """Combine slices of src in place with those of ``out`` at a 1-d index; return whether there is a kernel for it."""
    dtype = out.dtype
    if (
        src.size < _MIN_ELEMENTS
        or not (dtype in _DTYPES and (dtype is not int64 or combine == "add"))
        or src.dtype is not dtype
        or index.dtype is not int64
        or not out.flags.c_contiguous
        or src.shape != (*out.shape[:dim], len(index), *out.shape[dim + 1 :])
    ):
        return False
    inner = _inner(out, dim)
    if inner == 1:
        kernel = template_kernel("indexing_kernels", "scatter", dtype.name, combine, False, False, 1)
    else:
        width = block_width(inner, _BYTES // dtype.itemsize)
        kernel = template_kernel("indexing_kernels", "scatter", dtype.name, combine, True, True, width)
    if kernel is None:
        return False
    if not _ran(kernel, src, out, dim, index, out.shape):
        raise IndexError(f"an index into {out.shape[dim]} slices is out of range")
    return True


def _ran(kernel: NamedKernel, x: Any, out: Any, dim: int, index: Any, shape: Any) -> bool:
    """Run a kernel for an indexed array of the given shape; return whether all indices are in range."""
    outer, size, inner = math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])
    count, wrong = index.size if index.ndim == 1 else index.shape[dim], np.zeros(1, int64)
    sizes = (size, count, inner, 0 if index.ndim == 1 else count * inner)
    kernel.run((np.ascontiguousarray(x), out, np.ascontiguousarray(index), wrong), sizes, outer, count * inner)
    return not wrong[0]
