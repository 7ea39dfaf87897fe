"""Creating and converting arrays, and their shapes: views, slices, concatenation."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal

import numpy as np

from burnpy.backend.dtypes import float64, kind_of, nearest
from burnpy.backend.primitives import Dims, DType, Key, Scalar, Shape
from burnpy_array.array_base import ArrayBase


def canonical(array: np.ndarray[Any, Any], copy: bool | None, order: Literal["C", "K"]) -> np.ndarray[Any, Any]:
    """Return `numpy.array` in native byte order, with the canonical dtype object, so that dtypes compare with ``is``.

    C's long and long long may both be int64; NumPy treats them as equal dtypes, but they are two objects.
    """
    dtype = _named(array.dtype)
    out = np.array(array, dtype, copy=copy, order=order)
    return out if out.dtype is dtype else out.view(dtype)


@cache
def _named(dtype: DType) -> DType:
    return np.dtype(dtype.name)


class ArrayCreation(ArrayBase):
    """Creation and conversion; each backend implements the transfers between host and device itself."""

    def full(self, shape: Shape, value: Scalar, dtype: DType) -> Any:
        return self._call(_full, self.xp, shape, value, dtype)

    def arange(self, start: Scalar, stop: Scalar, step: Scalar, dtype: DType) -> Any:
        if kind_of(dtype) == "int":
            return self._call(self.xp.arange, start, stop, step, dtype)
        numbers = self._call(self.xp.arange, start, stop, step, float64)  # a narrow dtype would add up its errors
        return numbers if dtype is float64 else self.cast(numbers, dtype)

    def cast(self, x: Any, dtype: DType) -> Any:
        return self._call(x.astype, dtype)


def is_positive_zero(value: Any) -> bool:
    """Return whether the bits of a number that equals 0 are all 0."""
    return str(value) in ("0", "0.0", "False", "0j")


def _full(xp: Any, shape: Shape, value: Scalar, dtype: DType) -> Any:
    if value == 0 and is_positive_zero(value):
        return xp.zeros(shape, dtype)  # faster: the system provides cleared memory
    out = xp.empty(shape, dtype)
    out.fill(nearest(value, dtype))
    return out


class ArrayShape(ArrayBase):
    """Shape operations, which return views if the library does."""

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
