"""Rules of normalisation. They save x, the mean and the variance; normalized values are recomputed."""

from __future__ import annotations

import math
from typing import Any

from burnpy.autodiff.rules.algebra import joint
from burnpy.backend.backend import Backend
from burnpy.backend.primitives import Dims, Float, Shape


def normalize_vjp(
    i: Any,
    grads: Any,
    needs: Any,
    x: Float,
    weight: Float,
    bias_shape: Shape,
    out1: Float,
    out2: Float,
    dims: Dims,
    eps: float,
) -> tuple[Float | None, ...]:
    """The gradients by x, weight and bias, through the result, the mean and the variance."""
    by_out, by_mean, by_var = grads
    parts: list[Float | None] = [None, None, None]
    if by_out is not None:
        parts = list(i.normalize_backward(by_out, x, weight, out1, out2, dims, eps))
        if bias_shape != weight.shape:
            parts[2] = i.sum_to(by_out, bias_shape)
    count = math.prod(x.shape[d] for d in dims)
    for part in (
        None if by_mean is None else i.expand(i.div(by_mean, float(count)), x.shape),
        None if by_var is None else i.mul(i.sub(x, out1), i.mul(by_var, 2 / count)),
    ):
        if part is not None:
            parts[0] = part if parts[0] is None else i.add(parts[0], part)
    return tuple([_zeros(i, x, weight, bias_shape, k) if p is None else p for k, p in enumerate(parts)])


def _zeros(i: Any, x: Float, weight: Float, bias_shape: Shape, k: int) -> Float:
    """A gradient of zeros, for an argument on which no used result depends."""
    return i.full((x.shape, weight.shape, bias_shape)[k], 0.0, x.dtype)


def rms_norm_vjp(i: Any, grads: Any, needs: Any, x: Float, weight: Float, dims: Dims, eps: float) -> tuple[Float, ...]:
    """The gradients by x and weight."""
    by_x, by_weight = i.rms_norm_backward(grads[0], x, weight, dims, eps)
    return by_x, by_weight


joint(Backend.normalize, normalize_vjp)
joint(Backend.rms_norm, rms_norm_vjp)
