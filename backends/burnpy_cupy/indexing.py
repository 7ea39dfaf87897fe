"""Selecting and adding by index in one launch each, and adding to slices in place."""

from __future__ import annotations

from typing import Any

from burnpy.backend.dtypes import float32, float64, int32, int64, uint64
from burnpy.backend.primitives import Key
from burnpy_array import ArrayBackend
from burnpy_array.indexing import writable
from burnpy_cupy.kernels import Kernels


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

    def accumulate_slice(self, total: Any, key: Key, grad: Any) -> Any:
        if total.dtype is not grad.dtype or not writable(total, total.shape):
            return super().accumulate_slice(total, key, grad)
        part = total[key]
        self._call(self.xp.add, part, grad, part)
        return total
