"""Piecewise linear activations as layers, for use in `Sequential`; elsewhere use functions and methods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from burnpy.nn.functional.activations import (
    hardsigmoid,
    hardswish,
    hardtanh,
    leaky_relu,
    relu6,
    softshrink,
    threshold,
)
from burnpy.nn.functional.checks import floats
from burnpy.nn.module import Module, Stateless, rebound
from burnpy.nn.sizes import positive
from burnpy.nn.variable import Param
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.tensor.tensor import Tensor


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
        init: what the weights are at first.
        device: the device of the layer.

    Raises:
        ArgumentError: ``num_parameters`` is not positive.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> PRelu(device=NumPy)(Tensor[NumPy].from_data([-1.0, 1.0])).tolist()
    [-0.25, 1.0]
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25, *, device: B | type[B]) -> None:
        from burnpy.tensor.tensor import Tensor

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
