"""What the examples of operations do not show of the real CuPy: sums in 16 bits, late checks, ranges that wrap."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy.backend import CuPy, NumPy
from burnpy.backend.dtypes import dtype_of, float32, int64
from tests.hostcuda import simulator

simulator.require()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("backend", [NumPy, CuPy])
def test_many_small_numbers_add_up(backend: Any, dtype: str) -> None:
    """Added one by one in 16 bits, each would be rounded away: 1 + 2⁻¹² is 1."""
    device, narrow = backend(), dtype_of(dtype)
    x, src = device.full((2,), 1.0, narrow), device.full((4096,), 2.0**-12, narrow)
    out = device.index_add(x, 0, device.full((4096,), 0, int64), src)
    assert device.to_numpy(out).astype(float32).tolist() == [2.0, 1.0]


def test_late_checks_cost_one_launch_each_and_are_read_at_once() -> None:
    from burnpy import IntTensor, Tensor
    from burnpy.backend.errors import IndexRangeError

    x, index = Tensor[CuPy].arange(4.0), IntTensor[CuPy].from_data([0, -1])
    CuPy().synchronize()
    with simulator.watched() as one:
        x.index_select(0, index.abs())
    assert [name for name in one.launches if name.startswith("burnpy")] == ["burnpy_bounded", "burnpy_select"]
    for _ in range(1000):
        x.index_select(0, index.abs())
    x.index_select(0, index + 9)
    with simulator.watched() as journal, pytest.raises(IndexRangeError, match="index 9"):
        CuPy().synchronize()
    assert journal.counts["to_host"] == 1
    assert len(journal.launches) <= 3, "what was wrong is put back, and no more"
    CuPy().synchronize()


def test_a_step_beyond_the_dtype_wraps() -> None:
    device = CuPy()
    for arguments in (
        (5, -1, -2, "uint8"),
        (0, 5, 300, "uint8"),
        (-100, 100, 150, "int8"),
        (2**64 - 1, 2**64 - 4, -1, "uint64"),
    ):
        start, stop, step, name = arguments
        out = device.to_numpy(device.arange(start, stop, step, np.dtype(name)))
        assert out.tolist() == list(range(start, stop, step))
        assert out.dtype == name
