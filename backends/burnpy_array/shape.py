"""Operations on shapes (views, slices, concatenation), and matrix multiplication."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from burnpy.backend.dtypes import float32, float64
from burnpy.backend.primitives import Dims, Key, Shape
from burnpy_array.base import ArrayBase, is_half


class Shaping(ArrayBase):
    """Shape operations, which return views if the library does, and matrix multiplication."""

    def reshape(self, x: Any, shape: Shape) -> Any:
        return self._call(x.reshape, shape)

    def permute(self, x: Any, dims: Shape) -> Any:
        return x.transpose(dims)

    def mT(self, x: Any) -> Any:  # noqa: N802  # the contract's name
        return x.T if len(x.shape) == 2 else x.swapaxes(-1, -2)

    def expand(self, x: Any, shape: Shape) -> Any:
        return self._call(self.xp.broadcast_to, x, shape)

    def slice(self, x: Any, key: Key) -> Any:
        return x[key]

    def slice_scatter(self, x: Any, key: Key, src: Any) -> Any:
        out = self._call(self.xp.array, x, order="C")
        self._call(operator.setitem, out, key, src)
        return out

    def cat(self, xs: Sequence[Any], dim: int) -> Any:
        return self._call(self.xp.concatenate, xs, dim)

    def flip(self, x: Any, dims: Dims) -> Any:
        return self._call(self.xp.flip, x, dims) if dims else x

    def tril(self, x: Any, diagonal: int) -> Any:
        return self._call(self.xp.tril, x, diagonal)

    def triu(self, x: Any, diagonal: int) -> Any:
        return self._call(self.xp.triu, x, diagonal)

    def matmul(self, x: Any, y: Any) -> Any:
        if x.dtype is not y.dtype:
            x, y = self.promote(x, y)
        return self._call(product, self.xp, x, y)


def product(xp: Any, x: Any, y: Any) -> Any:
    """The matrix product of two arrays of one dtype; 16-bit floats go through float32, which is 200 times faster."""
    if x.dtype is not float32 and x.dtype is not float64 and is_half(x.dtype):
        return product(xp, x.astype(float32), y.astype(float32)).astype(x.dtype)
    if y.ndim == 2:
        if x.ndim == 2:
            return x.dot(y)
        if x.size and x.flags.c_contiguous:  # one large product instead of many small ones
            return x.reshape((-1, x.shape[-1])).dot(y).reshape((*x.shape[:-1], y.shape[-1]))
    return xp.matmul(x, y)
