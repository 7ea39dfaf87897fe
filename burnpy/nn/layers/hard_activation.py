"""Activations in straight pieces, such as `Relu`, and shrinkage: functions, and layers that call them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burnpy.backend.errors import ArgumentError
from burnpy.nn.argument_checks import floats, positive
from burnpy.nn.layers.activation import _device
from burnpy.nn.module import Module, Stateless, rebound
from burnpy.nn.param import Param
from burnpy.tensor.call_errors import explained
from burnpy.tensor.operand_checks import number
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import describe
from burnpy.typevars import B, I, X

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff


@explained
def leaky_relu(x: Tensor[B], negative_slope: float = 0.01) -> Tensor[B]:
    """Return x where it is positive, and ``negative_slope`` · x elsewhere. The gradient at 0 is the slope.

    Source: Maas et al., Rectifier Nonlinearities Improve Neural Network Acoustic Models, 2013.

    >>> leaky_relu(Tensor[NumPy].from_data([-1.0, 2.0]), 0.25).tolist()
    [-0.25, 2.0]
    """
    (x,) = floats("leaky_relu", 1, x=x)
    return x._like(_device(x).leaky_relu(x._primitive, number(x, negative_slope, "leaky_relu")))


class Relu(Stateless):
    """The rectified linear unit, max(x, 0); its gradient at 0 is 0."""

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Apply the layer; the output has the shape of x."""
        self._need_tensor(x)
        return x.relu()


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


@explained
def relu6(x: Tensor[B]) -> Tensor[B]:
    """Limit x to the range from 0 to 6. The gradient at 0 and at 6 is 0.

    Source: Krizhevsky, Convolutional Deep Belief Networks on CIFAR-10, 2010.

    >>> relu6(Tensor[NumPy].from_data([-1.0, 3.0, 9.0])).tolist()
    [0.0, 3.0, 6.0]
    """
    return _hardtanh("relu6", x, 0.0, 6.0)


@explained
def hardtanh(x: Tensor[B], min_val: float = -1.0, max_val: float = 1.0) -> Tensor[B]:
    """Limit x to the range from ``min_val`` to ``max_val``. Unlike with ``x.clamp``, the gradient at a bound is 0.

    Raises:
        ArgumentError: ``min_val`` is above ``max_val``.

    >>> hardtanh(Tensor[NumPy].from_data([-1.0, 0.0, 2.0])).tolist()
    [-1.0, 0.0, 1.0]
    """
    return _hardtanh("hardtanh", x, min_val, max_val)


@explained
def hardsigmoid(x: Tensor[B]) -> Tensor[B]:
    """Approximate the sigmoid by x / 6 + 1 / 2, limited to the range from 0 to 1.

    >>> print(hardsigmoid(Tensor[NumPy].from_data([-1.0, 0.0, 2.0])).to_numpy().round(3))
    [0.333 0.5   0.833]
    """
    (x,) = floats("hardsigmoid", 1, x=x)
    (out,) = _device(x).fused(_hardsigmoid, (x._primitive,))
    return x._like(out)


@explained
def hardswish(x: Tensor[B]) -> Tensor[B]:
    """Multiply x by its `hardsigmoid`. Source: Howard et al., Searching for MobileNetV3, 2019.

    >>> print(hardswish(Tensor[NumPy].from_data([-1.0, 0.0, 2.0])).to_numpy().round(3))
    [-0.333  0.     1.667]
    """
    (x,) = floats("hardswish", 1, x=x)
    return x._like(_device(x).hardswish(x._primitive))


@explained
def tanhshrink(x: X) -> X:
    """Compute x - tanh(x).

    >>> print(tanhshrink(Tensor[NumPy].from_data([-1.0, 0.0, 2.0])).to_numpy().round(3))
    [-0.238  0.     1.036]
    """
    (given,) = floats("tanhshrink", 1, x=x)
    return given - given.tanh()  # type: ignore[no-any-return]  # of its kind


@explained
def softshrink(x: Tensor[B], lambd: float = 0.5) -> Tensor[B]:
    """Move x by ``lambd`` toward 0; where its magnitude is at most that, result and gradient are 0.

    Raises:
        ArgumentError: ``lambd`` is negative.

    >>> softshrink(Tensor[NumPy].from_data([-2.0, 0.25, 2.0])).tolist()
    [-1.5, 0.0, 1.5]
    """
    (x,) = floats("softshrink", 1, x=x)
    if not number(x, lambd, "softshrink") >= 0:
        raise ArgumentError(f"softshrink() got lambd={describe(lambd)}; give a number that is not negative")
    (out,) = _device(x).fused(_moved_toward_zero, (x._primitive,), (-lambd, lambd))
    return x._like(out)


@explained
def threshold(x: Tensor[B], threshold: float, value: float) -> Tensor[B]:
    """Return x where it is above ``threshold``, and ``value`` elsewhere.

    >>> threshold(Tensor[NumPy].from_data([-1.0, 0.0, 2.0]), 0.5, -9.0).tolist()
    [-9.0, -9.0, 2.0]
    """
    (x,) = floats("threshold", 1, x=x)
    numbers = number(x, threshold, "threshold"), number(x, value, "threshold")
    (out,) = _device(x).fused(_above, (x._primitive,), numbers)
    return x._like(out)


def _hardsigmoid(b: Any, x: Any) -> tuple[Any]:
    return (b.div(b.add(b.hardtanh(x, -3.0, 3.0), 3.0), 6.0),)


def _above(b: Any, x: Any, limit: float, value: float) -> tuple[Any]:
    return (b.where(b.discrete.bitwise_not(b.le(x, limit)), x, value),)


def _moved_toward_zero(b: Any, x: Any, low: float, high: float) -> tuple[Any]:
    return (b.sub(x, b.clamp(x, low, high)),)


def _hardtanh(operation: str, x: Tensor[B], low: float, high: float) -> Tensor[B]:
    (x,) = floats(operation, 1, x=x)
    if number(x, low, operation) > number(x, high, operation):
        raise ArgumentError(f"{operation}() got min_val={describe(low)}, which is above max_val={describe(high)}")
    return x._like(_device(x).hardtanh(x._primitive, low, high))


class Relu6(Stateless):
    """The rectified linear unit limited to 6; its gradient at 0 and at 6 is 0."""

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Apply the layer; the output has the shape of x."""
        return relu6(x)


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
        self._need_tensor(x)
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


class Tanhshrink(Stateless):
    """The difference x - tanh(x)."""

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Apply the layer; the output has the shape of x."""
        return tanhshrink(x)
