"""Methods that select elements by indices and masks, for tensors of all kinds; `scattering` has those that replace."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, Self, overload

from burnpy.backend.errors import ShapeError
from burnpy.backend.primitives import Bool, Int, Shape, Value
from burnpy.tensor.dim_checks import dim_of, scalar_dim, shaped
from burnpy.tensor.joining import chosen, condition_of
from burnpy.tensor.operand_checks import broadcast_shape, in_range, index_of
from burnpy.tensor.tensor_base import TensorBase
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import IntTensor
    from burnpy.tensor.tensor_types import Bools, Ints


class Gathering(TensorBase[B]):
    """Selection of elements.

    Indices are an `IntTensor` on x's device, from 0 to the size minus one. An index out of range raises an
    `IndexRangeError`, on the CPU at once and on a GPU at the next synchronization.
    """

    __slots__ = ()

    def index_select(self, dim: int, index: Ints[B]) -> Self:
        """Return the slices of x along ``dim`` selected by a 1-d ``index``, in its order; a 0-d index selects one
        slice.

        >>> x = Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 4.0]])
        >>> x.index_select(0, IntTensor[NumPy].from_data([1, 1, 0])).tolist()
        [[3.0, 4.0], [3.0, 4.0], [1.0, 2.0]]
        """
        shape = self.shape
        value = index_of(self, index, "index_select")
        if not value.shape:
            value = self.device.discrete.reshape(value, (1,))
        if len(value.shape) != 1:
            raise ShapeError(
                f"index_select() got an index of shape {value.shape}; it must be 1-d: use x[i], or gather()"
            )
        if not shape:
            scalar_dim(dim, "index_select")
            if value.shape != (1,):
                raise ShapeError(f"index_select() got {value.shape[0]} slices of a 0-d tensor; it has one")
            value = in_range(self.device, value, 1, False, "index_select()", 0, shape)
            return self._like(self._backend.reshape(self._backend.index_select(vector_of(self), 0, value), ()))
        resolved = dim_of(dim, len(shape), "index_select")
        value = in_range(self.device, value, shape[resolved], False, "index_select()", resolved, shape)
        return self._like(self._backend.index_select(self._primitive, resolved, value))

    def gather(self, dim: int, index: Ints[B]) -> Self:
        """Return the elements of x at ``index`` along ``dim``: for dim 0, ``out[i, j] = x[index[i, j], j]``.

        The index has as many dimensions as x, and except in ``dim`` no larger sizes; the result has its shape. A 0-d
        tensor is treated as a vector of one element.

        Raises:
            ShapeError: the index has another number of dimensions than x, or a larger size outside of ``dim``.

        >>> x = Tensor[NumPy].from_data([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
        >>> x.gather(1, IntTensor[NumPy].from_data([[2], [0]])).tolist()
        [[3.0], [4.0]]
        """
        resolved, value = elementwise_index(self, "gather", dim, index)
        indices: Any = index
        values = self._backend.gather(vector_of(self), resolved, value)
        return self._like(shaped(self._backend, values, indices.shape))

    def take_along_dim(self, index: Ints[B], dim: int | None = None) -> Self:
        """Return the elements of x at ``index`` along ``dim``, as `gather`, but x and the index broadcast in other
        dimensions.

        It takes the results of ``argmax``, ``argmin`` and similar methods. Negative indices count from the end. With
        ``dim`` None, the index selects from the elements of x in row-major order, and the result is 1-d.

        Raises:
            IndexRangeError: an index is out of range.
            ShapeError: the shapes do not broadcast, or have a different number of dimensions.

        >>> x = Tensor[NumPy].from_data([[1.0, 9.0], [8.0, 2.0]])
        >>> x.take_along_dim(x.argmax(1, keepdim=True), 1).tolist(), x.take_along_dim(x.argmax()).tolist()
        ([[9.0], [8.0]], [9.0])
        """
        value, d = index_of(self, index, "take_along_dim"), self._device.discrete
        if dim is None:
            flat = self._like(shaped(self._backend, self._primitive, (math.prod(self.shape),)))
            return flat.take_along_dim(self._int(d.reshape(value, (math.prod(value.shape),))), 0)
        shape, other = self.shape, value.shape
        resolved = dim_of(dim, len(shape), "take_along_dim")
        common = None
        if len(shape) == len(other):
            common = broadcast_shape(shape[:resolved] + shape[resolved + 1 :], other[:resolved] + other[resolved + 1 :])
        if common is None:
            raise ShapeError(
                f"take_along_dim() got an index of shape {other} into shape {shape} along dim {resolved}; "
                "all other dimensions must broadcast"
            )
        value = in_range(self.device, value, shape[resolved], True, "take_along_dim()", resolved, shape)
        x_shape, index_shape = ((*common[:resolved], s[resolved], *common[resolved:]) for s in (shape, other))
        b = self._backend
        return self._like(b.gather(b.expand(self._primitive, x_shape), resolved, d.expand(value, index_shape)))

    def take(self, index: Ints[B]) -> Self:
        """Return the elements at ``index`` among those of x in row-major order; negative indices count from the end.

        >>> x = IntTensor[NumPy].from_data([[1, 2], [3, 4]])
        >>> x.take(IntTensor[NumPy].from_data([[0, -1]])).tolist()
        [[1, 4]]
        """
        b, count = self._backend, math.prod(self.shape)
        value = index_of(self, index, "take")
        shape = value.shape
        value = in_range(self.device, value, count, True, "take()", 0, (count,))
        flat = self.device.discrete.reshape(value, (math.prod(shape),))
        return self._like(b.reshape(b.index_select(b.reshape(self._primitive, (count,)), 0, flat), shape))

    def where(self, condition: Bools[B], other: Self | float) -> Self:
        """Return the elements of x where ``condition`` is True, and ``other`` elsewhere; all broadcast, and dtypes
        promote.

        >>> x = Tensor[NumPy].from_data([-1.0, 2.0])
        >>> x.where(x > 0, 0.0).tolist()
        [0.0, 2.0]
        """
        return chosen(condition, self, other)  # type: ignore[no-any-return]  # of x's class

    def masked_select(self, mask: Bools[B]) -> Self:
        """Return a 1-d tensor of the elements where ``mask`` is True, in row-major order; mask and x broadcast.

        >>> x = Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 4.0]])
        >>> x.masked_select(x > 1.5).tolist()
        [2.0, 3.0, 4.0]
        """
        condition, shape = mask_of(self, mask, "masked_select")
        expanded = self._like(self._backend.expand(self._primitive, shape))
        return expanded[self._bool(self._device.discrete.expand(condition, shape))]  # type: ignore[index, no-any-return]  # Indexing's

    @overload
    def nonzero(self, *, as_tuple: Literal[False] = False) -> IntTensor[B]: ...
    @overload
    def nonzero(self, *, as_tuple: Literal[True]) -> tuple[IntTensor[B], ...]: ...
    def nonzero(self, *, as_tuple: bool = False) -> Any:
        """Return the indices of the elements that are not 0 (or False), in row-major order: int64, of shape (count,
        ndim).

        With ``as_tuple=True``, a tuple of one 1-d tensor for each dimension, with which x can be indexed; for a 0-d
        tensor there is one of them.

        >>> x = IntTensor[NumPy].from_data([[0, 7], [8, 0]])
        >>> x.nonzero().tolist(), x[x.nonzero(as_tuple=True)].tolist()
        ([[0, 1], [1, 0]], [7, 8])
        """
        d = self._device.discrete
        truth = self._primitive if self.kind == "bool" else self._backend.to_bool(self._primitive)
        if not as_tuple:
            return self._int(d.nonzero(truth))
        positions = d.nonzero(truth if truth.shape else d.reshape(truth, (1,)))
        return tuple([self._int(d.slice(positions, (slice(None), dim))) for dim in range(positions.shape[1])])

    def argwhere(self) -> IntTensor[B]:
        """Return the indices of the elements that are not 0 (or False), in row-major order: int64, of shape (count,
        ndim).

        >>> IntTensor[NumPy].from_data([[0, 7], [8, 0]]).argwhere().tolist()
        [[0, 1], [1, 0]]
        """
        return self.nonzero()


def elementwise_index(x: TensorBase[Any], operation: str, dim: int, index: Any) -> tuple[int, Int]:
    """Return the checked dim and the primitive of an elementwise index; a 0-d one becomes a vector."""
    shape = x.shape or (1,)
    if not x.ndim:
        scalar_dim(dim, operation)
    resolved = dim_of(dim, len(shape), operation)
    value = index_of(x, index, operation)
    if not value.shape:
        value = x.device.discrete.reshape(value, (1,))
    sizes = value.shape
    if len(sizes) != len(shape) or any(n > shape[d] for d, n in enumerate(sizes) if d != resolved):
        raise ShapeError(
            f"{operation}() got an index of shape {sizes} into shape {shape} along dim {resolved}; the "
            "index needs as many dimensions, and except for that one none larger"
        )
    return resolved, in_range(x.device, value, shape[resolved], False, f"{operation}()", resolved, shape)


def vector_of(x: TensorBase[Any]) -> Value:
    """Return the primitive of x; for a 0-d tensor, reshaped to a vector of one element."""
    return x._primitive if x.ndim else x._backend.reshape(x._primitive, (1,))


def mask_of(x: TensorBase[Any], mask: Any, operation: str) -> tuple[Bool, Shape]:
    """Return the primitive of a mask over x, and the shape that both broadcast to."""
    condition = condition_of(x, mask, operation)
    shape = broadcast_shape(condition.shape, x.shape)
    if shape is None:
        raise ShapeError(
            f"{operation}() got a mask of shape {condition.shape}, which does not broadcast with {x.shape}"
        )
    return condition, shape
