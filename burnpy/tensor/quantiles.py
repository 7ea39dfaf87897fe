"""Quantiles: elements by rank, interpolated between neighbours."""

from __future__ import annotations

import math
from typing import Any, get_args

from burnpy.backend.dtypes import float32, int64
from burnpy.backend.errors import ArgumentError, DTypeError, KindError, ShapeError
from burnpy.backend.primitives import Float, Shape
from burnpy.tensor.along import Interpolation, along
from burnpy.tensor.base import TensorBase, describe
from burnpy.tensor.dims import need_bool
from burnpy.tensor.index_checks import refuse_unless
from burnpy.tensor.operands import together


def quantile(x: Any, q: Any, dim: int | None, keepdim: bool, interpolation: str, *, skip_nan: bool) -> Any:
    """Return the quantiles of a float tensor: see `Statistics.quantile`."""
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
