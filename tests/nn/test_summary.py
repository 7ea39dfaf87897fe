"""`Module.summary`: parameter counts, output shapes and FLOPs of each layer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, IntTensor, Tensor
from burnpy.autodiff import Balanced
from burnpy.backend import Checked, NumPy, Profiled, errors
from burnpy.nn import (
    AdaptiveAvgPool2d,
    BatchNorm,
    Conv2d,
    Dropout,
    Embedding,
    Linear,
    Module,
    Param,
    Relu,
    Sequential,
)
from tests.nn.every_layer import EVERY, inputs, made
from tests.rows import every_row

Train = Autodiff[NumPy]


class Block(Module[Any]):
    """Two convolutions with a residual connection."""

    def __init__(self, channels: int, *, device: Any) -> None:
        self.first = Conv2d(channels, channels, 3, padding=1, bias=False, device=device)
        self.norm = BatchNorm(channels, device=device)
        self.second = Conv2d(channels, channels, 3, padding=1, bias=False, device=device)
        self.relu = Relu()

    def forward(self, x: Tensor[Any]) -> Tensor[Any]:
        return self.relu(x + self.second(self.relu(self.norm(self.first(x)))))


class ResNet(Module[Any]):
    """A small model with an unused layer."""

    def __init__(self, channels: int, count: int, *, device: Any) -> None:
        self.stem = Conv2d(3, channels, 3, stride=2, padding=1, device=device)
        self.stages = [Sequential(*(Block(channels, device=device) for _ in range(count))) for _ in range(2)]
        self.pool = AdaptiveAvgPool2d(1)
        self.head = Linear(channels, 10, device=device)
        self.unused = Linear(channels, 5, device=device)
        self.scale = Param(Tensor.ones((), device=device))

    def forward(self, x: Tensor[Any]) -> Tensor[Any]:
        x = self.stem(x)
        for stage in self.stages:
            x = stage(x)
        return self.head(self.pool(x).flatten(1)) * self.scale.value


@pytest.mark.parametrize("device", [NumPy, Train, Autodiff[Profiled[NumPy]], Autodiff[Balanced[Checked[NumPy]]]])
def test_a_resnet(device: Any) -> None:
    model = ResNet(4, 2, device=device).no_grad("head")
    table = model.summary(input=(2, 3, 8, 8))
    rows = {row.path: row for row in table.rows}
    assert [*rows] == [*model.named_modules()]
    assert rows["stem"][1:5] == ("Conv2d(3, 4, 3, stride=2, padding=1)", (2, 4, 4, 4), 1, 112)
    assert rows["stem"].flops == 2 * (2 * 4 * 4) * (4 * 3 * 9) + 2 * 4 * 4 * 4
    assert rows["unused"][2:] == (None, 0, 25, None)
    assert rows["stages.0.0.relu"].calls == 2
    assert rows["pool"].output == (2, 4, 1, 1)
    for path, row in rows.items():
        inside = [rows[p] for p in rows if p.rpartition(".")[0] == path and p] if path else []
        if path.startswith("stages") and len(inside) > 2:
            shortcut = 2 * 4 * 4 * 4
            assert row.flops == sum(part.flops or 0 for part in inside) + shortcut
        assert row.num_params == model.named_modules()[path].num_params
    assert table.flops == rows[""].flops
    assert table.num_params == model.num_params
    assert table.num_frozen == 50
    text = str(table)
    assert repr(table) == text
    assert text.splitlines()[0].split() == ["path", "layer", "output", "calls", "parameters", "FLOPs"]
    assert text.splitlines()[-1] == f"{model.num_params:,} parameters, 50 of them frozen, {table.flops / 1e3:.2f} kFLOP"  # type: ignore[operator]
    unused = next(line for line in text.splitlines() if line.startswith("unused"))
    assert unused.split() == ["unused", "Linear(4,", "5)", "–", "–", "25", "–"]


def test_flops_are_those_of_a_profile() -> None:
    model = ResNet(4, 2, device=Profiled[NumPy])
    with Profiled.record() as profile:
        model(Tensor.zeros((1, 3, 8, 8), device=Profiled[NumPy]))
    assert model.summary(input=(1, 3, 8, 8)).flops == sum(row.flops for row in profile.rows())


def test_how_deep() -> None:
    model = ResNet(4, 3, device=Train)
    paths = {depth: [row.path for row in model.summary(depth=depth).rows] for depth in (0, 1, 2, None)}
    assert paths[0] == [""]
    assert paths[1] == ["", "stem", "stages.0", "stages.1", "pool", "head", "unused"]
    assert paths[2][2:6] == ["stages.0", "stages.0.0", "stages.0.1", "stages.0.2"]
    assert paths[None] == [*model.named_modules()]
    for wrong in (-1, "all"):
        with pytest.raises(errors.ArgumentError, match="expected an int from 0, or None for all"):
            model.summary(depth=wrong)  # type: ignore[arg-type]


def test_without_an_input_it_has_parameters_alone() -> None:
    table = Sequential(Linear(2, 3, device=Train), Relu()).summary()
    assert table.flops is None
    assert str(table).splitlines() == [
        "path  layer         parameters",
        "────  ────────────  ──────────",
        "      Sequential()           9",
        "0     Linear(2, 3)           9",
        "1     Relu()                 0",
        "9 parameters",
    ]


def shapes(out: Any) -> Any:
    """The shapes of tensors in tuples, as a summary has them."""
    return [shapes(part) for part in out] if isinstance(out, tuple) else out.shape


@every_row("name", [name for name in EVERY if not name.endswith("Loss")])
def test_every_layer_in_one(name: str) -> None:
    """The row of a layer has the shape of its output."""
    layer = made(name, Train, **EVERY[name].settings)
    given = inputs(name, Train)
    row = layer.summary(input=tuple(given)).rows[0]
    out = layer.eval()(*given)
    assert row.output == shapes(out)
    if name == "Lstm":
        assert "[(2, 5, 4), [(4, 2, 2), (4, 2, 4)]]" in str(layer.summary(input=tuple(given)))
    assert row.calls == 1


class Tied(Module[Any]):
    """A layer used in two places and called by both, and a layer that calls itself."""

    def __init__(self, *, device: Any) -> None:
        self.first = Linear(3, 3, device=device)
        self.second = self.first
        self.again = Again(device=device)

    def forward(self, x: Tensor[Any], y: Tensor[Any]) -> dict[str, Any]:
        return {"sum": self.second(self.first(x)) + self.first.forward(y), "again": self.again(x, 2), "none": None}


class Again(Module[Any]):
    """A layer that calls itself."""

    def __init__(self, *, device: Any) -> None:
        self.layer = Linear(3, 3, bias=False, device=device)

    def forward(self, x: Tensor[Any], times: int) -> Tensor[Any]:
        return self(self.layer(x), times - 1) if times else x


def test_what_is_shared_or_calls_itself_is_counted_once() -> None:
    model = Tied(device=Train)
    table = model.summary(input=((2, 3), Tensor[Train].ones((4, 3))[:2]))
    rows = {row.path: row for row in table.rows}
    assert [*rows] == ["", "first", "again", "again.layer"]
    assert rows[""].output == {"sum": (2, 3), "again": (2, 3), "none": "NoneType"}
    assert (rows["first"].calls, rows["first"].flops) == (3, 3 * (2 * 2 * 3 * 3 + 6))
    assert (rows["again"].calls, rows["again"].flops) == (3, 2 * 2 * 2 * 3 * 3)
    assert table.flops == rows[""].flops == rows["first"].flops + rows["again"].flops + 6  # type: ignore[operator]


def test_the_model_and_chance_stay_as_they_are() -> None:
    model = Sequential(Linear(3, 3, device=Train), Dropout(0.5), BatchNorm(3, device=Train)).train()
    generator = burnpy.default_generator(Train)
    before = repr(generator), model.state(), repr(model)
    burnpy.manual_seed(1)
    expected = Tensor[Train].normal((2,)).tolist()
    burnpy.manual_seed(1)
    model.summary(input=(2, 3))
    assert Tensor[Train].normal((2,)).tolist() == expected
    assert [type(layer) for layer in model] == [Linear, Dropout, BatchNorm]
    assert str(model.summary(input=(1, 3))) == str(model.eval().summary(input=(1, 3))), "of one example, a norm in use"
    after = model.state()
    assert repr(model) == before[2]
    assert all(after[path].value.tolist() == before[1][path].value.tolist() for path in after)


def test_inputs_have_the_dtype_of_the_model() -> None:
    model = Linear(2, 3, device=Train).astype("float64")
    assert model.summary(input=[4, 2]).rows[0].output == (4, 3)
    text = Sequential(Embedding(5, 2, device=Train), Linear(2, 1, device=Train))
    assert text.summary(input=IntTensor[Train].zeros((4,))).rows[0].output == (4, 1)
    assert Relu().summary(input=Tensor[NumPy].ones((2,))).flops == 2


@pytest.mark.parametrize(
    ("model", "given", "error", "message"),
    [
        (Linear(2, 3, device=Train), "2, 3", errors.ArgumentError, "takes as input a tensor, a shape, .* got '2, 3'"),
        (Linear(2, 3, device=Train), 2.5, errors.ArgumentError, "got 2.5"),
        (Linear(2, 3, device=Train), np.ones((2, 2)), errors.ArgumentError, r"Tensor\.from_data\(values\)"),
        (Linear(2, 3, device=Train), ((2, 2), None), errors.ArgumentError, "got None"),
        (
            Relu(),
            (2, 3),
            errors.ArgumentError,
            "this Relu has no parameters, and so no device; pass a tensor",
        ),
    ],
)
def test_inputs_that_are_none(model: Any, given: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        model.summary(input=given)


def test_what_the_model_raises_comes_with_a_note_of_where() -> None:
    model = Sequential(Relu(), Sequential(Relu(), Linear(3, 2, device=Train)))
    with pytest.raises(errors.ShapeError) as raised:
        model.summary(input=(4, 5))
    assert raised.value.__notes__ == ["raised in summary(), where 1.1, a Linear, was called with (4, 5)"]
    text = Embedding(5, 2, device=Train)
    with pytest.raises(errors.KindError) as of_ints:
        text.summary(input=(4,))
    assert of_ints.value.__notes__ == ["raised in summary(), where the Embedding was called with (4,)"]


def test_a_tensor_of_another_device() -> None:
    device = pytest.importorskip("tests.third_party.array_api_backend").ArrayApi
    with pytest.raises(errors.DeviceError, match=r"a tensor on .* for a model on .*; move one"):
        Linear(2, 3, device=Train).summary(input=Tensor.zeros((1, 2), device=device))
