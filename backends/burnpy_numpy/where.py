"""A branch-free ``where`` on the bits of large arrays: `numpy.where` branches, which is slow for irregular masks."""

from __future__ import annotations

from typing import Any

import numpy as np

BITS: dict[int, Any] = {2: np.dtype(np.int16), 4: np.dtype(np.int32), 8: np.dtype(np.int64)}
"""The int dtypes by size in bytes."""
BLENDED = 8192
"""The number of conditions from which this takes less time."""


def blendable(x: Any) -> bool:
    """Return whether x is contiguous, and its bits can be viewed as ints."""
    return type(x) is np.ndarray and x.dtype.itemsize in BITS and bool(x.flags.c_contiguous)


def kept(condition: Any, x: Any, out: Any = None) -> Any:
    """x where condition is true, 0 elsewhere: its bits, as ints, times 1 or 0. The result is in ``out``, if given."""
    bits = BITS[x.dtype.itemsize]
    return np.multiply(x.view(bits), condition, None if out is None else out.view(bits)).view(x.dtype)


def blended(condition: Any, x: Any, y: Any, out: Any = None) -> Any:
    """x where condition is true, y elsewhere: arrays of one shape, x and y of one dtype. ``out`` is as of `kept`."""
    mask = condition.astype(BITS[x.dtype.itemsize])
    np.negative(mask, mask)
    other = y.view(mask.dtype)
    np.bitwise_and(mask, np.bitwise_xor(x.view(mask.dtype), other), mask)
    return np.bitwise_xor(mask, other, mask if out is None else out.view(mask.dtype)).view(x.dtype)


def select(condition: Any, x: Any, y: Any, out: Any = None) -> Any:
    """Return `numpy.where`, or write it to ``out``: C-contiguous memory of the result's shape, and of none of these."""
    if out is None:
        return np.where(condition, x, y)
    if condition.size >= BLENDED and blendable(x) and x.shape == condition.shape == out.shape:
        if y.shape == out.shape and y.flags.c_contiguous:
            return blended(condition, x, y, out)
        if y.shape == () and y == 0 and not np.signbit(y):
            return kept(condition, x, out)
    np.copyto(out, y)
    np.copyto(out, x, where=condition)
    return out
