"""Products with quantized weights: all numbers of rows, sizes of groups, and lengths that fill no vector."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burnpy_numpy.matmul as matmul
from burnpy.backend import NumPy
from tests.kernels import multiplies
from tests.rows import every_row

D: Any = NumPy()
CASES = [
    (8, 37, 480, 1, "float32"),
    (8, 17, 180, 3, "float64"),
    (8, 33, 1000, 1, "float32"),
    (8, 65, 512, 16, "float64"),
    (8, 3, 14, 7, "float32"),
    (4, 37, 480, 1, "float64"),
    (4, 17, 180, 3, "float32"),
    (4, 33, 1000, 1, "float32"),
    (4, 65, 512, 16, "float32"),
    (4, 33, 1200, 2, "float64"),
    (4, 3, 14, 7, "float32"),
]
"""Bits, rows and columns of the matrix, groups in a row, and dtype."""


def quantized(rng: np.random.Generator, bits: int, rows: int, columns: int, groups: int, dtype: str) -> Any:
    """Return a matrix, its scales, and it as floats."""
    size = rows, columns * bits // 8
    weight = rng.integers(-128, 128, size, np.int8) if bits == 8 else rng.integers(0, 256, size, np.uint8)
    scale, floats = rng.uniform(0.5, 1.5, (rows, groups)).astype(dtype), np.empty((rows, columns), dtype)
    matmul.convert(weight, scale, floats)
    return weight, scale, floats


@every_row("bits, outputs, columns, groups, dtype", CASES)
def test_products_of_few_and_of_many_rows(bits: int, outputs: int, columns: int, groups: int, dtype: str) -> None:
    rng = np.random.default_rng(0)
    weight, scale, floats = quantized(rng, bits, outputs, columns, groups, dtype)
    x = rng.normal(size=(50, columns)).astype(dtype)
    wanted = x.astype("float64") @ floats.astype("float64").T
    whole = D.quantized_matmul(x, weight, scale)
    for rows in (1, 7, 8, 9, 12, 13, 50):
        found = D.quantized_matmul(x[:rows], weight, scale)
        np.testing.assert_allclose(found, wanted[:rows], rtol=1e-4 if dtype == "float32" else 1e-10, atol=1e-2)
        if rows > matmul._FEW_ROWS and multiplies():
            np.testing.assert_array_equal(found, whole[:rows])


@every_row("bits", [8, 4])
def test_many_rows_are_multiplied_in_blocks_without_kernels(bits: int) -> None:
    weight, scale, floats = quantized(np.random.default_rng(0), bits, 37, 180, 3, "float32")
    x = np.random.default_rng(1).normal(size=(40, 180)).astype("float32")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matmul, "_CONVERTED", 8 * x.shape[1])  # four blocks of 8 rows, and one of 5
        found = matmul._product_in_blocks(x, weight, scale)
    np.testing.assert_allclose(found, x @ floats.T, rtol=1e-4, atol=1e-2)


@every_row("bits", [8, 4])
def test_infinities_and_nan_stay_in_their_rows(bits: int) -> None:
    weight, scale, _ = quantized(np.random.default_rng(0), bits, 37, 480, 5, "float32")
    x = np.random.default_rng(1).normal(size=(30, 480)).astype("float32")
    finite = D.quantized_matmul(x, weight, scale)
    x[3, 470], x[29, 0], scale[36, 4] = np.nan, np.inf, np.nan
    found = D.quantized_matmul(x, weight, scale)
    others = np.delete(np.arange(30), (3, 29))
    assert not np.isfinite(found[[3, 29]]).any()
    np.testing.assert_array_equal(found[others, :36], finite[others, :36])
    assert np.isnan(found[:, 36]).all()
