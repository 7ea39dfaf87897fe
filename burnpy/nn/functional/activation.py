"""Activation functions that PyTorch has as functions; others, such as ``x.relu()``, are methods of tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.dtypes import float32
from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.nn.argument_checks import floats
from burnpy.tensor.call_errors import explained
from burnpy.tensor.dims import dim_of
from burnpy.tensor.operands import number
from burnpy.tensor.tensor_base import describe
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.generator import Generator
    from burnpy.tensor.tensor import Tensor

_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


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
    return (_hardtanh("hardsigmoid", x, -3.0, 3.0) + 3.0) / 6.0


@explained
def hardswish(x: Tensor[B]) -> Tensor[B]:
    """Multiply x by its `hardsigmoid`. Source: Howard et al., Searching for MobileNetV3, 2019.

    >>> print(hardswish(Tensor[NumPy].from_data([-1.0, 0.0, 2.0])).to_numpy().round(3))
    [-0.333  0.     1.667]
    """
    (x,) = floats("hardswish", 1, x=x)
    return x._like(_device(x).hardswish(x._primitive))


@explained
def leaky_relu(x: Tensor[B], negative_slope: float = 0.01) -> Tensor[B]:
    """Return x where it is positive, and ``negative_slope`` · x elsewhere. The gradient at 0 is the slope.

    Source: Maas et al., Rectifier Nonlinearities Improve Neural Network Acoustic Models, 2013.

    >>> leaky_relu(Tensor[NumPy].from_data([-1.0, 2.0]), 0.25).tolist()
    [-0.25, 2.0]
    """
    (x,) = floats("leaky_relu", 1, x=x)
    return x._like(_device(x).leaky_relu(x._primitive, number(x, negative_slope, "leaky_relu")))


@explained
def elu(x: Tensor[B], alpha: float = 1.0) -> Tensor[B]:
    """Return x where it is positive, and ``alpha`` · (exp(x) - 1) elsewhere.

    Source: Clevert et al., Fast and Accurate Deep Network Learning by Exponential Linear Units, 2015.

    >>> print(elu(Tensor[NumPy].from_data([-1.0, 0.0, 2.0])).to_numpy().round(3))
    [-0.632  0.     2.   ]
    """
    return _elu("elu", x, alpha, 1.0)


@explained
def celu(x: Tensor[B], alpha: float = 1.0) -> Tensor[B]:
    """Return x where it is positive, and ``alpha`` · (exp(x / alpha) - 1) elsewhere, smooth for every alpha.

    Source: Barron, Continuously Differentiable Exponential Linear Units, 2017.

    Raises:
        ArgumentError: ``alpha`` is 0.

    >>> print(celu(Tensor[NumPy].from_data([-1.0, 0.0, 2.0])).to_numpy().round(3))
    [-0.632  0.     2.   ]
    """
    if alpha == 0:
        raise ArgumentError("celu() got alpha=0, and divides by alpha; expected a positive number")
    return _elu("celu", x, alpha, 1.0, continuous=True)


@explained
def selu(x: Tensor[B]) -> Tensor[B]:
    """Compute the `elu` with the scale and alpha that keep mean 0 and variance 1 from layer to layer.

    Source: Klambauer et al., Self-Normalizing Neural Networks, 2017.

    >>> print(selu(Tensor[NumPy].from_data([-1.0, 0.0, 2.0])).to_numpy().round(3))
    [-1.111  0.     2.101]
    """
    return _elu("selu", x, _SELU_ALPHA, _SELU_SCALE)


@explained
def mish(x: Tensor[B]) -> Tensor[B]:
    """Compute x · tanh(softplus(x)). Source: Misra, Mish: A Self Regularized Activation Function, 2019.

    >>> print(mish(Tensor[NumPy].from_data([-1.0, 0.0, 2.0])).to_numpy().round(3))
    [-0.303  0.     1.944]
    """
    (x,) = floats("mish", 1, x=x)
    return x._like(_device(x).mish(x._primitive))


@explained
def logsigmoid(x: Tensor[B]) -> Tensor[B]:
    """Compute the logarithm of the sigmoid, without overflow.

    >>> print(logsigmoid(Tensor[NumPy].from_data([-1.0, 0.0, 2.0])).to_numpy().round(3))
    [-1.313 -0.693 -0.127]
    """
    (x,) = floats("logsigmoid", 1, x=x)
    return -(-x).softplus()


@explained
def softsign(x: Tensor[B]) -> Tensor[B]:
    """Compute x / (1 + |x|).

    >>> print(softsign(Tensor[NumPy].from_data([-1.0, 0.0, 2.0])).to_numpy().round(3))
    [-0.5    0.     0.667]
    """
    (x,) = floats("softsign", 1, x=x)
    return x / (x.abs() + 1.0)


@explained
def tanhshrink(x: Tensor[B]) -> Tensor[B]:
    """Compute x - tanh(x).

    >>> print(tanhshrink(Tensor[NumPy].from_data([-1.0, 0.0, 2.0])).to_numpy().round(3))
    [-0.238  0.     1.036]
    """
    (x,) = floats("tanhshrink", 1, x=x)
    return x - x.tanh()


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
    return x - x.clamp(-lambd, lambd)


@explained
def threshold(x: Tensor[B], threshold: float, value: float) -> Tensor[B]:
    """Return x where it is above ``threshold``, and ``value`` elsewhere.

    >>> threshold(Tensor[NumPy].from_data([-1.0, 0.0, 2.0]), 0.5, -9.0).tolist()
    [-9.0, -9.0, 2.0]
    """
    (x,) = floats("threshold", 1, x=x)
    return x.masked_fill(x <= number(x, threshold, "threshold"), value)


def _device(x: Tensor[Any]) -> Any:
    return x._device


def _hardtanh(operation: str, x: Tensor[B], low: float, high: float) -> Tensor[B]:
    (x,) = floats(operation, 1, x=x)
    if number(x, low, operation) > number(x, high, operation):
        raise ArgumentError(f"{operation}() got min_val={describe(low)}, which is above max_val={describe(high)}")
    return x._like(_device(x).hardtanh(x._primitive, low, high))


def _elu(operation: str, x: Tensor[B], alpha: float, scale: float, *, continuous: bool = False) -> Tensor[B]:
    """Return the elu times ``scale``; with ``continuous``, the argument of exp is divided by ``alpha``."""
    (x,) = floats(operation, 1, x=x)
    size = number(x, alpha, operation)
    return x._like(_device(x).elu(x._primitive, size, scale, 1.0 / size if continuous else 1.0))


@explained
def glu(x: Tensor[B], dim: int = -1) -> Tensor[B]:
    """Compute the gated linear unit: the first half of x along ``dim`` times the sigmoid of the second.

    Source: Dauphin et al., Language Modeling with Gated Convolutional Networks, 2016.

    Raises:
        ShapeError: the size of ``dim`` is odd.

    >>> glu(Tensor[NumPy].from_data([3.0, 0.0])).tolist()
    [1.5]
    """
    value, gate = _halves("glu", x, dim)
    return value * gate.sigmoid()


@explained
def swiglu(x: Tensor[B], dim: int = -1) -> Tensor[B]:
    """Compute the SwiGLU gate: the silu of the first half of x along ``dim`` times the second.

    Source: Shazeer, GLU Variants Improve Transformer, 2020.

    Raises:
        ShapeError: the size of ``dim`` is odd.

    >>> print(swiglu(Tensor[NumPy].from_data([1.0, -1.0, 2.0, 3.0])).to_numpy().round(3))
    [ 1.462 -0.807]
    """
    gate, value = _halves("swiglu", x, dim)
    return gate.silu() * value


@explained
def softmin(x: Tensor[B], dim: int) -> Tensor[B]:
    """Compute the softmax of -x along ``dim``.

    >>> print(softmin(Tensor[NumPy].from_data([-1.0, 0.0, 2.0]), dim=0).to_numpy().round(3))
    [0.705 0.259 0.035]
    """
    (x,) = floats("softmin", 1, x=x)
    return (-x).softmax(dim)


def _halves(operation: str, x: Tensor[B], dim: int) -> tuple[Tensor[B], Tensor[B]]:
    (x,) = floats(operation, 1, x=x)
    if not x.ndim:
        raise ShapeError(f"{operation}() cannot halve a 0-d tensor; it needs a dimension of even size")
    size = x.shape[dim_of(dim, x.ndim, operation)]
    if size % 2:
        raise ShapeError(f"{operation}() cannot halve dim {dim} of shape {x.shape}, whose size is odd")
    first, second = x.split(size // 2, dim) if size else (x, x)
    return first, second


@explained
def gumbel_softmax(
    logits: Tensor[B],
    tau: float = 1.0,
    hard: bool = False,
    dim: int = -1,
    *,
    generator: Generator | None = None,
) -> Tensor[B]:
    """Sample from the Gumbel-softmax distribution: the softmax of (logits + noise) / tau.

    Args:
        logits: unnormalized logarithms of probabilities.
        tau: the temperature; the lower, the closer to one-hot vectors.
        hard: if True, the samples are one-hot vectors with the gradient of the soft ones.
        dim: the dimension of the classes.
        generator: the source of random numbers; by default `burnpy.default_generator` of the device.

    Raises:
        ArgumentError: ``tau`` is not positive.

    Sources: Jang et al., Categorical Reparameterization with Gumbel-Softmax, 2016; Maddison et al., The Concrete
    Distribution, 2016.

    >>> gumbel_softmax(Tensor[NumPy].from_data([0.0, 99.0]), hard=True).tolist()
    [0.0, 1.0]
    """
    x: Tensor[B]
    (x,) = floats("gumbel_softmax", 1, logits=logits)
    if not number(x, tau, "gumbel_softmax") > 0:
        raise ArgumentError(f"gumbel_softmax() got tau={describe(tau)}; give a positive number")
    drawn = x.uniform_like(dtype=float32, generator=generator)  # from [0, 1), so that log(1 - u) is finite
    noise = -(-(-drawn).log1p()).clamp_min(float(np.finfo(float32).tiny)).log()
    soft: Tensor[B] = ((x + noise.to_dtype(x.dtype)) / tau).softmax(dim)
    if not hard:
        return soft
    chosen = soft.zeros_like().scatter(dim, soft.argmax(dim, keepdim=True), 1.0)
    return chosen + (soft - soft.detach())  # exactly one-hot: the difference is 0
