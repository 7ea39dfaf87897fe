"""The joint norm of several primitives, accurate even if their powers overflow or underflow and the norm does not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32, promote_types
from burnpy.backend.primitives import DType, Float


def norm(device: Any, values: Sequence[Float], p: float = 2.0) -> Float:
    """The p-norm (Σ |x|ᵖ)^(1/p) over all elements, 0-d; for ``p = inf`` the largest magnitude.

    It is 0 if there are no elements, and its dtype is at least float32. If the sum of powers overflows or underflows,
    and the device can read values without synchronization, it is computed again of elements scaled by a power of 2.
    """
    dtype = float32
    for value in values:
        dtype = promote_types(dtype, value.dtype)
    total = _total(device, values, dtype, p, 1.0)
    if p in (1, math.inf) or not device.eager_checks:
        return _root(device, total, p)
    limits = np.finfo(dtype)
    if not limits.tiny / limits.eps < device.to_numpy(total) < math.inf:
        largest = float(device.to_numpy(_total(device, values, dtype, math.inf, 1.0)))
        if 0.0 < largest < math.inf:
            scale = 2.0 ** min(1 - math.frexp(largest)[1], -int(limits.minexp))
            root = _root(device, _total(device, values, dtype, p, scale), p)
            return device.mul(root, 1 / scale)
    return _root(device, total, p)


def _total(device: Any, values: Sequence[Float], dtype: DType, p: float, scale: float) -> Float:
    """Return Σ |x · scale|ᵖ; for ``p = inf`` the maximum of |x · scale|."""
    total = device.full((), 0.0, dtype)
    for value in values:
        if 0 not in value.shape:
            wide = value if value.dtype == dtype else device.cast(value, dtype)
            part = _part(device, wide if scale == 1 else device.mul(wide, scale), p)
            total = device.maximum(total, part) if p == math.inf else device.add(total, part)
    return total


def _part(device: Any, x: Float, p: float) -> Float:
    dims = tuple(range(len(x.shape)))
    if p == 2:
        return device.sum(device.square(x), dims, False)
    size = device.abs(x)
    if p == math.inf:
        return device.amax(size, dims, False)
    return device.sum(size if p == 1 else device.pow(size, float(p)), dims, False)


def _root(device: Any, total: Float, p: float) -> Float:
    if p == 2:
        return device.sqrt(total)
    return total if p in (1, math.inf) else device.pow(total, 1 / p)
