"""`Info`, which describes the namespace, and the constants and dtypes of the namespace."""

from __future__ import annotations

import math
from typing import Any

from burnpy.array_api.creation_functions import default_device
from burnpy.array_api.data_types import names_of, standard
from burnpy.backend.dtypes import (
    DEFAULT,
    HALVES,
    bool_,
    complex64,
    complex128,
    dtype_of,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from burnpy.backend.primitives import DType
from burnpy.tensor.dims import MOST_DIMS

__all__ = [
    "bool",
    "complex64",
    "complex128",
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

_OUTSIDE = HALVES
"""Dtypes of burnpy that the standard does not have."""


class Info:
    """A description of the namespace: the result of ``__array_namespace_info__()``.

    Args:
        device: the default device of the namespace.

    >>> from burnpy import array_api as xp
    >>> xp.__array_namespace_info__().default_dtypes()["real floating"]
    dtype('float32')
    """

    def __init__(self, device: Any = None) -> None:
        self._device = default_device() if device is None else device

    def capabilities(self) -> dict[str, Any]:
        """Return what is supported: boolean masks, results whose shape depends on values, and how many axes."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": MOST_DIMS}

    def default_device(self) -> Any:
        """Return the device of arrays that are created without one."""
        return self._device

    def devices(self) -> tuple[Any, ...]:
        """Return the devices that are known to be there: the one of the namespace."""
        return (self._device,)

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """Return the default dtypes."""
        floating = {"real floating": DEFAULT["float"], "complex floating": DEFAULT["complex"]}
        return {**floating, "integral": DEFAULT["int"], "indexing": DEFAULT["int"]}

    @standard
    def dtypes(self, *, device: Any = None, kind: str | tuple[str, ...] | None = None) -> dict[str, DType]:
        """Return the standard's dtypes by name, all or those of some kinds."""
        kinds = ("bool", "numeric") if kind is None else (kind,) if isinstance(kind, str) else kind
        names = [name for each in kinds for name in names_of(each) if name not in _OUTSIDE]
        return {name: dtype_of(name) for name in names}


__array_namespace_info__ = Info
bool = bool_
e = math.e
inf = math.inf
nan = math.nan
newaxis = None
pi = math.pi
