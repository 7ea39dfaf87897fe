"""Functions that draw random numbers: dropout, and samples of the Gumbel-softmax distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.dtypes import float32
from burnpy.backend.errors import ArgumentError
from burnpy.nn.argument_checks import floats, probability
from burnpy.tensor.call_errors import explained
from burnpy.tensor.generator import drawn_from
from burnpy.tensor.operands import number
from burnpy.tensor.tensor_base import describe
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.generator import Generator
    from burnpy.tensor.tensor import Tensor


@explained
def dropout(x: Tensor[B], p: float = 0.5, *, training: bool = True, generator: Generator | None = None) -> Tensor[B]:
    """Set each element of x to zero with probability ``p``, and scale the others by 1 / (1 - p).

    Args:
        x: of any shape.
        p: the probability that an element is zeroed.
        training: if False, return x unchanged.
        generator: the source of random numbers; by default `burnpy.default_generator` of the device.

    Raises:
        ArgumentError: ``p`` is not a probability.

    Source: Srivastava et al., Dropout, 2014.

    >>> from burnpy import Generator, Tensor
    >>> from burnpy.backend import NumPy
    >>> dropout(Tensor[NumPy].ones((4,)), 0.5, generator=Generator(1)).tolist() in [[a, b, c, d]
    ...     for a in (0, 2) for b in (0, 2) for c in (0, 2) for d in (0, 2)]
    True
    """
    (x,) = floats("dropout", 1, x=x)
    if not training or probability("dropout", p) == 0.0:
        return x
    device: Any = x.device
    mask = device.random_mask(drawn_from(generator, device, "dropout"), x.shape, 1.0 - p)
    return x._like(device.masked_scale(x._primitive, mask, 1.0 / (1.0 - p) if p < 1.0 else 1.0))


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
