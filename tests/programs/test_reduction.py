"""Products of rows and of everything as kernels agree with NumPy's, whatever the values and the lengths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy.backend import NumPy

CASES = [((40, 77), (1,)), ((3, 1024), (1,)), ((2, 33, 50), (1, 2)), ((64, 64), (0, 1)), ((500, 7), (1,))]


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("shape", "dims"), CASES)
def test_products(shape: Any, dims: Any, dtype: str, keepdim: Any, noted: list[Any]) -> None:
    b: Any = NumPy()
    x = np.random.default_rng(0).uniform(0.97, 1.03, shape).astype(dtype)
    x *= np.where(np.arange(x.size).reshape(shape) % 3, 1, -1).astype(dtype)
    wanted = np.prod(x.astype(np.float64), axis=dims, keepdims=keepdim)
    found = b.prod(x, dims, keepdim)
    assert (found.shape, found.dtype) == (wanted.shape, x.dtype)
    np.testing.assert_allclose(found, wanted, rtol=64 * float(np.finfo(dtype).eps))
    assert [kernel.program.name for kernel in noted] == ["row_products"]


@pytest.mark.parametrize("value", [0.0, -0.0, np.inf, np.nan])
@pytest.mark.parametrize("place", [0, 76])
def test_special_values(value: float, place: int) -> None:
    b: Any = NumPy()
    x = np.full((40, 77), -1.0, np.float32)
    x[3, place] = value
    np.testing.assert_array_equal(b.prod(x, (1,), False), np.prod(x, axis=1))
    assert np.signbit(b.prod(x, (1,), False)[3]) == np.signbit(np.prod(x[3])) or np.isnan(value)
