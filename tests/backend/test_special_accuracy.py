"""Special functions that are computed in float64 agree with mpmath over their whole range, by default and by kernel.

float64 results have a relative error below 1e-13, float32 results one of a few units in the last place.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from burnpy.backend import Backend, NumPy
from tests.interrupting import LONG

D: Any = NumPy()
mp: Any = pytest.importorskip("mpmath", reason="compares with mpmath, which is not installed")
RNG = np.random.default_rng(27)


def powers(low: float, high: float, count: int) -> Any:
    """Numbers whose logarithms are uniform."""
    return 10 ** RNG.uniform(np.log10(low), np.log10(high), count)


def both_signs(low: float, high: float, count: int) -> Any:
    return powers(low, high, count) * RNG.choice([-1.0, 1.0], count)


def ndtr(x: Any) -> Any:
    return mp.erfc(-x / mp.sqrt(2)) / 2


def log_ndtr(x: Any) -> Any:
    return mp.log1p(-ndtr(-x)) if x > 0 else mp.log(ndtr(x))


def ndtri(p: Any) -> Any:
    if p > 0.001:
        return mp.sqrt(2) * mp.erfinv(2 * p - 1)
    return mp.findroot(lambda y: log_ndtr(y) - mp.log(p), -mp.sqrt(-2 * mp.log(p)))


def ndtri_near_one(p: Any) -> Any:
    return -ndtri(1 - p) if p > 0.999 else ndtri(p)


def ndtri_exp(y: Any) -> Any:
    """By Newton's method, from the left of a concave function, or for p near 1 by the quantile of 1 - p."""
    if y > -0.001:
        return -ndtri(-mp.expm1(y))
    x = -mp.sqrt(-2 * y)
    while abs(step := (log_ndtr(x) - y) * ndtr(x) / mp.npdf(x)) > abs(x) * mp.mpf(10) ** -30:
        x -= step
    return x


def erfcx_slope(x: Any, order: int) -> Any:
    """By the recurrence of derivatives, with digits for what cancels: 1 / x² of the larger term in each step."""
    with mp.workdps(60 + order * max(0, 2 * int(mp.log10(abs(x))))):
        before, value = mp.mpf(0), mp.exp(x * x) * mp.erfc(x)
        for n in range(order):
            before, value = value, 2 * x * value + 2 * n * before - (0 if n else 2 / mp.sqrt(mp.pi))
        return value


def integral(a: Any, x: Any, upper: bool) -> Any:
    """The incomplete gamma function. Around large a, its density is integrated over the smaller tail."""
    if a < 1000:
        return mp.gammainc(a, x, mp.inf, regularized=True) if upper else mp.gammainc(a, 0, x, regularized=True)
    log_gamma = mp.loggamma(a)
    reach = min(mp.sqrt(a), abs(1 / ((a - 1) / x - 1)) if x != a - 1 else mp.sqrt(a)) * 60
    ends = (max(mp.mpf(0), x - reach), x) if x < a else (x, x + reach)
    tail = mp.quad(lambda t: mp.exp((a - 1) * mp.log(t) - t - log_gamma), mp.linspace(*ends, 13))
    return tail if upper == (x >= a) else 1 - tail


def zeta(x: Any, q: Any) -> Any:
    below = int(-mp.floor(q)) if q < 0 else 0
    return sum(((q + k) ** -x for k in range(below)), mp.zeta(x, q + below))


def shapes_and_ends() -> tuple[Any, Any]:
    """Arguments of all four methods of the incomplete gamma functions, and of their borders."""
    small, any_a, large = powers(1e-8, 1, 12), powers(1e-2, 900, 30), powers(20, 1e8, 25)
    border, tiny = RNG.uniform(18, 22, 20), powers(1e-6, 10, 8)
    pairs = [
        (small, powers(1e-8, 2, 12)),
        (any_a, any_a * powers(0.1, 10, 30)),
        (large, large + np.sqrt(large) * RNG.normal(0, 2, 25)),
        (border, border * RNG.uniform(0.45, 2.1, 20)),
        (tiny, powers(1e-300, 1, 8)),
        (RNG.uniform(0, 3, 20), RNG.uniform(0, 4, 20)),
    ]
    a, x = (np.concatenate(column) for column in zip(*pairs, strict=True))
    return a, x


def beta_numbers() -> tuple[Any, Any, Any]:
    """Arguments of the methods of the incomplete beta function, and of their border; the last b are tiny."""
    small, mixed, large, border = powers(1e-3, 20, 40), powers(0.1, 20, 20), powers(30, 1000, 30), np.full(20, 24.0)
    a = np.concatenate([small, mixed, large, border])
    b = np.concatenate([RNG.permutation(small), powers(30, 1e4, 20), RNG.permutation(large), RNG.uniform(20, 300, 20)])
    logits = np.log(a / b) + RNG.normal(0, 2, a.size) * np.sqrt(1 / a + 1 / b)
    logits = np.concatenate([np.clip(logits, -80, 30), RNG.uniform(0, 30, 30)])
    a, b = np.concatenate([a, powers(1e-2, 50, 30)]), np.concatenate([b, powers(1e-12, 0.3, 30)])
    return 1 / (1 + np.exp(-logits)), a, b


ERFCX_NUMBERS = np.concatenate([powers(1e-10, 1e9, 40), -powers(1e-10, 26.3, 20), RNG.uniform(1.5, 4.5, 9)])
SIZES = np.concatenate([both_signs(1e-10, 1, 12), both_signs(1, 700, 30), RNG.uniform(-16, 16, 20)])
PROBABILITIES = np.concatenate([RNG.uniform(0, 1, 40), powers(1e-300, 1e-3, 12), 1 - powers(1e-15, 1e-3, 12)])
ZETAS = tuple(
    np.concatenate(column)
    for column in zip(
        (1 + powers(1e-10, 100, 25), powers(1e-5, 1e4, 25)),
        (RNG.integers(2, 12, 15).astype(float), -powers(1e-3, 60, 15)),
        strict=True,
    )
)
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "i0": (lambda x: mp.besseli(0, x), (SIZES,)),
    "i0e": (lambda x: mp.besseli(0, x) * mp.exp(-abs(x)), (both_signs(1e-10, 1e6, 40),)),
    "i1": (lambda x: mp.besseli(1, x), (SIZES,)),
    "i1e": (lambda x: mp.besseli(1, x) * mp.exp(-abs(x)), (both_signs(1e-300, 1e6, 40),)),
    "erfcx": (
        lambda x: mp.exp(x * x) * mp.erfc(x),
        (ERFCX_NUMBERS,),
    ),
    **{
        f"erfcx_slope {order}": (partial(erfcx_slope, order=order), (erfcx_numbers,))
        for order, erfcx_numbers in ((1, ERFCX_NUMBERS), (2, ERFCX_NUMBERS), (4, ERFCX_NUMBERS[::3]))
    },
    "ndtr": (ndtr, (np.concatenate([RNG.uniform(-37, 9, 60), both_signs(1e-10, 1, 10)]),)),
    "log_ndtr": (
        log_ndtr,
        (np.concatenate([RNG.uniform(-37, 37, 50), -powers(1, 1e4, 20), both_signs(1e-10, 1, 10)]),),
    ),
    "normal_ratio": (
        lambda x: mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi) / ndtr(x),
        (np.concatenate([RNG.uniform(-37, 37, 50), -powers(1, 1e4, 20)]),),
    ),
    "ndtri": (ndtri_near_one, (PROBABILITIES,)),
    "ndtri_exp": (
        ndtri_exp,
        (np.concatenate([-powers(1e-300, 1e9, 40), -RNG.uniform(600, 800, 20), -powers(0.1, 10, 20)]),),
    ),
    "entr": (lambda x: -x * mp.log(x), (powers(1e-300, 1e300, 30),)),
    "betainc": (lambda x, a, b: mp.betainc(a, b, 0, x, regularized=True), beta_numbers()),
    "igamma": (lambda a, x: integral(a, x, False), shapes_and_ends()),
    "igammac": (lambda a, x: integral(a, x, True), shapes_and_ends()),
    "zeta": (zeta, ZETAS),
}
LEAST = {"float64": 1e-300, "float32": 1.2e-38}
MOST = {"float64": 1.7e308, "float32": 3.4e38}


@pytest.mark.slowest
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", CASES)
def test_over_the_whole_range(name: str, dtype: str) -> None:
    function, points = CASES[name]
    name, *options = name.split()
    order = [*map(int, options)]
    if not LONG:  # float32's kernels compute in float64, and round
        points = tuple(x[:: 5 if dtype == "float32" else 2] for x in points)
    points = tuple(np.clip(x, -MOST[dtype], MOST[dtype]).astype(dtype) for x in points)
    with mp.workdps(200 if name == "zeta" else 60):
        values = [function(*map(mp.mpf, map(float, at))) for at in zip(*points, strict=True)]
        usual = np.array([LEAST[dtype] < abs(v) < MOST[dtype] for v in values])
        exact = np.array([float(v) if keep else 1.0 for v, keep in zip(values, usual, strict=True)])
    default = getattr(Backend, name)(D, *points, *order)
    kernel = getattr(D, name)(*[np.resize(x, 4096) for x in points], *order)[: exact.size]
    for how, found in (("default", default), ("kernel", kernel)):
        rounded = exact.astype(dtype)
        unit = np.spacing(np.abs(rounded)) if dtype == "float32" else np.abs(exact)
        off = np.where(usual, np.abs(found.astype("float64") - (rounded if dtype == "float32" else exact)) / unit, 0.0)
        worst = int(off.argmax())
        at = ", ".join(repr(x[worst]) for x in points)
        limit = 4 if dtype == "float32" else 1e-13
        assert off.max() <= limit, f"{how}, {name}({at}) is {found[worst]!r}, not {exact[worst]!r}: off by {off[worst]}"


def test_derivatives_by_the_shape() -> None:
    """By dual numbers, as exactly as the functions themselves; the second derivative loses a few digits."""
    a = np.array([1e-3, 0.4, 1.5, 2.2, 7.0, 19.0, 25.0, 25.0, 80.0])
    x = np.array([0.5, 0.2, 1.9, 6.0, 7.0, 30.0, 20.0, 25.0, 99.0])
    with mp.workdps(50):
        for order, tolerance in ((1, 1e-13), (2, 1e-10)):
            wanted = [
                float(mp.diff(lambda s, end=t: mp.gammainc(s, 0, end, regularized=True), mp.mpf(s), order))
                for s, t in zip(a, x, strict=True)
            ]
            np.testing.assert_allclose(D.igamma_slope(a, x, order), wanted, rtol=tolerance)
            s, q = 1 + a[:6], x[:6]
            wanted = [float(mp.zeta(mp.mpf(u), mp.mpf(v), order)) for u, v in zip(s, q, strict=True)]
            np.testing.assert_allclose(D.zeta_slope(s, q, order), wanted, rtol=tolerance)


def test_large_arrays_without_a_kernel_are_computed_in_blocks() -> None:
    """As arrays of 16-bit floats are, which NumPy has no kernels for; the bits are the same."""
    a, x = (RNG.uniform(0.1, 30.0, (4, 5001)).astype("float16") for _ in range(2))
    for name, operands in (("igamma", (a, x)), ("ndtr", (x,)), ("zeta", (a.T, x.T))):
        np.testing.assert_array_equal(getattr(D, name)(*operands), getattr(Backend, name)(D, *operands), name)
