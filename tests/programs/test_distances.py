"""Distances of rows as kernels agree with the norms of all differences, whatever the values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy.backend import Backend, NumPy
from burnpy.backend.operations.distances import differences

pytest.importorskip("llvmlite")


def rows(dtype: str, batch: tuple[int, ...] = ()) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(*batch, n, 9)).astype(dtype) for n in (31, 77))
    x[..., 0, :] = y[..., 1, :]  # a distance of 0
    x[..., 1, :] = y[..., 2, :] + np.finfo(dtype).tiny  # 0 or a number whose square is 0
    x[..., 2, 3] = np.sqrt(np.finfo(dtype).max) * 2  # a square that is infinite
    y[..., 3, :] *= np.finfo(dtype).tiny
    x[..., 3, :] = 0.0
    x[..., 6, :] = np.round(x[..., 6, :])
    y[..., 5, :] = x[..., 6, :] + np.where(np.arange(9) % 2, 2, -2)  # differences of one magnitude
    return x, y


@pytest.mark.slow
@pytest.mark.parametrize("special", [None, np.inf, np.nan])
@pytest.mark.parametrize("batch", [(), (2, 3)])
@pytest.mark.parametrize("p", [1.0, 2.0, np.inf])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_distances_and_gradients(
    dtype: str, p: float, batch: tuple[int, ...], special: float | None, noted: list[Any]
) -> None:
    b: Any = NumPy()
    x, y = rows(dtype, batch)
    if special is not None:
        x[..., 4, 5] = special
    out = b.cdist(x, y, p)
    wanted = b.vector_norm(differences(b, x, y), p, (x.ndim,), False)
    close = 32 * float(np.finfo(dtype).eps)
    np.testing.assert_allclose(out, wanted, rtol=close)
    assert (out[..., 0, 1] == 0.0).all()
    grad = np.random.default_rng(1).normal(size=out.shape).astype(dtype)
    with np.errstate(all="ignore"):
        by_x, by_default = b.cdist_backward(grad, x, y, out, p), Backend.cdist_backward(b, grad, x, y, out, p)
    np.testing.assert_allclose(by_x, by_default, rtol=close, atol=77 * close)
    names = [kernel.program.name for kernel in noted]
    expected = ["row_distances"] + ["weighted_differences"] * (p != 2 or special is None)
    assert [name for name in names if name in ("row_distances", "weighted_differences")] == expected


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_distances_of_equal_rows_take_no_other_norms(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows and themselves, and equal rows of two matrices: their distances of 0 are exact, as no square underflowed."""
    b: Any = NumPy()
    x = np.random.default_rng(0).normal(size=(2, 30, 9)).astype(dtype)
    wanted = b.vector_norm(differences(b, x, x), 2.0, (3,), False)
    monkeypatch.setattr(NumPy, "vector_norm", None)
    for y in (x, x.copy()):
        out = b.cdist(x, y, 2.0)
        np.testing.assert_allclose(out, wanted, rtol=32 * float(np.finfo(dtype).eps))
        assert (out.diagonal(0, 1, 2) == 0.0).all()
    monkeypatch.undo()
    x[:, 3, 4] = np.inf  # a row whose distance to itself is NaN, as inf - inf is
    assert np.isnan(b.cdist(x, x, 2.0)[:, 3, 3]).all()
