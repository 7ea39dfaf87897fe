"""Statistics of samples: variance with mean, quantiles, covariances, and integrals by the trapezoidal rule."""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

from burnpy.backend.dtypes import float32, int64
from burnpy.backend.errors import ArgumentError, DTypeError, KindError, ShapeError
from burnpy.backend.operations.scans import part
from burnpy.backend.primitives import Float, Shape
from burnpy.tensor.call_errors import explained
from burnpy.tensor.dims import DimsLike, along, dim_of, need_bool
from burnpy.tensor.operands import broadcast_shape, need_floats, number, operands, refuse_unless, together
from burnpy.tensor.tensor import IntTensor, Tensor
from burnpy.tensor.tensor_base import TensorBase, describe
from burnpy.typevars import B

Interpolation = Literal["linear", "lower", "higher", "nearest", "midpoint"]
"""The interpolation of a quantile that lies between two elements."""


@explained
def var_mean(
    x: Tensor[B], dim: DimsLike = None, *, correction: float = 1, keepdim: bool = False
) -> tuple[Tensor[B], Tensor[B]]:
    """Return the variance and the mean over ``dim``: ``(x.var(dim, keepdim, correction=1), x.mean(dim, keepdim))``.

    >>> from burnpy import var_mean
    >>> var, mean = var_mean(Tensor[NumPy].from_data([1.0, 2.0, 3.0]))
    >>> var.item(), mean.item()
    (1.0, 2.0)
    """
    need_floats("var_mean", x)
    return x.var(dim, keepdim, correction=correction), x.mean(dim, keepdim)


@explained
def std_mean(
    x: Tensor[B], dim: DimsLike = None, *, correction: float = 1, keepdim: bool = False
) -> tuple[Tensor[B], Tensor[B]]:
    """Return the standard deviation and the mean over ``dim``: see `var_mean`.

    >>> [each.item() for each in std_mean(Tensor[NumPy].from_data([1.0, 2.0, 3.0]))]
    [1.0, 2.0]
    """
    need_floats("std_mean", x)
    return x.std(dim, keepdim, correction=correction), x.mean(dim, keepdim)


def quantile(x: Any, q: Any, dim: int | None, keepdim: bool, interpolation: str, *, skip_nan: bool) -> Any:
    """Return the quantiles of a float tensor: see `FloatStatistics.quantile`."""
    operation = "nanquantile" if skip_nan else "quantile"
    need_bool(keepdim, operation)
    if interpolation not in get_args(Interpolation):
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
    """Return x, and q as a primitive of x's dtype, 0-d or 1-d, on one device.

    Raises:
        ArgumentError: a probability is not from 0 to 1.
        KindError: q is neither a number nor a float tensor.
        DTypeError: it has another dtype.
        ShapeError: it has several dimensions.
    """
    if isinstance(q, (int, float)) and not isinstance(q, bool):
        if not 0 <= q <= 1:
            raise ArgumentError(f"{operation}() got q={describe(q)}; a probability is from 0 to 1")
        return x, x._backend.full((), float(q), x.dtype)
    if not isinstance(q, TensorBase) or q.kind != "float":
        raise KindError(f"{operation}() takes q as a number or a Tensor, got {describe(q)}")
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
    distance = b.where(b.ne(above, below), distance, b.where(b.isfinite(below), distance, 0.0))  # not inf - inf
    return b.add(below, b.mul(distance, weight))


_ROUNDED = {"lower": "floor", "higher": "ceil", "nearest": "round"}
"""The operation that rounds the rank."""


def covariance(x: Any, correction: int, fweights: Any, aweights: Any) -> Any:
    """Return the covariance matrix of the rows of a float tensor; of a vector its variance.

    Source: `numpy.cov`: the weights of samples are the products of both; the divisor is Σ w - correction · Σ w a / Σ w.
    """
    if x.ndim > 2:
        raise ShapeError(f"cov() got shape {x.shape}; expected (variables, samples), or the samples of one")
    samples = x.shape[-1] if x.ndim else 1
    x, frequency = _weights(x, fweights, "fweights", "int", samples)
    x, importance = _weights(x, aweights, "aweights", "float", samples)
    b = x._backend
    rows = b.reshape(x._primitive, (1, samples)) if x.ndim < 2 else x._primitive
    if frequency is None and importance is None:
        centered = b.center(rows, (1,)) if samples else rows
        weighted, divisor = centered, float(max(samples - correction, 0))
    else:
        w = frequency if importance is None else importance if frequency is None else b.mul(frequency, importance)
        total = b.sum(w, (0,), False)
        mean = b.div(b.sum(b.mul(rows, w), (1,), True), total)
        centered = b.sub(rows, mean)
        weighted = b.mul(centered, w)
        share = total if importance is None else b.sum(b.mul(w, importance), (0,), False)
        lost = b.mul(b.div(share, total), float(correction))
        divisor = b.maximum(b.sub(total, lost), 0.0)
    out = b.div(b.matmul(weighted, b.mT(centered)), divisor)
    return x._like(b.reshape(out, ()) if rows.shape[0] == 1 else out)


def correlation(x: Any) -> Any:
    """Return the correlation coefficients of the rows of a float tensor: the covariance over both deviations."""
    if x.ndim > 2:
        raise ShapeError(f"corrcoef() got shape {x.shape}; expected (variables, samples), or those of one")
    out = covariance(x, 1, None, None)
    b, matrix = out._backend, out._primitive
    if not out.ndim:
        return out._like(b.div(matrix, matrix))
    count = matrix.shape[0]
    variances = b.slice(b.reshape(matrix, (count * count,)), (slice(None, None, count + 1),))
    deviation = b.sqrt(variances)
    matrix = b.div(b.div(matrix, b.reshape(deviation, (count, 1))), deviation)
    return out._like(b.clamp(matrix, -1.0, 1.0))


def _weights(x: Any, weights: Any, name: str, kind: str, samples: int) -> tuple[Any, Float | None]:
    """Return x, and the weights of the samples as floats of x's dtype, on one device.

    Raises:
        KindError: they are of another kind.
        ShapeError: they have another shape.
        DTypeError: one is negative.
    """
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
    return x, x._backend.to_float(value, x.dtype) if kind == "int" else b.cast(value, x.dtype)


@explained
def trapezoid(
    y: Tensor[B] | IntTensor[B], x: Tensor[B] | IntTensor[B] | None = None, *, dx: float | None = None, dim: int = -1
) -> Tensor[B]:
    """Return the integral of samples ``y`` along ``dim``, by the trapezoidal rule; 0 for less than two samples.

    Args:
        y: the samples; ints are taken as float32, as those of x.
        x: where they were taken, of y's shape or 1-d; None if they are equally spaced.
        dx: their distance, by default 1; not with x.
        dim: the dimension to integrate along.

    Raises:
        ArgumentError: both x and dx are given.
        ShapeError: the shapes do not broadcast.

    >>> from burnpy import trapezoid
    >>> y, x = Tensor[NumPy].from_data([1.0, 2.0, 4.0]), Tensor[NumPy].from_data([0.0, 1.0, 3.0])
    >>> trapezoid(y).item(), trapezoid(y, x).item()
    (4.5, 7.5)
    """
    samples, widths, resolved = _samples("trapezoid", y, x, dx, dim)
    b, value = samples._backend, samples._primitive
    if value.shape[resolved] > 1 and (isinstance(widths, (int, float)) or len(widths.shape) == 1):
        return samples._like(_integral(b, value, resolved, widths))
    areas, along = _areas(b, value, resolved, widths)
    return samples._like(b.sum(areas, (along,), False))


@explained
def cumulative_trapezoid(
    y: Tensor[B] | IntTensor[B], x: Tensor[B] | IntTensor[B] | None = None, *, dx: float | None = None, dim: int = -1
) -> Tensor[B]:
    """Return the integral of samples ``y`` up to each but the first, by the trapezoidal rule: see `trapezoid`.

    >>> from burnpy import cumulative_trapezoid
    >>> cumulative_trapezoid(Tensor[NumPy].from_data([1.0, 2.0, 4.0])).tolist()
    [1.5, 4.5]
    """
    samples, widths, resolved = _samples("cumulative_trapezoid", y, x, dx, dim)
    areas, along = _areas(samples._backend, samples._primitive, resolved, widths)
    return samples._like(samples._backend.cumsum(areas, along))


_LONG = 8192
"""The number of samples up to which they are summed by a product, whose error grows with it."""


def _samples(operation: str, y: Any, x: Any, dx: float | None, dim: int) -> tuple[Tensor[Any], Any, int]:
    """Return y as floats, its dim, and the widths between neighbours: a number, 1-d, or broadcasting to y."""
    if x is not None and dx is not None:
        raise ArgumentError(f"{operation}() got x and dx={dx!r:.80}; give one of them")
    y = y.float() if isinstance(y, IntTensor) else y
    need_floats(operation, y)
    if not y.ndim:
        raise ShapeError(f"{operation}() got a 0-d tensor; samples lie along a dimension")
    resolved = dim_of(dim, y.ndim, operation)
    if x is None:
        return y, number(y, 1.0 if dx is None else dx, operation), resolved
    x = x.float() if isinstance(x, IntTensor) else x
    need_floats(operation, x)
    vector = x.ndim == 1
    if vector and x.shape[0] != y.shape[resolved]:
        raise ShapeError(
            f"{operation}() got {y.shape[resolved]} samples along dim {resolved} of shape {y.shape}, taken at "
            f"{x.shape[0]} places"
        )
    samples, places = operands(y, x, operation)
    along = 0 if vector else x.ndim - y.ndim + resolved
    if along < 0 or not (vector or broadcast_shape(x.shape, y.shape)):
        raise ShapeError(f"{operation}() got shape {y.shape} with x of shape {x.shape}; they must broadcast")
    b, size = samples._backend, x.shape[along]
    return samples, b.sub(part(b, places, along, 1, size), part(b, places, along, 0, max(size - 1, 0))), resolved


def _integral(b: Any, value: Any, dim: int, width: Any) -> Any:
    """Return the sum of at least two samples times the width; the first and the last sample count half.

    Args:
        b: the backend.
        value: the samples.
        dim: the dimension along which they lie.
        width: a number, or the widths between neighbours, 1-d.
    """
    count, dtype = value.shape[dim], value.dtype
    if isinstance(width, (int, float)):
        end = b.full((1,), 0.5 * width, dtype)
        weights = b.cat([end, b.full((count - 2,), width, dtype), end], 0)
    else:
        nothing = b.full((1,), 0.0, dtype)
        weights = b.mul(b.add(b.cat([nothing, width], 0), b.cat([width, nothing], 0)), 0.5)
    outer, inner = math.prod(value.shape[:dim]), math.prod(value.shape[dim + 1 :])
    if count > _LONG:
        weights = b.reshape(weights, (count, *(1,) * (len(value.shape) - dim - 1)))
        return b.sum(b.mul(value, weights), (dim,), False)
    others = (*value.shape[:dim], *value.shape[dim + 1 :])
    if inner == 1:
        return b.reshape(b.matmul(b.reshape(value, (outer, count)), weights), others)
    return b.reshape(b.matmul(weights, b.reshape(value, (outer, count, inner))), others)


def _areas(b: Any, value: Any, dim: int, widths: Any) -> tuple[Any, int]:
    """Return the means of neighbouring samples times the widths, and the dimension along which they lie."""
    size, at = value.shape[dim], len(value.shape) - dim
    total = b.add(part(b, value, dim, 1, size), part(b, value, dim, 0, max(size - 1, 0)))
    if isinstance(widths, (int, float)):
        return b.mul(total, 0.5 * widths), dim
    if len(widths.shape) == 1:
        widths = b.reshape(widths, (*widths.shape, *(1,) * (at - 1)))
    areas = b.mul(b.mul(total, widths), 0.5)
    return areas, len(areas.shape) - at
