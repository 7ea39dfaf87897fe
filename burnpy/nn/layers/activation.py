"""Activations of each element, gated linear units, and softmax: functions, and layers that call them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from burnpy.backend.dtypes import float32, tiny
from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.nn.argument_checks import floats
from burnpy.nn.module import Stateless
from burnpy.tensor.call_errors import explained
from burnpy.tensor.dim_checks import dim_of
from burnpy.tensor.operand_checks import number
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import describe
from burnpy.typevars import B, X

if TYPE_CHECKING:
    from burnpy.tensor.generator import Generator

_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


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
def softsign(x: X) -> X:
    """Compute x / (1 + |x|).

    >>> print(softsign(Tensor[NumPy].from_data([-1.0, 0.0, 2.0])).to_numpy().round(3))
    [-0.5    0.     0.667]
    """
    (given,) = floats("softsign", 1, x=x)
    size = given.abs() + 1.0
    return given / (size.complex() if given.kind == "complex" else size)  # type: ignore[no-any-return]  # of its kind


def _device(x: Tensor[Any]) -> Any:
    return x._device


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


def _halves(operation: str, x: Tensor[B], dim: int) -> tuple[Tensor[B], Tensor[B]]:
    (x,) = floats(operation, 1, x=x)
    if not x.ndim:
        raise ShapeError(f"{operation}() cannot halve a 0-d tensor; it needs a dimension of even size")
    size = x.shape[dim_of(dim, x.ndim, operation)]
    if size % 2:
        raise ShapeError(f"{operation}() cannot halve dim {dim} of shape {x.shape}, whose size is odd")
    first, second = x.split(size // 2, dim) if size else (x, x)
    return first, second


class Gelu(Stateless):
    """The Gaussian error linear unit, x · Φ(x), where Φ is the standard normal CDF.

    Args:
        approximate: "tanh" for the tanh approximation, "none" for the exact function.
    """

    def __init__(self, approximate: Literal["none", "tanh"] = "none") -> None:
        self.approximate: Literal["none", "tanh"] = approximate

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Apply the layer; the output has the shape of x."""
        self._need_tensor(x)
        return x.gelu(self.approximate)


class Silu(Stateless):
    """The sigmoid linear unit, x · sigmoid(x)."""

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Apply the layer; the output has the shape of x."""
        self._need_tensor(x)
        return x.silu()


class Sigmoid(Stateless):
    """The logistic sigmoid, 1 / (1 + exp(-x))."""

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Apply the layer; the output has the shape of x."""
        self._need_tensor(x)
        return x.sigmoid()


class Tanh(Stateless):
    """The hyperbolic tangent."""

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Apply the layer; the output has the shape of x."""
        self._need_tensor(x)
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
        self._need_tensor(x)
        return x.softplus(self.beta)


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


@explained
def softmin(x: Tensor[B], dim: int) -> Tensor[B]:
    """Compute the softmax of -x along ``dim``.

    >>> print(softmin(Tensor[NumPy].from_data([-1.0, 0.0, 2.0]), dim=0).to_numpy().round(3))
    [0.705 0.259 0.035]
    """
    (x,) = floats("softmin", 1, x=x)
    return (-x).softmax(dim)


@explained
def gumbel_softmax(
    logits: Tensor[B], tau: float = 1.0, hard: bool = False, dim: int = -1, *, generator: Generator | None = None
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
    noise = -(-(-drawn).log1p()).clamp_min(tiny(float32)).log()
    soft: Tensor[B] = ((x + noise.to_dtype(x.dtype)) / tau).softmax(dim)
    if not hard:
        return soft
    chosen = soft.zeros_like().scatter(dim, soft.argmax(dim, keepdim=True), 1.0)
    return chosen + (soft - soft.detach())  # exactly one-hot: the difference is 0


class Softmax(Stateless):
    """The softmax, exp(x) divided by its sum along a dimension.

    Args:
        dim: the dimension.
    """

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Apply the layer; the output has the shape of x."""
        self._need_tensor(x)
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
        self._need_tensor(x)
        return x.log_softmax(self.dim)


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
