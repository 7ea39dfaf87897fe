"""The names of `burnpy.distributions`, made from its table by ``python -m burnpy.docs.stubs``."""

from burnpy.distributions import bijections
from burnpy.distributions.bernoulli import Bernoulli
from burnpy.distributions.binomial import Binomial, NegativeBinomial
from burnpy.distributions.categorical import Categorical, OneHotCategorical
from burnpy.distributions.cauchy import Cauchy
from burnpy.distributions.distribution import Distribution, Independent, IndependentReparametrized, Reparametrized
from burnpy.distributions.divergences import kl, register_kl
from burnpy.distributions.exponential import Exponential, Weibull
from burnpy.distributions.gamma import Gamma
from burnpy.distributions.geometric import Geometric
from burnpy.distributions.gumbel import Gumbel
from burnpy.distributions.laplace import Laplace
from burnpy.distributions.logistic import Logistic
from burnpy.distributions.multivariate_normal import MultivariateNormal
from burnpy.distributions.normal import Normal
from burnpy.distributions.parameters import Constrained
from burnpy.distributions.poisson import Poisson
from burnpy.distributions.uniform import Uniform

__all__ = [
    "Bernoulli",
    "Binomial",
    "Categorical",
    "Cauchy",
    "Constrained",
    "Distribution",
    "Exponential",
    "Gamma",
    "Geometric",
    "Gumbel",
    "Independent",
    "IndependentReparametrized",
    "Laplace",
    "Logistic",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "Poisson",
    "Reparametrized",
    "Uniform",
    "Weibull",
    "bijections",
    "kl",
    "register_kl",
]
