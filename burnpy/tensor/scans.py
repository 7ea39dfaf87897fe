"""Scans: sums, products, extremes and logarithms of sums of the elements up to each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from burnpy.backend.dtypes import dtype_of
from burnpy.tensor.dim_checks import along, dim_of, scalar_dim, shaped
from burnpy.tensor.ordering import as_numbers, in_kind_of, selection_of
from burnpy.tensor.reduction import Selection
from burnpy.tensor.tensor_base import TensorBase
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import IntTensor


class Scans(TensorBase[B]):
    """Sums and products of the elements up to each."""

    __slots__ = ()

    def cumsum(self, dim: int, *, dtype: Any = None) -> Self:
        """Return the cumulative sum along ``dim``. Ints are summed in int64; ``dtype`` is as for `sum`.

        >>> IntTensor[NumPy].from_data([[1, 2, 3], [4, 5, 6]]).cumsum(dim=1).tolist()
        [[1, 3, 6], [4, 9, 15]]
        """
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

    def cumprod(self, dim: int, *, dtype: Any = None) -> Self:
        """Return the cumulative product along ``dim``. Ints are multiplied in int64; ``dtype`` is as for `sum`.

        Gradients are exact where elements are 0.

        >>> Tensor[NumPy].from_data([2.0, 3.0, 4.0]).cumprod(0).tolist()
        [2.0, 6.0, 24.0]
        """
        x = self if dtype is None else self.to_dtype(dtype)  # type: ignore[attr-defined]  # a method of both kinds
        a = along(x, dim, "cumprod")
        out = self._like(shaped(self._backend, self._backend.cumprod(a.primitive, a.dim), self.shape))
        return out if dtype is None else out.to_dtype(dtype)  # type: ignore[attr-defined]  # as above


class RunningExtremes(TensorBase[B]):
    """Extremes of the elements up to each."""

    __slots__ = ()

    def cummax(self, dim: int) -> Selection[Self, IntTensor[B]]:
        """Return the largest element along ``dim`` up to each one, and its index: of equal ones the last. NaN
        propagates.

        >>> values, indices = Tensor[NumPy].from_data([1.0, 3.0, 2.0]).cummax(0)
        >>> values.tolist(), indices.tolist()
        ([1.0, 3.0, 3.0], [0, 1, 1])
        """
        x = as_numbers(self)
        a = along(x, dim, "cummax")
        values, indices = selection_of(x, *x._backend.cummax(a.primitive, a.dim))
        return Selection(in_kind_of(self, values), indices)

    def cummin(self, dim: int) -> Selection[Self, IntTensor[B]]:
        """Return the smallest element along ``dim`` up to each one, and its index: of equal ones the last. NaN
        propagates."""
        x = as_numbers(self)
        a = along(x, dim, "cummin")
        values, indices = selection_of(x, *x._backend.cummin(a.primitive, a.dim))
        return Selection(in_kind_of(self, values), indices)


class RunningLogarithms(TensorBase[B]):
    """Logarithms of sums of the elements up to each."""

    __slots__ = ()

    def logcumsumexp(self, dim: int) -> Self:
        """Return the cumulative log(sum(exp(x))) along ``dim``, without overflow.

        >>> Tensor[NumPy].from_data([1000.0, -1000.0]).logcumsumexp(0).tolist()
        [1000.0, 1000.0]
        """
        a = along(self, dim, "logcumsumexp")
        return self._like(shaped(self._backend, self._backend.logcumsumexp(a.primitive, a.dim), self.shape))
