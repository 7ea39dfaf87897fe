"""Functions with annotations that name what exists for type checkers alone are read, and wrong calls explained."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

import pytest

from burnpy import Autodiff, Tensor, autodiff, errors, func
from burnpy.backend import NumPy
from burnpy.backend.functions import signature
from burnpy.nn import Module
from burnpy.tensor.call_errors import flags_of

MISSING = "Missing" if sys.version_info >= (3, 14) else "'Missing'"
"""As an annotation. Until Python 3.14 a name without quotes would be evaluated where the function is defined."""
SOURCE = f"""
def f(x: {MISSING}) -> {MISSING}:
    return x * 2.0

class Layer(Module):
    def __init__(self, width: {MISSING} = 3) -> None:
        self.width = width

    def forward(self, x: {MISSING}) -> {MISSING}:
        return x

class Other(NumPy):
    def __init__(self, index: {MISSING} = 0) -> None:
        super().__init__()
"""
DEFINED: dict[str, Any] = {"Module": Module, "NumPy": NumPy, "__name__": __name__}
exec(compile(SOURCE, __file__, "exec", dont_inherit=True), DEFINED)
f, Layer, Other = DEFINED["f"], DEFINED["Layer"], DEFINED["Other"]
X = Tensor[Autodiff[NumPy]].from_data([1.0, 2.0])


def test_annotations_that_cannot_be_evaluated_are_read() -> None:
    assert list(signature(f).parameters) == ["x"]
    assert list(inspect.signature(Layer).parameters) == ["width"]


def test_functions_with_derivatives_of_their_own() -> None:
    doubled = autodiff.custom_vjp(f)
    doubled.defvjp(lambda x: (x * 2.0, None), lambda saved, grad: grad * 2.0)
    assert func.grad(lambda x: doubled(x).sum())(X).tolist() == [2, 2]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: Layer(wide=3), errors.CallError, "Layer() does not take wide"),
        (lambda: Layer()(X, X), errors.CallError, "Layer.forward() takes"),
        (lambda: autodiff.checkpoint(f, X, debug=True), TypeError, "checkpoint() takes no argument debug"),
        (lambda: Other(0, 1), errors.DeviceError, "no device Other(...) can be made of these arguments"),
    ],
)
def test_wrong_calls_are_explained(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error) as raised:
        call()
    assert words in str(raised.value)


def test_annotations_of_others_are_not_evaluated() -> None:
    """Python 3.14 evaluates them when they are read; here an object stands for such a function."""

    class Unreadable:
        __code__, __module__ = f.__code__, "users"

        @property
        def __annotations__(self) -> dict[str, Any]:  # type: ignore[override]  # of the class
            raise NameError("name 'Missing' is not defined")

    assert flags_of(Unreadable()) == {}
