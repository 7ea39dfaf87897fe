"""`Checked[B]`: NaN, and infinity where asked, is an error where it comes up, in forward and backward passes."""

from __future__ import annotations

import copy
import math
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from burnpy import Autodiff, BoolTensor, IntTensor, Tensor, cat, where
from burnpy.autodiff import Forward, track_lines
from burnpy.backend import Checked, NumPy, Profiled, device_of
from burnpy.backend.decorators import Decorator
from burnpy.backend.errors import (
    ArgumentError,
    DeviceError,
    IndexRangeError,
    NonFiniteError,
    NotTrackedError,
    ShapeError,
)
from tests.rows import every_row

Plain = Checked[NumPy]
Train = Autodiff[Plain]
Strict = Checked(NumPy, True)


def tensor(data: Any, device: Any = Plain) -> Tensor[Any]:
    return Tensor.from_data(data, dtype="float64", device=device)


# what, the function of x = [4, -1, 0], the operation, and more words
FORWARD: list[tuple[str, Callable[[Any], Any], str, list[str]]] = [
    ("the root of a negative", lambda x: x.sqrt(), "sqrt", ["index (1,)", "x of shape (3,), dtype float64 is finite"]),
    ("its logarithm", lambda x: x.log(), "log", ["index (1,)"]),
    ("0 / 0", lambda x: x / (x * 0.0), "div", ["index (2,)", "y of shape (3,)"]),
    ("∞ - ∞", lambda x: (1.0 / x) - (1.0 / x), "sub", ["x of shape (3,), dtype float64 held infinity at index (2,)"]),
    ("a fractional power", lambda x: x**0.5, "pow", ["index (1,)", "y=0.5"]),
    ("before it gets far", lambda x: (x / 0.0).softmax(0), "div", ["y=0.0"]),
    ("a remainder by nothing", lambda x: x % 0.0, "remainder", ["the first of 3"]),
    ("nothing's mean", lambda x: x[:0].mean(), "mean", ["in a result of shape ()", "shape (0,)"]),
    ("in two dimensions", lambda x: x.reshape(3, 1).sqrt(), "sqrt", ["index (1, 0)", "shape (3, 1)"]),
    ("a number put in", lambda x: x.at[0].set(math.nan), "full", ["value=nan"]),
]


@every_row("claim, f, operation, words", FORWARD, ids=[row[0] for row in FORWARD])
@every_row("device", [Plain, Train, Autodiff[Train], Checked[Checked[NumPy]]], ids=range(4))
def test_the_operation_is_named(claim: str, f: Any, operation: str, words: list[str], device: Any) -> None:
    with pytest.raises(NonFiniteError) as caught:
        f(tensor([4.0, -1.0, 0.0], device))
    message = str(caught.value)
    assert message.startswith(f"{operation}() on Checked[NumPy] gave NaN"), f"{claim}: {message}"
    assert all(word in message for word in words), f"{claim}: {message}"
    assert 'with Checked.allow("nan")' in message


def test_the_error_is_a_floating_point_error() -> None:
    assert issubclass(NonFiniteError, FloatingPointError)


def test_the_whole_message() -> None:
    with pytest.raises(NonFiniteError) as caught:
        tensor([[1.0, -1.0]]).sqrt()
    assert str(caught.value) == (
        "sqrt() on Checked[NumPy] gave NaN at index (0, 1) in a result of shape (1, 2) and dtype float64; "
        "x of shape (1, 2), dtype float64 is finite. If this is meant, compute it in: "
        'with Checked.allow("nan"):'
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_floats_are_checked(dtype: str) -> None:
    x = tensor([1.0, -1.0]).to_dtype(dtype)
    with pytest.raises(NonFiniteError, match=rf"sqrt\(\) .* gave NaN at index \(1,\) .* dtype {dtype}"):
        x.sqrt()


def test_data_with_nan_are_refused() -> None:
    with pytest.raises(NonFiniteError, match=r"from_numpy\(\) on Checked\[NumPy\] gave NaN at index \(1,\)"):
        tensor([1.0, math.nan])
    with pytest.raises(NonFiniteError, match=r"detach\(\).* gave NaN at index \(1,\).* held NaN .* already"):
        Tensor[NumPy].from_data([1.0, math.nan]).to_device(Plain)


def test_members_of_a_sequence_are_described() -> None:
    with Checked.allow("nan"):
        bad = tensor([math.nan])
    with pytest.raises(
        NonFiniteError, match=r"xs\[0\] of shape \(1,\), dtype float64 is finite, xs\[1\].*held NaN at index \(0,\)"
    ):
        cat([tensor([1.0]), bad])


# which operation is differentiated of x = [0, 4], the rule that is named
BACKWARD: list[tuple[Callable[[Any], Any], str]] = [
    (lambda x: x.sqrt() * 0.0, "sqrt"),
    (lambda x: where(x.detach() > 0.0, x.log(), 0.0), "log"),
    (lambda x: (x.detach() / (x + 1.0) * 0.0) + x.sqrt() * 0.0, "sqrt"),
]


@every_row("f, rule", BACKWARD, ids=[row[1] for row in BACKWARD])
@every_row("device", [Train, Autodiff[Train], Autodiff[Profiled[Plain]]], ids=range(3))
def test_rules_are_checked_and_named(f: Any, rule: str, device: Any) -> None:
    x = tensor([0.0, 4.0], device).require_grad()
    loss = f(x).sum()
    with pytest.raises(
        NonFiniteError, match=rf"\(\) on Checked\[NumPy\] in the backward of {rule} gave NaN at index \(0,\)"
    ):
        loss.backward()


def test_the_forward_line_is_named_where_it_was_noted() -> None:
    x = tensor([0.0], Train).require_grad()
    with track_lines():
        y = x.sqrt() * 0.0  # here
    with pytest.raises(NonFiniteError) as caught:
        y.sum().backward()
    assert "The forward pass recorded sqrt here:" in str(caught.value)
    assert "y = x.sqrt() * 0.0  # here" in str(caught.value)


def test_sums_of_gradients_are_checked() -> None:
    x = tensor([0.0], Train).require_grad()
    y = x * 1.0
    with pytest.raises(NonFiniteError, match=r"(add|accumulate)\(\) .*in the backward of sqrt gave NaN"):
        (y.sqrt() - y.sqrt()).sum().backward()


def test_forward_mode_is_checked() -> None:
    device = Forward(Plain)
    inner = device.inner
    with pytest.raises(NonFiniteError, match="gave NaN"):
        device.mul(
            device.sqrt(
                device.dual(inner.full((1,), 0.0, tensor([1.0]).dtype), inner.full((1,), 0.0, tensor([1.0]).dtype))
            ),
            1.0,
        )


def test_infinity_is_an_error_where_asked() -> None:
    assert tensor([0.0]).log().tolist() == [-math.inf]
    masked = tensor([1.0, 2.0]).masked_fill(BoolTensor[Plain].from_data([True, False]), -math.inf)
    assert masked.softmax(0).tolist() == [0.0, 1.0]
    with pytest.raises(NonFiniteError, match=r'log\(\) on Checked\[NumPy, inf\] gave infinity.*Checked.allow\("inf"\)'):
        tensor([0.0], Strict).log()
    with pytest.raises(NonFiniteError, match="gave NaN"):
        tensor([-1.0], Strict).sqrt()
    with Checked.allow("inf"):
        x = tensor([1.0], Strict) / 0.0
        with pytest.raises(NonFiniteError, match="gave NaN"):
            x - x


def test_a_way_out() -> None:
    with Checked.allow("nan"):
        x = tensor([math.nan, 1.0])
        assert x.isnan().tolist() == [True, False]
        assert math.isnan((x * 2.0).sum().item())
    assert x.isnan().tolist() == [True, False], "comparisons of NaN are no NaN"
    with pytest.raises(NonFiniteError, match=r"x of shape \(2,\), dtype float64 held NaN at index \(0,\) already"):
        x * 2.0
    with Checked.allow():
        tensor([-1.0], Strict).sqrt()
    with Checked.allow("inf"), pytest.raises(NonFiniteError):
        tensor([-1.0]).sqrt()

    @Checked.allow("nan")
    def nans(x: Any) -> Any:
        return x.sqrt()

    assert math.isnan(nans(tensor([-1.0])).item())
    assert math.isnan(nans(tensor([-1.0])).item()), "a decorated function can be called again"
    with pytest.raises(NonFiniteError):
        tensor([-1.0]).sqrt()
    with pytest.raises(ZeroDivisionError), Checked.allow():
        raise ZeroDivisionError
    with pytest.raises(NonFiniteError):
        tensor([-1.0]).sqrt()


def test_misuse_of_allow() -> None:
    zero: Any = "zero"
    words = r"Checked.allow\(\) got 'zero'; expected \"nan\" or \"inf\""
    with pytest.raises(ArgumentError, match=words), Checked.allow(zero):
        pass


def test_other_errors_pass_through() -> None:
    with pytest.raises(ShapeError, match="do not broadcast"):
        tensor([1.0, 2.0]) + tensor([1.0, 2.0, 3.0])


def test_indices_are_checked_at_once() -> None:
    class Later(NumPy):
        """A device that would be waited for."""

        eager_checks = False

    assert not Later().eager_checks
    device = Checked(Later)
    assert device.eager_checks
    assert not Profiled(Later).eager_checks
    x = Tensor.ones((3,), device=device)
    with pytest.raises(IndexRangeError, match="index 5"):
        x.gather(0, IntTensor.from_data([5], device=device))


def test_ints_and_bools_are_left_alone() -> None:
    i = IntTensor[Plain].from_data([1, 2])
    assert (i * 2).tolist() == [2, 4]
    assert (i > 1).tolist() == [False, True]
    assert i.device is Plain.device()
    assert i.float().device is Plain.device()


# Of all decorators of this kind


@pytest.mark.parametrize("decorator", [Checked, Profiled])
def test_decorators_go_inside(decorator: Any) -> None:
    name = decorator.__name__
    for inner in (Autodiff[NumPy], Autodiff(NumPy()), Forward(NumPy())):
        outer = type(device_of(inner)).__name__
        with pytest.raises(DeviceError, match=re.escape(f"goes inside {outer}; write {outer}[{name}[NumPy]]")):
            decorator(inner)
    assert Autodiff(decorator(NumPy)).name == f"Autodiff[{name}[NumPy]]"


@pytest.mark.parametrize("decorator", [Checked, Profiled])
def test_devices(decorator: Any) -> None:
    device = decorator(NumPy)
    assert device is decorator(NumPy()) is decorator[NumPy].device() is device_of(decorator[NumPy])
    assert device.name == repr(device) == f"{decorator.__name__}[NumPy]"
    assert device.discrete is device
    assert pickle.loads(pickle.dumps(device)) is copy.deepcopy(device) is device
    assert decorator(device).inner is device
    assert pickle.loads(pickle.dumps(Strict)) is Strict
    assert Strict is not Checked(NumPy)
    assert Strict.name == "Checked[NumPy, inf]"


@pytest.mark.parametrize("decorator", [Checked, Profiled])
def test_tensors_go_between_devices(decorator: Any) -> None:
    x = Tensor[NumPy].from_data([1.0, 2.0])
    y = x.to_device(decorator[NumPy])
    assert y.device is decorator(NumPy)
    assert y.to_device(NumPy).tolist() == [1.0, 2.0]
    with pytest.raises(NotTrackedError, match="records no graph"):
        y.inner()
    with pytest.raises(DeviceError, match="not the inner backend"):
        Tensor[decorator[NumPy]].from_inner(x)
    with pytest.raises(DeviceError, match="tensors on"):
        y + x


def test_every_operation_is_made_from_the_schema() -> None:
    import inspect

    from burnpy.backend import operations

    for name, op in operations().items():
        method = vars(Decorator)[name]
        assert method.__name__ == name
        assert inspect.getdoc(method) == inspect.getdoc(op.function)
        assert list(inspect.signature(method).parameters) == ["self", *(a.name for a in op.arguments)]
        assert name not in vars(Checked)
        assert name not in vars(Profiled)


def test_arguments_by_name_and_by_default() -> None:
    device = device_of(Plain)
    x = tensor([1.0, 2.0])._primitive
    assert device.add(x, y=1.0).tolist() == [2.0, 3.0]
    assert device.sum(x=x, dims=(0,), keepdim=False).tolist() == 3.0
    for args, keywords in (((x,), {}), ((x, 1.0, 2.0), {}), ((x, 1.0), {"y": 1.0}), ((x,), {"z": 1.0})):
        with pytest.raises(TypeError, match=r"add\(x, y\) was called with"):
            device.add(*args, **keywords)


def test_importing_burnpy_imports_no_decorator() -> None:
    code = (
        "import sys, burnpy; from burnpy.backend import NumPy; NumPy(); "
        "sys.exit('burnpy.backend.decorators.profiled' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
