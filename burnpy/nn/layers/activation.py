"""Activations as layers, for use in `Sequential`; elsewhere use functions and the methods of tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from burnpy.nn.argument_checks import floats, positive
from burnpy.nn.functional.activation import (
    celu,
    elu,
    glu,
    hardsigmoid,
    hardswish,
    hardtanh,
    leaky_relu,
    logsigmoid,
    mish,
    relu6,
    selu,
    softmin,
    softshrink,
    softsign,
    swiglu,
    tanhshrink,
    threshold,
)
from burnpy.nn.module import Module, Stateless, rebound
from burnpy.nn.variable import Param
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff


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


class Relu6(Stateless):
    """The rectified linear unit limited to 6; its gradient at 0 and at 6 is 0."""

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Apply the layer; the output has the shape of x."""
        return relu6(x)


class LeakyRelu(Stateless):
    """x where it is positive, and ``negative_slope`` · x elsewhere.

    Args:
        negative_slope: the slope below 0, and at 0.
    """

    def __init__(self, negative_slope: float = 0.01) -> None:
        self.negative_slope = negative_slope

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Apply the layer; the output has the shape of x."""
        return leaky_relu(x, self.negative_slope)


class PRelu(Module[B]):
    """x where it is positive, and weight · x elsewhere, with weights that are learned: see ``x.prelu``.

    Args:
        num_parameters: the number of weights: 1, or one for each channel, which are dimension 1 of the input.
        init: the initial value of the weights.
        device: the device of the layer.

    Raises:
        ArgumentError: ``num_parameters`` is not positive.

    >>> PRelu(device=NumPy)(Tensor[NumPy].from_data([-1.0, 1.0])).tolist()
    [-0.25, 1.0]
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25, *, device: B | type[B]) -> None:
        positive("PRelu", num_parameters=num_parameters)
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Param(Tensor.full((num_parameters,), init, device=device))

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Apply the layer; the output has the shape of x."""
        x, weight = floats("prelu", 2, x=x, weight=self.weight.value)
        return x.prelu(weight)

    def valid(self: PRelu[Autodiff[I]]) -> PRelu[I]:
        """Return the layer on the inner backend, sharing its weights."""
        return rebound(self)


class Hardtanh(Stateless):
    """x limited to a range; unlike with ``x.clamp``, the gradient at its ends is 0.

    Args:
        min_val: the lower end.
        max_val: the upper end.
    """

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0) -> None:
        self.min_val = min_val
        self.max_val = max_val

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Apply the layer; the output has the shape of x."""
        return hardtanh(x, self.min_val, self.max_val)


class Hardsigmoid(Stateless):
    """The piecewise linear sigmoid, x / 6 + 1 / 2 limited to the range from 0 to 1."""

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Apply the layer; the output has the shape of x."""
        return hardsigmoid(x)


class Hardswish(Stateless):
    """The product of x and its `Hardsigmoid`."""

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Apply the layer; the output has the shape of x."""
        return hardswish(x)


class Hardshrink(Stateless):
    """x, and 0 where its magnitude is at most ``lambd``.

    Args:
        lambd: the largest magnitude that becomes 0.
    """

    def __init__(self, lambd: float = 0.5) -> None:
        self.lambd = lambd

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Apply the layer; the output has the shape of x."""
        return x.hardshrink(self.lambd)


class Softshrink(Stateless):
    """x moved by ``lambd`` toward 0, and 0 where its magnitude is at most that.

    Args:
        lambd: the distance.
    """

    def __init__(self, lambd: float = 0.5) -> None:
        self.lambd = lambd

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Apply the layer; the output has the shape of x."""
        return softshrink(x, self.lambd)


class Threshold(Stateless):
    """x where it is above a threshold, and a number elsewhere.

    Args:
        threshold: the threshold.
        value: the number.
    """

    def __init__(self, threshold: float, value: float) -> None:
        self.threshold = threshold
        self.value = value

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Apply the layer; the output has the shape of x."""
        return threshold(x, self.threshold, self.value)


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
