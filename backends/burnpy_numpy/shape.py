"""Views, joins and padding: the last by a kernel, or in one array whose ends are filled with its own elements."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import copysign
from typing import Any

import numpy as np

from burnpy.backend.dtypes import converted, float32, float64, int16
from burnpy.backend.operations.shape import Pairs
from burnpy.backend.primitives import DType, Scalar, Shape
from burnpy_array import ArrayBackend
from burnpy_array.array_base import is_half
from burnpy_numpy.kernels.kernel import MANY, TRANSPOSED, contiguous, family_kernels
from burnpy_numpy.numpy_calls import BITS, direct, inverse, memory_order, quietly, run, spread

_concatenate: Any = direct(np.concatenate)
_WHOLE = slice(None)
_FEW_PADDED = 16
"""The least number of elements for which padding with own elements is a kernel."""
_MAX_MASK = 1 << 20
"""The size up to which masks of triangles are kept."""


class NumPyShape(ArrayBackend):
    """Creation, concatenation, views and triangles, with the least overhead for small arrays."""

    def reshape(self, x: Any, shape: Shape) -> Any:
        if x.size < TRANSPOSED or x.flags.c_contiguous or not (kernels := family_kernels("shape")):
            return x.reshape(shape)
        return self._call(_reshaped, x, shape) if kernels.is_transposed(x) else x.reshape(shape)

    def expand(self, x: Any, shape: Shape) -> Any:
        return np.broadcast_to(x, shape) if math.prod(shape) > 4096 else spread(x, shape)

    def full(self, shape: Shape, value: Scalar, dtype: DType) -> Any:
        if dtype is float32 or dtype is float64:
            try:
                return run(filled, shape, value, dtype)
            except RuntimeError:
                return quietly(filled, shape, value, dtype)
        if is_half(dtype):  # NumPy fills bfloat16 one by one
            return super().full(shape, int(super().full((), value, dtype).view(int16)), int16).view(dtype)
        return super().full(shape, value, dtype)

    def cast(self, x: Any, dtype: DType) -> Any:
        given = x.dtype
        if dtype.kind == "V" and given.kind in "iu" and given.itemsize > 2:
            return self._call(converted, x, dtype)
        if x.size >= MANY and given is not dtype and (given.itemsize == 2 or dtype.itemsize == 2):
            narrows = is_half(dtype)
            if narrows or is_half(given):
                if not ((given is float32 or given is float64) if narrows else dtype is float32):
                    return self.cast(self.cast(x, float32), dtype)  # as NumPy converts these
                if not x.flags.c_contiguous:
                    axes = memory_order((x,))
                    if axes is None:
                        return self.cast(contiguous(x), dtype)
                    return self.cast(x.transpose(axes), dtype).transpose(inverse(axes))
                if kernels := family_kernels("shape"):
                    out = kernels.converted(x, dtype)
                    if out is not None:
                        return out
        if dtype.kind == "V" and given is float64:
            return self._call(converted, x, dtype)
        return super().cast(x, dtype)

    def cat(self, xs: Sequence[Any], dim: int) -> Any:
        if (base := xs[0].base) is not None and (whole := _whole_of(xs, dim, base)) is not None:
            return whole
        return _concatenate(xs, dim)

    def stack(self, xs: Sequence[Any], dim: int) -> Any:
        if not dim:
            return np.array(xs)  # of few elements, in half the time of a concatenation
        key = (*[_WHOLE] * dim, None)
        return _concatenate([x[key] for x in xs], dim)

    def tril(self, x: Any, diagonal: int) -> Any:
        return self.where(_lower(x.shape[-2:], diagonal), x, _zero(x)) if _masked(x) else super().tril(x, diagonal)

    def triu(self, x: Any, diagonal: int) -> Any:
        return self.where(_upper(x.shape[-2:], diagonal), x, _zero(x)) if _masked(x) else super().triu(x, diagonal)

    def slice_scatter(self, x: Any, key: Any, src: Any) -> Any:
        out = copied(x)
        self._call(operator.setitem, out, key, src)
        return out


def _reshaped(x: Any, shape: Shape) -> Any:
    """Return a view of x, or of a copy by a kernel."""
    try:
        return x.reshape(shape, copy=False)
    except ValueError:  # there is no such view
        return contiguous(x).reshape(shape)
    except TypeError:  # NumPy 2.0 has no copy=False, but never copies to set a shape
        view = x.view()
        try:
            view.shape = shape
        except AttributeError:
            return contiguous(x).reshape(shape)
        return view


def _whole_of(xs: Sequence[Any], dim: int, base: Any) -> Any:
    """Return the concatenation of views that make up all of ``base``, side by side, as a view; None for others. The
    base is read-only, so that nobody finds that the memory is shared."""
    first = xs[0]
    steps, shape, dtype = first.strides, [*first.shape], first.dtype
    if type(base) is not np.ndarray or base.flags.writeable or base.dtype is not dtype or not base.flags.c_contiguous:
        return None
    if any(x.base is not base or x.strides != steps or x.dtype is not dtype for x in xs):
        return None
    if base.size != sum([x.size for x in xs]):
        return None
    start = place = _address(first)
    for x in xs:
        if _address(x) != place or x.shape != (*shape[:dim], x.shape[dim], *shape[dim + 1 :]):
            return None
        place += x.shape[dim] * steps[dim]
    shape[dim] = sum([x.shape[dim] for x in xs])
    try:
        return np.ndarray(shape, dtype, base, start - _address(base), steps)
    except ValueError:  # a step is negative
        return None


def _address(x: Any) -> int:
    """Return the address of an array's first element."""
    address: int = x.__array_interface__["data"][0]
    return address


def _masked(x: Any) -> bool:
    """Return whether ``where`` is fast for the dtype of x, and masks of its size are kept."""
    return bool(x.shape[-2] * x.shape[-1] <= _MAX_MASK and x.dtype.itemsize in BITS)


def _zero(x: Any) -> float:
    """Return 0, as a float for floats: NumPy selects few of them in two calls."""
    return 0.0 if x.dtype.kind == "f" else 0


@lru_cache(16)
def _lower(shape: Shape, diagonal: int) -> Any:
    """Return a mask of the elements up to a diagonal, which is kept."""
    rows, columns = shape
    mask = np.tri(rows, columns, diagonal, np.bool_)
    mask.flags.writeable = False
    return mask


@lru_cache(16)
def _upper(shape: Shape, diagonal: int) -> Any:
    """Return a mask of the elements from a diagonal on, which is kept."""
    mask = np.logical_not(_lower(shape, diagonal - 1))
    mask.flags.writeable = False
    return mask


def copied(x: Any) -> Any:
    """Return a C-contiguous copy of x; if it is expanded from one number, it is not read."""
    expanded = x.size > 1 and not any(x.strides)
    return filled(x.shape, x.item(0), x.dtype) if expanded else np.array(x, order="C")


def filled(shape: Shape, value: Scalar, dtype: DType) -> Any:
    """Return a version of ``numpy.full`` that takes half its time."""
    if not shape:
        return dtype.type(value)
    if value == 0 and copysign(1.0, value) > 0:
        return np.zeros(shape, dtype)  # memory that the system clears is written once
    out = np.empty(shape, dtype)
    out.fill(value)
    return out


Slices = Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]


class NumPyPadding(ArrayBackend):
    """Padding without intermediate arrays; what is cut off is left to the default."""

    def pad_ends(self, x: Any, pairs: Pairs, how: str) -> Any:
        if not x.size or min(map(min, pairs)) < 0:
            return super().pad_ends(x, pairs, how)
        if x.size >= _FEW_PADDED and (kernels := family_kernels("shape")):
            out = kernels.run_padded(x, pairs, how)
            if out is not None:
                return out
        out = np.empty([low + size + high for size, (low, high) in zip(x.shape, pairs, strict=True)], x.dtype)
        out[_inside(x.shape, pairs)] = x
        for dim in reversed(range(len(pairs))):
            for target, source in _ends(x.shape, pairs, how, dim):
                out[target] = out[source]
        return out

    def pad_ends_backward(self, grad: Any, shape: Shape, pairs: Pairs, how: str) -> Any:
        if not grad.size or min(map(min, pairs)) < 0:
            return super().pad_ends_backward(grad, shape, pairs, how)
        return self._call(_folded, grad, shape, pairs, how)


def _folded(grad: Any, shape: Shape, pairs: Pairs, how: str) -> Any:
    total = np.array(grad, order="C")
    for dim in range(len(pairs)):
        for target, source in _ends(shape, pairs, how, dim):
            added = total[target]
            total[source] += added.sum(dim, keepdims=True) if how == "replicate" else added
    return np.ascontiguousarray(total[_inside(shape, pairs)])


def _inside(shape: Shape, pairs: Pairs) -> tuple[slice, ...]:
    return tuple([slice(low, low + size) for size, (low, _) in zip(shape, pairs, strict=True)])


def _ends(shape: Shape, pairs: Pairs, how: str, dim: int) -> Slices:
    """Yield the key of each end that is added along a dimension, and the key of the slice that it repeats. Slices
    include the padding of the dimensions after ``dim``, but not of those before it."""
    before, size, (low, high) = _inside(shape[:dim], pairs[:dim]), shape[dim], pairs[dim]
    last = low + size - 1
    first, final = {
        "reflect": (slice(2 * low, low, -1), slice(last - 1, last - 1 - high if last > high else None, -1)),
        "replicate": (slice(low, low + 1), slice(last, last + 1)),
        "circular": (slice(size, size + low), slice(low, low + high)),
    }[how]
    for count, target, source in ((low, slice(low), first), (high, slice(last + 1, None), final)):
        if count:
            yield (*before, target), (*before, source)
