"""Random numbers. All state is in the NumPy generator argument, so that it can be saved, restored and spawned."""

from __future__ import annotations

import numpy as np

from burnpy.backend.operations.base import OperationsBase
from burnpy.backend.primitives import DType, Float, Int, Shape
from burnpy.backend.schema import NONDIFFERENTIABLE, derived


class Random(OperationsBase):
    """Random sampling. The defaults sample on the CPU; a device may draw one seed and sample with its own generator."""

    @derived(NONDIFFERENTIABLE)
    def random_uniform(self, generator: np.random.Generator, shape: Shape, dtype: DType) -> Float:
        """Sample from the uniform distribution on [0, 1)."""
        sample = generator.random(shape, dtype=np.float64 if dtype == np.float64 else np.float32)
        if dtype.itemsize >= 4:
            return self.from_numpy(np.asarray(sample))
        below_one = np.nextafter(dtype.type(1), dtype.type(0))  # rounding to 16 bits must not reach 1
        return self.from_numpy(np.minimum(np.asarray(sample).astype(dtype), below_one))

    @derived(NONDIFFERENTIABLE)
    def random_normal(self, generator: np.random.Generator, shape: Shape, dtype: DType) -> Float:
        """Sample from the normal distribution with mean 0 and variance 1."""
        sample = generator.standard_normal(shape, dtype=np.float64 if dtype == np.float64 else np.float32)
        return self.from_numpy(np.asarray(sample).astype(dtype))

    @derived(NONDIFFERENTIABLE)
    def random_integers(self, generator: np.random.Generator, low: int, high: int, shape: Shape, dtype: DType) -> Int:
        """Sample integers uniformly from low, …, high - 1."""
        return self.from_numpy(np.asarray(generator.integers(low, high, shape, dtype=dtype)))

    @derived(NONDIFFERENTIABLE)
    def random_permutation(self, generator: np.random.Generator, n: int, dtype: DType) -> Int:
        """Return a random permutation of 0, …, n - 1; 1-d."""
        return self.from_numpy(generator.permutation(n).astype(dtype))
