"""Code type checkers must accept of `burnpy.distributions`, with the types they must infer. Runs, too."""

from __future__ import annotations

from typing import TypeAlias, TypeVar, assert_type

from burnpy import Autodiff, IntTensor, Tensor
from burnpy.backend import Backend, NumPy
from burnpy.distributions import (
    Categorical,
    Chi2,
    Distribution,
    Gamma,
    Independent,
    IndependentReparametrized,
    LogisticNormal,
    Mixture,
    Normal,
    OneHotCategoricalStraightThrough,
    Poisson,
    RelaxedBernoulli,
    Reparametrized,
    Transformed,
    bijections,
    kl,
)
from burnpy.nn import Param
from burnpy.optim import Adam

B = TypeVar("B", bound=Backend)
Train: TypeAlias = Autodiff[NumPy]

scale = Tensor[Train].ones((2,)).require_grad()
normal = Normal(0.0, scale)
assert_type(normal, Normal[Train])
assert_type(Normal(0.0, 1.0, device=NumPy), Normal[NumPy])
assert_type(normal.loc, Tensor[Train])
assert_type(normal.rsample((3,)), Tensor[Train])
assert_type(normal.valid(), Normal[NumPy])
assert_type(normal.valid().log_prob(scale.inner()), Tensor[NumPy])
assert_type(normal.expand((3, 2)).independent(1), IndependentReparametrized[Train])
assert_type(normal.independent(1).rsample(), Tensor[Train])
assert_type(Poisson(scale).independent(1), Independent[Train, Tensor[Train]])
classes = Categorical(scale)
assert_type(classes.sample((4,)), IntTensor[Train])
assert_type(classes.log_prob(classes.sample()), Tensor[Train])
assert_type(classes.mode, IntTensor[Train])
assert_type(Mixture(classes, normal).sample(), Tensor[Train])
assert_type(Transformed(normal, bijections.Exp()).rsample(), Tensor[Train])
assert_type(Categorical(scale).enumerate_support(), IntTensor[Train])
assert_type(Chi2(scale).valid(), Chi2[NumPy])
assert_type(OneHotCategoricalStraightThrough(scale).rsample(), Tensor[Train])
assert_type(RelaxedBernoulli(0.5, scale * 0.5).independent(1), IndependentReparametrized[Train])
assert_type(LogisticNormal(scale, 1.0).valid(), LogisticNormal[NumPy])
learned = Normal(Param(Tensor[Train].zeros(())), 2.0)
assert_type(learned, Normal[Train])
assert_type(kl(normal, learned), Tensor[Train])
assert_type(kl(Normal(scale, 1.0), Normal(scale, 2.0)), Tensor[Train])  # arguments that are made in place

model = normal.trainable()
assert_type(model, Normal[Train])
loss = -model.log_prob(scale.detach()).mean()
assert_type(Adam().step(0.1, model, loss.backward()), Normal[Train])


def lower_bound(prior: Distribution[B, Tensor[B]], posterior: Reparametrized[B], count: int) -> Tensor[B]:
    z = posterior.rsample((count,))
    return (prior.log_prob(z) - posterior.log_prob(z)).mean()


assert_type(lower_bound(Gamma(scale, 1.0), Gamma(1.0, scale), 5), Tensor[Train])
