"""Dropout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burnpy.nn.functional.checks import floats, probability
from burnpy.tensor.call_errors import explained
from burnpy.tensor.generator import drawn_from
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
