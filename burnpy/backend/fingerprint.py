"""Fingerprints of primitives: a sample of their elements, to check that a recomputation gives the same values."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from burnpy.backend.dtypes import kind_of
from burnpy.backend.primitives import DType, Key, Shape

_ELEMENTS = 64


class Fingerprint(NamedTuple):
    """A sample of a primitive's elements, returned by `Backend.fingerprint`."""

    elements: bytes  #: the elements of the primitive that the key `places` selects
    dtype: DType

    def resembles(self, other: Fingerprint) -> bool:
        """Return whether both agree to half of the digits: summation order is ignored, other random numbers differ.

        >>> x, y, z = (np.float32(v) for v in (1.0, 1.0 + 2e-7, 1.1))
        >>> one, near, far = (Fingerprint(v.tobytes(), v.dtype) for v in (x, y, z))
        >>> one.resembles(near), one.resembles(far)
        (True, False)
        """
        if self.dtype != other.dtype or len(self.elements) != len(other.elements):
            return False
        if self.elements == other.elements or kind_of(self.dtype) != "float":
            return self.elements == other.elements
        with np.errstate(all="ignore"):
            a, b = (np.frombuffer(x, self.dtype).astype(np.float64) for x in (self.elements, other.elements))
            digits = 2.0 ** (-4 if self.dtype.itemsize == 2 else -11 if self.dtype.itemsize == 4 else -26)
            largest = np.nanmax(np.abs(np.where(np.isfinite(a), a, 0.0)), initial=0.0)
            differs = ~((a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= digits * (np.abs(a) + largest)))
        return not differs.any()


@lru_cache(256)
def places(shape: Shape) -> Key:
    """Return the key of up to 64 elements of ``shape``, evenly spaced along each dimension."""
    key: list[slice] = []
    left = _ELEMENTS
    for n in reversed(shape):
        step = max(math.ceil(n / left), 1)
        left = max(left // max(math.ceil(n / step), 1), 1)
        key.insert(0, slice(0, n, step))
    return tuple(key)
