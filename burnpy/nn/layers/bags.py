"""`EmbeddingBag`: a learned table of vectors that are combined by bags."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from burnpy.nn.argument_checks import check_choice, positive
from burnpy.nn.functional.bags import BagMode, embedding_bag
from burnpy.nn.functional.dense import padding_row
from burnpy.nn.init import Initializer, Normal
from burnpy.nn.layers.dense import with_zero_row
from burnpy.nn.module import Module, rebound
from burnpy.nn.variable import Param
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.tensor.generator import Generator
    from burnpy.tensor.tensor import Tensor
    from burnpy.tensor.tensor_types import Ints


class EmbeddingBag(Module[B]):
    """The sum, mean or maximum of learned vectors for each bag of indices: see `burnpy.nn.functional.embedding_bag`.

    Args:
        count: the number of vectors.
        size: the size of each vector.
        mode: "sum", "mean" or "max".
        include_last_offset: whether offsets have one more number, the end of the last bag.
        padding_idx: the index of a padding vector, which does not count; it is initially zero.
        device: the device of the layer.
        initializer: the initializer of the weight, (count, size); standard normal by default.
        generator: the source of random initial values.

    Raises:
        ArgumentError: a setting is invalid.

    >>> EmbeddingBag(10, 4, device=NumPy)(IntTensor[NumPy].from_data([[1, 2, 3], [4, 5, 6]])).shape
    (2, 4)
    """

    def __init__(
        self,
        count: int,
        size: int,
        *,
        mode: BagMode = "mean",
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: B | type[B],
        initializer: Initializer | None = None,
        generator: Generator | None = None,
    ) -> None:
        positive("EmbeddingBag", count=count, size=size)
        check_choice("EmbeddingBag", "mode", mode, get_args(BagMode))
        self.mode: BagMode = mode
        self.include_last_offset = include_last_offset
        self.padding_idx = padding_row(count, padding_idx)
        weight = (initializer or Normal())((count, size), device=device, generator=generator)
        self.weight = Param(with_zero_row(weight, self.padding_idx))

    def forward(
        self, index: Ints[B], offsets: Ints[B] | None = None, *, per_sample_weights: Tensor[B] | None = None
    ) -> Tensor[B]:
        """Return shape (bags, size) of ints (bags, length), or (total,) with offsets (bags,)."""
        return embedding_bag(
            index,
            self.weight.value,
            offsets,
            mode=self.mode,
            per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
            padding_idx=self.padding_idx,
        )

    @property
    def count(self) -> int:
        """The number of vectors."""
        return self.weight.shape[0]

    @property
    def size(self) -> int:
        """The size of each vector."""
        return self.weight.shape[1]

    def valid(self: EmbeddingBag[Autodiff[I]]) -> EmbeddingBag[I]:
        """Return the same layer on the inner backend."""
        return rebound(self)
