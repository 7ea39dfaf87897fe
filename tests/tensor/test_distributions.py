"""Random numbers from distributions with parameters: how they are distributed, their derivatives, what is refused."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, Generator, IntTensor, Tensor, func
from burnpy.autodiff import no_grad
from burnpy.backend import NumPy
from burnpy.backend.errors import ArgumentError, BurnpyError, DeviceError, KindError, ShapeError
from tests.rows import every_row

T = Tensor[NumPy]
Train = Autodiff[NumPy]
COUNT = 16_000
LEAST = 1e-4
"""The probability of a sample as far off as it may be. All tests have fixed seeds, so none fails by chance."""


def f64(values: Any) -> Tensor[NumPy]:
    return T.from_data(values, dtype="float64")


def kolmogorov_smirnov(sample: Any, cdf: Callable[[Any], Any]) -> None:
    from scipy import stats

    assert stats.kstest(sample.to_numpy().ravel().astype(np.float64), cdf).pvalue > LEAST


def log_gamma_cdf(a: float) -> Callable[[Any], Any]:
    """The distribution function of the logarithm: e^(a·t - log Γ(a + 1)) next to 0, where e^t underflows."""
    from scipy import special

    def cdf(t: Any) -> Any:
        with np.errstate(all="ignore"):
            return np.where(t < -600.0, np.exp(a * t - special.gammaln(a + 1)), special.gammainc(a, np.exp(t)))

    return cdf


@pytest.mark.slow
@every_row("a", [1e-3, 0.03, 0.4, 1.0, 1.5, 20.0, 1e4, 1e8])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gamma(a: float, dtype: str) -> None:
    from scipy import stats

    logs = T.gamma((COUNT,), a, 2.0, log=True, dtype=dtype, generator=Generator(1))
    assert logs.isfinite().all()
    if a < 1e7 or dtype == "float64":  # else the logarithms of float32 are too coarse
        kolmogorov_smirnov(logs + math.log(2.0), log_gamma_cdf(a))
    x = T.gamma((COUNT,), f64(a).to_dtype(dtype), f64([2.0]).to_dtype(dtype), generator=Generator(2))
    assert str(x.dtype) == dtype
    if a >= 0.4:  # below, some numbers underflow
        kolmogorov_smirnov(x, stats.gamma(a, scale=0.5).cdf)


@every_row("a, b", [(1e-2, 1e-2), (0.5, 0.5), (1.0, 3.0), (7.0, 0.1), (80.0, 40.0), (1e5, 2e5)])
def test_beta(a: float, b: float) -> None:
    from scipy import stats

    x = T.beta((COUNT,), a, b, dtype="float64", generator=Generator(3))
    if min(a, b) >= 0.4:  # below, some numbers are rounded to 1
        kolmogorov_smirnov(x, stats.beta(a, b).cdf)
    logs = T.beta((COUNT,), a, b, log=True, dtype="float64", generator=Generator(3))
    assert logs.isfinite().all()
    assert np.allclose(logs.exp().to_numpy(), x.to_numpy(), rtol=1e-10)
    split = T.beta((COUNT,), a, b, dtype="float64", generator=Generator(4))
    assert abs((split < 0.5).float().mean().item() - stats.beta(a, b).cdf(0.5)) < 0.02


def test_dirichlet() -> None:
    """Each component has a beta distribution, and a component of a tiny concentration has a logarithm."""
    from scipy import stats

    a = f64([0.3, 2.0, 5.0])
    x = T.dirichlet((COUNT, 3), a, generator=Generator(5))
    assert np.allclose(x.to_numpy().sum(-1), 1.0, rtol=1e-12)
    for k, component in enumerate(a.tolist()):
        kolmogorov_smirnov(x[:, k], stats.beta(component, 7.3 - component).cdf)
    logs = T.dirichlet((COUNT, 2), 1e-4, log=True, dtype="float64", generator=Generator(5))
    assert logs.isfinite().all()
    assert (logs.amax(-1) <= 0.0).all()
    assert (logs.amin(-1) < -1e3).float().mean().item() > 0.5
    assert abs((logs[:, 0] > logs[:, 1]).float().mean().item() - 0.5) < 0.02
    assert T.dirichlet((3, 1), 2.0).tolist() == [[1.0]] * 3
    assert T.dirichlet((0, 3), 2.0).shape == (0, 3)


@every_row("df", [0.3, 1.0, 4.5, 1e6])
def test_student_t(df: float) -> None:
    from scipy import stats

    x = T.student_t((COUNT,), df, 3.0, 2.0, generator=Generator(6))
    kolmogorov_smirnov(x, stats.t(df, 3.0, 2.0).cdf)


def test_other_numbers_on_a_line() -> None:
    from scipy import stats

    g = Generator(7)
    kolmogorov_smirnov(T.gumbel((COUNT,), 1.0, 0.5, generator=g), stats.gumbel_r(1.0, 0.5).cdf)
    kolmogorov_smirnov(T.gumbel((COUNT,), f64(1.0), generator=g), stats.gumbel_r(1.0).cdf)
    kolmogorov_smirnov(T.exponential((COUNT,), f64([4.0]), generator=g), stats.expon(scale=0.25).cdf)
    kolmogorov_smirnov(T.normal((COUNT,), f64(1.0), f64([4.0]), generator=g), stats.norm(1.0, 4.0).cdf)
    kolmogorov_smirnov(T.uniform((COUNT,), f64(1.0), 4.0, generator=g), stats.uniform(1.0, 3.0).cdf)
    for low, high in (
        (-1.0, 2.0),
        (3.0, math.inf),
        (-math.inf, -2.0),
        (-math.inf, math.inf),
        (4.0, 4.5),
        (30.0, math.inf),
    ):
        x = T.truncated_normal((COUNT,), f64([0.5]), f64(1.0), low, f64([high]), generator=g)
        assert (x >= low).all()
        assert (x <= high).all()
        kolmogorov_smirnov(x, stats.truncnorm(low - 0.5, high - 0.5, 0.5).cdf)
    small = T.exponential((1_000_000,), generator=g).amin().item()
    assert 0.0 < small < 1e-5


def chi_square(sample: Any, distribution: Any) -> None:
    """Compare the numbers of a sample in intervals of about equal probability with what is expected."""
    from scipy import stats

    numbers = sample.to_numpy().astype(np.float64)
    edges = np.unique(distribution.ppf(np.linspace(0.02, 0.98, 30)))
    shares = np.diff(np.concatenate([[0.0], distribution.cdf(edges), [1.0]]))
    places = np.searchsorted(edges, numbers)
    counts = np.bincount(places, minlength=len(shares))
    kept = shares * len(numbers) > 5
    assert counts[~kept].sum() <= 20 + 2 * shares[~kept].sum() * len(numbers)
    expected = shares[kept] / shares[kept].sum() * counts[kept].sum()
    assert stats.chisquare(counts[kept], expected).pvalue > LEAST


@every_row("rate", [1e-3, 0.7, 9.5, 10.5, 300.0, 1e8])
def test_poisson(rate: float) -> None:
    from scipy import stats

    x = T.poisson((COUNT,), rate, dtype="float64", generator=Generator(8))
    assert (x == x.floor()).all()
    chi_square(x, stats.poisson(rate))


@every_row("count, prob", [(1, 0.3), (12, 0.5), (40, 0.9), (1000, 0.01), (10**9, 0.5), (10**9, 1e-9), (10**12, 0.2)])
def test_binomial(count: int, prob: float) -> None:
    from scipy import stats

    x = T.binomial((COUNT,), count, prob, dtype="float64", generator=Generator(9))
    assert (x == x.floor()).all()
    chi_square(x, stats.binom(count, prob))


def test_edges_of_discrete_distributions() -> None:
    from scipy import stats

    assert T.poisson((3,), 0.0).tolist() == [0.0] * 3
    large = T.poisson((COUNT,), 1e15, dtype="float64", generator=Generator(8)).to_numpy() - 1e15
    kolmogorov_smirnov(f64(large / 1e15**0.5), lambda x: stats.norm.cdf(x))
    assert T.binomial((3,), 7, f64([0.0, 1.0, 0.0])).tolist() == [0.0, 7.0, 0.0]
    assert T.binomial((2,), IntTensor[NumPy].from_data([0, 3]), 1.0).tolist() == [0.0, 3.0]
    assert T.binomial((2,), 10**9 + 1, 1.0, dtype="float64").tolist() == [1e9 + 1] * 2
    assert str(T.poisson((3,), 1.0).dtype) == str(T.binomial((2,), 3, 0.5).dtype) == "float32"


def test_sampling_without_replacement() -> None:
    """The first index has the probability of its weight, and the second that among the others."""
    from scipy import stats

    weights = np.array([0.5, 1.0, 2.0, 0.0, 4.0])
    drawn = f64(np.broadcast_to(weights, (COUNT, 5))).multinomial(3, generator=Generator(10)).to_numpy()
    assert (np.sort(drawn, -1)[:, 1:] != np.sort(drawn, -1)[:, :-1]).all()
    kept, p = [0, 1, 2, 4], weights / weights.sum()
    counts = np.bincount(drawn[:, 0], minlength=5)
    assert stats.chisquare(counts[kept], (p * COUNT)[kept]).pvalue > LEAST
    second = np.array([sum(p[j] * p[k] / (1 - p[j]) for j in kept if j != k) for k in kept])
    counts = np.bincount(drawn[:, 1], minlength=5)
    assert stats.chisquare(counts[kept], second * COUNT).pvalue > LEAST


def slopes(f: Callable[..., Any], *parameters: Any) -> list[Any]:
    """The gradients of the sum of f by its parameters, which have the shape of the result."""
    leaves = [Tensor[Train].from_data(p, dtype="float64").require_grad() for p in parameters]
    grads = f(*leaves).sum().backward()
    return [grads[leaf].to_numpy() for leaf in leaves]


def test_gradients_are_those_of_quantiles() -> None:
    """By differences of SciPy's quantiles at the probabilities of the numbers that were drawn."""
    from scipy import special

    a = np.repeat([0.2, 1.0, 3.0, 40.0], 6)
    b = np.tile([0.3, 2.0, 30.0], 8)
    h = 1e-4

    def difference(quantile: Callable[[Any], Any], p: Any) -> Any:
        return (quantile(p * (1 + h)) - quantile(p * (1 - h))) / (2 * h * p)

    def gamma(p: Any, **options: Any) -> Any:
        return Tensor.gamma(p.shape, p, generator=Generator(11), **options)

    x = gamma(f64(a)).to_numpy()
    probability = special.gammainc(a, x)
    expected = difference(lambda p: special.gammaincinv(p, probability), a)
    assert np.allclose(slopes(gamma, a)[0], expected, rtol=1e-5)
    logs = gamma(f64(a), log=True).to_numpy()
    probability = special.gammainc(a, np.exp(logs))
    expected = difference(lambda p: np.log(special.gammaincinv(p, probability)), a)
    assert np.allclose(slopes(lambda p: gamma(p, log=True), a)[0], expected, rtol=1e-5)

    def beta(p: Any, q: Any) -> Any:
        return Tensor.beta(p.shape, p, q, generator=Generator(12))

    x = beta(f64(a), f64(b)).to_numpy()
    fine = (x > 1e-6) & (x < 1 - 1e-6)  # beyond, the quantiles have few digits
    lower, upper = special.betainc(a, b, x), special.betainc(b, a, 1 - x)
    by_a, by_b = slopes(beta, a, b)
    assert np.allclose(by_a[fine], difference(lambda p: special.betaincinv(p, b, lower), a)[fine], rtol=1e-4)
    assert np.allclose(-by_b[fine], difference(lambda p: special.betaincinv(p, a, upper), b)[fine], rtol=1e-4)
    assert fine.sum() > 15


@pytest.mark.slowest
def test_gradients_of_means_of_components() -> None:
    """The mean gradient is the gradient of the mean of Dirichlet, Student's t and truncated normal numbers."""
    from scipy import stats

    a = Tensor[Train].from_data([0.5, 2.0, 4.0], dtype="float64").require_grad()
    x = Tensor.dirichlet((COUNT, 3), a, generator=Generator(13))
    expected = np.full(3, -0.5 / 6.5**2)
    expected[0] += 1 / 6.5
    assert np.allclose(x[:, 0].mean().backward()[a].to_numpy(), expected, atol=2e-3)
    logs = Tensor.dirichlet((COUNT, 3), a, log=True, generator=Generator(13))
    assert np.allclose(logs.exp()[:, 0].mean().backward()[a].to_numpy(), expected, atol=2e-3)

    df = Tensor[Train].from_data(12.0, dtype="float64").require_grad()
    x = Tensor.student_t((COUNT,), df, generator=Generator(14))
    slope = x.clamp(-3.0, 3.0).square().mean().backward()[df].item()
    ends = [stats.t(12.0 + h).expect(lambda t: min(t * t, 9.0)) for h in (-0.1, 0.1)]
    assert slope == pytest.approx((ends[1] - ends[0]) / 0.2, rel=0.15)

    at = (0.3, 2.0, -0.5)
    mean, std, low = (Tensor[Train].from_data(v, dtype="float64").require_grad() for v in at)
    grads = Tensor.truncated_normal((COUNT,), mean, std, low, math.inf, generator=Generator(15)).mean().backward()

    def expectation(m: float, s: float, a: float) -> float:
        return float(stats.truncnorm((a - m) / s, math.inf, m, s).mean())

    for k, leaf in enumerate((mean, std, low)):
        higher, lower = (expectation(*(v + h * (j == k) for j, v in enumerate(at))) for h in (1e-4, -1e-4))
        assert grads[leaf].item() == pytest.approx((higher - lower) / 2e-4, rel=0.03)


def test_gradients_of_a_tail() -> None:
    """At 30 standard deviations: the mean follows the end, and the excess over it the variance."""
    from scipy import stats

    at = (0.0, 1.0, 30.0)
    mean, std, low = (Tensor[Train].from_data(v, dtype="float64").require_grad() for v in at)
    grads = Tensor.truncated_normal((COUNT,), mean, std, low, math.inf, generator=Generator(15)).mean().backward()
    for k, leaf in enumerate((mean, std, low)):
        m, s, a = (np.array(v) + 1e-3 * (j == k) * np.array([1.0, -1.0]) for j, v in enumerate(at))
        means = stats.truncnorm((a - m) / s, math.inf, m, s).mean()
        assert grads[leaf].item() == pytest.approx((means[0] - means[1]) / 2e-3, rel=0.03)


def test_second_derivatives() -> None:
    """Those of quantiles: by differences of the first derivative along a fixed probability."""
    from scipy import special

    h = 1e-3
    for a in (0.4, 2.0, 15.0):

        def gamma(p: Any) -> Any:
            return Tensor.gamma((5,), p, generator=Generator(16))

        at = f64(a)
        probability = special.gammainc(a, gamma(at).to_numpy())
        values = [special.gammaincinv(p, probability) for p in (a - h, a, a + h)]
        second = func.jacobian(func.jacobian(gamma))(at)
        assert np.allclose(second.to_numpy(), (values[0] - 2 * values[1] + values[2]) / h**2, rtol=1e-4, atol=1e-7)
        assert np.allclose(func.jacfwd(func.jacfwd(gamma))(at).to_numpy(), second.to_numpy(), rtol=1e-9)

        def beta(p: Any) -> Any:
            return Tensor.beta((5,), p, 1.5, generator=Generator(17))

        probability = special.betainc(a, 1.5, beta(at).to_numpy())
        values = [special.betaincinv(p, 1.5, probability) for p in (a - h, a, a + h)]
        second = func.jacobian(func.jacobian(beta))(at)
        assert np.allclose(second.to_numpy(), (values[0] - 2 * values[1] + values[2]) / h**2, rtol=1e-3, atol=1e-6)


EVERY: dict[str, Callable[[Any, Any], Any]] = {
    "gamma": lambda p, g: Tensor.gamma((2, *p.shape), p, generator=g),
    "log gamma": lambda p, g: Tensor.gamma((2, *p.shape), 3.0, p, log=True, generator=g),
    "beta": lambda p, g: Tensor.beta((2, *p.shape), p, 2.0, generator=g),
    "dirichlet": lambda p, g: Tensor.dirichlet((2, *p.shape, 3), p.unsqueeze(-1), generator=g),
    "student_t": lambda p, g: Tensor.student_t((2, *p.shape), p, generator=g),
    "gumbel": lambda p, g: Tensor.gumbel((2, *p.shape), p, generator=g),
    "truncated_normal": lambda p, g: Tensor.truncated_normal((2, *p.shape), p, high=p, generator=g),
    "normal": lambda p, g: Tensor.normal((2, *p.shape), std=p, generator=g),
    "uniform": lambda p, g: Tensor.uniform((2, *p.shape), 0.0, p, generator=g),
    "exponential": lambda p, g: Tensor.exponential((2, *p.shape), p, generator=g),
    "poisson": lambda p, g: Tensor.poisson((2, *p.shape), p, generator=g),
    "binomial": lambda p, g: Tensor.binomial((2, *p.shape), 100, p / (p + 1.0), generator=g),
}


@pytest.mark.slowest
@every_row("name", EVERY)
def test_every_distribution(name: str) -> None:
    """Numbers depend on the generator's state alone, in vmap and compiled functions too, and keep dtype and graph."""
    draw = EVERY[name]
    p = f64([0.5, 1.5, 30.0])
    g = Generator(20)
    state = g.get_state()
    first, second = draw(p, g).tolist(), draw(p, g).tolist()
    assert first != second
    g.set_state(state)
    assert [draw(p, g).tolist(), draw(p, g).tolist()] == [first, second]

    half = draw(p.to_dtype("float16"), Generator(0))
    assert str(half.dtype) == "float16"
    assert draw(p[:0], Generator(0)).shape[:2] == (2, 0)
    assert draw(p[0], Generator(0)).shape[:1] == (2,)

    leaf = Tensor[Train].from_data([0.5, 1.5, 30.0], dtype="float64").require_grad()
    drawn = draw(leaf, Generator(20))
    assert drawn.tolist() == first
    assert drawn.is_require_grad() == (name not in ("poisson", "binomial"))
    with no_grad():
        silent = draw(leaf, Generator(20))
    assert not silent.is_require_grad()
    assert silent.tolist() == first

    compiled = burnpy.compiled(draw)
    g = Generator(20)
    for expected in (first, second):
        assert np.allclose(compiled(p, g).to_numpy(), expected, rtol=1e-12)
    if name not in ("poisson", "binomial"):
        step = burnpy.compiled(lambda leaf, g: draw(leaf, g).sum().backward()[leaf])
        expected = draw(leaf, Generator(20)).sum().backward()[leaf].tolist()
        assert np.allclose(step(leaf, Generator(20)).to_numpy(), expected, rtol=1e-12)

    same = f64([1.5, 1.5, 1.5])
    each = func.vmap(lambda p: draw(p, Generator(3)), randomness="different")(same).to_numpy()
    assert not np.array_equal(each[0], each[1])
    each = func.vmap(lambda p: draw(p, Generator(3)), randomness="same")(same).to_numpy()
    assert np.array_equal(each, np.broadcast_to(each[:1], each.shape))
    nested = func.vmap(func.vmap(lambda p: draw(p, Generator(3)), randomness="same"), randomness="different")
    pairs = nested(f64([[1.5, 1.5], [1.5, 1.5]])).to_numpy()
    assert np.array_equal(pairs[:, 0], pairs[:, 1])
    assert not np.array_equal(pairs[0], pairs[1])
    recorded = burnpy.compiled(func.vmap(draw, in_dims=(0, None), randomness="same"))
    rows = [recorded(same, g).to_numpy() for g in (Generator(3), Generator(4), Generator(3))]
    assert np.array_equal(rows[0], rows[2])
    assert not np.array_equal(rows[0], rows[1])
    assert np.array_equal(rows[0][0], rows[0][1])
    with pytest.raises(ArgumentError, match="randomness"):
        func.vmap(lambda p: draw(p, None))(same)


REFUSED: list[tuple[Callable[[], Any], type[BurnpyError], str]] = [
    (lambda: T.gamma((2,), 0.0), ArgumentError, "concentration=0.0; expected a finite number above 0"),
    (lambda: T.gamma((2,), 1.0, math.inf), ArgumentError, "rate=inf; expected a finite number above 0"),
    (
        lambda: T.gamma((2,), f64([1.0, -1.0])),
        ArgumentError,
        r"concentration of shape \(2,\) with an element that is not",
    ),
    (lambda: T.gamma((2,), f64([1.0, math.nan])), ArgumentError, "a finite number above 0"),
    (lambda: T.beta((2,), 1.0, -1), ArgumentError, "b=-1; expected a finite number above 0"),
    (lambda: T.dirichlet((2, 3), f64(0.0)), ArgumentError, "concentration"),
    (lambda: T.student_t((2,), 1.0, scale=0.0), ArgumentError, "scale=0.0; expected"),
    (lambda: T.gumbel((2,), math.nan), ArgumentError, "loc=nan; expected a finite number"),
    (lambda: T.poisson((2,), -1.0), ArgumentError, "rate=-1.0; expected a number from 0 to 9e18"),
    (lambda: T.poisson((2,), f64(1e19)), ArgumentError, "a number from 0 to 9e18"),
    (lambda: T.binomial((2,), 2.5, 0.5), ArgumentError, "count=2.5; expected a whole number from 0"),
    (lambda: T.binomial((2,), f64([0.5]), 0.5), ArgumentError, "a whole number"),
    (lambda: T.binomial((2,), 3, f64(1.1)), ArgumentError, "prob of shape .* a number from 0 to 1"),
    (lambda: T.uniform((2,), f64(1.0), 0.0), ArgumentError, "expected low <= high"),
    (lambda: T.truncated_normal((2,), f64(0.0), low=8.0, high=7.0), ArgumentError, "that is empty"),
    (
        lambda: T.gamma((2,), f64([1.0, 1.0, 1.0])),
        ShapeError,
        r"shape \(3,\), which does not broadcast to shape \(2,\)",
    ),
    (lambda: T.gamma((), f64([1.0])), ShapeError, "does not broadcast"),
    (lambda: T.dirichlet((), 1.0), ShapeError, "at least one"),
    (lambda: T.dirichlet((2, 0), 1.0), ShapeError, "at least one"),
    (lambda: T.gamma((2,), "a"), KindError, "concentration='a'; expected a number or a Tensor"),  # type: ignore[call-overload]  # on purpose
    (lambda: T.gamma((2,), IntTensor[NumPy].ones((2,))), KindError, r"x\.float\(\)"),  # type: ignore[call-overload]  # on purpose
    (lambda: T.gamma((2,), Tensor[Train].ones((2,))), DeviceError, r"to_device"),
    (lambda: Tensor.gamma((2,), 1.0), DeviceError, r"Tensor\[NumPy\]\.gamma"),
    (
        lambda: func.vmap(lambda p: Tensor.gamma((2,), p), randomness="same", chunk_size=1)(f64([1.0, 2.0])),
        ArgumentError,
        "leave chunk_size out",
    ),
    (lambda: func.vmap(lambda p: Tensor.gamma((2,), p), randomness="same")(f64([1.0, -2.0])), ArgumentError, "above 0"),
]


@every_row("call, error, words", REFUSED)
def test_what_is_refused(call: Callable[[], Any], error: type[BurnpyError], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


def test_a_compiled_function_checks_the_parameters_of_each_call() -> None:
    f = burnpy.compiled(EVERY["gamma"])
    f(f64(1.0), None)
    with pytest.raises(ArgumentError, match="finite number above 0"):
        f(f64(-1.0), None)


PROGRAM = """
import hashlib
from burnpy import Autodiff, Generator, Tensor
from burnpy.backend import NumPy
g = Generator(0)
a = Tensor[Autodiff[NumPy]].full((50_000,), 0.7).require_grad()
drawn = [f(a.shape, a, generator=g) for f in (Tensor.gamma, Tensor.student_t, Tensor.poisson, Tensor.exponential)]
drawn += [Tensor.beta(a.shape, a, 2.0, generator=g), Tensor.dirichlet((9, 3), 2.0, generator=g, device=NumPy)]
print(hashlib.sha256(b"".join(x.to_numpy().tobytes() for x in drawn[:1] + drawn[2:3])).hexdigest())
print(float(drawn[0].sum().backward()[a].sum()))
"""


@pytest.mark.slowest
def test_numbers_do_not_depend_on_threads_or_kernels() -> None:
    """Nor do gradients, but for rounding."""
    outputs = []
    for settings in ({"OMP_NUM_THREADS": "1"}, {"OMP_NUM_THREADS": "4"}, {"BURNPY_COMPILE": "0"}):
        environment = {**os.environ, **settings}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, env=environment
        )
        outputs.append(done.stdout.split())
    assert len({digest for digest, _ in outputs}) == 1
    assert all(float(total) == pytest.approx(float(outputs[0][1]), rel=1e-4) for _, total in outputs)


@pytest.mark.slow
def test_sobol_points() -> None:
    plain = T.sobol((8, 40), dtype="float64").to_numpy()
    assert plain[:4, :3].tolist() == [[0.0, 0.0, 0.0], [0.5, 0.5, 0.5], [0.75, 0.25, 0.25], [0.25, 0.75, 0.75]]
    for seed in (None, 0, 1):
        x = T.sobol((2048, 40), seed=seed, dtype="float64").to_numpy()
        cells = np.sort((x * 2048).astype(int), axis=0)
        assert (cells == np.arange(2048)[:, None]).all()  # one point in each interval, in each dimension
        later = T.sobol((100, 40), start=1000, seed=seed, dtype="float64").to_numpy()
        assert np.array_equal(later, x[1000:1100])
    squares = (T.sobol((256, 2), seed=3, dtype="float64").to_numpy() * 16).astype(int)
    assert len({tuple(square) for square in squares.tolist()}) == 256  # one point in each of 16 × 16 squares
    assert np.array_equal(T.sobol((5, 3), seed=3).to_numpy(), T.sobol((5, 3), seed=3).to_numpy())
    assert not np.array_equal(T.sobol((5, 3), seed=3).to_numpy(), T.sobol((5, 3), seed=4).to_numpy())
    means = [T.sobol((1, 2), seed=seed, dtype="float64").mean().item() for seed in range(400)]
    assert np.mean(means) == pytest.approx(0.5, abs=0.04)  # a scrambled point is uniformly distributed
    f = T.sobol((4096, 6), seed=5, dtype="float64").square().sum(-1).mean().item()
    assert f == pytest.approx(2.0, abs=1e-4)
    for dtype in ("float16", "bfloat16", "float32"):
        assert (T.sobol((4096, 2), seed=1, dtype=dtype) < 1.0).all()
    assert T.sobol((0, 3)).shape == (0, 3)
    assert T.sobol((1, 1), start=2**32 - 1, dtype="float64").item() == 2.0**-32
    calls: list[tuple[Callable[[], Any], type[BurnpyError], str]] = [
        (lambda: T.sobol((3,)), ShapeError, r"expected \(points, dims\)"),
        (lambda: T.sobol((3, 41)), ShapeError, "at most 40 dims"),
        (lambda: T.sobol((3, 2), start=-1), ArgumentError, "start=-1"),
        (lambda: T.sobol((3, 2), start=2**32 - 2), ArgumentError, r"at most 2\*\*32 points"),
        (lambda: T.sobol((3, 2), seed=-1), ArgumentError, "non-negative int"),
    ]
    for call, error, words in calls:
        with pytest.raises(error, match=words):
            call()
