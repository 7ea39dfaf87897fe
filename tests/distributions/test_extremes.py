"""Distributions of extreme parameters: divergences, entropies, moments and densities whose terms would cancel."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from burnpy import Generator, IntTensor, Tensor, func
from burnpy import distributions as d
from burnpy.backend import NumPy
from tests.rows import every_row

T = Tensor[NumPy]
both_dtypes = pytest.mark.parametrize(("dtype", "rtol"), [("float32", 5e-7), ("float64", 1e-13)])


def normals(r: Any) -> Any:
    return r - 1 + (r - 1) ** 2 / 2 - mp.log(r)


def powers(r: Any) -> Any:
    return mp.expm1(mp.loggamma(1 + r)) - mp.log(r) + mp.euler * (r - 1)


def vectors(scale: Any) -> Any:
    return d.MultivariateNormal(scale.zeros_like().expand((2,)), scale_tril=scale.expand((2,)).diag_embed())


RATIOS: dict[str, tuple[Callable[[Any, Any], tuple[Any, Any]], Callable[[Any], Any]]] = {
    "Normal": (lambda r, one: (d.Normal(0.0, r), d.Normal(0.0, one)), normals),
    "LogNormal": (lambda r, one: (d.LogNormal(0.0, r), d.LogNormal(0.0, one)), normals),
    "HalfNormal": (lambda r, one: (d.HalfNormal(r), d.HalfNormal(one)), normals),
    "MultivariateNormal": (
        lambda r, one: (vectors(r), vectors(one)),
        lambda r: 2 * normals(r),
    ),
    "Exponential": (lambda r, one: (d.Exponential(one), d.Exponential(r)), lambda r: r - 1 - mp.log(r)),
    "Pareto": (lambda r, one: (d.Pareto(1.0, one), d.Pareto(1.0, r)), lambda r: r - 1 - mp.log(r)),
    "Gamma": (lambda r, one: (d.Gamma(2.0, one), d.Gamma(2.0, r)), lambda r: 2 * (r - 1 - mp.log(r))),
    "Laplace": (lambda r, one: (d.Laplace(0.0, r), d.Laplace(0.0, one)), lambda r: r - 1 - mp.log(r)),
    "Cauchy": (lambda r, one: (d.Cauchy(0.0, r), d.Cauchy(0.0, one)), lambda r: mp.log((1 + r) ** 2 / (4 * r))),
    "HalfCauchy": (lambda r, one: (d.HalfCauchy(r), d.HalfCauchy(one)), lambda r: mp.log((1 + r) ** 2 / (4 * r))),
    "Gumbel": (lambda r, one: (d.Gumbel(0.0, r), d.Gumbel(0.0, one)), powers),
    "Weibull": (lambda r, one: (d.Weibull(1.0, one), d.Weibull(1.0, r)), powers),
}


@every_row("name", RATIOS)
@both_dtypes
def test_divergences_of_scales_far_apart(name: str, dtype: str, rtol: float) -> None:
    """A scale next to 0 is not rounded away beside 1; the slopes are those of the logarithm."""
    pair, exact = RATIOS[name]
    one = T.ones((), dtype=dtype)
    for number in (0.7, 1e-2, 1e-3, 1e-4, 1e-8, 1e-20):
        r = one * number
        value, slope = func.value_and_grad(lambda r: d.kl(*pair(r, one)))(r)
        with mp.workdps(40):
            expected = exact(mp.mpf(r.item())), mp.diff(exact, mp.mpf(r.item()), h=mp.mpf(r.item()) / 10**12)
        assert [value.item(), slope.item()] == pytest.approx([*map(float, expected)], rel=4 * rtol), number


def test_divergences_of_cauchy_distributions_far_apart() -> None:
    far = d.kl(d.Cauchy(T.from_data(1e30), 1.0), d.Cauchy(T.from_data(0.0), 1.0))
    assert far.item() == pytest.approx(2.0 * math.log(1e30) - math.log(4.0), rel=1e-6)


@both_dtypes
@pytest.mark.parametrize("shift", [0.0, 1000.0, -1e6])
def test_divergences_from_a_gumbel_distribution_do_not_depend_on_where_both_are(
    shift: float, dtype: str, rtol: float
) -> None:
    loc = T.from_data(shift, dtype=dtype)
    gumbel = d.Gumbel(loc, 1.0)
    normal = d.kl(d.Normal(loc, 1.0), gumbel).item()
    assert normal == pytest.approx(math.exp(0.5) - 0.5 * math.log(2.0 * math.pi * math.e), rel=rtol)
    uniform = d.kl(d.Uniform(loc, loc + 1.0), gumbel).item()
    assert uniform == pytest.approx(1.5 - math.exp(-1.0), rel=rtol)


@both_dtypes
def test_the_divergence_of_a_gamma_from_a_gumbel_distribution(dtype: str, rtol: float) -> None:
    """The power that is tiny and the exponential that is infinite are one number."""
    a, loc = T.from_data([1e4, 1e4], dtype=dtype)
    with mp.workdps(30):
        entropy = 10_000 + mp.loggamma(10_000) - 9_999 * mp.digamma(10_000)
        expected = mp.log(100) - entropy + mp.exp(100 - 10_000 * mp.log1p(mp.mpf("0.01")))
    assert d.kl(d.Gamma(a, 1.0), d.Gumbel(loc, 100.0)).item() == pytest.approx(float(expected), rel=max(rtol, 1e-11))


@pytest.mark.parametrize("number", [1e6, 1e10, 1e20, 1e37])
def test_divergences_of_a_gamma_distribution_from_the_normal_one_that_it_approaches(number: float) -> None:
    """The leading term is 1 / (3a): a twelfth of the square of the skewness, 4 / a."""
    a = T.from_data(number, dtype="float64")
    found = d.kl(d.Gamma(a, 1.0), d.Normal(a, a.sqrt())).item()
    assert found == pytest.approx(1.0 / (3.0 * number), rel=1e-5, abs=1e-13)
    assert d.kl(d.Gamma(T.from_data(number), 1.0), d.Normal(T.from_data(number), math.sqrt(number))).item() >= 0.0


SPREAD = math.log(2.0 * math.pi * math.e)
ENTROPIES: dict[str, tuple[Callable[[Any], Any], Callable[[float], float]]] = {
    "Gamma": (lambda n: d.Gamma(n, 1.0), lambda n: 0.5 * (SPREAD + math.log(n))),
    "InverseGamma": (lambda n: d.InverseGamma(n, 1.0), lambda n: 0.5 * (SPREAD - 3.0 * math.log(n))),
    "StudentT": (d.StudentT, lambda _: 0.5 * SPREAD),
    "Beta": (lambda n: d.Beta(n, n), lambda n: 0.5 * (SPREAD - math.log(8.0 * n))),
    "Dirichlet": (lambda n: d.Dirichlet(n.expand((2,))), lambda n: 0.5 * (SPREAD - math.log(8.0 * n))),
    "FisherSnedecor": (lambda n: d.FisherSnedecor(n, n), lambda n: 0.5 * (SPREAD + math.log(4.0 / n))),
    "VonMises": (lambda n: d.VonMises(0.0, n), lambda n: 0.5 * (SPREAD - math.log(n))),
}


@every_row("name", ENTROPIES)
@both_dtypes
def test_entropies_of_huge_parameters(name: str, dtype: str, rtol: float) -> None:
    make, exact = ENTROPIES[name]
    for number in (1e14, 1e20, 1e37):
        n = T.from_data(number, dtype=dtype)
        value, slope = func.value_and_grad(lambda n: make(n).entropy())(n)
        assert value.item() == pytest.approx(exact(number), rel=4 * rtol)
        if name != "StudentT":
            factor = (exact(math.e * number) - exact(number)) / number
            assert slope.item() == pytest.approx(factor, rel=1e-6)


@both_dtypes
def test_densities_of_vectors_with_large_parameters(dtype: str, rtol: float) -> None:
    """Against the distributions of one number that they generalize."""
    for number in (10.0, 1e3, 1e5, 1e7):
        n, half = T.from_data(number, dtype=dtype), T.from_data([0.5, 0.5], dtype=dtype)
        beta = d.Beta(n.double(), n.double()).log_prob(T.from_data(0.5, dtype="float64")).item()
        assert d.Dirichlet(n.expand((2,))).log_prob(half).item() == pytest.approx(beta, rel=4 * rtol)
        binomial = d.Binomial(2.0 * n.double(), 0.5).log_prob(n.double()).item()
        found = d.Multinomial(int(2 * number), half).log_prob(n.expand((2,)))
        assert found.item() == pytest.approx(binomial, rel=4 * rtol)
    few = d.Multinomial(2000, T.from_data([0.5, 0.5], dtype=dtype)).entropy().item()
    assert few == pytest.approx(
        d.Binomial(T.from_data(2000.0, dtype="float64"), 0.5).entropy().item(), rel=max(rtol, 1e-11)
    )
    logits = T.from_data([0.0, -800.0], dtype=dtype)
    assert d.Multinomial(1, logits=logits).log_prob(T.from_data([0.0, 1.0], dtype=dtype)).item() == -800.0
    df = T.from_data(1e5, dtype=dtype)
    matrix = T.from_data([[1.1e5]], dtype=dtype)
    gamma = d.Gamma(df.double() / 2.0, 0.5).log_prob(matrix[0, 0].double())
    wishart = d.Wishart(df, T.eye(1, dtype=dtype))
    assert wishart.log_prob(matrix).item() == pytest.approx(gamma.item(), rel=1e-7)
    exact = d.Gamma(df.double() / 2.0, 0.5).entropy().item()
    assert wishart.entropy().item() == pytest.approx(exact, rel=1e-7)


def test_a_normal_distribution_of_low_rank_whose_diagonal_is_small() -> None:
    factor, diagonal = T.from_data([[1.0], [2.0], [-1.0]]), T.full((3,), 2.0**-20)
    x = T.from_data([1.0, 2.0, -1.0])
    exact = d.LowRankMultivariateNormal(T.zeros((3,), dtype="float64"), factor.double(), diagonal.double())
    found = d.LowRankMultivariateNormal(T.zeros((3,)), factor, diagonal).log_prob(x)
    assert found.item() == pytest.approx(exact.log_prob(x.double()).item(), rel=1e-7)


@both_dtypes
def test_moments_of_large_concentrations(dtype: str, rtol: float) -> None:
    def weibull(k: Any) -> Any:
        return mp.gamma(1 + 2 / k) - mp.gamma(1 + 1 / k) ** 2

    def moment(n: int, a: Any, c: Any) -> Any:
        return mp.exp(mp.loggamma(1 + n / a) + mp.loggamma(1 + c) - mp.loggamma(1 + n / a + c))

    for number in (10.0, 1e2, 1e4, 1e6):
        k = T.from_data(number, dtype=dtype)
        tolerance = max(rtol, 1e-14 * number)
        with mp.workdps(50):
            assert d.Weibull(1.0, k).variance.item() == pytest.approx(float(weibull(mp.mpf(number))), rel=tolerance)
            for a, c in ((2.0, number), (number, 2.0), (number, number)):
                found = d.Kumaraswamy(*T.from_data([a, c], dtype=dtype))
                first, second = (moment(n, mp.mpf(a), mp.mpf(c)) for n in (1, 2))
                assert found.mean.item() == pytest.approx(float(first), rel=rtol)
                assert found.variance.item() == pytest.approx(float(second - first**2), rel=max(rtol, 1e-9))
    for number in (65.0, 1e4, 1e8, 1e16):
        k = T.from_data(number, dtype=dtype)
        expected = 1 / (2 * number) + 1 / (8 * number**2) + 1 / (8 * number**3) + 25 / (128 * number**4)
        assert d.VonMises(0.0, k).variance.item() == pytest.approx(expected, rel=max(rtol, number**-4.0))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_counts_that_sixteen_bits_do_not_have(dtype: str) -> None:
    """The number after a count may be the count itself."""
    for number in (256.0, 2048.0):
        n, exact = (T.from_data(number, dtype=kind) for kind in (dtype, "float64"))
        tolerance = {"float16": 1e-3, "bfloat16": 8e-3}[dtype]
        for make in (d.Poisson, lambda n: d.Geometric(1.0 / n)):
            assert make(n).cdf(n).item() == pytest.approx(make(exact).cdf(exact).item(), rel=tolerance)
        found, expected = (d.Binomial(x, 0.5).entropy().item() for x in (n, exact))
        assert found == pytest.approx(expected, rel=tolerance)


def test_weights_whose_sum_sixteen_bits_do_not_have() -> None:
    weights = d.Categorical(T.full((3,), 3e4, dtype="float16"))
    assert weights.log_prob(IntTensor[NumPy].from_data([0])).item() == pytest.approx(-math.log(3.0), rel=1e-3)
    assert d.OneHotCategorical(T.full((3,), 3e4, dtype="float16")).mean.tolist() == pytest.approx([1 / 3] * 3, rel=1e-3)


def test_a_transformation_by_a_tensor_keeps_small_probabilities() -> None:
    x, base = T.from_data([-20.0, 20.0], dtype="float64"), d.Normal(T.zeros((), dtype="float64"), 2.0)
    scales = T.from_data([1.0, -1.0], dtype="float64")
    found = d.Transformed(base.expand((2,)), d.bijections.Affine(T.zeros((), dtype="float64"), scales))
    assert found.cdf(x).tolist() == [base.cdf(x[0]).item(), 1.0]
    p = T.full((2,), 1e-20, dtype="float64")
    assert found.icdf(p)[0].item() == base.icdf(p[0]).item()


@both_dtypes
def test_a_continuous_bernoulli_distribution_of_large_logits(dtype: str, rtol: float) -> None:
    """It approaches an exponential distribution from the likelier end."""
    for number in (1e2, 1e4, 1e7):
        for logit, end in ((number, 1.0), (-number, 0.0)):
            tilted = d.ContinuousBernoulli(logits=T.from_data(logit, dtype=dtype))
            assert tilted.log_prob(T.from_data(end, dtype=dtype)).item() == pytest.approx(math.log(number), rel=rtol)
        x = T.from_data(1.0 / number, dtype=dtype)
        below = -math.expm1(-number * x.item())
        assert d.ContinuousBernoulli(logits=-T.from_data(number, dtype=dtype)).cdf(x).item() == pytest.approx(
            below, rel=rtol
        )


def test_second_derivatives_of_distribution_functions_near_0_in_float32() -> None:
    """Those of the incomplete gamma function overflow there, and a factor of x² does not."""
    x, rate = T.from_data(1e-30), T.from_data(3.0)
    slope: Any = func.grad(lambda r: d.Gamma(T.from_data(0.2), r).cdf(x))
    assert func.grad(slope)(rate).item() == pytest.approx(-2.4120106e-8, rel=1e-5)
    fall: Any = func.grad(lambda x: d.InverseGamma(T.from_data(1.0), rate).cdf(x))
    assert func.grad(fall)(x).item() == 0.0


def test_densities_of_ratios_that_overflow() -> None:
    x, scale = T.from_data(1e30), T.from_data(1e-30)
    log = math.log(1e30)
    pareto = d.Pareto(scale, 0.5).log_prob(x).item()
    assert pareto == pytest.approx(math.log(0.5) + log - 3.0 * log, rel=1e-6)
    weibull = d.Weibull(scale, 0.01).log_prob(x).item()
    power = math.exp(0.02 * log)
    assert weibull == pytest.approx(math.log(0.01) + log - 0.99 * 2.0 * log - power, rel=1e-6)
    assert d.Weibull(scale, 0.01).cdf(x).item() == pytest.approx(-math.expm1(-power), rel=1e-6)
    near = np.float64(3.0) * (1.0 + 2.0**-40)
    growth = (near - 3.0) / 3.0
    found = d.Pareto(T.from_data(3.0, dtype="float64"), 1.0).cdf(T.from_data(near))
    assert found.item() == pytest.approx(growth / (1.0 + growth), rel=1e-15)


FAR: dict[str, tuple[Callable[..., Any], tuple[float, ...], float, float]] = {
    "Gumbel": (d.Gumbel, (1.0, 0.01), -10.0, 0.0),
    "Gumbel, far": (d.Gumbel, (1.0, 1e-9), -10.0, 0.0),
    "Weibull, above": (d.Weibull, (1e-3, 100.0), 1.0, 1.0),
    "Weibull, below": (d.Weibull, (0.5, 3e4), 0.1, 0.0),
    "Weibull, outside": (d.Weibull, (1e-4, 100.0), -1.0, 0.0),
    "Weibull, end": (d.Weibull, (1e-5, 80.0), 0.0, 0.0),
    "Gamma": (d.Gamma, (190.0, 3000.0), 0.5, 1.0),
    "Gamma, end": (d.Gamma, (190.0, 3000.0), 0.0, 0.0),
    "Relaxed Bernoulli, ends": (lambda t, x: d.RelaxedBernoulli(t, logits=x), (2.0, 0.3), 1.0, 1.0),
    "Relaxed Bernoulli, far": (lambda t, x: d.RelaxedBernoulli(t, logits=x), (2.0, 800.0), 0.5, 0.0),
}


@every_row("name", FAR)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_slopes_of_saturated_probabilities_are_0(name: str, dtype: str) -> None:
    """In both modes, by all parameters and by the value, where an exponential inside is infinite."""
    make, numbers, value, expected = FAR[name]
    inputs = [T.from_data(number, dtype=dtype) for number in (*numbers, value)]

    def below(*args: Any) -> Any:
        return make(*args[:-1]).cdf(args[-1])

    assert below(*inputs).item() == pytest.approx(expected, abs=1e-300)
    every = tuple(range(len(inputs)))
    assert [x.item() for x in func.grad(below, argnums=every)(*inputs)] == [0.0] * len(inputs)
    densities = lambda *args: make(*args[:-1]).log_prob(args[-1])  # noqa: E731
    for f in (below, densities):
        for k in every:
            alone = lambda x, f=f, k=k: f(*inputs[:k], x, *inputs[k + 1 :])  # noqa: E731
            forward = func.jvp(alone, (inputs[k],), (inputs[k].ones_like(),))[1]
            assert not forward.isnan().item(), k
            assert not func.grad(alone)(inputs[k]).isnan().item(), k


def test_logarithms_of_distribution_functions() -> None:
    """Beyond float32's least numbers they are finite, and where the probability is 0 they have no slope."""
    a, x = T.from_data(60.0), T.from_data(1e-2)
    value, slope = func.value_and_grad(lambda a: d.Gamma(a, 1.0).log_cdf(x))(a)
    exact = func.value_and_grad(lambda a: d.Gamma(a, 1.0).log_cdf(x.double()))(a.double())
    assert [value.item(), slope.item()] == pytest.approx([y.item() for y in exact], rel=1e-6)
    assert value.item() < -400.0
    for make in (lambda s: d.HalfNormal(s), lambda s: d.Binomial(5e4, s * 0.5), lambda s: d.Exponential(s)):
        zero, none = func.value_and_grad(lambda s, make=make: make(s).log_cdf(T.zeros(())))(T.ones(()))
        assert (zero.item(), none.item()) == (-math.inf, 0.0)


@pytest.mark.parametrize(
    "make",
    [lambda a: d.Gamma(a, 1.0), d.Chi2, lambda a: d.InverseGamma(a, 1.0), d.StudentT],
    ids=["gamma", "chi2", "inverse gamma", "student's t"],
)
def test_quantiles_that_no_number_is_near_have_no_slope_by_the_probability(make: Callable[[Any], Any]) -> None:
    a = T.from_data(1e-6, dtype="float64")
    assert func.grad(lambda p: make(a).icdf(p))(T.from_data(0.3, dtype="float64")).item() == 0.0


def test_moments_whose_factors_overflow() -> None:
    n = T.from_data(1e20)
    assert d.Pareto(n, n).mean.item() == pytest.approx(1e20)
    assert d.Pareto(n, n).variance.item() == pytest.approx(1.0)
    assert d.InverseGamma(n, n).mode.item() == pytest.approx(1.0)
    assert d.InverseGamma(1e13, T.from_data(1e13)).variance.item() == pytest.approx(1e-13)
    assert d.Gamma(n, n).variance.item() == pytest.approx(1e-20)
    assert d.FisherSnedecor(n, n).variance.item() == pytest.approx(4e-20)
    assert d.LogNormal(T.from_data(-250.0), 15.0).variance.item() == pytest.approx(math.exp(-50.0), rel=1e-5)
    for a, c, variance in ((1e-3, 1e3, 0.0), (0.01, 10.0, 2.70438836e-17), (1e8, 1e8, 1.64493341e-16)):
        assert d.Kumaraswamy(T.from_data(a, dtype="float64"), c).variance.item() == pytest.approx(variance, rel=1e-6)
    cauchy = d.Cauchy(0.0, T.from_data(1e-20)).cdf(T.from_data(-1e10))
    assert cauchy.item() == pytest.approx(1e-30 / math.pi)


def test_angles_of_huge_concentrations_and_classes_of_huge_logits() -> None:
    """The differences of numbers next to 1 are not rounded, nor is the noise beside the logits."""
    for number in (1e6, 1e18, 1e24):
        angles = d.VonMises(0.0, T.from_data(number, dtype="float64")).sample((4000,), generator=Generator(0))
        assert angles.std().item() == pytest.approx(number**-0.5, rel=0.05)
    logits = T.from_data([[1e30, 1e30], [3e7, 3e7]]).expand((4000, 2, 2))
    assert logits.categorical(generator=Generator(0)).float().mean(dim=0).tolist() == pytest.approx([0.5] * 2, abs=0.04)
