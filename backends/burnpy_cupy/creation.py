"""Random numbers on the GPU: the generator passed to an operation draws a seed for CuPy's Philox generator."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32, float64, int64
from burnpy.backend.primitives import DType, Shape
from burnpy_array import ArrayBackend

_STREAMS = 256_000
"""The maximum number of Philox states; fewer states are faster to initialize for fewer numbers."""


class CuPyRandom(ArrayBackend):
    """Random operations: the same seed gives the same numbers on every GPU, but not those of another backend."""

    def random_uniform(self, generator: np.random.Generator, shape: Shape, dtype: DType) -> Any:
        drawn = self._draw(generator, "random", shape, shape, _drawable(dtype))
        if dtype.itemsize >= 4:
            return drawn
        below_one = np.nextafter(dtype.type(1), dtype.type(0))  # rounding to 16 bits must not reach 1
        return self.minimum(self.cast(drawn, dtype), float(below_one))

    def random_normal(self, generator: np.random.Generator, shape: Shape, dtype: DType) -> Any:
        drawn = self._draw(generator, "standard_normal", shape, shape, _drawable(dtype))
        return drawn if dtype.itemsize >= 4 else self.cast(drawn, dtype)

    def random_exponential(self, generator: np.random.Generator, shape: Shape, dtype: DType) -> Any:
        return self.cast(self._draw(generator, "standard_exponential", shape, shape, float64), dtype)

    def random_integers(self, generator: np.random.Generator, low: int, high: int, shape: Shape, dtype: DType) -> Any:
        return self.cast(self._draw(generator, "integers", shape, low, high, shape, int64), dtype)

    def random_permutation(self, generator: np.random.Generator, n: int, dtype: DType) -> Any:
        drawn = self._draw(generator, "random", (n,), (n,), float64)
        return self.cast(self._call(drawn.argsort), dtype)

    def _draw(self, generator: np.random.Generator, method: str, shape: Shape, *args: Any) -> Any:
        return self._call(_drawn, self.xp, int(generator.integers(0, 1 << 63)), method, math.prod(shape), args)


def _drawn(xp: Any, seed: int, method: str, count: int, args: tuple[Any, ...]) -> Any:
    source = xp.random.Philox4x3210(seed, size=min(max(count, 1), _STREAMS))
    return getattr(xp.random.Generator(source), method)(*args)


def _drawable(dtype: DType) -> DType:
    return float64 if dtype is float64 else float32
