"""The declarations of all operations, one file per family; `burnpy.backend.Backend` inherits from all families.

A required operation has no body. The body of a derived operation is its default implementation, composed of other
operations, so that it is differentiable wherever those are. Inside a default, index arithmetic goes through
``self.discrete``. Binary operations broadcast, promote dtypes with `burnpy.backend.dtypes.result_type`, and accept a
Python number as second operand. Operations return newly allocated memory, unless they are declared as a ``view``,
except that `sum_to` and `clamp` may return their argument where it equals the result. No operation changes its
arguments, except for those that it is declared to consume (`burnpy.backend.schema.Traits`).

Defaults import the formulas of `burnpy.backend.numerics` at their first call, since few programs need them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.devices import DeviceMeta
from burnpy.backend.dtypes import float32, float64
from burnpy.backend.primitives import Float


class OperationsBase(metaclass=DeviceMeta):
    """The base class of the families, which call each other's operations through ``self``: a `Backend` has them all."""

    if TYPE_CHECKING:
        # A family may use operations of any other family, since `Backend` inherits from all of them.
        def __getattr__(self, name: str) -> Any: ...


def in_float32(b: Any, function: Callable[..., Float], *args: Any) -> Float:
    """Call a function with a backend, in float32 for 16-bit floats; the primitives in ``args`` have one dtype."""
    dtype = args[0].dtype
    if dtype.itemsize > 2:
        return function(b, *args)
    return b.cast(function(b, *[b.cast(a, float32) if hasattr(a, "dtype") else a for a in args]), dtype)


def in_float64(b: Any, function: Callable[..., Float], *args: Any) -> Float:
    """Call a function as `in_float32`, computed in float64."""
    wide = [b.cast(a, float64) if hasattr(a, "dtype") else a for a in args]
    return b.cast(function(b, *wide), args[0].dtype)


def by_host(device: Any, function: Callable[..., Any], *args: Any) -> Any:
    """Call a function of `burnpy.backend.numerics` with NumPy arrays, and return its results as primitives.

    Args:
        device: the device of the primitives among ``args``, which are copied to the host.
        function: it takes NumPy as its array module and then ``args``.
        args: the arguments.
    """
    with np.errstate(all="ignore"):
        out = function(np, *[device.to_numpy(a) if hasattr(a, "dtype") else a for a in args])

    def adopted(array: Any) -> Any:
        array = np.asarray(array)
        return (device.discrete if array.dtype.kind == "i" else device).adopt_numpy(array)

    return tuple(map(adopted, out)) if isinstance(out, tuple) else adopted(out)
