"""Sorts and scans: one launch each, of the kernels that give a row to some threads of a block."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy.backend import CuPy, NumPy
from burnpy.backend.dtypes import dtype_of
from tests.hostcuda import simulator
from tests.rows import every_row

simulator.require()

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
LAYOUTS = (((3, 1), 1), ((5, 8), 1), ((300, 9), 1), ((2, 2048), 1), ((2, 40, 5), 1), ((70, 3), 0), ((2, 100, 40), 1))
CLOSE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-5}


def bits(x: Any) -> Any:
    """Return the bytes of an array as an array, whose differences NumPy finds faster than pytest those of bytes."""
    return np.frombuffer(x.tobytes(), np.uint8)


def drawn(shape: tuple[int, ...], dtype: str) -> Any:
    """Elements that are often equal; of floats, special ones and subnormals among them."""
    rng = np.random.default_rng(0)
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype in INTS:
        info = np.iinfo(dtype)
        x = rng.integers(info.min, info.max, shape, dtype, endpoint=True)
        return np.where(rng.random(shape) < 0.5, x.dtype.type(3), x)
    wide = np.round(rng.normal(size=shape) * 3)
    for special in (np.nan, np.inf, -np.inf, -0.0, 1e-40, -1e-40):
        wide[rng.random(shape) < 0.08] = special
    return NumPy().cast(wide, dtype_of(dtype))


@every_row(("dtype", "shape", "dim"), [(dtype, *each) for dtype in (*FLOATS, *INTS, "bool") for each in LAYOUTS])
def test_sorts_are_those_of_numpy(dtype: str, shape: tuple[int, ...], dim: int) -> None:
    x = drawn(shape, dtype)
    given = CuPy().from_numpy(x)
    for descending in (False, True):
        index = np.asarray(NumPy().argsort(x, dim, descending))
        values = np.asarray(NumPy().gather(x, dim, index))
        with simulator.watched() as journal:
            found = [*CuPy().sort(given, dim, descending), CuPy().argsort(given, dim, descending)]
        assert journal.launches == ["burnpy_sort"] * 2
        got = [CuPy().to_numpy(each) for each in found]
        np.testing.assert_array_equal(bits(got[0]), bits(values))
        np.testing.assert_array_equal(got[1], index)
        np.testing.assert_array_equal(got[2], index)


def test_longer_rows_are_sorted_by_cupy() -> None:
    x = np.random.default_rng(0).normal(size=(2, 5000))
    values, index = CuPy().sort(CuPy().from_numpy(x), 1, False)
    np.testing.assert_array_equal(CuPy().to_numpy(values), np.sort(x, 1))
    np.testing.assert_array_equal(CuPy().to_numpy(index), np.argsort(x, 1, kind="stable"))


SCANS = ("cumsum", "reverse_cumsum", "cumprod", "logcumsumexp", "cummax_index", "cummin_index")


@every_row(("op", "shape", "dim"), [(op, *each) for op in SCANS for each in (*LAYOUTS, ((2, 5000), 1), ((600, 33), 0))])
def test_scans_are_those_of_numpy(op: str, shape: tuple[int, ...], dim: int) -> None:
    """Scans of several tiles, along the last dimension and along others, agree."""
    for dtype in ("float32", "float64", "bfloat16", "int8", "uint8", "int64"):
        if op == "logcumsumexp" and "float" not in dtype:
            continue
        x = drawn(shape, dtype) if op.endswith("index") else np.random.default_rng(0).normal(size=shape)
        x = np.exp(x / 30) if op == "cumprod" and "float" in dtype else x
        x = NumPy().cast(np.asarray(x), dtype_of(dtype)) if "float" in dtype else np.round(x).astype(dtype)
        with simulator.watched() as journal:
            found = getattr(CuPy(), op)(CuPy().from_numpy(x), dim)
        assert journal.launches == [f"burnpy_{op.removeprefix('reverse_').removesuffix('_index')}"]
        got, want = CuPy().to_numpy(found), np.asarray(getattr(NumPy(), op)(x, dim))
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        close = CLOSE.get(dtype, 1e-12)
        np.testing.assert_allclose(got.astype(float), want.astype(float), rtol=close, atol=30 * close, err_msg=dtype)


@pytest.mark.parametrize("order", simulator.ORDERS)
def test_the_first_element_of_a_scan_is_kept_and_the_order_of_threads_does_not_matter(order: str) -> None:
    x = np.random.default_rng(0).normal(size=(3, 3000)).astype(np.float32)
    x[:, 0] = -0.0
    with simulator.order(order):
        found = CuPy().to_numpy(CuPy().cumsum(CuPy().from_numpy(x), 1))
    assert np.signbit(found[:, 0]).all()
    with simulator.order("forward"):
        np.testing.assert_array_equal(bits(found), bits(CuPy().to_numpy(CuPy().cumsum(CuPy().from_numpy(x), 1))))
