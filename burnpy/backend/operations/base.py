"""What every family of operations may rely on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burnpy.backend.devices import DeviceMeta


class OperationsBase(metaclass=DeviceMeta):
    """The ground under the families: they call each other's operations through ``self``, whose class has them all."""

    if TYPE_CHECKING:
        # A family may use operations of any other family; `Backend`, which inherits them all, is where they meet.
        def __getattr__(self, name: str) -> Any: ...
