"""Models as ONNX files: the same results in onnxruntime for all sizes, and a sentence for what cannot be written."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import BoolTensor, IntTensor, Tensor, fft, func
from burnpy.autodiff import Autodiff
from burnpy.backend import NumPy
from burnpy.backend.errors import (
    ArgumentError,
    ExportError,
    KindError,
    MissingPackageError,
    RecordFileError,
    RecordingError,
    RecordNotFoundError,
    ShapeError,
)
from burnpy.interop import onnx
from burnpy.interop.onnx import exporting
from burnpy.interop.onnx.sizes import expression_of
from burnpy.nn import (
    BatchNorm,
    Conv2d,
    Dropout,
    Embedding,
    Gelu,
    GroupNorm,
    Gru,
    LayerNorm,
    Linear,
    Lstm,
    Module,
    MultiHeadAttention,
    Relu,
    RmsNorm,
    Rnn,
    RotaryEncoding,
    Sequential,
    TransformerEncoderLayer,
    functional,
)
from burnpy.typevars import B

pytestmark = [pytest.mark.heavy("onnx", "onnxruntime")]

Make = Callable[[int], tuple[Any, ...]]


def floats(*shape: int) -> Tensor[NumPy]:
    return Tensor.from_data(np.random.default_rng(0).normal(size=shape).astype(np.float32), device=NumPy)


def ints(high: int, *shape: int) -> IntTensor[NumPy]:
    return IntTensor.from_data(np.random.default_rng(0).integers(0, high, shape), device=NumPy)


def rolled_out(x: Tensor[NumPy]) -> Any:
    """Run a recurrence with a branch over a time series of shape (time, batch, 3)."""

    def step(h: Tensor[NumPy], xt: Tensor[NumPy]) -> tuple[Tensor[NumPy], Tensor[NumPy]]:
        h = func.cond(xt.sum() > 0.0, lambda h: (h + xt).tanh(), lambda h: h - 1.0, h)
        return h, h.amax()

    return func.scan(step, x[0] * 0.5, x)


class Language(Module[B]):
    """Token embeddings, encoder layers and logits."""

    def __init__(self, device: B | type[B]) -> None:
        self.tokens = Embedding(50, 16, device=device)
        self.layers = Sequential(*[TransformerEncoderLayer(16, 4, feedforward=32, device=device) for _ in range(2)])
        self.out = Linear(16, 50, device=device)

    def forward(self, tokens: IntTensor[B]) -> Tensor[B]:
        return self.out(self.layers(self.tokens(tokens)))


class Causal(Module[B]):
    """Grouped-query attention with rotary encoding."""

    def __init__(self, device: B | type[B]) -> None:
        self.norm = RmsNorm(16, device=device)
        self.attention = MultiHeadAttention(16, 4, key_heads=2, rotary=RotaryEncoding(), device=device)

    def forward(self, x: Tensor[B]) -> Tensor[B]:
        return self.attention(self.norm(x), causal=True)


class Image(Module[B]):
    """Convolution, norms of groups and batches, and pooling."""

    def __init__(self, device: B | type[B]) -> None:
        self.first = Conv2d(3, 8, 3, stride=2, padding=1, device=device)
        self.groups = GroupNorm(2, 8, device=device)
        self.batch = BatchNorm(8, device=device)
        self.head = Linear(8, 4, device=device)

    def forward(self, image: Tensor[B]) -> Tensor[B]:
        x = self.batch(self.groups(self.first(image)).silu())
        return self.head(burnpy.nn.functional.adaptive_avg_pool2d(x, 1).flatten(1)).softmax(dim=-1)


def steps(cls: Any) -> Any:
    """A recurrent network that returns all its states."""
    network = cls(4, 6, bidirectional=True, device=NumPy)
    return lambda x: network(x)[0]


MODELS: dict[str, tuple[Any, Make, Mapping[str, Mapping[int, str]]]] = {
    "mlp": (
        Sequential(Linear(8, 16, device=NumPy), Gelu(), LayerNorm(16, device=NumPy), Linear(16, 3, device=NumPy)),
        lambda n: (floats(n, 8),),
        {"x": {0: "batch"}},
    ),
    "transformer": (Language(NumPy), lambda n: (ints(50, n, 2 * n + 1),), {"tokens": {0: "batch", 1: "length"}}),
    "causal attention": (Causal(NumPy), lambda n: (floats(n, n + 2, 16),), {"x": {0: "batch", 1: "length"}}),
    "image": (
        Image(NumPy),
        lambda n: (floats(n, 3, 4 * n, 8),),
        {"image": {0: "batch", 2: "height"}},
    ),
    "lstm": (steps(Lstm), lambda n: (floats(n, n + 1, 4),), {"x": {0: "batch", 1: "length"}}),
    "gru": (steps(Gru), lambda n: (floats(n, n + 1, 4),), {"x": {0: "batch", 1: "length"}}),
    "rnn": (steps(Rnn), lambda n: (floats(n, n + 1, 4),), {"x": {0: "batch", 1: "length"}}),
    "numbers of sizes": (
        lambda x: (
            x * (1.0 / x.shape[0]) + x.mean(dim=0) * x.shape[1] ** -0.5 + x.reshape(-1)[: x.shape[1]] - x.shape[0]
        ),
        lambda n: (floats(n, n + 3),),
        {"x": {0: "rows", 1: "columns"}},
    ),
    "numbers of sizes less one": (
        lambda x: x.std() * x.std(dim=0) + x.var(dim=1).mean(),
        lambda n: (floats(n + 1, n + 2),),
        {"x": {0: "rows", 1: "columns"}},
    ),
    "images of any size": (
        lambda x: (
            functional.interpolate(functional.max_pool2d(x, 2), size=x.shape[2:], mode="bilinear")
            + functional.interpolate(x[:, :, ::2, ::2], scale_factor=2.0)
            + functional.interpolate(x[:, :, ::2, ::2], scale_factor=2.0, mode="bicubic", align_corners=True)
        ),
        lambda n: (floats(2, 3, 2 * n + 2, 4 * n),),
        {"x": {2: "height", 3: "width"}},
    ),
    "images of a given size": (
        lambda x: functional.interpolate(functional.interpolate(x, scale_factor=1.7, mode="bilinear"), size=(5, 3)),
        lambda n: (floats(n, 3, 2 * n + 2, 4),),
        {"x": {0: "batch", 2: "height"}},
    ),
    "slices": (
        lambda x: burnpy.cat([x[1:].flip(0), x[:1], x.at[:, 0].set(2.0)], dim=0)[::2, -1],
        lambda n: (floats(n + 1, 3),),
        {"x": {0: "rows"}},
    ),
}


LOOPS: dict[str, tuple[Any, Make, Mapping[str, Mapping[int, str]]]] = {
    "scan": (rolled_out, lambda n: (floats(n + 1, n, 3),), {"x": {0: "time", 1: "batch"}}),
    "scan without slices": (
        lambda x: func.scan(
            lambda c, _: (c * 1.5 + 1.0, c.sum() / x.shape[0]), x, None, length=x.shape[0], reverse=True
        ),
        lambda n: (floats(n, 3),),
        {"x": {0: "batch"}},
    ),
    "cond": (
        lambda x: func.cond(x.sum() > 1.0, lambda x: (x * 2.0, x), lambda x: (x - x.mean(0), x), x),
        lambda n: (floats(n, 3),),
        {"x": {0: "batch"}},
    ),
    "while": (
        lambda x: func.while_loop(lambda s: s.abs().sum() < 100.0, lambda s: s * 2.0 + x, x),
        lambda n: (floats(n, 3),),
        {"x": {0: "batch"}},
    ),
}


@pytest.mark.parametrize("name", [*MODELS, *LOOPS])
def test_a_file_gives_the_results_of_its_model_for_all_sizes(name: str, tmp_path: Path) -> None:
    model, make, dynamic = (MODELS | LOOPS)[name]
    path = tmp_path / "model.onnx"
    onnx.export(model, make(2), path, dynamic=dynamic)
    for size in (1, 2, 3, 7):
        for found in onnx.verify(path, model, make(size)):
            assert found.relative < 5e-6, (size, found)


@pytest.mark.parametrize("name", LOOPS)
def test_loops_and_branches_are_read_as_they_were_written(name: str, tmp_path: Path) -> None:
    model, make, dynamic = LOOPS[name]
    onnx.export(model, make(2), tmp_path / "model.onnx", dynamic=dynamic)
    read = onnx.load(tmp_path / "model.onnx", NumPy)
    for size in (1, 3):
        wanted = model(*make(size))
        for found in (read(*make(size)), burnpy.compiled(read)(*make(size))):
            assert type(found) is type(wanted)
            for x, y in zip(*[tree if type(tree) is tuple else (tree,) for tree in (found, wanted)], strict=True):
                assert x.allclose(y, rtol=1e-5)


@pytest.mark.parametrize("opset", [18, 20, 23])
def test_older_opsets_decompose_newer_operators(opset: int, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.export(Causal(NumPy), (floats(2, 3, 16),), path, opset=opset)
    kinds = {node.op_type for node in loaded(path).graph.node}
    assert ({"Attention", "RMSNormalization"} <= kinds) == (opset == 23)
    assert loaded(path).opset_import[0].version == opset


def loaded(path: Path) -> Any:
    import onnx as package

    return package.load(path)


def test_operators_have_counterparts_and_parameters_their_names(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    model, make, dynamic = MODELS["transformer"]
    onnx.export(model, make(2), path, dynamic=dynamic, outputs=("logits",), metadata={"author": "B"})
    proto = loaded(path)
    kinds = [node.op_type for node in proto.graph.node]
    assert kinds.count("Attention") == 2
    assert kinds.count("LayerNormalization") == 4
    assert set(model.named_params()) <= {tensor.name for tensor in proto.graph.initializer}
    assert [value.name for value in proto.graph.output] == ["logits"]
    assert [d.dim_param or d.dim_value for d in proto.graph.output[0].type.tensor_type.shape.dim] == [
        "batch",
        "length",
        50,
    ]
    assert {p.key: p.value for p in proto.metadata_props} == {"author": "B"}
    lstm, make, dynamic = MODELS["lstm"]
    onnx.export(lstm, make(2), path, dynamic=dynamic)
    assert [node.op_type for node in loaded(path).graph.node].count("LSTM") == 2


def test_trees_of_inputs_and_outputs(tmp_path: Path) -> None:
    def model(pair: Any, scale: Any) -> Any:
        return {"sum": (pair[0] + pair[1]) * scale, "same": pair[0], "twice": [pair[0], pair[1].exp()]}

    path = tmp_path / "model.onnx"
    inputs = ((floats(2, 3), floats(2, 3)), floats(3))
    onnx.export(model, inputs, path)
    proto = loaded(path)
    assert [value.name for value in proto.graph.input] == ["pair[0]", "pair[1]", "scale"]
    outputs = [value.name for value in proto.graph.output]
    assert outputs == ["output['sum']", "output['same']", "output['twice'][0]", "output['twice'][1]"]
    assert all(found.largest < 1e-6 for found in onnx.verify(path, model, inputs))


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_other_dtypes(dtype: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    model = Sequential(Linear(8, 16, device=NumPy), Relu(), LayerNorm(16, device=NumPy)).astype(dtype)
    onnx.export(model, (floats(2, 8).to_dtype(dtype),), path)
    assert onnx.verify(path, model, (floats(2, 8).to_dtype(dtype),))[0].relative < (
        2e-3 if dtype == "float16" else 1e-11
    )


def test_large_parameters_lie_beside_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "LARGE", 100)
    model = Linear(40, 40, device=NumPy)
    path = tmp_path / "model.onnx"
    for _ in range(2):  # the second time over the first files
        onnx.export(model, (floats(2, 40),), path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.onnx", "model.onnx.data"]
    assert (tmp_path / "model.onnx.data").stat().st_size < 10000
    assert onnx.verify(path, model, (floats(2, 40),))[0].relative < 1e-6


@pytest.mark.parametrize("large", [2**30, 100])
def test_a_file_that_cannot_be_replaced_stays(large: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resource: Any = pytest.importorskip("resource")
    monkeypatch.setattr(exporting, "LARGE", large)
    path, small, big = tmp_path / "model.onnx", Linear(40, 40, device=NumPy), Linear(40, 1000, device=NumPy)
    onnx.export(small, (floats(2, 40),), path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))  # as a full disk
    try:
        with pytest.raises(RecordFileError, match=r"cannot save .*: File too large; what was there before"):
            onnx.export(big, (floats(2, 40),), path)
        with pytest.raises(RecordNotFoundError, match="there is no folder"):
            onnx.export(small, (floats(2, 40),), tmp_path / "no" / "model.onnx")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    with pytest.raises(ArgumentError, match=r"export\(\) writes to the local disk, and got memory://model.onnx"):
        onnx.export(small, (floats(2, 40),), "memory://model.onnx")


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint8", "uint16", "uint32", "uint64"])
def test_ints_of_all_sizes(dtype: str, tmp_path: Path) -> None:
    """Operators that runtimes have for int32 and int64 alone are computed in these, and wrap."""

    def f(x: IntTensor[NumPy], y: IntTensor[NumPy]) -> tuple[Any, ...]:
        results: list[Any] = [x + y, x - y, x * y, -x, y**y, x.abs(), x.sign(), burnpy.maximum(x, y), x << y, x >> y]
        results += [x.floor_divide(y), x.remainder(y), x.fmod(y), burnpy.where(x > y, x, y), x.reshape(1, 3) @ y]
        if dtype != "uint64":
            results += [x.clamp(1, 3), x.amax(), x.amin(), x.argmax(), x.sort()[0], x.topk(2)[0], x.topk(2)[1]]
        return tuple(results)

    high = np.iinfo(dtype).max
    x, y = (IntTensor[NumPy].from_data(np.array(row, dtype), dtype=dtype) for row in ((3, 2, high), (1, 2, 3)))
    onnx.export(f, (x, y), tmp_path / "model.onnx")
    differences = onnx.verify(tmp_path / "model.onnx", f, (x, y))
    assert [entry.output for entry in differences if entry.largest] == []


@pytest.mark.parametrize(("weights", "kinds"), [("int8", {"DequantizeLinear"}), ("int4", {"BitwiseAnd", "BitShift"})])
def test_quantized_layers(weights: Any, kinds: set[str], tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    model = Sequential(Linear(64, 16, device=NumPy), Relu(), Linear(16, 4, device=NumPy)).quantized(
        weights, group_size=16
    )
    onnx.export(model, (floats(2, 64),), path, dynamic={"x": {0: "batch"}})
    # onnxruntime rounds the operands of products with int8 to 8 bits
    assert onnx.verify(path, model, (floats(5, 64),))[0].relative < (1e-2 if weights == "int8" else 1e-5)
    assert {node.op_type for node in loaded(path).graph.node} & kinds
    assert onnx.load(path, NumPy)(floats(5, 64)).allclose(model(floats(5, 64)), rtol=1e-4, atol=1e-5)


def refused(error: type[Exception], match: str, model: Any, inputs: Any, tmp_path: Path, **settings: Any) -> None:
    with pytest.raises(error, match=match):
        onnx.export(model, inputs, tmp_path / "model.onnx", **settings)
    assert not any(tmp_path.iterdir())


def test_what_depends_on_values_or_sizes_is_refused_with_its_line(tmp_path: Path) -> None:
    x = (floats(2, 3),)
    batch = {"x": {0: "batch"}}
    refused(RecordingError, "cannot read a tensor's value", lambda x: x if x.sum() > 0 else -x, x, tmp_path)
    refused(
        ExportError,
        "draws random numbers in a loop",
        lambda x: func.scan(lambda c, y: (c.sigmoid().bernoulli(), y), x[0], x),
        x,
        tmp_path,
    )
    refused(ExportError, "svd.*\n.*in <lambda>|svd", lambda x: burnpy.linalg.svdvals(x), x, tmp_path)
    refused(
        ExportError,
        "array of NumPy that differs",
        lambda x: x * Tensor.from_data(np.arange(x.shape[0], dtype=np.float32)[:, None], device=x.device),
        x,
        tmp_path,
        dynamic=batch,
    )
    refused(
        ExportError,
        r"a number is .* compute it with tensors",
        lambda x: x * float(hash(str(x.shape))),
        x,
        tmp_path,
        dynamic=batch,
    )
    refused(
        ExportError,
        r"calls neg\(\) for some sizes",
        lambda x: -x if x.shape[0] == 2 else x.exp(),
        x,
        tmp_path,
        dynamic=batch,
    )
    refused(
        ExportError,
        "for some sizes of its inputs",
        lambda x: sum([x[k] for k in range(x.shape[0])], x[0]),
        x,
        tmp_path,
        dynamic=batch,
    )


MASKED: dict[str, Any] = {
    "elements": lambda x: x[x > 0],
    "rows": lambda x: x[x[:, 0] > 0] * (2 * x)[x[:, 0] > 0],
    "two masks": lambda x: burnpy.cat([x[x[:, 0] > 0], x[x[:, 1] > 0]]).cumsum(0),
    "sums": lambda x: (x[x[:, 0] > 0].sum(0), (x > 0.5).nonzero()),
}


@pytest.mark.parametrize("name", MASKED)
def test_results_of_as_many_elements_as_values_say(name: str, tmp_path: Path) -> None:
    f = MASKED[name]
    onnx.export(lambda x: f(x), (floats(5, 2),), tmp_path / "a.onnx", dynamic={"x": {0: "n"}})
    for x in (floats(5, 2), -floats(9, 2).abs(), floats(1, 2).abs()):
        assert all(each.relative < 1e-5 for each in onnx.verify(tmp_path / "a.onnx", lambda x: f(x), (x,)))
    onnx.export(lambda x: f(x), (floats(5, 2),), tmp_path / "a.onnx")
    onnx.verify(tmp_path / "a.onnx", lambda x: f(x), (-floats(5, 2),))


def test_masks_that_are_taken_for_two_are_named(tmp_path: Path) -> None:
    with pytest.raises(ShapeError, match="do not broadcast") as caught:
        onnx.export(lambda x: x[x > 0] + x[x > 1], (floats(5),), tmp_path / "a.onnx")
    assert caught.value.__notes__ == [
        "export() calls the model with other numbers of elements than those that values choose"
    ]


STEPS: dict[str, Any] = {
    "cumprod": lambda x: x.cumprod(0),
    "cumprod of examples": lambda x: func.vmap(lambda row: row.cumprod(0))(x.T),
    "cummax": lambda x: x.cummax(0),
    "cummin": lambda x: x.cummin(0),
    "logcumsumexp": lambda x: x.logcumsumexp(0),
    "searchsorted": lambda x: burnpy.searchsorted(x[:, 0].sort(0)[0], x, right=True),
    "gradient": func.grad(lambda x: x.cumprod(0).sum()),
}


@pytest.mark.parametrize("name", STEPS)
def test_steps_of_any_number_are_loops(name: str, tmp_path: Path) -> None:
    f = STEPS[name]
    onnx.export(lambda x: f(x), (floats(3, 2),), tmp_path / "a.onnx", dynamic={"x": {0: "n"}})
    for size in (1, 2, 9):
        x = floats(size, 2)
        x = x if name == "gradient" else x.masked_fill(x > 1.5, math.nan)
        assert all(each.relative < 1e-5 for each in onnx.verify(tmp_path / "a.onnx", lambda x: f(x), (x,)))


@pytest.mark.parametrize("reduce", ["prod", "amin", "amax", "mean"])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_any_number_of_updates(reduce: Any, dtype: str, tmp_path: Path) -> None:
    """onnxruntime adds and multiplies no float16."""

    def updated(x: Any, index: Any, src: Any) -> Any:
        places = index.unsqueeze(1).expand(*src.shape)
        return x.scatter_reduce(0, places, src, reduce), x.index_reduce(0, index, src, reduce, include_self=False)

    def given(count: int) -> tuple[Any, ...]:
        index = IntTensor[NumPy].arange(0, count) * 3 % 4
        return floats(4, 2).to_dtype(dtype), index, floats(count, 2).to_dtype(dtype)

    onnx.export(updated, given(5), tmp_path / "a.onnx", dynamic={"index": {0: "n"}, "src": {0: "n"}})
    for count in (1, 9):
        found = onnx.verify(tmp_path / "a.onnx", updated, given(count))
        assert all(each.relative < (1e-5 if dtype == "float32" else 3e-3) for each in found)


def test_convolutions_by_spectra_of_any_length(tmp_path: Path) -> None:
    def convolved(x: Any) -> Any:
        return fft.fftconvolve(x, x, dim=1)

    onnx.export(convolved, (floats(2, 5),), tmp_path / "a.onnx", dynamic={"x": {1: "n"}})
    assert onnx.verify(tmp_path / "a.onnx", convolved, (floats(2, 11),))[0].relative < 1e-5


def test_wrong_arguments(tmp_path: Path) -> None:
    model = MODELS["mlp"][0]
    x = floats(2, 8)
    training: Any = Linear(8, 2, device=Autodiff[NumPy])
    refused(ArgumentError, r"pass model\.valid\(\)", training, (x,), tmp_path)
    refused(KindError, r"write \(x,\) for one input", model, x, tmp_path)
    refused(KindError, "takes tensors as inputs, and x is 3", model, (3,), tmp_path)
    refused(ArgumentError, "did you mean 'x'", model, (x,), tmp_path, dynamic={"xs": {0: "n"}})
    for wrong in ([0], {0: 3}):
        refused(ArgumentError, "expected the names of dimensions", model, (x,), tmp_path, dynamic={"x": wrong})
    refused(ArgumentError, r"write {'x': {0: 'n'}}", model, (x,), tmp_path, dynamic={0: "n"})
    refused(ArgumentError, "names dimension 2 of 'x'", model, (x,), tmp_path, dynamic={"x": {2: "n"}})
    refused(ArgumentError, "for sizes 2 and 8", model, (x,), tmp_path, dynamic={"x": {0: "n", 1: "n"}})
    refused(ArgumentError, "opset=3", model, (x,), tmp_path, opset=3)
    refused(ArgumentError, "opset=99", model, (x,), tmp_path, opset=99)
    refused(ArgumentError, "names 2 outputs, and the model has 1", model, (x,), tmp_path, outputs=("a", "b"))
    for names in (("x",), ("",), ("0.weight",)):
        refused(ArgumentError, "choose another name", model, (x,), tmp_path, outputs=names)
    refused(ArgumentError, "has 'y'", lambda x: (x, -x), (x,), tmp_path, outputs=("y", "y"))
    refused(ExportError, "output is 3", lambda x: 3, (x,), tmp_path)


def test_names_of_outputs_are_those_of_nothing_else(tmp_path: Path) -> None:
    path, x = tmp_path / "model.onnx", floats(2, 3)

    def both(output: Any) -> Any:
        return output.relu().exp(), output.relu()

    for names in ((), ("exp_2", "relu_1"), ("relu_1", "exp_2")):
        onnx.export(both, (x,), path, outputs=names)
        assert all(found.relative < 1e-6 for found in onnx.verify(path, both, (x,)))
    onnx.export(lambda output: -output, (x,), path)
    assert [value.name for value in loaded(path).graph.output] == ["output_out"]


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "onnx", None)
    refused(MissingPackageError, r'pip install "burnpy\[onnx\]"', MODELS["mlp"][0], (floats(2, 8),), tmp_path)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingPackageError, match=r"pip install onnxruntime$"):  # which no extra of burnpy has
        onnx.verify(tmp_path / "model.onnx", MODELS["mlp"][0], (floats(2, 8),))


def test_dropout_is_absent_from_a_model_for_inference(tmp_path: Path) -> None:
    model: Any = Sequential(Linear(8, 8, device=Autodiff[NumPy]), Dropout(0.5), Relu()).valid()
    onnx.export(model, (floats(2, 8),), tmp_path / "model.onnx")
    assert [node.op_type for node in loaded(tmp_path / "model.onnx").graph.node] == ["MatMul", "Add", "Relu"]


@pytest.mark.parametrize("shape", [(2, 1, 1, 6), (2, 3, 1, 6), (1, 1, 5, 6), (1, 6), (6,)])
def test_masks_that_broadcast(shape: tuple[int, ...], tmp_path: Path) -> None:
    """Runtimes broadcast a mask's leading dimensions alone."""

    def attend(q: Any, k: Any, v: Any, mask: Any) -> Any:
        return burnpy.nn.functional.scaled_dot_product_attention(q, k, v, mask)

    mask = BoolTensor.from_data(np.random.default_rng(0).random(shape) > 0.3, device=NumPy)
    inputs = (floats(2, 3, 5, 4), floats(2, 3, 6, 4), floats(2, 3, 6, 4), mask)
    onnx.export(attend, inputs, tmp_path / "model.onnx", dynamic={"v": {3: "f"}})
    assert all(x.relative < 1e-5 for x in onnx.verify(tmp_path / "model.onnx", attend, inputs))


def test_what_has_no_elements(tmp_path: Path) -> None:
    """Runtimes refuse some of these operators, and return 0 as a mean of no elements."""
    import onnxruntime

    def of_nothing(x: Any, q: Any) -> Any:
        attend, none = burnpy.nn.functional.scaled_dot_product_attention, q[:, :, :0]
        normed = burnpy.nn.functional.layer_norm(x, (0,))
        gathered = x.gather(1, x.argsort(1)).sum(1)
        return x.sin().mean(1), x.topk(0), attend(none, q, q).sum(), attend(q, none, none), normed, gathered

    inputs = (floats(2, 0), floats(2, 3, 5, 4))
    onnx.export(of_nothing, inputs, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
    given = {"x": inputs[0].to_numpy(), "q": inputs[1].to_numpy()}
    found = session.run(None, {each.name: given[each.name] for each in session.get_inputs()})
    nothing = np.zeros((2, 0))
    expected = [np.full(2, np.nan), nothing, nothing, 0.0, np.zeros((2, 3, 5, 4)), nothing, np.zeros(2)]
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_array_equal(x, y)


def test_what_a_function_captures(tmp_path: Path) -> None:
    """Modules, tensors and those of helpers are initializers, whose slices may vary with a length."""
    table, layer = floats(20, 4), Linear(4, 3, device=NumPy)

    def places(x: Any) -> Any:
        return table[: x.shape[1]]

    def model(table: Any) -> Any:
        return layer(table + places(table))

    path = tmp_path / "model.onnx"
    for size in (5, 9):
        onnx.export(model, (floats(2, 5, 4),), path, dynamic={"table": {1: "length"}})
        assert onnx.verify(path, model, (floats(2, size, 4),))[0].relative < 1e-6
    loaded = onnx.load(path, NumPy)
    assert [*loaded.named_params()] == ["weights.layer.weight", "weights.layer.bias"]
    assert [*loaded.named_buffers()] == ["weights.places.table"]
    tracked = Linear(4, 3, device=Autodiff[NumPy])
    with pytest.raises(ArgumentError, match=r"a model on Autodiff\[NumPy\], which records gradients"):
        onnx.export(lambda x: tracked(x), (floats(2, 4),), path)


class Table:
    """An object that holds a tensor and a module."""

    def __init__(self) -> None:
        self.table, self.layer = floats(20, 4), Linear(4, 3, device=NumPy)

    def __call__(self, x: Any) -> Any:
        return self.layer(x + self.table[: x.shape[1]])

    def apply(self, x: Any) -> Any:
        return self(x)


def test_where_a_function_has_what_it_captures(tmp_path: Path) -> None:
    """Partial functions, objects and their methods, defaults, and compiled functions hold tensors as closures do."""
    model, held, path = Table(), floats(20, 4), tmp_path / "model.onnx"

    def default(x: Any, table: Any = held) -> Any:
        return x + table[: x.shape[1]]

    forms: dict[str, Any] = {
        "args_0": partial(lambda table, x: x + table[: x.shape[1]], held),
        "table": default,
        "self.table": model.apply,
        "model.table": burnpy.compiled(lambda x: model(x)),
    }
    for name, form in forms.items():
        onnx.export(form, (floats(2, 5, 4),), path, dynamic={"x": {1: "length"}})
        assert onnx.verify(path, form, (floats(2, 9, 4),))[0].relative < 1e-6
        assert name in {tensor.name for tensor in loaded(path).graph.initializer}
    onnx.export(burnpy.compiled(model.layer), (floats(2, 4),), path)
    assert [*onnx.load(path, NumPy).named_params()] == ["weights.weight", "weights.bias"]


class Odd(Module[B]):
    """A layer whose author does not say self."""

    def __init__(self, device: B | type[B]) -> None:
        self.layer = Linear(4, 3, device=device)

    def forward(this, x: Tensor[B]) -> Tensor[B]:  # noqa: N805
        return this.layer(x)


def test_inputs_are_named_by_the_parameters_after_the_first(tmp_path: Path) -> None:
    onnx.export(Odd(NumPy), (floats(2, 4),), tmp_path / "model.onnx")
    assert onnx.load(tmp_path / "model.onnx", NumPy).graph.inputs == ("x",)


def test_verify_names_the_node_that_cannot_run(tmp_path: Path) -> None:
    import onnx as package

    helper, path = package.helper, tmp_path / "model.onnx"
    infos = [helper.make_tensor_value_info(name, 1, None) for name in ("x", "y", "z")]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "y"], ["z"], name="product")], "graph", infos[:2], infos[2:]
    )
    package.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    with pytest.raises(ExportError, match=r"cannot run .*model.onnx at the node 'product' \(MatMul\): "):
        onnx.verify(path, lambda x, y: x, (floats(2, 3), floats(2, 3)))


def test_sizes_of_results_that_are_halved_and_rounded_up(tmp_path: Path) -> None:
    """The flattened size follows from the convolution's result, not from sizes that all recordings halve exactly."""
    convolution, path = Conv2d(3, 4, 3, stride=2, padding=1, device=NumPy), tmp_path / "a.onnx"

    def flattened(x: Tensor[NumPy]) -> Any:
        return convolution(x).reshape(x.shape[0], -1)

    onnx.export(flattened, (floats(2, 3, 8, 6),), path, dynamic={"x": {0: "n", 2: "h", 3: "w"}})
    for shape in ((1, 3, 5, 5), (3, 3, 1, 7)):
        assert onnx.verify(path, flattened, (floats(*shape),))[0].relative < 1e-5


def halves(x: Any) -> Any:
    return functional.interpolate(x, size=((x.shape[2] + 1) // 2, x.shape[3] // 3), mode="bilinear")


def of_multiples(x: Any) -> Any:
    """Pad an image to a multiple of 8, and cut the result."""
    height, width = x.shape[2:]
    whole = functional.pad(x, (0, -width % 8, 0, -height % 8), mode="replicate")
    return (whole + functional.pad(x, (0, -width % 8, 0, -height % 8)))[:, :, :height, :width]


TABLE = floats(1, 3, 8, 8)


def moved(x: Any) -> Any:
    """Roll an image, and add positions, which are those of the table for images of its size."""
    return x.roll(3, 2) + functional.interpolate(TABLE, size=x.shape[2:], mode="bicubic")


WINDOWS = Conv2d(3, 3, 3, stride=2, padding=1, device=NumPy), Conv2d(3, 3, 2, stride=2, device=NumPy)


def skips(x: Any) -> Any:
    """Halve an image, rounded up and down, and add the results at both sizes."""
    up, down = WINDOWS[0](x), WINDOWS[1](x)
    less = functional.interpolate(up, size=down.shape[2:], mode="bilinear") + down
    return functional.interpolate(less, size=up.shape[2:], mode="bilinear", align_corners=True) * up


def pooled(x: Any) -> Any:
    """Pool with windows beyond the ends."""
    largest = functional.max_pool2d(x, 3, stride=2, padding=1, ceil_mode=True)
    means = [functional.avg_pool2d(x, 3, stride=2, ceil_mode=True, count_include_pad=k) for k in (False, True)]
    return largest.mean(dim=3), *means


@pytest.mark.parametrize("model", [halves, of_multiples, moved, skips, pooled])
@pytest.mark.parametrize("size", [(8, 8), (9, 16)])
def test_sizes_that_are_equal_for_some_images_alone(model: Any, size: tuple[int, int], tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.export(model, (floats(2, 3, *size),), path, dynamic={"x": {0: "n", 2: "h", 3: "w"}})
    for shape in ((2, 3, 8, 8), (1, 3, 16, 9), (3, 3, 7, 5), (1, 3, 4, 31), (2, 3, 90, 45)):
        for found in onnx.verify(path, model, (floats(*shape),)):
            assert found.relative < 1e-5, (shape, found)


def test_a_size_that_is_always_a_multiple(tmp_path: Path) -> None:
    """A branch for other sizes is refused, unless the dimension says that there are none."""
    path = tmp_path / "model.onnx"

    def model(x: Any) -> Any:
        return x * 2.0 if x.shape[1] % 4 == 0 else x.exp()

    refused(ArgumentError, "use a multiple", model, (floats(2, 6),), tmp_path, dynamic={"x": {1: "4*n"}})
    refused(ExportError, r'calls mul\(\) for some .*n = 8.* exp\(\) .*"32\*height"', model, (floats(2, 8),), tmp_path,
            dynamic={"x": {1: "n"}})  # fmt: skip
    onnx.export(model, (floats(2, 8),), path, dynamic={"x": {1: "4*n"}})
    assert onnx.verify(path, model, (floats(2, 20),))[0].largest == 0
    dims = loaded(path).graph.output[0].type.tensor_type.shape.dim
    assert dims[1].dim_param == "4*n"


def test_sizes_follow_from_others_or_no_expression_is_found() -> None:
    sizes = tuple(range(20, 45))

    def found(f: Callable[[int], int], known: tuple[int, ...] = sizes) -> Any:
        return expression_of(tuple([f(n) for n in known]), [known])

    def value(e: Any, n: int) -> int:
        if e.modulo:
            return int(e.offset % n)
        whole = n * e.numerator + e.offset
        return int(e.scale * (whole % e.denominator if e.remainder else whole // e.denominator) + e.shift)

    rounded: tuple[Callable[[int], int], ...] = (
        *(lambda n: n // 2, lambda n: -(-n // 3), lambda n: 4 * (n // 4), lambda n: -n % 8, lambda n: n % 5),
        *(lambda n: 3 * n + 1, lambda n: -(-n // 8) * 8 + 2, lambda n: 25 % n),
    )
    for f in rounded:
        assert [value(found(f), n) for n in range(1, 100)] == [f(n) for n in range(1, 100)]
    cyclic = found(lambda n: -3 % n, (20, 2, 30, 10))
    assert [value(cyclic, n) for n in range(1, 9)] == [-3 % n for n in range(1, 9)]
    assert found(lambda n: min(n, 30)) is None
    assert found(lambda n: -n % 32, (93, 94, 95, 96, 192)) is None  # it may be a remainder by 96 as well


def test_a_size_that_is_a_sum_of_others(tmp_path: Path) -> None:
    """As the mask of a transformer with cached keys and values, which are none before the first step."""

    def attend(x: Tensor[NumPy], past: Tensor[NumPy], mask: IntTensor[NumPy]) -> Any:
        keys = burnpy.cat([past, x], dim=2)
        places = IntTensor.arange(0, keys.shape[2], device=x.device)
        allowed = (places <= places[past.shape[2] :].unsqueeze(1)) & mask.bool().unsqueeze(1).unsqueeze(1)
        return functional.scaled_dot_product_attention(x, keys, keys, allowed), keys

    def inputs(n: int, length: int, past: int) -> tuple[Any, ...]:
        return floats(n, 2, length, 4), floats(n, 2, past, 4), IntTensor.ones((n, past + length), device=NumPy)

    dynamic: Any = {name: {0: "n", 2: size} for name, size in (("x", "length"), ("past", "past"))}
    for size, message in (
        ("past + all", "no dimension is 'all' alone"),
        ("2*past + length", "the other inputs have 13"),
    ):
        dynamic["mask"] = {0: "n", 1: size}
        refused(ArgumentError, message, attend, inputs(2, 3, 5), tmp_path, dynamic=dynamic)
    dynamic["mask"] = {0: "n", 1: "past + length"}
    onnx.export(attend, inputs(2, 3, 5), tmp_path / "a.onnx", dynamic=dynamic)
    for sizes in ((2, 3, 5), (1, 1, 9), (3, 4, 2), (1, 6, 0)):
        assert all(found.largest < 1e-6 for found in onnx.verify(tmp_path / "a.onnx", attend, inputs(*sizes)))
    keys = loaded(tmp_path / "a.onnx").graph.output[1].type.tensor_type.shape.dim
    assert [d.dim_param or d.dim_value for d in keys] == ["n", 2, "past + length", 4]


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_spectra_of_any_length_and_their_products(norm: Any, tmp_path: Path) -> None:
    def model(x: Tensor[NumPy]) -> Any:
        z, whole = fft.rfft(x, norm=norm), fft.fft2(x, norm=norm)
        products = z * z * 2.0 + z * 1j - z / 4.0, whole @ whole.mT
        again = fft.irfft(products[0], n=x.shape[-1], norm=norm), fft.ifft2(products[1], norm=norm).real
        return again, z.abs(), whole.imag

    onnx.export(model, (floats(2, 4, 8),), tmp_path / "a.onnx", dynamic={"x": {0: "n", 1: "high", 2: "wide"}})
    for shape in ((2, 4, 8), (1, 3, 9), (3, 7, 12)):
        assert all(found.relative < 1e-5 for found in onnx.verify(tmp_path / "a.onnx", model, (floats(*shape),)))


def test_lines_and_grids_of_all_sizes(tmp_path: Path) -> None:
    def model(x: Tensor[NumPy], theta: Tensor[NumPy]) -> Any:
        n, _, high, wide = x.shape
        line = Tensor.linspace(-1.0, wide - 1.0, wide, device=x.device), Tensor.linspace(2.0, 5.0, n, device=x.device)
        unit = Tensor.eye(high, wide, device=x.device), IntTensor.eye(n, device=x.device)
        grids = [functional.affine_grid(theta, x.shape, align_corners=corners) for corners in (False, True)]
        images = [functional.grid_sample(x, grids[1], align_corners=corners) for corners in (False, True)]
        return line, unit, grids, images

    def inputs(*shape: int) -> tuple[Any, ...]:
        return floats(*shape), floats(shape[0], 2, 3)

    dynamic = {"x": {0: "batch", 2: "height", 3: "width"}, "theta": {0: "batch"}}
    onnx.export(model, inputs(2, 3, 5, 7), tmp_path / "a.onnx", dynamic=dynamic)
    for shape in ((2, 3, 5, 7), (1, 3, 9, 2), (3, 3, 2, 11)):
        assert all(found.largest < 1e-5 for found in onnx.verify(tmp_path / "a.onnx", model, inputs(*shape)))


def test_positions_beyond_those_of_the_recordings(tmp_path: Path) -> None:
    """Tables of positions have room for 64; a file computes those of all lengths."""
    model = Causal(NumPy)
    onnx.export(model, (floats(2, 5, 16),), tmp_path / "model.onnx", dynamic={"x": {1: "length"}})
    for length in (2, 63, 65, 300):
        assert onnx.verify(tmp_path / "model.onnx", model, (floats(2, length, 16),))[0].relative < 5e-6


def test_bfloat16_where_operators_lack_it(tmp_path: Path) -> None:
    def ordered(x: Any) -> Any:
        return (*x.topk(2), *x.sort(dim=0))

    x = floats(5, 4).to_dtype("bfloat16")
    onnx.export(ordered, (x,), tmp_path / "model.onnx", dynamic={"x": {0: "n"}})
    found = onnx.load(tmp_path / "model.onnx", NumPy)(x)
    for one, two in zip(found, ordered(x), strict=True):
        assert one.dtype == two.dtype
        np.testing.assert_array_equal(one.to_numpy(), two.to_numpy())


def test_an_error_of_the_model_with_its_example_is_raised_as_it_is(tmp_path: Path) -> None:
    dynamic = {"x": {0: "n"}}
    refused(ShapeError, "reshape", lambda x: x.reshape(7, 7), (floats(2, 3),), tmp_path, dynamic=dynamic)
    other = "calls the model with other sizes of n, which failed"
    refused(ExportError, other, lambda x: x.reshape(2, 3), (floats(2, 3),), tmp_path, dynamic=dynamic)
