"""Distributions of vectors and of classes: multivariate normal, categorical, independent batches."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Generator, IntTensor, Tensor, func
from burnpy import distributions as d
from burnpy.backend import NumPy
from burnpy.errors import ArgumentError, LinAlgError
from burnpy.testing import gradcheck

T = Tensor[NumPy]
FACTOR = np.array([[1.5, 0.0, 0.0], [0.3, 0.5, 0.0], [-2.0, 0.1, 0.7]])
LOC = np.array([1.0, -2.0, 0.5])
X = np.array([[0.0, 0.0, 0.0], [3.0, -1.0, 1e3], [1.0, -2.0, 0.5]])


def f64(values: Any) -> Tensor[NumPy]:
    return T.from_data(values, dtype="float64")


def test_multivariate_normal_by_each_matrix() -> None:
    from scipy import stats

    covariance = FACTOR @ FACTOR.T
    theirs = stats.multivariate_normal(LOC, covariance)
    for ours in (
        d.MultivariateNormal(f64(LOC), f64(covariance)),
        d.MultivariateNormal(f64(LOC), precision_matrix=f64(np.linalg.inv(covariance))),
        d.MultivariateNormal(f64(LOC), scale_tril=f64(FACTOR)),
        d.MultivariateNormal(f64(LOC), scale_tril=f64(FACTOR)).expand((2, 1)),
    ):
        for found, expected in (
            (ours.log_prob(f64(X)), theirs.logpdf(X)),
            (ours.entropy(), theirs.entropy()),
            (ours.variance, np.diag(covariance)),
            (ours.covariance_matrix, covariance),
            (ours.precision_matrix, np.linalg.inv(covariance)),
        ):
            np.testing.assert_allclose(found.to_numpy(), np.broadcast_to(expected, found.shape), rtol=1e-9)
        sample = ours.sample((20_000,), generator=Generator(3)).to_numpy()
        np.testing.assert_allclose(np.cov(sample.reshape(20_000, -1, 3)[:, 0].T), covariance, atol=0.15)

    def log_prob(loc: Any, factor: Any, x: Any) -> Any:
        return d.MultivariateNormal(loc, scale_tril=factor.tril()).log_prob(x)

    assert gradcheck(log_prob, (f64(LOC), f64(FACTOR), f64(X[:1])))


def test_multivariate_normal_refuses_matrices() -> None:
    indefinite = f64([[1.0, 2.0], [2.0, 1.0]])
    with pytest.raises(LinAlgError):
        d.MultivariateNormal(f64([0.0, 0.0]), indefinite)
    with pytest.raises(ArgumentError, match="not of a lower triangular matrix with a positive diagonal"):
        d.MultivariateNormal(f64([0.0, 0.0]), scale_tril=indefinite)
    with pytest.raises(ArgumentError, match="got no matrix; expected one of covariance_matrix, precision_matrix"):
        d.MultivariateNormal(f64([0.0, 0.0]))


def test_a_multivariate_normal_is_trained_by_its_factor() -> None:
    loc, factor = (Tensor[Autodiff[NumPy]].from_data(x) for x in (LOC, FACTOR))
    model = d.MultivariateNormal(loc, scale_tril=factor).trainable()
    assert [*model.named_params()] == ["loc", "scale_tril.unconstrained"]
    np.testing.assert_allclose(model.scale_tril.to_numpy(), FACTOR, atol=1e-15)


def test_categorical() -> None:
    from scipy import stats

    weights = np.array([[0.0, 1.0, 3.0], [2.0, 2.0, 4.0]])
    probs = weights / weights.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        logs = np.log(probs)
    for ours in (d.Categorical(f64(weights)), d.Categorical(logits=f64(logs + 5.0))):
        classes = IntTensor[NumPy].from_data([[0], [1], [2], [3], [-1]])
        expected = np.concatenate([logs.T, np.full((2, 2), -np.inf)])
        np.testing.assert_allclose(ours.log_prob(classes).to_numpy(), expected, rtol=1e-12)
        np.testing.assert_allclose(ours.entropy().to_numpy(), stats.entropy(probs, axis=-1), rtol=1e-12)
        assert ours.mode.tolist() == [2, 2]
        sums = np.concatenate([probs.cumsum(-1).T, [[1.0, 1.0], [0.0, 0.0]]])
        np.testing.assert_allclose(ours.cdf(classes).to_numpy(), sums, rtol=1e-12)
        levels = f64([[0.0], [1e-9], [0.24], [0.26], [0.49], [1.0], [-0.1], [math.nan]])
        assert ours.icdf(levels).T.tolist() == [[0, 1, 1, 2, 2, 2, -1, -1], [0, 0, 0, 1, 1, 2, -1, -1]]
        counts = np.stack([(ours.sample((8000,), generator=Generator(0)).to_numpy() == k).sum(0) for k in range(3)])
        assert counts[0, 0] == 0
        assert stats.chisquare(counts[1:, 0], probs[0, 1:] * 8000).pvalue > 1e-4
        assert stats.chisquare(counts[:, 1], probs[1] * 8000).pvalue > 1e-4
    one_hot = d.OneHotCategorical(f64(weights))
    assert one_hot.event_shape == (3,)
    np.testing.assert_allclose(one_hot.log_prob(f64(np.eye(3))[:, None]).to_numpy(), logs.T, rtol=1e-12)
    assert one_hot.log_prob(f64([[0.0, 1.0, 1.0], [0.5, 0.5, 0.0]])).tolist() == [-np.inf, -np.inf]
    assert one_hot.sample((4,)).sum(dim=-1).eq(1.0).all()
    np.testing.assert_allclose(one_hot.mean.to_numpy(), probs, rtol=1e-12)
    index = IntTensor[NumPy].from_data([1, 2])
    assert gradcheck(lambda x: d.Categorical(logits=x).log_prob(index), f64([[0.3, -1.0, 2.0]] * 2))
    for dtype in ("float64", "float16"):
        assert d.Categorical(logits=f64([0.0, -np.inf]).to_dtype(dtype)).entropy().item() == 0.0


def test_log_prob_of_classes_takes_no_logarithms_of_all() -> None:
    ours, classes = d.Categorical(T.uniform((400, 500), 0.1, 1.0, device=NumPy)), IntTensor[NumPy].zeros((400,))
    ours.log_prob(classes)
    tracemalloc.start()
    try:
        ours.log_prob(classes)
        assert tracemalloc.get_traced_memory()[1] < 400 * 500 * 4
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("count", [0, 1, 5])
def test_the_entropy_of_a_multinomial_is_the_sum_over_its_values(count: int) -> None:
    probs = np.array([[0.2, 0.5, 0.3], [0.0, 0.9, 0.1]])
    values = [v for v in itertools.product(range(count + 1), repeat=3) if sum(v) == count]
    ours = d.Multinomial(count, f64(probs))
    log_p = ours.log_prob(f64(values)[:, None]).to_numpy()
    expected = -(np.exp(log_p) * np.where(np.isinf(log_p), 0.0, log_p)).sum(0)
    np.testing.assert_allclose(ours.entropy().to_numpy(), expected, rtol=1e-12, atol=1e-14)
    assert gradcheck(lambda p: d.Multinomial(count, p).entropy(), f64(probs[:1] + 0.1))


def test_independent_batches() -> None:
    base = d.Normal(f64(np.arange(6.0).reshape(2, 3)), 1.5)
    rows = base.independent(1)
    x = base.sample((4,), generator=Generator(1))
    assert (rows.batch_shape, rows.event_shape, x.shape) == ((2,), (3,), (4, 2, 3))
    assert rows.log_prob(x).allclose(base.log_prob(x).sum(dim=-1))
    assert base.independent(0).log_prob(x).allclose(base.log_prob(x))
    assert rows.independent(1).log_prob(x).allclose(base.log_prob(x).sum(dim=(-2, -1)))
    assert rows.entropy().allclose(base.entropy().sum(dim=-1))
    assert rows.expand((5, 2)).rsample((4,)).shape == (4, 5, 2, 3)
    vectors = func.vmap(lambda p, x: p.log_prob(x), in_dims=(0, 1), out_dims=1)(rows.expand((2,)), x)
    assert vectors.allclose(rows.log_prob(x))


def test_low_rank_normals() -> None:
    rng = np.random.default_rng(0)
    loc, factor, diagonal, x = (rng.normal(size=shape) for shape in ((2, 5), (2, 5, 2), (2, 5), (3, 2, 5)))
    diagonal = np.exp(diagonal)
    low = d.LowRankMultivariateNormal(f64(loc), f64(factor), f64(diagonal))
    full = d.MultivariateNormal(f64(loc), low.covariance_matrix)
    assert low.log_prob(f64(x)).allclose(full.log_prob(f64(x)), rtol=1e-10)
    for name in ("entropy", "precision_matrix", "variance", "mean"):
        found, expected = (getattr(each, name) for each in (low, full))
        assert (found() if callable(found) else found).allclose(expected() if callable(expected) else expected)
    other = d.LowRankMultivariateNormal(f64(loc + 0.1), f64(1.1 * factor), f64(diagonal + 0.3))
    dense = d.MultivariateNormal(other.loc, other.covariance_matrix)
    for p, q in ((low, other), (low, dense), (full, other)):
        assert d.kl(p, q).allclose(d.kl(full, dense), rtol=1e-9)
    sample = low.sample((20_000,), generator=Generator(3)).to_numpy()[:, 0]
    np.testing.assert_allclose(np.cov(sample.T), low.covariance_matrix.to_numpy()[0], atol=0.15)
    names = [*low.expand((4, 2)).trainable().named_params()]
    assert names == ["loc", "cov_factor", "cov_diag.unconstrained"]
    inputs = (f64(loc), f64(factor), f64(diagonal), f64(x[0]))
    assert gradcheck(lambda *args: d.LowRankMultivariateNormal(*args[:3]).log_prob(args[3]), inputs)


def test_wishart_matrices() -> None:
    from scipy import stats

    covariance, df = np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([3.0, 4.5])
    p, q = d.Wishart(f64(df), f64(covariance)), d.Wishart(f64(df[::-1].copy()), f64(covariance + np.eye(2)))
    x = p.sample((10_000,), generator=Generator(1))
    for k in range(2):
        theirs = stats.wishart(df[k], covariance)
        expected = [theirs.logpdf(m) for m in x.to_numpy()[:20, k]]
        np.testing.assert_allclose(p.log_prob(x)[:20, k].to_numpy(), expected, 1e-10)
        assert p.entropy()[k].item() == pytest.approx(theirs.entropy())
        np.testing.assert_allclose(x.to_numpy()[:, k].mean(0), theirs.mean(), rtol=0.06)
        np.testing.assert_allclose(p.variance[k].to_numpy(), theirs.var())
    estimate = (p.log_prob(x) - q.log_prob(x)).mean(dim=0).to_numpy()
    np.testing.assert_allclose(d.kl(p, q).to_numpy(), estimate, rtol=0.06)
    assert p.log_prob(f64([[1.0, 2.0], [2.0, 1.0]])).tolist() == [-np.inf, -np.inf]

    def mean(df: Any) -> Any:
        return d.Wishart(df, f64(covariance)).rsample((5_000,), generator=Generator(0)).mean(dim=0).sum()

    drawn = func.grad(mean)
    assert drawn(f64(3.5)).item() == pytest.approx(covariance.sum(), rel=0.1)
    one = x[0, 0]
    assert gradcheck(
        lambda df, s: d.Wishart(df, scale_tril=s.tril()).log_prob(one.to_device(s.device)), (f64(3.5), p.scale_tril)
    )
    with pytest.raises(ArgumentError, match="df that is not above n - 1 = 1"):
        d.Wishart(1.0, f64(covariance))


@pytest.mark.parametrize("n", [2, 4])
def test_cholesky_factors_of_correlation_matrices(n: int) -> None:
    """A correlation r has the beta distribution of (r + 1) / 2, and a density integrates to 1."""
    from scipy import stats

    concentration = np.array([0.7, 3.0])
    ours = d.LKJCholesky(n, f64(concentration))
    factors = ours.sample((3000,), generator=Generator(2))
    correlations = (factors @ factors.mT).to_numpy()
    for k, eta in enumerate(concentration):
        for i, j in ((0, 1), (0, n - 1), (n - 2, n - 1)):
            a = eta - 1.0 + n / 2.0
            assert stats.kstest((correlations[:, k, i, j] + 1.0) / 2.0, stats.beta(a, a).cdf).pvalue > 1e-3
    assert ours.log_prob(factors).isfinite().all()
    assert ours.log_prob(factors * 1.1).eq(-np.inf).all()
    if n == 2:  # the factor is [[1, 0], [r, √(1 - r²)]], so its density by r is the one of r
        r = np.linspace(-0.9, 0.9, 5)
        rows = np.stack([np.stack([np.ones(5), 0 * r], -1), np.stack([r, np.sqrt(1 - r * r)], -1)], -2)
        expected = stats.beta(3.0, 3.0, -1.0, 2.0).logpdf(r)
        np.testing.assert_allclose(d.LKJCholesky(2, f64(3.0)).log_prob(f64(rows)).to_numpy(), expected, 1e-10)


def test_relaxed_and_straight_through_classes() -> None:
    logits = f64([0.3, -1.0, 2.0])
    cold = d.RelaxedOneHotCategorical(0.05, logits=logits).sample((4000,), generator=Generator(0))
    share = (cold.argmax(dim=-1).one_hot(3).float().mean(dim=0)).to_numpy()
    np.testing.assert_allclose(share, logits.softmax(-1).to_numpy(), atol=0.03)
    # For two classes it is the relaxed Bernoulli distribution of the first.
    x = f64([0.2, 0.7])
    two = d.RelaxedOneHotCategorical(0.7, logits=f64([0.4, -0.3])).log_prob(f64([[0.2, 0.8], [0.7, 0.3]]))
    assert two.allclose(d.RelaxedBernoulli(0.7, logits=f64(0.7)).log_prob(x), rtol=1e-10)
    assert d.RelaxedOneHotCategorical(0.7, logits=logits).log_prob(f64([0.5, 0.5, 0.5])).item() == -np.inf
    weights = f64([1.0, 2.0, 4.0])

    def mean(t: Any) -> Any:
        hot = d.OneHotCategoricalStraightThrough(logits=t).rsample((3,), generator=Generator(0))
        assert ((hot - hot.round()).abs() < 1e-12).all()
        return (hot * weights).sum(dim=-1).mean()

    expected = func.grad(lambda t: (t.softmax(-1) * weights).sum())(logits)
    assert func.grad(mean)(logits).allclose(expected, rtol=1e-10)


def test_logistic_normal_probabilities() -> None:
    loc, scale = f64([[0.3, -1.0], [0.0, 2.0]]), f64([1.5, 0.4])
    ours = d.LogisticNormal(loc, scale)
    assert (ours.batch_shape, ours.event_shape) == ((2,), (3,))
    x = ours.sample((4,), generator=Generator(0))
    stick: d.bijections.StickBreaking[NumPy] = d.bijections.StickBreaking()
    z = stick.inverse(x)
    expected = d.Normal(loc, scale).log_prob(z).sum(dim=-1) - stick.log_det(z)
    assert ours.log_prob(x).allclose(expected, rtol=1e-9)
    assert ours.log_prob(f64([0.5, 0.5, 0.0])).tolist() == [-np.inf, -np.inf]
    assert ours.log_prob(f64([0.5, 0.5, 0.5])).tolist() == [-np.inf, -np.inf]


def test_all_values_of_finite_distributions() -> None:
    p = f64([0.2, 0.3])
    cases: list[tuple[Any, int, tuple[int, ...]]] = [
        (d.Bernoulli(p), 2, ()),
        (d.Binomial(3.0, p), 4, ()),
        (d.Categorical(f64([[0.2, 0.8], [0.5, 0.5]])), 2, ()),
        (d.OneHotCategorical(f64([[0.2, 0.8], [0.5, 0.5]])), 2, (2,)),
    ]
    for ours, count, event in cases:
        values = ours.enumerate_support()
        assert values.shape == (count, 2, *event)
        assert ours.enumerate_support(expand=False).shape == (count, 1, *event)
        assert ours.log_prob(values).exp().sum(dim=0).allclose(f64([1.0, 1.0]), rtol=1e-12)
    with pytest.raises(ArgumentError, match="Poisson has infinitely many values"):
        d.Poisson(p).enumerate_support()
    assert d.Bernoulli(p).independent(0).enumerate_support().tolist() == [[0.0, 0.0], [1.0, 1.0]]
    with pytest.raises(ArgumentError, match="of Bernoulli has a value for each combination"):
        d.Bernoulli(p).independent(1).enumerate_support()
    with pytest.raises(ArgumentError, match="an equal total_count"):
        d.Binomial(f64([1.0, 2.0]), 0.5).enumerate_support()
