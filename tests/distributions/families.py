"""The families of distributions beside SciPy's, with parameters and values from the middle to the tails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import mpmath as mp
import numpy as np

from burnpy import distributions as d


def frozen(name: str) -> Callable[..., Any]:
    """Return the function that makes a distribution of SciPy, which is imported then: it takes a second."""

    def make(*parameters: Any, **options: Any) -> Any:
        from scipy import stats

        return getattr(stats, name)(*parameters, **options)

    return make


class Family(NamedTuple):
    """A family: how it is made, SciPy's distribution of the same parameters, and where the two are compared."""

    name: str
    make: Callable[..., Any]
    scipy: Callable[..., Any]
    parameters: tuple[tuple[float, ...], ...]  #: for each distribution of a batch, its parameters
    values: tuple[float, ...]  #: including values outside of the support, its ends, and values far in the tails

    checked: tuple[tuple[float, ...], ...] = ()  #: parameters at which densities are differentiable, by parameter
    inside: tuple[float, ...] = ()  #: values at which they are

    def has(self, distribution: Any, name: str) -> bool:
        """Whether it has a method or property, as the class overrides it."""
        return getattr(type(distribution), name) is not getattr(d.Distribution, name)

    @property
    def discrete(self) -> bool:
        """Whether its values are whole numbers."""
        return not hasattr(self.scipy(*self.parameters[0]), "pdf")


REAL = (-1e30, -1e8, -300.0, -40.0, -9.0, -3.0, -0.5, 0.0, 0.1, 1.0, 2.5, 9.0, 100.0, 1e8, 1e30)
POSITIVE = (-1.0, 0.0, 1e-30, 1e-8, 0.01, 0.3, 1.0, 2.0, 7.5, 60.0, 1e4, 1e8)
COUNTS = (-1.0, 0.0, 0.5, 1.0, 2.0, 3.0, 7.0, 20.0, 100.0, 1000.0, 1e5)


class Laplace:
    """SciPy's Laplace distribution, with a logarithm of the density that does not underflow."""

    def __init__(self, loc: Any, scale: Any) -> None:
        self._loc, self._scale, self._rest = loc, scale, frozen("laplace")(loc, scale)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rest, name)

    def logpdf(self, x: Any) -> Any:
        return -abs(x - self._loc) / self._scale - np.log(2.0 * self._scale)


class ByMpmath:
    """The interface of SciPy's distributions on [0, 1], by functions of mpmath, for families that SciPy lacks."""

    def __init__(self, *parameters: Any) -> None:
        self._parameters = np.broadcast_arrays(*parameters)

    def _each(self, f: Callable[..., Any], *x: Any) -> Any:
        def exact(*numbers: Any) -> float:
            with mp.workdps(40):
                return float(f(*[mp.mpf(float(number)) for number in numbers]))

        return np.vectorize(exact, otypes=[float])(*x, *self._parameters)

    def support(self) -> tuple[float, float]:
        return 0.0, 1.0

    def pdf(self, x: Any) -> Any:
        return np.exp(self.logpdf(x))

    def logpdf(self, x: Any) -> Any:
        return self._each(lambda x, *p: self.density(x, *p) if 0 <= x <= 1 else -mp.inf, x)

    def cdf(self, x: Any) -> Any:
        inside = self._each(lambda x, *p: self.below(x, *p) if 0 <= x <= 1 else mp.mpf(x > 1), np.nan_to_num(x))
        return np.where(np.isnan(x), np.nan, inside)

    def ppf(self, p: Any) -> Any:
        fits = (p >= 0.0) & (p <= 1.0)
        return np.where(fits, self._each(self.quantile, np.where(fits, p, 0.5)), np.nan)

    def mean(self) -> Any:
        return self._each(lambda *p: self.moment(1, *p))

    def var(self) -> Any:
        return self._each(lambda *p: self.moment(2, *p) - self.moment(1, *p) ** 2)

    def std(self) -> Any:
        return np.sqrt(self.var())

    def entropy(self) -> Any:
        def exact(*p: Any) -> Any:
            def term(u: Any) -> Any:
                with mp.workdps(150):  # next to 1 nearly all digits of a quantile are 9
                    return -self.density(self.quantile(u, *p), *p)

            with mp.workdps(20):
                return mp.quad(term, [0, 0.5, 1])

        return self._each(exact)

    density: Any
    below: Any
    quantile: Any
    moment: Any


class Kumaraswamy(ByMpmath):
    @staticmethod
    def density(x: Any, a: Any, c: Any) -> Any:
        first = 0 if a == 1 else (a - 1) * mp.log(x) if x > 0 else -mp.inf * (a - 1)
        last = 0 if c == 1 else (c - 1) * mp.log(1 - x**a) if x < 1 else -mp.inf * (c - 1)
        return mp.log(a * c) + first + last

    @staticmethod
    def below(x: Any, a: Any, c: Any) -> Any:
        return -mp.expm1(c * mp.log1p(-(x**a)))

    @staticmethod
    def quantile(p: Any, a: Any, c: Any) -> Any:
        return (-mp.expm1(mp.log1p(-p) / c)) ** (1 / a)

    @staticmethod
    def moment(n: int, a: Any, c: Any) -> Any:
        return c * mp.beta(1 + n / a, c)


class ContinuousBernoulli(ByMpmath):
    @staticmethod
    def density(x: Any, p: Any) -> Any:
        t = mp.log(p / (1 - p))
        return t * x - (mp.log(mp.expm1(t) / t) if t else 0)

    @staticmethod
    def below(x: Any, p: Any) -> Any:
        t = mp.log(p / (1 - p))
        return mp.expm1(t * x) / mp.expm1(t) if t else x

    @staticmethod
    def quantile(u: Any, p: Any) -> Any:
        t = mp.log(p / (1 - p))
        return mp.log1p(u * mp.expm1(t)) / t if t else u

    @staticmethod
    def moment(n: int, p: Any) -> Any:
        t = mp.log(p / (1 - p))
        first = 1 / (1 - mp.exp(-t)) - 1 / t if t else mp.mpf("0.5")
        second = 1 / (1 - mp.exp(-t)) - 2 / t * first if t else mp.mpf(1) / 3
        return first if n == 1 else second


LOC_SCALE = ((0.0, 1.0), (1.5, 0.3), (-20.0, 50.0))

UNIT = (-0.5, 0.0, 1e-30, 1e-8, 0.01, 0.2, 0.5, 0.75, 0.999, 1.0, 1.5)

FAMILIES = (
    Family("normal", d.Normal, frozen("norm"), LOC_SCALE, REAL, ((0.2, -1.0), (1.5, 0.4)), (0.3, -2.0, 2.2)),
    Family("laplace", d.Laplace, Laplace, LOC_SCALE, REAL, ((0.2, -1.0), (1.5, 0.4)), (0.3, -2.0, 2.2)),
    Family("cauchy", d.Cauchy, frozen("cauchy"), LOC_SCALE, REAL, ((0.2, -1.0), (1.5, 0.4)), (0.3, -2.0, 2.2)),
    Family("gumbel", d.Gumbel, frozen("gumbel_r"), LOC_SCALE, REAL, ((0.2, -1.0), (1.5, 0.4)), (0.3, -2.0, 2.2)),
    Family("logistic", d.Logistic, frozen("logistic"), LOC_SCALE, REAL, ((0.2, -1.0), (1.5, 0.4)), (0.3, -2.0, 2.2)),
    Family(
        "uniform",
        d.Uniform,
        lambda a, b: frozen("uniform")(a, b - a),
        ((0.0, 1.0), (-3.0, 2.75)),
        (-5.0, -3.0, -1.0, 0.0, 0.25, 1.5, 9.0),
        ((0.2, -1.0), (3.5, 2.4)),
        (0.3, 1.3),
    ),
    Family(
        "exponential",
        d.Exponential,
        lambda r: frozen("expon")(scale=1 / r),
        ((1.0,), (1e-3,), (40.0,)),
        POSITIVE,
        ((0.4, 2.0),),
        (0.3, 1.3, 4.0),
    ),
    Family(
        "weibull",
        d.Weibull,
        lambda s, k: frozen("weibull_min")(k, scale=s),
        ((1.0, 1.0), (2.0, 0.4), (0.5, 3.0)),
        POSITIVE,
        ((0.4, 2.0), (1.4, 0.6)),
        (0.3, 1.3, 4.0),
    ),
    Family(
        "gamma",
        d.Gamma,
        lambda a, r: frozen("gamma")(a, scale=1 / r),
        ((1.0, 1.0), (0.2, 3.0), (3.5, 0.5), (12.0, 2.0), (1000.0, 130.0)),
        POSITIVE,
        ((0.4, 12.0), (1.5, 3.0)),
        (0.3, 1.3, 4.0),
    ),
    Family(
        "bernoulli",
        d.Bernoulli,
        frozen("bernoulli"),
        ((0.0,), (1.0,), (0.3,), (1e-12,)),
        (-1.0, 0.0, 0.5, 1.0, 2.0),
        ((0.3, 0.8),),
        (0.0, 1.0),
    ),
    Family(
        "geometric",
        d.Geometric,
        lambda p: frozen("geom")(p, loc=-1),
        ((0.5,), (1e-6,), (1.0,)),
        COUNTS,
        ((0.3, 0.8),),
        (0.0, 1.0, 4.0),
    ),
    Family(
        "binomial",
        d.Binomial,
        frozen("binom"),
        ((0.0, 0.5), (1.0, 0.25), (20.0, 0.3), (20.0, 0.0), (20.0, 1.0), (1000.0, 1e-9), (10000.0, 0.6)),
        COUNTS,
        ((5.0, 30.0), (0.3, 0.8)),
        (0.0, 1.0, 4.0),
    ),
    Family(
        "negative binomial",
        d.NegativeBinomial,
        lambda n, p: frozen("nbinom")(n, 1 - p),
        ((1.0, 0.5), (0.1, 0.9), (30.0, 0.25), (1e4, 0.1)),
        COUNTS,
        ((4.0, 30.5), (0.3, 0.8)),
        (0.0, 1.0, 4.0),
    ),
    Family(
        "poisson",
        d.Poisson,
        frozen("poisson"),
        ((0.0,), (1.0,), (0.01,), (25.0,), (900.0,)),
        COUNTS,
        ((3.0, 9.5),),
        (0.0, 1.0, 4.0),
    ),
    Family(
        "log-normal",
        d.LogNormal,
        lambda m, s: frozen("lognorm")(s, scale=np.exp(m)),
        LOC_SCALE[:2],
        POSITIVE,
        ((0.2, -1.0), (1.5, 0.4)),
        (0.3, 1.3, 4.0),
    ),
    Family(
        "beta",
        d.Beta,
        frozen("beta"),
        ((1.0, 1.0), (0.2, 3.0), (2.0, 0.5), (30.0, 40.0), (1000.0, 130.0)),
        UNIT,
        ((0.4, 12.0), (1.5, 3.0)),
        (0.3, 0.8),
    ),
    Family(
        "student's t",
        d.StudentT,
        frozen("t"),
        ((1.0, 0.0, 1.0), (0.3, 1.0, 2.0), (5.0, 0.0, 0.5), (2.5, 0.0, 1.0), (300.0, 1.0, 1.0)),
        (0.0, *REAL),
        ((1.5, 30.0), (0.2, -1.0), (1.5, 0.4)),
        (0.3, -2.0, 9.0),
    ),
    Family(
        "von Mises",
        d.VonMises,
        lambda m, k: frozen("vonmises")(k, loc=m),
        ((0.0, 1.0), (0.0, 0.01), (0.0, 30.0), (-2.0, 400.0)),
        (-3.0, -2.1, -1.0, 0.0, 0.5, 1.0, 3.1),
        ((0.4, 1.0), (0.7, 3.0)),
        (0.3, -2.0, 1.9),
    ),
    Family(
        "half-normal",
        d.HalfNormal,
        lambda s: frozen("halfnorm")(scale=s),
        ((1.0,), (0.3,), (50.0,)),
        POSITIVE,
        ((1.5, 0.4),),
        (0.3, 1.3, 4.0),
    ),
    Family(
        "half-Cauchy",
        d.HalfCauchy,
        lambda s: frozen("halfcauchy")(scale=s),
        ((1.0,), (0.3,), (50.0,)),
        POSITIVE,
        ((1.5, 0.4),),
        (0.3, 1.3, 4.0),
    ),
    Family(
        "Pareto",
        d.Pareto,
        lambda s, a: frozen("pareto")(a, scale=s),
        ((1.0, 1.0), (0.3, 2.5), (5.0, 30.0)),
        POSITIVE,
        ((0.2, 0.3), (2.0, 0.4)),
        (0.4, 1.3, 4.0),
    ),
    Family("chi-squared", d.Chi2, frozen("chi2"), ((2.0,), (0.3,), (40.0,)), POSITIVE, ((1.5, 12.0),), (0.3, 1.3, 4.0)),
    Family(
        "inverse gamma",
        d.InverseGamma,
        lambda a, r: frozen("invgamma")(a, scale=r),
        ((1.0, 1.0), (0.4, 3.0), (3.5, 0.5), (12.0, 2.0), (1000.0, 130.0)),
        POSITIVE,
        ((0.4, 12.0), (1.5, 3.0)),
        (0.3, 1.3, 4.0),
    ),
    Family(
        "F",
        d.FisherSnedecor,
        frozen("f"),
        ((2.0, 3.0), (0.6, 7.0), (30.0, 40.0), (5.0, 1000.0)),
        (-1.0, 0.0, *POSITIVE[3:]),
        ((1.5, 12.0), (4.5, 30.0)),
        (0.3, 1.3, 4.0),
    ),
    Family(
        "Kumaraswamy",
        d.Kumaraswamy,
        Kumaraswamy,
        ((1.0, 1.0), (0.2, 3.0), (2.0, 0.5), (30.0, 4.0)),
        UNIT,
        ((0.4, 12.0), (1.5, 3.0)),
        (0.3, 0.8),
    ),
    Family(
        "continuous Bernoulli",
        d.ContinuousBernoulli,
        ContinuousBernoulli,
        ((0.5,), (0.5000001,), (0.2,), (0.9,), (1e-9,)),
        UNIT,
        ((0.3, 0.8),),
        (0.3, 0.8),
    ),
)
