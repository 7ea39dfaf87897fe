"""Methods that float tensors alone have: reductions that skip NaN, quantiles, norms, covariance, histograms."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Self

from burnpy.backend.dtypes import dtype_of, int64
from burnpy.backend.errors import ArgumentError
from burnpy.tensor.along import Interpolation, along, shaped
from burnpy.tensor.base import describe
from burnpy.tensor.dims import DimsLike, dims_of, integer, need_bool
from burnpy.tensor.float_reductions import FloatReductions
from burnpy.tensor.operands import number
from burnpy.tensor.quantiles import quantile
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import Tensor


class Statistics(FloatReductions[B]):
    """Statistics of floats; ``dim`` and ``keepdim`` are as in `NumberReductions`."""

    __slots__ = ()

    def nanmean(self, dim: DimsLike = None, keepdim: bool = False, *, dtype: Any = None) -> Self:
        """The mean over ``dim`` of the elements that are not NaN, to which alone the gradient goes; NaN if all are.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].from_data([1.0, float("nan"), 2.0]).nanmean().item()
        1.5
        """
        need_bool(keepdim, "nanmean")
        b, x = self._backend, self._primitive
        dims = dims_of(dim, self.ndim, "nanmean")
        total = self.nansum(dim, keepdim, dtype=dtype)  # type: ignore[attr-defined]  # Covariances'
        counts = self._device.discrete.sum(b.eq(x, x), dims, keepdim)
        return self._like(b.div(total._primitive, b.to_float(counts, total.dtype)))

    def logcumsumexp(self, dim: int) -> Self:
        """The cumulative log(sum(exp(x))) along ``dim``, without overflow.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].from_data([1000.0, -1000.0]).logcumsumexp(0).tolist()
        [1000.0, 1000.0]
        """
        a = along(self, dim, "logcumsumexp")
        return self._like(shaped(self._backend, self._backend.logcumsumexp(a.primitive, a.dim), self.shape))

    def quantile(
        self,
        q: float | Tensor[B],
        dim: int | None = None,
        keepdim: bool = False,
        *,
        interpolation: Interpolation = "linear",
    ) -> Self:
        """The quantiles of the elements along ``dim``; NaN where one is NaN.

        Args:
            q: the probability, from 0 to 1; or a 0-d or 1-d tensor of them, of x's dtype. With a 1-d one the result has
                its size as first dimension.
            dim: the dimension along which elements are compared; None for all elements.
            keepdim: whether the dimension stays, with size 1.
            interpolation: what to take of a quantile between two elements: "linear", "lower", "higher", "nearest" or
                "midpoint". The gradient goes to both, by their weights.

        Raises:
            ArgumentError: q is not from 0 to 1, or the interpolation is another word.
            ShapeError: there are no elements, or q has 2 dimensions or more.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].from_data([4.0, 1.0, 3.0, 2.0]).quantile(0.5).item()
        2.5
        """
        out: Self = quantile(self, q, dim, keepdim, interpolation, skip_nan=False)
        return out

    def nanquantile(
        self,
        q: float | Tensor[B],
        dim: int | None = None,
        keepdim: bool = False,
        *,
        interpolation: Interpolation = "linear",
    ) -> Self:
        """The quantiles of the elements along ``dim`` that are not NaN; NaN where all are. See `quantile`."""
        out: Self = quantile(self, q, dim, keepdim, interpolation, skip_nan=True)
        return out

    def norm(
        self, p: float | str | None = "fro", dim: DimsLike = None, keepdim: bool = False, dtype: Any = None
    ) -> Self:
        """The p-norm over ``dim``, (Σ |x|ᵖ)^(1/p), of the elements as one vector, without overflow or underflow.

        Its gradient is 0 where it is 0, at every order.

        Args:
            p: the exponent; ∞ for the largest magnitude, -∞ for the smallest, 0 for the number of elements that are not
                0; "fro" is 2.
            dim: an int, several ints, or None for all dimensions.
            keepdim: whether reduced dimensions stay, with size 1.
            dtype: a float dtype that x is cast to first.

        Raises:
            ArgumentError: p is "nuc", the nuclear norm, or another word.
            ShapeError: there are no elements, and p is ∞ or negative.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> x = Tensor[NumPy].from_data([[3.0, -4.0], [0.0, 1.0]])
        >>> x.norm(dim=1).tolist(), x.norm(float("inf")).item()
        ([5.0, 1.0], 4.0)
        """
        need_bool(keepdim, "norm")
        order = 2.0 if p is None or p == "fro" else p
        if not isinstance(order, (int, float)) or isinstance(order, bool) or math.isnan(order):
            raise ArgumentError(f"norm() got p={describe(p)}; expected a number or 'fro', of one vector")
        x: Self = self if dtype is None else self.to_dtype(dtype_of(dtype, "float"))  # type: ignore[attr-defined]  # FloatConversion's
        dims = dims_of(dim, self.ndim, "norm")
        if order < 0 or order == math.inf:
            self._need_elements(dims, "norm")
        return x._like(x._backend.vector_norm(x._primitive, float(order), dims, keepdim))

    def dist(self, other: Self, p: float = 2.0) -> Self:
        """The p-norm of ``x - other``, 0-d; shapes broadcast. Its gradient where they are equal is 0.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].from_data([3.0, 0.0]).dist(Tensor[NumPy].from_data([0.0, 4.0])).item()
        5.0
        """
        difference: Any = self.sub(other)  # type: ignore[attr-defined]  # Arithmetic's
        return difference.norm(p)  # type: ignore[no-any-return]  # of that class

    def histc(self, bins: int = 100, min: float = 0.0, max: float = 0.0) -> Self:  # PyTorch's names
        """The number of elements in each of ``bins`` intervals of equal width from ``min`` to ``max``, in x's dtype.

        With equal bounds these are the smallest and the largest element. Elements beyond the bounds, and NaN, are not
        counted; the last interval includes ``max``. The result carries no gradient.

        Raises:
            ArgumentError: there is no interval, or ``max`` is less than ``min``, or a bound is not finite.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].from_data([1.0, 2.0, 2.5, 4.0]).histc(3, 1.0, 4.0).tolist()
        [1.0, 2.0, 1.0]
        """
        count = integer(bins, "number of bins", "histc")
        low, high = (float(number(self, bound, "histc")) for bound in (min, max))
        if count < 1:
            raise ArgumentError(f"histc() got {count} bins; it needs at least 1")
        if not (math.isfinite(low) and math.isfinite(high) and low <= high):
            raise ArgumentError(f"histc() got bins from {low} to {high}; the bounds are finite, and ascend")
        b, d = self._backend, self._device.discrete
        flat = b.reshape(b.detach(self._primitive), (math.prod(self.shape),))
        if low == high and flat.shape[0]:
            least, most = b.amin(flat, (0,), False), b.amax(flat, (0,), False)
        else:
            least, most = (b.full((), bound, self.dtype) for bound in (low, high))
        equal = b.eq(least, most)
        least, most = b.where(equal, b.sub(least, 1.0), least), b.where(equal, b.add(most, 1.0), most)
        inside = d.bitwise_and(b.ge(flat, least), b.le(flat, most))
        place = b.floor(b.mul(b.div(b.sub(flat, least), b.sub(most, least)), float(count)))
        place = d.minimum(b.to_int(b.where(inside, place, 0.0), int64), count - 1)
        counts = d.index_add(d.full((count,), 0, int64), 0, place, d.to_int(inside, int64))
        return self._like(b.to_float(counts, self.dtype))
