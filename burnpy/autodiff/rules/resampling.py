"""Rules of resampling, which is linear, and whose transpose is an operation of its own."""

from __future__ import annotations

from burnpy.autodiff.rules.algebra import linear
from burnpy.backend.backend import Backend

linear(
    Backend.resample,
    lambda i, g, x_shape, dim, how: i.resample_backward(g, dim, x_shape[dim], how),
)
linear(
    Backend.resample_backward,
    lambda i, g, grad_shape, dim, how: i.resample(g, dim, grad_shape[dim], how),
)
