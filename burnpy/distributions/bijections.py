"""Bijections: smooth, invertible functions with the logarithm of their derivative, for `Transformed` distributions.

>>> from burnpy import Tensor
>>> from burnpy.backend import NumPy
>>> from burnpy.distributions import bijections
>>> f = bijections.Sigmoid()
>>> x = Tensor[NumPy].from_data([0.0, 2.0])
>>> f(x).tolist()[0], f.inverse(f(x)).round().tolist()
(0.5, [0.0, 2.0])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burnpy.distributions.parameters import CHOLESKY_FACTOR, LOGIT, POSSIBLE, Constrained, Constraint, Given
from burnpy.nn.module import Module
from burnpy.nn.variable import Param
from burnpy.tensor.distributions import RATE
from burnpy.tensor.draws import FINITE, NOT_NEGATIVE, POSITIVE, PROBABILITY
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.backend.primitives import Shape


class Bijection(Module[B]):
    """An invertible, differentiable function of tensors.

    A bijection is a module. ``event_dims`` is the number of last dimensions that it maps together.
    """

    event_dims: int = 0

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Compute the function."""
        raise NotImplementedError

    def inverse(self, y: Tensor[B]) -> Tensor[B]:
        """Compute the inverse."""
        raise NotImplementedError

    def log_det(self, x: Tensor[B]) -> Tensor[B]:
        """Return the logarithm of the absolute determinant of the derivative at x, summed over ``event_dims``."""
        raise NotImplementedError

    def forward_shape(self, shape: Shape) -> Shape:
        """Return the shape of the result for the shape of an argument."""
        return shape

    def inverse_shape(self, shape: Shape) -> Shape:
        """Return the shape of the argument for the shape of a result."""
        return shape


class Exp(Bijection[B]):
    """eˣ, onto the positive numbers."""

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Compute eˣ."""
        return x.exp()

    def inverse(self, y: Tensor[B]) -> Tensor[B]:
        """Compute log(y)."""
        return y.log()

    def log_det(self, x: Tensor[B]) -> Tensor[B]:
        """Return x."""
        return x


class Sigmoid(Bijection[B]):
    """1 / (1 + e⁻ˣ), onto the numbers between 0 and 1."""

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Compute the sigmoid."""
        return x.sigmoid()

    def inverse(self, y: Tensor[B]) -> Tensor[B]:
        """Compute log(y / (1 - y))."""
        return y.logit()

    def log_det(self, x: Tensor[B]) -> Tensor[B]:
        """Return log(sigmoid(x)) + log(sigmoid(-x))."""
        return -x.softplus() - (-x).softplus()


class LowerCholesky(Bijection[B]):
    """Matrices whose lower triangle counts, onto Cholesky factors: the exponential of the diagonal, and the rest."""

    event_dims = 2

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Compute the Cholesky factor."""
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def inverse(self, y: Tensor[B]) -> Tensor[B]:
        """Compute the lower triangle of the matrix; the rest is 0."""
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()

    def log_det(self, x: Tensor[B]) -> Tensor[B]:
        """Return the sum of the diagonal, for the derivative by the lower triangle."""
        return x.diagonal(dim1=-2, dim2=-1).sum(dim=-1)


_ONTO: dict[Constraint, Bijection[Any]] = {
    POSITIVE: Exp(),
    NOT_NEGATIVE: Exp(),
    RATE: Exp(),
    PROBABILITY: Sigmoid(),
    POSSIBLE: Sigmoid(),
    CHOLESKY_FACTOR: LowerCholesky(),
}


def learned_onto(bound: Constraint, given: Given[B]) -> Param[B] | Constrained[B] | Given[B]:
    """Return a parameter that is learned, with the value of one that is not; a count stays as it is."""
    value = given.value.detach()
    if bound in (FINITE, LOGIT):
        return Param(value)
    bijection = _ONTO.get(bound)
    return given if bijection is None else Constrained(bijection, Param(bijection.inverse(value)))
