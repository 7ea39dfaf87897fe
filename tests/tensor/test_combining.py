"""Methods that combine tensors: closeness, steps, sums of products, shifts; numbers, kinds, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, IntTensor, Tensor
from burnpy.backend import NumPy
from burnpy.backend.errors import ArgumentError, BurnpyError, DTypeError, KindError, ShapeError
from burnpy.testing import gradcheck, gradgradcheck

INF, NAN = float("inf"), float("nan")
X: Any = Tensor[NumPy].from_data([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
I: Any = IntTensor[NumPy].from_data([[1, 2, 3], [-4, 5, 6]])  # noqa: E741


def floats(*values: float) -> Tensor[NumPy]:
    return Tensor[NumPy].from_data(list(values), dtype="float64")


def test_closeness() -> None:
    x = floats(1.0, INF, -INF, NAN, 1e10, 0.0)
    y = floats(1.0 + 1e-6, INF, INF, NAN, 1e10 + 1e6, 1e-9)
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
    x, y = floats(0.1, 1e30), floats(0.7, -3.0)
    assert x.lerp(y, 0.0).tolist() == x.tolist()
    assert x.lerp(y, 1.0).tolist() == y.tolist()
    assert x.lerp(y, floats(0.0, 1.0)).tolist() == [0.1, -3.0]


def test_ints_are_shifted_and_divided() -> None:
    small = IntTensor[NumPy].from_data([1, -3], dtype="int8")
    assert (small << 7).tolist() == [-128, -128]
    assert (small << 8).tolist() == (small << -1).tolist() == [0, 0]
    assert (small >> 9).tolist() == [0, -1]
    assert (64 >> small.abs()).tolist() == [32, 8]
    assert (small << 2).dtype == "int8"
    assert I.gcd(0).tolist() == I.abs().tolist()
    assert IntTensor[NumPy].zeros((0,)).lcm(3).shape == (0,)


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


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: X.lerp(X[:, :2], 0.5), ShapeError, r"lerp\(\) got shapes \(2, 3\), \(2, 2\)"),
        (lambda: X.addcmul(X, X[:, :2]), ShapeError, r"addcmul\(\) got shapes \(2, 3\), \(2, 3\), \(2, 2\)"),
        (lambda: X.addcdiv(X, I), KindError, r"addcdiv\(\): kinds do not mix"),
        (lambda: X.addmm(X, X), ShapeError, r"addmm\(\) .* shapes \(2, 3\) and \(2, 3\) to shape \(2, 3\)"),
        (lambda: X.addmm(X, 2.0), KindError, r"addmm\(\) multiplies tensors, got 2.0"),
        (lambda: X.baddbmm(X, X.mT), ShapeError, r"baddbmm\(\) .*\(b, n, k\) and \(b, k, m\)"),
        (lambda: X.isclose(X, rtol=-1.0), ArgumentError, r"isclose\(\) got rtol=-1.0"),
        (lambda: X.allclose(I), KindError, r"allclose\(\): kinds do not mix"),
        (lambda: X.polygamma(-1), ArgumentError, r"polygamma\(\) got the derivative of order -1"),
        (lambda: X.polygamma(1.5), BurnpyError, r"polygamma\(\)"),
        (lambda: X.logit(0.75), ArgumentError, r"logit\(\) got eps=0.75"),
        (lambda: X.atan2(I), KindError, r"atan2\(\): kinds do not mix"),
        (lambda: I.gcd(0.5), KindError, r"gcd\(\)"),
        (lambda: I.int("uint8") << 300, DTypeError, r"bitwise_left_shift\(\).*300, which uint8 cannot hold"),
        (lambda: I.fmod(0), ArgumentError, r"fmod of int64 divides by zero"),
        (lambda: I.fmod(I - 1), ArgumentError, r"fmod of int64 divides by zero"),
        (lambda: X.hypot(X[:, :2]), ShapeError, r"hypot\(\) got shapes"),
    ],
)  # fmt: skip
def test_what_is_refused(call: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        call()
