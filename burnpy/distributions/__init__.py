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
    "burnpy.distributions.beta": "Beta Dirichlet",
    "burnpy.distributions.categorical": "Categorical OneHotCategorical",
    "burnpy.distributions.distribution": "Distribution Independent IndependentReparametrized Reparametrized "
    "register_kl",
    "burnpy.distributions.exponential": "Exponential Weibull",
    "burnpy.distributions.gamma": "Gamma",
    "burnpy.distributions.divergences": "kl",
    "burnpy.distributions.location_scale": "Cauchy Gumbel Laplace Logistic LogNormal Normal",
    "burnpy.distributions.mixture": "Mixture",
    "burnpy.distributions.multinomial": "Multinomial",
    "burnpy.distributions.multivariate_normal": "MultivariateNormal",
    "burnpy.distributions.parameters": "Constrained",
    "burnpy.distributions.poisson": "Poisson",
    "burnpy.distributions.student_t": "StudentT",
    "burnpy.distributions.successes": "Bernoulli Binomial Geometric NegativeBinomial",
    "burnpy.distributions.transformed": "Transformed",
    "burnpy.distributions.uniform": "Uniform",
    "burnpy.distributions.von_mises": "VonMises",
}
"""The names of the package by module; ``make generated`` writes them into the stub for type checkers."""

__getattr__, __dir__, __all__ = attached(__name__, _NAMES)
