"""`Dual`: the primitive of `Forward`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burnpy.autodiff.graph import Wrapped, mapped
from burnpy.backend.primitives import Float, Value


class Dual(Wrapped):
    """The primitive of `Forward`: an inner primitive and its tangent, None for a constant."""

    __slots__ = ("owned", "tangent", "value")

    tangent: Float | None
    owned: bool  #: present and true if the tangent's memory is not shared, so that `accumulate` may reuse it

    def __init__(self, value: Value, tangent: Float | None = None) -> None:
        self.value = value
        self.tangent = tangent

    def mapped(self, f: Callable[[Any], Any]) -> Dual:
        """Apply ``f`` to each innermost array of the value and of the tangent."""
        return Dual(mapped(f, self.value), None if self.tangent is None else mapped(f, self.tangent))
