"""Activation functions of vectors along a dimension: gates, distributions over classes, and normalization."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from burnpy.backend.dtypes import float32
from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.nn.functional.checks import floats
from burnpy.tensor.base import describe
from burnpy.tensor.call_errors import explained
from burnpy.tensor.dims import dim_of
from burnpy.tensor.distances import vector_norm
from burnpy.tensor.operands import number
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.generator import Generator
    from burnpy.tensor.tensor import Tensor


@explained
def glu(x: Tensor[B], dim: int = -1) -> Tensor[B]:
    """The gated linear unit: the first half of x along ``dim`` times the sigmoid of the second.

    Source: Dauphin et al., Language Modeling with Gated Convolutional Networks, 2016.

    Raises:
        ShapeError: the size of ``dim`` is odd.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> glu(Tensor[NumPy].from_data([3.0, 0.0])).tolist()
    [1.5]
    """
    value, gate = _halves("glu", x, dim)
    return value * gate.sigmoid()


@explained
def swiglu(x: Tensor[B], dim: int = -1) -> Tensor[B]:
    """The SwiGLU gate: the silu of the first half of x along ``dim`` times the second.

    Source: Shazeer, GLU Variants Improve Transformer, 2020.

    Raises:
        ShapeError: the size of ``dim`` is odd.
    """
    gate, value = _halves("swiglu", x, dim)
    return gate.silu() * value


@explained
def softmin(x: Tensor[B], dim: int) -> Tensor[B]:
    """The softmax of -x along ``dim``."""
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

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
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


@explained
def normalize(x: Tensor[B], p: float = 2.0, dim: int | tuple[int, ...] = 1, eps: float = 1e-12) -> Tensor[B]:
    """x divided by its p-norm along ``dim``, or by ``eps`` where the norm is smaller.

    A vector of zeros stays one, and the gradient there is finite. 16-bit floats are computed in float32.

    Args:
        x: of any shape.
        p: the exponent of the norm, as of `burnpy.linalg.vector_norm`; ``math.inf`` is the largest magnitude, 0 the
            number of elements that are not 0.
        dim: the dimension, or dimensions, of the vectors.
        eps: the smallest divisor.

    Raises:
        ArgumentError: ``eps`` is negative, or ``p`` is NaN.
        ShapeError: ``p`` is negative, and there are no elements.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> normalize(Tensor[NumPy].from_data([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    (x,) = floats("normalize", 1, x=x)
    if not number(x, eps, "normalize") >= 0:
        raise ArgumentError(f"normalize(): eps must be a number that is not negative, got {eps!r}")
    wide: Tensor[B] = x if x.dtype.itemsize > 2 else x.to_dtype(float32)
    out: Tensor[B] = wide / vector_norm("normalize", wide, p, dim, True).clamp_min(eps)
    return out if out.dtype == x.dtype else out.to_dtype(x.dtype)


def _halves(operation: str, x: Tensor[B], dim: int) -> tuple[Tensor[B], Tensor[B]]:
    (x,) = floats(operation, 1, x=x)
    if not x.ndim:
        raise ShapeError(f"{operation}() cannot halve a 0-d tensor; it needs a dimension of even size")
    size = x.shape[dim_of(dim, x.ndim, operation)]
    if size % 2:
        raise ShapeError(f"{operation}() cannot halve dim {dim} of shape {x.shape}, whose size is odd")
    first, second = x.split(size // 2, dim) if size else (x, x)
    return first, second
