"""Softmax, softmin and Gumbel-softmax along a dimension."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from burnpy.backend.dtypes import float32
from burnpy.backend.errors import ArgumentError
from burnpy.nn.argument_checks import floats
from burnpy.nn.module import Stateless
from burnpy.tensor.call_errors import explained
from burnpy.tensor.operands import number
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import describe
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.generator import Generator


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
