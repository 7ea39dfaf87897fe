"""`burnpy.special`: functions for the operations and methods, their operands, and messages for wrong ones."""

from __future__ import annotations

import re
from typing import Any

import mpmath
import numpy as np
import pytest

from burnpy import Autodiff, IntTensor, Tensor, cat, func, special
from burnpy.backend import NumPy
from burnpy.backend.dtypes import epsilon
from burnpy.backend.errors import ArgumentError, KindError, ShapeError
from tests.kernels import needs_kernels
from tests.rows import every_row

X: Any = Tensor[NumPy].from_data([0.25, 0.5, 0.75], dtype="float64")
SPECIAL: Any = special


def test_functions_are_the_methods() -> None:
    same: list[tuple[Any, Any]] = [
        (special.i0(X), X.i0()),
        (special.gammaln(X), X.lgamma()),
        (special.psi(X), special.digamma(X)),
        (special.polygamma(2, X), X.polygamma(2)),
        (special.gammainc(X, 2.0), X.igamma(2.0)),
        (special.gammainc(2.0, X), X.full_like(2.0).igamma(X)),
        (special.gammaincc(X, X), 1 - special.gammainc(X, X)),
        (special.betainc(2.0, 1.0, X), X.square()),
        (special.betainc(1.0, X, 0.5), 1 - X.full_like(0.5).pow(X)),
        (special.multigammaln(X + 1, 2), X.full_like(np.log(np.pi) / 2) + (X + 1).lgamma() + (X + 0.5).lgamma()),
        (special.erf(X), X.erf()),
        (special.erfc(X), X.erfc()),
        (special.erfinv(X), X.erfinv()),
        (special.ndtr(special.ndtri(X)), X),
        (special.ndtri_exp(special.log_ndtr(-40 * X)), -40 * X),
        (special.log_ndtr(X).exp(), special.ndtr(X)),
        (special.erfcx(X), (X * X).exp() * X.erfc()),
        (special.i1e(X), special.i1(X) * (-X).exp()),
        (special.i0e(X), X.i0() * (-X).exp()),
        (special.entr(X), -X.xlogy(X)),
        (special.xlogy(2.0, X), 2 * X.log()),
        (special.xlog1py(X, X), X * X.log1p()),
        (special.xlog1py(X, 1.0), X * np.log(2.0)),
        (special.zeta(X + 1, 2.0), special.zeta(X + 1, 1.0) - 1),
        (special.exp2(X), X.exp2()),
        (special.expm1(X), X.expm1()),
        (special.log1p(X), X.log1p()),
        (special.expit(X), X.sigmoid()),
        (special.logit(X, 0.3), X.logit(0.3)),
        (special.sinc(X), X.sinc()),
        (special.round(X, decimals=1), X.round(1)),
        (special.softmax(X, 0), X.softmax(0)),
        (special.log_softmax(X, 0), X.log_softmax(0)),
        (special.logsumexp(X, 0, keepdim=True), X.logsumexp(0, True)),
    ]
    for k, (found, wanted) in enumerate(same):
        np.testing.assert_allclose(found.to_numpy(), wanted.to_numpy(), rtol=1e-13, err_msg=f"row {k}")
    assert set(special.__all__) <= set(dir(special))


@every_row(
    ("call", "error", "message"),
    [
        (lambda: SPECIAL.i0e(2.0), KindError, "i0e() takes x as a float Tensor, got 2.0"),
        (lambda: SPECIAL.ndtri(IntTensor[NumPy].from_data([1])), KindError, "convert it with x.float()"),
        (lambda: SPECIAL.zeta(2.0, 1.0), KindError, "zeta() takes a float Tensor or a number beside one, got 2.0"),
        (lambda: SPECIAL.betainc(2.0, 1.0, 0.5), KindError, "betainc() takes float Tensors and numbers, at least one"),
        (lambda: SPECIAL.betainc(X[:2], 1.0, X), ShapeError, "betainc() got shapes (3,) and (2,) and ()"),
        (lambda: SPECIAL.gammainc("a", X), KindError, "gammainc() takes a float Tensor or a number beside one"),
        (lambda: SPECIAL.xlog1py(X, X.reshape((3, 1))[:2, 0]), ShapeError, "shapes (3,) and (2,)"),
        (lambda: SPECIAL.zeta(X, IntTensor[NumPy].from_data([1])), KindError, "zeta()"),
        (lambda: SPECIAL.multigammaln(X, 0), ArgumentError, "multigammaln() got p=0; give 1 or more"),
        (lambda: X.igamma(X[:2]), ShapeError, "shapes (3,) and (2,)"),
    ],
)
def test_mistakes(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        call()


def test_gradients_by_shapes() -> None:
    """The gradients that PyTorch lacks, in both modes and twice."""
    a = Tensor[Autodiff[NumPy]].from_data([0.5, 3.0, 30.0], dtype="float64").require_grad()
    x = Tensor[Autodiff[NumPy]].from_data([0.4, 2.0, 33.0], dtype="float64").require_grad()
    grads = a.igamma(x).sum().backward()
    step = 1e-6
    for leaf, moved in ((a, lambda t: (a + t).igamma(x)), (x, lambda t: a.igamma(x + t))):
        slope = (moved(step) - moved(-step)) / (2 * step)
        np.testing.assert_allclose(grads[leaf].to_numpy(), slope.inner().to_numpy(), rtol=1e-8)
    ahead = func.jvp(lambda s: s.igamma(x.inner()), (a.inner(),), (a.inner().full_like(1.0),))[1]
    np.testing.assert_allclose(ahead.to_numpy(), grads[a].to_numpy(), rtol=1e-13)


def test_log_ndtr_is_finite_far_out() -> None:
    x = Tensor[Autodiff[NumPy]].from_data([-1e5, -300.0, 300.0], dtype="float64").require_grad()
    grads = special.log_ndtr(x).sum().backward()
    np.testing.assert_allclose(grads[x].to_numpy(), [1e5, 300.0033332592640, 0.0], rtol=1e-9)
    second = func.hessian(lambda t: special.log_ndtr(t).sum())(x.inner())
    np.testing.assert_allclose(np.diag(second.to_numpy()), [-1.0, -1 + 1 / 300**2, 0.0], atol=1e-8)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_the_curvature_of_log_ndtr_is_minus_1_as_far_as_numbers_reach(dtype: str) -> None:
    x = Tensor[NumPy].from_data([-np.inf, -5e4, -1e4, -500.0, -70.0], dtype=dtype)
    if dtype in ("float32", "float64"):
        x = cat([x, Tensor[NumPy].from_data([-3e38, -1e37, -2e21, -1e20], dtype=dtype)])
    slope: Any = func.grad(lambda x: special.log_ndtr(x).sum())
    found = func.grad(lambda x: slope(x).sum())(x)
    t = x.to_numpy().astype(np.float64) ** -2
    off = np.abs(found.to_numpy().astype(np.float64) - (-1 + t))
    assert (off <= 20 * epsilon(x.dtype) + 6 * t * t).all()


def test_scaled_bessel_functions_of_large_numbers_are_no_0() -> None:
    x = np.array([1e150, 1e200, 1e280, -1e300, 1.7e308, np.inf, -np.inf])
    first = special.i1e(Tensor[NumPy].from_data(x)).to_numpy()
    assert np.allclose(first, np.sign(x) / np.sqrt(2 * np.pi) / np.sqrt(np.abs(x)), rtol=1e-15, atol=0.0)


@needs_kernels
@pytest.mark.parametrize("f", [special.i0e, special.i1e])
def test_slopes_of_scaled_bessel_functions_are_one_kernel(f: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = Tensor[NumPy].from_data(np.linspace(-20.0, 20.0, 5000), dtype="float64")
    slope: Any = func.grad(lambda x: f(x).sum())
    few = [slope(x[k : k + 1]).item() for k in range(0, 5000, 499)]
    monkeypatch.setattr(NumPy, "add", None)
    np.testing.assert_allclose(slope(x).to_numpy()[::499], few, rtol=1e-14, atol=1e-16)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_slopes_of_bessel_functions_that_overflow(dtype: str) -> None:
    """They are infinite, of both orders and in both modes."""
    x = Tensor[NumPy].from_data([-1e3, -800.0, 800.0, 1e4], dtype=dtype)
    for f in (special.i0, special.i1):
        first: Any = func.grad(lambda x, f=f: f(x).sum())
        second: Any = func.grad(lambda x, g=first: g(x).sum())(x)
        forward = func.jvp(f, (x,), (x.ones_like(),))[1]
        for found in (first(x), second, forward):
            assert found.isinf().all()
    near = Tensor[NumPy].from_data([0.0, 1e-9, 0.5, 7.9, 8.1, 60.0], dtype="float64")
    slopes = func.grad(lambda x: special.i1(x).sum())(near)
    exact = [float((mpmath.besseli(0, value) + mpmath.besseli(2, value)) / 2) for value in near.tolist()]
    np.testing.assert_allclose(slopes.to_numpy(), exact, rtol=1e-14)
