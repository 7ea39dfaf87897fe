"""Probability distributions as immutable modules, named as in ``torch.distributions``.

>>> from burnpy.distributions import Normal, kl
>>> p, q = Normal(0.0, 1.0, device=NumPy), Normal(1.0, 1.0, device=NumPy)
>>> p.sample((2, 3)).shape, kl(p, q).item()
((2, 3), 0.5)
"""

from __future__ import annotations

from burnpy.backend.lazy import attached

_NAMES = {
    "burnpy.distributions": "bijections",
    "burnpy.distributions.bernoulli": "Bernoulli Geometric RelaxedBernoulli",
    "burnpy.distributions.beta": "Beta Dirichlet Kumaraswamy",
    "burnpy.distributions.binomial_and_poisson": "Binomial Multinomial NegativeBinomial Poisson",
    "burnpy.distributions.categorical": (
        "Categorical OneHotCategorical OneHotCategoricalStraightThrough RelaxedOneHotCategorical"
    ),
    "burnpy.distributions.distribution": (
        "Distribution Independent IndependentReparametrized Reparametrized register_kl"
    ),
    "burnpy.distributions.divergences": "kl",
    "burnpy.distributions.exponential": "Exponential Pareto Weibull",
    "burnpy.distributions.gamma": "Chi2 Gamma InverseGamma",
    "burnpy.distributions.location_scale": "Cauchy Gumbel HalfCauchy Laplace Logistic",
    "burnpy.distributions.transformed": "Mixture Transformed",
    "burnpy.distributions.multivariate_normal": "LowRankMultivariateNormal MultivariateNormal",
    "burnpy.distributions.normal": "HalfNormal LogNormal LogisticNormal Normal VonMises",
    "burnpy.distributions.parameters": "Constrained",
    "burnpy.distributions.student_t": "FisherSnedecor StudentT",
    "burnpy.distributions.uniform": "ContinuousBernoulli Uniform",
    "burnpy.distributions.wishart": "LKJCholesky Wishart",
}
"""The names of the package by module; ``make generated`` writes them into the stub for type checkers."""

__getattr__, __dir__, __all__ = attached(__name__, _NAMES)
