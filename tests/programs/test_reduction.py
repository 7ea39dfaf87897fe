"""Products of rows and of everything as kernels agree with NumPy's, whatever the values and the lengths."""

from __future__ import annotations

from itertools import product
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


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["amax", "amin"])
def test_extremes_of_rows_are_those_of_numpy(name: str, dtype: str, noted: list[Any]) -> None:
    cases: list[tuple[tuple[int, ...], tuple[int, ...], bool]] = [
        ((50, 70), (1,), True),
        ((50, 70), (0, 1), True),
        ((4, 5, 6, 40), (2, 3), True),
        ((4000, 1), (1,), True),
        ((4000,), (0,), True),
        ((50, 70), (0,), False),
        ((4, 5, 6, 40), (1, 3), False),
    ]
    for (shape, dims, is_kernel), special in product(cases, (1.0, np.nan, -np.inf, np.inf)):
        x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
        x.reshape(-1)[[3, 500]] = special
        for y, keepdim in product((x, -x[..., ::-1], np.full_like(x, special)), (False, True)):
            noted.clear()
            found = getattr(NumPy(), name)(y, dims, keepdim)
            assert bool(noted) == is_kernel
            wanted = getattr(np, name)(y, axis=dims, keepdims=keepdim)
            assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
            np.testing.assert_array_equal(found, wanted)
