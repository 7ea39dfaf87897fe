"""Embedding: a learned table of vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from burnpy.nn.argument_checks import positive
from burnpy.nn.functional.embeddings import embedding, padding_row
from burnpy.nn.init import Initializer, Normal
from burnpy.nn.module import Module, rebound
from burnpy.nn.variable import Param
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.tensor.generator import Generator
    from burnpy.tensor.tensor import Tensor
    from burnpy.tensor.tensor_types import Ints


class Embedding(Module[B]):
    """A learned table of vectors, looked up by int indices: from any shape to (*shape, size).

    Args:
        count: the number of vectors.
        size: the size of each vector.
        padding_idx: the index of a padding vector, which is initially zero and gets no gradient.
        device: the device of the layer.
        initializer: the initializer of the weight, (count, size); standard normal by default.
        generator: the source of random initial values.

    Raises:
        ArgumentError: a setting is invalid.

    >>> from burnpy import IntTensor
    >>> from burnpy.backend import NumPy
    >>> Embedding(10, 4, device=NumPy)(IntTensor[NumPy].from_data([[1, 2, 3]])).shape
    (1, 3, 4)
    """

    def __init__(
        self,
        count: int,
        size: int,
        *,
        padding_idx: int | None = None,
        device: B | type[B],
        initializer: Initializer | None = None,
        generator: Generator | None = None,
    ) -> None:
        positive("Embedding", count=count, size=size)
        self.padding_idx = padding_row(count, padding_idx)
        weight = (initializer or Normal())((count, size), device=device, generator=generator)
        self.weight = Param(weight if self.padding_idx is None else weight.at[self.padding_idx].set(0.0))

    def forward(self, index: Ints[B]) -> Tensor[B]:
        """Look up ints of any shape; the output has shape (*shape, size)."""
        return embedding(index, self.weight.value, padding_idx=self.padding_idx)

    @property
    def count(self) -> int:
        """The number of vectors."""
        return self.weight.shape[0]

    @property
    def size(self) -> int:
        """The size of each vector."""
        return self.weight.shape[1]

    def valid(self: Embedding[Autodiff[I]]) -> Embedding[I]:
        """Return the same layer on the inner backend."""
        return rebound(self)
