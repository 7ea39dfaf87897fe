"""Products of rows and of everything as kernels agree with NumPy's, whatever the values and the lengths."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from burnpy.backend import NumPy
from tests.programs.switched import without_kernels
from tests.rows import every_row

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


@every_row("value", [0.0, -0.0, np.inf, np.nan])
@every_row("place", [0, 76])
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


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("shape", "dims"), [*CASES, ((40, 77), (0,)), ((5, 33, 19), (1,)), ((4, 1024), (0, 1)), ((3, 700), (1,))]
)
def test_products_of_others(shape: Any, dims: Any, dtype: str, noted: list[Any]) -> None:
    b: Any = NumPy()
    rng = np.random.default_rng(1)
    x = rng.uniform(0.97, 1.03, shape).astype(dtype)
    x[rng.random(shape) < 0.5 / x.size**0.5] = 0
    grad = rng.normal(size=[1 if d in dims else n for d, n in enumerate(shape)]).astype(dtype)
    found = b.prod_backward(grad, x, dims)
    assert (found.shape, found.dtype) == (x.shape, x.dtype)
    assert "products_of_others" in [kernel.program.name for kernel in noted]
    with without_kernels():
        wanted = b.prod_backward(grad.astype(np.float64), x.astype(np.float64), dims)
    np.testing.assert_array_equal(found == 0, wanted == 0)
    np.testing.assert_allclose(found, wanted, rtol=64 * float(np.finfo(dtype).eps))
    flipped = b.prod_backward(grad[::-1] if 0 not in dims else grad, x[::-1], dims)  # in the other order
    np.testing.assert_allclose(flipped[::-1], wanted, rtol=64 * float(np.finfo(dtype).eps))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("shape", "dims"), [((40, 77), (0,)), ((700, 5), (0,)), ((6, 9, 50), (0, 1))])
def test_sums_of_numbers(shape: Any, dims: Any, dtype: str, noted: list[Any]) -> None:
    b: Any = NumPy()
    rng = np.random.default_rng(2)
    x = rng.normal(size=shape).astype(dtype)
    x[rng.random(shape) < 0.2] = np.nan
    x[..., 0] = np.nan
    for keepdim in (False, True):
        noted.clear()
        found = b.nansum(x, dims, keepdim)
        assert [kernel.program.name for kernel in noted] == ["sums_of_numbers"]
        wanted = np.nansum(x.astype(np.float64), axis=dims, keepdims=keepdim)
        assert (found.shape, found.dtype) == (wanted.shape, x.dtype)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=64 * float(np.finfo(dtype).eps))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["var", "std"])
def test_variances(name: str, dtype: str, noted: list[Any]) -> None:
    cases: list[tuple[tuple[int, ...], tuple[int, ...], bool]] = [
        ((3, 5), (1,), True),
        ((3, 5), (0,), True),
        ((2, 3, 4, 5), (1, 3), True),
        ((2, 3, 4, 5), (0, 1, 2, 3), True),
        ((40, 70), (1,), True),
        ((40, 70), (0,), False),
        ((2, 1 << 16), (0, 1), True),
        ((1 << 16, 3), (0,), False),
        ((1,), (0,), False),
    ]
    b, rng, eps = NumPy(), np.random.default_rng(0), float(np.finfo(dtype).eps)
    for (shape, dims, is_kernel), keepdim, correction in product(cases, (False, True), (0.0, 1.0)):
        x = (rng.standard_normal(shape) * 3 + 1).astype(dtype)
        noted.clear()
        found = getattr(b, name)(x, dims, keepdim, correction)
        assert bool(noted) == is_kernel
        with np.errstate(all="ignore"):
            squares = (x.astype(np.longdouble) - x.mean(dims, np.longdouble, keepdims=True)) ** 2
            wanted = squares.sum(dims, keepdims=keepdim) / (squares.size / found.size - correction)
            wanted = np.sqrt(wanted) if name == "std" else wanted
        assert (found.shape, found.dtype) == (wanted.shape, x.dtype)
        np.testing.assert_allclose(found, wanted.astype(dtype), rtol=16 * eps)


@every_row("name", ["var", "std"])
@every_row("dtype", ["float32", "float64", "float16"])
def test_variances_of_special_values(name: str, dtype: str) -> None:
    b: Any = NumPy()
    largest = float(np.finfo(dtype).max)
    rows: Any = [
        [0.1] * 7,
        [largest] * 7,
        [-0.0, 0.0] * 3 + [0.0],
        [np.inf] * 7,
        [1.0] * 6 + [np.nan],
        [-np.inf] + [1.0] * 6,
    ]
    x = np.array(rows, dtype)
    for y, dims in ((x, (1,)), (x.T, (0,))):
        found = getattr(b, name)(y, dims, False, 1)
        np.testing.assert_array_equal(found, np.array([0.0, 0.0, 0.0, np.nan, np.nan, np.nan], dtype))
        with without_kernels():
            np.testing.assert_array_equal(found, getattr(b, name)(y, dims, False, 1))
    near = np.array([largest / 4, -largest / 4] * 2, dtype)
    tiny = float(np.finfo(dtype).tiny) * 64
    for y in (near, np.array([tiny, -tiny] * 2, dtype)):  # whose squares overflow, or are 0
        np.testing.assert_allclose(b.std(y, (0,), False, 0), np.abs(y[0]), rtol=2 * float(np.finfo(dtype).eps))
