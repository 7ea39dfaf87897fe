"""Conversions of floats of 16 bits have the values of NumPy's, and float64 is rounded to them once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy.backend import NumPy
from burnpy.backend.dtypes import bool_, dtype_of, float32, int8, int64, uint8
from tests.rows import every_row

D: Any = NumPy()


@every_row("name", ["bfloat16", "float16"])
def test_all_floats_of_16_bits_and_the_numbers_between_them(name: str) -> None:
    if name == "bfloat16":
        pytest.importorskip("ml_dtypes")
    narrow = dtype_of(name)
    halves = np.arange(1 << 16, dtype=np.uint16).view(narrow)
    wide = halves.astype(np.float32)
    assert D.cast(halves, float32).dtype is float32
    np.testing.assert_array_equal(D.cast(halves, float32), wide)
    bits = wide[np.isfinite(wide)].view(np.uint32)
    for step in (1, 0xFFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001):  # about halfway to the next one
        x = np.concatenate([(bits + np.uint32(step)).view(np.float32), wide])[1:]
        for given in (x, x[::2], x[: x.size // 4 * 4].reshape((4, -1)).T):
            with np.errstate(all="ignore"):
                expected = given.astype(narrow)
            found = D.cast(given, narrow)
            assert found.dtype is narrow
            assert found.shape == given.shape
            np.testing.assert_array_equal(found.astype(np.float32), expected.astype(np.float32))
            np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


@every_row("name", ["bfloat16", "float16"])
def test_float64_is_rounded_once(name: str) -> None:
    if name == "bfloat16":
        pytest.importorskip("ml_dtypes")
    narrow = dtype_of(name)
    values = np.arange(0x7C00 if name == "float16" else 0x7F80, dtype=np.uint16).view(narrow).astype(np.float64)
    low, high = values[:-1], values[1:]
    middle = (low + high) / 2
    even = np.where(np.arange(low.size) % 2 == 0, low, high)
    overflow = 1.5 * high[-1] - 0.5 * low[-1]
    cases = [
        (middle, even),
        (np.nextafter(middle, np.inf), high),
        (np.nextafter(middle, 0.0), low),
        (middle * (1 + 1e-12), high),
        (
            np.tile([overflow, 1e300, 5e-324, np.nextafter(overflow, 0.0)], 999),
            np.tile([np.inf, np.inf, 0, high[-1]], 999),
        ),
        (np.tile([0.0, np.inf, np.nan], 999), np.tile([0.0, np.inf, np.nan], 999)),
    ]
    for x, expected in cases:
        for sign in (1.0, -1.0):
            found = D.cast(sign * x, narrow)
            assert found.dtype is narrow
            np.testing.assert_array_equal(found.astype(np.float64), sign * expected)
            np.testing.assert_array_equal(np.signbit(found), np.signbit(sign * x))
            few = [D.cast(part, narrow) for part in np.array_split(sign * x, 1 + x.size // 999)]  # without a kernel
            np.testing.assert_array_equal(np.concatenate(few).astype(np.float32), found.astype(np.float32))


@every_row("name", ["bfloat16", "float16"])
def test_ints_bools_and_each_other(name: str) -> None:
    if name == "bfloat16":
        pytest.importorskip("ml_dtypes")
    narrow, rng = dtype_of(name), np.random.default_rng(0)
    for dtype in (int8, uint8, int64):
        x = rng.integers(0 if dtype is uint8 else -128, 128, (30, 100)).astype(dtype)
        large = x * dtype.type(1 << 40) if dtype is int64 else x
        for given in (x, x.T, large):
            with np.errstate(over="ignore"):
                expected = given.astype(narrow)
            assert D.cast(given, narrow).tobytes() == np.ascontiguousarray(expected).tobytes()
        assert D.cast(x.astype(narrow), dtype).tobytes() == x.tobytes()
    mask = rng.random((30, 100)) < 0.5
    assert D.cast(mask, narrow).tobytes() == mask.astype(narrow).tobytes()
    assert D.cast(mask.astype(narrow), bool_).tobytes() == mask.tobytes()
    pytest.importorskip("ml_dtypes")
    other = dtype_of("float16" if name == "bfloat16" else "bfloat16")
    x = rng.normal(size=(30, 100)).astype(narrow)
    assert D.cast(x, other).tobytes() == x.astype(other).tobytes()
