"""Densities at the ends of their supports, at infinities and at certain events, with slopes, beside mpmath."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import mpmath as mp
import numpy as np
import pytest

from burnpy import Autodiff, Generator, IntTensor, Tensor, compiled, func
from burnpy import distributions as d
from burnpy.backend import NumPy
from tests.distributions.families import FAMILIES, Family
from tests.rows import every_row

T = Tensor[NumPy]
INF, NAN = math.inf, math.nan
NONE = -mp.inf
log, lgamma = mp.log, mp.loggamma


def f64(values: Any) -> Tensor[NumPy]:
    return T.from_data(values, dtype="float64")


def times_log(x: Any, p: Any) -> Any:
    """x · log(p), which is 0 for x = 0."""
    return 0 if x == 0 else x * log(p) if p > 0 else NONE


def power(x: Any, a: Any) -> Any:
    """(a - 1) · log(x), the logarithm of x^(a - 1)."""
    return 0 if a == 1 else (a - 1) * log(x) if x > 0 else (NONE if a > 1 else mp.inf)


def whole(x: Any) -> bool:
    return bool(mp.isfinite(x) and x >= 0 and x == mp.floor(x))


def log_beta(a: Any, c: Any) -> Any:
    return lgamma(a) + lgamma(c) - lgamma(a + c)


def normal(x: Any, m: Any, s: Any) -> Any:
    return -(((x - m) / s) ** 2) / 2 - log(s) - log(2 * mp.pi) / 2


def continuous_bernoulli(x: Any, t: Any) -> Any:
    return t * x - log(mp.expm1(t) / t) if t else mp.mpf(0)


class Density(NamedTuple):
    """A family: how it is made, mpmath's logarithm of its density, and its parameters and values."""

    make: Callable[..., Any]
    log_prob: Callable[..., Any]
    parameters: tuple[tuple[float, ...], ...]
    values: tuple[float, ...]
    discrete: bool = False

    def columns(self, dtype: str) -> list[Any]:
        rows = [(x, *p) for x in self.values for p in self.parameters]
        return [np.array(column, dtype) for column in zip(*rows, strict=True)]


REAL, POSITIVE = (-INF, -2.0, 0.0, 0.5, 3.0, INF, NAN), (-INF, -1.0, 0.0, 0.4, 3.0, INF, NAN)
COUNTS = (-INF, -1.0, 0.0, 1.0, 7.0, 0.5, 8.0, INF, NAN)
LOC_SCALE = ((0.0, 1.0), (1.5, 0.3))


def made(cls: Any, **settings: Any) -> Callable[..., Any]:
    return lambda *p: cls(*p, **settings, validate=False)


DENSITIES = {
    "normal": Density(d.Normal, normal, LOC_SCALE, REAL),
    "log-normal": Density(
        d.LogNormal, lambda x, m, s: normal(log(x), m, s) - log(x) if 0 < x < INF else NONE, LOC_SCALE, POSITIVE
    ),
    "laplace": Density(d.Laplace, lambda x, m, s: -abs((x - m) / s) - log(2 * s), LOC_SCALE, REAL),
    "logistic": Density(
        d.Logistic,
        lambda x, m, s: -(x - m) / s - 2 * log(1 + mp.exp(-(x - m) / s)) - log(s) if mp.isfinite(x) else NONE,
        LOC_SCALE,
        REAL,
    ),
    "cauchy": Density(d.Cauchy, lambda x, m, s: -log(mp.pi * s * (1 + ((x - m) / s) ** 2)), LOC_SCALE, REAL),
    "gumbel": Density(
        d.Gumbel,
        lambda x, m, s: -(x - m) / s - mp.exp(-(x - m) / s) - log(s) if mp.isfinite(x) else NONE,
        LOC_SCALE,
        REAL,
    ),
    "uniform": Density(
        d.Uniform, lambda x, a, c: -log(c - a) if a <= x < c else NONE, ((0.0, 1.0), (-1.0, 0.5)), (*REAL, 1.0)
    ),
    "exponential": Density(
        d.Exponential, lambda x, r: log(r) - r * x if 0 <= x < INF else NONE, ((4.0,), (0.5,)), POSITIVE
    ),
    "weibull": Density(
        d.Weibull,
        lambda x, s, k: log(k / s) + power(x / s, k) - (x / s) ** k if 0 <= x < INF else NONE,
        ((2.0, 1.0), (2.0, 0.6), (2.0, 2.0), (1.0, 3.0)),
        POSITIVE,
    ),
    "gamma": Density(
        d.Gamma,
        lambda x, a, r: a * log(r) - lgamma(a) + power(x, a) - r * x if 0 <= x < INF else NONE,
        ((1.0, 2.0), (0.6, 3.0), (2.0, 0.5), (40.0, 3.0)),
        POSITIVE,
    ),
    "beta": Density(
        d.Beta,
        lambda x, a, c: power(x, a) + power(1 - x, c) - log_beta(a, c) if 0 <= x <= 1 else NONE,
        ((1.0, 8.0), (8.0, 1.0), (1.0, 1.0), (0.4, 0.3), (2.0, 3.0)),
        (*POSITIVE, 1.0),
    ),
    "student's t": Density(
        d.StudentT,
        lambda x, v, m, s: (
            lgamma((v + 1) / 2)
            - lgamma(v / 2)
            - log(v * mp.pi) / 2
            - log(s)
            - (v + 1) / 2 * log(1 + ((x - m) / s) ** 2 / v)
        ),
        ((1.0, 0.0, 1.0), (0.3, 1.0, 2.0), (30.0, -1.0, 0.5)),
        REAL,
    ),
    "von Mises": Density(
        d.VonMises,
        lambda x, m, k: k * mp.cos(x - m) - log(2 * mp.pi * mp.besseli(0, k)),
        ((0.0, 0.01), (1.0, 30.0)),
        (-3.0, 0.0, 0.5, NAN),
    ),
    "half-normal": Density(
        d.HalfNormal, lambda x, s: normal(x, 0, s) + log(2) if 0 <= x < INF else NONE, ((1.0,), (0.3,)), POSITIVE
    ),
    "half-Cauchy": Density(
        d.HalfCauchy,
        lambda x, s: log(2) - log(mp.pi * s * (1 + (x / s) ** 2)) if 0 <= x < INF else NONE,
        ((1.0,), (0.3,)),
        POSITIVE,
    ),
    "Pareto": Density(
        d.Pareto,
        lambda x, s, a: log(a) + a * log(s) - (a + 1) * log(x) if s <= x < INF else NONE,
        ((0.4, 1.0), (2.0, 5.0)),
        (*POSITIVE, 2.0),
    ),
    "inverse gamma": Density(
        d.InverseGamma,
        lambda x, a, r: a * log(r) - lgamma(a) - (a + 1) * log(x) - r / x if 0 < x < INF else NONE,
        ((1.0, 2.0), (0.6, 3.0), (40.0, 3.0)),
        POSITIVE,
    ),
    "F": Density(
        d.FisherSnedecor,
        lambda x, v, w: (
            (v * log(v / w) / 2 + power(x, v / 2) - (v + w) / 2 * log(1 + v * x / w) - log_beta(v / 2, w / 2))
            if 0 <= x < INF
            else NONE
        ),
        ((2.0, 3.0), (0.6, 7.0), (5.0, 30.0)),
        POSITIVE,
    ),
    "Kumaraswamy": Density(
        d.Kumaraswamy,
        lambda x, a, c: log(a * c) + power(x, a) + power(1 - x**a, c) if 0 <= x <= 1 else NONE,
        ((1.0, 8.0), (8.0, 1.0), (1.0, 1.0), (0.4, 0.3), (2.0, 3.0)),
        (*POSITIVE, 1.0),
    ),
    "continuous Bernoulli": Density(
        d.ContinuousBernoulli,
        lambda x, p: continuous_bernoulli(x, log(p / (1 - p))) if 0 <= x <= 1 else NONE,
        ((0.5,), (0.49999,), (0.3,), (0.9999,)),
        (*POSITIVE, 0.5, 1.0),
    ),
    "continuous Bernoulli by logits": Density(
        lambda t: d.ContinuousBernoulli(logits=t),
        lambda x, t: continuous_bernoulli(x, t) if 0 <= x <= 1 else NONE,
        ((0.0,), (1e-9,), (1.0,), (-90.0,), (0.99,), (1.01,)),
        (*POSITIVE, 0.5, 1.0),
    ),
    "relaxed Bernoulli": Density(
        lambda t, a: d.RelaxedBernoulli(t, logits=a),
        lambda x, t, a: (
            (
                log(t) + a - (t + 1) * log(x / (1 - x)) - 2 * log(1 + mp.exp(a) * ((1 - x) / x) ** t) - 2 * log(1 - x)
                if 0 < x < 1
                else (-a if x == 0 else a)
                if t == 1
                else (mp.inf if t < 1 else NONE)
            )
            if 0 <= x <= 1
            else NONE
        ),
        ((1.0, 0.5), (0.5, -1.0), (2.0, 3.0)),
        (*POSITIVE, 0.5, 1.0),
    ),
    "bernoulli": Density(
        made(d.Bernoulli),
        lambda x, p: times_log(x, p) + times_log(1 - x, 1 - p) if x in (0, 1) else NONE,
        ((0.0,), (1.0,), (0.3,), (1e-30,)),
        COUNTS,
        True,
    ),
    "bernoulli by logits": Density(
        lambda x: d.Bernoulli(logits=x, validate=False),
        lambda x, t: -log(1 + mp.exp(t if x == 0 else -t)) if x in (0, 1) else NONE,
        ((0.0,), (-90.0,), (90.0,), (0.3,)),
        COUNTS,
        True,
    ),
    "geometric": Density(
        made(d.Geometric),
        lambda x, p: times_log(x, 1 - p) + log(p) if whole(x) else NONE,
        ((1.0,), (0.3,), (1e-8,)),
        COUNTS,
        True,
    ),
    "binomial": Density(
        made(d.Binomial),
        lambda x, n, p: (
            times_log(x, p) + times_log(n - x, 1 - p) + lgamma(n + 1) - lgamma(x + 1) - lgamma(n - x + 1)
            if whole(x) and x <= n
            else NONE
        ),
        ((7.0, 0.3), (7.0, 0.0), (7.0, 1.0), (7.0, 1e-20), (0.0, 0.4), (1.0, 0.5)),
        COUNTS,
        True,
    ),
    "negative binomial": Density(
        made(d.NegativeBinomial),
        lambda x, n, p: (
            (times_log(x, p) + times_log(n, 1 - p) + (lgamma(n + x) - lgamma(x + 1) - lgamma(n) if x > 0 else 0))
            if whole(x) and (n > 0 or x == 0)
            else NONE
        ),
        ((7.0, 0.3), (0.5, 0.0), (7.0, 1.0), (2.0, 1e-20), (1e5, 0.01), (0.0, 0.5)),
        COUNTS,
        True,
    ),
    "poisson": Density(
        made(d.Poisson),
        lambda x, r: times_log(x, r) - r - lgamma(x + 1) if whole(x) else NONE,
        ((0.0,), (0.3,), (40.0,)),
        COUNTS,
        True,
    ),
}


def slopes(f: Callable[..., Any], at: list[Any], k: int) -> Iterator[float]:
    """Yield the difference quotients to both sides that are finite, by argument k."""
    h = mp.mpf(10) ** -25 * max(1, abs(at[k])) if at[k] == 0 else abs(at[k]) * mp.mpf(10) ** -20
    value = f(*at)
    for step in (h, -h):
        try:
            other = f(*at[:k], at[k] + step, *at[k + 1 :])
        except (ValueError, ZeroDivisionError):
            continue
        if not mp.isinf(other) and not isinstance(other, mp.mpc):
            yield float((other - value) / step)


@pytest.mark.slowest
@every_row("name", DENSITIES)
@pytest.mark.parametrize(("dtype", "rtol"), [("float64", 1e-9), pytest.param("float32", 2e-4, marks=pytest.mark.long)])
def test_densities_and_slopes(name: str, dtype: str, rtol: float) -> None:
    """Values to the ends; slopes in both modes, one-sided at an end; none is NaN, nor a second one."""
    density = DENSITIES[name]
    columns = density.columns(dtype)
    tensors = [T.from_data(column) for column in columns]

    def log_prob(x: Any, *parameters: Any) -> Any:
        return density.make(*parameters).log_prob(x)

    every = tuple(range(len(tensors)))
    with np.errstate(all="ignore"):
        found = log_prob(*tensors).to_numpy()
        reverse = func.grad(lambda *xs: log_prob(*xs).sum(), argnums=every)(*tensors)
        forward, second = [], []
        for k, x in enumerate(tensors):
            alone = lambda x, k=k: log_prob(*tensors[:k], x, *tensors[k + 1 :])  # noqa: E731
            forward.append(func.jvp(alone, (x,), (x.ones_like(),))[1].to_numpy())
            second.append(func.grad(lambda x, f=alone: func.grad(lambda x: f(x).sum())(x).sum())(x).to_numpy())
    with mp.workdps(70):
        for row, numbers in enumerate(zip(*columns, strict=True)):
            if np.isnan(numbers).any():
                assert np.isnan(found[row]), numbers
                continue
            at = [mp.mpf(float(x)) for x in numbers]
            expected = density.log_prob(*at)
            assert found[row] == pytest.approx(float(expected), rel=rtol, abs=rtol), numbers
            for k in every[density.discrete :]:
                slope = reverse[k].to_numpy()[row]
                assert slope == pytest.approx(forward[k][row], rel=rtol, abs=rtol), (numbers, k)
                assert not np.isnan(second[k][row]), (numbers, k)
                sides = [] if mp.isinf(expected) else list(slopes(density.log_prob, at, k))
                if sides:
                    assert slope == pytest.approx(sum(sides) / len(sides), rel=rtol, abs=rtol), (numbers, k)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("far", [1e5, 1e25])
def test_slopes_far_from_the_mode(dtype: str, far: float) -> None:
    """Each density is a^power times what does not depend on the power: the slope is a logarithm."""
    a, values = T.from_data(2.0, dtype=dtype), T.from_data([far, 1.0 / far], dtype=dtype)
    slope = math.log(3.0) - float(mp.digamma(2)) + math.log(far)
    for x, family in zip(values, (d.Gamma, d.InverseGamma), strict=True):
        log_prob = lambda a, x=x, family=family: family(a, 3.0).log_prob(x)  # noqa: E731
        found = func.grad(log_prob)(a), func.jvp(log_prob, (a,), (a.ones_like(),))[1]
        assert [y.item() for y in found] == pytest.approx([slope] * 2, rel=4 * float(np.finfo(dtype).eps))
    rate = T.from_data(0.0, dtype=dtype)
    assert func.grad(lambda x: d.Poisson(rate).log_prob(x))(rate + 1.0).item() == 0.0
    assert func.grad(lambda p: d.Gumbel(0.0, 1.0, device=NumPy).icdf(p))(rate + 1.0).item() == INF


@pytest.mark.parametrize(
    ("family", "entropy"),
    [
        (lambda n: d.Gamma(n, 1.0), 0.5 * math.log(2e6 * math.pi * math.e)),
        (lambda n: d.StudentT(n), 0.5 * math.log(2 * math.pi * math.e)),
        (lambda n: d.Beta(n, n), 0.5 * math.log(2 * math.pi * math.e / 8e6)),
        (lambda n: d.Dirichlet(n.expand((2,))), 0.5 * math.log(2 * math.pi * math.e / 8e6)),
    ],
)
def test_entropies_of_large_parameters_are_those_of_normal_distributions(family: Any, entropy: float) -> None:
    assert family(T.from_data(1e6, dtype="float32")).entropy().item() == pytest.approx(entropy, abs=3e-6)


def value_and_slope(make: Callable[..., Any], x: Any, *parameters: Any) -> Any:
    return func.value_and_grad(lambda p: make(p, *parameters[1:]).log_prob(x).sum())(parameters[0])


@pytest.mark.slowest
@every_row("name", DENSITIES)
def test_rows_of_a_batch_at_the_ends(name: str) -> None:
    density = DENSITIES[name]
    make, tensors = density.make, [T.from_data(column) for column in density.columns("float64")]
    with np.errstate(all="ignore"):
        _, slope = value_and_slope(make, *tensors)
        each = func.vmap(lambda *xs: value_and_slope(make, *xs))(*tensors)
        expected = density.make(*tensors[1:]).log_prob(tensors[0]).to_numpy()
    np.testing.assert_allclose(each[0].to_numpy(), expected, 1e-12)
    np.testing.assert_allclose(each[1].to_numpy(), slope.to_numpy(), 1e-9, 1e-12)


@pytest.mark.slowest
@every_row("name", DENSITIES)
def test_kernels_at_the_ends(name: str) -> None:
    """Kernels of plans and of large arrays have the values and slopes of operations one by one."""
    density = DENSITIES[name]
    make, tensors = density.make, [T.from_data(column) for column in density.columns("float64")]
    with np.errstate(all="ignore"):
        _, slope = value_and_slope(make, *tensors)
        _, large = value_and_slope(make, *[x.tile((60,)) for x in tensors])
        _, recorded = compiled(lambda *xs: value_and_slope(make, *xs))(*tensors)
    for found in (recorded, large[: slope.shape[0]]):
        np.testing.assert_allclose(found.to_numpy(), slope.to_numpy(), 1e-9, 1e-12)


@pytest.mark.slow
@every_row("dtype", ["float32", "float64"])
def test_slopes_near_0_of_densities_that_are_finite_there(dtype: str) -> None:
    """They are no differences of numbers like 1 / x."""
    x = Tensor[NumPy].from_data([1e-12, 1e-8, 1e-3], dtype=dtype)
    one, two, three = (x.full_like(number) for number in (1.0, 2.0, 3.0))
    rest, odds = 1.0 / (1.0 - x), 5.0 / (3.0 + 2.0 * x)
    for density, expected, curvature in (
        (d.FisherSnedecor(two, three), -odds, 0.4 * odds.square()),
        (d.Beta(one, two), -rest, -rest.square()),
        (d.Gamma(one, two), -two, 0.0 * two),
    ):
        slope: Any = func.grad(lambda x, density=density: density.log_prob(x).sum())
        second: Any = func.grad(lambda x, slope=slope: slope(x).sum())
        rtol = 4e-7 if dtype == "float32" else 1e-14
        np.testing.assert_allclose(slope(x).to_numpy(), expected.to_numpy(), rtol)
        np.testing.assert_allclose(second(x).to_numpy(), curvature.to_numpy(), rtol)


@pytest.mark.slow
@every_row("family", FAMILIES, ids=lambda family: family.name)
def test_distribution_functions_at_the_ends(family: Family) -> None:
    """At infinities, ends of the support, probabilities 0, 1 and beyond; slopes by parameters are finite."""
    columns = [np.array(column) for column in zip(*family.parameters, strict=True)]
    ours, theirs = family.make(*map(T.from_data, columns)), family.scipy(*columns)
    ends = [end for side in theirs.support() for end in np.ravel(side)[:1]]
    x = np.array([-INF, INF, *ends, NAN])[:, None]
    with np.errstate(all="ignore"):
        if family.has(ours, "_cdf"):
            np.testing.assert_allclose(ours.cdf(T.from_data(x)).to_numpy(), theirs.cdf(x), 1e-12)
            for k in range(len(columns)):

                def cdf(p: Any, k: int = k) -> Any:
                    return family.make(*[p if i == k else T.from_data(c) for i, c in enumerate(columns)]).cdf(
                        T.from_data(x[:-1])
                    )

                assert not func.grad(lambda p: cdf(p).sum())(T.from_data(columns[k])).isnan().any()
            found = ours.log_cdf(T.from_data(x[:2])).to_numpy()
            np.testing.assert_array_equal(found, np.array([[-INF], [0.0]]) + 0.0 * found[1])
        if family.has(ours, "_icdf") and not family.discrete:
            p = np.array([0.0, 1.0, -0.1, 1.1, NAN])[:, None]
            np.testing.assert_allclose(ours.icdf(T.from_data(p)).to_numpy(), theirs.ppf(p), 1e-12)


@pytest.mark.slow
@every_row(
    ("make", "value"),
    [
        (lambda a: d.Gamma(a, 1.0), 0.7),
        (lambda a: d.Chi2(2.0 * a), 0.7),
        (lambda a: d.Weibull(2.0, a), 0.7),
        (lambda a: d.Kumaraswamy(a, 2.0), 0.7),
        (lambda a: d.RelaxedBernoulli(a, logits=0.3), 0.7),
    ],
)
def test_mixed_derivatives_of_densities_that_are_infinite_at_an_end(make: Callable[[Any], Any], value: float) -> None:
    """By the value and a shape below 1; and the second one of a quantile by the shape, which is found through them."""
    a, x = f64(0.4), f64(value)
    slope: Any = func.grad(lambda x, a: make(a).cdf(x))
    density = func.grad(lambda a: make(a).log_prob(x).exp())(a).item()
    assert func.grad(lambda a: slope(x, a))(a).item() == pytest.approx(density, rel=1e-9)
    rate: Any = func.grad(lambda a: make(a).icdf(x))
    step = 1e-5
    expected = (rate(a + step) - rate(a - step)).item() / (2 * step)
    assert func.grad(rate)(a).item() == pytest.approx(expected, rel=1e-5)


def test_quantiles_and_tails_of_student_t_do_not_overflow() -> None:
    for df, p, expected in ((0.3, 1e-60, -3.0071858087911e198), (1.0, 1e-300, -3.1830988618379e299)):
        quantile = d.StudentT(f64(df)).icdf(f64(p))
        assert quantile.item() == pytest.approx(expected, rel=1e-10)
        assert d.StudentT(f64(df)).cdf(quantile).item() == pytest.approx(p, rel=1e-10)


@pytest.mark.parametrize(
    ("make", "parameter", "p", "limit"),
    [
        (lambda a: d.StudentT(a, 0.0, 1.0), 0.5, 1e-300, -INF),
        (lambda a: d.Gamma(a, 1.0), 1e-3, 1e-20, 0.0),
        (lambda a: d.Beta(a, 0.5), 1e-3, 1e-20, 0.0),
        (lambda a: d.FisherSnedecor(a, 0.5), 0.02, 1e-20, 0.0),
    ],
)
def test_quantiles_that_no_number_is_near_are_constant(make: Any, parameter: float, p: float, limit: float) -> None:
    value, slope = func.value_and_grad(lambda a: make(a).icdf(f64(p)))(f64(parameter))
    assert (value.item(), slope.item()) == (limit, 0.0)


LOGITS = [0.0, -200.0, 1.0]
CLASSES: dict[str, Callable[..., Any]] = {
    "log_prob": lambda c, t: c(d.Categorical, t).log_prob(IntTensor[NumPy].from_data(0)),
    "entropy": lambda c, t: c(d.Categorical, t).entropy(),
    "kl": lambda c, t: d.kl(c(d.Categorical, t), d.Categorical(t.detach().exp() + 1.0)),
    "kl of the other": lambda c, t: d.kl(d.Categorical(t.detach().exp()), c(d.Categorical, t)),
    "one-hot": lambda c, t: c(d.OneHotCategorical, t).log_prob(T.from_data([1.0, 0.0, 0.0])),
    "multinomial": lambda c, t: c(lambda *a, **k: d.Multinomial(3, *a, **k), t).log_prob(T.from_data([1.0, 0.0, 2.0])),
    "multinomial's entropy": lambda c, t: c(lambda *a, **k: d.Multinomial(3, *a, **k), t).entropy(),
    "mixture": lambda c, t: d.Mixture(c(d.Categorical, t), d.Normal(T.from_data([0.0, 1.0, 2.0]), 1.0)).log_prob(
        T.from_data(0.3)
    ),
    "mixture's variance": lambda c, t: (
        d.Mixture(c(d.Categorical, t), d.Normal(T.from_data([0.0, 1.0, 2.0]), 1.0)).variance
    ),
}


@every_row("name", CLASSES)
def test_probabilities_that_underflowed(name: str) -> None:
    """By softmax in float32 a probability is 0; slopes by its logits are those of logits in float64."""
    f = CLASSES[name]
    found = func.grad(lambda t: f(lambda make, t: make(t.softmax(-1)), t))(T.from_data(LOGITS))
    exact = func.grad(lambda t: f(lambda make, t: make(logits=t), t))(f64(LOGITS))
    np.testing.assert_allclose(found.to_numpy(), exact.to_numpy(), 2e-6, 1e-7)


def test_a_class_or_a_component_that_is_impossible() -> None:
    first = func.grad(lambda t: d.Categorical(t.softmax(-1)).log_prob(IntTensor[NumPy].from_data(0)))
    np.testing.assert_allclose(first(T.from_data(LOGITS)).to_numpy(), [0.7310586, 0.0, -0.7310586], 1e-6)
    density = lambda w: d.Mixture(d.Categorical(w), d.Normal(T.from_data([0.0, 1.0]), 1.0)).log_prob(T.from_data(0.3))  # noqa: E731
    ratio = math.exp(-0.5 * (0.7**2 - 0.3**2))
    assert func.grad(density)(T.from_data([1.0, 0.0])).tolist() == pytest.approx([0.0, ratio - 1.0])
    outside = lambda w: d.Mixture(d.Categorical(w), d.Exponential(T.from_data([1.0, 2.0]))).log_prob(T.from_data(-1.0))  # noqa: E731
    assert func.grad(outside)(T.from_data([0.5, 0.5])).tolist() == [0.0, 0.0]
    for entropy in (
        lambda p: d.Bernoulli(p).entropy(),
        lambda p: d.Binomial(5, p).entropy(),
        lambda p: d.Geometric(p, validate=False).entropy(),
    ):
        slope = func.grad(lambda t, f=entropy: f(t.sigmoid()).sum())  # of sigmoids that are rounded to 1
        assert slope(T.from_data([30.0, 200.0])).tolist() == [0.0, 0.0]
        assert func.grad(lambda p, f=entropy: f(p).sum())(T.from_data([1.0])).isfinite().all()


NEAR: dict[str, Any] = {
    **dict.fromkeys(("Chi2", "HalfNormal", "HalfCauchy", "ContinuousBernoulli"), (0.3,)),
    **dict.fromkeys(("Pareto", "InverseGamma"), (0.7, 1.5)),
    **dict.fromkeys(("Normal", "LogNormal", "Laplace", "Cauchy", "Gumbel"), (0.5, 1.5)),
    **dict.fromkeys(("Weibull", "Gamma", "Beta"), (0.7, 1.5)),
    **dict.fromkeys(("Exponential", "Bernoulli", "Geometric", "Poisson"), (0.3,)),
    "Categorical": (np.array([0.2, 0.3, 0.5]),),
    "Dirichlet": (np.array([0.2, 0.3, 5.0]),),
}


@every_row(
    ("make", "information"),
    [
        (lambda p: d.Cauchy(p, p + 1.0), 1.0),
        (lambda p: d.HalfCauchy(p + 1.0), 0.5),
        (lambda p: d.Normal(p, p + 1.0), 3.0),
        (lambda p: d.Gumbel(0.0 * p, (1.0 + p).reciprocal()), 1.8236806608528794),
        (lambda p: d.Exponential(p + 1.0), 1.0),
    ],
)
def test_the_second_derivative_of_a_divergence_is_the_information(make: Any, information: float) -> None:
    at, slope = f64(0.0), func.grad(lambda q: d.kl(make(f64(0.0)), make(q)))
    assert func.grad(slope)(at).item() == pytest.approx(information, rel=1e-12)


@every_row("name", NEAR)
def test_divergences_of_nearly_equal_distributions(name: str) -> None:
    """They are not negative, have their digits in float32, and are 0 of a distribution itself."""
    rng, make = np.random.default_rng(0), getattr(d, name)
    parameters = [np.broadcast_to(p, (50, *np.shape(p))).astype(np.float32) for p in NEAR[name]]
    for change in (1e-2, 1e-4, 1e-6):
        moved = [(p * (1.0 + change * rng.normal(size=p.shape))).astype(np.float32) for p in parameters]
        p, q = (make(*map(T.from_data, values)) for values in (parameters, moved))
        found = d.kl(p, q).to_numpy()
        wide = [make(*[T.from_data(x.astype(np.float64)) for x in values]) for values in (parameters, moved)]
        exact = d.kl(*wide).to_numpy()
        assert (found >= 0.0).all()
        assert (exact >= 0.0).all()
        assert (d.kl(p, p).to_numpy() == 0.0).all()
        np.testing.assert_allclose(found, exact, *((1e-2, 1e-13) if name == "Categorical" else (1e-6, 1e-16)))


OPEN: dict[str, Callable[[Any], Any]] = {
    "beta": lambda z: d.Beta(z + 0.01, 0.01),
    "gamma": lambda z: d.Gamma(z + 0.001, 1.0),
    "dirichlet": lambda z: d.Dirichlet((z + 0.01).expand((3,))),
    "student's t": lambda z: d.StudentT(z + 0.01),
    "weibull": lambda z: d.Weibull(z + 1.0, 0.01),
    "log-normal": lambda z: d.LogNormal(z, 300.0),
    "uniform": lambda z: d.Uniform(z + 1000.0, 1016.0),
    "sigmoid": lambda z: d.Transformed(d.Normal(z, 100.0), d.bijections.Sigmoid()),
    "tanh": lambda z: d.Transformed(d.Normal(z, 100.0), d.bijections.Tanh()),
    "exp": lambda z: d.Transformed(d.Normal(z, 300.0), d.bijections.Exp()),
    "half-Cauchy": lambda z: d.HalfCauchy(z + 1.0),
    "Pareto": lambda z: d.Pareto(z + 2.0, 0.01),
    "inverse gamma": lambda z: d.InverseGamma(z + 0.01, 1.0),
    "F": lambda z: d.FisherSnedecor(z + 0.01, 0.01),
    "Kumaraswamy": lambda z: d.Kumaraswamy(z + 0.01, 0.01),
    "relaxed Bernoulli": lambda z: d.RelaxedBernoulli(z + 0.01, 0.5),
    "relaxed classes": lambda z: d.RelaxedOneHotCategorical(0.01, (z + 1.0).expand((3,))),
    "logistic-normal": lambda z: d.LogisticNormal(z.expand((3,)), 100.0),
}


@every_row("name", OPEN)
@pytest.mark.parametrize(
    "dtype",
    ["float32", *(pytest.param(name, marks=pytest.mark.slowest) for name in ("float64", "float16", "bfloat16"))],
)
def test_draws_stay_inside_of_open_supports(name: str, dtype: str) -> None:
    distribution = OPEN[name](T.zeros((), dtype=dtype))
    with np.errstate(all="ignore"):
        x = distribution.sample((1000,), generator=Generator(0))
        assert x.isfinite().all()
        assert distribution.log_prob(x).isfinite().all()


REPARAMETRIZED: dict[str, Callable[[Any], Any]] = {
    "beta": lambda c: d.Beta(c, 2.0),
    "dirichlet": d.Dirichlet,
    "gamma": lambda c: d.Gamma(c, 1.0),
    "student's t": d.StudentT,
}


@every_row("name", REPARAMETRIZED)
def test_draws_of_16_bits_and_their_derivatives_are_those_of_float32(name: str) -> None:
    def draw(dtype: str) -> list[Any]:
        c = Tensor[Autodiff[NumPy]].from_data([1.0, 2.0, 3.0], dtype=dtype).require_grad()
        x = REPARAMETRIZED[name](c).rsample(generator=Generator(0))
        return [x.inner().to_numpy(), (x * c.detach()).sum().backward()[c].to_numpy()]

    for dtype, rtol in (("float16", 2e-3), ("bfloat16", 2e-2)):
        for found, expected in zip(draw(dtype), draw("float32"), strict=True):
            assert found.dtype.name == dtype
            np.testing.assert_allclose(found.astype(np.float32), expected, rtol, rtol / 10)


def test_a_negative_binomial_without_failures() -> None:
    counts = d.NegativeBinomial(T.from_data([0.0, 2.0]), 0.5)
    assert counts.sample((100,), generator=Generator(0))[:, 0].eq(0.0).all()
    assert counts.log_prob(T.from_data([[0.0], [1.0]]))[:, 0].tolist() == [0.0, -INF]
    assert counts.cdf(T.from_data(0.0)).tolist() == [1.0, 0.25]
    assert counts.mean.tolist() == [0.0, 2.0]


def test_slopes_of_laplace_distributions_at_their_location() -> None:
    """There |x - loc| has no derivative, but the distribution function and the divergence have one."""
    laplace = d.Laplace(f64(1.0), 2.0)
    for f, slope in ((laplace.cdf, 0.25), (laplace.log_cdf, 0.5)):
        assert func.grad(f)(f64(1.0)).item() == slope
        assert func.jvp(f, (f64(1.0),), (f64(1.0),))[1].item() == slope

    def divergence(loc: Tensor[NumPy]) -> Tensor[NumPy]:
        return d.kl(d.Laplace(loc, 2.0), d.Laplace(f64(1.0).to_device(loc.device), 2.0))

    assert func.grad(divergence)(f64(1.0)).item() == 0.0
    assert func.grad(func.grad(divergence))(f64(1.0)).item() == 0.25


def test_the_slope_of_a_quantile_where_two_formulas_meet() -> None:
    """The quantile of p is log(1 + p · (exp(t) - 1)) / t, by formulas of their own up to t = 30 and beyond."""

    def quantile(logits: Tensor[NumPy]) -> Tensor[NumPy]:
        return d.ContinuousBernoulli(logits=logits).icdf(f64(0.5).to_device(logits.device))

    slope = func.grad(quantile)(f64(30.0)).item()
    assert slope == pytest.approx(math.log(2.0) / 900.0, rel=1e-11)
