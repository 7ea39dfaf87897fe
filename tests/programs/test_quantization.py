"""Products with quantized weights in blocks, whose conversion by a kernel has the bits of NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burnpy_numpy.quantization as blocks
from burnpy.backend import NumPy
from burnpy_numpy.kernels.kernel import family_kernels
from tests.rows import every_row

D: Any = NumPy()


@every_row("bits, groups, dtype", [(8, 1, "float32"), (8, 3, "float64"), (4, 1, "float64"), (4, 3, "float32")])
def test_many_rows_are_multiplied_in_blocks(bits: int, groups: int, dtype: str) -> None:
    rng = np.random.default_rng(0)
    weight = rng.integers(-128, 128, (37, 60), np.int8) if bits == 8 else rng.integers(0, 256, (37, 60), np.uint8)
    scale, x = rng.uniform(0.5, 1.5, (37, groups)).astype(dtype), rng.normal(size=(40, 480 // bits)).astype(dtype)
    floats: list[Any] = [np.full((37, 480 // bits), np.nan, dtype) for _ in range(2)]
    blocks.convert(weight, scale, floats[0])
    kernels = family_kernels("quantization")
    if kernels is not None:
        assert kernels.convert_rows(weight, scale, floats[1])
        np.testing.assert_array_equal(*floats)
    wanted = x.astype("float64") @ floats[0].astype("float64").T
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "_BLOCK", 8 * x.shape[1])  # four blocks of 8 rows, and one of 5
        found = D.quantized_matmul(x, weight, scale)
    np.testing.assert_allclose(found, wanted, rtol=1e-4 if dtype == "float32" else 1e-10, atol=1e-2)
