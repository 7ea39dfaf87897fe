"""Scans by kernels and ``accumulate`` of NumPy; sorts, selection by rank and search by its fastest functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32, float64, int16, int32, int64, kind_of, uint32, uint64
from burnpy.backend.primitives import value_range
from burnpy_array import ArrayBackend
from burnpy_array.array_base import is_half
from burnpy_array.reduction import accumulator
from burnpy_numpy.cpu_threads import shared
from burnpy_numpy.indexing import MOST_DIMS, folded
from burnpy_numpy.kernels.kernel import LEAST, MANY, contiguous, family_kernels
from burnpy_numpy.numpy_calls import inverse, memory_order

_MIN_BESIDE = 128
"""The least number of elements beside each other for which accumulating them slice by slice takes less time."""


class NumPyScans(ArrayBackend):
    """Scans by kernels, and by NumPy's ``accumulate``."""

    def cumsum(self, x: Any, dim: int) -> Any:
        return self._accumulated("add", np.add, x, dim)

    def cumprod(self, x: Any, dim: int) -> Any:
        return self._accumulated("mul", np.multiply, x, dim)

    def _accumulated(self, combine: str, f: Any, x: Any, dim: int) -> Any:
        """Return a cumulative sum or product, of ints in int64 and of 16-bit floats in float32."""
        if x.size >= MANY and is_half(x.dtype):
            return self._in_float32(lambda wide: self._accumulated(combine, f, wide, dim), x)[0]
        if x.size >= MANY and kind_of(x.dtype) == "int":
            x = self.cast(x, int64)
        if not x.flags.c_contiguous and x.size >= MANY and (axes := memory_order((x,))):
            ordered = self._accumulated(combine, f, x.transpose(axes), axes.index(dim))
            return ordered.transpose(inverse(axes))
        scan = _scan_of(combine, x, dim)
        return self._call(_running, f, x, dim) if scan is None else scan(x)[0]

    def cummax(self, x: Any, dim: int) -> tuple[Any, Any]:
        found = self._extremes("max", x, dim)
        return super().cummax(x, dim) if found is None else found

    def cummin(self, x: Any, dim: int) -> tuple[Any, Any]:
        found = self._extremes("min", x, dim)
        return super().cummin(x, dim) if found is None else found

    def _extremes(self, combine: str, x: Any, dim: int) -> tuple[Any, Any] | None:
        """Return the extremes so far and their indices by a kernel, of 16-bit floats and of small ints in wider
        dtypes; None without one."""
        wide = x
        if x.size >= MANY and x.dtype.itemsize < 8 and not _has_scans(x.dtype):
            wide = self.cast(x, float32) if is_half(x.dtype) else x.astype(int64)
        scan = _scan_of(combine, wide, dim)
        if scan is None:
            return None
        values, index = scan(wide)
        return (values if wide is x else self.cast(values, x.dtype)), index

    def cummax_index(self, x: Any, dim: int) -> Any:
        scan = _scan_of("max", x, dim)
        return self._call(_last_equal, x, np.maximum, dim) if scan is None else scan(x)[1]

    def cummin_index(self, x: Any, dim: int) -> Any:
        scan = _scan_of("min", x, dim)
        return self._call(_last_equal, x, np.minimum, dim) if scan is None else scan(x)[1]

    def reverse_cumsum(self, x: Any, dim: int) -> Any:
        scan = _scan_of("add", x, dim, True)
        return super().reverse_cumsum(x, dim) if scan is None else scan(x)[0]

    def recurrence(self, factor: Any, x: Any, dim: int) -> Any:
        scan = _scan_of("recurrence", x, dim) if factor.shape == x.shape and factor.dtype is x.dtype else None
        return super().recurrence(factor, x, dim) if scan is None else scan(x, factor)[0]

    def reverse_recurrence(self, factor: Any, x: Any, dim: int) -> Any:
        usual = factor.shape == x.shape and factor.dtype is x.dtype
        scan = _scan_of("recurrence", x, dim, True) if usual else None
        return super().reverse_recurrence(factor, x, dim) if scan is None else scan(x, factor)[0]

    def logcumsumexp(self, x: Any, dim: int) -> Any:
        return self._call(accumulated, np.logaddexp, x, dim, float64).astype(x.dtype, copy=False)


def _has_scans(dtype: Any) -> bool:
    """Return whether there are kernels of scans for a dtype; of int64 there are none of recurrences."""
    return dtype is float32 or dtype is float64 or dtype is int64


def _scan_of(combine: str, x: Any, dim: int, reverse: bool = False) -> Callable[..., tuple[Any, Any]] | None:
    """Return the kernel of a scan of x along a dimension; None if there is none, for it or for so few elements. With
    ``reverse``, of a scan from the end."""
    one_call = combine in ("add", "mul") or x.dtype is int64
    if x.size < (MANY if one_call else LEAST) or not _has_scans(x.dtype) or x.shape[dim] < 2:
        return None
    kernels = family_kernels("scans_and_losses")
    return None if kernels is None else kernels.scan_of(combine, x, dim, reverse)


def _last_equal(x: Any, f: Any, dim: int) -> Any:
    """Return the index of the last element that equals the extreme so far; NaN equals NaN."""
    extreme = accumulated(f, x, dim, None)
    equal = np.equal(x, extreme)
    if kind_of(x.dtype) == "float":
        undefined = np.isnan(extreme)
        if undefined.any():
            np.logical_or(equal, np.isnan(x), equal)
    narrow = int32 if x.shape[dim] < 1 << 31 else int64
    place = np.arange(x.shape[dim], dtype=narrow).reshape((-1, *(1,) * (x.ndim - dim - 1)))
    return accumulated(np.maximum, np.multiply(place, equal, dtype=narrow), dim, None).astype(int64)


def _running(f: Any, x: Any, dim: int) -> Any:
    """Return the cumulative sum or product, accumulated as reductions are, and long ones of float32 in float64."""
    wide = float64 if x.dtype is float32 and x.size >= MANY else accumulator(x.dtype)
    out = accumulated(f, x, dim, wide)
    return out.astype(x.dtype) if kind_of(x.dtype) == "float" and wide is not None else out


def accumulated(f: Any, x: Any, dim: int, dtype: Any) -> Any:
    """``f.accumulate(x, dim, dtype)``: of many elements beside each other, slice by slice, in a tenth of its time."""
    if x.shape[dim] < 2 or math.prod(x.shape[dim + 1 :]) < _MIN_BESIDE:
        return f.accumulate(x, dim, dtype)
    out: Any = np.empty(x.shape, x.dtype if dtype is None else dtype)
    x = x.astype(out.dtype, copy=False)
    lead: Any = (slice(None),) * dim
    out[(*lead, 0)] = x[(*lead, 0)]
    for k in range(1, x.shape[dim]):
        f(out[(*lead, k - 1)], x[(*lead, k)], out=out[(*lead, k)])
    return out


_MIN_PACKED = 512
"""The least number of elements for which sorting keys that are packed with their positions takes less time."""
_MIN_VECTOR_SORTED, _MIN_VECTOR_SORTED_ROW = 4096, 64
"""The elements, and the length, from which sorting 64 bits by vectors, and then equal ones, takes less time."""
_MIN_SELECTED = 64
"""The least number of elements for which selecting one takes less time than sorting all."""
_MAX_SORTED_ROW = 128
"""The longest rows of 32 bits whose largest elements are found by sorting all, which takes less time."""
_MIN_BOUNDED_SHARE = 16
"""The share of a dimension up to which the largest elements are found by comparing all with a bound."""
_MAX_COMPARED_EDGES, _BLOCK_VALUES = 64, 1 << 14
"""The most numbers of a sequence that are compared with values one by one, and the values of a block, in the cache."""
_POSITION_BITS = np.uint64(0xFFFF_FFFF)
"""The bits of a packed key that hold the position."""


class NumPyOrdering(ArrayBackend):
    """Operations whose results are those of the defaults, in a third to a tenth of the time."""

    def argsort(self, x: Any, dim: int, descending: bool) -> Any:
        if x.ndim > MOST_DIMS:
            return self.argsort(folded(x, dim), 1, descending).reshape(x.shape)
        if is_half(x.dtype):
            x = self.cast(x, float32)
        if x.size < _MIN_PACKED or x.shape[dim] < 2:
            return super().argsort(x, dim, descending)
        if x.dtype is int64:
            low, high = value_range(x)
            if high - low < 1 << 16:  # for which NumPy sorts by digits
                keys = np.subtract(high, x) if descending else np.subtract(x, low)
                return keys.astype(np.uint16).argsort(dim, kind="stable")
            if high - low < 1 << 32:
                x = np.subtract(x, low).astype(uint32)
        if x.dtype in _KEYS_OF_32_BITS:
            return self._call(_order, x, dim, descending)
        if x.dtype.itemsize == 8 and x.size >= _MIN_VECTOR_SORTED and x.shape[dim] >= _MIN_VECTOR_SORTED_ROW:
            return self._call(_repaired_order, x, dim, descending)
        return super().argsort(x, dim, descending)

    def topk_index(self, x: Any, dim: int, k: int, largest: bool) -> Any:
        if x.ndim > MOST_DIMS:
            found = self.topk_index(folded(x, dim), 1, k, largest)
            return found.reshape((*x.shape[:dim], k, *x.shape[dim + 1 :]))
        if is_half(x.dtype):
            x = self.cast(x, float32)
        elif x.dtype.itemsize == 1:  # NumPy selects among 16 bits by vectors
            x = self.cast(x, int16)
        sorts = x.shape[dim] <= _MAX_SORTED_ROW and x.dtype in _KEYS_OF_32_BITS
        if not sorts and 0 < 4 * k <= x.shape[dim] and x.size >= _MIN_PACKED:
            rows, last = x.swapaxes(dim, -1), x.ndim - 1
            index = self._call(_outermost, rows, k, largest) if _MIN_BOUNDED_SHARE * k <= x.shape[dim] else None
            if index is None:
                index = self._call(_beyond, rows, k, largest)
                if index is not None:
                    index = self.gather(index, last, self.argsort(self.gather(rows, last, index), last, largest))
            if index is not None:
                return index.swapaxes(dim, -1)
        return super().topk_index(x, dim, k, largest)

    def kthvalue_index(self, x: Any, dim: int, k: int) -> Any:
        if x.ndim > MOST_DIMS:
            return self.kthvalue_index(folded(x, dim), 1, k).reshape((*x.shape[:dim], 1, *x.shape[dim + 1 :]))
        x = self.cast(x, float32) if is_half(x.dtype) else x
        index = self._call(_ranked, x.swapaxes(dim, -1), k - 1) if x.size >= _MIN_SELECTED else None
        return super().kthvalue_index(x, dim, k) if index is None else index.swapaxes(dim, -1)

    def searchsorted(self, sequence: Any, values: Any, right: bool) -> Any:
        if values.ndim != 1:
            return super().searchsorted(sequence, values, right)
        sequence, values = self.promote(sequence, values)
        if is_half(values.dtype):
            sequence, values = sequence.astype(float32), values.astype(float32)
        few = 0 < len(sequence) <= _MAX_COMPARED_EDGES and sequence[-1] == sequence[-1]  # not NaN
        if few and values.size >= _MIN_PACKED:
            return self._call(_places_between, sequence, values, right)
        return self._call(np.searchsorted, sequence, values, "right" if right else "left").astype(int64, copy=False)


_KEYS_OF_32_BITS = frozenset({float32, int32, uint32})
"""The dtypes ordered like 32-bit keys."""


def _order(x: Any, dim: int, descending: bool) -> Any:
    """Return the stable argsort of 32-bit elements, by sorting 64-bit integers: the key above, the position below. No
    two are equal, so that NumPy's vectorized sort, which is not stable, gives the stable order."""
    keys = _keys(contiguous(x.swapaxes(dim, -1)))
    if descending:
        np.invert(keys, keys)
    packed = keys.astype(uint64)
    np.left_shift(packed, np.uint64(32), packed)
    np.bitwise_or(packed, np.arange(x.shape[dim], dtype=uint64), packed)
    packed.sort(-1)
    np.bitwise_and(packed, _POSITION_BITS, packed)
    return packed.view(int64).swapaxes(dim, -1)


def _repaired_order(x: Any, dim: int, descending: bool) -> Any:
    """Return the stable argsort of 64-bit elements, from NumPy's vectorized argsort, which is not stable. The positions
    of equal elements are sorted, if there are any, below the number of distinct elements before them."""
    x = contiguous(x.swapaxes(dim, -1))
    order = x.argsort(-1)
    if descending:
        order = order[..., ::-1]
    ordered = np.take_along_axis(x, order, -1)
    left, right = ordered[..., :-1], ordered[..., 1:]
    differ = np.not_equal(left, right)
    if x.dtype is float64:  # NaN, the largest, equals NaN
        np.logical_and(differ, np.logical_or(np.equal(left, left), np.equal(right, right)), differ)
    if not differ.all():
        packed = np.zeros(x.shape, uint64)
        np.cumsum(differ, -1, uint64, packed[..., 1:])
        np.left_shift(packed, np.uint64(32), packed)
        np.bitwise_or(packed, order.view(uint64), packed)
        packed.sort(-1)
        order = np.bitwise_and(packed, _POSITION_BITS, packed).view(int64)
    return order.swapaxes(dim, -1)


def _places_between(sequence: Any, values: Any, right: bool) -> Any:
    """Return the places of values in a short ascending sequence: how many of its numbers are not above, or below."""
    out, before = np.empty(values.shape, int64), np.less if right else np.less_equal

    def work(begin: int, end: int) -> None:
        for start in range(begin, end, _BLOCK_VALUES):
            part = slice(start, min(start + _BLOCK_VALUES, end))
            count = np.full(part.stop - start, len(sequence), np.int8)
            for number in sequence:  # NaN is behind all
                np.subtract(count, before(values[part], number).view(np.int8), count)
            out[part] = count

    shared(work, values.size, len(sequence) / 4)
    return out


def _keys(x: Any) -> Any:
    """Return unsigned ints in the order of the elements: zeros of both signs are equal, and NaNs, the largest."""
    if x.dtype is uint32:
        return x.copy()
    if x.dtype is int32:
        return np.bitwise_xor(x.view(uint32), np.uint32(1 << 31))
    plain = np.add(x, np.float32(0))  # -0 becomes 0
    undefined = np.not_equal(plain, plain)
    if undefined.any():
        plain[undefined] = np.nan
    mask = np.right_shift(plain.view(int32), 31)  # of a negative number all bits are inverted, else the first
    np.bitwise_or(mask, np.int32(-(1 << 31)), mask)
    return np.bitwise_xor(plain.view(uint32), mask.view(uint32))


def _ranked(x: Any, place: int) -> Any:
    """Return the position along the last dimension of the element at a place of the stable ascending order. None if
    there may be NaN."""
    ordered = np.array(x)
    ordered.partition(place, -1)
    if kind_of(x.dtype) == "float" and np.isnan(ordered[..., place:]).any():
        return None
    bound = ordered[..., place : place + 1]
    equal = np.equal(x, bound)
    index = equal.argmax(-1, keepdims=True)
    before = place - np.less(x, bound).sum(-1, np.int64, keepdims=True)  # the number of equal ones before it
    if before.any():
        reached = np.equal(np.cumsum(equal, -1), before + 1)
        index = reached.argmax(-1, keepdims=True)
    return index


def _outermost(x: Any, k: int, largest: bool) -> Any:
    """Return the positions of the k largest or smallest elements along the last dimension, in order. Of equal ones the
    first. The extremes of groups of a row's elements give a bound that k elements or more reach. None if many more do,
    or if there may be NaN."""
    count = x.shape[-1]
    rows = x.reshape((-1, count))
    height = math.isqrt(count // k)
    width = count // height
    groups, rest = rows[:, : height * width].reshape((-1, height, width)), rows[:, height * width :]
    extremes = groups.max(1) if largest else groups.min(1)
    if kind_of(x.dtype) == "float" and (np.isnan(extremes).any() or np.isnan(rest).any()):
        return None
    place = width - k if largest else k - 1
    extremes.partition(place, -1)
    bound = extremes[:, place : place + 1]
    positions = np.flatnonzero(np.greater_equal(rows, bound) if largest else np.less_equal(rows, bound))
    if len(positions) > 4 * k * len(rows):
        return None
    row = positions // count
    columns = positions - row * count
    keys = rows[row, columns]
    if largest:
        keys = np.negative(keys) if kind_of(x.dtype) == "float" else np.invert(keys)
    order = np.lexsort((keys, row))
    starts = np.searchsorted(row, np.arange(len(rows)))
    return columns[order[np.add.outer(starts, np.arange(k))]].reshape((*x.shape[:-1], k))


def _beyond(x: Any, k: int, largest: bool) -> Any:
    """Return the positions of the k largest or smallest elements along the last dimension, ascending; of equal ones the
    first. None if there may be NaN."""
    count = x.shape[-1]
    place = count - k if largest else k - 1
    bound = np.partition(x, place, -1)[..., place : place + 1]
    beyond = np.greater_equal(x, bound) if largest else np.less_equal(x, bound)
    if kind_of(x.dtype) == "float" and np.isnan(x).any():
        return None
    rows = x.size // count
    positions = np.flatnonzero(beyond)
    if len(positions) != rows * k:  # more are equal to the k-th than there is room for
        row = positions // count
        tied = np.equal(x.reshape(-1)[positions], bound.reshape(-1)[row])
        room = k - np.bincount(row[np.logical_not(tied)], minlength=rows)
        row = row[tied]
        place = np.arange(len(row)) - np.searchsorted(row, np.arange(rows))[row]  # among the tied ones of its row
        kept = np.logical_not(tied)
        kept[tied] = place < room[row]
        positions = positions[kept]
    return np.remainder(positions, count).reshape((*x.shape[:-1], k))
