"""The context variable that holds the current mode; `burnpy.autodiff.modes` defines modes and sets it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from burnpy.autodiff.modes import Mode

mode_of_context: ContextVar[Mode | None] = ContextVar("burnpy_mode", default=None)
current_mode = mode_of_context.get
