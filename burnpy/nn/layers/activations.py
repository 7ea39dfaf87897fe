"""Activations as layers, for `Sequential`; elsewhere the methods of tensors do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeVar

from burnpy.backend.backend import Backend
from burnpy.nn.module import Stateless

if TYPE_CHECKING:
    from burnpy.tensor.tensor import Tensor

B = TypeVar("B", bound=Backend)


class Relu(Stateless):
    """max(x, 0), of which the gradient at 0 is 0."""

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Of the shape of x."""
        return x.relu()


class Gelu(Stateless):
    """x · Φ(x), Φ the normal distribution function.

    Args:
        approximate: "tanh" for the approximation by tanh.
    """

    def __init__(self, approximate: Literal["none", "tanh"] = "none") -> None:
        self.approximate: Literal["none", "tanh"] = approximate

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Of the shape of x."""
        return x.gelu(self.approximate)


class Silu(Stateless):
    """x · sigmoid(x)."""

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Of the shape of x."""
        return x.silu()


class Sigmoid(Stateless):
    """1 / (1 + exp(-x))."""

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Of the shape of x."""
        return x.sigmoid()


class Tanh(Stateless):
    """The hyperbolic tangent."""

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Of the shape of x."""
        return x.tanh()


class Softplus(Stateless):
    """log(1 + exp(beta · x)) / beta.

    Args:
        beta: how sharp the bend is.
    """

    def __init__(self, beta: float = 1.0) -> None:
        self.beta = beta

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Of the shape of x."""
        return x.softplus(self.beta)


class Softmax(Stateless):
    """exp(x) over its sum along a dimension.

    Args:
        dim: which.
    """

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Of the shape of x."""
        return x.softmax(self.dim)


class LogSoftmax(Stateless):
    """The logarithm of `Softmax`.

    Args:
        dim: which dimension.
    """

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Of the shape of x."""
        return x.log_softmax(self.dim)


class Identity(Stateless):
    """What comes in."""

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """x."""
        return x
