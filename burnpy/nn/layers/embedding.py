"""Embedding: rows of a table by index, and their sums, means and maxima in bags."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args, overload

from burnpy.backend.dtypes import int64
from burnpy.backend.errors import ArgumentError, KindError, ShapeError
from burnpy.nn.argument_checks import check_choice, exact_dims, floats, positive
from burnpy.nn.init import Initializer, Normal, is_filled
from burnpy.nn.module import Module, rebound
from burnpy.nn.param import Param
from burnpy.tensor.call_errors import explained
from burnpy.tensor.operand_checks import in_range, index_of, refuse_unless, refuse_wider, together
from burnpy.tensor.tensor import ComplexTensor, IntTensor, Tensor
from burnpy.tensor.tensor_base import TensorBase, describe
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.backend.primitives import Int
    from burnpy.tensor.generator import Generator
    from burnpy.tensor.tensor_types import Ints


@overload
def embedding(index: Ints[B], weight: Tensor[B], *, padding_idx: int | None = None) -> Tensor[B]: ...
@overload
def embedding(index: Ints[B], weight: ComplexTensor[B], *, padding_idx: int | None = None) -> ComplexTensor[B]: ...
@explained
def embedding(index: Any, weight: Any, *, padding_idx: int | None = None) -> Any:
    """Look up the rows of ``weight`` at ``index``.

    Args:
        index: of any shape, from 0 to count - 1.
        weight: shape (count, size).
        padding_idx: the index of a row that gets no gradient; negative indices count from the end.

    Returns:
        Shape (*index.shape, size).

    Raises:
        KindError: ``index`` is not an `IntTensor`.
        IndexRangeError: an index is out of range.
        ArgumentError: ``padding_idx`` is out of range.

    >>> embedding(IntTensor[NumPy].from_data([1, 0]), Tensor[NumPy].from_data([[0.0, 1.0], [2.0, 3.0]])).tolist()
    [[2.0, 3.0], [0.0, 1.0]]
    """
    (weight,) = floats("embedding", 1, weight=weight)
    exact_dims("embedding", "weight", weight.shape, 2, "(count, size)")
    count = weight.shape[0]
    indices = index_of(weight, index, "embedding")
    weight = together("embedding", weight, index)[0]
    device: Any = weight.device
    rows = in_range(device, indices, count, False, "embedding()", 0, weight.shape)
    row = padding_row(count, padding_idx)
    if weight.kind == "complex":
        parts = [device.embedding(part._primitive, rows, row) for part in (weight.real, weight.imag)]
        return weight._like(device.complex(*parts))
    return weight._like(device.embedding(weight._primitive, rows, row))


def padding_row(count: int, padding_idx: int | None) -> int | None:
    """Return ``padding_idx`` as a non-negative row index, or None."""
    if padding_idx is None:
        return None
    if not -count <= padding_idx < count:
        raise ArgumentError(f"embedding() got padding_idx={padding_idx} for {count} rows")
    return padding_idx % count


BagMode: TypeAlias = Literal["sum", "mean", "max"]
"""The reduction of the rows of a bag."""


@explained
def embedding_bag(
    index: Ints[B],
    weight: Tensor[B],
    offsets: Ints[B] | None = None,
    *,
    mode: BagMode = "mean",
    per_sample_weights: Tensor[B] | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor[B]:
    """Combine the rows of ``weight`` at the indices of each bag, as `torch.nn.functional.embedding_bag`.

    Args:
        index: shape (bags, length) for bags of one length, or (total,) with ``offsets``; from 0 to count - 1.
        weight: shape (count, size).
        offsets: shape (bags,): where each bag begins in ``index``. The first is 0, and none is below the one before.
        mode: "sum", "mean" or "max". An empty bag gives zeros.
        per_sample_weights: a factor for each index, of the shape of ``index``, for "sum".
        include_last_offset: whether ``offsets`` has one more number, the end of the last bag.
        padding_idx: the index of a row that does not count; negative indices count from the end.

    Returns:
        Shape (bags, size).

    Raises:
        KindError: ``index`` or ``offsets`` is not an `IntTensor`.
        ShapeError: the shapes do not match.
        IndexRangeError: an index is out of range.
        ArgumentError: a setting is invalid, or offsets do not ascend from 0.

    >>> index, offsets = IntTensor[NumPy].from_data([0, 2, 1]), IntTensor[NumPy].from_data([0, 2])
    >>> table = Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 4.0], [5.0, 8.0]])
    >>> embedding_bag(index, table, offsets).tolist()
    [[3.0, 5.0], [3.0, 4.0]]
    """
    (weight,) = floats("embedding_bag", 1, weight=weight)
    exact_dims("embedding_bag", "weight", weight.shape, 2, "(count, size)")
    check_choice("embedding_bag", "mode", mode, get_args(BagMode))
    given = index_of(weight, index, "embedding_bag")
    others = [x for x in (index, offsets, per_sample_weights) if isinstance(x, TensorBase)]
    weight = together("embedding_bag", weight, *others)[0]
    count, size = weight.shape
    d: Any = weight.device.discrete
    flat, bag, bags = _bags(weight, given, offsets, include_last_offset)
    if flat.shape[0] and not count:
        raise ShapeError(f"embedding_bag() got {flat.shape[0]} indices for a weight of shape {weight.shape}")
    flat = in_range(weight.device, flat, count, False, "embedding_bag()", 0, weight.shape)
    factors = _factors(weight, given, per_sample_weights, mode)
    padding = padding_row(count, padding_idx)
    if padding is not None:  # a last bag, which is dropped, gets what does not count
        bag = d.where(d.eq(flat, padding), bags, bag)
    total = bags + (padding is not None)
    device: Any = weight.device
    if mode == "max":
        rows = weight._like(device.embedding(weight._primitive, flat, None))
        empty = Tensor.zeros((total, size), dtype=weight.dtype, device=weight.device)
        out = empty.index_reduce(0, weight._int(bag), rows, "amax", include_self=False)
    else:
        scale = factors.reshape(-1)._primitive if factors is not None else _shares(weight, bag, total, mode)
        out = weight._like(device.sum_rows(weight._primitive, flat, bag, scale, total))
    return out if padding is None else out[:bags]


def _shares(weight: Tensor[B], bag: Int, bags: int, mode: str) -> Any:
    """Return the share of each index in the sum of its bag: 1, or for means 1 over the number of its indices."""
    device: Any = weight.device
    ones = device.full(bag.shape, 1.0, weight.dtype)
    if mode == "sum":
        return ones
    d = device.discrete
    counts = d.index_add(d.full((bags,), 0, int64), 0, bag, d.full(bag.shape, 1, int64))
    return device.index_select(device.reciprocal(device.to_float(d.clamp_min(counts, 1), weight.dtype)), 0, bag)


def _bags(weight: Tensor[B], index: Int, offsets: Ints[B] | None, include_last_offset: bool) -> tuple[Int, Int, int]:
    """Return the indices of all bags in a row, the bag of each, and the number of bags."""
    d: Any = weight.device.discrete
    shape = index.shape
    if len(shape) == 2:
        if offsets is not None:
            raise ArgumentError(f"embedding_bag() got offsets with index of shape {shape}, whose rows are the bags")
        bags, length = shape
        every = d.expand(d.reshape(d.arange(0, bags, 1, int64), (bags, 1)), shape)
        return d.reshape(index, (bags * length,)), d.reshape(every, (bags * length,)), bags
    if len(shape) != 1:
        raise ShapeError(f"embedding_bag() takes index of shape (bags, length), or (total,) with offsets, got {shape}")
    if not isinstance(offsets, IntTensor):
        raise KindError(
            f"embedding_bag() takes offsets as an IntTensor with index of shape {shape}, got {describe(offsets)}"
        )
    starts, total = d.cast(offsets._primitive, int64), shape[0]
    bags = starts.shape[0] - include_last_offset if len(starts.shape) == 1 else -1
    if bags < 0:
        form = "(bags + 1,)" if include_last_offset else "(bags,)"
        raise ShapeError(f"embedding_bag() takes offsets of shape {form}, got shape {starts.shape}")
    if not bags:
        if total:
            raise ShapeError(f"embedding_bag() got {total} indices and no offsets; expected a bag for them")
        return index, d.full((0,), 0, int64), 0
    first = d.slice(starts, (slice(0, bags, 1),))
    ends = d.cat([d.slice(starts, (slice(1, bags, 1),)), d.full((1,), total, int64)], 0)
    right = d.bitwise_and(d.le(first, ends), d.eq(d.slice(first, (slice(0, 1, 1),)), 0))
    if include_last_offset:
        right = d.bitwise_and(right, d.eq(d.slice(starts, (slice(bags, bags + 1, 1),)), total))
    last = " and end there" if include_last_offset else ""
    message = f"embedding_bag() got offsets that do not ascend from 0 to at most {total}{last}, the number of indices"
    refuse_unless(weight.device, right, ArgumentError(message))
    bag = d.sub(d.searchsorted(first, d.arange(0, total, 1, int64), True), 1)
    return index, bag, bags


def _factors(weight: Tensor[B], index: Int, factors: Tensor[B] | None, mode: str) -> Tensor[B] | None:
    if factors is None:
        return None
    if mode != "sum":
        raise ArgumentError(f'embedding_bag() got per_sample_weights with mode="{mode}"; they are for "sum"')
    if not isinstance(factors, Tensor):
        raise KindError(f"embedding_bag() takes per_sample_weights as a Tensor, got {describe(factors)}")
    lifted: Tensor[B] = together("embedding_bag", weight, factors)[1]
    refuse_wider("embedding_bag", "the table", weight.dtype, per_sample_weights=lifted)
    if lifted.shape != index.shape:
        raise ShapeError(
            f"embedding_bag() got index of shape {index.shape} and per_sample_weights of shape {lifted.shape}; they "
            "must be equal"
        )
    return lifted.to_dtype(weight.dtype)


class VectorTable(Module[B]):
    """The base class of the layers that look up vectors in a learned table."""

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
        positive(type(self).__name__, count=count, size=size)
        self.padding_idx = padding_row(count, padding_idx)
        weight = (initializer or Normal())((count, size), device=device, generator=generator)
        self.weight = Param(with_zero_row(weight, self.padding_idx))

    @property
    def count(self) -> int:
        """The number of vectors."""
        return self.weight.shape[0]

    @property
    def size(self) -> int:
        """The size of each vector."""
        return self.weight.shape[1]


def with_zero_row(weight: Tensor[B], row: int | None) -> Tensor[B]:
    """Return initial vectors with zeros in the row of padding, if there is one and they have values."""
    return weight if row is None or not is_filled(weight) else weight.at[row].set(0.0)


class Embedding(VectorTable[B]):
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

    >>> Embedding(10, 4, device=NumPy)(IntTensor[NumPy].from_data([[1, 2, 3]])).shape
    (1, 3, 4)
    """

    def forward(self, index: Ints[B]) -> Tensor[B]:
        """Look up ints of any shape; the output has shape (*shape, size)."""
        return embedding(index, self.weight.value, padding_idx=self.padding_idx)

    def valid(self: Embedding[Autodiff[I]]) -> Embedding[I]:
        """Return the same layer on the inner backend."""
        return rebound(self)


class EmbeddingBag(VectorTable[B]):
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
        check_choice("EmbeddingBag", "mode", mode, get_args(BagMode))
        self.mode: BagMode = mode
        self.include_last_offset = include_last_offset
        super().__init__(
            count, size, padding_idx=padding_idx, device=device, initializer=initializer, generator=generator
        )

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

    def valid(self: EmbeddingBag[Autodiff[I]]) -> EmbeddingBag[I]:
        """Return the same layer on the inner backend."""
        return rebound(self)
