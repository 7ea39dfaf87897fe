"""Conjugation of complex gradients where users hand them in and get them.

The engine's gradient g of a loss L by z has dL = Re(g · dz), so that rules need no conjugates; a user's has
dL = Re(conj(g) · dz), which is ∂L/∂Re + i ∂L/∂Im, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from burnpy.backend.primitives import Inexact
from burnpy.backend.rules import PartialGrad

K = TypeVar("K")


def conjugate(b: Any, x: Inexact) -> Inexact:
    """Return the conjugate of a complex primitive of a device; one of floats, and None, as it is."""
    return b.conj(x) if x is not None and x.dtype.kind == "c" else x


def handed_in(b: Any, parts: Iterable[Inexact | PartialGrad | None]) -> tuple[Any, ...]:
    """Return gradients that user code returned as those of the engine."""
    return tuple([part if isinstance(part, PartialGrad) else conjugate(b, part) for part in parts])


def conjugated(b: Any, gradients: dict[K, Inexact]) -> dict[K, Inexact]:
    """Return gradients with those of complex numbers conjugated."""
    for x in gradients.values():
        if x.dtype.kind == "c":
            return {key: conjugate(b, grad) for key, grad in gradients.items()}
    return gradients
