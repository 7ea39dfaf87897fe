"""Activation functions that PyTorch has as methods of tensors; `burnpy.nn.functional` has the others."""

from __future__ import annotations

from typing import Any, Self

from burnpy.backend.errors import KindError, ShapeError
from burnpy.tensor.base import TensorBase, describe
from burnpy.tensor.operands import number, operands, together
from burnpy.typevars import B


class Activations(TensorBase[B]):
    """Activation functions of float tensors."""

    __slots__ = ()

    def hardshrink(self, lambd: float = 0.5) -> Self:
        """x where ``|x|`` is above ``lambd``, and 0 elsewhere; there the gradient is 0. A negative ``lambd`` keeps all.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].from_data([-2.0, 0.25, 2.0]).hardshrink().tolist()
        [-2.0, 0.0, 2.0]
        """
        b, x, limit = self._backend, self._primitive, number(self, lambd, "hardshrink")
        return self._like(b.where(b.discrete.bitwise_not(b.le(b.abs(x), limit)), x, 0.0))

    def prelu(self, weight: Self) -> Self:
        """x where it is positive, and weight · x elsewhere. The gradient at 0 is the weight.

        A weight that is NaN or infinite does not reach positive elements, nor their gradients.

        Args:
            weight: of one element, or a vector with one for each channel, which are dimension 1 of x.

        Source: He et al., Delving Deep into Rectifiers, 2015.

        Raises:
            ShapeError: there are neither as many weights as channels nor one.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> x = Tensor[NumPy].from_data([[-1.0, -1.0], [1.0, 1.0]])
        >>> x.prelu(Tensor[NumPy].from_data([0.5, 0.25])).tolist()
        [[-0.5, -0.25], [1.0, 1.0]]
        """
        if not isinstance(weight, TensorBase):
            raise KindError(f"prelu() takes a Tensor as weight, got {describe(weight)}")
        operands(self, weight, "prelu")  # raises an error if they cannot be combined
        channels = self.shape[1] if self.ndim > 1 else 1
        if weight.shape not in ((), (1,), (channels,)):
            raise ShapeError(
                f"prelu() got x of shape {self.shape} and weight of shape {weight.shape}; expected a weight of shape "
                f"(1,), or ({channels},) for the channels in dimension 1"
            )
        x, slopes = together("prelu", self, weight)
        if slopes.ndim:
            slopes = slopes.reshape((channels, *(1,) * (self.ndim - 2)) if slopes.shape[0] > 1 else ())
        b: Any = x._backend
        sloped = b.discrete.bitwise_not(b.gt(x._primitive, 0.0))  # NaN too
        negative = b.where(sloped, x._primitive, 0.0)
        return x._like(b.where(sloped, b.mul(negative, slopes._primitive), x._primitive))  # type: ignore[no-any-return]  # of this class
