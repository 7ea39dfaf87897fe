"""Elementwise operations of 16-bit floats by kernels: computed in float32, and rounded once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy import Tensor, compiled, func, stack
from burnpy.backend import NumPy
from burnpy.backend.dtypes import HALVES, dtype_of
from burnpy.nn import functional
from burnpy_numpy.kernels.compiler.target import target
from tests.rows import every_row

pytest.importorskip("llvmlite")
if not target().fuses:
    pytest.skip("the target cannot convert float16", allow_module_level=True)

D: Any = NumPy()
FUNCTIONS: dict[str, Any] = dict.fromkeys(("tanh", "sigmoid", "relu", "silu", "erf", "sin", "expm1", "mish"), ())
FUNCTIONS |= dict.fromkeys(("exp", "sqrt", "rsqrt", "reciprocal", "square"), ())
FUNCTIONS |= dict.fromkeys(("floor", "ceil", "round", "trunc", "abs", "neg"), ())
FUNCTIONS |= {"gelu": (False,), "softplus": (2.0,), "clamp": (-1.0, 0.5), "leaky_relu": (0.25,), "pow": (3,)}
OPERATORS: dict[str, Any] = {
    **{name: getattr(np, name) for name in ("add", "subtract", "multiply", "divide")},
    **{name: getattr(np, name) for name in ("maximum", "minimum", "fmax", "fmin")},
    **{name: getattr(np, name) for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")},
}
OURS = {"subtract": "sub", "multiply": "mul", "divide": "div", "equal": "eq", "not_equal": "ne"}
OURS |= {"less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge"}


def every_number(name: str) -> Any:
    """All numbers of 16 bits, infinities and NaN among them."""
    return np.arange(1 << 16, dtype=np.uint16).view(dtype_of(name)).reshape(256, 256)


def drawn(name: str, seed: int, shape: Any) -> Any:
    return np.random.default_rng(seed).permutation(every_number(name).reshape(-1))[: int(np.prod(shape))].reshape(shape)


def same(found: Any, wanted: Any) -> None:
    """The same bits, but of NaN."""
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    if found.dtype == bool:
        np.testing.assert_array_equal(found, wanted)
        return
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.isnan(found), ~numbers)
    np.testing.assert_array_equal(found[numbers].view(np.uint16), wanted[numbers].view(np.uint16))


@every_row("half", HALVES)
def test_functions_are_those_of_float32_rounded_once(half: str, noted: list[Any]) -> None:
    x = every_number(half)
    for name, options in FUNCTIONS.items():
        noted.clear()
        found = getattr(D, name)(x, *options)
        assert len(noted) == 1, name
        with np.errstate(all="ignore"):
            same(found, getattr(D, name)(x.astype(np.float32), *options).astype(x.dtype))


@every_row("half", HALVES)
@every_row("name", ["log", "log2", "log10"])
def test_logarithms_are_within_a_unit_in_the_last_place(half: str, name: str, noted: list[Any]) -> None:
    x = every_number(half)
    noted.clear()
    found = getattr(D, name)(x)
    assert len(noted) == 1
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(x.astype(np.float64)).astype(x.dtype)
    special = ~np.isfinite(wanted)
    same(found[special], wanted[special])
    apart = found[~special].view(np.int16).astype(int) - wanted[~special].view(np.int16)
    assert np.abs(apart).max() <= 1


@pytest.mark.slow
@every_row("half", HALVES)
@every_row("shapes", [((60, 80), (60, 80)), ((60, 80), (80,)), ((60, 1), (60, 80)), ((60, 80), ())])
def test_operators_have_the_bits_of_numpy(half: str, shapes: Any, noted: list[Any]) -> None:
    x, y = (drawn(half, k, shape) for k, shape in enumerate(shapes))
    second = float(drawn(half, 1, (9,))[5]) if shapes[1] == () else y
    for name, function in OPERATORS.items():
        noted.clear()
        found = getattr(D, OURS.get(name, name))(x, second)
        assert len(noted) == 1, name
        with np.errstate(all="ignore"):
            wanted = function(x, dtype_of(half).type(second) if shapes[1] == () else y)
            if name in ("maximum", "minimum", "fmax", "fmin"):  # which of two zeros is larger, NumPy leaves open
                found, wanted = found + dtype_of(half).type(0), wanted + dtype_of(half).type(0)
        same(found, wanted)


@every_row("half", HALVES)
@every_row("shape", [(60, 80), (5000,), (2, 3, 1, 900)])
def test_operators_of_a_0d_array_have_the_bits_of_numpy(half: str, shape: tuple[int, ...], noted: list[Any]) -> None:
    x, y = drawn(half, 0, shape), np.asarray(drawn(half, 1, (9,))[5])
    for name in ("add", "sub", "mul", "div", "lt"):
        for pair in ((y, x), (x, y), (y[()], x)):
            noted.clear()
            found = getattr(D, name)(*pair)
            assert len(noted) == 1, name
            with np.errstate(all="ignore"):
                same(
                    found,
                    OPERATORS[{"sub": "subtract", "mul": "multiply", "div": "divide", "lt": "less"}.get(name, name)](
                        *pair
                    ),
                )
    with np.errstate(all="ignore"):
        same(D.pow(y, x), np.power(y.astype(np.float32), x.astype(np.float32)).astype(x.dtype))


@every_row("half", HALVES)
def test_a_number_is_rounded_before_it_is_used(half: str) -> None:
    x, number = np.full((50, 60), 3, dtype_of(half)), 0.1
    same(D.mul(x, number), x * x.dtype.type(number))
    same(D.mul(x, number), D.mul(x[:2, :2], number)[0, 0].repeat(x.size).reshape(x.shape))


@every_row("half", HALVES)
@every_row("number", [False, True])
def test_powers_quotients_and_remainders_are_those_of_float32_rounded_once(half: str, number: bool) -> None:
    x, y = drawn(half, 0, (60, 80)), drawn(half, 1, (60, 80))
    given = float(x.dtype.type(2.3)) if number else y
    wide = x.astype(np.float32), given if number else y.astype(np.float32)
    for name, function in {
        "pow": np.power,
        "floor_divide": np.floor_divide,
        "remainder": np.remainder,
        "fmod": np.fmod,
    }.items():
        with np.errstate(all="ignore"):
            same(getattr(D, name)(x, 2.3 if number else y), function(*wide).astype(x.dtype))


@every_row("half", HALVES)
def test_formulas_are_computed_in_float32_and_rounded_once(half: str, noted: list[Any]) -> None:
    x, y = (Tensor[NumPy].from_data(drawn(half, seed, (60, 80))) for seed in (0, 1))
    wide = x.to_dtype("float32"), y.to_dtype("float32")
    for f in (
        lambda x, y: x.addcdiv(y, x, value=0.1),
        lambda x, y: x.addcmul(y, x, value=0.1),
        lambda x, _: x.frac(),
        lambda x, _: functional.threshold(x, 0.1, 0.3),
        lambda x, _: functional.hardsigmoid(x),
    ):
        noted.clear()
        found = f(x, y)
        assert len(noted) == 1
        same(found.to_numpy(), f(*wide).to_dtype(half).to_numpy())


@every_row("half", HALVES)
def test_rows_are_computed_in_float32(half: str) -> None:
    x = (np.random.default_rng(0).normal(size=(40, 300)) * 5).astype(dtype_of(half))
    wide = x.astype(np.float32)
    for name, options in {
        **dict.fromkeys(("softmax", "log_softmax"), (1,)),
        **dict.fromkeys(("sum", "mean", "amax", "amin", "logsumexp"), ((1,), False)),
    }.items():
        same(getattr(D, name)(x, *options), getattr(D, name)(wide, *options).astype(x.dtype))


def test_sums_of_squares_and_of_numbers_do_not_overflow_where_their_results_do_not() -> None:
    x = np.full((64, 128), 300.0, np.float16)
    assert D.vector_norm(x[:1], 2.0, (1,), False)[0] == np.float16(300 * np.sqrt(128))
    assert D.mean(x, (0, 1), False) == 300
    assert D.nansum(x * np.float16(1e-3), (0, 1), False) == pytest.approx(0.3 * x.size, rel=2e-3)


@every_row("half", HALVES)
def test_gradients_are_the_same_in_plans_and_in_vmap_in_vmap(half: str) -> None:
    x = Tensor[NumPy].from_data(np.random.default_rng(2).uniform(-0.9, 0.9, (40, 60)), dtype="float32")

    def gradient(x: Any) -> Any:
        return func.grad(lambda x: (x.tanh() * x + x.softmax(1) * 3.0 + x.asin().relu()).sum())(x)

    narrow = x.to_dtype(half)
    found, wide = gradient(narrow), gradient(narrow.to_dtype("float32"))
    error = 4 * float(np.finfo(np.float16).eps if half == "float16" else 2.0**-7)
    np.testing.assert_allclose(found.to_dtype("float32").to_numpy(), wide.to_numpy(), rtol=error, atol=error)
    assert compiled(gradient)(narrow).tolist() == found.tolist()
    batch = stack([stack([narrow, -narrow]), stack([narrow * 0.5, narrow])])
    assert func.vmap(func.vmap(gradient))(batch)[1][1].tolist() == found.tolist()


@every_row("half", HALVES)
def test_adaptive_averages_are_rounded_once(half: str) -> None:
    x = drawn(half, 0, (2, 3, 7, 10)).clip(-9, 9)
    for size in ((3, 4), (7, 3), (2, 10), (7, 10)):
        for given in (x, x[:, :, ::-1], np.where(np.arange(10) == 4, x.dtype.type(np.inf), x)):
            found = D.adaptive_avg_pool2d(given, size)
            wanted = D.adaptive_avg_pool2d(given.astype(np.float32), size)
            assert not np.shares_memory(found, given)
            same(found, wanted.astype(x.dtype))
        grad = drawn(half, 1, (2, 3, *size)).clip(-9, 9)
        wanted = D.adaptive_avg_pool2d_backward(grad.astype(np.float32), x.shape)
        same(D.adaptive_avg_pool2d_backward(grad, x.shape), wanted.astype(x.dtype))


def test_prelu_of_16_bits_beside_one_slope_is_one_kernel() -> None:
    x = Tensor[NumPy].from_data(np.linspace(-1.0, 1.0, 9000)).to_dtype("bfloat16")
    slope = x[:1] * -0.5
    assert x.prelu(slope).float().tolist() == x.float().prelu(slope.float()).to_dtype("bfloat16").float().tolist()
    assert NumPy().fuses([x._primitive, slope.reshape(())._primitive])
