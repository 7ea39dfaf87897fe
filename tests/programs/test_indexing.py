"""The kernels of gathering and of accumulating at indices agree with NumPy at all shapes and layouts."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy.backend import NumPy
from burnpy.backend.dtypes import dtype_of

pytest.importorskip("llvmlite")

from burnpy_numpy import indexing
from tests.programs.switched import one_by_one, without_kernels
from tests.rows import every_row

D: Any = NumPy()
SHAPES = {"last dim": ((5, 9), 1), "first dim": ((9, 5), 0), "middle": ((3, 6, 11), 1), "vector": ((12,), 0)}


@pytest.fixture(autouse=True)
def _all_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_MIN_ELEMENTS", "_MIN_SCATTERED"):
        monkeypatch.setattr(indexing, name, 1)


def without(operation: str, *args: Any) -> Any:
    """The result without kernels."""
    with without_kernels():
        return getattr(D, operation)(*args)


def made(case: str, dtype: str, count: int = 7) -> tuple[Any, ...]:
    """x, the dimension, an index for each element, and as many values."""
    shape, dim = SHAPES[case]
    rng = np.random.default_rng(3)
    many = (*shape[:dim], count, *shape[dim + 1 :])
    return (
        (9 * rng.normal(size=shape)).astype(dtype),
        dim,
        rng.integers(0, shape[dim], many),
        (9 * rng.normal(size=many)).astype(dtype),
    )


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("case", SHAPES)
def test_an_index_for_each_element(case: str, dtype: str, noted: list[Any]) -> None:
    x, dim, index, src = made(case, dtype)
    noted.clear()
    np.testing.assert_array_equal(D.gather(x, dim, index), np.take_along_axis(x, index, dim))
    found = D.scatter_add(x, dim, index, src)
    written = D.scatter(x, dim, index, src)
    assert [k.program.name for k in noted] == ["gather", "scatter", "scatter"]
    np.testing.assert_array_equal(written, without("scatter", x, dim, index, src))
    bound = 1e-5 if dtype == "float32" else 1e-13
    np.testing.assert_allclose(found, without("scatter_add", x, dim, index, src), rtol=bound, atol=bound)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "float16", "complex64", "complex128"])
@pytest.mark.parametrize("case", SHAPES)
def test_elements_of_all_sizes_are_moved(case: str, dtype: str, noted: list[Any]) -> None:
    x, dim, index, src = made(case, dtype)
    noted.clear()
    gathered, written = D.gather(x, dim, index), D.scatter(x, dim, index, src)
    assert [k.program.name for k in noted] == ([] if x.itemsize == 16 else ["gather", "scatter"])
    assert gathered.dtype == written.dtype == x.dtype
    assert gathered.tobytes() == np.take_along_axis(x, index, dim).tobytes()
    assert written.tobytes() == without("scatter", x, dim, index, src).tobytes()


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
@pytest.mark.parametrize("case", SHAPES)
def test_halves_are_added_in_float32(case: str, half: str) -> None:
    if half == "bfloat16":
        pytest.importorskip("ml_dtypes")
    x, dim, index, src = made(case, "float32", 90)
    x, src = x.astype(dtype_of(half)), src.astype(dtype_of(half))
    wide = x.astype(np.float32), src.astype(np.float32)
    for name, at in (("scatter_add", index), ("index_add", index.reshape(-1)[:90])):
        found = getattr(D, name)(x, dim, at, src)
        wanted = getattr(D, name)(wide[0], dim, at, wide[1])
        assert found.dtype is x.dtype
        np.testing.assert_array_equal(found.astype(np.float32), wanted.astype(x.dtype).astype(np.float32))


@pytest.mark.slow
@pytest.mark.parametrize("case", SHAPES)
def test_an_index_for_each_slice(case: str, noted: list[Any]) -> None:
    x, dim, index, src = made(case, "float32")
    index = index.reshape(-1)[:7]
    noted.clear()
    np.testing.assert_allclose(
        D.index_add(x, dim, index, src), without("index_add", x, dim, index, src), rtol=1e-5, atol=1e-5
    )
    for reduce in ("prod", "amin", "amax"):
        args = (x, dim, index, src, reduce)
        np.testing.assert_allclose(D.index_reduce(*args), without("index_reduce", *args), rtol=1e-5)
    assert [k.program.name for k in noted] == [("scatter" if x.ndim == dim + 1 else "scatter_runs")] * 4


@every_row("dtype", ["float32", "float64", "int8", "bool", "bfloat16"])
def test_elements_of_rows_are_selected_by_the_kernel(dtype: str, noted: list[Any]) -> None:
    x = np.random.default_rng(0).integers(0, 2, (3, 20, 50)).astype(dtype_of(dtype))
    index = np.random.default_rng(1).integers(0, 50, 70)
    noted.clear()
    np.testing.assert_array_equal(D.index_select(x, 2, index), x[..., index])
    assert [k.program.name for k in noted] == ["gather"]
    for place in (-1, 50):
        index[3] = place
        if place < 0:
            np.testing.assert_array_equal(D.index_select(x, 2, index), x[..., index])
        else:
            with pytest.raises(IndexError):
                D.index_select(x, 2, index)


def test_special_values_and_views() -> None:
    x, dim, index, src = made("middle", "float32")
    src[0, :, 0], src[1, :, 1], src[2, :, 2] = np.nan, np.inf, -0.0
    flipped = np.ascontiguousarray(src[..., ::-1])[..., ::-1]
    far = np.asfortranarray(x)
    for reduce in ("prod", "amin", "amax"):
        args = (dim, index[0, :, 0], flipped, reduce)
        np.testing.assert_array_equal(D.index_reduce(far, *args), without("index_reduce", x, *args))
    np.testing.assert_array_equal(D.gather(far, dim, index[..., ::-1]), D.gather(x, dim, index[..., ::-1].copy()))


def test_an_index_out_of_range_is_not_followed() -> None:
    x, dim, index, src = made("first dim", "float32")
    index[3, 2] = 9
    calls: list[Callable[[], Any]] = [
        lambda: D.gather(x, dim, index),
        lambda: D.scatter_add(x, dim, index, src),
        lambda: D.index_add(x, dim, index[:, 2], src),
    ]
    for call in calls:
        with pytest.raises(IndexError):
            call()


def test_empty_arrays_and_elements_of_16_bytes_have_no_kernel(noted: list[Any]) -> None:
    x, dim, index, src = made("last dim", "float32", 0)
    noted.clear()
    assert D.gather(x, dim, index).shape == (5, 0)
    np.testing.assert_array_equal(D.scatter_add(x, dim, index, src), x)
    assert D.gather(x.astype("complex128"), 1, np.zeros((5, 3), np.int64)).dtype == np.complex128
    assert not noted


@pytest.mark.parametrize("case", ["last dim", "middle"])
def test_results_do_not_depend_on_how_work_is_divided(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, dim, index, src = made(case, "float32")
    wanted = D.scatter_add(x, dim, index, src)
    ranges = one_by_one(monkeypatch)
    np.testing.assert_array_equal(D.scatter_add(x, dim, index, src), wanted)
    assert max(ranges) > 1


def test_roundings_of_many_additions_do_not_add_up() -> None:
    """Those of float32 to one element, which are wrong by a thousandth if one follows the other."""
    index, ones = np.zeros(400_000, np.int64), np.full((400_000, 2), 0.1, "float32")
    wanted = [[4e4, 4e4], [0.0, 0.0]]
    for add in (D.index_add, lambda *args: without("index_add", *args)):
        np.testing.assert_allclose(add(np.zeros((2, 2), "float32"), 0, index, ones), wanted, rtol=1e-6)
        np.testing.assert_allclose(add(np.zeros(2, "float32"), 0, index, ones[:, 0]), [4e4, 0.0], rtol=1e-6)
    found = D.scatter_add(np.zeros((2, 2), "float32"), 0, np.zeros((400_000, 2), np.int64), ones)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_few_elements_of_a_permuted_array_are_read_where_they_lie() -> None:
    """A copy of the whole array would take 6 MB."""
    x = np.random.default_rng(0).normal(size=(20, 300, 256)).astype("float32").transpose(2, 0, 1)
    index = np.array([3, 0, 19, 3])
    rows = np.random.default_rng(1).integers(0, 20, (256, 2, 300))[:, :, :1]
    for read, wanted in (
        (lambda: D.index_select(x, 1, index), np.take(x, index, 1)),
        (lambda: D.index_select(x, 2, index), np.take(x, index, 2)),
        (lambda: D.gather(x[:, :, :1], 1, rows), np.take_along_axis(x[:, :, :1], rows, 1)),
        (
            lambda: D.gather(x, 1, np.repeat(rows[:, :1], 300, 2)),
            np.take_along_axis(x, np.repeat(rows[:, :1], 300, 2), 1),
        ),
    ):
        tracemalloc.start()
        found = read()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        np.testing.assert_array_equal(found, wanted)
        assert peak < 3_000_000


@pytest.mark.parametrize("shape", [(0,), (7,), (2, 2), (3, 4), (0, 3), (2, 3, 4)])
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "complex64"])
def test_places_of_elements_are_what_numpy_found(
    shape: tuple[int, ...], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = (np.arange(math.prod(shape)).reshape(shape) % 3).astype(dtype)
    if x.size:
        monkeypatch.setattr(np, "stack", None)  # which copies them
    for arranged in (x, x.T, x[::-1]):
        found, wanted = NumPy().nonzero(arranged), np.transpose(arranged.nonzero())
        assert (found.shape, found.dtype, found.flags.c_contiguous) == (wanted.shape, np.int64, True)
        np.testing.assert_array_equal(found, wanted)
