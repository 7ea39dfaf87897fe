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


def kept(condition: Any, x: Any) -> Any:
    """x where condition is true, 0 elsewhere: its bits, as ints, times 1 or 0."""
    return np.multiply(x.view(BITS[x.dtype.itemsize]), condition).view(x.dtype)


def blended(condition: Any, x: Any, y: Any) -> Any:
    """x where condition is true, y elsewhere; all of one shape, x and y of one dtype."""
    mask = condition.astype(BITS[x.dtype.itemsize])
    np.negative(mask, mask)
    other = y.view(mask.dtype)
    np.bitwise_and(mask, np.bitwise_xor(x.view(mask.dtype), other), mask)
    return np.bitwise_xor(mask, other, mask).view(x.dtype)
