"""Reductions: sums, products, maxima, minima, any and all; of float tensors also means, deviations and softmax.

A body of ``...`` is not what runs: the decorator above it copies a function of `burnpy.tensor.template`, ``@binary``
the function ``_binary``, with the method's name in place of ``OPERATION``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Never, Self, overload

from burnpy.backend.dtypes import dtype_of, int64
from burnpy.backend.errors import ShapeError
from burnpy.tensor.dim_checks import ALL, DimsLike, dim_of, dims_of, scalar_dim
from burnpy.tensor.template import accumulation, along_dim, reduction
from burnpy.tensor.tensor_base import TensorBase
from burnpy.typevars import B, U, V

if TYPE_CHECKING:
    from burnpy.tensor.tensor import BoolTensor, IntTensor


class Selection(NamedTuple, Generic[V, U]):
    """The result of methods that choose elements along a dimension, such as ``x.max(dim)`` and ``x.sort(dim)``."""

    values: V
    """The elements."""
    indices: U
    """Their indices along the dimension."""


class Sums(TensorBase[B]):
    """Sums and products of numbers.

    ``dim`` is an int, a tuple of ints, or None for all dimensions; negative dims count from the end, and () reduces
    nothing. With ``keepdim=True`` reduced dimensions stay, with size 1. Every reduction raises `DimError` for a
    dimension that x does not have.
    """

    __slots__ = ()

    @accumulation
    def sum(self, dim: DimsLike = None, keepdim: bool = False, *, dtype: Any = None, **unknown: Never) -> Self:
        """Return the sum over ``dim``; 0 if there are no elements.

        Ints are summed in int64; 16-bit floats are summed in float32 and the result is rounded.

        Args:
            dim: an int, several ints, or None for all dimensions.
            keepdim: whether reduced dimensions stay, with size 1.
            dtype: a dtype of x's kind that x is cast to before summing; None for no cast.
            unknown: arguments that the method does not accept; the error names the one to use instead.

        Raises:
            CallError: an argument is unknown, such as NumPy's ``axis``.

        >>> x = Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 4.0]])
        >>> x.sum().item(), x.sum(dim=1).tolist(), x.sum(dim=0, keepdim=True).shape
        (10.0, [3.0, 7.0], (1, 2))
        """
        ...

    @accumulation
    def prod(self, dim: DimsLike = None, keepdim: bool = False, *, dtype: Any = None, **unknown: Never) -> Self:
        """Return the product over ``dim``; 1 if there are no elements.

        Ints are multiplied in int64. Gradients are exact where elements are 0. ``dtype`` is as for `sum`.
        """
        ...

    def any(self, dim: DimsLike = None, keepdim: bool = False) -> BoolTensor[B]:
        """Return a `BoolTensor` that is True if any element over ``dim`` is not 0."""
        return self._bool(self._backend.to_bool(self._primitive)).any(dim, keepdim)

    def all(self, dim: DimsLike = None, keepdim: bool = False) -> BoolTensor[B]:
        """Return a `BoolTensor` that is True if no element over ``dim`` is 0."""
        return self._bool(self._backend.to_bool(self._primitive)).all(dim, keepdim)


class Means(Sums[B]):
    """Means of floats and complex numbers."""

    __slots__ = ()

    @accumulation
    def mean(self, dim: DimsLike = None, keepdim: bool = False, *, dtype: Any = None) -> Self:
        """Return the mean over ``dim``; NaN if there are no elements. ``dtype`` is as for `sum`.

        >>> Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 6.0]]).mean(dim=1).tolist()
        [1.5, 4.5]
        """
        ...


class NumberReductions(Sums[B]):
    """Reductions of numbers that have an order; ``dim`` and ``keepdim`` are as in `Sums`."""

    __slots__ = ()

    def amax(self, dim: DimsLike = None, keepdim: bool = False) -> Self:
        """Return the maximum over ``dim``; NaN if an element is NaN. The gradient is split evenly among ties.

        Raises:
            ShapeError: there are no elements.
        """
        dims = dims_of(dim, self.ndim, "amax")
        self._need_elements(dims, "amax")
        return self._like(self._backend.amax(self._primitive, dims, keepdim))

    def amin(self, dim: DimsLike = None, keepdim: bool = False) -> Self:
        """Return the minimum over ``dim``; NaN if an element is NaN. The gradient is split evenly among ties.

        Raises:
            ShapeError: there are no elements.
        """
        dims = dims_of(dim, self.ndim, "amin")
        self._need_elements(dims, "amin")
        return self._like(self._backend.amin(self._primitive, dims, keepdim))

    @overload
    def max(self) -> Self: ...
    @overload
    def max(self, dim: int, keepdim: bool = False) -> Selection[Self, IntTensor[B]]: ...
    def max(self, dim: int | None = None, keepdim: bool = False) -> Any:
        """Return the maximum of all elements; with ``dim``, a named tuple of the maxima along it and their indices.

        Without ``dim`` the gradient is split evenly among ties; with ``dim`` it goes to the first of them.

        Raises:
            ShapeError: there are no elements.

        >>> values, indices = Tensor[NumPy].from_data([[1.0, 5.0], [4.0, 2.0]]).max(dim=1)
        >>> values.tolist(), indices.tolist()
        ([5.0, 4.0], [1, 0])
        """
        primitive = self._primitive
        ndim = len(primitive.shape)
        if dim is None:
            self._need_elements(ALL[ndim], "max")
            return self._like(self._backend.amax(primitive, ALL[ndim], keepdim))
        if not ndim:
            return self._of_scalar("max", dim)
        resolved = dim_of(dim, ndim, "max")
        self._need_elements((resolved,), "max")
        values, indices = self._backend.max_dim(primitive, resolved, keepdim)
        return Selection(self._like(values), self._int(indices))

    @overload
    def min(self) -> Self: ...
    @overload
    def min(self, dim: int, keepdim: bool = False) -> Selection[Self, IntTensor[B]]: ...
    def min(self, dim: int | None = None, keepdim: bool = False) -> Any:
        """Return the minimum of all elements; with ``dim``, a named tuple of the minima along it and their indices.

        Without ``dim`` the gradient is split evenly among ties; with ``dim`` it goes to the first of them.

        Raises:
            ShapeError: there are no elements.
        """
        primitive = self._primitive
        ndim = len(primitive.shape)
        if dim is None:
            self._need_elements(ALL[ndim], "min")
            return self._like(self._backend.amin(primitive, ALL[ndim], keepdim))
        if not ndim:
            return self._of_scalar("min", dim)
        resolved = dim_of(dim, ndim, "min")
        self._need_elements((resolved,), "min")
        values, indices = self._backend.min_dim(primitive, resolved, keepdim)
        return Selection(self._like(values), self._int(indices))

    def argmax(self, dim: int | None = None, keepdim: bool = False) -> IntTensor[B]:
        """Return the index of the first maximum along ``dim``; for None, among all elements in row-major order.

        Raises:
            ShapeError: there are no elements.

        >>> x = Tensor[NumPy].from_data([[1.0, 9.0], [4.0, 2.0]])
        >>> x.argmax().item(), x.argmax(dim=1).tolist()
        (1, [1, 0])
        """
        return self._int(self._position("argmax", dim, keepdim))

    def argmin(self, dim: int | None = None, keepdim: bool = False) -> IntTensor[B]:
        """Return the index of the first minimum along ``dim``; for None, among all elements in row-major order.

        Raises:
            ShapeError: there are no elements.
        """
        return self._int(self._position("argmin", dim, keepdim))

    def _position(self, operation: str, dim: int | None, keepdim: bool) -> Any:
        shape = self.shape
        backend = self._backend
        if dim is not None and not shape:
            scalar_dim(dim, operation)
        elif dim is not None:
            resolved = dim_of(dim, len(shape), operation)
            self._need_elements((resolved,), operation)
            return getattr(backend, operation)(self._primitive, resolved, keepdim)
        self._need_elements(ALL[len(shape)], operation)
        index = getattr(backend, operation)(backend.reshape(self._primitive, (math.prod(shape),)), 0, False)
        return self._device.discrete.reshape(index, (1,) * len(shape)) if keepdim else index

    def _of_scalar(self, operation: str, dim: int) -> Selection[Self, IntTensor[B]]:
        """Return the result of `max` and `min` along a dimension of a 0-d tensor: its value and the index 0."""
        scalar_dim(dim, operation)
        values = self._like(self._backend.reshape(self._primitive, ()))
        return Selection(values, self._int(self._device.discrete.full((), 0, int64)))

    def _need_elements(self, dims: tuple[int, ...], operation: str) -> None:
        """Raise a `ShapeError` if there are no elements to reduce."""
        shape = self._primitive.shape
        if 0 in shape and any(shape[d] == 0 for d in dims):
            over = f"dim {dims[0]}" if len(dims) == 1 else f"dims {dims}"
            raise ShapeError(
                f"{operation}() over {over} of shape {shape} has no element to choose from; "
                "reduce dimensions that are not empty, or leave the empty case out"
            )


class BoolReductions(TensorBase[B]):
    """Reductions of bool tensors; ``dim`` and ``keepdim`` are as in `Sums`."""

    __slots__ = ()

    @reduction
    def any(self, dim: DimsLike = None, keepdim: bool = False) -> Self:
        """Return a `BoolTensor` that is True if any element over ``dim`` is True; False if there are no elements."""
        ...

    @reduction
    def all(self, dim: DimsLike = None, keepdim: bool = False) -> Self:
        """Return a `BoolTensor` that is True if every element over ``dim`` is True; True if there are no elements."""
        ...

    def sum(self, dim: DimsLike = None, keepdim: bool = False, *, dtype: Any = None) -> IntTensor[B]:
        """Return the number of True elements over ``dim``, in int64 or the int ``dtype``.

        >>> (Tensor[NumPy].from_data([1.0, -2.0, 3.0]) > 0).sum().item()
        2
        """
        wide = int64 if dtype is None else dtype_of(dtype, "int")
        total = self._backend.sum(self._primitive, dims_of(dim, self.ndim, "sum"), keepdim)
        return self._int(total if wide == int64 else self._backend.cast(total, wide))


class FloatReductions(Means[B], NumberReductions[B]):
    """Reductions of floats; ``dim`` and ``keepdim`` are as in `Sums`."""

    __slots__ = ()

    def var(self, dim: DimsLike = None, keepdim: bool = False, *, correction: float = 1) -> Self:
        """Return the variance over ``dim``: the sum of squared deviations from the mean, divided by (count -
        ``correction``).

        Args:
            dim: an int, several ints, or None for all dimensions.
            keepdim: whether reduced dimensions stay, with size 1.
            correction: 1 for the unbiased estimate from a sample (Bessel's correction), 0 for the population variance.
        """
        dims = dims_of(dim, self.ndim, "var")
        return self._like(self._backend.var(self._primitive, dims, keepdim, correction))

    def std(self, dim: DimsLike = None, keepdim: bool = False, *, correction: float = 1) -> Self:
        """Return the standard deviation over ``dim``, the square root of `var`. Its gradient is 0 where it is 0.

        >>> x = Tensor[NumPy].from_data([1.0, 2.0, 3.0])
        >>> x.std().item(), round(x.std(correction=0).item(), 4)
        (1.0, 0.8165)
        """
        dims = dims_of(dim, self.ndim, "std")
        return self._like(self._backend.std(self._primitive, dims, keepdim, correction))

    def logsumexp(self, dim: DimsLike = None, keepdim: bool = False) -> Self:
        """Return the function log(sum(exp(x))) over ``dim``, without overflow; -inf if there are no elements.

        >>> Tensor[NumPy].from_data([[1000.0, 1000.0], [0.0, -1000.0]]).logsumexp(dim=1).tolist()
        [1000.6931762695312, 0.0]
        """
        dims = dims_of(dim, self.ndim, "logsumexp")
        return self._like(self._backend.logsumexp(self._primitive, dims, keepdim))

    @along_dim
    def softmax(self, dim: int) -> Self:
        """Return the softmax along ``dim``: exp(x) divided by its sum, without overflow; NaN where all elements are
        -inf.

        >>> Tensor[NumPy].from_data([[1.0, 1.0], [1000.0, 0.0]]).softmax(dim=1).tolist()
        [[0.5, 0.5], [1.0, 0.0]]
        """
        ...

    @along_dim
    def log_softmax(self, dim: int) -> Self:
        """Return the logarithm of the softmax along ``dim``, accurate where softmax underflows.

        >>> Tensor[NumPy].from_data([0.0, 1000.0]).log_softmax(dim=0).tolist()
        [-1000.0, 0.0]
        """
        ...
