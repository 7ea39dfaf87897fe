"""Bijections: inverses, determinants, and the distributions that they make; mixtures."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Generator, Tensor, func
from burnpy import distributions as d
from burnpy.backend import NumPy
from burnpy.distributions import bijections as b
from burnpy.errors import ArgumentError, KindError, ShapeError
from burnpy.testing import gradcheck
from tests.rows import every_row

T = Tensor[NumPy]
POINTS = T.from_data([-3.0, -0.4, 0.3, 2.5], dtype="float64")
POSITIVE = POINTS.abs()
NUMBERS: list[tuple[b.Bijection[NumPy], Tensor[NumPy]]] = [
    (b.Affine(POINTS[0], -2.0), POINTS),
    (b.Exp(), POINTS),
    (b.Power(-0.5), POSITIVE),
    (b.Sigmoid(), POINTS),
    (b.Softplus(), POINTS),
    (b.Tanh(), POINTS),
    (b.Inverse(b.Exp()), POSITIVE),
]


@every_row("f, x", NUMBERS, ids=[type(f).__name__ for f, _ in NUMBERS])
def test_functions_of_numbers(f: Any, x: Any) -> None:
    """The derivative's logarithm and sign are those of the derivative; the inverse is one."""
    y = f(x)
    assert f.inverse(y).allclose(x, rtol=1e-12)
    slope = func.grad(lambda t: f(t).sum())(x)
    assert f.log_det(x).allclose(slope.abs().log(), rtol=1e-11)
    assert (slope.sign() == f.sign()).all()
    if f.onto is not None:
        assert NumPy().to_numpy(f.onto.holds(NumPy(), y._primitive)).all()


def test_functions_of_vectors_and_matrices() -> None:
    x = POINTS[:3]
    stick: b.StickBreaking[NumPy] = b.StickBreaking()
    cholesky: b.LowerCholesky[NumPy] = b.LowerCholesky()
    y = stick(x)
    assert abs(y.sum().item() - 1.0) < 1e-15
    assert stick.inverse(y).allclose(x, rtol=1e-12)
    slope = func.jacobian(lambda t: stick(t)[:-1])(x)
    assert stick.log_det(x).allclose(slope.logdet(), rtol=1e-11)
    matrix = T.from_data(np.random.default_rng(0).normal(size=(2, 3, 3)))
    factor = cholesky(matrix)
    assert cholesky.inverse(factor).allclose(matrix.tril(), rtol=1e-12)
    assert (factor.diagonal(dim1=-2, dim2=-1) > 0.0).all()


SYMMETRIC: dict[str, Callable[[Any, Any], Any]] = {
    "normal": d.Normal,
    "laplace": d.Laplace,
    "logistic": d.Logistic,
    "cauchy": d.Cauchy,
    "student_t": lambda loc, scale: d.StudentT(5.0, loc, scale),
    "uniform": lambda loc, scale: d.Uniform(loc - scale, loc + scale),
}


@pytest.mark.parametrize("name", SYMMETRIC)
def test_falling_functions_keep_the_digits_of_tails(name: str) -> None:
    make = SYMMETRIC[name]
    loc, scale = T.from_data(0.5, dtype="float64"), T.from_data(2.0, dtype="float64")
    slopes = T.from_data([-2.0, 3.0], dtype="float64")
    found = d.Transformed(make(loc, scale), b.Affine(T.from_data(1.0, dtype="float64"), slopes))
    same = make(1.0 + slopes * loc, slopes.abs() * scale)
    x = T.from_data([[-180.0], [-30.0], [-2.9], [0.1], [2.0], [60.0]], dtype="float64")
    levels = T.from_data([[1e-20], [0.3], [0.9]], dtype="float64")
    for method, values in (("cdf", x), ("log_cdf", x), ("icdf", levels)):
        wanted, given = getattr(same, method), getattr(found, method)
        assert given(values).allclose(wanted(values), rtol=1e-11, atol=1e-300)
        by_values, slope = (func.jacobian(f)(values) for f in (wanted, given))
        assert slope.allclose(by_values, rtol=1e-9, atol=1e-300, equal_nan=True), (method, slope, by_values)


def test_logarithms_of_transformed_probabilities() -> None:
    loc, scale = T.from_data(0.3, dtype="float64"), T.from_data(1.5, dtype="float64")
    x = T.from_data([-1.0, 0.0, 1e-40, 0.2, 1e6], dtype="float64")
    assert (
        d.Transformed(d.Normal(loc, scale), b.Exp()).log_cdf(x).allclose(d.LogNormal(loc, scale).log_cdf(x), rtol=1e-11)
    )
    below_0 = d.Transformed(d.Exponential(scale), b.Affine(loc * 0.0, T.from_data(-1.0, dtype="float64")))
    assert below_0.log_cdf(T.from_data([-1.0, 2.0], dtype="float64")).tolist() == pytest.approx([-1.5, 0.0])
    inverse = d.Transformed(d.Exponential(scale), b.Power(-1.0))
    assert inverse.cdf(T.from_data([0.0, 0.5], dtype="float64")).tolist() == pytest.approx([0.0, math.exp(-3.0)])


def test_transformed_distributions() -> None:
    loc, scale = T.from_data([0.3, -1.0], dtype="float64"), T.from_data([1.5, 0.4], dtype="float64")
    x = T.from_data([[-1.0], [0.0], [0.2], [3.0], [1e6]], dtype="float64")
    log_normal, built = d.LogNormal(loc, scale), d.Transformed(d.Normal(loc, scale), b.Exp())
    assert built.log_prob(x).allclose(log_normal.log_prob(x), rtol=1e-11)
    assert built.cdf(x).allclose(log_normal.cdf(x), rtol=1e-11)
    falling = d.Transformed(d.Normal(loc, scale), b.Affine(1.0, -2.0, device=NumPy).astype("float64"))
    assert falling.cdf(x).allclose(d.Normal(1.0 - 2.0 * loc, 2.0 * scale).cdf(x), rtol=1e-11)
    for found in (built, falling):
        levels = T.from_data([[0.0], [0.1], [0.9]], dtype="float64")
        assert found.cdf(found.icdf(levels)).allclose(levels.expand((3, 2)), rtol=1e-9)
    assert built.icdf(T.from_data([2.0], dtype="float64")).isnan().all()
    sample = built.rsample((3,), generator=Generator(0))
    assert sample.shape == (3, 2)
    assert built.expand((4, 2)).batch_shape == (4, 2)
    unit = d.Transformed(d.Normal(loc, scale), b.Sigmoid())
    assert unit.log_prob(x).exp()[0].tolist() == [0.0, 0.0]
    assert unit.cdf(x)[3].tolist() == [1.0, 1.0]
    simplex = d.Transformed(d.Normal(loc, scale), b.StickBreaking())
    assert (simplex.batch_shape, simplex.event_shape) == ((), (3,))
    assert simplex.log_prob(simplex.sample((5,), generator=Generator(1))).shape == (5,)

    def log_prob(loc: Any, scale: Any) -> Any:
        half = Tensor.full((), 0.5, dtype="float64", device=loc.device)
        return d.Transformed(d.Normal(loc, scale), b.Exp(), b.Tanh()).log_prob(half)

    assert gradcheck(log_prob, (loc[0], scale[0]))


def test_flows_are_trained() -> None:
    device = Autodiff[NumPy]
    flow = d.Transformed(d.Normal(0.0, 1.0, device=device), b.Affine(0.5, 2.0, device=device), b.Exp())
    grads = flow.trainable().log_prob(Tensor[device].from_data([1.0, 2.0])).sum().backward()
    assert len(grads) == 2, "of the normal distribution; a bijection's parameters are learned if they are Params"


def test_mixtures() -> None:
    from scipy import stats

    weights, loc, scale = np.array([0.2, 0.0, 0.8]), np.array([-3.0, 0.0, 2.0]), np.array([0.5, 1.0, 1.0])
    mixture = d.Mixture(d.Categorical(T.from_data(weights)), d.Normal(T.from_data(loc), T.from_data(scale)))
    x = np.array([-3.0, 0.0, 2.5, 60.0])
    expected = np.log(weights[[0, 2]] @ stats.norm(loc[[0, 2], None], scale[[0, 2], None]).pdf(x[:3]))
    found = mixture.log_prob(T.from_data(x)).to_numpy()
    np.testing.assert_allclose(found[:3], expected, rtol=1e-12)
    assert found[3] == pytest.approx(np.log(0.8) + stats.norm(2.0, 1.0).logpdf(60.0), rel=1e-12)
    sample = mixture.sample((6000,), generator=Generator(0)).to_numpy()

    def cdf(t: Any) -> Any:
        return weights @ stats.norm(loc[:, None], scale[:, None]).cdf(np.ravel(t))

    assert stats.kstest(sample, cdf).pvalue > 1e-4
    np.testing.assert_allclose(mixture.cdf(T.from_data(x)).to_numpy(), cdf(x), rtol=1e-12)
    assert mixture.mean.item() == pytest.approx(weights @ loc)
    assert mixture.variance.item() == pytest.approx(weights @ (scale**2 + loc**2) - (weights @ loc) ** 2)
    vectors = d.Mixture(
        d.Categorical(T.from_data([0.5, 0.5])), d.Normal(T.from_data([[0.0, 1.0, 2.0]] * 2), 1.0).independent(1)
    )
    assert (vectors.event_shape, vectors.sample((4,)).shape, vectors.log_prob(T.zeros((4, 3))).shape) == (
        (3,),
        (4, 3),
        (4,),
    )
    assert vectors.expand((5,)).sample().shape == (5, 3)
    assert vectors.mean.shape == (3,)


@every_row(
    "make, error, message",
    [
        (lambda: b.Power(0.0), ArgumentError, "Power() got exponent=0.0"),
        (lambda: d.Transformed(d.Normal(0.0, 1.0, device=NumPy), "exp"), KindError, "Transformed() got 'exp'"),  # type: ignore[arg-type]  # the mistake
        (
            lambda: d.Transformed(d.Normal(0.0, 1.0, device=NumPy), [b.Exp()]),  # type: ignore[arg-type]  # a list
            KindError,
            "Transformed() got a list; pass its bijections one by one: Transformed(base, *bijections)",
        ),
        (
            lambda: d.Mixture(d.Categorical(T.ones((3,))), d.Normal(T.zeros((2,)), 1.0)),
            ShapeError,
            "Mixture() got weights of batch shape () and 3 classes, and components of batch shape (2,)",
        ),
    ],
    ids=["power", "no bijection", "a list", "mixture"],
)
def test_mistakes(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        make()
    assert message in str(caught.value)
