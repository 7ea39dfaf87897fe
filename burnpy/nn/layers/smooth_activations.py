"""Activations with exponentials, and gates, as layers, for use in `Sequential`; elsewhere use functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from burnpy.nn.functional.activations import celu, elu, logsigmoid, mish, selu, softsign, tanhshrink
from burnpy.nn.functional.activations_along_dims import glu, softmin, swiglu
from burnpy.nn.module import Stateless
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import Tensor


class Elu(Stateless):
    """The exponential linear unit: x where it is positive, and ``alpha`` · (exp(x) - 1) elsewhere.

    Args:
        alpha: minus the limit at -∞.
    """

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Apply the layer; the output has the shape of x."""
        return elu(x, self.alpha)


class Celu(Stateless):
    """The exponential linear unit that is smooth: below 0 it is ``alpha`` · (exp(x / alpha) - 1).

    Args:
        alpha: minus the limit at -∞.
    """

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Apply the layer; the output has the shape of x."""
        return celu(x, self.alpha)


class Selu(Stateless):
    """The scaled exponential linear unit, which keeps mean 0 and variance 1 from layer to layer."""

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Apply the layer; the output has the shape of x."""
        return selu(x)


class Mish(Stateless):
    """The product x · tanh(softplus(x))."""

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Apply the layer; the output has the shape of x."""
        return mish(x)


class LogSigmoid(Stateless):
    """The logarithm of the sigmoid."""

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Apply the layer; the output has the shape of x."""
        return logsigmoid(x)


class Softsign(Stateless):
    """The ratio x / (1 + ``|x|``)."""

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Apply the layer; the output has the shape of x."""
        return softsign(x)


class Tanhshrink(Stateless):
    """The difference x - tanh(x)."""

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Apply the layer; the output has the shape of x."""
        return tanhshrink(x)


class Softmin(Stateless):
    """The softmax of -x along a dimension.

    Args:
        dim: the dimension.
    """

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Apply the layer; the output has the shape of x."""
        return softmin(x, self.dim)


class Glu(Stateless):
    """The gated linear unit: the first half of x times the sigmoid of the second.

    Args:
        dim: the dimension that is halved.
    """

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Apply the layer; the output has half the size of x along the dimension."""
        return glu(x, self.dim)


class SwiGlu(Stateless):
    """The SwiGLU gate: the silu of the first half of x times the second.

    Args:
        dim: the dimension that is halved.
    """

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Apply the layer; the output has half the size of x along the dimension."""
        return swiglu(x, self.dim)
