"""Reductions that float and int tensors share, and those of bools: sums, products, extremes, any and all."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Never, Self, TypeVar, overload

from burnpy.backend.dtypes import dtype_of, int64
from burnpy.backend.errors import ShapeError
from burnpy.tensor.base import B, TensorBase
from burnpy.tensor.dims import ALL, DimsLike, dim_of, dims_of, need_bool, scalar_dim
from burnpy.tensor.template import accumulation, reduction

if TYPE_CHECKING:
    from burnpy.tensor.bool_tensor import BoolTensor
    from burnpy.tensor.int_tensor import IntTensor

V = TypeVar("V")
I = TypeVar("I")  # noqa: E741  # indices


class Extremes(NamedTuple, Generic[V, I]):
    """What ``x.max(dim)`` and ``x.min(dim)`` give."""

    values: V
    """The extreme elements along the dimension."""
    indices: I
    """Where along it they are: the first, where several are as extreme."""


class NumberReductions(TensorBase[B]):
    """Reductions of numbers.

    ``dim`` is an int, a tuple of them, or None for all dimensions; negative ones count from the end, and () reduces
    nothing. With ``keepdim=True`` reduced dimensions stay, of size 1. Every one of them raises `DimError` for a
    dimension that x does not have.
    """

    __slots__ = ()

    @accumulation
    def sum(self, dim: DimsLike = None, keepdim: bool = False, *, dtype: Any = None, **unknown: Never) -> Self:
        """The sum over ``dim``; 0 of nothing. Ints add up in int64, 16-bit floats in float32 before they are rounded.

        Args:
            dim: an int, several, or None for all.
            keepdim: whether reduced dimensions stay, of size 1.
            dtype: the dtype of x's kind in which to add up; None for x's own.
            unknown: nothing; what is not taken is refused in a sentence.

        Raises:
            CallError: there is an argument that is not taken, such as NumPy's ``axis``.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> x = Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 4.0]])
        >>> x.sum().item(), x.sum(dim=1).tolist(), x.sum(dim=0, keepdim=True).shape
        (10.0, [3.0, 7.0], (1, 2))
        """
        ...

    @accumulation
    def prod(self, dim: DimsLike = None, keepdim: bool = False, *, dtype: Any = None, **unknown: Never) -> Self:
        """The product over ``dim``; 1 of nothing. Ints multiply in int64. Gradients are exact where elements are 0.

        ``dtype`` is as for `sum`.
        """
        ...

    def amax(self, dim: DimsLike = None, keepdim: bool = False) -> Self:
        """The largest element over ``dim``; NaN where there is one. The gradient is split evenly among ties.

        Raises:
            ShapeError: there is no element to choose from.
        """
        dims = dims_of(dim, self.ndim, "amax")
        self._need_elements(dims, "amax")
        need_bool(keepdim, "amax")
        return self._like(self._backend.amax(self._primitive, dims, keepdim))

    def amin(self, dim: DimsLike = None, keepdim: bool = False) -> Self:
        """The smallest element over ``dim``; NaN where there is one. The gradient is split evenly among ties.

        Raises:
            ShapeError: there is no element to choose from.
        """
        dims = dims_of(dim, self.ndim, "amin")
        self._need_elements(dims, "amin")
        need_bool(keepdim, "amin")
        return self._like(self._backend.amin(self._primitive, dims, keepdim))

    @overload
    def max(self) -> Self: ...
    @overload
    def max(self, dim: int, keepdim: bool = False) -> Extremes[Self, IntTensor[B]]: ...
    def max(self, dim: int | None = None, keepdim: bool = False) -> Any:
        """The largest element; with ``dim``, a named tuple of the largest along it and their indices.

        Without ``dim`` the gradient is split evenly among ties, with it the first of them gets it.

        Raises:
            ShapeError: there is no element to choose from.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> values, indices = Tensor[NumPy].from_data([[1.0, 5.0], [4.0, 2.0]]).max(dim=1)
        >>> values.tolist(), indices.tolist()
        ([5.0, 4.0], [1, 0])
        """
        need_bool(keepdim, "max")
        if dim is None:
            self._need_elements(ALL[self.ndim], "max")
            return self._like(self._backend.amax(self._primitive, ALL[self.ndim], keepdim))
        if not self.ndim:
            return self._of_scalar("max", dim)
        found = dim_of(dim, self.ndim, "max")
        self._need_elements((found,), "max")
        values, indices = self._backend.max_dim(self._primitive, found, keepdim)
        return Extremes(self._like(values), self._int(indices))

    @overload
    def min(self) -> Self: ...
    @overload
    def min(self, dim: int, keepdim: bool = False) -> Extremes[Self, IntTensor[B]]: ...
    def min(self, dim: int | None = None, keepdim: bool = False) -> Any:
        """The smallest element; with ``dim``, a named tuple of the smallest along it and their indices.

        Without ``dim`` the gradient is split evenly among ties, with it the first of them gets it.

        Raises:
            ShapeError: there is no element to choose from.
        """
        need_bool(keepdim, "min")
        if dim is None:
            self._need_elements(ALL[self.ndim], "min")
            return self._like(self._backend.amin(self._primitive, ALL[self.ndim], keepdim))
        if not self.ndim:
            return self._of_scalar("min", dim)
        found = dim_of(dim, self.ndim, "min")
        self._need_elements((found,), "min")
        values, indices = self._backend.min_dim(self._primitive, found, keepdim)
        return Extremes(self._like(values), self._int(indices))

    def argmax(self, dim: int | None = None, keepdim: bool = False) -> IntTensor[B]:
        """The index of the first largest element along ``dim``, or, for None, among all elements in row-major order.

        Raises:
            ShapeError: there is no element to choose from.
        """
        return self._int(self._position("argmax", dim, keepdim))

    def argmin(self, dim: int | None = None, keepdim: bool = False) -> IntTensor[B]:
        """The index of the first smallest element along ``dim``, or, for None, among all elements in row-major order.

        Raises:
            ShapeError: there is no element to choose from.
        """
        return self._int(self._position("argmin", dim, keepdim))

    def cumsum(self, dim: int, *, dtype: Any = None) -> Self:
        """The running sum along ``dim``. Ints add up in int64; ``dtype`` is as for `sum`."""
        wide = None if dtype is None else dtype_of(dtype, self.kind)
        backend, primitive = self._backend, self._primitive
        if wide is not None:
            primitive = backend.cast(primitive, wide)
        if primitive.shape:
            out = backend.cumsum(primitive, dim_of(dim, len(primitive.shape), "cumsum"))
        else:
            scalar_dim(dim, "cumsum")
            out = backend.sum(primitive, (), False)
        return self._like(out if wide is None else backend.cast(out, wide))

    def any(self, dim: DimsLike = None, keepdim: bool = False) -> BoolTensor[B]:
        """Whether any element over ``dim`` is not 0."""
        return self._bool(self._backend.to_bool(self._primitive)).any(dim, keepdim)

    def all(self, dim: DimsLike = None, keepdim: bool = False) -> BoolTensor[B]:
        """Whether no element over ``dim`` is 0."""
        return self._bool(self._backend.to_bool(self._primitive)).all(dim, keepdim)

    def _position(self, operation: str, dim: int | None, keepdim: bool) -> Any:
        shape = self.shape
        backend = self._backend
        need_bool(keepdim, operation)
        if dim is not None and not shape:
            scalar_dim(dim, operation)
        elif dim is not None:
            found = dim_of(dim, len(shape), operation)
            self._need_elements((found,), operation)
            return getattr(backend, operation)(self._primitive, found, keepdim)
        self._need_elements(ALL[len(shape)], operation)
        index = getattr(backend, operation)(backend.reshape(self._primitive, (math.prod(shape),)), 0, False)
        return self._device.discrete.reshape(index, (1,) * len(shape)) if keepdim else index

    def _of_scalar(self, operation: str, dim: int) -> Extremes[Self, IntTensor[B]]:
        """What `max` and `min` give along a dimension of a 0-d tensor: its value, and 0."""
        scalar_dim(dim, operation)
        values = self._like(self._backend.reshape(self._primitive, ()))
        return Extremes(values, self._int(self._device.discrete.full((), 0, int64)))

    def _need_elements(self, dims: tuple[int, ...], operation: str) -> None:
        """Refuse a choice among no elements."""
        shape = self.shape
        if 0 in shape and any(shape[d] == 0 for d in dims):
            over = f"dim {dims[0]}" if len(dims) == 1 else f"dims {dims}"
            raise ShapeError(
                f"{operation}() over {over} of shape {shape} has no element to choose from; "
                "reduce dimensions that are not empty, or leave the empty case out"
            )


class BoolReductions(TensorBase[B]):
    """Reductions of truth values; ``dim`` and ``keepdim`` are as for numbers."""

    __slots__ = ()

    @reduction
    def any(self, dim: DimsLike = None, keepdim: bool = False) -> Self:
        """Whether any element over ``dim`` is true; False of nothing."""
        ...

    @reduction
    def all(self, dim: DimsLike = None, keepdim: bool = False) -> Self:
        """Whether every element over ``dim`` is true; True of nothing."""
        ...

    def sum(self, dim: DimsLike = None, keepdim: bool = False, *, dtype: Any = None) -> IntTensor[B]:
        """How many elements over ``dim`` are true, int64 or as the int ``dtype`` says.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> (Tensor[NumPy].from_data([1.0, -2.0, 3.0]) > 0).sum().item()
        2
        """
        need_bool(keepdim, "sum")
        wide = int64 if dtype is None else dtype_of(dtype, "int")
        total = self._backend.sum(self._primitive, dims_of(dim, self.ndim, "sum"), keepdim)
        return self._int(total if wide == int64 else self._backend.cast(total, wide))
