"""`Dropout`: in training some elements zero, the others larger."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from burnpy.backend.backend import Backend
from burnpy.nn.functional.checks import probability
from burnpy.nn.functional.dropout import dropout
from burnpy.nn.module import Stateless

if TYPE_CHECKING:
    from burnpy.tensor.generator import Generator
    from burnpy.tensor.tensor import Tensor

B = TypeVar("B", bound=Backend)


class Dropout(Stateless):
    """In training each element zero with probability ``p``, the others times 1 / (1 - p); otherwise what comes in.

    Training is what is computed on a device that differentiates, unless ``train()`` or ``eval()`` said otherwise.

    Args:
        p: how likely an element is dropped.
        generator: what to draw from. Unless given, `burnpy.default_generator`, which each thread has its own of.

    Raises:
        ArgumentError: ``p`` is no probability.

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
        """Of the shape of x."""
        return dropout(x, self.p, training=self.trains_on(x), generator=self.generator)
