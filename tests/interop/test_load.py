"""ONNX files as modules: trained, compiled, written again; damaged and foreign ones end in a sentence."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import IntTensor, Tensor
from burnpy.autodiff import Autodiff
from burnpy.backend import NumPy
from burnpy.backend.errors import ArgumentError, ExportError, KindError, LoadingError, RecordingError, ShapeError
from burnpy.interop import onnx
from burnpy.nn import BatchNorm, Conv2d, Linear, Module, Relu, Sequential
from burnpy.optim import Adam, GradientsParams
from burnpy.typevars import B
from tests.interop.test_export import MODELS, floats
from tests.interrupting import LONG

pytestmark = [pytest.mark.heavy("onnx")]
Train = Autodiff[NumPy]


def package() -> Any:
    import onnx as module

    return module


@pytest.mark.parametrize("name", MODELS)
def test_an_exported_model_is_the_same_again(name: str, tmp_path: Path) -> None:
    model, make, dynamic = MODELS[name]
    path = tmp_path / "model.onnx"
    onnx.export(model, make(2), path, dynamic=dynamic)
    loaded = onnx.load(path, NumPy)
    for size in (1, 2, 5):
        inputs = make(size)
        ours, theirs = loaded(*inputs), model(*inputs)
        assert ours.allclose(theirs, rtol=1e-4, atol=1e-5)
        assert burnpy.compiled(loaded)(*inputs).allclose(theirs, rtol=1e-4, atol=1e-5)
    onnx.export(loaded, make(2), path)
    assert onnx.load(path, NumPy)(*make(2)).allclose(model(*make(2)), rtol=1e-4, atol=1e-5)


class Image(Module[B]):
    """A convolution, batch normalization and a linear layer."""

    def __init__(self, device: B | type[B]) -> None:
        self.body = Sequential(Conv2d(1, 4, 3, padding=1, device=device), BatchNorm(4, device=device), Relu())
        self.head = Linear(4, 3, device=device)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        return self.head(self.body(x).mean(dim=(2, 3)))


def test_a_loaded_model_is_trained_and_written_again(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    source = Image(NumPy)
    x, labels = floats(8, 1, 6, 6), IntTensor.from_data(np.arange(8) % 3, device=Train)
    onnx.export(source, (x,), path, dynamic={"x": {0: "batch"}})
    model = onnx.load(path, Train)
    assert {name.removeprefix("weights.") for name in model.named_params()} == set(source.named_params())
    assert {name.removeprefix("weights.") for name in model.named_buffers()} == {
        "body.1.running_mean",
        "body.1.running_var",
    }
    tracked = Tensor.from_data(x.to_numpy(), device=Train)
    optim = Adam()
    losses = []
    for _ in range(12):
        loss = burnpy.cross_entropy(model(tracked), labels)
        losses.append(loss.item())
        model = optim.step(3e-2, model, GradientsParams.from_grads(loss.backward(), model))
    assert losses[-1] < losses[0] * 0.98
    onnx.export(model.valid(), (x,), path)
    assert onnx.load(path, NumPy)(x).allclose(model.valid()(x), atol=1e-6)


def test_gradients_are_those_of_the_module(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    source = Image(Train).eval()
    onnx.export(source.valid(), (floats(2, 1, 5, 5),), path)
    x = Tensor.from_data(floats(2, 1, 5, 5).to_numpy(), device=Train)
    grads = [GradientsParams.from_grads((m(x) ** 2).sum().backward(), m) for m in (source, onnx.load(path, Train))]
    for name, param in source.named_params().items():
        mine = grads[0].get(param)
        theirs = grads[1].get(onnx.load(path, Train).named_params()[f"weights.{name}"])
        assert mine is not None
        assert theirs is None or mine.allclose(theirs, rtol=1e-4, atol=1e-6)


def node(kind: str, inputs: list[str], outputs: list[str], **attributes: Any) -> Any:
    return package().helper.make_node(kind, inputs, outputs, **attributes)


def saved(path: Path, nodes: list[Any], *, opset: int = 20, **settings: Any) -> Path:
    """Write a file of nodes that map ``x`` (2, 3) to ``y``."""
    helper = package().helper
    x, y = (helper.make_tensor_value_info(name, 1, None) for name in ("x", "y"))
    graph = helper.make_graph(nodes, "graph", [x], [y], **settings)
    package().save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]), path)
    return path


def refused(match: str, path: Path) -> None:
    with pytest.raises(LoadingError, match=match):
        onnx.load(path, NumPy)


def test_all_that_is_unknown_is_named_at_once(tmp_path: Path) -> None:
    nodes = [
        node("Frobnicate", ["x"], ["a"], name="first"),
        node("Relu", ["a"], ["b"], slope=1.0),
        node("Blorp", ["b"], ["y"]),
    ]
    path = saved(tmp_path / "model.onnx", nodes)
    refused(r"Frobnicate \(first\) is unknown.*Relu \(b\) has the attribute slope.*Blorp \(y\) is unknown", path)
    foreign = node("Scaler", ["x"], ["y"], domain="com.microsoft")
    refused("of the domain com.microsoft is unknown", saved(tmp_path / "model.onnx", [foreign]))


def test_opsets(tmp_path: Path) -> None:
    refused("does not say which opset", saved(tmp_path / "a.onnx", [node("Relu", ["x"], ["y"])], opset=0))
    refused("opsets up to .* has 999; update onnx", saved(tmp_path / "a.onnx", [node("Relu", ["x"], ["y"])], opset=999))


def test_files_that_are_none(tmp_path: Path) -> None:
    refused("found no file", tmp_path / "none.onnx")
    (tmp_path / "a.onnx").write_bytes(b"")
    refused("no graph with outputs", tmp_path / "a.onnx")
    (tmp_path / "a.onnx").write_bytes(b"hello world" * 100)
    refused("no ONNX file or is damaged", tmp_path / "a.onnx")
    add, sparse = [node("Add", ["x", "w"], ["y"])], package().SparseTensorProto(dims=[2, 3])
    for number, why in ((1, "cannot reshape array of size 2"), (99, "it has the data type 99")):
        damaged = package().TensorProto(name="w", data_type=number, dims=[2, 3], raw_data=bytes(8))
        refused(f"w is damaged: {why}", saved(tmp_path / "a.onnx", add, initializer=[damaged]))
    sparse.values.CopyFrom(package().numpy_helper.from_array(np.ones(1, np.float32), "w"))
    sparse.indices.CopyFrom(package().numpy_helper.from_array(np.array([1, 2])))
    refused("w has 1 values at 2 indices", saved(tmp_path / "a.onnx", add, sparse_initializer=[sparse]))


def test_data_outside_of_the_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.data").write_bytes(bytes(12))
    onnx_ = package()
    held = onnx_.TensorProto(name="w", data_type=1, dims=[3], data_location=onnx_.TensorProto.EXTERNAL)
    held.external_data.add(key="location", value="../secret.data")
    path = saved(folder / "model.onnx", [node("Add", ["x", "w"], ["y"])], initializer=[held])
    refused(r"data in the folder of .* alone, and w is in '\.\./secret\.data'", path)
    (folder / "inside.data").write_bytes(bytes(8))
    held.external_data[0].value = "inside.data"
    refused("is shorter than it says", saved(path, [node("Add", ["x", "w"], ["y"])], initializer=[held]))
    held.external_data[0].value = "absent.data"
    refused("found no file", saved(path, [node("Add", ["x", "w"], ["y"])], initializer=[held]))
    (folder / "inside.data").write_bytes(np.arange(3, dtype=np.float32).tobytes())
    held.external_data[0].value = "inside.data"
    model = onnx.load(saved(path, [node("Add", ["x", "w"], ["y"])], initializer=[held]), NumPy)
    assert model(Tensor.zeros((3,), device=NumPy)).tolist() == [0.0, 1.0, 2.0]


def test_errors_name_the_node(tmp_path: Path) -> None:
    path = saved(
        tmp_path / "model.onnx", [node("Relu", ["x"], ["a"]), node("MatMul", ["a", "x"], ["y"], name="product")]
    )
    model = onnx.load(path, NumPy)
    with pytest.raises(ShapeError) as caught:
        model(floats(2, 3))
    assert caught.value.__notes__ == [
        "in MatMul (product) of the ONNX file, with the inputs float32 (2, 3), float32 (2, 3)"
    ]
    with pytest.raises(ArgumentError, match="takes 1 inputs, x, got 2"):
        model(floats(2, 3), floats(2, 3))
    other: Any = np.ones((2, 3), np.float32)
    with pytest.raises(KindError, match=r"a tensor as x, got an ndarray of shape \(2, 3\) .*: Tensor\.from_data"):
        model(other)
    with pytest.raises(LoadingError, match=r"EyeLike \(y\) of the ONNX file .* inputs float32 \(2, 3, 1\): ValueError"):
        onnx.load(saved(path, [node("EyeLike", ["x"], ["y"])]), NumPy)(floats(2, 3, 1))


def test_errors_of_recordings_name_the_node(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    model = onnx.load(saved(path, [node("RandomNormalLike", ["x"], ["y"], name="noise")]), NumPy)
    with pytest.raises(ExportError, match=r"random_normal.*\n.*in RandomNormalLike \(noise\) of float32 \(2, 3\)"):
        onnx.export(model, (floats(2, 3),), tmp_path / "again.onnx")
    nodes = [node("ReduceSum", ["x"], ["s"]), node("Cast", ["s"], ["k"], to=7), node("Range", ["k", "k", "k"], ["y"])]
    with pytest.raises(RecordingError, match="Range reads its input start before it computes") as caught:
        onnx.export(onnx.load(saved(path, nodes), NumPy), (floats(2, 3),), tmp_path / "again.onnx")
    assert caught.value.__notes__[0].startswith("in Range (y) of the ONNX file, with the inputs int64 ")


def test_what_does_not_exist_is_named_before_anything_is_computed(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    refused(r"the input 'nowhere' of Add \(y\) does not exist", saved(path, [node("Add", ["x", "nowhere"], ["y"])]))
    refused(r"Add \(y\) lacks an input: it needs 2", saved(path, [node("Add", ["x"], ["y"])]))
    refused("the output 'y' does not exist", saved(path, [node("Relu", ["x"], ["z"])]))
    refused("2 nodes compute 'y'", saved(path, [node("Relu", ["x"], ["y"]), node("Neg", ["x"], ["y"])]))


def test_attributes_are_what_operators_take(tmp_path: Path) -> None:
    """Those without a default are there, and their types and texts are known, before anything is computed."""
    path = tmp_path / "model.onnx"
    refused(r"Concat \(y\) lacks the attribute axis", saved(path, [node("Concat", ["x", "x"], ["y"])]))
    refused(r"Softmax \(y\) has axis=1.5, expected int", saved(path, [node("Softmax", ["x"], ["y"], axis=1.5)]))
    refused(r"has perm=\('a',\), expected tuple\[int", saved(path, [node("Transpose", ["x"], ["y"], perm=["a"])]))
    blocks = node("DepthToSpace", ["x"], ["y"], mode="RCD", blocksize=2)
    refused(r"has mode='RCD', expected one of \['DCR', 'CRD'\]", saved(path, [blocks]))
    pool = node("MaxPool", ["x"], ["y"], auto_pad="SAME", kernel_shape=[2])
    refused(r"has auto_pad='SAME', expected one of \['NOTSET', ", saved(path, [pool]))
    whole = onnx.load(saved(path, [node("MaxPool", ["x"], ["y"], auto_pad="", kernel_shape=[2])]), NumPy)
    assert whole(floats(1, 2, 4)).shape == (1, 2, 3)
    v, u, w = (package().helper.make_tensor_value_info(name, 1, None) for name in "vuw")
    step = package().helper.make_graph([node("Neg", ["v"], ["w"])], "step", [v, u], [w])
    refused("has a body of 2 inputs, expected 3", saved(path, [node("Loop", ["", "", "x"], ["y"], body=step)]))


def test_damaged_files_end_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    model, make, dynamic = MODELS["image"]
    onnx.export(model, make(2), path, dynamic=dynamic)
    data = bytearray(path.read_bytes())
    generator = np.random.default_rng(0)
    for k in range(2000 if LONG else 150):
        changed = bytearray(data)
        if k % 3 == 0:
            changed = changed[: generator.integers(0, len(data))]
        else:
            for place in generator.integers(0, len(data), 1 + k % 5):
                changed[place] = generator.integers(0, 256)
        path.write_bytes(bytes(changed))
        with contextlib.suppress(LoadingError):
            onnx.load(path, NumPy)


@pytest.mark.parametrize("name", MODELS)
def test_the_source_is_the_model(name: str, tmp_path: Path) -> None:
    model, make, dynamic = MODELS[name]
    path = tmp_path / "model.onnx"
    onnx.export(model, make(2), path, dynamic=dynamic)
    text = onnx.source(path, "Written")
    names: dict[str, Any] = {"__name__": "written"}
    exec(compile(text, "written.py", "exec"), names)
    written = names["Written"](path, NumPy)
    assert written(*make(3)).allclose(model(*make(3)), rtol=1e-4, atol=1e-5)
    assert text.replace("are in model.onnx", "are in m.safetensors") == onnx.source(
        path, "Written", out=tmp_path / "m.py"
    )
    path.unlink()
    beside = names["Written"](tmp_path / "m.safetensors", NumPy)
    assert beside(*make(3)).tolist() == written(*make(3)).tolist()
    onnx.export(model, make(2), path, dynamic=dynamic)
    assert len(written.named_params()) == len(onnx.load(path, NumPy).named_params())


@pytest.mark.long
def test_the_source_passes_type_checkers(tmp_path: Path) -> None:
    texts = []
    for k, name in enumerate(("image", "transformer")):
        model, make, dynamic = MODELS[name]
        onnx.export(model, make(2), tmp_path / "model.onnx", dynamic=dynamic)
        texts.append(tmp_path / f"written{k}.py")
        texts[-1].write_text(onnx.source(tmp_path / "model.onnx"))
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), *map(str, texts)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("masked", [False, True])
def test_attention_in_parts_is_joined(masked: bool, tmp_path: Path) -> None:
    def attend(q: Any, k: Any, v: Any, mask: Any) -> Any:
        scores = (q * 0.5) @ k.mT
        return (scores + mask if masked else scores).softmax(dim=-1) @ v

    path = tmp_path / "model.onnx"
    inputs = (floats(2, 3, 5, 4), floats(2, 3, 6, 4), floats(2, 3, 6, 7), floats(5, 6))
    onnx.export(attend, inputs, path)
    model = onnx.load(path, NumPy)
    assert [n.kind for n in model.graph.nodes if n.kind not in ("Constant", "Mul", "Transpose")] == ["Attend"]
    assert model(*inputs[: len(model.graph.inputs)]).allclose(attend(*inputs), rtol=1e-5, atol=1e-6)


def test_trees(tmp_path: Path) -> None:
    """A tree of two levels with every comparison, NaN, and a second tree that is a leaf."""
    for mode, other in (("BRANCH_LEQ", "BRANCH_GT"), ("BRANCH_LT", "BRANCH_GTE"), ("BRANCH_EQ", "BRANCH_NEQ")):
        attributes: dict[str, Any] = {
            "n_targets": 1,
            "nodes_treeids": [0, 0, 0, 0, 0, 1],
            "nodes_nodeids": [0, 1, 2, 3, 4, 0],
            "nodes_featureids": [0, 2, 0, 0, 0, 0],
            "nodes_values": [0.5, 1.0, 0.0, 0.0, 0.0, 0.0],
            "nodes_modes": [mode, other, "LEAF", "LEAF", "LEAF", "LEAF"],
            "nodes_truenodeids": [1, 2, 0, 0, 0, 0],
            "nodes_falsenodeids": [4, 3, 0, 0, 0, 0],
            "nodes_missing_value_tracks_true": [1, 0, 0, 0, 0, 0],
            "target_treeids": [0, 0, 0, 1],
            "target_nodeids": [2, 3, 4, 0],
            "target_ids": [0, 0, 0, 0],
            "target_weights": [1.0, 2.0, 4.0, 8.0],
        }
        tree = node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", **attributes)
        model = onnx.load(saved(tmp_path / "model.onnx", [tree]), NumPy)
        rows = [[a, 0.0, b] for a in (0.0, 0.5, 1.0, np.nan) for b in (0.0, 1.0, 2.0, np.nan)]
        compare = {
            "BRANCH_LEQ": lambda a, b: a <= b,
            "BRANCH_LT": lambda a, b: a < b,
            "BRANCH_GT": lambda a, b: a > b,
            "BRANCH_GTE": lambda a, b: a >= b,
            "BRANCH_EQ": lambda a, b: a == b,
            "BRANCH_NEQ": lambda a, b: a != b,
        }
        expected = []
        for a, _, b in rows:
            first = np.isnan(a) or compare[mode](a, 0.5)
            expected.append(8.0 + ((1.0 if compare[other](b, 1.0) and not np.isnan(b) else 2.0) if first else 4.0))
        found = model(Tensor.from_data(np.array(rows, np.float32), device=NumPy))
        assert found.reshape(-1).tolist() == expected
