"""`Embedding`: a vector for each of a number of things."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from burnpy.backend.backend import Backend
from burnpy.nn.functional.embedding import embedding, padding_row
from burnpy.nn.init import Initializer, Normal
from burnpy.nn.module import Module, rebound
from burnpy.nn.sizes import positive
from burnpy.nn.variable import Param

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.tensor.generator import Generator
    from burnpy.tensor.int_tensor import IntTensor
    from burnpy.tensor.tensor import Tensor

B = TypeVar("B", bound=Backend)
I = TypeVar("I", bound=Backend)  # noqa: E741  # the design's name for an inner backend


class Embedding(Module[B]):
    """A vector for each of a number of things, from ints of any shape to that shape and ``size``.

    Args:
        count: how many things.
        size: of a vector.
        padding_idx: the one that stands for nothing: zeros at first, and without a gradient.
        device: where the layer is.
        initializer: of the weight, (count, size); standard normal, unless given.
        generator: what to draw the first values from.

    Raises:
        ArgumentError: a setting makes no sense.

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
        first = (initializer or Normal())((count, size), device=device, generator=generator)
        self.weight = Param(first if self.padding_idx is None else first.at[self.padding_idx].set(0.0))

    def forward(self, index: IntTensor[B]) -> Tensor[B]:
        """From ints of any shape to (*shape, size)."""
        return embedding(index, self.weight.value, padding_idx=self.padding_idx)

    @property
    def count(self) -> int:
        """How many things there are."""
        return self.weight.shape[0]

    @property
    def size(self) -> int:
        """The size of a vector."""
        return self.weight.shape[1]

    def valid(self: Embedding[Autodiff[I]]) -> Embedding[I]:
        """The same layer on the inner backend."""
        return rebound(self)
