"""The kernels of scans give the bits of NumPy's accumulation, at all shapes, layouts and special values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy.backend import NumPy

pytest.importorskip("llvmlite")

from burnpy_numpy import scans_and_ordering
from tests.programs.switched import one_by_one, without_kernels
from tests.rows import every_row

D: Any = NumPy()
SHAPES: dict[str, tuple[tuple[int, ...], int]] = {
    "rows": ((16, 40), 1),
    "rows that no block divides": ((13, 9), 1),
    "three rows": ((3, 50), 1),
    "one row": ((60,), 0),
    "columns": ((20, 64), 0),
    "columns that no vector divides": ((5, 7, 19), 1),
    "two columns": ((4, 9, 2), 1),
    "many columns": ((6, 300), 0),
    "length 2": ((9, 2), 1),
}
OPERATIONS = ("cumsum", "reverse_cumsum", "cumprod", "cummax", "cummin", "cummax_index", "cummin_index")


@pytest.fixture(autouse=True)
def _all_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scans_and_ordering, "MANY", 1)
    monkeypatch.setattr(scans_and_ordering, "_MIN_BESIDE", 1 << 40)


def drawn(shape: tuple[int, ...], dtype: str, special: bool = False) -> Any:
    rng = np.random.default_rng(sum(shape))
    x = rng.uniform(-1.5, 1.5, shape).astype(dtype)
    if special:
        values = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0], dtype)
        x = np.where(rng.random(shape) < 0.4, rng.choice(values, shape), x)
    return x


def without(operation: str, *args: Any) -> Any:
    """The result without kernels."""
    with without_kernels():
        return getattr(D, operation)(*args)


def same_bits(found: Any, wanted: Any) -> None:
    for a, b in zip(found, wanted, strict=True) if isinstance(found, tuple) else [(found, wanted)]:
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        undefined = np.isnan(a) if a.dtype.kind == "f" else np.zeros(a.shape, bool)
        np.testing.assert_array_equal(undefined, np.isnan(b) if b.dtype.kind == "f" else undefined)
        assert np.where(undefined, 0, a).tobytes() == np.where(undefined, 0, b).tobytes()


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("case", SHAPES)
def test_scans_have_the_bits_of_accumulation(case: str, operation: str, noted: list[Any]) -> None:
    shape, dim = SHAPES[case]
    for dtype in ("float32", "float64"):
        for special in (False, True):
            x = drawn(shape, dtype, special)
            noted.clear()
            found = getattr(D, operation)(x, dim)
            assert [k.program.name for k in noted] == ["scan"]
            same_bits(found, without(operation, x, dim))


@pytest.mark.parametrize("operation", ["recurrence", "reverse_recurrence"])
@pytest.mark.parametrize("case", SHAPES)
def test_recurrences_agree_with_float64(case: str, operation: str, noted: list[Any]) -> None:
    shape, dim = SHAPES[case]
    factor, x = drawn(shape, "float64"), drawn(shape[::-1], "float64").reshape(shape)
    factor.swapaxes(0, dim)[0] = np.nan  # not used
    noted.clear()
    found = getattr(D, operation)(factor.astype("float32"), x.astype("float32"), dim)
    assert [k.program.name for k in noted] == ["scan"]
    wanted = without(operation, factor, x, dim)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())
    np.testing.assert_allclose(
        getattr(D, operation)(factor, x, dim), wanted, rtol=1e-10, atol=1e-12 * np.abs(wanted).max()
    )


@pytest.mark.parametrize("operation", ["cumsum", "reverse_cumsum", "recurrence"])
def test_roundings_of_long_sums_do_not_add_up(operation: str) -> None:
    """In float32, the last of these sums would be wrong by 1e-4."""
    x = np.full((200_000, 2), 0.1, "float32")
    args = (np.ones_like(x), x, 0) if operation == "recurrence" else (x, 0)
    for found in (getattr(D, operation)(*args), without(operation, *args)):
        last = found[0 if operation == "reverse_cumsum" else -1]
        np.testing.assert_allclose(last, 200_000 * float(x[0, 0]), rtol=1e-6)


def test_views_do_not_matter() -> None:
    x = drawn((12, 5, 14), "float32")
    for view in (x[::-1], x[:, ::2], x.transpose(2, 0, 1), np.broadcast_to(x[:, :1], (12, 9, 14))):
        for dim in range(3):
            same_bits(D.cumsum(view, dim), without("cumsum", view, dim))
            same_bits(D.cummin(view, dim), without("cummin", view, dim))


@pytest.mark.parametrize("case", ["rows that no block divides", "columns that no vector divides"])
def test_results_do_not_depend_on_how_work_is_divided(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shape, dim = SHAPES[case]
    x = drawn(shape, "float32", True)
    wanted = D.cumsum(x, dim)
    ranges = one_by_one(monkeypatch)
    same_bits(D.cumsum(x, dim), wanted)
    assert max(ranges) > 1


def test_empty_arrays_have_no_kernel(noted: list[Any]) -> None:
    noted.clear()
    assert D.cumsum(np.zeros((0, 3), "float32"), 1).shape == (0, 3)
    assert D.cummax(np.zeros((3, 0), "float32"), 0)[1].shape == (3, 0)
    assert not noted


@every_row("dtype", ["int8", "uint8", "int32", "int64", "uint64"])
@every_row("shape", [(2100,), (70, 41), (3, 700, 5), (12, 300, 60)])
def test_ints_are_added_and_multiplied_in_int64(shape: tuple[int, ...], dtype: str, noted: list[Any]) -> None:
    limits = np.iinfo(dtype)
    x = np.random.default_rng(0).integers(limits.min, limits.max, shape, dtype, endpoint=True)
    for dim in range(len(shape)):
        for name, function in {"cumsum": np.cumsum, "cumprod": np.cumprod}.items():
            noted.clear()
            found = getattr(D, name)(x, dim)
            assert found.dtype == np.int64
            np.testing.assert_array_equal(found, function(x, dim, np.int64))
            assert len(noted) == 1


@every_row("dtype", ["bool", "int8", "uint8", "int32", "int64", "uint64"])
@every_row("shape", [(2100,), (70, 41), (12, 30, 60)])
def test_extremes_of_ints_and_bools(shape: tuple[int, ...], dtype: str, noted: list[Any]) -> None:
    """With the index of the last element that equals the extreme, at both ends of the dtype, too."""
    x = np.random.default_rng(0).integers(0, 2 if dtype == "bool" else 9, shape).astype(dtype)
    if dtype != "bool":
        x.flat[:4] = np.iinfo(dtype).min, 0, np.iinfo(dtype).max, np.iinfo(dtype).min
    for dim in range(len(shape)):
        for name, function in {"cummax": np.maximum, "cummin": np.minimum}.items():
            noted.clear()
            values, index = getattr(D, name)(x, dim)
            wanted = function.accumulate(x, dim)
            assert values.dtype == x.dtype
            np.testing.assert_array_equal(values, wanted)
            place = np.arange(shape[dim]).reshape([-1 if d == dim else 1 for d in range(len(shape))])
            np.testing.assert_array_equal(index, np.maximum.accumulate(np.where(x == wanted, place, 0), dim))
            assert len(noted) == 1 or dtype == "uint64"  # whose largest numbers int64 does not have
