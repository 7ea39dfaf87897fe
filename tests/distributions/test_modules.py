"""Distributions as modules: their derivatives, training in plans, files, batches of them; and large parameters."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Generator, Tensor, compiled, func
from burnpy import distributions as d
from burnpy.backend import NumPy
from burnpy.nn import Linear, Module, Param, rebound
from burnpy.optim import Adam
from burnpy.record import load, save
from burnpy.typevars import B, I
from tests.rows import every_row

T = Tensor[NumPy]
Train = Autodiff[NumPy]


def test_gradients_go_on_to_what_a_parameter_was_computed_from() -> None:
    x = Tensor[Train].from_data([[1.0, 2.0], [0.5, -1.0]])
    net = Linear(2, 1, device=Train)
    loss = -d.Normal(net(x), 0.5).log_prob(Tensor[Train].ones((2, 1))).sum()
    assert net.weight.value.grad(loss.backward()) is not None


def test_the_derivative_by_a_distribution_is_a_distribution() -> None:
    p = d.Normal(T.from_data([0.5, -1.0], dtype="float64"), T.from_data([1.0, 2.0], dtype="float64"))
    x = T.from_data([1.0, 1.0], dtype="float64")
    slope = func.grad(lambda q: q.log_prob(x).sum())(p)
    assert isinstance(slope, d.Normal)
    np.testing.assert_allclose(slope.loc.to_numpy(), [0.5, 0.5])
    np.testing.assert_allclose(slope.scale.to_numpy(), [0.25 - 1.0, 0.5 - 0.5])
    samples = func.vmap(lambda q: q.rsample((3,), generator=None), randomness="different")(p)
    assert samples.shape == (2, 3)


class Model(Module[B]):
    """A model that holds a prior which is fixed, and a posterior which is learned."""

    def __init__(self, device: B | type[B]) -> None:
        self.prior = d.Normal(0.0, 1.0, device=device)
        self.posterior = d.Gamma(2.0, 1.0, device=device).trainable()

    def valid(self: Model[Autodiff[I]]) -> Model[I]:
        return rebound(self)


def test_models_hold_distributions(tmp_path: Path) -> None:
    model, optim = Model(Train), Adam()
    assert [name for name, p in model.named_params().items() if not p.frozen] == [
        "posterior.concentration.unconstrained",
        "posterior.rate.unconstrained",
    ]
    x = d.Gamma(6.0, 2.0, device=Train).sample((4000,), generator=Generator(0))

    @compiled
    def step(model: Model[Train], state: Any, x: Tensor[Train]) -> tuple[Model[Train], Any, Tensor[Train]]:
        loss = -model.posterior.log_prob(x).mean()
        model, state = optim.pure_step(0.1, model, loss.backward(), state)
        return model, state, loss.detach()

    state = optim.init(model)
    for _ in range(200):
        model, state, _ = step(model, state, x)
    assert model.prior.scale.item() == 1.0
    assert model.posterior.concentration.item() == pytest.approx(6.0, rel=0.1)
    assert model.posterior.rate.item() == pytest.approx(2.0, rel=0.1)
    copy = pickle.loads(pickle.dumps(model))
    assert copy.posterior.rate.item() == model.posterior.rate.item()
    save(tmp_path / "model.safetensors", model=model)
    loaded = Model(Train).load_record(load(tmp_path / "model.safetensors")["model"])
    assert loaded.posterior.rate.item() == model.posterior.rate.item()
    assert model.valid().posterior.rate.device is NumPy()
    assert model.astype("float64").posterior.rate.dtype == np.float64


def test_a_parameter_of_a_model_is_shared() -> None:
    scale = Param(Tensor[Train].ones(()))
    p, q = d.Normal(0.0, scale), d.Laplace(0.0, scale)
    grads = (p.log_prob(p.loc) + q.log_prob(q.loc)).backward()
    assert grads[scale.value].item() == pytest.approx(-2.0)


LARGE: dict[str, tuple[Any, Any, float]] = {
    "gamma": (lambda dtype: d.Gamma(T.full((), 1e6, dtype=dtype), 1.0), lambda s: s.gamma(1e6), 1e6 + 700.0),
    "beta": (lambda dtype: d.Beta(T.full((), 4e5, dtype=dtype), 6e5), lambda s: s.beta(4e5, 6e5), 0.4003),
    "poisson": (lambda dtype: d.Poisson(T.full((), 1e6, dtype=dtype)), lambda s: s.poisson(1e6), 1e6 + 700.0),
    "binomial": (lambda dtype: d.Binomial(T.full((), 1e6, dtype=dtype), 0.25), lambda s: s.binom(1e6, 0.25), 250300.0),
    "student's t": (lambda dtype: d.StudentT(T.full((), 1e6, dtype=dtype)), lambda s: s.t(1e6), 2.5),
}


@every_row("make, theirs, at", LARGE.values(), ids=list(LARGE))
def test_densities_of_large_parameters_keep_their_digits(make: Any, theirs: Any, at: float) -> None:
    from scipy import stats

    reference = theirs(stats)
    for dtype, rtol in (("float64", 1e-8), ("float32", 2e-4)):
        x = np.array(at, dtype)
        exact = (reference.logpdf if hasattr(reference.dist, "logpdf") else reference.logpmf)(float(x))
        assert make(dtype).log_prob(T.from_data(x)).item() == pytest.approx(exact, rel=rtol)


def test_logarithms_are_finite_in_the_tails() -> None:
    one = T.from_data(1.0)
    for found, exact in (
        (d.Bernoulli(logits=-200.0, device=NumPy).log_prob(one), -200.0),
        (d.Geometric(logits=-200.0, device=NumPy).log_prob(one), -200.0),
        (d.Binomial(3, logits=-200.0, device=NumPy).log_prob(one), np.log(3.0) - 200.0),
        (d.Cauchy(0.0, 1.0, device=NumPy).log_prob(one * 1e30), -np.log(np.pi) - 60.0 * np.log(10.0)),
        (d.Normal(0.0, 1.0, device=NumPy).log_cdf(one * -50.0), -1254.8313611393194),
        (d.Logistic(0.0, 1.0, device=NumPy).log_cdf(one * -500.0), -500.0),
        (d.Gumbel(0.0, 1.0, device=NumPy).log_cdf(one * -5.0), -np.exp(5.0)),
        (d.Laplace(0.0, 1.0, device=NumPy).log_cdf(one * -500.0), -500.0 - np.log(2.0)),
    ):
        assert found.item() == pytest.approx(exact, rel=1e-6)


def test_each_distribution_of_a_batch_learns_parameters_of_its_own() -> None:
    zeros = Tensor[Train].zeros((7,))
    shapes = {name: p.shape for name, p in d.Normal(zeros, 0.3).trainable().named_params().items()}
    assert shapes == {"loc": (7,), "scale.unconstrained": (7,)}
    shared = Param(Tensor[Train].ones(()))
    assert [p.shape for p in d.Normal(zeros, shared).trainable().params()] == [(7,), ()]
    relaxed = d.RelaxedBernoulli(0.5, logits=zeros).trainable()
    assert [name for name, p in relaxed.named_params().items() if not p.frozen] == ["logits"]


def test_divergences_of_equal_bijections() -> None:
    affine = [d.bijections.Affine(1.0, T.from_data(2.0)) for _ in range(2)]
    p, q = (d.Transformed(d.Normal(float(k), 1.0, device=NumPy), affine[k]) for k in range(2))
    assert d.kl(p, q).item() == 0.5
    assert affine[0].equals(affine[1])
    assert not affine[0].equals(d.bijections.Affine(1.0, T.from_data(3.0)))
    inverse: list[Any] = [d.bijections.Inverse(f) for f in (*affine, d.bijections.Exp())]
    assert [f.equals(inverse[0]) for f in inverse] == [True, True, False]
