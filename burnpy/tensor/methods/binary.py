"""Functions of two float tensors: angles and lengths, arithmetic of logarithms, and interpolation."""

from __future__ import annotations

from typing import Any, Self

from burnpy.backend.operations.lists import lerp_each
from burnpy.tensor.base import TensorBase
from burnpy.tensor.methods.combining import combined
from burnpy.tensor.operands import number
from burnpy.tensor.template import binary
from burnpy.typevars import B


def _from_end(b: Any, x: Any, stop: Any, rest: Any) -> tuple[Any]:
    return (b.sub(stop, b.mul(b.sub(stop, x), rest)),)


def _from_nearer(b: Any, x: Any, stop: Any, share: Any) -> tuple[Any]:
    step = b.sub(stop, x)
    near, far = b.add(x, b.mul(step, share)), b.sub(stop, b.mul(step, b.add(b.neg(share), 1.0)))
    return (b.where(b.lt(b.abs(share), 0.5), near, far),)


class Binary(TensorBase[B]):
    """Functions of two float tensors, or of a float tensor and a number, which broadcast and promote."""

    __slots__ = ()

    @binary
    def atan2(self, other: Self | float) -> Self:
        """The angle of the point (other, x) in radians, from -π to π: x is the ordinate, ``other`` the abscissa.

        The gradient at (0, 0) is 0.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].from_data([0.0, 1.0]).atan2(Tensor[NumPy].from_data([1.0, 0.0])).rad2deg().tolist()
        [0.0, 90.0]
        """
        ...

    @binary
    def hypot(self, other: Self | float) -> Self:
        """The length of the vector (x, other), √(x² + other²), without overflow. The gradient at (0, 0) is 0."""
        ...

    @binary
    def copysign(self, other: Self | float) -> Self:
        """Return the magnitude of x with the sign of ``other``; -0.0 counts as negative. The gradient at x = 0 is 0."""
        ...

    @binary
    def logaddexp(self, other: Self | float) -> Self:
        """The logarithm of exp(x) + exp(other), without overflow."""
        ...

    @binary
    def xlogy(self, other: Self | float) -> Self:
        """The product x · log(other), which is 0 at x = 0 unless ``other`` is NaN."""
        ...

    def lerp(self, end: Self, weight: Self | float) -> Self:
        """The linear interpolation x + weight · (end - x), which is exactly ``end`` at weight 1.

        Raises:
            ShapeError: the shapes do not broadcast.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].from_data([0.0, 10.0]).lerp(Tensor[NumPy].from_data([4.0, 20.0]), 0.25).tolist()
        [1.0, 12.5]
        """
        x, stop, part = combined("lerp", self, end, weight)
        ends = (x._primitive, stop._primitive)
        if isinstance(part, TensorBase):
            (out,) = x._backend.fused(_from_nearer, (*ends, part._primitive))
        elif abs(part) < 0.5:
            (out,) = x._backend.fused(lerp_each, ends, (part,))
        else:
            (out,) = x._backend.fused(_from_end, ends, (1.0 - part,))
        return x._like(out)  # type: ignore[no-any-return]  # of this class

    def addcdiv(self, tensor1: Self, tensor2: Self, *, value: float = 1) -> Self:
        """The sum x + value · tensor1 / tensor2.

        Raises:
            ShapeError: the shapes do not broadcast.
        """
        x, first, second = combined("addcdiv", self, tensor1, tensor2)
        quotient: Any = first / second
        return x + (quotient if value == 1 else quotient * number(self, value, "addcdiv"))  # type: ignore[no-any-return]  # as above
