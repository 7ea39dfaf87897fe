"""Arithmetic, comparisons, logic, the matrix product, and methods that combine tensors, against NumPy; refusals."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, BoolTensor, IntTensor, Tensor
from burnpy.backend import NumPy
from burnpy.backend.errors import ArgumentError, BurnpyError, DTypeError, KindError, ShapeError
from burnpy.testing import gradcheck, gradgradcheck
from tests.rows import every_row

Train = Autodiff[NumPy]
BACKENDS: list[Any] = [NumPy, Train]
SHAPES = [((), ()), ((3,), ()), ((2, 3), (3,)), ((2, 1), (1, 3)), ((0, 3), (3,)), ((2, 3), (2, 3))]
rng = np.random.default_rng(0)


def floats(shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return rng.uniform(0.5, 2.0, shape).astype(dtype)


def ints(shape: tuple[int, ...], dtype: Any = np.int64) -> np.ndarray[Any, Any]:
    return rng.integers(1, 9, shape).astype(dtype)


def same(found: Any, wanted: Any, dtype: Any = None) -> None:
    wanted = np.asarray(wanted)
    assert found.shape == wanted.shape
    assert found.dtype == (wanted.dtype if dtype is None else dtype)
    np.testing.assert_allclose(found.to_numpy(), wanted, 1e-6)


ARITHMETIC = ["add", "sub", "mul", "pow", "floordiv", "mod"]


@every_row("backend", BACKENDS)
@every_row("shapes", SHAPES)
@every_row("name", [*ARITHMETIC, "truediv", "lt", "le", "gt", "ge", "eq", "ne"])
def test_floats(name: str, shapes: Any, backend: Any) -> None:
    f, a, b = getattr(operator, name), floats(shapes[0]), floats(shapes[1])
    x, y = Tensor.from_data(a, device=backend), Tensor.from_data(b, device=backend)
    same(f(x, y), f(a, b))
    same(f(x, 1.5), f(a, np.float32(1.5)))
    same(f(1.5, x), f(np.float32(1.5), a))
    same(f(x, 2), f(a, np.float32(2)))


@every_row("shapes", SHAPES)
@every_row("name", [*ARITHMETIC, "and_", "or_", "xor", "lt", "le", "gt", "ge", "eq", "ne"])
def test_ints(name: str, shapes: Any) -> None:
    f, a, b = getattr(operator, name), ints(shapes[0]), ints(shapes[1])
    x, y = IntTensor[NumPy].from_data(a), IntTensor[NumPy].from_data(b)
    same(f(x, y), f(a, b))
    same(f(x, 3), f(a, 3))
    same(f(3, x), f(3, a))


@pytest.mark.parametrize("name", ["and_", "or_", "xor", "eq", "ne"])
def test_bools(name: str) -> None:
    f, a, b = getattr(operator, name), np.array([[True, False]]), np.array([[True], [False]])
    x, y = BoolTensor[NumPy].from_data(a), BoolTensor[NumPy].from_data(b)
    same(f(x, y), f(a, b))
    same(f(x, True), f(a, True))
    same(~x, ~a)


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
def test_logic_of_ints_is_of_truth(name: str) -> None:
    a, b = np.array([0, 1, 2, 0]), np.array([0, 2, 4, 1])
    x, y = IntTensor[NumPy].from_data(a), IntTensor[NumPy].from_data(b)
    same(getattr(x, name)(y), getattr(np, name)(a, b))
    same(getattr(x, name)(2), getattr(np, name)(a, 2))
    same(x.logical_not(), np.logical_not(a))


@pytest.mark.parametrize(
    ("left", "right", "wanted"),
    [
        ("float16", "float32", "float32"),
        ("float32", "float64", "float64"),
        ("int8", "int64", "int64"),
        ("uint8", "int8", "int16"),
    ],
)
def test_dtypes_promote_but_0d_and_numbers_do_not(left: str, right: str, wanted: str) -> None:
    cls: Any = Tensor if "float" in left else IntTensor
    x, y = (cls[NumPy].ones((2,), dtype=d) for d in (left, right))
    assert (x + y).dtype == (y * x).dtype == wanted
    assert burnpy.maximum(x, y).dtype == wanted
    assert burnpy.cat([x, y]).dtype == burnpy.stack([y, x]).dtype == wanted
    assert burnpy.where(x == 1, x, y).dtype == wanted
    assert (x.reshape(1, 2) @ y.reshape(2, 1)).dtype == wanted
    assert (x + y.sum(dtype=right)).dtype == x.clamp(y[0], y[0]).dtype == left
    assert x[0].clamp(y, y).dtype == right
    assert (x * 3).dtype == left


def test_an_int_over_an_int_is_float32() -> None:
    x = IntTensor[Train].from_data([1, 2, 0])
    for found, wanted in [
        (x / 4, [0.25, 0.5, 0.0]),
        (x / x, [1, 1, np.nan]),
        (2 / x, [2, 1, np.inf]),
        (x / 0.5, [2, 4, 0]),
    ]:
        assert type(found) is Tensor
        same(found, np.array(wanted, np.float32))
    assert (IntTensor[NumPy].ones((1,), dtype="int8") / IntTensor[NumPy].ones((1,))).dtype == np.float32


def test_a_quotient_of_floats_by_zero_is_infinite() -> None:
    x = Tensor[NumPy].from_data([1.0, -1.0])
    assert (x / 0).tolist() == [np.inf, -np.inf]


MATRICES = [
    ((3,), (3,)),
    ((3,), (3, 2)),
    ((2, 3), (3,)),
    ((2, 3), (3, 4)),
    ((3,), (5, 3, 2)),
    ((5, 2, 3), (3,)),
    ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 1, 2, 3), (4, 3, 2)),
    ((0, 3), (3, 2)),
    ((2, 0), (0, 3)),
]


@every_row("shapes", MATRICES)
@every_row("dtype", [np.float32, np.float64, np.int64])
def test_matmul(shapes: Any, dtype: Any) -> None:
    a, b = (rng.integers(-4, 5, s).astype(dtype) for s in shapes)
    cls: Any = IntTensor if dtype is np.int64 else Tensor
    same(cls[NumPy].from_data(a) @ cls[NumPy].from_data(b), a @ b)


@every_row("shapes", MATRICES)
def test_gradients_of_matmul(shapes: Any) -> None:
    a, b = (rng.standard_normal(s) for s in shapes)
    x, y = (Tensor[Train].from_data(v).require_grad() for v in (a, b))
    out = x @ y
    weights = rng.standard_normal(out.shape)
    grads = (out * Tensor[Train].from_data(weights)).sum().backward()
    products: list[tuple[Any, Any, Any]] = [(x, a, lambda v: v @ b), (y, b, lambda v: a @ v)]
    for leaf, value, product in products:
        wanted = np.zeros(value.shape)
        for at in np.ndindex(value.shape):  # linear: the derivative is the product with the element's unit vector
            unit = np.zeros(value.shape)
            unit[at] = 1
            wanted[at] = (weights * product(unit)).sum()
        np.testing.assert_allclose(grads[leaf].to_numpy(), wanted, 1e-9, 1e-12)


def test_the_functions_are_the_methods() -> None:
    x, y = Tensor[NumPy].from_data([1.0, 5.0]), Tensor[NumPy].from_data([2.0, 3.0])
    assert burnpy.maximum(x, y).tolist() == [2.0, 5.0]
    assert burnpy.minimum(x, 2.0).tolist() == [1.0, 2.0]
    first, second = burnpy.broadcast_tensors(x, y.reshape(2, 1))
    assert first.tolist() == [[1.0, 5.0], [1.0, 5.0]]
    assert second.tolist() == [[2.0, 2.0], [3.0, 3.0]]


INF, NAN = float("inf"), float("nan")
X: Any = Tensor[NumPy].from_data([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
I: Any = IntTensor[NumPy].from_data([[1, 2, 3], [-4, 5, 6]])  # noqa: E741


def double(*values: float) -> Tensor[NumPy]:
    return Tensor[NumPy].from_data(list(values), dtype="float64")


def test_closeness() -> None:
    x = double(1.0, INF, -INF, NAN, 1e10, 0.0)
    y = double(1.0 + 1e-6, INF, INF, NAN, 1e10 + 1e6, 1e-9)
    assert x.isclose(y).tolist() == np.isclose(x.to_numpy(), y.to_numpy()).tolist()
    assert x.isclose(y, equal_nan=True).tolist() == [True, True, False, True, False, True]
    assert x.isclose(y, rtol=0, atol=0, equal_nan=True).tolist() == [False, True, False, True, False, False]
    assert x.isclose(1.0, rtol=0.5).tolist() == [True, False, False, False, False, False]
    assert x[:2].allclose(y[:2]) is True
    assert x.allclose(y) is False
    assert IntTensor[NumPy].from_data([1, 100]).isclose(101, rtol=0.01).tolist() == [False, True]
    assert Tensor[NumPy].zeros((0, 3)).allclose(Tensor[NumPy].ones((1, 3)))
    tracked = Tensor[Autodiff[NumPy]].from_data([1.0]).require_grad()
    assert tracked.allclose(tracked.detach())


def test_steps() -> None:
    x = Tensor[NumPy].from_data([NAN, -0.0, 2.0, -2.0])
    assert x.heaviside(0.5).tolist() == [0.0, 0.5, 1.0, 0.0]
    assert x.half().heaviside(x[2]).dtype == "float16"
    assert I.heaviside(7).tolist() == [[1, 1, 1], [0, 1, 1]]
    assert x.signbit().tolist()[1:] == [True, False, True]
    assert IntTensor[NumPy].from_data([0, -1], dtype="int8").signbit().tolist() == [False, True]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_nan_to_num_gives_the_ends_of_the_dtype(dtype: str) -> None:
    x = Tensor[NumPy].from_data([NAN, INF, -INF], dtype=dtype).nan_to_num(nan=7)
    assert x.dtype == dtype
    zero, most, least = x.double().tolist()
    assert (zero, most) == (7.0, -least)
    assert x.isfinite().all()
    assert not (x * 1.01).isfinite()[1]
    assert I.nan_to_num() is I


def test_interpolation_reaches_its_ends() -> None:
    x, y = double(0.1, 1e30), double(0.7, -3.0)
    assert x.lerp(y, 0.0).tolist() == x.tolist()
    assert x.lerp(y, 1.0).tolist() == y.tolist()
    assert x.lerp(y, double(0.0, 1.0)).tolist() == [0.1, -3.0]


def test_ints_are_shifted_and_divided() -> None:
    small = IntTensor[NumPy].from_data([1, -3], dtype="int8")
    assert (small << 7).tolist() == [-128, -128]
    assert (small << 8).tolist() == (small << -1).tolist() == [0, 0]
    assert (small >> 9).tolist() == [0, -1]
    assert (64 >> small.abs()).tolist() == [32, 8]
    assert (small << 2).dtype == "int8"
    assert I.gcd(0).tolist() == I.abs().tolist()
    assert IntTensor[NumPy].zeros((0,)).lcm(3).shape == (0,)


def test_numbers_are_divided_as_tensors_are() -> None:
    assert X.addcdiv(1.0, 0.0).isinf().all().item()
    assert X.addcdiv(3.0, 2, value=2.0).tolist() == (X + 3.0).tolist()


SMOOTH: dict[str, Callable[[Any, Any], Any]] = {
    "lerp": lambda x, y: x.lerp(y[0], y),
    "addcmul": lambda x, y: x.addcmul(y, y, value=2.0),
    "addcdiv": lambda x, y: x.addcdiv(y[:1], y, value=-1.0),
    "addmm": lambda x, y: x[:, :2].addmm(x, y.mT, beta=0.5, alpha=2.0),
    "baddbmm": lambda x, y: x[:, :2].baddbmm(x.unsqueeze(0), y.mT.unsqueeze(0)),
    "logit": lambda x, y: (x / 4.0).logit() * y.logit(0.1),
    "frac": lambda x, y: x.frac() * y,
    "rad2deg": lambda x, y: x.rad2deg() * y.deg2rad(),
    "nan_to_num": lambda x, y: x.nan_to_num() * y,
    "heaviside": lambda x, y: (y - 0.5).heaviside(x) * (x.detach() * 0.0).heaviside(y),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives(name: str) -> None:
    rng = np.random.default_rng(3)
    x, y = (Tensor[NumPy].from_data(rng.uniform(0.2, 0.9, (2, 3)), dtype="float64") for _ in range(2))
    assert gradcheck(SMOOTH[name], (x, y))
    assert gradgradcheck(SMOOTH[name], (x, y))


@every_row(
    "call, error, said",
    [
        (lambda: X.lerp(X[:, :2], 0.5), ShapeError, r"lerp\(\) got shapes \(2, 3\), \(2, 2\)"),
        (lambda: X.lerp(1.0, 0.5), KindError, r"lerp\(\) interpolates between tensors, got 1.0 as end"),
        (lambda: X.addcmul(X, X[:, :2]), ShapeError, r"addcmul\(\) got shapes \(2, 3\), \(2, 3\), \(2, 2\)"),
        (lambda: X.addcdiv(X, I), KindError, r"addcdiv\(\): kinds do not mix"),
        (lambda: X.addmm(X, X), ShapeError, r"addmm\(\) .* shapes \(2, 3\) and \(2, 3\) to shape \(2, 3\)"),
        (lambda: X.addmm(X, 2.0), KindError, r"addmm\(\) multiplies tensors, got 2.0"),
        (lambda: X.baddbmm(X, X.mT), ShapeError, r"baddbmm\(\) .*\(b, n, k\) and \(b, k, m\)"),
        (lambda: X.isclose(X, rtol=-1.0), ArgumentError, r"isclose\(\) got rtol=-1.0"),
        (lambda: X.allclose(I), KindError, r"allclose\(\): kinds do not mix"),
        (lambda: X.polygamma(-1), ArgumentError, r"polygamma\(\) got the derivative of order -1"),
        (lambda: X.polygamma(171), ArgumentError, "order 171; give 0 to 170"),
        (lambda: X.polygamma(1.5), BurnpyError, r"polygamma\(\)"),
        (lambda: X.logit(0.75), ArgumentError, r"logit\(\) got eps=0.75"),
        (lambda: X.atan2(I), KindError, r"atan2\(\): kinds do not mix"),
        (lambda: I.gcd(0.5), KindError, r"gcd\(\)"),
        (lambda: I.int("uint8") << 300, DTypeError, r"bitwise_left_shift\(\).*300, which uint8 cannot hold"),
        (lambda: I.div(0, rounding_mode="trunc"), ArgumentError, r"integer division of int64 divides by zero"),
        (lambda: I.fmod(0), ArgumentError, r"fmod of int64 divides by zero"),
        (lambda: I.fmod(I - 1), ArgumentError, r"fmod of int64 divides by zero"),
        (lambda: X.hypot(X[:, :2]), ShapeError, r"hypot\(\) got shapes"),
    ],
)  # fmt: skip
def test_what_is_refused(call: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        call()
