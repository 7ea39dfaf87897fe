"""Special functions of float64 are exact to a few units in the last place, by their defaults and by kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy.backend import Backend, NumPy

D: Any = NumPy()
mpmath: Any = pytest.importorskip("mpmath", reason="compares with mpmath, which is not installed")
RNG = np.random.default_rng(8)
ONE_AND_TWO = np.concatenate([1 + RNG.normal(0, 1e-3, 20), 2 + RNG.normal(0, 1e-3, 20)])
POSITIVE = np.concatenate([RNG.uniform(0, 12, 60), ONE_AND_TWO, 10 ** RNG.uniform(-10, 10, 30)])
NEXT_TO_THE_ROOT = 1.4616321449683623 + RNG.normal(0, 1e-6, 20)

RELATIVE: dict[str, tuple[str, tuple[Any, ...], Callable[[Any], Any], Any, int]] = {
    # the operation, its options, the function of mpmath, where, and by how many units it may differ
    "lgamma": ("lgamma", (), mpmath.loggamma, POSITIVE, 6),
    "digamma": ("digamma", (), lambda x: mpmath.psi(0, x), np.concatenate([POSITIVE, NEXT_TO_THE_ROOT]), 6),
    "polygamma 1": ("polygamma", (1,), lambda x: mpmath.psi(1, x), POSITIVE, 8),
    "polygamma 5": ("polygamma", (5,), lambda x: mpmath.psi(5, x), POSITIVE[:60], 16),
    "erfc": ("erfc", (), mpmath.erfc, RNG.uniform(-6, 26.5, 80), 8),
    "erfinv": (
        "erfinv",
        (),
        mpmath.erfinv,
        np.concatenate([RNG.uniform(-1, 1, 60), 1 - 10 ** RNG.uniform(-16, -1, 20), 10 ** RNG.uniform(-300, -1, 10)]),
        6,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("how", ["default", "kernel"])
@pytest.mark.parametrize("name", RELATIVE)
def test_units_in_the_last_place(name: str, how: str) -> None:
    operation, options, function, x, units = RELATIVE[name]
    if how == "default":
        found = getattr(Backend, operation)(D, x, *options)
    else:  # large arrays run as kernels, where there are any
        found = getattr(D, operation)(np.resize(x, 4096), *options)[: x.size]
    with mpmath.workdps(40):
        exact = np.array([float(function(mpmath.mpf(float(v)))) for v in x])
    off = np.abs(found - exact) / np.spacing(np.abs(exact))
    worst = int(off.argmax())
    assert off.max() <= units, f"{name}({x[worst]!r}) is {found[worst]!r}, not {exact[worst]!r}: {off[worst]} units"


@pytest.mark.parametrize(
    ("name", "order", "x"),
    [*zip(("lgamma", "digamma", "polygamma", "polygamma"), (None, 0, 1, 4), -RNG.uniform(0, 12, (4, 60)), strict=True)],
)
def test_negative_numbers(name: str, order: int | None, x: Any) -> None:
    """By reflection: exact to a few roundings of the value, or of 1 next to zeros."""
    found = getattr(D, name)(x, *([order] if order else []))
    with mpmath.workdps(40):
        exact = [
            float(
                mpmath.re(mpmath.loggamma(mpmath.mpf(float(v)))) if order is None else mpmath.psi(order, mpmath.mpf(v))
            )
            for v in x
        ]
    np.testing.assert_allclose(found, exact, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize(("dtype", "rtol"), [("float32", 3e-6), ("float64", 1e-14)])
@pytest.mark.parametrize("order", [0, 1, 2, 5, 10, 20])
def test_polygamma_of_halves_and_of_high_orders(dtype: str, rtol: float, order: int) -> None:
    """Halfway between poles the reflected part of even orders is 0; n! multiplies what float32 cannot hold."""
    x = np.array([-0.5, -1.5, -7.5, 3.0, 20.0, 100.0, 1000.0], dtype)
    with mpmath.workdps(40):
        exact = np.array([float(mpmath.psi(order, mpmath.mpf(float(v)))) for v in x]).astype(dtype)
    found = D.polygamma(x, order) if order else D.digamma(x)
    np.testing.assert_allclose(found, exact, rtol=rtol, atol=float(np.finfo(dtype).tiny))


@pytest.mark.parametrize(("dtype", "rtol"), [("float32", 5e-7), ("float64", 1e-15)])
def test_sinc_far_from_0(dtype: str, rtol: float) -> None:
    """The sine of π times a large number does not depend on how π is rounded; at whole numbers it is 0."""
    x = np.array([1.0625, -2.8125, 467.0, -35044.0625, 123456.75, 2.0**23, -1048575.9375], dtype)
    for order in (0, 1, 2):
        with mpmath.workdps(60):
            exact = [float(mpmath.diff(mpmath.sincpi, mpmath.mpf(float(v)), order)) for v in x]
        found = D.sinc_backward(np.ones_like(x), x, order) if order else D.sinc(x)
        np.testing.assert_allclose(found, exact, rtol=4 * rtol, atol=0.0 if order == 0 else 1e-30)


def test_derivatives_of_sinc() -> None:
    x = np.array([0.0, 1e-9, 0.3, -0.99, 1.0, 1.01, -2.5, 3.0])
    for order in (1, 2, 3, 4):
        with mpmath.workdps(40):
            exact = [float(mpmath.diff(mpmath.sincpi, mpmath.mpf(float(v)), order)) for v in x]
        np.testing.assert_allclose(D.sinc_backward(np.ones_like(x), x, order), exact, rtol=1e-13, atol=2e-14)


def test_numbers_next_to_0_and_huge_powers() -> None:
    """log |Γ(x)| is -log |x| next to 0, where sin(πx) may be subnormal; ζ(x, q) is q⁻ˣ for a huge x."""
    tiny = np.array([-5e-324, -1e-310, -1e-21, -1e-19])
    np.testing.assert_allclose(NumPy().lgamma(tiny), -np.log(-tiny), rtol=1e-15)
    for x in (1e20, 1e300):
        assert NumPy().zeta(np.full(4, x), np.array([0.5, 1.0, 2.0, -2.5])).tolist() == [np.inf, 1.0, 0.0, np.inf]
