"""The names of `burnpy.distributions`, made from its table by ``make generated``."""

from burnpy.distributions import bijections
from burnpy.distributions.bernoulli import Bernoulli, Geometric, RelaxedBernoulli
from burnpy.distributions.beta import Beta, Dirichlet, Kumaraswamy
from burnpy.distributions.binomial_and_poisson import Binomial, Multinomial, NegativeBinomial, Poisson
from burnpy.distributions.categorical import (
    Categorical,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
    RelaxedOneHotCategorical,
)
from burnpy.distributions.distribution import (
    Distribution,
    Independent,
    IndependentReparametrized,
    Reparametrized,
    register_kl,
)
from burnpy.distributions.divergences import kl
from burnpy.distributions.exponential import Exponential, Pareto, Weibull
from burnpy.distributions.gamma import Chi2, Gamma, InverseGamma
from burnpy.distributions.location_scale import Cauchy, Gumbel, HalfCauchy, Laplace, Logistic
from burnpy.distributions.multivariate_normal import LowRankMultivariateNormal, MultivariateNormal
from burnpy.distributions.normal import HalfNormal, LogisticNormal, LogNormal, Normal, VonMises
from burnpy.distributions.parameters import Constrained
from burnpy.distributions.student_t import FisherSnedecor, StudentT
from burnpy.distributions.transformed import Mixture, Transformed
from burnpy.distributions.uniform import ContinuousBernoulli, Uniform
from burnpy.distributions.wishart import LKJCholesky, Wishart

__all__ = [
    "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "Chi2", "Constrained", "ContinuousBernoulli", "Dirichlet",
    "Distribution", "Exponential", "FisherSnedecor", "Gamma", "Geometric", "Gumbel", "HalfCauchy", "HalfNormal",
    "Independent", "IndependentReparametrized", "InverseGamma", "Kumaraswamy", "LKJCholesky", "Laplace", "LogNormal",
    "Logistic", "LogisticNormal", "LowRankMultivariateNormal", "Mixture", "Multinomial", "MultivariateNormal",
    "NegativeBinomial", "Normal", "OneHotCategorical", "OneHotCategoricalStraightThrough", "Pareto", "Poisson",
    "RelaxedBernoulli", "RelaxedOneHotCategorical", "Reparametrized", "StudentT", "Transformed", "Uniform", "VonMises",
    "Weibull", "Wishart", "bijections", "kl", "register_kl",
]  # fmt: skip
