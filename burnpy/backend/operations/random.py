"""Random numbers. All state is in the NumPy generator passed in, so that it can be saved, restored and spawned."""

from __future__ import annotations

import numpy as np

from burnpy.backend.operations.base import OperationsBase
from burnpy.backend.primitives import DType, Float, Int, Shape
from burnpy.backend.schema import Algebra, derived

NONE = Algebra.NONDIFFERENTIABLE


class Random(OperationsBase):
    """Draws. The defaults draw on the CPU; a device may take one seed from the generator and draw by itself."""

    @derived(NONE)
    def random_uniform(self, generator: np.random.Generator, shape: Shape, dtype: DType) -> Float:
        """Uniform in [0, 1)."""
        drawn = generator.random(shape, dtype=np.float64 if dtype == np.float64 else np.float32)
        if dtype.itemsize >= 4:
            return self.from_numpy(np.asarray(drawn))
        below_one = np.nextafter(dtype.type(1), dtype.type(0))  # rounding to 16 bits must not reach 1
        return self.from_numpy(np.minimum(np.asarray(drawn).astype(dtype), below_one))

    @derived(NONE)
    def random_normal(self, generator: np.random.Generator, shape: Shape, dtype: DType) -> Float:
        """Normal with mean 0 and variance 1."""
        drawn = generator.standard_normal(shape, dtype=np.float64 if dtype == np.float64 else np.float32)
        return self.from_numpy(np.asarray(drawn).astype(dtype))

    @derived(NONE)
    def random_integers(self, generator: np.random.Generator, low: int, high: int, shape: Shape, dtype: DType) -> Int:
        """Uniform in low … high - 1."""
        return self.from_numpy(np.asarray(generator.integers(low, high, shape, dtype=dtype)))

    @derived(NONE)
    def random_permutation(self, generator: np.random.Generator, n: int, dtype: DType) -> Int:
        """0 … n - 1 in random order; 1-d."""
        return self.from_numpy(generator.permutation(n).astype(dtype))
