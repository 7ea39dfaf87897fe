"""The names of `burnpy.distributions`, made from its table by ``make generated``."""

from burnpy.distributions import bijections
from burnpy.distributions.beta import Beta, Dirichlet
from burnpy.distributions.categorical import Categorical, OneHotCategorical
from burnpy.distributions.distribution import (
    Distribution,
    Independent,
    IndependentReparametrized,
    Reparametrized,
    register_kl,
)
from burnpy.distributions.divergences import kl
from burnpy.distributions.exponential import Exponential, Weibull
from burnpy.distributions.gamma import Gamma
from burnpy.distributions.location_scale import Cauchy, Gumbel, Laplace, Logistic, LogNormal, Normal
from burnpy.distributions.mixture import Mixture
from burnpy.distributions.multinomial import Multinomial
from burnpy.distributions.multivariate_normal import MultivariateNormal
from burnpy.distributions.parameters import Constrained
from burnpy.distributions.poisson import Poisson
from burnpy.distributions.student_t import StudentT
from burnpy.distributions.successes import Bernoulli, Binomial, Geometric, NegativeBinomial
from burnpy.distributions.transformed import Transformed
from burnpy.distributions.uniform import Uniform
from burnpy.distributions.von_mises import VonMises

__all__ = [
    "Bernoulli",
    "Beta",
    "Binomial",
    "Categorical",
    "Cauchy",
    "Constrained",
    "Dirichlet",
    "Distribution",
    "Exponential",
    "Gamma",
    "Geometric",
    "Gumbel",
    "Independent",
    "IndependentReparametrized",
    "Laplace",
    "LogNormal",
    "Logistic",
    "Mixture",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "Poisson",
    "Reparametrized",
    "StudentT",
    "Transformed",
    "Uniform",
    "VonMises",
    "Weibull",
    "bijections",
    "kl",
    "register_kl",
]
