"""Errors that arguments did not cause: of memory, backends and signal handlers; those of arguments are explained."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, IntTensor, Tensor
from burnpy.backend import NumPy
from burnpy.backend.errors import ArgumentError, OutOfMemoryError, ShapeError
from tests.rows import every_row

Value = Any


class Interrupted(MemoryError):
    """What a handler raises here: of a class that an operation may raise as well."""


@pytest.fixture
def interrupting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[type, str], None]]:
    """A function that lets a signal arrive in the first call of a method of a class."""

    def handler(*_: object) -> None:
        raise Interrupted("the handler's")

    before = signal.signal(signal.SIGUSR1, handler)

    def interrupt(cls: type, name: str) -> None:
        method, calls = getattr(cls, name), [0]

        def interrupted(*args: Any) -> Any:
            calls[0] += 1
            if calls[0] == 1:
                signal.raise_signal(signal.SIGUSR1)
            return method(*args)

        monkeypatch.setattr(cls, name, interrupted)

    yield interrupt
    signal.signal(signal.SIGUSR1, before)


CALLS: list[tuple[str, Callable[[Value], object]]] = [
    ("add", lambda x: x + x),
    ("mul", lambda x: x * 2.0),
    ("lt", lambda x: x < x),
    ("matmul", lambda x: x @ x),
    ("slice", lambda x: x[0]),
    ("slice", lambda x: x[np.int64(0) : np.int64(1)]),
]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signal")
@pytest.mark.parametrize("backend", [NumPy, Autodiff[NumPy]], ids=str)
@pytest.mark.parametrize(("name", "call"), CALLS, ids=range(len(CALLS)))
def test_errors_of_handlers_come_out(
    name: str, call: Callable[[Value], object], backend: Any, interrupting: Callable[[type, str], None]
) -> None:
    x = Tensor[backend].ones((2, 2))
    x = x.require_grad()
    interrupting(NumPy, name)
    with pytest.raises(Interrupted, match="the handler's"):
        call(x)


class Data:
    """Data that NumPy reads by a method of it."""

    def __init__(self, read: Callable[[], Any]) -> None:
        self.read = read

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.read()


def test_errors_of_handlers_while_data_is_read_come_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def asarray(data: Any) -> Any:
        raise Interrupted("the handler's")

    monkeypatch.setattr(np, "asarray", asarray)
    with pytest.raises(Interrupted):
        Tensor[NumPy].from_data([1.0])


def test_errors_of_data_are_explained() -> None:
    def fail() -> Any:
        raise RuntimeError("the data's")

    with pytest.raises(ArgumentError, match=r"cannot import a Data \(the data's\)"):
        Tensor[NumPy].from_data(Data(fail))


def test_arguments_at_fault_are_explained() -> None:
    x = Tensor[NumPy].ones((2, 3))
    with pytest.raises(ShapeError, match="which do not broadcast"):
        x + Tensor[NumPy].ones((2,))
    with pytest.raises(ShapeError, match="which do not multiply"):
        x @ x
    with pytest.raises(ArgumentError, match="step"):
        x[::0]
    assert x[np.int64(0) : np.int64(1)].shape == (1, 3)


@every_row("device", [NumPy, Autodiff[NumPy]], ids=str)
@every_row(
    "operation, words",
    [
        (lambda x, y: x + y, ["add()", "shapes (16777216, 1) and (1, 16777216)"]),
        (lambda x, y: x > y, ["gt()", "(16777216, 16777216)", "281,474,976,710,656 elements"]),
        (lambda x, y: x @ y, ["matmul()", "(16777216, 16777216)", "in parts"]),
        (lambda x, y: x.expand(1 << 24, 1 << 24) * 2.0, ["mul()", "and 2.0"]),
        (lambda x, y: x.expand(1 << 40, 1) + y.expand(1, 1 << 40), ["add()", "(1099511627776, 1099511627776)"]),
    ],
    ids=range(5),
)
def test_a_result_that_no_memory_holds(operation: Callable[[Any, Any], Any], words: list[str], device: Any) -> None:
    one = Tensor.ones((1, 1), device=device).require_grad()
    x, y = (one.expand(shape) for shape in ((1 << 24, 1), (1, 1 << 24)))
    if "1099511627776" in words[-1]:
        x = y = one
    with pytest.raises(MemoryError) as caught:
        operation(x, y)
    assert type(caught.value) is OutOfMemoryError
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("device", [NumPy, Autodiff[NumPy]])
def test_operations_of_one_tensor_that_no_memory_holds(device: Any) -> None:
    x = Tensor.ones((1, 1), device=device).expand(1 << 24, 1 << 24)
    i = IntTensor.ones((1, 1), device=device).expand(1 << 24, 1 << 24)
    shape = r"\(16777216, 16777216\)"
    calls: list[tuple[str, Callable[[], object]]] = [
        (rf"exp\(\) of shape {shape} needs 1024.00 TiB for an array of shape {shape} and dtype float32", x.exp),
        (rf"neg\(\) of shape {shape} needs", lambda: -i),
        (rf"isnan\(\) of shape {shape} needs", x.isnan),
        (rf"gelu\(\) of shape {shape} needs", x.gelu),
        (rf"cumsum\(\) of shape {shape} needs", lambda: x.cumsum(dim=0)),
        (rf"clamp\(\) of shape {shape} needs", lambda: x.clamp(0.0, 1.0)),
        (rf"to_dtype\(\) of shape {shape} needs", x.double),
        (r"x\[\.\.\.\] of shape .* needs", lambda: x[[0, 1]].expand(1 << 24, 2, 1 << 24)[[0, 1] * (1 << 20)]),
        (r"set\(\) needs", lambda: x.at[0].set(1.0)),
        (rf"cat\(\) of shapes {shape} and {shape} needs", lambda: burnpy.cat([x, x])),
        (rf"stack\(\) of shapes {shape}, {shape} and 2 others needs", lambda: burnpy.stack([x, x, x, x])),
        (r"zeros\(\) needs 4096.00 TiB", lambda: Tensor.zeros((1 << 50,), device=device)),
    ]
    for words, call in calls:
        with pytest.raises(OutOfMemoryError, match=words) as caught:
            call()
        assert "compute it in parts" in str(caught.value)


@pytest.mark.parametrize("wrong", [AttributeError("no such thing"), KeyError(3), ValueError("odd"), MemoryError()])
def test_a_mistake_in_a_backend_is_not_disguised(wrong: Exception) -> None:
    class Wrong(NumPy):
        """A backend with a mistake in each of four operations."""

        def add(self, x: Any, y: Any) -> Any:
            raise wrong

        lt = matmul = add

        def exp(self, x: Any) -> Any:
            raise wrong

    x: Any = Tensor.ones((2, 2), device=Wrong)
    operations: list[Callable[[], Any]] = [lambda: x + x, lambda: x + 1.0, lambda: x < x, lambda: x @ x, x.exp]
    for operation in operations:
        with pytest.raises(OutOfMemoryError if isinstance(wrong, MemoryError) else type(wrong)) as caught:
            operation()
        assert isinstance(wrong, MemoryError) or caught.value is wrong
    mistakes: list[Callable[[], Any]] = [
        lambda: x + x[:, [0, 0, 1]],
        lambda: x < x[:, [0, 0, 1]],
        lambda: x @ x[[0, 0, 1]],
    ]
    for mistake in mistakes:
        with pytest.raises(ShapeError):
            mistake()


def test_an_interruption_stays_one() -> None:
    class Slow(NumPy):
        """A backend whose user is impatient."""

        def add(self, x: Any, y: Any) -> Any:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Tensor.ones((2,), device=Slow) + 1.0
