"""The arguments that gradcheck accepts and refuses, and the errors it finds in functions (rules: test_rules.py)."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, IntTensor, Tensor, autodiff
from burnpy.backend import NumPy, errors
from burnpy.testing import GradcheckError, gradcheck, gradgradcheck
from tests.rows import every_row

X = Tensor[NumPy].from_data([0.3, -0.7, 1.1], dtype="float64")
Y = Tensor[NumPy].from_data([[0.5], [1.5]], dtype="float64")


@pytest.mark.parametrize("check", [gradcheck, gradgradcheck])
def test_takes(check: Any) -> None:
    assert check(lambda x: x.exp(), X), "one tensor"
    assert check(lambda x, y: x * y, (X, Y)), "several, which broadcast"
    assert check(lambda x, y: (x * y, x.sum(), [y][0]), [X, Y]), "several results"
    assert check(lambda x: x.sum(), Tensor[NumPy].zeros((0, 2), dtype="float64")), "no elements"
    assert check(lambda x: x * x, Tensor[NumPy].from_data(2.0, dtype="float64")), "no dimensions"
    assert check(lambda x, y: x * 2.0, (X, Y)), "an input that nothing depends on"
    assert check(lambda x: x * 0.0 + 1.0, X), "a constant"
    assert check(lambda x: (x @ x.mT).tanh(), Tensor[NumPy].normal((9, 9), dtype="float64")), "many elements"


def test_takes_tensors_that_can_be_differentiated() -> None:
    assert gradcheck(lambda x: x.sin(), Tensor.from_inner(X))
    assert gradcheck(lambda x: x.sin(), Tensor.from_inner(X).require_grad())
    assert gradcheck(lambda x: x.sin(), Tensor.from_inner(X).require_grad() * 2.0)


@every_row(
    "f, inputs, error, message",
    [
        (lambda x: x, Tensor[NumPy].ones((2,)), errors.DTypeError, "float64.*input 0 is float32"),
        (lambda x: x.to_dtype("float32"), X, errors.DTypeError, "float64.*result 0"),
        (3, X, errors.KindError, r"gradcheck\(\) takes a function and its inputs, not 3"),
        (lambda x: x, 3.0, errors.KindError, r"gradcheck\(\) takes float tensors as inputs, one or a tuple of several"),
        (lambda x: x, IntTensor[NumPy].ones((2,)), errors.KindError, r"input 0 is IntTensor\(\[1, 1\]"),
        (lambda x: x, [], errors.ArgumentError, "no inputs"),
        (lambda x: x, [np.ones(2)], errors.KindError, "input 0"),
        (lambda x, n: x, [X, IntTensor[NumPy].from_data([1])], errors.KindError, "input 1"),
        (lambda x: x.argmax(), X, errors.KindError, "result 0"),
        (lambda x: 1.0, X, errors.KindError, "result 0"),
        (lambda x: (), X, errors.KindError, "none"),
        (lambda x, y: x, [X, Tensor.from_inner(X)], errors.DeviceError, "one device"),
        (lambda x: Tensor.from_inner(x), X, errors.DeviceError, "result 0"),
    ],
)
def test_refuses(f: Any, inputs: Any, error: type[Exception], message: str) -> None:
    for check in (gradcheck, gradgradcheck):
        with pytest.raises(error, match=message):
            check(f, inputs)
        with pytest.raises(error, match=message):
            check(f, inputs, raise_exception=False)


def _writes(x: Any) -> Any:
    if isinstance(x._primitive, np.ndarray):
        x._primitive[0] += 1.0
    return x * 1.0


@pytest.mark.parametrize(
    ("what", "f", "message"),
    [
        (
            "a function that is not differentiable as computed",
            lambda x: x * x.detach(),
            r"element \(0,\): reverse mode",
        ),
        ("a kink", lambda x: (x - 0.3).relu(), r"element \(0,\)"),
        ("a function that changes its input", _writes, "function changed input 0"),
        ("a random function", lambda x: x * float(np.random.default_rng().uniform()), "two calls of the function"),
    ],
)
def test_finds(what: str, f: Any, message: str) -> None:
    x = Tensor[NumPy].from_data([0.3, -0.7, 1.1], dtype="float64")
    with pytest.raises(GradcheckError, match=message):
        gradcheck(f, x)
    assert not gradcheck(f, x, raise_exception=False)


def test_the_message_names_the_element_and_both_numbers() -> None:
    def f(x: Any) -> Any:
        return x[:2].sum() * 2.0 + x[2].detach() * 3.0

    with pytest.raises(
        GradcheckError, match=r"input 0, element \(2,\): reverse mode gives 0\.0, central differences give "
    ):
        gradcheck(f, X)
    with pytest.raises(GradcheckError, match="input 0, random direction 0: reverse mode"):
        gradcheck(f, X, elements=2)


def test_tolerances_and_steps() -> None:
    def curved(x: Any) -> Any:
        return x**3

    assert gradcheck(curved, X, eps=1e-4, atol=1e-6)
    assert not gradcheck(curved, X, eps=0.5, raise_exception=False)
    assert gradcheck(curved, X, eps=0.5, atol=2.0)


def test_inputs_stay_as_they_are() -> None:
    before = X.to_numpy().copy()
    gradcheck(lambda x: x.exp(), X)
    gradgradcheck(lambda x: x.exp(), X)
    assert np.array_equal(X.to_numpy(), before)
    assert Autodiff(NumPy) is Autodiff(NumPy())


def test_fast_mode_checks_random_directions_only(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    module = import_module("burnpy.testing.gradcheck")
    original = module.by_differences

    def counted(*args: Any) -> Any:
        asked.append(0)
        return original(*args)

    monkeypatch.setattr(module, "by_differences", counted)
    x = Tensor[NumPy].from_data([0.1, 0.2, 0.3, 0.4], dtype="float64")
    assert gradcheck(lambda x: x.sin(), x, fast_mode=True)
    assert gradcheck(lambda x, y: x.sin() * y, (x, Y), fast_mode=True)
    assert len(asked) == 2 + 2
    assert gradcheck(lambda x: x.sin(), x)
    assert len(asked) == 2 + 2 + 6


def test_fast_mode_names_the_input() -> None:
    def f(x: Any, y: Any) -> Any:
        return x.sin() * y.detach()

    with pytest.raises(GradcheckError, match="input 1, random direction 0: reverse mode gives 0"):
        gradcheck(f, (X, Y), fast_mode=True)


@pytest.mark.parametrize("tangents", [1, 2])
def test_fast_mode_tries_tangents_alone_and_together(tangents: int) -> None:
    class Product(autodiff.Function):
        @staticmethod
        def forward(ctx: autodiff.Context, x: Any, y: Any) -> Any:
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def jvp(ctx: autodiff.Context, dx: Any, dy: Any) -> Any:
            x, y = ctx.saved_tensors
            wrong = 1.01 if sum(bool((t != 0.0).any().item()) for t in (dx, dy)) == tangents else 1.0
            return (dx * y + x * dy) * wrong

    with pytest.raises(GradcheckError, match="forward mode gives"):
        gradcheck(Product.apply, (X, X + 1.0), fast_mode=True, check_backward_ad=False)


def test_one_of_two_modes_can_be_left_out_but_not_both() -> None:
    x = Tensor[NumPy].from_data([0.1], dtype="float64")
    assert gradcheck(lambda x: x.sin(), x, check_backward_ad=False)
    assert gradcheck(lambda x: x.sin(), x, check_forward_ad=False)
    with pytest.raises(errors.ArgumentError, match="enable one of them"):
        gradcheck(lambda x: x.sin(), x, check_forward_ad=False, check_backward_ad=False)


def test_gradgradcheck_starts_from_what_it_is_given() -> None:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        return x.sin() * x

    class Noting(autodiff.Function):
        @staticmethod
        def forward(ctx: autodiff.Context, x: Any) -> Any:
            return x * 1.0

        @staticmethod
        def backward(ctx: autodiff.Context, grad: Any) -> Any:
            seen.append(grad.detach().tolist())
            return grad

        @staticmethod
        def jvp(ctx: autodiff.Context, tangent: Any) -> Any:
            return tangent

    check: Any = gradgradcheck
    x = Tensor[NumPy].from_data([0.3, -0.7], dtype="float64")
    assert gradgradcheck(lambda x: Noting.apply(f(x)), x, x + 1.0)
    assert seen[0] == (x + 1.0).tolist()
    assert gradgradcheck(lambda x: (f(x), x * x), x, [x, x + 2.0])
    for wrong in (x[:1], [x, x], 3.0, [None]):
        with pytest.raises(errors.ArgumentError, match=r"got grad_outputs=.*; expected tensors of shapes \(2,\)"):
            check(f, x, wrong)


def test_several_inputs_are_one_tuple() -> None:
    with pytest.raises(errors.ArgumentError, match=r"got 3 by position; write gradcheck\(f, \(a, b, c\)\)"):
        gradcheck(lambda x, y, z: x * y * z, X, X, X)  # type: ignore[arg-type]  # which is the point


def test_results_may_differ_by_a_tolerance() -> None:
    noise = iter([0.0, 1e-12] * 100)
    x = Tensor[NumPy].from_data([0.1], dtype="float64")
    assert gradcheck(lambda x: x.sin() + next(noise), x, nondet_tol=1e-9)
    with pytest.raises(GradcheckError, match="two calls"):
        gradcheck(lambda x: x.sin() + next(noise), x)
