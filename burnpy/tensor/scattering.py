"""Methods that replace or combine elements and slices at indices and under masks, for tensors of all kinds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

import numpy as np

from burnpy.backend.dtypes import float32, int64
from burnpy.backend.errors import ArgumentError, KindError, ShapeError
from burnpy.backend.operations.indexing import flat_index
from burnpy.backend.primitives import DType, Int, Scalar, Shape, Value
from burnpy.tensor.dim_checks import dim_of, scalar_dim, shaped
from burnpy.tensor.gathering import elementwise_index, mask_of, vector_of
from burnpy.tensor.operand_checks import in_range, index_of, is_number, number, operands, refuse_unless, times
from burnpy.tensor.tensor_base import TensorBase, describe
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor_types import Bools, Ints

IndexReduction: TypeAlias = Literal["prod", "mean", "amax", "amin"]
ScatterReduction: TypeAlias = Literal["sum", "prod", "mean", "amax", "amin"]


class Scattering(TensorBase[B]):
    """Copies of x with slices or elements at indices replaced or combined; x itself never changes.

    Indices are an `IntTensor` on x's device, from 0 to the size minus one; a 0-d one is a single index, and a 0-d x is
    treated as a vector of one element. An index out of range raises an `IndexRangeError`, on the CPU at once and on a
    GPU at the next synchronization. Values are cast to x's dtype.
    """

    __slots__ = ()

    def scatter(
        self, dim: int, index: Ints[B], src: Self | float, *, reduce: Literal["add", "multiply"] | None = None
    ) -> Self:
        """Return a copy of x with ``src`` written at ``index`` along ``dim``: for dim 0, ``out[index[i, j], j] = src[i,
        j]``.

        If an index repeats, the last value is written, and gets the gradient. ``src`` is a number, or a tensor no
        smaller than the index. With ``reduce="add"`` or ``"multiply"``, x is combined with all values, as by
        `scatter_add` and `scatter_reduce`, and all get a gradient.

        Raises:
            ShapeError: the index has another number of dimensions than x or ``src``, or a larger size.
            ArgumentError: ``reduce`` is something else.

        >>> index = IntTensor[NumPy].from_data([[2], [0]])
        >>> Tensor[NumPy].zeros((2, 3)).scatter(1, index, 7.0).tolist()
        [[0.0, 0.0, 7.0], [7.0, 0.0, 0.0]]
        """
        if reduce is not None:
            if reduce not in ("add", "multiply"):
                raise ArgumentError(
                    f"scatter() got reduce={describe(reduce)}; expected 'add', 'multiply' or scatter_reduce()'s"
                )
            return self.scatter_reduce(dim, index, src, "sum" if reduce == "add" else "prod")
        resolved, value = elementwise_index(self, "scatter", dim, index)
        self, source = _source(self, "scatter", src, value.shape)
        return self._back(self._backend.scatter(vector_of(self), resolved, value, source))

    def scatter_add(self, dim: int, index: Ints[B], src: Self | float) -> Self:
        """Return a copy of x with ``src`` added at ``index`` along ``dim``: for dim 0, ``out[index[i, j], j] += src[i,
        j]``.

        If an index repeats, all values are added. ``src`` is a number, or a tensor no smaller than the index.

        Raises:
            ShapeError: the index has another number of dimensions than x or ``src``, or a larger size.

        >>> index, src = IntTensor[NumPy].from_data([0, 2, 0]), Tensor[NumPy].from_data([1.0, 2.0, 3.0])
        >>> Tensor[NumPy].zeros((3,)).scatter_add(0, index, src).tolist()
        [4.0, 0.0, 2.0]
        """
        resolved, value = elementwise_index(self, "scatter_add", dim, index)
        self, source = _source(self, "scatter_add", src, value.shape)
        return self._back(self._backend.scatter_add(vector_of(self), resolved, value, source))

    def scatter_reduce(
        self, dim: int, index: Ints[B], src: Self | float, reduce: ScatterReduction, *, include_self: bool = True
    ) -> Self:
        """Return a copy of x with the elements of ``src`` combined into those at ``index`` along ``dim``, as `scatter`.

        Elements with one index are combined together: by their sum, product, mean, maximum or minimum. NaN propagates.
        The gradient is split evenly among ties, and exact where factors are 0.

        Args:
            dim: the dimension.
            index: as many dimensions as x, and except in ``dim`` no larger sizes.
            src: a number, or a tensor no smaller than the index.
            reduce: ``"sum"``, ``"prod"``, ``"mean"``, ``"amax"`` or ``"amin"``; means of ints are rounded down.
            include_self: whether the element of x is combined too; if not, it is replaced.

        Raises:
            ShapeError: the index has another number of dimensions than x or ``src``, or a larger size.
            ArgumentError: ``reduce`` is something else.

        >>> x, index = Tensor[NumPy].ones((2,)), IntTensor[NumPy].from_data([1, 1, 1])
        >>> x.scatter_reduce(0, index, Tensor[NumPy].from_data([2.0, 3.0, 4.0]), "prod").tolist()
        [1.0, 24.0]
        """
        self._need_numbers("scatter_reduce")
        _known("scatter_reduce", reduce, ("sum", "prod", "mean", "amax", "amin"))
        resolved, value = elementwise_index(self, "scatter_reduce", dim, index)
        self, source = _source(self, "scatter_reduce", src, value.shape)
        b, shape = self._backend, self.shape or (1,)
        flat, count = b.reshape(self._primitive, (math.prod(shape),)), math.prod(value.shape)
        places = flat_index(self.device.discrete, shape, resolved, value)
        out = _combined(self, flat, 0, places, b.reshape(source, (count,)), reduce, include_self)
        return self._like(b.reshape(out, self.shape))

    def index_add(self, dim: int, index: Ints[B], source: Self, *, alpha: float = 1) -> Self:
        """Return a copy of x with ``alpha`` times the slices of ``source`` added to those at ``index`` along ``dim``.

        If an index repeats, all its slices are added; ``x.at[:, index].add(source)`` is the same for dim 1.

        Raises:
            ShapeError: ``source`` has not the shape of x, with as many slices as there are indices.

        >>> x, index = Tensor[NumPy].zeros((3,)), IntTensor[NumPy].from_data([0, 2, 2])
        >>> x.index_add(0, index, Tensor[NumPy].ones((3,))).tolist()
        [1.0, 0.0, 2.0]
        """
        factor: Any = alpha
        scaled = source if factor.__class__ is int and factor == 1 else times(factor, self, source, "index_add")
        self, resolved, value, src = self._slices("index_add", dim, index, scaled)
        return self._back(self._backend.index_add(vector_of(self), resolved, value, src))

    def index_copy(self, dim: int, index: Ints[B], source: Self) -> Self:
        """Return a copy of x with the slices at ``index`` along ``dim`` replaced by those of ``source``.

        If an index repeats, its last slice is written, and gets the gradient.

        Raises:
            ShapeError: ``source`` has not the shape of x, with as many slices as there are indices.

        >>> x, index = Tensor[NumPy].zeros((3,)), IntTensor[NumPy].from_data([0, 2])
        >>> x.index_copy(0, index, Tensor[NumPy].from_data([4.0, 5.0])).tolist()
        [4.0, 0.0, 5.0]
        """
        self, resolved, value, src = self._slices("index_copy", dim, index, source)
        return self._back(self._backend.index_put(vector_of(self), resolved, value, src))

    def index_fill(self, dim: int, index: Ints[B], value: Self | float) -> Self:
        """Return a copy of x with the slices at ``index`` along ``dim`` filled with ``value``, a number or a 0-d
        tensor.

        Raises:
            ShapeError: ``value`` is not 0-d.

        >>> Tensor[NumPy].zeros((3,)).index_fill(0, IntTensor[NumPy].from_data([0, 2]), 7.0).tolist()
        [7.0, 0.0, 7.0]
        """
        if isinstance(value, TensorBase):
            if value.ndim:
                raise ShapeError(f"index_fill() got a value of shape {value.shape}; it must be a number, or 0-d")
            self, new = operands(self, value, "index_fill")
        else:
            new = self._backend.full((), number(self, value, "index_fill"), self.dtype)
        resolved, places = self._place("index_fill", dim, index)
        b, shape = self._backend, self.shape or (1,)
        new = new if new.dtype == self.dtype else b.cast(new, self.dtype)
        src = b.expand(new, (*shape[:resolved], places.shape[0], *shape[resolved + 1 :]))
        return self._back(b.index_put(vector_of(self), resolved, places, src))

    def index_reduce(
        self, dim: int, index: Ints[B], source: Self, reduce: IndexReduction, *, include_self: bool = True
    ) -> Self:
        """Return a copy of x with the slices of ``source`` combined into those at ``index`` along ``dim``.

        Slices with one index are combined together: by their product, mean, maximum or minimum. NaN propagates. The
        gradient is split evenly among ties, and exact where factors are 0.

        Args:
            dim: the dimension.
            index: the index of each slice of ``source``.
            source: of the shape of x, with as many slices as there are indices.
            reduce: ``"prod"``, ``"mean"``, ``"amax"`` or ``"amin"``; means of ints are rounded down.
            include_self: whether the slice of x is combined too; if not, it is replaced.

        Raises:
            ShapeError: ``source`` has another shape.
            ArgumentError: ``reduce`` is something else.

        >>> x, index = Tensor[NumPy].ones((2,)), IntTensor[NumPy].from_data([0, 0])
        >>> x.index_reduce(0, index, Tensor[NumPy].from_data([4.0, 6.0]), "mean", include_self=False).tolist()
        [5.0, 1.0]
        """
        self._need_numbers("index_reduce")
        _known("index_reduce", reduce, ("prod", "mean", "amax", "amin"))
        self, resolved, value, src = self._slices("index_reduce", dim, index, source)
        return self._back(_combined(self, vector_of(self), resolved, value, src, reduce, include_self))

    def masked_fill(self, mask: Bools[B], value: Self | float) -> Self:
        """Return a copy of x with ``value``, a number or a 0-d tensor, where ``mask`` is True; mask and x broadcast.

        Raises:
            ShapeError: the shapes do not broadcast, or ``value`` is not 0-d.

        >>> scores = Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 4.0]])
        >>> scores.masked_fill(scores > 2.5, float("-inf")).tolist()
        [[1.0, 2.0], [-inf, -inf]]
        """
        condition, _ = mask_of(self, mask, "masked_fill")
        self, fill_value = _source(self, "masked_fill", value, ())
        return self._like(self._backend.where(condition, fill_value, self._primitive))

    def masked_scatter(self, mask: Bools[B], source: Self) -> Self:
        """Return a copy of x with the elements where ``mask`` is True replaced by those of ``source``, in row-major
        order.

        Mask and x broadcast. A ``source`` that has more elements is used as far as needed.

        Raises:
            ShapeError: the shapes do not broadcast; or ``source`` has fewer elements than the mask has places, on a GPU
                at the next synchronization.

        >>> x = Tensor[NumPy].from_data([1.0, -1.0, -2.0])
        >>> x.masked_scatter(x < 0, Tensor[NumPy].from_data([5.0, 6.0])).tolist()
        [1.0, 5.0, 6.0]
        """
        condition, shape = mask_of(self, mask, "masked_scatter")
        if not isinstance(source, TensorBase):
            raise KindError(f"masked_scatter() takes its values as a tensor, got {describe(source)}")
        self, values = operands(self, source, "masked_scatter")
        b, d = self._backend, self.device.discrete
        places, available = math.prod(shape), math.prod(values.shape)
        flat_mask = d.reshape(d.expand(condition, shape), (places,))
        ranks = d.cumsum(d.to_int(flat_mask, int64), 0)
        wrong = f"masked_scatter() cannot fill more places of a mask of shape {condition.shape} than the {available} "
        refuse_unless(d, d.le(ranks, available), ShapeError(f"{wrong}values of shape {values.shape}"))
        x = b.expand(self._primitive, shape)
        if not available:  # then nothing is replaced
            return self._like(x)
        index = d.minimum(d.maximum(d.sub(ranks, 1), 0), available - 1)  # where the mask is False, any
        values = b.reshape(values if values.dtype == self.dtype else b.cast(values, self.dtype), (available,))
        return self._like(b.where(d.expand(condition, shape), b.reshape(b.index_select(values, 0, index), shape), x))

    def _place(self, operation: str, dim: int, index: Any) -> tuple[int, Int]:
        """Return the checked dim, and the primitive of a 1-d index along it."""
        shape = self.shape or (1,)
        if not self.ndim:
            scalar_dim(dim, operation)
        resolved, value = dim_of(dim, len(shape), operation), index_of(self, index, operation)
        if len(value.shape) > 1:
            raise ShapeError(f"{operation}() got an index of shape {value.shape}; it must be 1-d, or 0-d")
        value = value if value.shape else self.device.discrete.reshape(value, (1,))
        return resolved, in_range(self.device, value, shape[resolved], False, f"{operation}()", resolved, shape)

    def _slices(self, operation: str, dim: int, index: Any, source: Any) -> tuple[Self, int, Int, Value]:
        """Return x lifted to the device of ``source``, the checked dim and index, and the primitive of ``source``."""
        if not isinstance(source, TensorBase):
            raise KindError(f"{operation}() takes its slices as a tensor, got {describe(source)}")
        resolved, places = self._place(operation, dim, index)
        self, value = operands(self, source, operation)
        b, shape = self._backend, self.shape or (1,)
        fitting: Shape = (*shape[:resolved], places.shape[0], *shape[resolved + 1 :])
        if (value.shape or (1,)) != fitting:
            raise ShapeError(
                f"{operation}() got a source of shape {value.shape} for {places.shape[0]} indices along dim "
                f"{resolved} of shape {self.shape}; it must be of shape {fitting}"
            )
        value = value if value.shape else b.reshape(value, (1,))
        return self, resolved, places, value if value.dtype == self.dtype else b.cast(value, self.dtype)

    def _back(self, primitive: Value) -> Self:
        """Return a tensor of x's shape from a result for `vector_of` of x."""
        return self._like(shaped(self._backend, primitive, self.shape))

    def _need_numbers(self, operation: str) -> None:
        if self.kind == "bool":
            raise KindError(f"{operation}() got a BoolTensor; it combines numbers: convert with x.int()")


def _source(x: TensorBase[Any], operation: str, src: Any, shape: Shape) -> tuple[Any, Value]:
    """Return x and the primitive of ``src`` on one device; ``src`` is cast to x's dtype and cut to ``shape``."""
    backend = x._backend
    if not isinstance(src, TensorBase):
        value = backend.full((), number(x, src, operation), x.dtype)
        return x, backend.expand(value, shape) if shape else value
    x, value = operands(x, src, operation)
    backend = x._backend
    if is_number(src) and shape:
        return x, backend.expand(backend.cast(value, x.dtype), shape)
    if len(shape) == 1 and not value.shape:
        value = backend.reshape(value, (1,))
    sizes = value.shape
    if len(sizes) != len(shape) or any(n < m for n, m in zip(sizes, shape, strict=True)):
        fits = f"it must be a number, or no smaller than {shape}" if shape else "it must be a number, or 0-d"
        raise ShapeError(f"{operation}() got a source of shape {sizes}; {fits}")
    if sizes != shape:
        value = backend.slice(value, tuple([slice(0, n, 1) for n in shape]))
    return x, value if value.dtype == x.dtype else backend.cast(value, x.dtype)


def _combined(
    x: TensorBase[Any], value: Value, dim: int, index: Int, src: Value, reduce: str, include_self: bool
) -> Value:
    """Return a copy of a primitive of ``x`` with slices combined into those at a 1-d index."""
    b: Any = x._backend
    d: Any = x._device.discrete
    if not include_self:
        neutral = b.full((), _neutral(reduce, src.dtype), src.dtype)
        value = b.index_put(value, dim, index, b.expand(neutral, src.shape))
    if reduce not in ("sum", "mean"):
        return b.index_reduce(value, dim, index, src, reduce)
    if reduce == "sum":
        return b.index_add(value, dim, index, src)
    dtype = value.dtype
    wide = dtype if dtype.itemsize == 8 else int64 if x.kind == "int" else float32 if dtype.itemsize == 2 else dtype
    if wide != dtype:
        value, src = b.cast(value, wide), b.cast(src, wide)
    total = b.index_add(value, dim, index, src)
    size, count = value.shape[dim], index.shape[0]
    counts = d.index_add(d.full((size,), int(include_self), int64), 0, index, d.full((count,), 1, int64))
    counts = counts if include_self else d.maximum(counts, 1)
    counts = d.reshape(counts, (size, *(1,) * (len(value.shape) - dim - 1)))
    mean = b.floor_divide(total, b.cast(counts, wide)) if x.kind == "int" else b.div(total, d.to_float(counts, wide))
    return mean if wide == dtype else b.cast(mean, dtype)


def _neutral(reduce: str, dtype: DType) -> Scalar:
    """Return the number that changes nothing in a reduction."""
    if reduce in ("sum", "mean", "prod"):
        return int(reduce == "prod")
    if dtype.kind in "iu":
        return int(np.iinfo(dtype).min if reduce == "amax" else np.iinfo(dtype).max)
    return -math.inf if reduce == "amax" else math.inf


def _known(operation: str, reduce: Any, names: tuple[str, ...]) -> None:
    """Check the name of a reduction."""
    if reduce not in names:
        raise ArgumentError(f"{operation}() got reduce={describe(reduce)}; expected {', '.join(map(repr, names))}")
