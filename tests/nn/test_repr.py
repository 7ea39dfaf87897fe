"""The repr of a module is its constructor call, with every setting that is not the default."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from burnpy import Autodiff, Generator, nn
from burnpy.backend import NumPy
from burnpy.nn import Linear, Module, Param
from tests.nn.every_layer import EVERY, made, takes_device
from tests.rows import every_row

Train = Autodiff[NumPy]


def headline(module: Any) -> str:
    """The constructor call in the first line of the repr, without the counts."""
    return repr(module).splitlines()[0].partition("  ")[0]


def called(text: str, name: str) -> Any:
    """Evaluate the constructor call."""
    text = text.replace("spawn_key=()", "").replace("Generator(seed=", "Generator(")
    if takes_device(name):
        text = f"{text[:-1]}, device=Train)"
    return eval(text, {**vars(nn), "Generator": Generator, "Train": Train})


@pytest.mark.slow
@every_row("name", EVERY)
def test_a_layer_is_shown_as_the_call_that_makes_it(name: str) -> None:
    example = EVERY[name]
    for settings in ({}, example.settings, *({key: value} for key, value in example.settings.items())):
        layer = made(name, Train, **settings)
        text = headline(layer)
        for value in example.args:
            assert repr(value) in text
        for key, value in settings.items():
            if key == "dropout" and not isinstance(vars(layer)[key], float):
                assert f"\n  {key}  Dropout({value!r})" in repr(layer), "it is a part, and shown as one"
                settings = {k: v for k, v in settings.items() if k != key}
            else:
                assert f"{key}={value!r}" in text
        named = set(re.findall(r"(\w+)=", text)) - {"seed", "spawn_key", "factor"}  # within values
        assert named <= {*settings, "norm"}, "no default is shown, but for whether there is a norm"
        assert headline(called(text, name)) == text


def test_some_in_full() -> None:
    shown = [
        headline(layer)
        for layer in (
            nn.AdaptiveAvgPool2d(4),
            nn.MaxPool2d(3, stride=2),
            nn.Softmax(-1),
            nn.LayerNorm(8, eps=1e-3, device=NumPy),
            nn.LayerNorm((4, 4), device=NumPy),
            nn.BatchNorm(3, momentum=0.2, device=NumPy),
            nn.Conv2d(3, 8, (3, 3), padding="same", device=NumPy),
        )
    ]
    assert shown == [
        "AdaptiveAvgPool2d(4)",
        "MaxPool2d(3, stride=2)",
        "Softmax(-1)",
        "LayerNorm(8, eps=0.001)",
        "LayerNorm((4, 4))",
        "BatchNorm(3, momentum=0.2)",
        "Conv2d(3, 8, 3, padding='same')",
    ]


class Net(Module[Any]):
    """A user-defined layer with arguments of every kind."""

    def __init__(
        self, device: Any, sizes: Sequence[int], parts: int = 2, *, tail: bool = True, name: str = "net", gone: int = 3
    ) -> None:
        self.sizes = sizes
        self.parts = [Linear(a, b, device=device) for a, b in pairwise(sizes)]
        self.tail = Param(Linear(1, 1, device=device).weight.value.detach()) if tail else None
        self.name = name


class Wide(Linear[Any]):
    """A layer with another name."""

    def __init__(self, out_features: int, *, device: Any) -> None:
        super().__init__(100, out_features, device=device)


def test_a_users_module_shows_what_it_keeps() -> None:
    assert headline(Net(Train, [2, 3, 4])) == "Net(sizes=(2, 3, 4))"
    assert (
        headline(Net(Train, [2, 3], 5, tail=False, name="other", gone=4))
        == "Net(sizes=(2, 3), tail=False, name='other')"
    )
    assert headline(Wide(7, device=Train)) == "Wide(7)"


def test_what_was_replaced_is_shown_as_it_is_now() -> None:
    layer = Linear(2, 3, device=Train)
    assert headline(layer.replace(bias=None)) == "Linear(2, 3, bias=False)"
    assert headline(layer.replace(weight=Linear(4, 3, device=Train).weight)) == "Linear(4, 3)"
    assert headline(layer.replace(weight=None, bias=None)) == "Linear(bias=False)"
    assert repr(nn.MaxPool2d(3).train()) == "MaxPool2d(3)  training mode"
