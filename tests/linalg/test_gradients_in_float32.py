"""Derivatives of `eigh` and `svd` in float32 against float64, over spectra with small, large and no gaps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Tensor, func, linalg
from burnpy.backend import NumPy
from burnpy.backend.errors import LinAlgError
from tests.rows import every_row

rng = np.random.default_rng(7)
N = 12
BASIS = np.linalg.qr(rng.normal(size=(N, N)))[0]


def of_values(values: Any) -> Any:
    return ((BASIS * values) @ BASIS.T).astype(np.float32)


SPECTRA = {
    "random": of_values(rng.uniform(0.5, 2, N)),
    "graded": np.diag(np.logspace(-3, 4, N)).astype(np.float32),
    "clustered": of_values(1 + 1e-2 * rng.uniform(size=N)),
    "two clusters": of_values(np.where(np.arange(N) < 6, 1, 1e3) * (1 + 3e-2 * rng.uniform(size=N))),
    "offset": of_values(100 + rng.uniform(size=N)),
    "rank-deficient": of_values(np.where(np.arange(N) < 4, 0, rng.uniform(1, 2, N))),
}


def function_of_values(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        values, vectors = linalg.eigh((x + x.mT) * 0.5)
        return (vectors * f(values)) @ vectors.mT

    return function


def polar(x: Any) -> Any:
    u, _, vh = linalg.svd(x + x.tril(-1) * 0.5, full_matrices=False)
    return u @ vh


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "square": function_of_values(lambda w: w * w),
    "square root": function_of_values(lambda w: w.sqrt()),
    "inverse root": function_of_values(lambda w: w.rsqrt()),
    "polar": polar,
    "eigvalsh": lambda x: linalg.eigvalsh((x + x.mT) * 0.5) ** 2,
    "svdvals": lambda x: linalg.svdvals(x[:, :8]) ** 2,
    "nuclear norm": lambda x: linalg.matrix_norm(x[:8], ord="nuc"),
}
CLOSE = {"clustered": 3e-3, "two clusters": 3e-3, "offset": 3e-3}
SECOND = {"eigvalsh", "svdvals", "nuclear norm"}


def derivatives(f: Callable[[Any], Any], a: Any, t: Any, dtype: str) -> list[Any]:
    x, t = (Tensor[NumPy].from_data(each).to_dtype(dtype) for each in (a, t))

    def gradient(x: Any) -> Any:
        weights = Tensor[NumPy].from_data(np.cos(np.arange(N) + 2 * np.arange(N)[:, None])).to_dtype(dtype)
        return func.grad(lambda x: (f(x) * (weights if f(x).ndim == 2 else weights[0, : f(x).numel()])).sum())(x)

    return [
        each.to_numpy().astype(np.float64)
        for each in (gradient(x), func.jvp(f, (x,), (t,))[1], func.jvp(gradient, (x,), (t,))[1])
    ]


@every_row("spectrum", SPECTRA)
@every_row("name", FUNCTIONS)
def test_no_term_of_a_derivative_is_lost_in_float32(name: str, spectrum: str) -> None:
    a, t = SPECTRA[spectrum], rng.normal(size=(N, N)).astype(np.float32)
    if spectrum == "rank-deficient" and name in ("square root", "inverse root", "polar"):
        return  # not differentiable
    t = t + t.T
    first, forward, second = [
        np.linalg.norm(narrow - wide) / np.linalg.norm(wide)
        for narrow, wide in zip(
            derivatives(FUNCTIONS[name], a, t, "float32"), derivatives(FUNCTIONS[name], a, t, "float64"), strict=True
        )
    ]
    assert max(first, forward) <= CLOSE.get(spectrum, 1e-4), (first, forward)
    if name in SECOND:
        assert second <= 3e-2, second


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_small_gap_beside_a_large_eigenvalue_counts(dtype: str) -> None:
    """√10000 is larger than 1 / the rounding of float16, beside which 1.02 and 1.01 are not equal."""
    x = Tensor[Autodiff[NumPy]].from_data(np.diag([10000, 1.02, 1.01])).to_dtype(dtype).detach().require_grad()
    values, vectors = linalg.eigh(x)
    found = ((vectors * values.sqrt()) @ vectors.mT)[1, 2].backward()[x].to_numpy()
    wanted = 0.5 / (np.sqrt(1.02) + np.sqrt(1.01))
    np.testing.assert_allclose(found[1, 2], wanted, 1e-2 if dtype == "float16" else 1e-5)
    np.testing.assert_allclose(found, found.T)


@pytest.mark.parametrize("values", [np.full(N, 2.0), np.zeros(N), np.where(np.arange(N) < 6, 1.0, 2.0)])
def test_repeated_values_have_finite_derivatives(values: Any) -> None:
    for a in (np.diag(values).astype(np.float32), of_values(values)):
        for f in (FUNCTIONS["square"], polar if values.all() else FUNCTIONS["svdvals"]):
            for each in derivatives(f, a, np.ones((N, N), np.float32), "float32"):
                assert np.isfinite(each).all()


@pytest.mark.slow
@every_row("value", [np.inf, -np.inf, np.nan])
@every_row("dtype", ["float16", "float32", "float64"])
@every_row("size", [3, 60])
def test_matrices_with_infinities_are_refused_before_lapack(size: int, dtype: str, value: float) -> None:
    """LAPACK's singular value decomposition of them does not return."""
    a = np.tile(np.eye(size), (2, 1, 1))
    a[1, 2, 0] = value
    x = Tensor[NumPy].from_data(a).to_dtype(dtype)
    f: Any
    for f in (
        *(linalg.svd, linalg.svdvals, linalg.pinv, linalg.matrix_rank, linalg.cond, linalg.eigh, linalg.eigvalsh),
        lambda x: linalg.lstsq(x, x),
        lambda x: linalg.matrix_norm(x, ord="nuc"),
    ):
        with pytest.raises(LinAlgError, match=r"matrix 1 has no .* it contains NaN or infinity"):
            f(x)
    linalg.eigh(x.mT)  # reads the other triangle only
