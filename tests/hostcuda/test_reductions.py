"""Reductions: one launch each, of the kernel that divides rows among threads, whatever the layout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy.backend import CuPy, NumPy
from burnpy.backend.dtypes import dtype_of
from tests.hostcuda import simulator
from tests.rows import every_row

simulator.require()

from burnpy_cupy.kernels.launch import of_view  # noqa: E402

LAYOUTS: dict[str, tuple[tuple[int, ...], tuple[int, ...], Callable[[Any], Any], str]] = {
    "rows": ((5, 70), (1,), lambda x: x, "warp"),
    "long rows": ((3, 1500), (1,), lambda x: x, "block"),
    "one divided row": ((1, 20000), (0, 1), lambda x: x, "block"),
    "columns": ((70, 40), (0,), lambda x: x, "lanes"),
    "divided columns": ((900, 40), (0,), lambda x: x, "lanes"),
    "columns of a transposed matrix": ((40, 70), (0,), lambda x: x.T, "warp"),
    "backwards, every other": ((40, 70), (1,), lambda x: x[::-1, ::2], "warp"),
    "expanded": (
        (40, 1),
        (1,),
        lambda x: CuPy().expand(x, (40, 9)) if type(x) is not np.ndarray else x.repeat(9, 1),
        "lanes",
    ),
    "planes of channels": ((4, 5, 6, 7), (0, 2, 3), lambda x: x, "warp"),
    "in the middle": ((8, 9, 40), (1,), lambda x: x, "lanes"),
    "too many groups": ((2, 3, 4, 5, 6), (0, 2, 4), lambda x: x, "warp"),
}
DTYPES = ("float32", "float64", "float16", "bfloat16", "int8", "uint64", "bool")
CLOSE = {"float16": 2e-3, "bfloat16": 2e-2}


def operations_of(dtype: str, dims: tuple[int, ...]) -> list[str]:
    if dtype == "bool":
        return ["any", "all", "sum"]
    positions = ["argmax", "argmin"] if len(dims) == 1 else []
    return ["sum", "amax", "amin", *(["mean"] if "float" in dtype else ["prod"]), *positions]


@every_row(("name", "dtype"), [(name, dtype) for name in LAYOUTS for dtype in DTYPES])
def test_values_are_those_of_numpy_in_one_launch(name: str, dtype: str) -> None:
    shape, dims, view, kind = LAYOUTS[name]
    drawn = np.random.default_rng(0).normal(size=shape) * 3
    wide = drawn > 0 if dtype == "bool" else np.round(drawn).astype(np.int8) if "int" in dtype else drawn
    given = (
        NumPy().cast(np.asarray(wide, np.float32 if "float" in dtype else None), dtype_of(dtype))
        if "float" in dtype
        else wide.astype(dtype)
    )
    ours, theirs = view(CuPy().from_numpy(given)), view(given)
    for op in operations_of(dtype, dims):
        rest = (dims[0] if op.startswith("arg") else dims, False)
        with simulator.watched() as journal:
            found = getattr(CuPy(), op)(ours, *rest)
        wanted = np.asarray(getattr(NumPy(), op)(theirs, *rest))
        assert [each for each in journal.launches if "copy" not in each] == [f"burnpy_{op}_{kind}"]
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype), op
        got, want = (
            NumPy().cast(np.asarray(x), np.dtype(np.float64)) if x.dtype.kind in "fV" else x
            for x in (CuPy().to_numpy(found), wanted)
        )
        np.testing.assert_allclose(got, want, rtol=CLOSE.get(dtype, 1e-5), atol=1e-4, err_msg=op)


def test_the_first_extreme_and_the_first_nan_are_found() -> None:
    nan = np.nan
    x = np.array([[1.0, 3.0, 3.0, 0.0, 0.0], [1.0, nan, 5.0, nan, 0.0], [nan, nan, 1.0, 2.0, 3.0]], np.float32)
    x = np.concatenate([np.full((3, 1500), 1.0, np.float32), x], 1)
    given = CuPy().from_numpy(x)
    for op, function in (("argmax", np.argmax), ("argmin", np.argmin), ("amax", np.max), ("amin", np.min)):
        found = getattr(CuPy(), op)(given, 1 if op.startswith("arg") else (1,), False)
        np.testing.assert_array_equal(CuPy().to_numpy(found), function(x, 1))


def test_reductions_of_nothing() -> None:
    x = CuPy().from_numpy(np.zeros((3, 0), np.float32))
    with simulator.watched() as journal:
        found = [CuPy().to_numpy(getattr(CuPy(), op)(x, (1,), False)).tolist() for op in ("sum", "prod")]
        kept = CuPy().sum(x, (0,), True)
    assert found == [[0.0] * 3, [1.0] * 3]
    assert np.isnan(CuPy().to_numpy(CuPy().mean(x, (1,), False))).all()
    assert kept.shape == (1, 0)
    assert not [each for each in journal.launches if each.startswith("burnpy")]


def test_large_arrays_count_in_64_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """By an expanded array, whose elements are few: the wide kernel is chosen by the layout, and not by the memory."""
    many = CuPy().expand(CuPy().from_numpy(np.ones((1, 1), np.float32)), (1 << 16, 1 << 16))
    with simulator.dry_run(), simulator.watched() as journal:
        CuPy().sum(many, (1,), False)
    assert journal.launches == ["burnpy_sum_block"]
    geometry = of_view(many.shape, (0, 0), (1,))
    assert geometry is not None
    assert geometry.wide


def test_divided_rows_leave_the_counters_at_zero() -> None:
    """So that the next launch on the stream counts from 0; another stream has counters of its own."""
    x = CuPy().from_numpy(np.random.default_rng(0).normal(size=(900, 40)).astype(np.float32))
    first = CuPy().to_numpy(CuPy().sum(x, (0,), False))
    with CuPy().stream():
        second = CuPy().sum(x, (0,), False)
    assert CuPy().to_numpy(second).tobytes() == CuPy().to_numpy(CuPy().sum(x, (0,), False)).tobytes() == first.tobytes()
    counters = [CuPy().to_numpy(array) for _, array in CuPy()._finished.values()]
    assert len(counters) >= 2
    assert not np.any(counters)
