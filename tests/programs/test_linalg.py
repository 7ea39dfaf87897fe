"""The kernels of small matrices agree with LAPACK, and leave to it what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burnpy_numpy.linalg_and_distances
from burnpy.backend import NumPy
from burnpy.backend.errors import LinAlgError

pytest.importorskip("llvmlite")

from tests.programs.switched import one_by_one, without_kernels

D: Any = NumPy()


def without(operation: str, *args: Any) -> Any:
    """The result without kernels."""
    with without_kernels():
        return getattr(D, operation)(*args)


def matrices(*shape: int) -> Any:
    """Positive definite matrices, and others beside them."""
    a = np.random.default_rng(sum(shape)).normal(size=shape)
    return a @ a.swapaxes(-1, -2) / shape[-1] + np.eye(shape[-1]), a


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(3, 8, 8), (5, 5), (2, 3, 11, 11), (4, 1, 1), (1, 31, 31)])
def test_kernels_agree_with_float64(shape: tuple[int, ...], dtype: str, noted: list[Any]) -> None:
    positive, other = matrices(*shape)
    bound = 1e-4 if dtype == "float32" else 1e-11
    noted.clear()
    np.testing.assert_allclose(D.cholesky(positive.astype(dtype)), np.linalg.cholesky(positive), rtol=bound, atol=bound)
    for columns in (1, 3, 8, 19):
        b = np.resize(other, (*shape[:-1], columns))
        for flags in ((False, False), (True, False), (False, True), (True, True)):
            found = D.solve_triangular(positive.astype(dtype), b.astype(dtype), *flags)
            wanted = without("solve_triangular", positive, b, *flags)
            assert found.dtype == np.dtype(dtype)
            scale = max(1.0, float(np.abs(wanted).max()))
            np.testing.assert_allclose(found, wanted, rtol=10 * bound, atol=10 * bound * scale)
    assert {k.program.name for k in noted} == {"cholesky_factor", "substitution"}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(4, 4), (3, 7, 5), (2, 2, 5, 9), (1, 6), (6, 1), (1, 47, 47)])
def test_lu_factors(shape: tuple[int, ...], dtype: str, noted: list[Any]) -> None:
    """Ties, columns of zeros and NaN have the pivots that the array operations choose."""
    rng = np.random.default_rng(0)
    zeros = rng.integers(-1, 2, shape) * (np.arange(shape[-1]) != 1)
    undefined = rng.normal(size=shape)
    undefined[..., -1:, 0] = np.nan
    for x in (rng.normal(size=shape), zeros, undefined):
        noted.clear()
        given = np.asfortranarray(x.astype(dtype))
        factors, pivots, order = D.lu_factor(given)
        assert [k.program.name for k in noted] == ["lu_factor"]
        wanted = without("lu_factor", given)
        assert (factors.shape, factors.dtype, pivots.shape) == (shape, given.dtype, (*shape[:-2], min(shape[-2:])))
        np.testing.assert_array_equal(pivots, wanted[1])
        np.testing.assert_array_equal(order, wanted[2])
        bound = 1e-4 if dtype == "float32" else 1e-11
        np.testing.assert_allclose(factors, wanted[0], rtol=bound, atol=bound)
        np.testing.assert_array_equal(given, x.astype(dtype))


def test_views_and_the_other_triangle_do_not_matter() -> None:
    positive, b = matrices(4, 7, 7)
    wanted = D.cholesky(positive)
    spoiled = positive + np.triu(np.full((7, 7), np.nan), 1)
    np.testing.assert_array_equal(D.cholesky(np.asfortranarray(spoiled)), wanted)
    np.testing.assert_array_equal(
        D.solve_triangular(np.asfortranarray(spoiled), b[..., ::-1], False, False),
        D.solve_triangular(positive, np.ascontiguousarray(b[..., ::-1]), False, False),
    )


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("upper", [False, True])
def test_large_triangular_equations_copy_no_matrix(order: Any, upper: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("scipy")
    called: list[str] = []

    def noted_routine(name: str, x: Any) -> Any:
        def call(*args: Any, **settings: Any) -> Any:
            assert args[name == "trsm"].flags.f_contiguous  # in LAPACK's order
            called.append(name)
            return found(*args, **settings)

        found = routine(name, x)
        return call

    routine: Any = burnpy_numpy.linalg_and_distances.routine
    monkeypatch.setattr(burnpy_numpy.linalg_and_distances, "routine", noted_routine)
    a, b = np.asarray(matrices(60, 60)[0], order=order), np.random.default_rng(0).normal(size=(60, 3))
    for unit in (False, True):
        read = np.triu(a) if upper else np.tril(a)
        if unit:
            read[np.diag_indices(60)] = 1.0
        for columns in (1, 3):
            wanted = np.linalg.solve(read, b[:, :columns])
            found = D.solve_triangular(a, b[:, :columns], upper, unit)
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)
    assert called == ["trsv", "trsm"] * 2


def test_a_zero_on_the_diagonal_divides() -> None:
    a, b = np.array([[2.0, 0.0], [1.0, 0.0]]), np.array([[2.0, 4.0], [5.0, 2.0]])
    np.testing.assert_array_equal(D.solve_triangular(a, b, False, False), [[1.0, 2.0], [np.inf, np.nan]])


@pytest.mark.parametrize("value", [-1.0, 0.0])
def test_what_is_not_positive_definite_is_named(value: float) -> None:
    positive, _ = matrices(4, 5, 5)
    positive[2, 3, 3] = value
    with pytest.raises(LinAlgError, match="matrix 2 is not positive definite"):
        D.cholesky(positive)


def test_nan_is_passed_on_as_by_lapack() -> None:
    positive, _ = matrices(4, 5, 5)
    positive[2, 3, 3] = np.nan
    np.testing.assert_array_equal(np.isnan(D.cholesky(positive)), np.isnan(without("cholesky", positive)))


def test_empty_and_large_matrices_have_no_kernel(noted: list[Any]) -> None:
    noted.clear()
    assert D.cholesky(np.zeros((0, 3, 3), "float32")).shape == (0, 3, 3)
    assert D.cholesky(np.zeros((2, 0, 0), "float32")).shape == (2, 0, 0)
    assert D.solve_triangular(np.eye(3), np.zeros((3, 0)), False, False).shape == (3, 0)
    assert D.cholesky(np.eye(3, dtype="float16")).dtype == np.float16
    D.cholesky(np.eye(50))
    D.solve_triangular(np.eye(50), np.ones((50, 2)), True, False)
    assert not noted


def test_results_do_not_depend_on_how_work_is_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    positive, b = matrices(5, 6, 6)
    wanted = (D.cholesky(positive), D.solve_triangular(positive, b, True, False))
    ranges = one_by_one(monkeypatch)
    np.testing.assert_array_equal(D.cholesky(positive), wanted[0])
    np.testing.assert_array_equal(D.solve_triangular(positive, b, True, False), wanted[1])
    assert ranges == [5, 5]
