"""`CompiledAdaptive`: adaptive max pooling as a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32, float64, int64
from burnpy.backend.operations.pooling import adaptive_windows
from burnpy.backend.operations.windows import Pair
from burnpy_array import ArrayBackend
from burnpy_numpy.kernels.operations import MANY, block_starts, block_width, template_kernel

_COLUMNS = 16
"""The number of columns whose maxima are found at a time."""


class CompiledAdaptive(ArrayBackend):
    """Adaptive max pooling of float32 and float64."""

    def adaptive_max_pool2d_indices(self, x: Any, size: Pair) -> Any:
        kernel, (n, channels, high, wide) = None, x.shape
        width = block_width(wide, _COLUMNS)
        if x.size >= MANY and (x.dtype is float32 or x.dtype is float64):
            kernel = template_kernel("adaptive_pooling_kernels", "adaptive_maxima", x.dtype.name, width)
        if kernel is None:
            return super().adaptive_max_pool2d_indices(x, size)
        bounds = [
            np.array(adaptive_windows(k, count), int64).T.copy() for k, count in zip((high, wide), size, strict=True)
        ]
        out, starts = np.empty((n, channels, *size), int64), block_starts(wide, width)
        memory = np.empty((n * channels, wide), x.dtype), np.empty((n * channels, wide), int64)
        arrays = [np.ascontiguousarray(x), out, *memory, *bounds[0], *bounds[1], starts]
        kernel.run(arrays, (high, wide, *size, len(starts)), n * channels, high * wide)
        return out
