"""Operations along one dimension. They treat a 0-d tensor as a vector of one element."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.backend.primitives import Shape, Value
from burnpy.tensor.base import TensorBase, describe
from burnpy.tensor.dims import dim_of, integer, scalar_dim


class Along(NamedTuple):
    """A tensor's primitive and the validated dimension that a method works along."""

    primitive: Value
    """The primitive, with at least one dimension."""
    dim: int
    scalar: bool
    """True if the tensor is 0-d."""

    @property
    def size(self) -> int:
        """The size along the dimension."""
        size: int = self.primitive.shape[self.dim]
        return size

    def shape(self, size: int) -> Shape:
        """Return the shape of a result with ``size`` elements along the dimension."""
        shape: Shape = self.primitive.shape
        return () if self.scalar and size == 1 else (*shape[: self.dim], size, *shape[self.dim + 1 :])


def along(x: TensorBase[Any], dim: int, operation: str) -> Along:
    """Return the primitive of x with its checked dim.

    Raises:
        DimError: x has no such dimension.
    """
    if x.ndim:
        return Along(x._primitive, dim_of(dim, x.ndim, operation), False)
    scalar_dim(dim, operation)
    return Along(x._backend.reshape(x._primitive, (1,)), 0, True)


def shaped(backend: Any, primitive: Value, shape: Shape) -> Value:
    """Return a primitive in a shape: itself, if it has it."""
    return primitive if primitive.shape == shape else backend.reshape(primitive, shape)


def rank(k: object, least: int, size: int, operation: str) -> int:
    """Return a number ``k`` of elements along a dimension of ``size``.

    Raises:
        ArgumentError: it is not an int.
        ShapeError: there are fewer elements, or it is less than ``least``.
    """
    number = integer(k, "k", operation)
    if not least <= number <= size:
        raise ShapeError(
            f"{operation}() got k={number} along a dimension of size {size}; k can be from {least} to {size}"
        )
    return number


def need_flag(value: object, name: str, operation: str) -> None:
    """Check an option that is True or False.

    Raises:
        ArgumentError: it is neither.
    """
    if value is not True and value is not False:
        raise ArgumentError(f"{operation}() got {name}={describe(value)}; expected True or False")


Interpolation = Literal["linear", "lower", "higher", "nearest", "midpoint"]
"""The interpolation of a quantile that lies between two elements."""
