"""Dropout as a layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from burnpy.nn.argument_checks import probability
from burnpy.nn.functional.random import dropout
from burnpy.nn.module import Stateless
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.generator import Generator
    from burnpy.tensor.tensor import Tensor


class Dropout(Stateless):
    """Dropout: in training mode, zeroes each element with probability ``p`` and scales the others by 1 / (1 - p).

    In eval mode the input is returned unchanged. The mode is set by ``train()`` and ``eval()``; by default it is
    training mode if the input's device differentiates.

    Args:
        p: the probability that an element is zeroed.
        generator: the source of random numbers; by default `burnpy.default_generator`, one per thread.

    Raises:
        ArgumentError: ``p`` is not a probability.

    Source: Srivastava et al., Dropout, 2014.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> Dropout(0.5)(Tensor[NumPy].ones((3,))).tolist()
    [1.0, 1.0, 1.0]
    """

    def __init__(self, p: float = 0.5, *, generator: Generator | None = None) -> None:
        self.p = probability("Dropout", p)
        self.generator = generator

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Apply dropout; the output has the shape of x."""
        return dropout(x, self.p, training=self.trains_on(x), generator=self.generator)
