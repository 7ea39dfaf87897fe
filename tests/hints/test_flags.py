"""Flags are True or False in every public call: to Python the string "no" is true, and so is 2."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Tensor, distributions, nn, optim
from burnpy.backend import NumPy
from burnpy.backend.errors import ArgumentError, KindError
from burnpy.backend.functions import signature
from burnpy.nn import functional
from tests.hints.test_wrong_calls import IMPORTED_BY_ALL, MADE_HERE, OBJECTS, PACKAGES_WALKED, record, rooms_calls
from tests.rows import every_row

FLAGS = ("bool", "bool | None")
WRONG = ("no", 2, 1, 0.0, [True], np.ones(2, bool))
AFTER_OTHERS = ("Tensor.backward", "burnpy.autodiff.checkpoint", "burnpy.train.Classifier", "burnpy.train.Regressor")
"""Calls that check other arguments first, and estimators of scikit-learn, which check all of them in `fit`."""
WITHOUT_DEFAULT = {"left": True, "upper": True, "unitriangular": True, "mode": True}


def flags_of(call: Callable[..., Any]) -> list[str]:
    """The names of the parameters that are True or False."""
    try:
        return [p.name for p in signature(call).parameters.values() if p.annotation in FLAGS]
    except ValueError:  # of a function without a signature, in C
        return []


def methods() -> Iterator[tuple[str, Any]]:
    for name, made in OBJECTS.items():
        found: Any = made()
        owner: Any = found.__class__
        for method in dir(owner):
            if method[0] != "_" and inspect.isroutine(getattr(owner, method, None)):
                yield f"{name}.{method}", getattr(found, method)


CALLS = dict(methods()) | {
    f"{room.__name__}.{name}": call
    for room in PACKAGES_WALKED
    for name, call in rooms_calls(room)
    if name not in (IMPORTED_BY_ALL + MADE_HERE).split()
}
WITH_FLAGS = [(name, flag) for name, call in CALLS.items() if name not in AFTER_OTHERS for flag in flags_of(call)]


@every_row(("name", "flag"), WITH_FLAGS)
def test_flags_are_true_or_false(name: str, flag: str) -> None:
    call = CALLS[name]
    needed = [p for p in signature(call).parameters.values() if p.default is p.empty and p.name != flag]
    by_name = {p.name: WITHOUT_DEFAULT.get(p.name) for p in needed if p.kind is p.KEYWORD_ONLY}
    args = [WITHOUT_DEFAULT.get(p.name) for p in needed if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    for wrong in WRONG:
        with pytest.raises((ArgumentError, KindError), match=rf"\b{flag}\b.*(True or False|True, False or None)"):
            _ = call(*args, **by_name, **{flag: wrong})


def test_most_flags_are_found() -> None:
    assert len(WITH_FLAGS) > 400
    for found in ("burnpy.optim.Adam", "burnpy.nn.functional.max_pool2d", "Tensor.allclose", "Linear.with_state"):
        assert any(name == found for name, _ in WITH_FLAGS), found


X: Any = Tensor[Autodiff[NumPy]].from_data([[1.0, 2.0, 4.0], [3.0, float("nan"), 0.0]]).require_grad()
LAYER: Any = nn.Linear(3, 2, device=NumPy)
ENCODER: Any = nn.TransformerEncoderLayer(4, 2, device=NumPy)
IN_PLACES: list[tuple[Callable[[Any], Any], str]] = [
    (lambda flag: X.sum(0, flag), "sum() got keepdim={}; expected True or False; several dims are one argument"),
    (lambda flag: X.amax(0, flag), "amax() got keepdim={}; expected True or False; several dims are one argument"),
    (lambda flag: X.nansum().backward(retain_graph=flag), "backward() got retain_graph={}; expected True or False"),
    (lambda flag: functional.dropout(X, 0.0, training=flag), "dropout() got training={}; expected True or False"),
    (lambda flag: nn.Linear(2, 3, bias=flag, device=NumPy), "Linear() got bias={}; expected True or False"),
    (lambda flag: optim.Adam(amsgrad=flag), "Adam() got amsgrad={}; expected True or False"),
    (lambda flag: LAYER.train(flag), "train() got mode={}; expected True, False or None"),
    (
        lambda flag: ENCODER(Tensor[NumPy].ones((1, 2, 4)), causal=flag),
        "got causal={}; expected True or False",
    ),
    (
        lambda flag: distributions.Normal(X[0], X[0], validate=flag),
        "Normal() got validate={}; expected True or False",
    ),
]


@every_row(("call", "said"), IN_PLACES, ids=[said for _, said in IN_PLACES])
def test_flags_by_position_and_numpys(call: Callable[[Any], Any], said: str) -> None:
    for wrong in ("false", 2):
        with pytest.raises(ArgumentError) as raised:
            call(wrong)
        assert said.format(repr(wrong)) in str(raised.value)
    for flag in (True, False):
        assert repr(call(np.bool_(flag))) == repr(call(flag))


def test_weights_are_loaded_strictly_or_not() -> None:
    with pytest.raises(ArgumentError, match=r"apply_to\(\) got strict='no'; expected True or False"):
        record().apply_to(LAYER, strict="no")


def test_modules_of_others_take_what_they_like() -> None:
    class Layer(nn.Stateless):
        def __init__(self, bias: bool = False) -> None:
            self.bias = bias

        def forward(self, x: Any) -> Any:
            return x

    made: Any = Layer
    assert made("no").bias == "no"
