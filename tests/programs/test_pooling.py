"""The kernels of max pooling and of its indices select what the defaults select."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy.backend import NumPy
from burnpy.backend.dtypes import dtype_of

pytest.importorskip("llvmlite")

from tests.programs.switched import one_by_one, without_kernels

D: Any = NumPy()
SIZES = {
    "whole vectors": ((2, 3, 9, 32), (4, 5)),
    "vectors that overlap": ((2, 2, 13, 19), (5, 4)),
    "narrow": ((3, 1, 7, 3), (2, 2)),
    "one": ((2, 2, 5, 6), (1, 1)),
    "more windows than elements": ((1, 4, 2, 3), (3, 5)),
    "a sequence": ((2, 3, 1, 40), (1, 7)),
    "many sequences": ((4, 6, 1, 40), (1, 7)),
    "many sequences, one window": ((3, 7, 1, 45), (1, 1)),
    "many sequences, more windows than elements": ((4, 5, 1, 3), (1, 5)),
}


def without(x: Any, size: Any) -> Any:
    """The result without kernels."""
    with without_kernels():
        return D.adaptive_max_pool2d_indices(x, size)


def ties(shape: Any) -> Any:
    """Few different values, some of them special."""
    values = [0.0, -0.0, 1.0, 2.0, -np.inf, np.inf, np.nan]
    return np.random.default_rng(1).choice(values, shape, p=[0.3, 0.2, 0.2, 0.1, 0.1, 0.05, 0.05])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", SIZES)
def test_the_first_maximum_or_nan_is_selected(case: str, dtype: str, noted: list[Any]) -> None:
    shape, size = SIZES[case]
    for x in (np.random.default_rng(0).normal(size=shape), ties(shape)):
        noted.clear()
        found = D.adaptive_max_pool2d_indices(x.astype(dtype), size)
        assert [k.program.name for k in noted] == ["adaptive_maxima"]
        np.testing.assert_array_equal(found, without(x, size))
        view = np.asfortranarray(x.astype(dtype)[..., ::-1])[..., ::-1]
        np.testing.assert_array_equal(D.adaptive_max_pool2d_indices(view, size), found)


def test_many_long_sequences_lie_side_by_side(noted: list[Any]) -> None:
    x = ties((4, 6, 1, 400))
    noted.clear()
    found = D.adaptive_max_pool2d_indices(x, (1, 7))
    assert [k.program.name for k in noted] == ["transposed_copy", "adaptive_maxima"]
    np.testing.assert_array_equal(found, without(x, (1, 7)))


WINDOWS = {
    "side by side": ((2, 3, 20, 50), (2, 2), (2, 2), (0, 0), (1, 1), False),
    "padded": ((2, 3, 21, 50), (3, 3), (2, 2), (1, 1), (1, 1), True),
    "dilated": ((2, 3, 30, 30), (3, 2), (1, 3), (1, 1), (2, 1), False),
    "beyond the edge": ((2, 3, 33, 31), (2, 2), (2, 2), (0, 0), (1, 1), True),
    "few in a row": ((4, 5, 12, 9), (2, 3), (2, 3), (0, 0), (1, 1), False),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", WINDOWS)
def test_windows_of_nan_and_of_infinities_have_the_first(case: str, dtype: str, noted: list[Any]) -> None:
    shape, *how = WINDOWS[case]
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 3, shape).astype(dtype)
    x[rng.uniform(size=shape) < 0.1] = np.nan
    x[rng.uniform(size=shape) < 0.2] = -np.inf
    x[..., :8, :8] = -np.inf
    with without_kernels():
        expected = D.max_pool2d_indices(x, *how)
    noted.clear()
    np.testing.assert_array_equal(D.max_pool2d_indices(x, *how), expected)
    assert [kernel.program.name for kernel in noted] == ["max_pool_indices"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", [*WINDOWS, "of a row"])
def test_few_windows_have_the_maxima_of_many(case: str, dtype: str, noted: list[Any]) -> None:
    shape, *how = {**WINDOWS, "of a row": ((1, 29), (1, 3), (1, 2), (0, 1), (1, 1), False)}[case]
    for x in (np.random.default_rng(0).normal(size=(1, 1, *shape[-2:])), ties((1, 1, *shape[-2:]))):
        noted.clear()
        few = D.max_pool2d(x.astype(dtype), *how)
        assert [kernel.program.name for kernel in noted] in (["max_pool"], ["tiled_max_pool"])
        with without_kernels():
            np.testing.assert_array_equal(few, D.max_pool2d(x.astype(dtype), *how))


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
@pytest.mark.parametrize("case", WINDOWS)
def test_16_bit_floats_have_the_maxima_of_float32(case: str, name: str) -> None:
    shape, *how = WINDOWS[case]
    dtype = dtype_of(name)
    x: Any = ties(shape).astype(dtype)
    wide, grad = x.astype("float32"), np.ones(D.max_pool2d(x, *how).shape, dtype)
    out = D.max_pool2d(x, *how)
    assert out.dtype == dtype
    np.testing.assert_array_equal(out.astype("float32"), D.max_pool2d(wide, *how))
    np.testing.assert_array_equal(D.max_pool2d_indices(x, *how), D.max_pool2d_indices(wide, *how))
    total = D.max_pool2d_backward(grad, x, out, *how[:-1])
    assert total.dtype == dtype
    expected = D.max_pool2d_backward(grad.astype("float32"), wide, out.astype("float32"), *how[:-1])
    np.testing.assert_array_equal(total.astype("float32"), expected)  # counts, which are exact
    size = shape[2] // 3, shape[3] // 2
    np.testing.assert_array_equal(D.adaptive_max_pool2d_indices(x, size), D.adaptive_max_pool2d_indices(wide, size))


def test_results_do_not_depend_on_how_work_is_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    x, size = ties((4, 3, 13, 19)), (5, 4)
    wanted = D.adaptive_max_pool2d_indices(x, size)
    ranges = one_by_one(monkeypatch)
    np.testing.assert_array_equal(D.adaptive_max_pool2d_indices(x, size), wanted)
    assert ranges == [12]


def test_empty_arrays_have_no_kernel(noted: list[Any]) -> None:
    noted.clear()
    assert D.adaptive_max_pool2d_indices(np.zeros((0, 2, 3, 3), "float32"), (2, 2)).shape == (0, 2, 2, 2)
    assert not noted
