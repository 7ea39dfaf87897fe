"""`CompiledPointwise`: elementwise functions that NumPy lacks, as kernels of their defaults where arrays are large."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32, float64
from burnpy.backend.primitives import Scalar
from burnpy_array import ArrayBackend
from burnpy_array.base import NUMBERS
from burnpy_numpy.kernels.operations import LEAST, elementwise_kernel, kernel_of


class CompiledPointwise(ArrayBackend):
    """Special and activation functions as kernels: one pass over the memory, where a default takes up to a hundred."""

    def erfc(self, x: Any) -> Any:
        kernel = elementwise_kernel("erfc", (), x)
        return super().erfc(x) if kernel is None else kernel.alike((x,))

    def erfinv(self, x: Any) -> Any:
        kernel = elementwise_kernel("erfinv", (), x)
        return super().erfinv(x) if kernel is None else kernel.alike((x,))

    def lgamma(self, x: Any) -> Any:
        kernel = elementwise_kernel("lgamma", (), x)
        return super().lgamma(x) if kernel is None else kernel.alike((x,))

    def digamma(self, x: Any) -> Any:
        kernel = elementwise_kernel("digamma", (), x)
        return super().digamma(x) if kernel is None else kernel.alike((x,))

    def sinc(self, x: Any) -> Any:
        kernel = elementwise_kernel("sinc", (), x)
        return super().sinc(x) if kernel is None else kernel.alike((x,))

    def clamp(self, x: Any, low: Scalar | None, high: Scalar | None) -> Any:
        kernel = None
        if x.size >= LEAST and (x.dtype is float32 or x.dtype is float64):  # the bounds may be others at each call
            kernel = kernel_of("clamped", ("full", "scalar", "scalar"), x.dtype, ())
        if kernel is None:
            return super().clamp(x, low, high)
        bounds = (-math.inf if low is None else float(low), math.inf if high is None else float(high))
        return kernel.alike((x,), bounds)

    def remainder(self, x: Any, y: Any) -> Any:
        kernel, number = None, type(y) in NUMBERS
        if x.size >= LEAST and x.dtype is float32 and (number or (y.dtype is float32 and y.shape == x.shape)):
            extents = ("full", "scalar" if number else "full")
            kernel = kernel_of("remainder_in_float64", extents, float32, ())
        if kernel is not None:
            out = kernel.alike((x,), (float(y),)) if number else kernel.alike((x, y))
            if not np.isnan(out).any():
                return out
        return super().remainder(x, y)

    def leaky_relu(self, x: Any, negative_slope: float) -> Any:
        kernel = elementwise_kernel("leaky_relu", (negative_slope,), x)
        return super().leaky_relu(x, negative_slope) if kernel is None else kernel.alike((x,))

    def elu(self, x: Any, alpha: float, scale: float, input_scale: float) -> Any:
        kernel = elementwise_kernel("elu", (alpha, scale, input_scale), x)
        return super().elu(x, alpha, scale, input_scale) if kernel is None else kernel.alike((x,))

    def hardtanh(self, x: Any, low: float, high: float) -> Any:
        kernel = elementwise_kernel("hardtanh", (low, high), x)
        return super().hardtanh(x, low, high) if kernel is None else kernel.alike((x,))

    def hardswish(self, x: Any) -> Any:
        kernel = elementwise_kernel("hardswish", (), x)
        return super().hardswish(x) if kernel is None else kernel.alike((x,))

    def mish(self, x: Any) -> Any:
        kernel = elementwise_kernel("mish", (), x)
        return super().mish(x) if kernel is None else kernel.alike((x,))
