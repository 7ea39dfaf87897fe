"""Methods that select or replace elements by indices and masks, for tensors of all kinds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, Self, overload

from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.backend.primitives import Int, Shape, Value
from burnpy.tensor.dims import dim_of, scalar_dim
from burnpy.tensor.joining import chosen, condition_of
from burnpy.tensor.operands import broadcast_shape, in_range, index_of, number, operands
from burnpy.tensor.tensor_base import TensorBase, describe
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import IntTensor
    from burnpy.tensor.tensor_types import Bools, Ints


class Selecting(TensorBase[B]):
    """Selection and replacement of elements.

    Indices are an `IntTensor` on x's device, from 0 to the size minus one. An index out of range raises an
    `IndexRangeError`, on the CPU at once and on a GPU at the next synchronization.
    """

    __slots__ = ()

    def index_select(self, dim: int, index: Ints[B]) -> Self:
        """The slices of x along ``dim`` selected by a 1-d ``index``, in its order; a 0-d index selects one slice.

        >>> from burnpy import IntTensor, Tensor
        >>> from burnpy.backend import NumPy
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
            return self._shaped(self._backend.index_select(self._vector(), 0, value), shape)
        resolved = dim_of(dim, len(shape), "index_select")
        value = in_range(self.device, value, shape[resolved], False, "index_select()", resolved, shape)
        return self._like(self._backend.index_select(self._primitive, resolved, value))

    def gather(self, dim: int, index: Ints[B]) -> Self:
        """The elements of x at ``index`` along ``dim``: for dim 0, ``out[i, j] = x[index[i, j], j]``.

        The index has as many dimensions as x, and except in ``dim`` no larger sizes; the result has its shape. A 0-d
        tensor is treated as a vector of one element.

        Raises:
            ShapeError: the index has another number of dimensions than x, or a larger size outside of ``dim``.

        >>> from burnpy import IntTensor, Tensor
        >>> from burnpy.backend import NumPy
        >>> x = Tensor[NumPy].from_data([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
        >>> x.gather(1, IntTensor[NumPy].from_data([[2], [0]])).tolist()
        [[3.0], [4.0]]
        """
        resolved, value = self._elements("gather", dim, index)
        indices: Any = index
        return self._shaped(self._backend.gather(self._vector(), resolved, value), indices.shape)

    def take_along_dim(self, index: Ints[B], dim: int | None = None) -> Self:
        """The elements of x at ``index`` along ``dim``, as `gather`, but x and the index broadcast in other dimensions.

        It takes the results of ``argmax``, ``argmin`` and similar methods. Negative indices count from the end. With
        ``dim`` None, the index selects from the elements of x in row-major order, and the result is 1-d.

        Raises:
            IndexRangeError: an index is out of range.
            ShapeError: the shapes do not broadcast, or have a different number of dimensions.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> x = Tensor[NumPy].from_data([[1.0, 9.0], [8.0, 2.0]])
        >>> x.take_along_dim(x.argmax(1, keepdim=True), 1).tolist(), x.take_along_dim(x.argmax()).tolist()
        ([[9.0], [8.0]], [9.0])
        """
        value, d = index_of(self, index, "take_along_dim"), self._device.discrete
        if dim is None:
            flat = self._shaped(self._primitive, (math.prod(self.shape),))
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

    def scatter(
        self,
        dim: int,
        index: Ints[B],
        src: Self | float,
        *,
        reduce: Literal["add", "multiply"] | None = None,
    ) -> Self:
        """A copy of x with ``src`` written at ``index`` along ``dim``: for dim 0, ``out[index[i, j], j] = src[i, j]``.

        If an index repeats, the last value is written, and gets the gradient. ``src`` is a number, or a tensor no
        smaller than the index. With ``reduce="add"`` or ``"multiply"``, x is combined with all values, as by
        `scatter_add` and `scatter_reduce`, and all get a gradient.

        Raises:
            ShapeError: the index has another number of dimensions than x or ``src``, or a larger size.
            ArgumentError: ``reduce`` is something else.

        >>> from burnpy import IntTensor, Tensor
        >>> from burnpy.backend import NumPy
        >>> index = IntTensor[NumPy].from_data([[2], [0]])
        >>> Tensor[NumPy].zeros((2, 3)).scatter(1, index, 7.0).tolist()
        [[0.0, 0.0, 7.0], [7.0, 0.0, 0.0]]
        """
        if reduce is not None:
            if reduce not in ("add", "multiply"):
                raise ArgumentError(
                    f"scatter() got reduce={describe(reduce)}; expected 'add', 'multiply' or scatter_reduce()'s"
                )
            combined: Any = self
            return combined.scatter_reduce(dim, index, src, "sum" if reduce == "add" else "prod")  # type: ignore[no-any-return]  # of x's class
        resolved, value = self._elements("scatter", dim, index)
        self, source = self._source("scatter", src, value.shape)
        return self._shaped(self._backend.scatter(self._vector(), resolved, value, source), self.shape)

    def scatter_add(self, dim: int, index: Ints[B], src: Self | float) -> Self:
        """A copy of x with ``src`` added at ``index`` along ``dim``: for dim 0, ``out[index[i, j], j] += src[i, j]``.

        If an index repeats, all values are added. ``src`` is a number, or a tensor no smaller than the index.

        Raises:
            ShapeError: the index has another number of dimensions than x or ``src``, or a larger size.

        >>> from burnpy import IntTensor, Tensor
        >>> from burnpy.backend import NumPy
        >>> index, src = IntTensor[NumPy].from_data([0, 2, 0]), Tensor[NumPy].from_data([1.0, 2.0, 3.0])
        >>> Tensor[NumPy].zeros((3,)).scatter_add(0, index, src).tolist()
        [4.0, 0.0, 2.0]
        """
        resolved, value = self._elements("scatter_add", dim, index)
        self, source = self._source("scatter_add", src, value.shape)
        return self._shaped(self._backend.scatter_add(self._vector(), resolved, value, source), self.shape)

    def where(self, condition: Bools[B], other: Self | float) -> Self:
        """The elements of x where ``condition`` is True, and ``other`` elsewhere; all broadcast, and dtypes promote.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> x = Tensor[NumPy].from_data([-1.0, 2.0])
        >>> x.where(x > 0, 0.0).tolist()
        [0.0, 2.0]
        """
        return chosen(condition, self, other)  # type: ignore[no-any-return]  # of x's class

    def masked_fill(self, mask: Bools[B], value: Self | float) -> Self:
        """A copy of x with ``value``, a number or a 0-d tensor, where ``mask`` is True; mask and x broadcast.

        Raises:
            ShapeError: the shapes do not broadcast, or ``value`` is not 0-d.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> scores = Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 4.0]])
        >>> scores.masked_fill(scores > 2.5, float("-inf")).tolist()
        [[1.0, 2.0], [-inf, -inf]]
        """
        condition = condition_of(self, mask, "masked_fill")
        if broadcast_shape(condition.shape, self.shape) is None:
            raise ShapeError(f"masked_fill() got a mask of shape {condition.shape} over shape {self.shape}")
        self, fill_value = self._source("masked_fill", value, ())
        return self._like(self._backend.where(condition, fill_value, self._primitive))

    def masked_select(self, mask: Bools[B]) -> Self:
        """A 1-d tensor of the elements where ``mask`` is True, in row-major order; mask and x broadcast.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> x = Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 4.0]])
        >>> x.masked_select(x > 1.5).tolist()
        [2.0, 3.0, 4.0]
        """
        condition = condition_of(self, mask, "masked_select")
        shape = broadcast_shape(condition.shape, self.shape)
        if shape is None:
            raise ShapeError(f"masked_select() got a mask of shape {condition.shape} over shape {self.shape}")
        expanded = self._like(self._backend.expand(self._primitive, shape))
        return expanded[self._bool(self._device.discrete.expand(condition, shape))]  # type: ignore[index, no-any-return]  # Indexing's

    @overload
    def nonzero(self, *, as_tuple: Literal[False] = False) -> IntTensor[B]: ...
    @overload
    def nonzero(self, *, as_tuple: Literal[True]) -> tuple[IntTensor[B], ...]: ...
    def nonzero(self, *, as_tuple: bool = False) -> Any:
        """The indices of the elements that are not 0 (or False), in row-major order: int64, of shape (count, ndim).

        With ``as_tuple=True``, a tuple of one 1-d tensor for each dimension, with which x can be indexed; for a 0-d
        tensor there is one of them.

        >>> from burnpy import IntTensor
        >>> from burnpy.backend import NumPy
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

    def _elements(self, operation: str, dim: int, index: Any) -> tuple[int, Int]:
        """Return the checked dim and the primitive of an elementwise index; a 0-d one becomes a vector.

        Raises:
            ShapeError: the index has another number of dimensions than x, or a larger size outside of ``dim``.
        """
        shape = self.shape or (1,)
        if not self.ndim:
            scalar_dim(dim, operation)
        resolved = dim_of(dim, len(shape), operation)
        value = index_of(self, index, operation)
        if not value.shape:
            value = self.device.discrete.reshape(value, (1,))
        sizes = value.shape
        if len(sizes) != len(shape) or any(n > shape[d] for d, n in enumerate(sizes) if d != resolved):
            raise ShapeError(
                f"{operation}() got an index of shape {sizes} into shape {shape} along dim {resolved}; the "
                "index needs as many dimensions, and except for that one none larger"
            )
        return resolved, in_range(self.device, value, shape[resolved], False, f"{operation}()", resolved, shape)

    def _vector(self) -> Value:
        """Return the primitive of x; for a 0-d tensor, reshaped to a vector of one element."""
        return self._primitive if self.ndim else self._backend.reshape(self._primitive, (1,))

    def _shaped(self, primitive: Value, shape: Shape) -> Self:
        """Return a tensor like this one from a primitive reshaped to ``shape``."""
        return self._like(primitive if primitive.shape == shape else self._backend.reshape(primitive, shape))

    def _source(self, operation: str, src: Any, shape: Shape) -> tuple[Self, Value]:
        """Return x and the primitive of ``src`` on one device; ``src`` is cast to x's dtype and cut to ``shape``.

        Raises:
            ShapeError: ``src`` has another number of dimensions than ``shape``, or a smaller size.
        """
        backend = self._backend
        if not isinstance(src, TensorBase):
            value = backend.full((), number(self, src, operation), self.dtype)
            return self, backend.expand(value, shape) if shape else value
        self, value = operands(self, src, operation)
        backend = self._backend
        if len(shape) == 1 and not value.shape:
            value = backend.reshape(value, (1,))
        sizes = value.shape
        if len(sizes) != len(shape) or any(n < m for n, m in zip(sizes, shape, strict=True)):
            fits = f"it must be a number, or no smaller than {shape}" if shape else "it must be a number, or 0-d"
            raise ShapeError(f"{operation}() got a source of shape {sizes}; {fits}")
        if sizes != shape:
            value = backend.slice(value, tuple([slice(0, n, 1) for n in shape]))
        return self, value if value.dtype == self.dtype else backend.cast(value, self.dtype)
