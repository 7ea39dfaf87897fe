"""Weights that PyTorch trained do in our layers what they do in its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burnpy import IntTensor, Tensor
from burnpy.backend import NumPy, errors
from burnpy.nn import (
    BatchNorm,
    Conv2d,
    Embedding,
    LayerNorm,
    Linear,
    Lstm,
    Module,
    MultiHeadAttention,
    Param,
    Relu,
    Sequential,
    TransformerEncoderLayer,
)
from burnpy.record import from_torch, load, read_torch, save
from burnpy.record.torch_weights import torch_names
from tests.record.nets import FIXTURES, Train, mlp, same

CHECKPOINT = FIXTURES / "layers.pt"


class Layers(Module[Any]):
    """One of each kind, as `fixtures/make.py` has them in PyTorch."""

    def __init__(self, device: Any) -> None:
        self.linear = Linear(3, 4, device=device)
        self.conv = Conv2d(2, 3, 2, device=device)
        self.batch_norm = BatchNorm(3, device=device)
        self.layer_norm = LayerNorm(4, device=device)
        self.embedding = Embedding(5, 4, device=device)
        self.attention = MultiHeadAttention(4, 2, device=device)
        self.lstm = Lstm(3, 2, count=2, bidirectional=True, device=device)
        self.encoder = TransformerEncoderLayer(4, 2, feedforward=6, device=device)
        self.stack = Sequential(Linear(3, 3, device=device), Relu(), Linear(3, 2, device=device))


@pytest.mark.parametrize("source", [CHECKPOINT, str(FIXTURES / "layers.safetensors")])
@pytest.mark.parametrize("device", [NumPy, Train])
def test_every_layer_computes_what_pytorchs_does(source: Any, device: Any) -> None:
    model = Layers(device)
    new = from_torch(model, source, key="model")
    inputs = {name: x for name, x in read_torch(CHECKPOINT, "inputs").items() if name != "index"}
    x = {name: Tensor.from_data(value, device=device) for name, value in inputs.items()}
    index = IntTensor.from_data(read_torch(CHECKPOINT, "inputs")["index"], device=device)
    new = new.eval()
    outputs = {
        "linear": new.linear(x["vectors"]),
        "conv": new.conv(x["images"]),
        "batch_norm": new.batch_norm(x["channels"]),
        "layer_norm": new.layer_norm(x["sequence"]),
        "embedding": new.embedding(index),
        "attention": new.attention(x["sequence"]),
        "lstm": new.lstm(x["elements"])[0],
        "encoder": new.encoder(x["sequence"]),
        "stack": new.stack(x["vectors"]),
    }
    expected = read_torch(CHECKPOINT, "outputs")
    assert outputs.keys() == expected.keys()
    for name, output in outputs.items():
        np.testing.assert_allclose(output.to_numpy(), expected[name], rtol=1e-5, atol=1e-6, err_msg=name)
    assert {held.id for held in new.params()} == {held.id for held in model.params()}
    assert new.batch_norm.num_batches_tracked is not None
    assert new.batch_norm.num_batches_tracked.value.item() == 1


def test_what_is_missing_unexpected_or_of_another_shape_is_named() -> None:
    model = Sequential(Linear(3, 4, device=NumPy), Linear(4, 2, device=NumPy))
    state = {"0.weight": np.zeros((4, 3)), "0.bias": np.zeros(5), "2.weight": np.zeros((2, 4)), "step": 3}
    with pytest.raises(errors.StateError, match="this state dict does not fit Sequential, and nothing was") as raised:
        from_torch(model, state)
    report: Any = raised.value.report
    assert report.applied == ("0.weight",)
    assert report.missing == ("1.weight", "1.bias")
    assert report.unexpected == ("2.weight", "step")
    assert report.mismatched == ("0.bias (of shape (5,), not (4,))",)
    new = from_torch(model, state, strict=False)
    assert np.array_equal(new[0].weight.value.to_numpy(), np.zeros((3, 4)))
    assert new[1] is model[1]


def test_our_own_names_are_not_taken_for_pytorchs() -> None:
    model = Lstm(2, 2, device=NumPy)
    state = {path: entry.value for path, entry in model.into_record().items()}
    with pytest.raises(errors.StateError, match=r"unexpected: layers\.0\.0\.weight_ih of PyTorch"):
        from_torch(model, state)


def test_our_own_records_are_refused(tmp_path: Path) -> None:
    save(tmp_path / "a.safetensors", model=Linear(2, 2, device=NumPy))
    save(tmp_path / "b.pt", model=Linear(2, 2, device=NumPy))
    with pytest.raises(errors.RecordError, match="is a record of burnpy"):
        from_torch(Linear(2, 2, device=NumPy), tmp_path / "b.pt")
    with pytest.raises(errors.RecordError, match=r"is a record of burnpy.*load\(path\)\.apply_to"):
        from_torch(Linear(2, 2, device=NumPy), tmp_path / "a.safetensors")


def test_a_prefix_is_pointed_out_and_taken_off() -> None:
    model = Linear(2, 1, device=NumPy)
    state = {"module.weight": np.ones((1, 2)), "module.bias": np.zeros(1)}
    with pytest.raises(errors.StateError, match=r"all names begin with 'module\.': remap=\{r'\^module\\\.': ''\}"):
        from_torch(model, state)
    new = from_torch(model, state, remap={r"^module\.": ""})
    assert new.weight.value.tolist() == [[1.0], [1.0]]


def test_dtypes_as_of_records() -> None:
    model = Linear(2, 1, device=NumPy)
    state = {"weight": np.ones((1, 2)), "bias": np.zeros(1)}
    assert from_torch(model, state).weight.dtype == "float32"
    assert from_torch(model, state, dtype="file").weight.dtype == "float64"
    with pytest.raises(errors.StateError, match="of dtype float64, not float32"):
        from_torch(model, state, dtype="exact")


class Renaming(Module[Any]):
    """A layer with its own names: for a parameter, a submodule, and a parameter inside a submodule."""

    torch_names = {"scale": "gamma", "inner": "net.core", "inner.bias": "shift", "rest.0": "tail"}  # noqa: RUF012

    def __init__(self) -> None:
        self.scale = Param(Tensor[NumPy].ones((2,)))
        self.inner = Linear(2, 2, device=NumPy)
        self.rest = [Linear(2, 2, device=NumPy)]


def test_a_layer_brings_its_own_names() -> None:
    class Outer(Module[Any]):
        def __init__(self) -> None:
            self.layers = {"a": Renaming()}

    found = {path: (part.name, part.transposed) for path, (part,) in torch_names(Outer()).items()}
    assert found == {
        "layers.a.scale": ("layers.a.gamma", False),
        "layers.a.inner.weight": ("layers.a.net.core.weight", True),
        "layers.a.inner.bias": ("layers.a.shift", False),
        "layers.a.rest.0.weight": ("layers.a.tail.weight", True),
        "layers.a.rest.0.bias": ("layers.a.tail.bias", False),
    }


def test_what_is_shared_stays_shared() -> None:
    class Tied(Module[Any]):
        def __init__(self) -> None:
            self.first = Linear(2, 2, device=NumPy)
            self.second = self.first

    weight = np.arange(4.0).reshape(2, 2)
    state = {
        f"{name}.{part}": value
        for name in ("first", "second")
        for part, value in (("weight", weight), ("bias", np.zeros(2)))
    }
    new = from_torch(Tied(), state)
    assert new.first is new.second
    assert np.array_equal(new.first.weight.value.to_numpy(), weight.T)


def test_tensors_of_ours_in_a_dict() -> None:
    weight = Tensor[Train].from_data([[1.0, 2.0], [3.0, 4.0]]).require_grad()
    new = from_torch(Linear(2, 2, bias=False, device=NumPy), {"weight": weight})
    assert new.weight.value.tolist() == [[1.0, 3.0], [2.0, 4.0]]
    with pytest.raises(errors.ArgumentError, match="is for files"):
        from_torch(Linear(2, 2, device=NumPy), {"weight": weight}, key="model")


def test_weights_go_on_in_records(tmp_path: Path) -> None:
    model = from_torch(Layers(Train), CHECKPOINT, key="model")
    save(tmp_path / "a", model=model)
    assert same(load(tmp_path / "a").apply_to(Layers(Train)), model)


@pytest.mark.parity
def test_pytorchs_own_tensors() -> None:
    import torch

    theirs = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    theirs(torch.randn(5, 3))
    theirs.eval()
    ours = from_torch(mlp(device=NumPy), theirs.state_dict())
    x = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    expected = theirs(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(ours(Tensor[NumPy].from_data(x)).to_numpy(), expected, rtol=1e-5, atol=1e-6)
    pytest.importorskip("ml_dtypes")
    half = from_torch(mlp(device=NumPy), theirs.bfloat16().state_dict(), dtype="file")
    assert str(half[0].weight.dtype) == "bfloat16"
    assert np.array_equal(
        half[0].weight.value.to_numpy().astype(np.float32), theirs[0].weight.float().detach().numpy().T
    )


class Tied(Module[Any]):
    """What PyTorch keeps under two names is one parameter, looked up and multiplied with."""

    def __init__(self) -> None:
        self.words = Embedding(3, 2, device=NumPy)


def test_tied_weights_are_wanted_under_one_name() -> None:
    weight = np.arange(6, dtype=np.float32).reshape(3, 2)
    found = from_torch(Tied(), {"head.weight": weight, "words.weight": weight})
    assert found.words.weight.value.tolist() == weight.tolist()
    with pytest.raises(errors.StateError, match=r"1 unexpected: head\.weight"):
        from_torch(Tied(), {"head.weight": weight.copy(), "words.weight": weight})
    with pytest.raises(errors.StateError, match=r"1 unexpected: head\.weight"):
        from_torch(Tied(), {"head.weight": weight[:2], "words.weight": weight})


def test_sources_that_are_none() -> None:
    class Theirs:
        def state_dict(self) -> dict[str, Any]:
            return {}

    source: Any
    for source, message in ((Theirs(), r"a Theirs; give it model\.state_dict\(\)"), (3, "got an int$")):
        with pytest.raises(errors.KindError, match=message):
            from_torch(mlp(), source)
    model: Any = Linear
    with pytest.raises(errors.KindError, match=r"into a model, got the class Linear; make a model first"):
        from_torch(model, {})
