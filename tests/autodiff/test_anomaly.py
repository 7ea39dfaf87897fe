"""`detect_anomaly`: the first NaN of a backward pass, the operation that produced it, and the line that recorded it."""

from __future__ import annotations

import asyncio
import gc
import math
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import burnpy.autodiff.autodiff as autodiff_module
from burnpy import Autodiff, Tensor, cat, func, where
from burnpy.autodiff import (
    Function,
    detect_anomaly,
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    set_detect_anomaly,
)
from burnpy.autodiff.balanced import Balanced
from burnpy.autodiff.engine import propagate
from burnpy.autodiff.modes import no_grad
from burnpy.autodiff.recording import current_mode
from burnpy.autodiff.tools.backward import backward, grad
from burnpy.autodiff.tools.checkpoint import checkpoint
from burnpy.autodiff.tools.saved_tensors import save_on_cpu
from burnpy.backend import NumPy
from burnpy.backend.errors import AnomalyError, GraphError
from burnpy.nn import functional
from tests.rows import every_row

Train = Autodiff[NumPy]


def leaf(data: Any, device: Any = Train) -> Tensor[Any]:
    return Tensor.from_data(data, dtype="float64", device=device).require_grad()


class Bad(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        return x + y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g, g * math.nan


# the function, its leaf (a vector with 0 in it, ones), words of the error
MADE: list[tuple[str, Callable[[Any, Any], Any], list[str]]] = [
    ("0 · ∞ in sqrt", lambda x, y: x.sqrt() * x.detach(), ["backward of sqrt", "argument x", "index (1,)", "zeros"]),
    ("0 / 0 in div", lambda x, y: (y / x) * x.detach(), ["backward of div", "argument x", "index (1,)"]),
    ("by the second argument", lambda x, y: ((x * 0.0) / x) * 0.0, ["backward of div", "argument y"]),
    ("where after the fact", lambda x, y: where(x.detach() > 0, x.sqrt(), y), ["backward of sqrt", "argument x"]),
    ("log under a zero", lambda x, y: x.log() * x.detach(), ["backward of log", "argument x"]),
    ("a Function's backward()", lambda x, y: Bad.apply(x, y), ["backward of Bad", "tracked argument 1"]),
    (
        "one of two that a rule computes together",
        lambda x, y: functional.linear((x.detach() * math.nan).reshape((1, 2)), y.reshape((2, 1)), y[:1]),
        ["backward of linear", "argument weight"],
    ),
    ("a hook's", lambda x, y: y * x.exp().register_hook(lambda g: g * math.nan)[0], ["backward of register_hook"]),
    ("seen through others", lambda x, y: cat([y, (x.sqrt() * x.detach())])[1:] * y[0], ["backward of sqrt"]),
]


@every_row("claim, f, words", MADE, ids=[row[0] for row in MADE])
@every_row("device", [Train, Autodiff[Train]], ids=["once", "twice"])
def test_the_operation_is_named(claim: str, f: Any, words: list[str], device: Any) -> None:
    x, y = leaf([4.0, 0.0], device), leaf([1.0, 1.0], device)
    with detect_anomaly(), pytest.raises(AnomalyError) as caught:
        f(x, y).sum().backward()
    message = str(caught.value)
    assert all(word in message for word in [*words, "made NaN"]), f"{claim}: {message}"
    assert "The forward pass recorded" in message, claim
    assert f'File "{__file__}"' in message, f"{claim}: the user's frames are missing in {message}"
    assert "burnpy/autodiff" not in message, f"{claim}: burnpy's own frames are in {message}"


def test_the_error_is_a_graph_error() -> None:
    assert issubclass(AnomalyError, GraphError)


def test_shapes_and_lines() -> None:
    def forward(x: Any) -> Any:
        return x.sqrt() * x.detach()  # the line that is to be named

    x = leaf([[4.0, 0.0], [0.0, 1.0]])
    with pytest.raises(AnomalyError) as caught, detect_anomaly():
        forward(x).sum().backward()
    message = str(caught.value)
    assert "at index (0, 1), the first of 2, in the gradient of its argument x, of shape (2, 2)" in message
    assert "return x.sqrt() * x.detach()  # the line that is to be named" in message
    assert "in test_shapes_and_lines.<locals>.forward" in message
    assert message.index("in test_shapes_and_lines\n") < message.index("<locals>.forward"), "the innermost is not last"


def test_a_forward_pass_outside_says_what_to_do() -> None:
    loss = (leaf([0.0]).sqrt() * 0.0).sum()
    with detect_anomaly(), pytest.raises(AnomalyError, match=r"run the forward pass inside of detect_anomaly\(\) too"):
        loss.backward()


def test_nan_that_came_in_is_not_blamed() -> None:
    x = leaf([1.0, 2.0])
    start = Tensor[NumPy].from_data([math.nan, 1.0], dtype="float64")
    with (
        detect_anomaly(),
        pytest.raises(AnomalyError, match=r"held NaN at index \(0,\) already, and exp did not make it"),
    ):
        x.exp().backward(start)
    with detect_anomaly(), pytest.raises(AnomalyError, match=r"the gradient of a leaf, of shape \(2,\), holds NaN"):
        backward(x, start)


def test_infinities_that_cancel() -> None:
    x = leaf([0.0])
    y = x * 1.0
    with detect_anomaly(), pytest.raises(AnomalyError, match=r"mul did not make it.*infinities of opposite sign"):
        (y.sqrt() - y.sqrt()).sum().backward()
    with (
        detect_anomaly(),
        pytest.raises(AnomalyError, match=r"the gradient of a leaf.*sum of infinities of opposite sign"),
    ):
        (x.sqrt() - x.sqrt()).sum().backward()
    with detect_anomaly(check_inf=True), pytest.raises(AnomalyError, match="backward of sqrt made infinity"):
        (x.sqrt() - x.sqrt()).sum().backward()


# check_nan, check_inf, what the backward pass makes, whether that is an error
CHECKS = [
    (True, False, "nan", True),
    (True, False, "inf", False),
    (False, True, "inf", True),
    (False, True, "nan", False),
    (False, False, "nan", False),
    (True, True, "inf", True),
]


@every_row("check_nan, check_inf, made, error", CHECKS)
def test_what_is_looked_for(check_nan: bool, check_inf: bool, made: str, error: bool) -> None:
    loss = leaf([1.0]).register_hook(lambda g: g * float(made))[0].sum()
    with detect_anomaly(check_nan, check_inf):
        assert is_anomaly_check_nan_enabled() is check_nan
        if error:
            with pytest.raises(AnomalyError, match="NaN" if made == "nan" else "infinity"):
                loss.backward()
        else:
            loss.backward()


def test_what_is_well_is_left_alone() -> None:
    def work(x: Any) -> Any:
        y = cat([x.sqrt(), x[1:] * 2.0]).softmax(0)
        return y[0] + y.gather(0, (x * 0.0).int()).sum() + x.prod() + x.max(0)[0]

    x = leaf([4.0, 9.0])
    expected = x.grad(work(x).backward())
    with detect_anomaly(check_inf=True):
        found = x.grad(work(x).backward())
        (direct,) = grad(work(x), x)
    assert expected is not None
    assert found is not None
    assert found.tolist() == expected.tolist() == direct.tolist()


def test_slices_are_looked_into() -> None:
    x = leaf([1.0, 2.0])
    with detect_anomaly(), pytest.raises(AnomalyError, match=r"came to the backward of slice.*held NaN"):
        backward(x[0:1], Tensor[NumPy].from_data([math.nan], dtype="float64"))


def test_other_passes_over_the_graph_are_as_they_were() -> None:
    x = leaf([0.0])
    loss = (x.sqrt() * 0.0).sum()
    with detect_anomaly(), pytest.raises(AnomalyError):
        loss.backward(retain_graph=True)
    assert math.isnan(loss.backward()[x].item())


def test_with_strategies_and_hooks_that_store_what_is_kept() -> None:
    x = Tensor.zeros((1000,), device=Autodiff[Balanced[NumPy]]).require_grad()
    with (
        detect_anomaly(),
        pytest.raises(AnomalyError, match=r"backward of sqrt made NaN.*of shape \(1000,\) is finite"),
    ):
        ((x + 0.0).exp().log().sqrt() * 0.0).sum().backward()
    y = leaf([0.0])
    with detect_anomaly(), save_on_cpu(), pytest.raises(AnomalyError, match="backward of sqrt made NaN"):
        (y.sqrt() * 0.0).sum().backward()
    with detect_anomaly(), pytest.raises(AnomalyError, match="backward of sqrt made NaN"):
        checkpoint(lambda y: (y + 0.0).sqrt() * 0.0, y).sum().backward()


def test_as_a_decorator() -> None:
    @detect_anomaly()
    def step(x: Any) -> Any:
        return (x.sqrt() * 0.0).sum().backward()

    @detect_anomaly()
    async def slowly(x: Any) -> Any:
        await asyncio.sleep(0)
        return (x.sqrt() * 0.0).sum().backward()

    @detect_anomaly(check_nan=False)
    def steps(x: Any) -> Iterator[Any]:
        yield is_anomaly_enabled()
        yield is_anomaly_check_nan_enabled()

    with pytest.raises(AnomalyError):
        step(leaf([0.0]))
    with pytest.raises(AnomalyError):
        asyncio.run(slowly(leaf([0.0])))
    assert list(steps(0)) == [True, False]
    assert not is_anomaly_enabled()


def test_it_nests_and_is_restored() -> None:
    assert not is_anomaly_enabled()
    with detect_anomaly():
        with detect_anomaly(check_nan=False):
            assert not is_anomaly_check_nan_enabled()
        assert is_anomaly_check_nan_enabled()
        mode = current_mode()
        assert mode is not None
        assert len(mode.interceptors) == len(mode.observers) == 1
        with no_grad():
            assert is_anomaly_enabled()
        with set_detect_anomaly(False):
            assert not is_anomaly_enabled()
        assert is_anomaly_enabled()
    assert not is_anomaly_enabled()
    assert current_mode() is None
    try:
        set_detect_anomaly(True)
        assert is_anomaly_enabled()
    finally:
        set_detect_anomaly(False)
    assert not is_anomaly_enabled()


def test_it_belongs_to_its_thread() -> None:
    seen = []
    with detect_anomaly():
        thread = threading.Thread(target=lambda: seen.append(is_anomaly_enabled()))
        thread.start()
        thread.join()
    assert seen == [False]


def test_it_costs_nothing_when_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it no mode is set, so that recording and backward passes take the path that they take anyway."""
    with detect_anomaly():
        pass
    assert current_mode() is None
    calls = []

    def noting(*args: Any, **keywords: Any) -> Any:
        calls.append(keywords)
        return propagate(*args, **keywords)

    monkeypatch.setattr(autodiff_module, "propagate", noting)
    monkeypatch.setattr(
        autodiff_module, "propagate_intercepted", lambda *a, **k: pytest.fail("the watched path was taken")
    )
    x = leaf([4.0])
    y = x.sqrt()
    y.sum().backward()
    assert [set(k) for k in calls] == [{"retain_graph", "targets", "unused", "ready", "sums"}]
    assert calls[0]["ready"] is None
    assert not hasattr(y._primitive.node, "metadata"), "something was noted of a node"


def test_nothing_is_kept_alive() -> None:
    gc.collect()
    gc.disable()
    try:
        x = leaf([4.0, 1.0])
        with detect_anomaly():
            y = x.exp()
            loss = (y * y).sum()
            refs = [weakref.ref(loss._primitive.node), weakref.ref(y._primitive.node), weakref.ref(y._primitive.value)]
            loss.backward()
            del y, loss
        assert [ref() for ref in refs] == [None] * 3
    finally:
        gc.enable()


def test_batches_are_looked_into() -> None:
    """The index of an element begins with the number of the example."""
    x = Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 0.0]])
    with detect_anomaly():
        assert func.vmap(func.grad(lambda row: row.exp().sum()))(x).allclose(x.exp())
        with pytest.raises(AnomalyError, match=r"backward of sqrt made NaN at index \(1, 1\)"):
            func.vmap(func.grad(lambda row: (row.sqrt() * 0.0).sum()))(x)
