"""Elementary functions of float tensors: exponentials and logarithms, trigonometric and hyperbolic functions."""

from __future__ import annotations

from typing import Self

from burnpy.tensor.base import B, TensorBase
from burnpy.tensor.template import unary


class Elementary(TensorBase[B]):
    """Elementary functions; results have the shape and dtype of x, and nothing warns, as in IEEE 754."""

    __slots__ = ()

    @unary
    def expm1(self) -> Self:
        """The function exp(x) - 1, accurate near 0."""
        ...

    @unary
    def log1p(self) -> Self:
        """The function log(1 + x), accurate near 0."""
        ...
