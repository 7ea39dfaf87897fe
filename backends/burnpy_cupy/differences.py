"""Operations for which CuPy's functions differ from NumPy's, or do not support every dtype."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from burnpy.backend.dtypes import float16, float32, int8, int16, int32, int64, kind_of, uint8, uint16, uint32, uint64
from burnpy.backend.primitives import DType, Scalar
from burnpy_array.base import NUMBERS, is_half
from burnpy_cupy.availability import with_library
from burnpy_cupy.index_reduce import reduce_at
from burnpy_cupy.library import CATS, Kernels
from burnpy_cupy.random import Random

_ADDABLE = {int8: int32, int16: int32, uint8: uint32, uint16: uint32, float16: float32}
"""The accumulation dtype for dtypes that CuPy's `add.at` does not support, or rounds at each addition."""
_BITS = {1: uint8, 2: uint16, 4: uint32, 8: uint64}
"""The unsigned dtype by size in bytes, in which int ranges are computed modulo 2ⁿ."""


class Differences(Random):
    """Operations that give NumPy's results on CuPy."""

    _kernels: Kernels

    def arange(self, start: Scalar, stop: Scalar, step: Scalar, dtype: DType) -> Any:
        if kind_of(dtype) != "int":
            return super().arange(start, stop, step, dtype)
        bits, count = _BITS[dtype.itemsize], len(range(int(start), int(stop), int(step)))
        first, by = (bits.type(int(n) % (1 << 8 * dtype.itemsize)) for n in (start, step))
        out = self._call(self.xp.empty, (count,), bits)
        return self._call(self._kernels["burnpy_arange"], first, by, out).view(dtype)

    def floor_divide(self, x: Any, y: Any) -> Any:
        return self._divided("floor_divide", x, y) if kind_of(x.dtype) == "float" else super().floor_divide(x, y)

    def remainder(self, x: Any, y: Any) -> Any:
        return self._divided("remainder", x, y) if kind_of(x.dtype) == "float" else super().remainder(x, y)

    def _divided(self, operation: str, x: Any, y: Any) -> Any:
        name = f"burnpy_{operation}"
        if type(y) in NUMBERS:
            name, y = f"{name}_by", float(x.dtype.type(y))
        elif x.dtype is not y.dtype:
            x, y = self.promote(x, y)
        return self._call(self._kernels[name], x, y)

    def argmax(self, x: Any, dim: int, keepdim: bool) -> Any:
        return self._position("argmax", x, dim, keepdim)

    def argmin(self, x: Any, dim: int, keepdim: bool) -> Any:
        return self._position("argmin", x, dim, keepdim)

    def _position(self, operation: str, x: Any, dim: int, keepdim: bool) -> Any:
        wide = self.cast(x, float32) if is_half(x.dtype) else x
        return self._call(self._kernels[f"burnpy_{operation}"], wide, axis=dim, keepdims=keepdim)

    def cat(self, xs: Sequence[Any], dim: int) -> Any:
        sizes = [x.size for x in xs]
        if len(xs) not in CATS or 0 in sizes:
            return super().cat(xs, dim)
        shape, dtype = xs[0].shape, xs[0].dtype
        if dtype.kind == "V":
            return self.cat([x.view(uint16) for x in xs], dim).view(dtype)
        lengths = [x.shape[dim] for x in xs]
        out = self._call(self.xp.empty, (*shape[:dim], sum(lengths), *shape[dim + 1 :]), dtype)
        inner = math.prod(shape[dim + 1 :])
        numbers = [*[n * inner for n in lengths], sum(lengths) * inner]
        return self._call(self._kernels[f"burnpy_cat_{len(xs)}"], *xs, *numbers, out)

    def count_update(self, count: Any, total: Any) -> Any:
        if total.dtype.kind == "V":
            total = self.cast(total, float32)
        return self._call(self._kernels["burnpy_count"], count, total, total.shape[0] - 1)

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        if x.dtype.kind != "V":
            return super().where(condition, x, y)
        y = self._number(y, x.dtype) if type(y) in NUMBERS else y
        return self._call(self.xp.where, condition, x.view(uint16), y.view(uint16)).view(x.dtype)

    def tril(self, x: Any, diagonal: int) -> Any:
        return self._moved(super().tril, x, diagonal)

    def triu(self, x: Any, diagonal: int) -> Any:
        return self._moved(super().triu, x, diagonal)

    def _moved(self, f: Callable[[Any, int], Any], x: Any, diagonal: int) -> Any:
        """f(x, diagonal), for a function that only selects elements; on the bits of bfloat16, which CuPy would cast."""
        return f(x.view(uint16), diagonal).view(x.dtype) if x.dtype.kind == "V" else f(x, diagonal)

    def _last_writer(self, src: Any, dim: int, index: Any, size: int) -> Any:
        """Give every duplicate of an index the slice of its last occurrence, as CuPy writes duplicates in any order."""
        return self._call(_last_slices, self.xp, src, dim, index, size)

    def _lapack(self, function: Callable[..., Any], *args: Any) -> Any:
        """Wait for what cuSOLVER says of singular matrices, which CuPy leaves unread by default."""
        compute = super()._lapack
        with import_module("cupyx").errstate(linalg="raise"):
            return with_library(self.xp, "cuSOLVER", "decomposes matrices", lambda: compute(function, *args))

    def _add_at(self, out: Any, dim: int, index: Any, src: Any) -> None:
        self._call(_add_at, self.xp, out, (*(slice(None),) * dim, index), src)

    def _reduce_at(self, out: Any, dim: int, index: Any, src: Any, reduce: str) -> None:
        self._call(reduce_at, self.xp, out, dim, index, src, reduce)


def _last_slices(xp: Any, src: Any, dim: int, index: Any, size: int) -> Any:
    last = xp.zeros((size,), uint64)
    xp.maximum.at(last, index, xp.arange(0, index.shape[0], 1, uint64))
    return src.take(last.take(index, 0).astype(int64), dim)


def _add_at(xp: Any, out: Any, key: tuple[Any, ...], src: Any) -> None:
    if out.dtype is int64:
        xp.add.at(out.view(uint64), key, src.view(uint64))
    elif out.dtype in _ADDABLE or out.dtype.kind == "V":  # narrow ints and 16-bit floats
        wide = out.astype(_ADDABLE.get(out.dtype, float32))
        xp.add.at(wide, key, src.astype(wide.dtype))
        out[...] = wide
    else:
        xp.add.at(out, key, src)
