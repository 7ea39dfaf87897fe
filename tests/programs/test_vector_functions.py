"""exp, log, tanh … of kernels are within a few units in the last place of the exact value, and exact at the edges."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from burnpy.backend import NumPy
from burnpy.backend.programs import Extent, Input, trace
from burnpy.backend.programs.program import FUNCTIONS
from tests.interrupting import LONG
from tests.rows import every_row

pytest.importorskip("llvmlite")
mpmath: Any = pytest.importorskip("mpmath")

INF, NAN = math.inf, math.nan
NAMES = sorted(FUNCTIONS)
TURNING = ("sin", "cos", "tan")
ODD = ("expm1", "log1p", "sinh", "tanh", "erf", "sin", "tan", "asin", "atan")
"""Functions that are about x near 0; erf is about 2x/√π."""
EXACT: dict[str, Any] = {
    **{name: getattr(mpmath, name) for name in NAMES if name != "sigmoid"},
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
}
LIMITS = {"erfc": 3.5, "erfinv": 5.0}
"""The units in the last place by which a function may differ, where they are not 2."""
DTYPES: dict[str, Any] = {"float32": np.float32, "float64": np.float64}
MANY = 100 if LONG else 20
"""The random numbers of a short range."""


def computed(name: str, x: Any) -> Any:
    """The function by a kernel."""
    from burnpy_numpy.kernels.kernel import program_kernel

    program = trace(lambda b, v: getattr(b, name)(v), (Input(Extent.FULL, x.dtype.name),), name=name)
    kernel = program_kernel(program)
    assert kernel is not None
    (out,) = kernel([np.ascontiguousarray(x).reshape(1, -1)], (), 1, x.size)
    return out.reshape(x.shape)


def samples(name: str, dtype: Any) -> Any:
    """Numbers of all exponents, dense ones where the functions change, and the ends of ranges."""
    generator = np.random.default_rng(7)
    narrow = dtype is np.float32
    bits = generator.integers(0, 1 << (32 if narrow else 64), 15 * MANY, dtype=np.uint64)
    every = bits.astype(np.uint32).view(np.float32) if narrow else bits.view(np.float64)
    quarters = np.concatenate([np.arange(1, 200), 2.0 ** np.arange(8, 26)]) * (math.pi / 2)
    near_log2 = np.arange(-160, 160) * (math.log(2) / 2)
    parts: list[Any] = [
        every[np.isfinite(every)].astype(np.float64),
        generator.uniform(-1, 1, 7 * MANY),
        generator.uniform(-30, 30, 7 * MANY),
        generator.uniform(*((-110, 90) if narrow else (-750, 710)), 3 * MANY),
        1 + 2.0 ** generator.uniform(-30, -2, 2 * MANY),
        1 - 2.0 ** generator.uniform(-30, -2, 2 * MANY),
        2.0 ** generator.uniform(-60, 0, 2 * MANY),
        -(2.0 ** generator.uniform(-60, 0, 2 * MANY)),
        [0.625, 0.84375, 0.927734375, math.sqrt(0.5), math.sqrt(2), -0.625, -0.84375, -0.927734375, math.sqrt(0.5) - 1],
        [0.34657, -0.34657, -17.33, -37.4, 20.0, 4.0, 6.0, 10.0, 2.0**28, 2.0**27 + 0.5],
    ]
    x = np.concatenate(parts).astype(dtype)
    edges = (quarters if name in TURNING else near_log2).astype(dtype)
    x = np.concatenate([x, edges, np.nextafter(edges, dtype(0)), np.nextafter(edges, dtype(np.inf))])
    tiny = np.finfo(dtype).smallest_subnormal
    x = np.concatenate(
        [x, np.array([tiny, -tiny, np.finfo(dtype).tiny, np.finfo(dtype).max, -np.finfo(dtype).max], dtype)]
    )
    if name in TURNING:
        x = x[np.abs(x) <= 2.0**28]  # beyond, the C library computes
    if name == "log":
        x = x[x > 0]
    if name in ("erfinv", "asin", "acos"):
        x = x[np.abs(x) < 1]
    return x[x > -1] if name == "log1p" else x


@pytest.mark.slowest
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_functions_are_within_few_units_in_the_last_place(name: str, dtype: str) -> None:
    x = samples(name, DTYPES[dtype])
    y = computed(name, x)
    assert y.dtype == x.dtype
    worst, where = 0.0, 0.0
    with mpmath.workprec(180):
        for a, found in zip(x.tolist(), y.tolist(), strict=True):
            exact = reference(name, a)
            with np.errstate(over="ignore"):
                rounded = DTYPES[dtype](float(exact))
            if np.isinf(rounded):
                assert found == rounded, (name, a)
                continue
            unit = float(np.spacing(np.abs(rounded), dtype=rounded.dtype))
            error = float(abs(mpmath.mpf(found) - exact) / mpmath.mpf(unit)) if math.isfinite(found) else math.inf
            if error > worst:
                worst, where = error, a
    assert worst <= LIMITS.get(name, 2.0), f"{name} of {where} is wrong by {worst} units"


def reference(name: str, x: float) -> Any:
    """The exact value, where it is simple without the many digits that the formula would need."""
    if abs(x) < 1e-60 and name in ODD:
        return mpmath.mpf(x) * (2 / mpmath.sqrt(mpmath.pi) if name == "erf" else 1)
    if name in ("exp", "expm1", "sigmoid") and abs(x) > 2000:
        low, high = {"exp": (0, mpmath.inf), "expm1": (-1, mpmath.inf), "sigmoid": (0, 1)}[name]
        return mpmath.mpf(low if x < 0 else high)
    if name == "erfc" and abs(x) > 200:
        return mpmath.mpf(0 if x > 0 else 2)
    if name == "erfinv" and abs(x) < 1e-60:
        return mpmath.mpf(x) * mpmath.sqrt(mpmath.pi) / 2
    if name in ("sinh", "cosh") and abs(x) > 2000:
        return mpmath.mpf("inf") * (math.copysign(1, x) if name == "sinh" else 1)
    if name in ("tanh", "erf") and abs(x) > 50:
        return mpmath.mpf(math.copysign(1, x))
    return EXACT[name](mpmath.mpf(x))


@every_row("dtype", DTYPES)
@every_row(
    "name, x, wanted",
    [
        ("exp", [0.0, -0.0, math.inf, -math.inf, math.nan], [1.0, 1.0, math.inf, 0.0, math.nan]),
        ("expm1", [0.0, -0.0, math.inf, -math.inf, math.nan], [0.0, -0.0, math.inf, -1.0, math.nan]),
        ("log", [0.0, -0.0, INF, -INF, NAN, -1.0, 1.0], [-INF, -INF, INF, NAN, NAN, NAN, 0.0]),
        ("log1p", [0.0, -0.0, INF, -INF, NAN, -1.0, -2.0], [0.0, -0.0, INF, NAN, NAN, -INF, NAN]),
        ("tanh", [0.0, -0.0, math.inf, -math.inf, math.nan], [0.0, -0.0, 1.0, -1.0, math.nan]),
        ("sigmoid", [0.0, -0.0, math.inf, -math.inf, math.nan], [0.5, 0.5, 1.0, 0.0, math.nan]),
        ("erfc", [0.0, -0.0, math.inf, -math.inf, math.nan], [1.0, 1.0, 0.0, 2.0, math.nan]),
        ("erfinv", [0.0, -0.0, 1.0, -1.0, 1.5, math.nan], [0.0, -0.0, math.inf, -math.inf, math.nan, math.nan]),
        ("erf", [0.0, -0.0, math.inf, -math.inf, math.nan], [0.0, -0.0, 1.0, -1.0, math.nan]),
        ("sinh", [0.0, -0.0, INF, -INF, NAN], [0.0, -0.0, INF, -INF, NAN]),
        ("cosh", [0.0, -0.0, INF, -INF, NAN], [1.0, 1.0, INF, INF, NAN]),
        ("tan", [0.0, -0.0, INF, -INF, NAN], [0.0, -0.0, NAN, NAN, NAN]),
        ("asin", [0.0, -0.0, 2.0, -INF, NAN], [0.0, -0.0, NAN, NAN, NAN]),
        ("acos", [1.0, 2.0, -INF, NAN], [0.0, NAN, NAN, NAN]),
        ("atan", [0.0, -0.0, NAN], [0.0, -0.0, NAN]),
        ("sin", [0.0, -0.0, math.inf, -math.inf, math.nan], [0.0, -0.0, math.nan, math.nan, math.nan]),
        ("cos", [0.0, -0.0, math.inf, -math.inf, math.nan], [1.0, 1.0, math.nan, math.nan, math.nan]),
    ],
)  # fmt: skip
def test_functions_at_the_edges(name: str, x: list[float], wanted: list[float], dtype: str) -> None:
    y = computed(name, np.array(x, dtype))
    np.testing.assert_array_equal(y, np.array(wanted, dtype))
    finite = ~np.isnan(y)
    np.testing.assert_array_equal(np.signbit(y[finite]), np.signbit(np.array(wanted))[finite])


@every_row("dtype", DTYPES)
def test_inverse_functions_at_their_ends_are_parts_of_pi(dtype: str) -> None:
    ends = np.array([1.0, -1.0], dtype)
    pi = DTYPES[dtype](np.pi)
    np.testing.assert_array_equal(computed("asin", ends), [pi / 2, -pi / 2])
    np.testing.assert_array_equal(computed("acos", ends), [0.0, pi])
    np.testing.assert_array_equal(computed("atan", ends * np.inf), [pi / 2, -pi / 2])


@pytest.mark.parametrize("name", TURNING)
def test_trigonometric_functions_of_large_numbers_are_those_of_the_c_library(name: str) -> None:
    x = np.array([2.0**28 + 1, 1e10, -1e22, 1e300, 0.5, math.nan] * 3)
    wanted = [getattr(math, name)(v) for v in x]
    np.testing.assert_allclose(computed(name, x), wanted, rtol=2e-16)


def test_all_positions_of_a_vector_give_the_same_bits() -> None:
    x = np.linspace(-3, 3, 131, dtype=np.float32)
    for name in NAMES:
        whole = computed(name, np.abs(x) + np.float32(0.1))
        for length in (1, 7, 8, 15, 16, 17, 33):
            part = computed(name, (np.abs(x) + np.float32(0.1))[-length:])
            np.testing.assert_array_equal(part, whole[-length:], err_msg=name)


def test_the_device_uses_them() -> None:
    x = np.linspace(-6, 6, 10001)
    assert np.abs(NumPy().erf(x) - [math.erf(v) for v in x]).max() < 5e-16
