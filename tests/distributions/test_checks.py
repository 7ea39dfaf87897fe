"""Wrong arguments of distributions, and what type checkers are told about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, IntTensor, Tensor, compiled, func
from burnpy import distributions as d
from burnpy.backend import NumPy
from burnpy.errors import ArgumentError, DeviceError, KindError, ShapeError
from tests.rows import every_row

T = Tensor[NumPy]


NUMBER = "with an element that is not a finite number above 0"
MISTAKES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "zero": (lambda: normal(0.0), ArgumentError, "Normal() got scale=0.0; expected a finite number above 0"),
    "element": (
        lambda: d.Gamma(T.from_data([1.0, -1.0]), 1.0),
        ArgumentError,
        f"Gamma() got concentration of shape (2,) {NUMBER}",
    ),
    "probability": (
        lambda: d.Bernoulli(1.5, device=NumPy),
        ArgumentError,
        "Bernoulli() got probs=1.5; expected a number from 0 to 1",
    ),
    "neither": (
        lambda: d.Bernoulli(device=NumPy),
        ArgumentError,
        "Bernoulli() got neither of probs and logits; expected one",
    ),
    "both": (
        lambda: d.Bernoulli(0.5, logits=0.0, device=NumPy),
        ArgumentError,
        "Bernoulli() got both of probs and logits; expected one",
    ),
    "count": (
        lambda: d.Binomial(2.5, 0.5, device=NumPy),
        ArgumentError,
        "Binomial() got total_count=2.5; expected a whole number",
    ),
    "order": (
        lambda: d.Uniform(1.0, 1.0, device=NumPy),
        ArgumentError,
        "Uniform() got an element of low that is not below the one of high",
    ),
    "device": (lambda: d.Normal(0.0, 1.0), DeviceError, "Normal() got numbers alone; name the device"),
    "kind": (lambda: normal("1"), KindError, "Normal() got scale='1'; expected a float Tensor, a Param or a number"),
    "parameters": (
        lambda: d.Normal(T.zeros((2,)), T.ones((3,))),
        ShapeError,
        "Normal() got loc of shape (2,) and scale of shape (3,), which do not broadcast",
    ),
    "value": (
        lambda: normal(T.ones((2,))).log_prob(T.zeros((3,))),
        ShapeError,
        "Normal.log_prob() got a value of shape (3,), which does not broadcast with parameters of shapes (), (2,)",
    ),
    "int": (lambda: normal(1.0).log_prob(IntTensor[NumPy].from_data([1])), KindError, "Normal.log_prob() got"),
    "scalar": (
        lambda: d.Categorical(1.0, device=NumPy),
        ShapeError,
        "Categorical() got probs of shape (); its last dimension belongs to an event",
    ),
    "icdf": (
        lambda: d.VonMises(0.0, 1.0, device=NumPy).icdf(T.ones(())),
        ArgumentError,
        "VonMises has no icdf in closed form",
    ),
    "kl": (
        lambda: d.kl(d.Poisson(1.0, device=NumPy), normal(1.0)),
        ArgumentError,
        "kl() has no closed form for Poisson and Normal",
    ),
    "kl, independent": (
        lambda: d.kl(normal(T.ones((2, 3))).independent(1), normal(T.ones((2, 3))).independent(2)),
        ArgumentError,
        "kl() got Independent of ndims=1 and of ndims=2; expected equal numbers",
    ),
    "kl, transformed": (
        lambda: d.kl(d.Transformed(normal(1.0), d.bijections.Exp()), d.Transformed(normal(1.0), d.bijections.Tanh())),
        ArgumentError,
        "kl() of two Transformed distributions expects the same bijections",
    ),
    "cdf of events": (
        lambda: d.Transformed(normal(T.ones((2,))).independent(1), d.bijections.Exp()).cdf(T.ones((2,))),
        ArgumentError,
        "Transformed.cdf() takes numbers, and events here have shape (2,)",
    ),
    "classes": (
        lambda: d.Categorical(T.ones((2, 3))).log_prob(IntTensor[NumPy].zeros((3,))),
        ShapeError,
        "Categorical.log_prob() got classes of shape (3,), which does not broadcast with the batch shape (2,)",
    ),
    "probabilities": (
        lambda: d.Categorical(T.ones((2, 3))).icdf(T.ones((3,))),
        ShapeError,
        "Categorical.icdf() got probabilities of shape (3,), which does not broadcast with the batch shape (2,)",
    ),
    "matrix": (
        lambda: d.MultivariateNormal(T.zeros((3,)), scale_tril=T.eye(2)),
        ShapeError,
        "MultivariateNormal() got loc of shape (3,) and a matrix of shape (2, 2); expected (…, 3, 3)",
    ),
    "matrix of numbers": (
        lambda: d.MultivariateNormal(T.zeros((1,)), covariance_matrix=[[1.0]]),  # type: ignore[arg-type]
        KindError,
        "MultivariateNormal() got covariance_matrix=",
    ),
    "factor": (
        lambda: d.LowRankMultivariateNormal(T.zeros((3,)), T.ones((2, 1)), T.ones((3,))),
        ShapeError,
        "LowRankMultivariateNormal() got loc (3,), cov_factor (2, 1) and cov_diag (3,)",
    ),
    "vector": (
        lambda: d.LogisticNormal(0.0, 1.0, device=NumPy),
        ShapeError,
        "LogisticNormal() got loc and scale of shape (); their last dimension belongs to an event",
    ),
    "correlations": (
        lambda: d.LKJCholesky(3, 1.0, device=NumPy).log_prob(T.eye(2)),
        ShapeError,
        "LKJCholesky.log_prob() got shape (2, 2); expected (…, 3, 3)",
    ),
    "expand": (lambda: normal(T.ones((2,))).expand((3,)), ShapeError, "expand() got batch shape (3,)"),
    "independent": (
        lambda: normal(1.0).independent(1),
        ShapeError,
        "independent() got ndims=1 for Normal of batch shape ()",
    ),
    "vmap": (
        lambda: func.vmap(lambda s: d.Normal(0.0, s).log_prob(s))(T.from_data([1.0, -1.0])),
        ArgumentError,
        f"Normal() got scale of shape () {NUMBER}",
    ),
}


def normal(scale: Any) -> Any:
    return d.Normal(0.0, scale, device=NumPy)


@every_row("make, error, message", MISTAKES.values(), ids=list(MISTAKES))
def test_mistakes(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        make()
    assert message in str(caught.value)


def test_checks_of_a_plan_are_late_and_can_be_left_out() -> None:
    checked = compiled(lambda scale, x: d.Normal(0.0, scale).log_prob(x))
    one, zero = T.from_data(1.0), T.from_data(0.0)
    assert checked(one, zero).item() == pytest.approx(-0.9189385)
    with pytest.raises(ArgumentError, match="got scale of shape"):
        checked(zero, zero).item()
    assert np.isnan(d.Normal(0.0, -T.ones(()), validate=False).log_prob(zero).item())


def test_samples_of_discrete_distributions_are_not_differentiable() -> None:
    p = Tensor[Autodiff[NumPy]].from_data([0.2, 0.7]).require_grad()
    for distribution in (d.Bernoulli(p), d.Geometric(p), d.Poisson(p), d.Binomial(3, p), d.NegativeBinomial(2.0, p)):
        assert not hasattr(distribution, "rsample")
        assert not distribution.sample((5,)).is_require_grad()
    assert not d.Gamma(p, p).sample().is_require_grad()
    assert d.Gamma(p, p).rsample().is_require_grad()
