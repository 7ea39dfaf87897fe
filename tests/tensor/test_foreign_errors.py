"""Errors that a signal handler raises amid an operation come out as they are; those of arguments are explained."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Tensor
from burnpy.backend import NumPy
from burnpy.backend.errors import ArgumentError, ShapeError

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
