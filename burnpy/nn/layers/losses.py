"""The reduction of losses as modules."""

from __future__ import annotations

from typing import get_args

from burnpy.backend.errors import ArgumentError
from burnpy.tensor.loss_checks import Reduction


def known(loss: str, reduction: Reduction) -> Reduction:
    """Return a validated reduction."""
    if reduction not in get_args(Reduction):
        raise ArgumentError(f"{loss}() got reduction={reduction!r:.80}; expected 'mean', 'sum' or 'none'")
    return reduction
