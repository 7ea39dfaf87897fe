"""The kernels of weighted sums of elements at places agree with the defaults, at all sizes and special values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy.backend import NumPy

pytest.importorskip("llvmlite")

from burnpy_numpy import pooling_and_resampling
from tests.programs.switched import one_by_one, without_kernels

D: Any = NumPy()
SIZES = {  # members, channels, elements, taps, points
    "whole vectors": (2, 8, 30, 4, 16),
    "squares that overlap, and lanes without a channel": (2, 5, 30, 4, 11),
    "two blocks of channels": (2, 21, 30, 4, 19),
    "few points": (3, 3, 7, 2, 3),
    "few places": (2, 6, 99, 2, 8),
    "one of each": (1, 1, 1, 1, 1),
    "more taps than elements": (2, 2, 3, 9, 10),
}
NAMES = ("weighted_gather", "weighted_scatter", "gathered_products")


@pytest.fixture(autouse=True)
def _all_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pooling_and_resampling, "_MIN_PRODUCTS", 1)


def without(operation: str, *args: Any) -> Any:
    """The result without kernels."""
    with without_kernels():
        return getattr(D, operation)(*args)


def calls(case: str) -> dict[str, tuple[Any, ...]]:
    """The arguments of each operation, in float64."""
    n, channels, elements, taps, points = SIZES[case]
    rng = np.random.default_rng(5)
    x, grad = rng.normal(size=(n, channels, elements)), rng.normal(size=(n, channels, points))
    places, weights = rng.integers(-1, elements, (n, taps, points)), rng.normal(size=(n, taps, points))
    return {
        "weighted_gather": (x, places, weights),
        "weighted_scatter": (grad, places, weights, elements),
        "gathered_products": (grad, x, places),
    }


def of(dtype: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(a.astype(dtype) if isinstance(a, np.ndarray) and a.dtype.kind == "f" else a for a in args)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", SIZES)
def test_kernels_agree_with_float64(case: str, dtype: str, noted: list[Any]) -> None:
    for name, args in calls(case).items():
        wanted = without(name, *args)
        noted.clear()
        found = getattr(D, name)(*of(dtype, args))
        assert [k.program.name for k in noted] == [name]
        assert (found.shape, found.dtype) == (wanted.shape, np.dtype(dtype))
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5 if dtype == "float32" else 1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_special_values_stay_where_they_are_picked(name: str) -> None:
    args = of("float32", calls("squares that overlap, and lanes without a channel")[name])
    for array in args:
        if isinstance(array, np.ndarray) and array.dtype.kind == "f":
            array[0, 0, :3] = np.nan, np.inf, -np.inf
    np.testing.assert_array_equal(np.isfinite(getattr(D, name)(*args)), np.isfinite(without(name, *args)))


@pytest.mark.parametrize("name", NAMES)
def test_views_do_not_matter(name: str) -> None:
    args = calls("whole vectors")[name]
    views = [np.asfortranarray(a[..., ::-1])[..., ::-1] if isinstance(a, np.ndarray) else a for a in args]
    np.testing.assert_array_equal(getattr(D, name)(*views), getattr(D, name)(*args))


def test_a_place_beyond_the_elements_is_not_read() -> None:
    x, places, weights = calls("few points")["weighted_gather"]
    places[places < 0], far = x.shape[2], places.copy()
    far[places == x.shape[2]] = -1
    np.testing.assert_array_equal(D.weighted_gather(x, places, weights), D.weighted_gather(x, far, weights))
    assert D.weighted_scatter(x[..., :3], places, weights, 7).shape == x.shape


def test_empty_arrays_and_other_dtypes_have_no_kernel(noted: list[Any]) -> None:
    x, places, weights = calls("few points")["weighted_gather"]
    noted.clear()
    assert D.weighted_gather(x, places[..., :0], weights[..., :0]).shape == (3, 3, 0)
    half = of("float16", (x, places, weights))
    assert D.weighted_gather(*half).dtype == np.float16
    assert not noted


@pytest.mark.parametrize("name", NAMES)
def test_results_do_not_depend_on_how_work_is_divided(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    args = of("float32", calls("two blocks of channels")[name])
    wanted, ranges = getattr(D, name)(*args), one_by_one(monkeypatch)
    np.testing.assert_array_equal(getattr(D, name)(*args), wanted)
    assert max(ranges) > 1
