"""Gathering, accumulating at indices and in place, weighted sums of rows at indices, and choosing by masks."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy import ndarray

from burnpy.backend.dtypes import float32, float64, int64
from burnpy.backend.errors import raised_by_other_code
from burnpy.backend.operations.indexing import out_of_bounds
from burnpy.backend.primitives import Key, Shape, below, value_range
from burnpy_array import ArrayBackend
from burnpy_array.array_base import NUMBERS, is_half
from burnpy_numpy.kernels.kernel import MANY, family_kernels, operation_kernel
from burnpy_numpy.numpy_calls import BITS, run

_add = np.add
MOST_DIMS = 32
"""The number of dimensions up to which all of NumPy's functions work."""
_REDUCE = {"prod": np.multiply, "amin": np.minimum, "amax": np.maximum}
_MAX_UNFLATTENED = 256
"""The number of elements up to which `numpy.ufunc.at` is called without flattening the arrays."""
_MIN_ROW = 16
"""The least length for which rows are combined as rows, not element by element."""
_MAX_ROUNDS = 4
"""The number of rows with one index up to which the first rows of all indices are combined at once, then the second."""
_MANY_EACH = 2048
"""The number of indices for each element, on average, from which float32 are added in float64."""
_MIN_ELEMENTS = 512
"""The least number of moved elements for which kernels are used."""
_MIN_SCATTERED = 16
"""The same where NumPy needs several calls."""


class NumPyIndexing(ArrayBackend):
    """Operations at indices by kernels, which move one element after the other, else by few calls of NumPy. Gradients
    are accumulated in the memory of ``total``; if it is a NumPy scalar or read-only, the sum is a new array."""

    def index_select(self, x: Any, dim: int, index: Any) -> Any:
        if x.ndim == 1:
            return x[index]  # in half the time of `take`
        if x.size < _MIN_ELEMENTS or x.flags.c_contiguous:
            kernels = None
            if dim == x.ndim - 1 and index.size * (x.size // max(x.shape[dim], 1)) >= MANY:
                kernels = family_kernels("indexing")
            out = None if kernels is None else kernels.selected(x, index)
            return x.take(index, dim) if out is None else out
        few = 2 * index.size <= x.shape[dim] or abs(x.strides[dim]) == max(map(abs, x.strides))
        return x[(*(slice(None),) * dim, index)] if few else x.take(index, dim)  # which copies all of x

    def gather(self, x: Any, dim: int, index: Any) -> Any:
        if index.size >= _MIN_ELEMENTS and (kernels := family_kernels("indexing")):
            out = kernels.gathered(x, dim, index)
            if out is not None:
                return out
        if x.ndim > MOST_DIMS:
            rows = x[tuple([slice(None) if d == dim else slice(n) for d, n in enumerate(index.shape)])]
            return self.gather(folded(rows, dim), 1, folded(index, dim)).reshape(index.shape)
        if x.ndim < 2 or not x.size or not x.flags.c_contiguous:
            return super().gather(x, dim, index)
        return self._call(_gather, x, dim, index)

    def nonzero(self, x: Any) -> Any:
        """Return the array whose columns NumPy returns, without a copy."""
        if x.ndim:
            first = self._call(x.nonzero)[0]
            places = first.base
            if places is not None and places.shape == (len(first), x.ndim) and first.strides[0] == places.strides[0]:
                return places
        return super().nonzero(x)

    def one_hot(self, index: Any, classes: int) -> Any:
        out = np.zeros((*index.shape, classes), int64)
        flat, inside = index.reshape(-1), np.flatnonzero((index >= 0) & (index < classes))
        out.reshape((-1, classes))[inside, flat[inside]] = 1
        return out

    def scatter(self, x: Any, dim: int, index: Any, src: Any) -> Any:
        if index.size >= _MIN_SCATTERED and (kernels := family_kernels("indexing")):
            out = kernels.scattered(x, dim, index, src, "set")
            if out is not None:
                return out
        return super().scatter(x, dim, index, src)

    def scatter_add(self, x: Any, dim: int, index: Any, src: Any) -> Any:
        if index.size >= _MIN_ELEMENTS and is_half(x.dtype):  # in 16 bits each addition would be rounded
            return self._in_float32(self.scatter_add, x, dim, index, src)[0]
        if index.size >= _MIN_SCATTERED and (kernels := family_kernels("indexing")):
            out = kernels.scattered(x, dim, index, src, "add")
            if out is not None:
                return out
        return super().scatter_add(x, dim, index, src)

    def accumulate(self, total: Any, grad: Any) -> Any:
        if type(total) is ndarray and total.dtype is grad.dtype:
            try:
                return run(_add, total, grad, total)
            except (RuntimeError, ValueError) as error:  # the context is in use; total is read-only, or too small
                if raised_by_other_code(error, ()):
                    raise
        return self.add(total, grad)

    def bounded(
        self, index: Any, low: int, high: int, error: Callable[[int], Exception], ignored: int | None = None
    ) -> Any:
        if ignored is not None:
            index = self.where(index != ignored, index, low)
        elif low <= 0 and index.dtype is int64 and below(index, high + 1):
            return index
        if index.size:
            exception = out_of_bounds(*value_range(index), low, high, error)
            if exception is not None:
                raise exception
        return index

    def bounded_from_end(self, index: Any, size: int, error: Callable[[int], Exception]) -> Any:
        return index if below(index, size) else super().bounded_from_end(index, size, error)

    def index_order(self, index: Any, size: int) -> Any:
        return order_of(index, size)

    def _add_at(self, out: Any, dim: int, index: Any, src: Any) -> None:
        if is_half(out.dtype):
            wide = self.cast(out, float32)
            self._add_at(wide, dim, index, self.cast(src, float32))
            out[...] = self.cast(wide, out.dtype)
        elif not _combined("add", out, dim, index, src):
            self._call(combine_at, _add, out, dim, index, src)

    def _reduce_at(self, out: Any, dim: int, index: Any, src: Any, reduce: str) -> None:
        if not _combined(reduce, out, dim, index, src):
            self._call(combine_at, _REDUCE[reduce], out, dim, index, src)

    def accumulate_slice(self, total: Any, key: Key, grad: Any) -> Any:
        if type(total) is not ndarray or not total.flags.writeable:
            return super().accumulate_slice(total, key, grad)
        part = total[key]
        if type(part) is ndarray:
            self._call(_add, part, grad, part)
        else:
            total[key] = self.add(part, grad)
        return total


def adds_many(x: Any, dim: int, index: Any) -> bool:
    """Return whether so many float32 are added to each element that they are summed in float64: their roundings would
    add up, and the sums take little memory beside them."""
    return x.dtype is float32 and (index.size if index.ndim == 1 else index.shape[dim]) >= _MANY_EACH * x.shape[dim] > 0


def _combined(reduce: str, out: Any, dim: int, index: Any, src: Any) -> bool:
    """Combine slices of src in place with those of ``out`` at a 1-d index; return whether there is a kernel for it."""
    kernels = None if src.size < _MIN_ELEMENTS else family_kernels("indexing")
    return kernels is not None and bool(kernels.combined(reduce, out, dim, index, src))


def _gather(x: Any, dim: int, index: Any) -> Any:
    inner = math.prod(x.shape[dim + 1 :])
    starts = (_kept_starts if index.size <= _MIN_ELEMENTS else _starts)(x.shape, dim, index.shape)
    return x.reshape(-1).take(np.add(index if inner == 1 else np.multiply(index, inner), starts))


def _starts(shape: Shape, dim: int, counts: Shape) -> Any:
    """Return the places, in an array of a shape, of the first ``counts`` elements along all dimensions but ``dim``."""
    out: Any = np.zeros((1,) * len(shape), int64)
    for other, count in enumerate(counts):
        if other != dim and count > 1:
            step = math.prod(shape[other + 1 :])
            out = out + np.arange(0, count * step, step, dtype=int64).reshape((-1, *(1,) * (len(shape) - other - 1)))
    return out


_kept_starts = lru_cache(256)(_starts)


def combine_at(f: Any, out: Any, dim: int, index: Any, src: Any) -> None:
    """Combine the slices of src along ``dim`` with those of ``out`` at ``index`` by the ufunc ``f``, in place.
    `numpy.ufunc.at` is fast for 1-d arrays only, so larger arrays are flattened, with an index for each element."""
    if f is _add and adds_many(out, dim, index):
        wide = out.astype(float64)
        combine_at(f, wide, dim, index, src.astype(float64))
        out[...] = wide
        return
    if src.size <= _MAX_UNFLATTENED or out.ndim == 1 or not out.flags.c_contiguous:
        key: Any = (*(slice(None),) * dim, index)
        f.at(out, key, src)
        return
    outer, size, inner = math.prod(out.shape[:dim]), out.shape[dim], math.prod(out.shape[dim + 1 :])
    if outer == 1 and inner >= _MIN_ROW:
        _combine_rows(f, out.reshape((size, inner)), index, src.reshape((-1, inner)))
        return
    # the position of each slice among those of all outer dimensions, and then of each element
    slices = np.add.outer(np.arange(0, outer * size, size), index)
    np.multiply(slices, inner, slices)
    flat = np.add.outer(slices, np.arange(inner)) if inner > 1 else slices
    f.at(out.reshape(-1), flat.reshape(-1), src.reshape(-1))


def _combine_rows(f: Any, out: Any, index: Any, src: Any) -> None:
    """Combine rows of src with those of ``out``. Of many short runs of rows with one index, the first rows of all runs
    are combined at once, then the second ones, and so on; of few long runs, each is reduced at once."""
    order = order_of(index, len(out))
    ordered = index.take(order)
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    lengths = np.diff(np.append(starts, len(order)))
    short = int(lengths.max())
    if short > _MAX_ROUNDS and short * 4 > len(starts):
        short = 1
        for start, length in zip(starts[lengths > 1].tolist(), lengths[lengths > 1].tolist(), strict=True):
            target = out[ordered[start]]
            f(target, f.reduce(src.take(order[start : start + length], 0), 0), out=target)
        starts = starts[lengths == 1]
        lengths = lengths[lengths == 1]
    for place in range(short):
        at = starts[lengths > place] + place
        rows = ordered[at]
        out[rows] = f(out.take(rows, 0), src.take(order[at], 0))


def folded(x: Any, dim: int) -> Any:
    """Return x with three dimensions: those before ``dim``, it, and those after it."""
    return x.reshape((math.prod(x.shape[:dim]), x.shape[dim], math.prod(x.shape[dim + 1 :])))


def order_of(index: Any, size: int) -> Any:
    """Return the stable argsort of a 1-d index into ``size`` slices. It sorts 16 bits at a time, for which NumPy uses a
    radix sort, in a tenth of the time of sorting int64."""
    order = index.astype(np.uint16).argsort(kind="stable")
    for bits in range(16, max(size - 1, 0).bit_length(), 16):
        order = order[(index[order] >> bits).astype(np.uint16).argsort(kind="stable")]
    return order


class NumPyEmbedding(ArrayBackend):
    """Sums of rows by a kernel; few elements, and what has no kernel, as by default."""

    def sum_rows(self, x: Any, source: Any, target: Any, scale: Any, count: int) -> Any:
        if (
            len(source) * x.shape[1] >= MANY
            and below(source, len(x))
            and below(target, count)
            and (kernels := family_kernels("indexing"))
        ):
            out = kernels.rows_summed(x, source, target, scale, count)
            if out is not None:
                return out
        return super().sum_rows(x, source, target, scale, count)


def blendable(x: Any) -> bool:
    """Return whether x is contiguous, and its bits can be viewed as ints."""
    return type(x) is np.ndarray and x.dtype.itemsize in BITS and bool(x.flags.c_contiguous)


def kept_bits(condition: Any, x: Any) -> Any:
    """x where condition is true, 0 elsewhere: its bits, as ints, times 1 or 0."""
    return np.multiply(x.view(BITS[x.dtype.itemsize]), condition).view(x.dtype)


def blended_bits(condition: Any, x: Any, y: Any) -> Any:
    """x where condition is true, y elsewhere: x and y are of one dtype, and of the shape of condition or 0-d."""
    mask = condition.astype(BITS[x.dtype.itemsize], order="C")
    np.negative(mask, mask)
    other = y.view(mask.dtype)
    np.bitwise_and(mask, np.bitwise_xor(x.view(mask.dtype), other), mask)
    return np.bitwise_xor(mask, other, mask).view(x.dtype)


def chosen_by_kernel(condition: Any, x: Any, y: Any) -> Any:
    """Return ``where`` of arrays of one shape, or an array and a number, by a kernel; None without one."""
    if x.shape == () and type(y) is np.ndarray and y.dtype is x.dtype and x.dtype.kind == "f":  # a value that fills y
        condition, x, y = np.logical_not(condition), y, float(x)
    number, dtype = type(y) in NUMBERS and y.__class__ is not complex, x.dtype
    if x.shape != condition.shape or not (dtype is float32 or dtype is float64):
        return None
    if not number and (type(y) is not np.ndarray or y.shape != x.shape or y.dtype is not dtype):
        return None
    kernel = operation_kernel("where", ("mask_full", "full", "scalar" if number else "full"), dtype, ())
    if kernel is None:
        return None
    if not number:
        return kernel.alike((condition, x, y))
    value: Any = y
    return kernel.alike((condition, x), (float(value),))
