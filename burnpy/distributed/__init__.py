"""Training on several processes and machines: workers to which the shares of a batch are given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from burnpy.backend.lazy import lazy_attributes

if TYPE_CHECKING:
    from burnpy.distributed.workers import Workers
else:
    __getattr__, __dir__ = lazy_attributes(__name__, {"burnpy.distributed.workers": ("Workers",)})

__all__ = ["Workers"]
