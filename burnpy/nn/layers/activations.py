"""Activations as layers, for use in `Sequential`; elsewhere use the methods of tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from burnpy.nn.module import Stateless
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import Tensor


class Relu(Stateless):
    """The rectified linear unit, max(x, 0); its gradient at 0 is 0."""

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Apply the layer; the output has the shape of x."""
        return x.relu()


class Gelu(Stateless):
    """The Gaussian error linear unit, x · Φ(x), where Φ is the standard normal CDF.

    Args:
        approximate: "tanh" for the tanh approximation, "none" for the exact function.
    """

    def __init__(self, approximate: Literal["none", "tanh"] = "none") -> None:
        self.approximate: Literal["none", "tanh"] = approximate

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Apply the layer; the output has the shape of x."""
        return x.gelu(self.approximate)


class Silu(Stateless):
    """The sigmoid linear unit, x · sigmoid(x)."""

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Apply the layer; the output has the shape of x."""
        return x.silu()


class Sigmoid(Stateless):
    """The logistic sigmoid, 1 / (1 + exp(-x))."""

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Apply the layer; the output has the shape of x."""
        return x.sigmoid()


class Tanh(Stateless):
    """The hyperbolic tangent."""

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Apply the layer; the output has the shape of x."""
        return x.tanh()


class Softplus(Stateless):
    """The softplus function, log(1 + exp(beta · x)) / beta.

    Args:
        beta: the sharpness of the bend; the larger, the closer to ReLU.
    """

    def __init__(self, beta: float = 1.0) -> None:
        self.beta = beta

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Apply the layer; the output has the shape of x."""
        return x.softplus(self.beta)


class Softmax(Stateless):
    """The softmax, exp(x) divided by its sum along a dimension.

    Args:
        dim: the dimension.
    """

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Apply the layer; the output has the shape of x."""
        return x.softmax(self.dim)


class LogSoftmax(Stateless):
    """The logarithm of `Softmax`.

    Args:
        dim: the dimension.
    """

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Apply the layer; the output has the shape of x."""
        return x.log_softmax(self.dim)
