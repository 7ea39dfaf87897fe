"""Masks of dropout, and the derivatives of random numbers by the parameters of their distribution, as kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32, float64
from burnpy.backend.primitives import Shape
from burnpy_array import ArrayBackend
from burnpy_numpy.kernels.kernel import LEAST, MANY, operation_kernel

LEAST_OF_SLOPES = 8 * MANY
"""The number of elements from which kernels are used: compiling one takes one to three seconds."""


class NumPyRandom(ArrayBackend):
    """Dropout, and the derivatives of quantiles, in a sixteenth of the time of one operation after another."""

    def random_mask(self, generator: np.random.Generator, shape: Shape, p: float) -> Any:
        if p >= 1.0:
            return np.ones(shape, np.bool_)
        drawn = generator.integers(0, 1 << 32, shape, np.uint32)  # takes half the time of drawing floats
        return np.asarray(drawn < np.uint32(p * (1 << 32)))

    def masked_scale(self, x: Any, mask: Any, scale: float) -> Any:
        kernel = None
        if x.size >= LEAST and x.shape == mask.shape and (x.dtype is float32 or x.dtype is float64):
            kernel = operation_kernel("masked_scale", ("full", "mask_full", "scalar"), x.dtype, ())
        if kernel is None:
            return super().masked_scale(x, mask, scale)
        return kernel.alike((x, mask), (scale,))

    def gamma_quantile_slope(self, x: Any, concentration: Any, log: bool) -> Any:
        kernel = None
        if _fit(x, concentration):
            kernel = operation_kernel("slope_of_gamma_quantile", ("full", "full"), x.dtype, (log,))
        return (
            super().gamma_quantile_slope(x, concentration, log) if kernel is None else kernel.alike((x, concentration))
        )

    def beta_quantile_slope(self, x: Any, a: Any, b: Any) -> Any:
        kernel = None
        if _fit(x, a) and _fit(x, b):
            kernel = operation_kernel("slope_of_beta_quantile", ("full", "full", "full"), x.dtype, ())
        return super().beta_quantile_slope(x, a, b) if kernel is None else kernel.alike((x, a, b))


def _fit(x: Any, y: Any) -> bool:
    """Return whether two arrays are of one shape and one of the usual dtypes, and large."""
    dtype = x.dtype
    return (
        x.size >= LEAST_OF_SLOPES and x.shape == y.shape and dtype is y.dtype and (dtype is float32 or dtype is float64)
    )
