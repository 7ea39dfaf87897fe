"""Selecting and adding by index in one launch each, and adding to slices in place."""

from __future__ import annotations

from typing import Any

from burnpy.backend.dtypes import float32, float64, int32, int64, uint64
from burnpy.backend.primitives import Key, Shape
from burnpy_array import ArrayBackend
from burnpy_array.indexing import writable
from burnpy_cupy.library import Kernels

_CHUNK = 32
"""The number of sorted indices whose rows one thread adds up."""


class Indexing(ArrayBackend):
    """Operations by index; indices are int64, in range and not negative."""

    _kernels: Kernels

    def gather(self, x: Any, dim: int, index: Any) -> Any:
        if not index.ndim:
            return super().gather(x, dim, index)
        out = self._call(self.xp.empty, index.shape, x.dtype)
        self._call(self._kernels["burnpy_gather"], x, index, dim, out)
        return out

    def scatter_add(self, x: Any, dim: int, index: Any, src: Any) -> Any:
        if not index.ndim or x.dtype not in (float32, float64, int32, int64):
            return super().scatter_add(x, dim, index, src)
        out = self._call(self.xp.array, x, order="C")
        wrapped = uint64 if x.dtype is int64 else x.dtype  # the same sums, for which CUDA has an atomic addition
        self._call(self._kernels["burnpy_scatter_add"], src.view(wrapped), index, dim, out.view(wrapped))
        return out

    def embedding_backward(self, grad: Any, index: Any, shape: Shape, padding: int | None) -> Any:
        return self._call(_embedding_backward, self, grad, index, shape, -1 if padding is None else padding)

    def accumulate_slice(self, total: Any, key: Key, grad: Any) -> Any:
        if total.dtype is not grad.dtype or not writable(total, total.shape):
            return super().accumulate_slice(total, key, grad)
        part = total[key]
        self._call(self.xp.add, part, grad, part)
        return total


def _embedding_backward(b: Indexing, grad: Any, index: Any, shape: Shape, padding: int) -> Any:
    """Add up the rows of each index in the order in which they come, so that the bits are the same in every run."""
    xp, width = b.xp, shape[1]
    out = xp.zeros(shape, grad.dtype)
    if not grad.size:
        return out
    flat = index.reshape(-1)
    order = flat.argsort()
    ordered = flat.take(order)
    chunks = -(-flat.size // _CHUNK)
    parts = xp.empty((chunks, 2, width), float64 if grad.dtype is float64 else float32)
    rows, numbers, size = grad.reshape((flat.size, width)), (width, _CHUNK, padding), chunks * width
    b._kernels["burnpy_run_sums"](ordered, order, rows, *numbers, out, parts, size=size)
    if chunks > 1:
        b._kernels["burnpy_joined_runs"](ordered, parts, *numbers, out, size=size)
    return out
