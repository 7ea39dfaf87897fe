"""The constants and dtypes of the namespace."""

from __future__ import annotations

import math

from burnpy.backend.dtypes import bool_, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64

__all__ = [
    "bool",
    "e",
    "float32",
    "float64",
    "inf",
    "int8",
    "int16",
    "int32",
    "int64",
    "nan",
    "newaxis",
    "pi",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

bool = bool_
e = math.e
inf = math.inf
nan = math.nan
newaxis = None
pi = math.pi
