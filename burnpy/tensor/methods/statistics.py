"""Statistics: counts and histograms, sums and means that skip NaN, scans, quantiles, norms and covariances."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Self

from burnpy.backend.dtypes import dtype_of, float64, int64
from burnpy.backend.errors import ArgumentError, DTypeError, KindError, ShapeError
from burnpy.backend.operations.scans import part
from burnpy.tensor.dims import DimsLike, along, dim_of, dims_of, integer, need_bool, shaped
from burnpy.tensor.functions.histograms import Histogram, counted
from burnpy.tensor.functions.statistics import Interpolation, correlation, covariance, quantile
from burnpy.tensor.joining import cat
from burnpy.tensor.levels import has_values
from burnpy.tensor.operands import number, together
from burnpy.tensor.reduction import FloatReductions
from burnpy.tensor.tensor_base import TensorBase, describe
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import IntTensor, Tensor
    from burnpy.tensor.tensor_types import Ints


class Counting(TensorBase[B]):
    """Counts and differences."""

    __slots__ = ()

    def count_nonzero(self, dim: DimsLike = None) -> IntTensor[B]:
        """Return the number of elements over ``dim`` that are not 0 (or False), int64; NaN is not 0.

        >>> Tensor[NumPy].from_data([[0.0, 2.0], [3.0, 4.0]]).count_nonzero(dim=1).tolist()
        [1, 2]
        """
        dims = dims_of(dim, self.ndim, "count_nonzero")
        truth = self._primitive if self.kind == "bool" else self._backend.to_bool(self._primitive)
        return self._int(self._device.discrete.sum(truth, dims, False))

    def diff(self, n: int = 1, dim: int = -1, prepend: Self | None = None, append: Self | None = None) -> Self:
        """Return the differences of neighbours along ``dim``, taken ``n`` times; of bools, whether they differ.

        Args:
            n: how often.
            dim: the dimension along which each element is subtracted from the next one.
            prepend: a tensor of x's kind to put before x, of its shape but for ``dim``; unused if n is 0.
            append: a tensor to put after x, likewise.

        Raises:
            ArgumentError: n is negative.
            ShapeError: x is 0-d, or the shapes do not fit.

        >>> Tensor[NumPy].from_data([1.0, 4.0, 9.0, 16.0]).diff(2).tolist()
        [2.0, 2.0]
        """
        times = integer(n, "n", "diff")
        if times < 0:
            raise ArgumentError(f"diff() got n={times} differences; n can be 0 or more")
        if not self.ndim:
            raise ShapeError("diff() got a 0-d tensor, which has no neighbours; it needs at least 1 dimension")
        resolved = dim_of(dim, self.ndim, "diff")
        pieces: list[Any] = [each for each in (prepend, self, append) if each is not None]
        joined: Any = cat(pieces, resolved) if len(pieces) > 1 else self
        x = joined if times else self
        b, out = x._backend, x._primitive
        subtract = b.ne if self.kind == "bool" else b.sub
        for _ in range(min(times, out.shape[resolved])):
            size = out.shape[resolved]
            out = subtract(part(b, out, resolved, 1, size), part(b, out, resolved, 0, max(size - 1, 0)))
        return x._like(out)


class IntCounting(TensorBase[B]):
    """Counts of non-negative ints."""

    __slots__ = ()

    def bincount(self, weights: Any = None, minlength: int = 0) -> Any:
        """Return the counts of each int from 0 to the largest in a 1-d x, int64; with ``weights``, their sums, a
        `Tensor`.

        The size of the result depends on the values, so that a GPU is synchronized. In a compiled function and under
        `vmap` it is ``minlength``, and a larger int is an error.

        Args:
            weights: a tensor of x's shape; None to count. The result has its dtype (float64 of ints and bools), and
                gradients go to the weights.
            minlength: the smallest size of the result.

        Raises:
            ShapeError: x is not 1-d, or the weights have another shape.
            DTypeError: an int is negative.
            ArgumentError: ``minlength`` is negative, or needed and not given.

        >>> IntTensor[NumPy].from_data([1, 3, 1]).bincount(minlength=5).tolist()
        [0, 2, 0, 1, 0]
        """
        least = integer(minlength, "minlength", "bincount")
        if self.ndim != 1:
            raise ShapeError(f"bincount() got shape {self.shape}; it counts a 1-d tensor: x.flatten()")
        if least < 0:
            raise ArgumentError(f"bincount() got minlength={least}; it can be 0 or more")
        d = self._device.discrete
        index = self._primitive if self.dtype == int64 else d.cast(self._primitive, int64)
        count = least
        if not has_values(self):
            index = _below(self, index, least)
        elif self.shape[0]:
            lowest = int(d.to_numpy(d.amin(index, (0,), False)))
            if lowest < 0:
                raise DTypeError(f"bincount() got {lowest}; it counts ints from 0")
            count = max(least, int(d.to_numpy(d.amax(index, (0,), False))) + 1)
        if weights is None:
            ones = d.full(self.shape, 1, int64)
            return self._int(d.index_add(d.full((count,), 0, int64), 0, index, ones))
        if not isinstance(weights, TensorBase):
            raise KindError(f"bincount() takes its weights as a tensor, got {describe(weights)}")
        if weights.shape != self.shape:
            raise ShapeError(f"bincount() got shape {self.shape} with weights of shape {weights.shape}")
        together("bincount", self, weights)  # ints are the same on every level
        summed: Any = weights
        if weights.kind != "float":
            summed = weights._float(weights._device.to_float(weights._primitive, float64))
        b, values = summed._backend, summed._primitive
        return summed._like(b.index_add(b.full((count,), 0, values.dtype), 0, index, values))


class NumberStatistics(TensorBase[B]):
    """Statistics of floats and ints; ``dim`` and ``keepdim`` are as in `NumberReductions`."""

    __slots__ = ()

    def nansum(self, dim: DimsLike = None, keepdim: bool = False, *, dtype: Any = None) -> Self:
        """Return the sum over ``dim`` of the elements that are not NaN, to which alone the gradient goes; of ints, of
        all.

        >>> Tensor[NumPy].from_data([1.0, float("nan"), 2.0]).nansum().item()
        3.0
        """
        if self.kind == "int":
            return self.sum(dim, keepdim, dtype=dtype)  # type: ignore[attr-defined, no-any-return]  # NumberReductions'
        x: Any = self if dtype is None else self.to_dtype(dtype)  # type: ignore[attr-defined]  # Conversion's
        dims = dims_of(dim, x.ndim, "nansum")
        need_bool(keepdim, "nansum")
        return x._like(x._backend.nansum(x._primitive, dims, keepdim))  # type: ignore[no-any-return]  # of this class

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

    def cov(
        self, *, correction: int = 1, fweights: Ints[B] | None = None, aweights: Tensor[B] | None = None
    ) -> Tensor[B]:
        """Return the covariance matrix of the rows of x, of shape (variables, samples); of one variable its variance,
        0-d.

        Ints are taken as float32.

        Args:
            correction: 1 for the unbiased estimate from a sample, 0 for the covariance of a population.
            fweights: how often each sample was observed, ints of shape (samples,).
            aweights: the weight of each sample, floats of shape (samples,), none of them negative.

        Raises:
            ShapeError: x has more than 2 dimensions, or weights another shape.

        Source: `numpy.cov`.

        >>> Tensor[NumPy].from_data([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]).cov().tolist()
        [[1.0, -1.0], [-1.0, 1.0]]
        """
        out: Tensor[B] = covariance(_floats(self), integer(correction, "correction", "cov"), fweights, aweights)
        return out

    def corrcoef(self) -> Tensor[B]:
        """Return the correlation coefficients of the rows of x, of shape (variables, samples), between -1 and 1.

        >>> Tensor[NumPy].from_data([[1.0, 2.0, 3.0], [6.0, 4.0, 2.0]]).corrcoef().round(decimals=3).tolist()
        [[1.0, -1.0], [-1.0, 1.0]]
        """
        out: Tensor[B] = correlation(_floats(self))
        return out


class FloatStatistics(FloatReductions[B]):
    """Statistics of floats; ``dim`` and ``keepdim`` are as in `NumberReductions`."""

    __slots__ = ()

    def nanmean(self, dim: DimsLike = None, keepdim: bool = False, *, dtype: Any = None) -> Self:
        """Return the mean over ``dim`` of the elements that are not NaN, to which alone the gradient goes; NaN if all
        are.

        >>> Tensor[NumPy].from_data([1.0, float("nan"), 2.0]).nanmean().item()
        1.5
        """
        need_bool(keepdim, "nanmean")
        b, x = self._backend, self._primitive
        dims = dims_of(dim, self.ndim, "nanmean")
        total = self.nansum(dim, keepdim, dtype=dtype)  # type: ignore[attr-defined]  # NumberStatistics'
        counts = self._device.discrete.sum(b.eq(x, x), dims, keepdim)
        return self._like(b.div(total._primitive, b.to_float(counts, total.dtype)))

    def logcumsumexp(self, dim: int) -> Self:
        """Return the cumulative log(sum(exp(x))) along ``dim``, without overflow.

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
        """Return the quantiles of the elements along ``dim``; NaN where one is NaN.

        Args:
            q: the probability, from 0 to 1; or a 0-d or 1-d tensor of them, of x's dtype. With a 1-d one the result has
                its size as first dimension.
            dim: the dimension along which elements are compared; None for all elements.
            keepdim: whether the dimension stays, with size 1.
            interpolation: how to compute a quantile between two elements: "linear", "lower", "higher", "nearest" or
                "midpoint". The gradient goes to both, by their weights.

        Raises:
            ArgumentError: q is not from 0 to 1, or the interpolation is another word.
            ShapeError: there are no elements, or q has 2 dimensions or more.

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
        """Return the quantiles of the elements along ``dim`` that are not NaN; NaN where all are. See `quantile`."""
        out: Self = quantile(self, q, dim, keepdim, interpolation, skip_nan=True)
        return out

    def norm(
        self, p: float | str | None = "fro", dim: DimsLike = None, keepdim: bool = False, dtype: Any = None
    ) -> Self:
        """Return the p-norm over ``dim``, (Σ |x|ᵖ)^(1/p), of the elements as one vector, without overflow or underflow.

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

        >>> x = Tensor[NumPy].from_data([[3.0, -4.0], [0.0, 1.0]])
        >>> x.norm(dim=1).tolist(), x.norm(float("inf")).item()
        ([5.0, 1.0], 4.0)
        """
        need_bool(keepdim, "norm")
        order = 2.0 if p is None or p == "fro" else p
        if not isinstance(order, (int, float)) or isinstance(order, bool) or order != order:
            raise ArgumentError(f"norm() got p={describe(p)}; expected a number or 'fro', of one vector")
        x: Self = self if dtype is None else self.to_dtype(dtype_of(dtype, "float"))  # type: ignore[attr-defined]  # FloatConversion's
        dims = dims_of(dim, self.ndim, "norm")
        if order < 0 or order == math.inf:
            self._need_elements(dims, "norm")
        return x._like(x._backend.vector_norm(x._primitive, float(number(x, order, "norm")), dims, keepdim))

    def renorm(self, p: float, dim: int, maxnorm: float) -> Self:
        """Return the slices along ``dim``, those whose p-norm is above ``maxnorm`` scaled down to it.

        The factor is maxnorm / (norm + 1e-7), as in PyTorch.

        Raises:
            ArgumentError: p is not above 0, or ``maxnorm`` is negative.

        >>> x = Tensor[NumPy].from_data([[3.0, 4.0], [0.5, 0.0]])
        >>> x.renorm(2.0, 0, 1.0).round(decimals=4).tolist()
        [[0.6000000238418579, 0.800000011920929], [0.5, 0.0]]
        """
        order, limit = float(number(self, p, "renorm")), float(number(self, maxnorm, "renorm"))
        if not order > 0 or not limit >= 0:
            raise ArgumentError(f"renorm() got p={p!r:.80}, maxnorm={maxnorm!r:.80}; give p above 0 and a norm from 0")
        place = dim_of(dim, self.ndim, "renorm")
        b, x = self._backend, self._primitive
        norms = b.vector_norm(x, order, tuple([d for d in range(self.ndim) if d != place]), True)
        factors = b.mul(b.reciprocal(b.add(norms, 1e-7)), limit)
        return self._like(b.mul(x, b.where(b.gt(norms, limit), factors, 1.0)))

    def dist(self, other: Self, p: float = 2.0) -> Self:
        """Return the p-norm of ``x - other``, 0-d; shapes broadcast. Its gradient where they are equal is 0.

        >>> Tensor[NumPy].from_data([3.0, 0.0]).dist(Tensor[NumPy].from_data([0.0, 4.0])).item()
        5.0
        """
        difference: Any = self.sub(other)  # type: ignore[attr-defined]  # Arithmetic's
        return difference.norm(p)  # type: ignore[no-any-return]  # of that class

    def histc(self, bins: int = 100, min: float = 0.0, max: float = 0.0) -> Self:  # PyTorch's names
        """Return the number of elements in each of ``bins`` intervals of equal width from ``min`` to ``max``, in x's
        dtype.

        With equal bounds these are the smallest and the largest element. Elements beyond the bounds, and NaN, are not
        counted; the last interval includes ``max``. The result carries no gradient.

        Raises:
            ArgumentError: there is no interval, or ``max`` is less than ``min``, or a bound is not finite.

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

    def histogram(
        self,
        bins: int | Self,
        *,
        range: tuple[float, float] | None = None,  # PyTorch's names
        weight: Self | None = None,
        density: bool = False,
    ) -> Histogram[Self]:
        """Return the number of elements in each bin, in x's dtype, and the edges of the bins.

        A bin has the elements from its lower edge on, below its upper edge; the last one includes both. Elements
        beyond the edges, and NaN, are not counted.

        Args:
            bins: the number of bins of equal width; or their edges, a vector that ascends.
            range: the ends of the bins; by default the smallest and the largest element.
            weight: the weight of each element, of x's shape; sums of them replace counts. The gradient goes to them.
            density: whether to divide by the sum of all bins, and by their widths, so that the integral is 1.

        Raises:
            ArgumentError: there are no bins, or their ends are not finite, or edges do not ascend.
            ShapeError: the weights have another shape, or edges are not a vector.
            DTypeError: the weights or the edges have another dtype than x.

        >>> Tensor[NumPy].from_data([1.0, 2.0, 2.5, 4.0]).histogram(3).hist.tolist()
        [1.0, 2.0, 1.0]
        """
        samples = self._like(self._backend.reshape(self._primitive, (*self.shape, 1)))
        hist, edges = counted("histogram", samples, [bins], [range], weight, density)
        return Histogram(hist, edges[0])


def _floats(x: Any) -> Any:
    """Return ints as float32, floats as they are."""
    return x.float() if x.kind == "int" else x


def _below(x: TensorBase[Any], index: Any, size: int) -> Any:
    """Return an index whose ints are checked to be below a size where they cannot be read.

    Raises:
        ArgumentError: the size is 0.
    """
    if not size:
        raise ArgumentError(
            "bincount() gives a result whose size depends on values, which a compiled function and vmap() cannot "
            "have; pass minlength=, a number above every int"
        )
    refused = lambda value: DTypeError(  # noqa: E731
        f"bincount() got {value}; in a compiled function and under vmap() it counts ints from 0 to minlength - 1, "
        f"which is {size - 1}"
    )
    return x._device.discrete.bounded(index, 0, size - 1, refused, None) if x.shape[0] else index
