"""Caching Python numbers as 0-d arrays: NumPy adds a 0-d array in half the time of a Python number."""

from __future__ import annotations

from typing import Any

import numpy as np

from burnpy.backend.dtypes import kind_of
from burnpy.backend.primitives import DType, Scalar

_LIMIT = 512
known: dict[DType, dict[Scalar | str, Any]] = {}
"""The cached numbers, by dtype. Zeros have their strings as keys: 0.0 and -0.0 are equal but distinct numbers."""


def constant(y: Scalar, dtype: DType) -> Any:
    """Return ``y`` as a 0-d array of ``dtype``, or unchanged if the dtype cannot hold it, for NumPy to handle."""
    try:
        return known[dtype][y or str(y)]
    except KeyError:
        pass
    if not _holds(dtype, y):
        return y
    try:
        with np.errstate(over="ignore"):  # 1e300 in float32 is infinity
            array = np.array(y, dtype)
    except OverflowError:
        return y
    array.flags.writeable = False  # shared by all callers
    numbers = known.setdefault(dtype, {})
    if len(numbers) >= _LIMIT:
        numbers.clear()
    if y == y:  # a NaN would be found by identity only, so each would be added
        numbers[y or str(y)] = array
    return array


def _holds(dtype: DType, y: Scalar) -> bool:
    kind = kind_of(dtype)
    return kind == "float" or (kind == "int" and type(y) is not float) or (kind == "bool" and y in (0, 1))
