"""Methods that pick, place or replace elements by indices and masks. Tensors of all kinds have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from burnpy.backend.errors import ShapeError
from burnpy.backend.primitives import Int, Shape, Value
from burnpy.tensor.base import B, TensorBase
from burnpy.tensor.dims import dim_of
from burnpy.tensor.joining import condition_of, where
from burnpy.tensor.operands import broadcast_shape, number, operands
from burnpy.tensor.ranges import in_range, index_of

if TYPE_CHECKING:
    from burnpy.tensor.bool_tensor import BoolTensor
    from burnpy.tensor.int_tensor import IntTensor


class Selecting(TensorBase[B]):
    """Picking and placing.

    Indices are an `IntTensor` on x's device, from 0 to the size less one: `IndexRangeError` tells which is not, on the
    CPU at once.
    """

    __slots__ = ()

    def index_select(self, dim: int, index: IntTensor[B]) -> Self:
        """The slices of x along ``dim`` at a 1-d ``index``, in its order.

        >>> from burnpy import IntTensor, Tensor
        >>> from burnpy.backend import NumPy
        >>> x = Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 4.0]])
        >>> x.index_select(0, IntTensor[NumPy].from_data([1, 1, 0])).tolist()
        [[3.0, 4.0], [3.0, 4.0], [1.0, 2.0]]
        """
        shape = self.shape
        found = dim_of(dim, len(shape), "index_select")
        value = index_of(self, index, "index_select")
        if len(value.shape) != 1:
            raise ShapeError(
                f"index_select() was asked with an index of shape {value.shape}; it must be 1-d: use x[i], or gather()"
            )
        value = in_range(self.device, value, shape[found], False, "index_select()", found, shape)
        return self._like(self._backend.index_select(self._primitive, found, value))

    def gather(self, dim: int, index: IntTensor[B]) -> Self:
        """The elements of x at ``index`` along ``dim``: for dim 0 ``out[i, j] = x[index[i, j], j]``.

        The index has as many dimensions as x and, but for ``dim``, no larger ones; the result has its shape.

        Raises:
            ShapeError: the index has another number of dimensions, or a larger one.
        """
        found = dim_of(dim, self.ndim, "gather")
        value = self._elements("gather", found, index)
        return self._like(self._backend.gather(self._primitive, found, value))

    def take_along_dim(self, index: IntTensor[B], dim: int) -> Self:
        """`gather`, where x and the index broadcast in all dimensions but ``dim``: made for what ``argsort`` gives.

        Raises:
            ShapeError: they do not broadcast, or differ in their number of dimensions.
        """
        shape, other = self.shape, index_of(self, index, "take_along_dim").shape
        found = dim_of(dim, len(shape), "take_along_dim")
        common = None
        if len(shape) == len(other):
            common = broadcast_shape(shape[:found] + shape[found + 1 :], other[:found] + other[found + 1 :])
        if common is None:
            raise ShapeError(
                f"take_along_dim() was asked for an index of shape {other} into shape {shape} along dim {found}; "
                "all other dimensions must broadcast"
            )
        whole, wanted = ((*common[:found], s[found], *common[found:]) for s in (shape, other))
        return self._like(self._backend.expand(self._primitive, whole)).gather(
            found, index._like(index._backend.expand(index._primitive, wanted))
        )

    def scatter(self, dim: int, index: IntTensor[B], src: Self | float) -> Self:
        """x with ``src`` placed at ``index`` along ``dim``: for dim 0 ``out[index[i, j], j] = src[i, j]``.

        Where an index repeats, the last one stays, and gets the gradient. ``src`` is a number, or no smaller than
        the index.

        Raises:
            ShapeError: the index has another number of dimensions than x or ``src``, or a larger one.
        """
        found = dim_of(dim, self.ndim, "scatter")
        value = self._elements("scatter", found, index)
        self, source = self._source("scatter", src, value.shape)
        return self._like(self._backend.scatter(self._primitive, found, value, source))

    def scatter_add(self, dim: int, index: IntTensor[B], src: Self | float) -> Self:
        """x with ``src`` added at ``index`` along ``dim``: for dim 0 ``out[index[i, j], j] += src[i, j]``; all add up.

        Raises:
            ShapeError: the index has another number of dimensions than x or ``src``, or a larger one.
        """
        found = dim_of(dim, self.ndim, "scatter_add")
        value = self._elements("scatter_add", found, index)
        self, source = self._source("scatter_add", src, value.shape)
        return self._like(self._backend.scatter_add(self._primitive, found, value, source))

    def where(self, condition: BoolTensor[B], other: Self | float) -> Self:
        """x where ``condition`` is true, ``other`` elsewhere; all three broadcast, and dtypes promote.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> x = Tensor[NumPy].from_data([-1.0, 2.0])
        >>> x.where(x > 0, 0.0).tolist()
        [0.0, 2.0]
        """
        out: Self = where(condition, self, other)  # type: ignore[call-overload]  # one kind: checked at run time
        return out

    def masked_fill(self, mask: BoolTensor[B], value: Self | float) -> Self:
        """``value``, a number or a 0-d tensor, where ``mask`` is true, x elsewhere; mask and x broadcast.

        Raises:
            ShapeError: they do not broadcast, or ``value`` has dimensions.
        """
        condition = condition_of(self, mask, "masked_fill")
        if broadcast_shape(condition.shape, self.shape) is None:
            raise ShapeError(f"masked_fill() was asked for a mask of shape {condition.shape} over shape {self.shape}")
        self, filling = self._source("masked_fill", value, ())
        return self._like(self._backend.where(condition, filling, self._primitive))

    def masked_select(self, mask: BoolTensor[B]) -> Self:
        """The elements where ``mask`` is true, 1-d, in row-major order; mask and x broadcast."""
        condition = condition_of(self, mask, "masked_select")
        shape = broadcast_shape(condition.shape, self.shape)
        if shape is None:
            raise ShapeError(f"masked_select() was asked for a mask of shape {condition.shape} over shape {self.shape}")
        whole = self._like(self._backend.expand(self._primitive, shape))
        return whole[self._bool(self._device.discrete.expand(condition, shape))]  # type: ignore[index, no-any-return]  # Indexing's

    def nonzero(self) -> IntTensor[B]:
        """The indices of the elements that are not 0 (or false), in row-major order: int64, (count, ndim).

        >>> from burnpy import IntTensor
        >>> from burnpy.backend import NumPy
        >>> IntTensor[NumPy].from_data([[0, 7], [8, 0]]).nonzero().tolist()
        [[0, 1], [1, 0]]
        """
        truth = self._primitive if self.kind == "bool" else self._backend.to_bool(self._primitive)
        return self._int(self._device.discrete.nonzero(truth))

    def _elements(self, operation: str, dim: int, index: Any) -> Int:
        """The primitive of an index of single elements, checked."""
        shape = self.shape
        value = index_of(self, index, operation)
        sizes = value.shape
        if len(sizes) != len(shape) or any(n > shape[d] for d, n in enumerate(sizes) if d != dim):
            raise ShapeError(
                f"{operation}() was asked for an index of shape {sizes} into shape {shape} along dim {dim}; the index "
                "needs as many dimensions, and except for that one none larger"
            )
        return in_range(self.device, value, shape[dim], False, f"{operation}()", dim, shape)

    def _source(self, operation: str, src: Any, shape: Shape) -> tuple[Self, Value]:
        """x and the primitive of what is placed, on one device, the latter in x's dtype and cut to ``shape``."""
        backend = self._backend
        if not isinstance(src, TensorBase):
            value = backend.full((), number(self, src, operation), self.dtype)
            return self, backend.expand(value, shape) if shape else value
        self, value = operands(self, src, operation)
        backend = self._backend
        sizes = value.shape
        if len(sizes) != len(shape) or any(n < m for n, m in zip(sizes, shape, strict=True)):
            fits = f"it must be a number, or no smaller than {shape}" if shape else "it must be a number, or 0-d"
            raise ShapeError(f"{operation}() was asked for a source of shape {sizes}; {fits}")
        if sizes != shape:
            value = backend.slice(value, tuple([slice(0, n, 1) for n in shape]))
        return self, value if value.dtype == self.dtype else backend.cast(value, self.dtype)
