"""Statistics: counts, sums and means that skip NaN, variances, medians, quantiles and covariances."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, Self, get_args, overload

from burnpy.backend.dtypes import float32, int64, kind_of, part_dtype
from burnpy.backend.errors import ArgumentError, DTypeError, KindError, ShapeError
from burnpy.backend.operations.complex_numbers import zeros_like
from burnpy.backend.primitives import Float, Int, Number, Shape
from burnpy.tensor.call_errors import explained
from burnpy.tensor.dim_checks import ALL, DimsLike, along, dims_of, integer
from burnpy.tensor.operand_checks import need_floats, refuse_unless, together
from burnpy.tensor.ordering import element_at
from burnpy.tensor.reduction import FloatReductions, NumberReductions, Selection
from burnpy.tensor.tensor import ComplexTensor, IntTensor, Tensor
from burnpy.tensor.tensor_base import TensorBase, describe, made_of
from burnpy.typevars import B

if TYPE_CHECKING:
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


class NumberStatistics(NumberReductions[B]):
    """Statistics of floats and ints; ``dim`` and ``keepdim`` are as in `NumberReductions`."""

    __slots__ = ()

    def nansum(self, dim: DimsLike = None, keepdim: bool = False, *, dtype: Any = None) -> Self:
        """Return the sum over ``dim`` of the elements that are not NaN, which alone have gradients; ints have no NaN.

        >>> Tensor[NumPy].from_data([1.0, float("nan"), 2.0]).nansum().item()
        3.0
        """
        if self.kind == "int":
            return self.sum(dim, keepdim, dtype=dtype)
        x: Any = self if dtype is None else self.to_dtype(dtype)  # type: ignore[attr-defined]  # Conversion's
        dims = dims_of(dim, x.ndim, "nansum")
        return x._like(x._backend.nansum(x._primitive, dims, keepdim))  # type: ignore[no-any-return]  # of this class

    def cov(
        self, *, correction: int = 1, fweights: Ints[B] | None = None, aweights: Tensor[B] | None = None
    ) -> Tensor[B]:
        """Return the covariance matrix of the rows of x, of shape (variables, samples); for one variable the variance,
        0-d.

        Ints are converted to float32.

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

    @overload
    def median(self) -> Self: ...
    @overload
    def median(self, dim: int, keepdim: bool = False) -> Selection[Self, IntTensor[B]]: ...
    def median(self, dim: int | None = None, keepdim: bool = False) -> Any:
        """Return the median of all elements; with ``dim``, a named tuple of the medians along it and their indices.

        Of an even number of elements it is the lower of the two in the middle, as in PyTorch: use ``quantile(0.5)`` for
        their mean. It is NaN where an element is NaN, and of no floats. The gradient goes to the chosen element.

        Raises:
            ShapeError: there are no elements.

        >>> Tensor[NumPy].from_data([4.0, 1.0, 3.0, 2.0]).median().item()
        2.0
        """
        return self._middle("median", dim, keepdim)

    @overload
    def nanmedian(self) -> Self: ...
    @overload
    def nanmedian(self, dim: int, keepdim: bool = False) -> Selection[Self, IntTensor[B]]: ...
    def nanmedian(self, dim: int | None = None, keepdim: bool = False) -> Any:
        """Return the `median` of the elements that are not NaN; NaN where all are.

        Raises:
            ShapeError: there are no elements.
        """
        return self._middle("nanmedian", dim, keepdim)

    def _middle(self, operation: str, dim: int | None, keepdim: bool) -> Any:
        """Return the median, with or without NaN."""
        b, x = self._backend, self._primitive
        if dim is None:
            if 0 in x.shape and self.kind == "float":
                return self._like(b.full((), math.nan, x.dtype))
            self._need_elements(ALL[self.ndim], operation)
            flat = b.reshape(x, (math.prod(x.shape),))
            index = median_index(b, flat, 0, operation == "nanmedian")
            return self._like(b.reshape(b.gather(flat, 0, index), ()))
        a = along(self, dim, operation)
        if self.ndim:
            self._need_elements((a.dim,), operation)
        index = median_index(b, a.primitive, a.dim, operation == "nanmedian")
        return element_at(self, a.primitive, a.dim, index, keepdim)


class FloatStatistics(FloatReductions[B]):
    """Statistics of floats; ``dim`` and ``keepdim`` are as in `NumberReductions`."""

    __slots__ = ()

    def nanmean(self, dim: DimsLike = None, keepdim: bool = False, *, dtype: Any = None) -> Self:
        """Return the mean over ``dim`` of the elements that are not NaN, to which alone the gradient goes; NaN if all
        are.

        >>> Tensor[NumPy].from_data([1.0, float("nan"), 2.0]).nanmean().item()
        1.5
        """
        b, x = self._backend, self._primitive
        dims = dims_of(dim, self.ndim, "nanmean")
        wide = float32 if dtype is None and x.dtype.itemsize == 2 else dtype  # sums may exceed the range of 16 bits
        total = self.nansum(dim, keepdim, dtype=wide)  # type: ignore[attr-defined]  # NumberStatistics'
        counts = self._device.discrete.sum(b.eq(x, x), dims, keepdim)
        mean = b.div(total._primitive, b.to_float(counts, total.dtype))
        return self._like(mean if wide is dtype else b.cast(mean, x.dtype))

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


def _floats(x: Any) -> Any:
    """Return ints as float32, floats as they are."""
    return x.float() if x.kind == "int" else x


Interpolation = Literal["linear", "lower", "higher", "nearest", "midpoint"]
"""The interpolation of a quantile that lies between two elements."""


@overload
def var_mean(
    x: Tensor[B], dim: DimsLike = None, *, correction: float = 1, keepdim: bool = False
) -> tuple[Tensor[B], Tensor[B]]: ...
@overload
def var_mean(
    x: ComplexTensor[B], dim: DimsLike = None, *, correction: float = 1, keepdim: bool = False
) -> tuple[Tensor[B], ComplexTensor[B]]: ...
@explained
def var_mean(x: Any, dim: DimsLike = None, *, correction: float = 1, keepdim: bool = False) -> Any:
    """Return the variance and the mean over ``dim``: ``(x.var(dim, keepdim, correction=1), x.mean(dim, keepdim))``.

    >>> var, mean = var_mean(Tensor[NumPy].from_data([1.0, 2.0, 3.0]))
    >>> var.item(), mean.item()
    (1.0, 2.0)
    """
    need_floats("var_mean", x, also_complex=True)
    return x.var(dim, keepdim, correction=correction), x.mean(dim, keepdim)


@overload
def std_mean(
    x: Tensor[B], dim: DimsLike = None, *, correction: float = 1, keepdim: bool = False
) -> tuple[Tensor[B], Tensor[B]]: ...
@overload
def std_mean(
    x: ComplexTensor[B], dim: DimsLike = None, *, correction: float = 1, keepdim: bool = False
) -> tuple[Tensor[B], ComplexTensor[B]]: ...
@explained
def std_mean(x: Any, dim: DimsLike = None, *, correction: float = 1, keepdim: bool = False) -> Any:
    """Return the standard deviation and the mean over ``dim``: see `var_mean`.

    >>> [each.item() for each in std_mean(Tensor[NumPy].from_data([1.0, 2.0, 3.0]))]
    [1.0, 2.0]
    """
    need_floats("std_mean", x, also_complex=True)
    return x.std(dim, keepdim, correction=correction), x.mean(dim, keepdim)


def median_index(b: Any, x: Number, dim: int, skip_nan: bool) -> Int:
    """Index of the lower median along ``dim``, which stays with size 1; of the first NaN, unless ``skip_nan``."""
    d, count = b.discrete, x.shape[dim]
    if not skip_nan:
        index = b.kthvalue_index(x, dim, (count + 1) // 2)
        if kind_of(x.dtype) != "float":
            return index
        largest = b.argmax(x, dim, True)
        value = b.gather(x, dim, largest)
        return d.where(b.ne(value, value), largest, index)
    order = b.argsort(x, dim, False)
    valid = d.sum(d.to_int(b.eq(x, x), int64), (dim,), True)
    return d.gather(order, dim, d.maximum(d.floor_divide(d.sub(valid, 1), 2), 0))


def quantile(x: Any, q: Any, dim: int | None, keepdim: bool, interpolation: str, *, skip_nan: bool) -> Any:
    """Return the quantiles of a float tensor: see `FloatStatistics.quantile`."""
    operation = "nanquantile" if skip_nan else "quantile"
    given: object = interpolation
    if not isinstance(given, str) or given not in get_args(Interpolation):
        words = ", ".join(get_args(Interpolation))
        raise ArgumentError(f"{operation}() got interpolation={describe(interpolation)}; expected one of {words}")
    x, probabilities = _probabilities(x, q, operation)
    b, shape = x._backend, x.shape
    if dim is None:
        values, kept = b.reshape(x._primitive, (math.prod(shape),)), (1,) * len(shape) if keepdim else ()
    else:
        a = along(x, dim, operation)
        others = tuple(k for k in range(len(a.primitive.shape)) if k != a.dim)
        values = b.permute(a.primitive, (*others, a.dim))
        kept = a.shape(1) if keepdim else values.shape[:-1]
    if not values.shape[-1]:
        raise ShapeError(f"{operation}() got shape {shape}, which has no elements to choose from")
    narrow = x.dtype.itemsize == 2
    if narrow:
        values, probabilities = b.cast(values, float32), b.cast(probabilities, float32)
    quantiles = _interpolated(b, values, probabilities, interpolation, skip_nan)
    many = len(probabilities.shape) == 1
    order = (len(quantiles.shape) - 1, *range(len(quantiles.shape) - 1))
    out: Shape = (*probabilities.shape, *kept) if many else kept
    quantiles = b.reshape(b.permute(quantiles, order), out)
    return x._like(b.cast(quantiles, x.dtype) if narrow else quantiles)


def _probabilities(x: Any, q: Any, operation: str) -> tuple[Any, Float]:
    """Return x, and q on its device, 0-d or 1-d: of x's dtype; of a number float32 if x has 16 bits."""
    if isinstance(q, (int, float)) and not isinstance(q, bool):
        if not 0 <= q <= 1:
            raise ArgumentError(f"{operation}() got q={describe(q)}; a probability is from 0 to 1")
        return x, x._backend.full((), float(q), float32 if x.dtype.itemsize == 2 else x.dtype)
    if not isinstance(q, TensorBase) or q.kind != "float":
        raise KindError(f"{operation}() takes q as a number or a Tensor, got {describe(q)}{made_of(q, 'Tensor')}")
    if q.ndim > 1:
        raise ShapeError(f"{operation}() got q of shape {q.shape}; expected a number, or 1-d")
    if q.dtype != x.dtype:
        raise DTypeError(f"{operation}() got dtype {x.dtype} with q of dtype {q.dtype}; they must be equal")
    x, q = together(operation, x, q)
    b = x._backend
    right = b.discrete.bitwise_and(b.ge(q._primitive, 0.0), b.le(q._primitive, 1.0))
    refuse_unless(x.device, right, ArgumentError(f"{operation}() got a q that is not from 0 to 1"))
    return x, q._primitive


def _interpolated(b: Any, values: Float, q: Float, interpolation: str, skip_nan: bool) -> Float:
    """Return the quantiles along the last dimension, which becomes the dimension of the probabilities."""
    d, last = b.discrete, len(values.shape) - 1
    count = values.shape[last]
    ordered = b.sort(values, last, False)[0]
    valid = d.sum(b.eq(values, values), (last,), True)
    size = b.to_float(d.maximum(d.sub(valid, 1), 0), values.dtype)
    ranks = b.mul(b.reshape(q, (1,) * last + (math.prod(q.shape),)), size if skip_nan else float(count - 1))
    ranks = b.expand(ranks, (*values.shape[:-1], math.prod(q.shape)))
    if not skip_nan:
        ranks = b.where(d.eq(valid, count), ranks, float(count - 1))

    def at(rank: Float) -> Float:
        return b.gather(ordered, last, b.to_int(b.detach(rank), int64))

    if interpolation in _ROUNDED:
        return at(getattr(b, _ROUNDED[interpolation])(ranks))
    low = b.detach(b.floor(ranks))
    weight = b.sub(ranks, low) if interpolation == "linear" else 0.5
    below, above = at(low), at(b.ceil(ranks))
    distance = b.sub(above, below)
    finite = b.isfinite(distance)
    near = b.add(below, b.mul(b.where(finite, distance, 0.0), weight))  # which is exact between equal elements
    weight = b.where(b.eq(above, below), b.full((), 0.5, values.dtype), weight)  # not inf · 0
    weight, rest = (b.where(finite, b.full((), 0.5, values.dtype), w) for w in (weight, b.add(b.neg(weight), 1.0)))
    return b.where(finite, near, b.add(b.mul(below, rest), b.mul(above, weight)))


_ROUNDED = {"lower": "floor", "higher": "ceil", "nearest": "round"}
"""The operation that rounds the rank."""


def covariance(x: Any, correction: int, fweights: Any, aweights: Any) -> Any:
    """Return the covariance matrix of the rows of floats or complex numbers; of a vector its variance.

    Source: `numpy.cov`: the weights of samples are the products of both; the divisor is Σ w - correction · Σ w a / Σ w.
    """
    if x.ndim > 2:
        raise ShapeError(f"cov() got shape {x.shape}; expected (variables, samples), or the samples of one")
    samples = x.shape[-1] if x.ndim else 1
    x, frequency = _weights(x, fweights, "fweights", "int", samples)
    x, importance = _weights(x, aweights, "aweights", "float", samples)
    b = x._backend
    is_complex = x.kind == "complex"
    rows = b.reshape(x._primitive, (1, samples)) if x.ndim < 2 else x._primitive

    def scale(factor: Any) -> Any:
        """Return real numbers in the kind of x."""
        return b.complex(factor, zeros_like(b, factor)) if is_complex and hasattr(factor, "dtype") else factor

    if frequency is None and importance is None:
        centered = b.center(rows, (1,)) if samples else rows
        weighted, divisor = centered, float(max(samples - correction, 0))
    else:
        w = frequency if importance is None else importance if frequency is None else b.mul(frequency, importance)
        total = b.sum(w, (0,), False)
        mean = b.div(b.sum(b.mul(rows, scale(w)), (1,), True), scale(total))
        centered = b.sub(rows, mean)
        weighted = b.mul(centered, scale(w))
        share = total if importance is None else b.sum(b.mul(w, importance), (0,), False)
        lost = b.mul(b.div(share, total), float(correction))
        divisor = b.maximum(b.sub(total, lost), 0.0)
    other = b.conj(centered) if is_complex else centered
    out = b.div(b.matmul(weighted, b.mT(other)), scale(divisor))
    return x._like(b.reshape(out, ()) if rows.shape[0] == 1 else out)


def correlation(x: Any) -> Any:
    """Return the correlation coefficients of the rows of x, floats or complex numbers: products of unit vectors."""
    if x.ndim > 2:
        raise ShapeError(f"corrcoef() got shape {x.shape}; expected (variables, samples), or those of one")
    samples = x.shape[-1] if x.ndim else 1
    if not samples:
        return covariance(x, 1, None, None)  # NaN
    wide = x.float() if x.dtype.itemsize == 2 else x
    rows = wide.reshape(1, samples) if x.ndim < 2 else wide
    centered = wide._like(wide._backend.center(rows._primitive, (1,)))
    length = centered.norm(2.0, 1, keepdim=True)  # which neither overflows nor underflows
    is_complex = x.kind == "complex"
    unit = centered / (length.complex() if is_complex else length)
    out = unit @ (unit.mH if is_complex else unit.mT)
    b = out._backend
    if is_complex:
        parts = (b.clamp(part, -1.0, 1.0) for part in (b.real(out._primitive), b.imag(out._primitive)))
        out = out._like(b.complex(*parts))
    else:
        out = out.clamp(-1.0, 1.0).to_dtype(x.dtype)
    return out.reshape(()) if rows.shape[0] == 1 else out


def _weights(x: Any, weights: Any, name: str, kind: str, samples: int) -> tuple[Any, Float | None]:
    """Return x, and the weights of the samples as floats of x's dtype, on one device."""
    if weights is None:
        return x, None
    if not isinstance(weights, TensorBase) or weights.kind != kind:
        raise KindError(f"cov() takes {name} as {kind}s, got {describe(weights)}")
    if weights.shape != (samples,):
        raise ShapeError(f"cov() got {name} of shape {weights.shape}; there are {samples} samples")
    if kind == "float":
        x, weights = together("cov", x, weights)
    else:
        together("cov", x, weights)
    b, value = weights._backend, weights._primitive
    refuse_unless(x.device, b.ge(value, 0), DTypeError(f"cov() got negative {name}"))
    dtype = part_dtype(x.dtype)
    return x, x._backend.to_float(value, dtype) if kind == "int" else b.cast(value, dtype)
