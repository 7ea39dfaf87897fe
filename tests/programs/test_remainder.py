"""The remainders by kernels have the bits of NumPy's: of float32 in float64, of float64 with products' errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy.backend import NumPy

pytest.importorskip("llvmlite")

D: Any = NumPy()
DTYPES = pytest.mark.parametrize("dtype", ["float32", "float64"])


def same_bits(x: Any, y: Any, noted: list[Any]) -> None:
    for name in ("remainder", "fmod"):
        noted.clear()
        result = getattr(D, name)(x, y)
        assert [k.program.name for k in noted] == [f"{name}_in_float64" if x.dtype == "float32" else f"exact_{name}"]
        with np.errstate(all="ignore"):
            wanted = getattr(np, name)(x, np.asarray(y, x.dtype))
        np.testing.assert_array_equal(np.isnan(result), np.isnan(wanted))
        known = ~np.isnan(wanted)
        assert result[known].tobytes() == wanted[known].tobytes()


@DTYPES
@pytest.mark.parametrize("y", [0.3, -0.3, 1.0, -7.5, 3e-5, 1e30, float("inf"), 0.0])
def test_by_a_number(y: float, dtype: str, noted: list[Any]) -> None:
    rng = np.random.default_rng(0)
    for scale in (1.0, 1e-30, 1e4, 1e20):
        x = (scale * rng.normal(size=(40, 100))).astype(dtype)
        x[0, :4] = 0.0, -0.0, y, -3.0 * y if np.isfinite(y) else 1.0
        same_bits(x, y, noted)


@DTYPES
def test_by_numbers_of_all_sizes(dtype: str, noted: list[Any]) -> None:
    rng = np.random.default_rng(1)
    for span in (3, 30):
        x, y = ((rng.choice([-1, 1], 20000) * 10.0 ** rng.uniform(-span, span, 20000)).astype(dtype) for _ in "xy")
        same_bits(x, y, noted)
    number = np.dtype(dtype).type
    near = np.arange(1, 20001, dtype=dtype) * number(0.7)  # multiples of y, and their neighbours
    for end in (np.inf, 0):
        same_bits(np.nextafter(near, number(end)), np.full(20000, 0.7, dtype), noted)


@DTYPES
def test_what_is_not_finite(dtype: str, noted: list[Any]) -> None:
    values = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 3e38, 1e-45], dtype)
    x, y = np.resize(np.repeat(values, 9), 2106), np.resize(np.tile(values, 9), 2106)
    same_bits(x, y, noted)


@DTYPES
def test_neighbours_and_choices_have_the_bits_of_numpy(dtype: str, noted: list[Any]) -> None:
    """Zeros of both signs, subnormals, the largest numbers, infinities, NaN, and bits at random."""
    limits, rng = np.finfo(dtype), np.random.default_rng(5)
    ends = [0.0, 1.0, limits.tiny, limits.smallest_subnormal, limits.max, 1 - limits.epsneg, np.inf, np.nan]
    values = np.array([*ends, *(-end for end in ends)], dtype)
    bits = rng.integers(0, 256, 40 * 1000, np.uint8).view(dtype)
    x = np.concatenate([np.tile(np.repeat(values, 16), 40), bits])
    y = np.concatenate([np.tile(np.tile(values, 16), 40), bits[::-1]])
    mask = rng.random(x.size) < 0.5
    with np.errstate(all="ignore"):
        wanted, found = np.nextafter(x, y), D.nextafter(x, y)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.signbit(found)[wanted == 0], np.signbit(wanted)[wanted == 0])
    number = x.dtype.type(-0.0)
    for one, other in ((x, y), (x, -0.0), (number, y), (x[::-1], y), (x, 7)):
        assert D.where(mask, one, other).tobytes() == np.where(mask, one, np.asarray(other, dtype)).tobytes()
    assert [kernel.program.name for kernel in noted] == ["nextafter", *["where"] * 5]


def test_rows_columns_and_single_numbers(noted: list[Any]) -> None:
    x = np.random.default_rng(3).normal(size=(6, 40, 50)).astype("float32")
    for y in (x[0], x[0, 0], x[:, :1], x[..., :1], x[:1, :1, :1], x[0, 0, 0]):
        same_bits(x, y, noted)
        same_bits(y, x, noted)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(D.floor_divide(x, y), np.floor_divide(x, y))


def test_quotients_of_float64_rounded_down_are_numpys() -> None:
    rng = np.random.default_rng(4)
    x, y = rng.choice([-1, 1], 3000) * 10.0 ** rng.uniform(-9, 3, 3000), rng.normal(size=3000)
    y[:1000] = x[:1000] / rng.integers(1, 1 << 40, 1000)  # next to whole quotients
    x[:2] = 0.0, -0.0
    found = D.floor_divide(x, y)
    assert found.tobytes() == np.floor_divide(x, y).tobytes()
