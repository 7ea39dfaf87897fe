"""The declarations of all operations, one file per family; `burnpy.backend.Backend` inherits from all families.

A required operation has no body. The body of a derived operation is its default implementation, composed of other
operations, so that it is differentiable wherever those are. Inside a default, index arithmetic goes through
``self.discrete``. Binary operations broadcast, promote dtypes with `burnpy.backend.dtypes.result_type`, and accept a
Python number as second operand. Operations return newly allocated memory, unless they are declared as a ``view``,
except that `sum_to` and `clamp` may return their argument where it equals the result. No operation changes its
arguments, except for those that it is declared to consume (`burnpy.backend.schema.Traits`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burnpy.backend.devices import DeviceMeta


class OperationsBase(metaclass=DeviceMeta):
    """The base class of the families, which call each other's operations through ``self``: a `Backend` has them all."""

    if TYPE_CHECKING:
        # A family may use operations of any other family, since `Backend` inherits from all of them.
        def __getattr__(self, name: str) -> Any: ...
