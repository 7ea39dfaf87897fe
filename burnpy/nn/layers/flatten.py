"""Flattening of dimensions, as a layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from burnpy.nn.module import Stateless
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import Tensor


class Flatten(Stateless):
    """Flattens consecutive dimensions into one; by default all but the first.

    Args:
        start_dim: the first dimension to flatten.
        end_dim: the last dimension to flatten.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> Flatten()(Tensor[NumPy].ones((2, 3, 4))).shape
    (2, 12)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        """Return x with the dimensions flattened."""
        return x.flatten(self.start_dim, self.end_dim)
