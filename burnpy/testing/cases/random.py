"""Checks of random sampling, and examples of the derivatives of random numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.testing.cases.samples import Large, Values, x
from burnpy.testing.cases.shape import PROPERTIES, SHAPES, Property
from burnpy.testing.cases.special import polygamma
from burnpy.testing.cases.table import elementwise, row

if TYPE_CHECKING:
    from burnpy.backend.primitives import DType


def _draws(name: str, mean: float, variance: float, low: float, below: float, *arguments: Any) -> Property:
    """Return a check that samples are independent, determined by the generator, with a mean and variance, and in
    [low, below)."""

    def check(device: Any, dtype: DType) -> None:
        def draw(seed: int, shape: tuple[int, ...]) -> Any:
            x = getattr(device, name)(np.random.default_rng(seed), *arguments, shape, dtype)
            assert (x.shape, x.dtype) == (shape, dtype), f"{name} gave {x.shape} and {x.dtype}"
            return device.to_numpy(x)

        for shape in SHAPES:
            draw(0, shape)
        sample = draw(1, (4000,)).astype(np.float64)
        assert abs(sample.mean() - mean) < 6 * (variance / 4000) ** 0.5, (
            f"the mean of {name} is {sample.mean()}, not {mean}"
        )
        assert abs(sample.var() / variance - 1) < 0.15, f"the variance of {name} is {sample.var()}, not {variance}"
        assert low <= sample.min(), f"{name} gave {sample.min()}"
        assert sample.max() < below, f"{name} gave {sample.max()}"
        assert np.array_equal(sample, draw(1, (4000,))), f"{name} draws differently with the same seed"
        assert not np.array_equal(sample, draw(2, (4000,))), f"{name} draws alike with another seed"
        generator = np.random.default_rng(1)
        first, second = (getattr(device, name)(generator, *arguments, (64,), dtype) for _ in range(2))
        assert not np.array_equal(device.to_numpy(first), device.to_numpy(second)), (
            f"{name} does not advance the generator"
        )

    return check


def permutation(device: Any, dtype: DType) -> None:
    """Check that each number occurs once, in an order determined by the generator."""
    first, same, other = (
        device.to_numpy(device.random_permutation(np.random.default_rng(seed), 50, dtype)) for seed in (1, 1, 2)
    )
    assert first.dtype == dtype, f"random_permutation gave {first.dtype}"
    assert sorted(first.tolist()) == list(range(50)), f"random_permutation gave {first}"
    assert np.array_equal(first, same), "random_permutation draws differently with the same seed"
    assert not np.array_equal(first, other), "random_permutation draws alike with another seed"
    assert device.random_permutation(np.random.default_rng(1), 0, dtype).shape == (0,)


def mask(device: Any, dtype: DType) -> None:
    """Check that elements are true with the right frequency, determined by the generator."""

    def draw(seed: int, p: float, shape: tuple[int, ...] = (4000,)) -> Any:
        x = device.random_mask(np.random.default_rng(seed), shape, p)
        assert (x.shape, x.dtype) == (shape, dtype), f"random_mask gave {x.shape} and {x.dtype}"
        return device.to_numpy(x)

    for shape in SHAPES:
        draw(0, 0.5, shape)
    for p in (0.0, 0.1, 0.5, 0.9, 1.0):
        sample = draw(1, p)
        assert abs(sample.mean() - p) <= 6 * (p * (1 - p) / 4000) ** 0.5, (
            f"{sample.mean()} of random_mask are true, not {p}"
        )
        assert np.array_equal(sample, draw(1, p)), "random_mask draws differently with the same seed"
    assert not np.array_equal(draw(1, 0.5), draw(2, 0.5)), "random_mask draws alike with another seed"


def _drawn_by(name: str, parameters: tuple[float, ...], mean: float, variance: float, *arguments: Any) -> Property:
    """Return a check of an operation that draws from a distribution whose parameters are primitives."""

    def check(device: Any, dtype: DType) -> None:
        def draw(seed: int, shape: tuple[int, ...], alike: tuple[int, ...] = ()) -> Any:
            given = [device.full(shape, parameter, dtype) for parameter in parameters]
            out = getattr(device, name)(np.random.default_rng(seed), *given, *arguments, alike)
            assert (out.shape, out.dtype) == (shape, dtype), f"{name} gave {out.shape} and {out.dtype}"
            return device.to_numpy(out)

        for shape in ((2, 3), (1,), (0, 3)):
            draw(0, shape)
        sample = draw(1, (2000, 2)).astype(np.float64)
        first = sample[:, 0]
        assert abs(first.mean() - mean) < 6 * (variance / 2000) ** 0.5, (
            f"the mean of {name} is {first.mean()}, not {mean}"
        )
        assert abs(first.var() / variance - 1) < 0.3, f"the variance of {name} is {first.var()}, not {variance}"
        assert np.array_equal(sample, draw(1, (2000, 2))), f"{name} draws differently with the same seed"
        assert not np.array_equal(sample, draw(2, (2000, 2))), f"{name} draws alike with another seed"
        alike = draw(1, (4, 50, 3), (0, 2)) if name != "random_log_dirichlet" else draw(1, (4, 50, 3), (0,))
        assert np.array_equal(alike, np.broadcast_to(alike[:1], alike.shape)), f"{name} draws differently along alike"
        assert len(np.unique(alike[0, :, 0])) > 1, f"{name} draws alike along other dims than alike"

    return check


def _gamma_quantile_slope(x: Any, concentration: Any, log: bool) -> Any:
    """Return the integral over the lower tail by many nodes."""
    x, a = np.broadcast_arrays(np.asarray(x), np.asarray(concentration))
    t = x if log else np.log(x)
    v, weights = _nodes()
    t, a = t[..., None], a[..., None]
    slope = -np.sum(weights * (t - polygamma(a, 0) + v) * np.exp(a * v - np.exp(t) * np.expm1(v)), -1)
    return slope if log else x * slope


def _beta_quantile_slope(x: Any, a: Any, b: Any) -> Any:
    """Return the integral over the lower tail by many nodes."""
    t, a, b = (array[..., None] for array in np.broadcast_arrays(np.asarray(x), np.asarray(a), np.asarray(b)))
    v, weights = _nodes()
    p = 1 / (1 + np.exp(-t))
    change = np.log1p(p * np.expm1(v))
    log_quantile = np.log(p) + v - change - polygamma(a, 0) + polygamma(a + b, 0)
    return -np.sum(weights * log_quantile * np.exp(a * v - (a + b) * change), -1)


def _nodes() -> tuple[Any, Any]:
    """Nodes from -90 to 0, and their weights: those of Gauss's rule in 60 parts."""
    nodes, weights = np.polynomial.legendre.leggauss(12)
    ends = np.arange(-60, 0) * 1.5
    return (ends[:, None] + 0.75 * (nodes + 1)).ravel(), np.tile(0.75 * weights, 60)


PROPERTIES.update(
    {
        "random_uniform": (frozenset({"float"}), _draws("random_uniform", 0.5, 1 / 12, 0.0, 1.0)),
        "random_normal": (frozenset({"float"}), _draws("random_normal", 0.0, 1.0, -8.0, 8.0)),
        "random_exponential": (frozenset({"float"}), _draws("random_exponential", 1.0, 1.0, 0.0, 30.0)),
        "random_integers": (frozenset({"int"}), _draws("random_integers", 5.5, 35 / 4, 1, 11, 1, 11)),
        "random_mask": (frozenset({"bool"}), mask),
        "random_permutation": (frozenset({"int"}), permutation),
        "random_poisson": (frozenset({"float"}), _drawn_by("random_poisson", (4.0,), 4.0, 4.0)),
        "random_binomial": (frozenset({"float"}), _drawn_by("random_binomial", (8.0, 0.25), 2.0, 1.5)),
        "random_gamma": (frozenset({"float"}), _drawn_by("random_gamma", (2.0,), 2.0, 2.0, False)),
        "random_logit_beta": (
            frozenset({"float"}),
            _drawn_by("random_logit_beta", (2.0, 1.0), 1.0, np.pi**2 / 3 - 1),
        ),
        "random_log_dirichlet": (frozenset({"float"}), _drawn_by("random_log_dirichlet", (1.0,), -1.0, 1.0)),
    }
)

_POSITIVE = {"low": 0.5, "high": 3.0}
_NARROW = ((3,), (2, 1))
"""The shapes of one operand beside others of the shape (2, 3)."""
row(
    "gamma_quantile_slope",
    _gamma_quantile_slope,
    [
        (x(2, 3, **_POSITIVE), x(2, 3, **_POSITIVE), False),
        *[(x(*s, **_POSITIVE), x(2, 3, **_POSITIVE), False) for s in _NARROW],
        *[(x(2, 3, **_POSITIVE), x(*s, **_POSITIVE), False) for s in _NARROW],
        (x(2, 3), x(2, 3, **_POSITIVE), True),
        *[(x(*s, **_POSITIVE), x(*t, **_POSITIVE), False) for s, t in (((), ()), ((0, 3), (0, 3)), ((2, 1), (3,)))],
        (Large((96, 100)), Large((96, 100), 0.5, 3.0), True),
        (Values((0.25, 0.5, 2.0, 4.0, 8.0, 6.0)), Values((3.0, 0.5, 2.0, 4.0, 8.0, 0.75)), False),
    ],
    loose=4096,
)
row(
    "beta_quantile_slope",
    _beta_quantile_slope,
    [
        (x(2, 3), x(2, 3, **_POSITIVE), x(2, 3, **_POSITIVE)),
        *[(x(*s), x(2, 3, **_POSITIVE), x(2, 3, **_POSITIVE)) for s in _NARROW],
        *[(x(2, 3), x(*s, **_POSITIVE), x(2, 3, **_POSITIVE)) for s in _NARROW],
        *[(x(2, 3), x(2, 3, **_POSITIVE), x(*s, **_POSITIVE)) for s in _NARROW],
        *[(x(*s), x(*t, **_POSITIVE), x(*t, **_POSITIVE)) for s, t in (((), ()), ((0, 3), (0, 3)), ((2, 1), (3,)))],
        (Large((96, 100)), Large((96, 100), 0.5, 3.0), Large((96, 100), 0.5, 3.0)),
        (Values((-4.0, -1.0, 0.5, 3.0)), Values((2.0, 8.0, 0.5, 2.0)), Values((3.0, 5.0, 2.0, 0.75))),
    ],
    loose=4096,
)

elementwise("masked_scale", lambda x, mask, scale: np.where(mask, x * scale, 0), options=[(1.25,)])
