"""Rules of resampling, which is linear, and whose transposes are operations of their own."""

from __future__ import annotations

from burnpy.autodiff.rules.algebra import bilinear, linear
from burnpy.backend.backend import Backend

linear(
    Backend.resample,
    lambda i, g, x_shape, dim, how: i.resample_backward(g, dim, x_shape[dim], how),
)
linear(
    Backend.resample_backward,
    lambda i, g, grad_shape, dim, how: i.resample(g, dim, grad_shape[dim], how),
)
bilinear(
    Backend.weighted_gather,
    lambda i, g, places, weights, x_shape: i.weighted_scatter(g, places, weights, x_shape[2]),
    lambda i, g, x, places: i.gathered_products(g, x, places),
)
bilinear(
    Backend.weighted_scatter,
    lambda i, g, places, weights: i.weighted_gather(g, places, weights),
    lambda i, g, grad, places: i.gathered_products(grad, g, places),
)
bilinear(
    Backend.gathered_products,
    lambda i, g, x, places: i.weighted_gather(x, places, g),
    lambda i, g, grad, places, x_shape: i.weighted_scatter(grad, places, g, x_shape[2]),
)
