"""Distributions of vectors and of classes: multivariate normal, categorical, independent batches."""

from __future__ import annotations

import itertools
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
