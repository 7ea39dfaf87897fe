"""The base class of all families of operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burnpy.backend.devices import DeviceMeta


class OperationsBase(metaclass=DeviceMeta):
    """The base class of the families, which call each other's operations through ``self``: a `Backend` has them all."""

    if TYPE_CHECKING:
        # A family may use operations of any other family, since `Backend` inherits from all of them.
        def __getattr__(self, name: str) -> Any: ...
