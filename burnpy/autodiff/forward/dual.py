"""`Dual`: the primitive of `Forward`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burnpy.autodiff.graph import mapped
from burnpy.backend.primitives import DType, Float, Shape, Value


class Dual:
    """The primitive of `Forward`: an inner primitive and its tangent, None for a constant."""

    __slots__ = ("owned", "tangent", "value")

    value: Value
    tangent: Float | None
    owned: bool  #: present and true if the tangent's memory is not shared, so that `accumulate` may reuse it

    def __init__(self, value: Value, tangent: Float | None = None) -> None:
        self.value = value
        self.tangent = tangent

    @property
    def shape(self) -> Shape:
        """The shape of the value."""
        return self.value.shape  # type: ignore[no-any-return]  # a primitive's shape is a tuple of ints

    @property
    def dtype(self) -> DType:
        """The dtype of the value."""
        return self.value.dtype  # type: ignore[no-any-return]  # a primitive's dtype is NumPy's

    def mapped(self, f: Callable[[Any], Any]) -> Dual:
        """Apply ``f`` to each innermost array of the value and of the tangent."""
        return Dual(mapped(f, self.value), None if self.tangent is None else mapped(f, self.tangent))
