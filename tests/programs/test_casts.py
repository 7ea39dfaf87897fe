"""Conversions between float32 and floats of 16 bits have the values of NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy.backend import NumPy
from burnpy.backend.dtypes import dtype_of, float32
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
