"""Ranges, copies to another shape, concatenation and triangles, of all dtypes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from burnpy.backend.dtypes import kind_of, uint8, uint16, uint32, uint64
from burnpy.backend.primitives import DType, Scalar, Shape
from burnpy_array import ArrayBackend
from burnpy_cupy.kernels.elementwise_kernel import INDEX, Elementwise, contiguous
from burnpy_cupy.kernels.kernel import Kernels
from burnpy_cupy.kernels.launch import Lattice
from burnpy_cupy.runtime import empty

_BITS = {1: uint8, 2: uint16, 4: uint32, 8: uint64}
"""The unsigned dtype by size in bytes, in which int ranges are computed modulo 2ⁿ."""


def _cat(count: int) -> Elementwise:
    """Return the kernel that concatenates arrays whose dimensions are (outer, sizes of the arrays, inner)."""
    names = range(count)
    picks = "".join(f"if (at < n{k}) y = x{k}[outer * n{k} + at]; else {{ at -= n{k}; " for k in names[:-1])
    return Elementwise(
        ", ".join([*(f"raw T x{k}" for k in names), *(f"int32 n{k}" for k in names), "int32 row"]),
        "T y",
        f"const index_t outer = i / row; index_t at = i - outer * row; {picks} "
        f"y = x{count - 1}[outer * n{count - 1} + at];" + " }" * (count - 1),
        INDEX,
    )


CATS = range(1, 9)
"""The numbers of arrays for which there is a kernel that concatenates them."""
SHAPE = {
    **{f"burnpy_cat_{count}": _cat(count) for count in CATS},
    "burnpy_arange": Elementwise("T start, T step", "T x", "x = start + static_cast<T>(i) * step"),
}


@lru_cache(1024)
def _is_view(shape: Shape, strides: Shape, new: Shape) -> bool:
    """Return whether an array of a shape and strides can be reshaped without a copy."""
    rest = [n for n in reversed(new) if n != 1]
    for size in Lattice(shape, {"x": strides}).merged().sizes:
        while size > 1:
            if not rest or size % rest[-1]:
                return False
            size //= rest.pop()
    return True


def _beside(shape: Shape, dim: int) -> Shape:
    """Return the sizes of the other dimensions."""
    return (*shape[:dim], *shape[dim + 1 :])


class CuPyShape(ArrayBackend):
    """Ranges, copies, concatenation in one launch, and triangles of bfloat16."""

    _kernels: Kernels

    def reshape(self, x: Any, shape: Shape) -> Any:
        if not x._c_contiguous and not _is_view(x.shape, x.strides, shape):
            x = self._call(contiguous, self.xp, x)
        return self._call(x.reshape, shape)

    def arange(self, start: Scalar, stop: Scalar, step: Scalar, dtype: DType) -> Any:
        if kind_of(dtype) != "int":
            return super().arange(start, stop, step, dtype)
        bits, count = _BITS[dtype.itemsize], len(range(int(start), int(stop), int(step)))
        first, by = (bits.type(int(n) % (1 << 8 * dtype.itemsize)) for n in (start, step))
        out = self._call(empty, self.xp, (count,), bits)
        return self._call(self._kernels["burnpy_arange"], first, by, out).view(dtype)

    def cat(self, xs: Sequence[Any], dim: int) -> Any:
        shape, dtype = xs[0].shape, xs[0].dtype
        if len(xs) == 1 or any(not x.size or _beside(x.shape, dim) != _beside(shape, dim) for x in xs):
            return super().cat(xs, dim)  # which refuses other sizes beside the dimension
        if dtype.kind == "V":
            return self.cat([x.view(uint16) for x in xs], dim).view(dtype)
        lengths = [x.shape[dim] for x in xs]
        out = self._call(empty, self.xp, (*shape[:dim], sum(lengths), *shape[dim + 1 :]), dtype)
        inner, most, begin = math.prod(shape[dim + 1 :]), CATS[-1], 0
        for start in range(0, len(xs), most):
            some, sizes = xs[start : start + most], lengths[start : start + most]
            end = begin + sum(sizes)
            part = out if len(xs) <= most else out[(*(slice(None),) * dim, slice(begin, end))]
            numbers = [*[n * inner for n in sizes], sum(sizes) * inner]
            self._call(self._kernels[f"burnpy_cat_{len(some)}"], *some, *numbers, part)
            begin = end
        return out

    def tril(self, x: Any, diagonal: int) -> Any:
        return self._moved(super().tril, x, diagonal)

    def triu(self, x: Any, diagonal: int) -> Any:
        return self._moved(super().triu, x, diagonal)

    def _moved(self, f: Callable[[Any, int], Any], x: Any, diagonal: int) -> Any:
        """f(x, diagonal), for a function that only selects elements; on the bits of bfloat16, which CuPy would cast."""
        return f(x.view(uint16), diagonal).view(x.dtype) if x.dtype.kind == "V" else f(x, diagonal)
