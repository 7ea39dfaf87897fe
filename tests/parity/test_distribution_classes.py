"""Distributions beside PyTorch's: densities with their gradients, functions, moments, and divergences of all pairs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, IntTensor, Tensor
from burnpy import distributions as ours
from burnpy.backend import NumPy
from burnpy.errors import ArgumentError
from burnpy.testing.conformance import every_case
from tests.rows import every_row

pytestmark = pytest.mark.parity
torch: Any = pytest.importorskip("torch")
theirs: Any = torch.distributions

Train = Autodiff[NumPy]
FIRST = {  # two distributions of each family, for values that all of them have or not
    "Bernoulli": ([0.3, 0.8],),
    "Beta": ([0.7, 3.0], [1.5, 2.0]),
    "Binomial": ([5.0, 5.0], [0.3, 0.8]),
    "Cauchy": ([0.2, -1.0], [1.5, 0.4]),
    "Exponential": ([0.7, 3.0],),
    "Gamma": ([0.7, 30.0], [1.5, 2.0]),
    "Geometric": ([0.3, 0.8],),
    "Gumbel": ([0.2, -1.0], [1.5, 0.4]),
    "Laplace": ([0.2, -1.0], [1.5, 0.4]),
    "LogNormal": ([0.2, -1.0], [1.5, 0.4]),
    "NegativeBinomial": ([5.0, 2.5], [0.3, 0.8]),
    "Normal": ([0.2, -1.0], [1.5, 0.4]),
    "Poisson": ([0.7, 3.0],),
    "StudentT": ([3.0, 30.0], [0.2, -1.0], [1.5, 0.4]),
    "Uniform": ([0.1, 0.2], [0.7, 2.0]),
    "VonMises": ([0.2, -1.0], [1.5, 0.4]),
    "Weibull": ([0.7, 3.0], [1.5, 2.0]),
    "Chi2": ([0.7, 3.0],),
    "ContinuousBernoulli": ([0.3, 0.8],),
    "FisherSnedecor": ([3.0, 30.0], [5.0, 9.0]),
    "HalfCauchy": ([1.5, 0.4],),
    "HalfNormal": ([1.5, 0.4],),
    "InverseGamma": ([2.7, 3.0], [1.5, 2.0]),
    "Kumaraswamy": ([1.7, 3.0], [1.5, 2.0]),
    "Pareto": ([0.1, 0.12], [2.5, 3.5]),
    "RelaxedBernoulli": ([0.7, 2.0], [0.3, 0.8]),
}
SECOND = {
    **{name: tuple([value * 1.1 + 0.05 for value in column] for column in columns) for name, columns in FIRST.items()},
    "Binomial": ([5.0, 5.0], [0.5, 0.4]),
    "Uniform": ([0.0, -0.5], [1.0, 2.5]),
}
OTHER_CONVENTIONS = {
    "Uniform.mode": "PyTorch has NaN, burnpy no mode",
    "Beta.mode": "for concentrations below 1 PyTorch has a mode at an end, burnpy NaN",
    "Cauchy.variance": "PyTorch has inf, SciPy and burnpy NaN",
    "Cauchy.stddev": "the same",
    "Kumaraswamy.mode": "PyTorch has NaN where there is one",
    "ContinuousBernoulli and Uniform": "PyTorch has inf for an interval that is [0, 1]",
}
WHOLE = ("Bernoulli", "Binomial", "Geometric", "NegativeBinomial", "Poisson")
VALUES = {True: [0.0, 1.0, 3.0], False: [0.15, 0.4, 0.65]}


def both(name: str, parameters: tuple[list[float], ...], validate: bool = False) -> tuple[Any, Any, Any, Any]:
    """Return a batch of both libraries, with the leaves that are its parameters."""
    mine = [Tensor[Train].from_data(p, dtype="float64").require_grad() for p in parameters]
    other = [torch.tensor(p, dtype=torch.float64, requires_grad=True) for p in parameters]
    return getattr(ours, name)(*mine), mine, getattr(theirs, name)(*other, validate_args=validate), other


def assert_close(found: Any, expected: Any, rtol: float = 1e-9) -> None:
    np.testing.assert_allclose(found.to_numpy(), expected.detach().numpy(), rtol, 1e-12)


@every_row("name", FIRST)
def test_densities_with_gradients(name: str) -> None:
    mine, parameters, other, leaves = both(name, FIRST[name])
    values = VALUES[name in WHOLE]
    x = Tensor[Train].from_data([[value] for value in values], dtype="float64").require_grad()
    y = torch.tensor(values, dtype=torch.float64)[:, None].requires_grad_(name not in WHOLE)
    if name == "Bernoulli":
        x, y = x[:2], y[:2]
    found, expected = mine.log_prob(x), other.log_prob(y)
    assert_close(found, expected, 1e-7 if name == "VonMises" else 1e-9)  # PyTorch's Bessel function has eight digits
    kept = [leaf for leaf in leaves if name != "Binomial" or leaf is leaves[1]]  # PyTorch's counts are constants
    slopes = torch.autograd.grad(
        expected[torch.isfinite(expected)].sum(), [*kept, *([y] if y.requires_grad else [])], allow_unused=True
    )
    grads = found.masked_fill(found == -math.inf, 0.0).sum().backward()
    own = [*parameters[-len(kept) :], *([x] if y.requires_grad else [])]
    for leaf, slope in zip(own, slopes, strict=True):
        if slope is not None:
            assert_close(grads[leaf], slope, 1e-5)


@every_row("name", FIRST)
def test_functions_and_moments(name: str) -> None:
    mine, _, other, _ = both(name, FIRST[name])
    for attribute in ("mean", "variance", "stddev", "mode"):
        if f"{name}.{attribute}" in OTHER_CONVENTIONS:
            continue
        try:
            expected = getattr(other, attribute)
        except NotImplementedError:
            continue
        assert_close(getattr(mine, attribute), expected, 1e-7)
    if name not in ("FisherSnedecor", "HalfCauchy", "NegativeBinomial", "Poisson", "RelaxedBernoulli", "VonMises"):
        assert_close(mine.entropy(), other.entropy())
    x = torch.tensor([[0.15], [0.4], [0.65]], dtype=torch.float64)
    for function in ("cdf", "icdf"):
        try:
            expected = getattr(other, function)(x)
        except NotImplementedError:
            continue
        assert_close(getattr(mine, function)(Tensor[Train].from_data(x.numpy())), expected, 1e-7)


def test_divergences_of_all_pairs() -> None:
    """Those that PyTorch has; none is missing but of families that are not here."""
    count = 0
    with every_case() as case:
        for p_name in FIRST:
            for q_name in FIRST:
                mine_p, _, other_p, _ = both(p_name, FIRST[p_name])
                mine_q, _, other_q, _ = both(q_name, SECOND[q_name])
                try:
                    expected = theirs.kl_divergence(other_p, other_q)
                except NotImplementedError:
                    continue
                if f"{p_name} and {q_name}" in OTHER_CONVENTIONS:
                    continue
                count += 1
                with case(f"{p_name} and {q_name}"):
                    assert_close(ours.kl(mine_p, mine_q), expected, 1e-7)
    assert count > 70


def test_divergences_of_vectors_and_of_classes() -> None:
    rng = np.random.default_rng(0)
    probs, concentration = rng.dirichlet(np.ones(3), (2, 4)), rng.uniform(0.5, 4.0, (2, 4, 3))
    loc, root = rng.normal(size=(2, 4, 3)), rng.normal(size=(2, 4, 3, 3))
    covariance = root @ root.mT + np.eye(3) if hasattr(root, "mT") else root @ root.swapaxes(-1, -2) + np.eye(3)
    cases: list[tuple[Any, Any, tuple[Any, ...]]] = [
        (ours.Categorical, theirs.Categorical, (probs,)),
        (ours.OneHotCategorical, theirs.OneHotCategorical, (probs,)),
        (ours.Dirichlet, theirs.Dirichlet, (concentration,)),
        (ours.MultivariateNormal, theirs.MultivariateNormal, (loc, covariance)),
    ]
    for mine, other, parameters in cases:
        first, second = ([Tensor[NumPy].from_data(p[k]) for p in parameters] for k in range(2))
        third, fourth = ([torch.tensor(p[k]) for p in parameters] for k in range(2))
        assert_close(ours.kl(mine(*first), mine(*second)), theirs.kl_divergence(other(*third), other(*fourth)))
        assert_close(mine(*first).entropy(), other(*third).entropy())
    independent = [d.independent(1) for d in (ours.Dirichlet(Tensor[NumPy].from_data(c)) for c in concentration)]
    expected = theirs.kl_divergence(*[theirs.Independent(theirs.Dirichlet(torch.tensor(c)), 1) for c in concentration])
    assert_close(ours.kl(*independent), expected)


def test_classes_and_counts() -> None:
    logits = np.random.default_rng(1).normal(size=(4, 3))
    x = np.array([0, 2, 1, 1])
    mine, other = (
        ours.Categorical(logits=Tensor[NumPy].from_data(logits)),
        theirs.Categorical(logits=torch.tensor(logits)),
    )
    assert_close(mine.log_prob(IntTensor[NumPy].from_data(x)), other.log_prob(torch.tensor(x)))
    counts = np.array([[2.0, 1.0, 0.0], [0.0, 3.0, 0.0], [1.0, 1.0, 1.0], [0.0, 0.0, 3.0]])
    many = ours.Multinomial(3, logits=Tensor[NumPy].from_data(logits))
    expected = theirs.Multinomial(3, logits=torch.tensor(logits))
    assert_close(many.log_prob(Tensor[NumPy].from_data(counts)), expected.log_prob(torch.tensor(counts)))
    assert_close(many.mean, expected.mean)
    assert_close(many.variance, expected.variance)


def test_mixtures_and_transforms() -> None:
    weights, loc, x = np.array([0.2, 0.3, 0.5]), np.array([-1.0, 0.5, 3.0]), np.linspace(0.05, 0.95, 7)
    mine = ours.Mixture(
        ours.Categorical(Tensor[NumPy].from_data(weights)), ours.Normal(Tensor[NumPy].from_data(loc), 0.7)
    )
    other = theirs.MixtureSameFamily(
        theirs.Categorical(torch.tensor(weights)),
        theirs.Normal(torch.tensor(loc), torch.tensor(0.7, dtype=torch.float64)),
    )
    value, same = Tensor[NumPy].from_data(x), torch.tensor(x)
    for name in ("log_prob", "cdf"):
        assert_close(getattr(mine, name)(value), getattr(other, name)(same), 1e-6)
    assert_close(mine.variance, other.variance, 1e-6)
    base = [ours.Normal(Tensor[NumPy].from_data(loc[0]), 0.7), theirs.Normal(torch.tensor(loc[0]), 0.7)]
    b, transforms = ours.bijections, theirs.transforms
    chains: list[tuple[list[Any], list[Any]]] = [
        ([b.Exp()], [transforms.ExpTransform()]),
        ([b.Sigmoid()], [transforms.SigmoidTransform()]),
        ([b.Tanh()], [transforms.TanhTransform()]),
        ([b.Softplus()], [transforms.SoftplusTransform()]),
        ([b.Affine(value[0], -2.0), b.Exp()], [transforms.AffineTransform(same[0], -2.0), transforms.ExpTransform()]),
        ([b.Exp(), b.Power(-0.5)], [transforms.ExpTransform(), transforms.PowerTransform(torch.tensor(-0.5))]),
    ]
    for ours_, theirs_ in chains:
        found, expected = (
            ours.Transformed(base[0], *ours_),
            theirs.TransformedDistribution(base[1], theirs_, validate_args=False),
        )
        assert_close(found.log_prob(value), expected.log_prob(same), 1e-6)
        assert_close(found.cdf(value), expected.cdf(same), 1e-6)
    sticks = np.random.default_rng(2).normal(size=(5, 3))
    stick: ours.bijections.StickBreaking[NumPy] = b.StickBreaking()
    transform = transforms.StickBreakingTransform()
    probs, same_probs = stick(Tensor[NumPy].from_data(sticks)), transform(torch.tensor(sticks))
    assert_close(probs, same_probs)
    assert_close(stick.inverse(probs), torch.tensor(sticks))
    slope = transform.log_abs_det_jacobian(torch.tensor(sticks), same_probs)
    assert_close(stick.log_det(Tensor[NumPy].from_data(sticks)), slope)
    with pytest.raises(ArgumentError, match="the same bijections"):
        ours.kl(ours.Transformed(base[0], b.Exp()), ours.Transformed(base[0], b.Tanh()))
