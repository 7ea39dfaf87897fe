"""Weights in folders and several files, mapped into memory; joined, split and tied; models without values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, IntTensor, Tensor, compiled
from burnpy.backend import NumPy, errors
from burnpy.nn import Embedding, Linear, Module, MultiHeadAttention, Param, Sequential, init_empty_weights
from burnpy.optim import Adam, GradientsParams
from burnpy.record import Columns, from_torch, save_torch, to_torch
from burnpy.record.safetensors_file import write
from burnpy.tensor.host_data import writer


class Net(Module[Any]):
    """A small language model whose attention and gate are stored as in transformers."""

    torch_names = {  # noqa: RUF012
        "words": "model.embed",
        "attention.in_proj_weight": {"attn.q.weight.T": 4, "attn.k.weight.T": 2, "attn.v.weight.T": 2},
        "attention.in_proj_bias": {"attn.q.bias": 4, "attn.k.bias": 2, "attn.v.bias": 2},
        "attention.out_proj": "attn.o",
        "gate": Columns("mlp.weight.T", 0, 3),
        "up": Columns("mlp.weight.T", 3, 6),
    }

    def __init__(self, device: Any = NumPy) -> None:
        self.words = Embedding(5, 4, device=device)
        self.attention = MultiHeadAttention(4, 2, key_heads=1, device=device)
        self.gate = Param(Tensor.zeros((4, 3), device=device))
        self.up = Param(Tensor.zeros((4, 3), device=device))
        self.head = Linear(4, 5, bias=False, device=device)

    def forward(self, index: Any) -> Any:
        return self.head(self.attention(self.words(index)))


def weights() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed.weight": (5, 4),
        "attn.q.weight": (4, 4),
        "attn.k.weight": (2, 4),
        "attn.v.weight": (2, 4),
    }
    shapes |= {
        "attn.q.bias": (4,),
        "attn.k.bias": (2,),
        "attn.v.bias": (2,),
        "attn.o.weight": (4, 4),
        "attn.o.bias": (4,),
    }
    shapes |= {"mlp.weight": (6, 4), "head.weight": (5, 4)}
    return {name: rng.normal(size=shape).astype("float32") for name, shape in shapes.items()}


def sharded(folder: Path, state: dict[str, Any]) -> Path:
    """Write a state as two files and an index."""
    names = sorted(state)
    places = {name: f"model-0000{1 + k % 2}-of-00002.safetensors" for k, name in enumerate(names)}
    for file in {*places.values()}:
        write(folder / file, {name: state[name] for name in names if places[name] == file}, {}, digest=False)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return index


def equal(model: Module[Any], state: dict[str, Any]) -> bool:
    found = to_torch(model)
    return found.keys() == state.keys() and all(np.array_equal(found[name], state[name]) for name in state)


def test_shards_and_folders(tmp_path: Path) -> None:
    state = weights()
    assert equal(from_torch(Net(), sharded(tmp_path, state)), state)
    assert equal(from_torch(Net(), tmp_path), state)
    save_torch(tmp_path / "model.safetensors", from_torch(Net(), state))
    (tmp_path / "model.safetensors.index.json").unlink()
    assert equal(from_torch(Net(Autodiff[NumPy]), tmp_path), state)


def test_the_index_of_shards_may_be_wrong(tmp_path: Path) -> None:
    index = sharded(tmp_path, weights())
    whole = json.loads(index.read_text())
    for text, error, message in (
        ("{", errors.RecordError, "is damaged.*not JSON"),
        ("[]", errors.RecordError, "no weight_map"),
        (json.dumps({"weight_map": {"a": "../a.safetensors"}}), errors.RecordError, "no weight_map"),
        (json.dumps({"weight_map": {"a": "a.safetensors"}}), errors.RecordNotFoundError, "there is no file .*a.safe"),
        (
            json.dumps({"weight_map": whole["weight_map"] | {"b": "model-00001-of-00002.safetensors"}}),
            errors.RecordError,
            "b should be in model-00001-of-00002.safetensors, and is not",
        ),
    ):
        index.write_text(text)
        with pytest.raises(error, match=message):
            from_torch(Net(), index)
    for name in ("a", "b"):
        write(tmp_path / f"{name}.safetensors", {}, {})
    index.unlink()
    for shard in tmp_path.glob("model-*"):
        shard.unlink()
    with pytest.raises(errors.RecordNotFoundError, match=r"several files, a.safetensors, b.safetensors: name one"):
        from_torch(Net(), tmp_path)


def test_parameters_are_views_of_the_file(tmp_path: Path) -> None:
    state = weights()
    write(tmp_path / "net.safetensors", state, {}, digest=False)
    with init_empty_weights():
        empty = Net()
    model = from_torch(empty, tmp_path / "net.safetensors")
    head, words = model.head.weight.value.to_numpy(), model.words.weight.value.to_numpy()
    start, stop = words.__array_interface__["data"][0], head.__array_interface__["data"][0]
    assert abs(stop - start) < 4096, "both are in one page of the file"
    assert not writer(head)
    (tmp_path / "net.safetensors").unlink()
    assert equal(model, state)
    tripled = model.map(lambda x: x * 3.0)
    np.testing.assert_allclose(tripled.head.weight.value.to_numpy(), 3.0 * head)


def test_a_model_that_is_mapped_trains_and_the_file_stays(tmp_path: Path) -> None:
    save_torch(tmp_path / "net.safetensors", Net())
    before = (tmp_path / "net.safetensors").read_bytes()
    optim, index = Adam(), IntTensor[NumPy].from_data([[1, 2, 3]])

    def step(model: Any, state: Any, index: Any) -> Any:
        loss = model(index).square().mean()
        grads = GradientsParams.from_grads(loss.backward(), model)
        return (*optim.pure_step(0.1, model, grads, state), loss.detach())

    losses = []
    for run in (step, compiled(step, donate=("model", "state"))):
        model = from_torch(Net(Autodiff[NumPy]), tmp_path / "net.safetensors")
        state = optim.init(model)
        for _ in range(3):
            model, state, loss = run(model, state, index)
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert (tmp_path / "net.safetensors").read_bytes() == before


@pytest.mark.parametrize("device", [NumPy, Autodiff[NumPy]])
def test_an_empty_model_refuses_to_compute(device: Any) -> None:
    with init_empty_weights():
        model = Net(device)
        padded = Embedding(3, 2, padding_idx=0, device=device)
    assert "Embedding(5, 4)" in repr(model)
    assert model.num_params == Net().num_params
    assert padded.weight.shape == (3, 2)
    index = IntTensor.from_data([[1, 2]], device=device)
    for use in (
        lambda: model(index),
        model.into_record,
        lambda: model.map(lambda x: x * 2.0),
    ):
        with pytest.raises(errors.StateError, match=r"has no value yet, .* record\.from_torch"):
            use()
    filled = from_torch(model, weights(), dtype="bfloat16")
    assert {str(p.dtype) for p in filled.params()} == {"bfloat16"}
    assert filled(index).shape == (1, 2, 5)
    partly = from_torch(model, {"head.weight": weights()["head.weight"]}, strict=False)
    with pytest.raises(errors.StateError, match="shape \\(5, 4\\) has no value yet"):
        partly(index)


def test_a_head_that_the_file_lacks_is_tied_to_the_embedding() -> None:
    state = weights()
    del state["head.weight"]
    with pytest.warns(UserWarning, match=r"has no head\.weight, and the model gets the values of model\.embed\.weight"):
        model = from_torch(Net(), state)
    assert model.head.weight.value.T.tolist() == model.words.weight.value.tolist()
    del state["attn.o.bias"]
    with pytest.raises(errors.StateError, match=r"2 missing: attention\.out_proj\.bias, head\.weight"):
        from_torch(Net(), state)


def test_near_names_and_wrong_sizes_are_said() -> None:
    state = weights()
    state["attn.q_.weight"] = state.pop("attn.q.weight")
    with pytest.raises(errors.StateError, match=r"attn\.q_\.weight is near attn\.q\.weight: remap= renames entries"):
        from_torch(Net(), state)
    for name, shape, message in (
        ("attn.k.weight", (3, 4), r"attn\.k\.weight of shape \(3, 4\), whose first size should be 2"),
        ("attn.k.weight", (2, 3), r"of shapes \(4, 4\) and \(2, 3\) and \(2, 4\), which do not join"),
        ("mlp.weight", (5, 4), r"mlp\.weight of shape \(5, 4\), whose first size should be 6"),
    ):
        with pytest.raises(errors.StateError, match=message):
            from_torch(Net(), weights() | {name: np.zeros(shape, "float32")})
    with pytest.raises(errors.StateError, match=r"attention\.in_proj_weight \(neither tensor nor array: a list\)"):
        from_torch(Net(), weights() | {"attn.k.weight": [1.0]})


def test_files_that_are_not_aligned_are_copied(tmp_path: Path) -> None:
    header = json.dumps({"weight": {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]}}).encode() + b" "
    header += b" " * ((6 - len(header)) % 4)
    (tmp_path / "odd.safetensors").write_bytes(
        len(header).to_bytes(8, "little") + header + np.array([[1.0, 2.0]], "float32").tobytes()
    )
    model = from_torch(Linear(2, 1, bias=False, device=NumPy), tmp_path / "odd.safetensors")
    assert model.weight.value.tolist() == [[1.0], [2.0]]


@pytest.mark.parity
def test_transformers_and_safetensors_read_what_we_write(tmp_path: Path) -> None:
    torch_file = pytest.importorskip("safetensors.torch")
    model = Sequential(Linear(2, 3, device=NumPy), Linear(3, 1, device=NumPy)).astype("bfloat16")
    save_torch(tmp_path / "net.safetensors", model, metadata={"made": "here"})
    found = torch_file.load_file(tmp_path / "net.safetensors")
    assert {name: str(x.dtype) for name, x in found.items()} == dict.fromkeys(found, "torch.bfloat16")
    assert found["0.weight"].float().T.tolist() == model[0].weight.value.float().tolist()
