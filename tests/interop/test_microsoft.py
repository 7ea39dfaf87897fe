"""Operators of the domain com.microsoft: each gives what onnxruntime gives, called and compiled."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy.backend import NumPy
from burnpy.backend.errors import LoadingError
from burnpy.interop import onnx
from burnpy.interop.onnx.operators.table import tensor
from tests.interop.test_load import package

pytestmark = [pytest.mark.heavy("onnx", "onnxruntime")]

rng = np.random.default_rng(0)


def f(*shape: int) -> Any:
    return rng.normal(size=shape).astype(np.float32)


def u(*shape: int) -> Any:
    return rng.integers(0, 255, shape).astype(np.uint8)


def i(values: Any) -> Any:
    return np.asarray(values, np.int32)


def scale(value: float = 0.05) -> Any:
    return np.float32(value)


ZERO, HALF = np.uint8(0), np.uint8(120)
X, IDS = f(2, 6, 8), i(rng.integers(0, 9, (2, 6)))
RAW = i([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]])
EMBED = (IDS, i(rng.integers(0, 2, (2, 6))), f(9, 8), f(6, 8), f(2, 8), f(8), f(8))
PACKED = {"num_heads": 2}
GROUPS, PAST, QKV = {"num_heads": 2, "kv_num_heads": 1}, f(1, 1, 5, 16), (f(2, 6, 32), f(2, 6, 16), f(2, 6, 16))

CASES: dict[str, tuple[str, list[Any], dict[str, Any], int]] = {  # operator, inputs, attributes, outputs
    "gelu": ("Gelu", [X], {}, 1),
    "fast gelu": ("FastGelu", [X, f(8)], {}, 1),
    "bias gelu": ("BiasGelu", [X, f(8)], {}, 1),
    "quick gelu": ("QuickGelu", [X], {"alpha": 1.5}, 1),
    "matmul": ("FusedMatMul", [f(2, 4, 3), f(2, 5, 4)], {"transA": 1, "transB": 1, "alpha": 0.5}, 1),
    "matmul of batches": ("FusedMatMul", [f(4, 2, 3), f(2, 3, 5)], {"transBatchA": 1}, 1),
    "conv": ("FusedConv", [f(2, 3, 7, 7), f(4, 3, 3, 3), f(4)], {"activation": "Relu", "pads": [1, 1, 1, 1]}, 1),
    "conv, sum": ("FusedConv", [f(1, 3, 5, 5), f(4, 3, 3, 3), f(4), f(1, 4, 3, 3)], {"activation": "Relu"}, 1),
    "conv, clip": ("FusedConv", [f(1, 3, 5, 5), f(4, 3, 3, 3)],
                   {"activation": "Clip", "activation_params": [-0.5, 0.5]}, 1),
    "gemm": ("FusedGemm", [f(2, 3), f(4, 3), f(4)],
             {"transB": 1, "alpha": 0.5, "activation": "LeakyRelu", "activation_alpha": 0.3}, 1),
    "skip layer norm": ("SkipLayerNormalization", [X, f(2, 6, 8), f(8), f(8), f(8)], {"epsilon": 1e-5}, 1),
    "skip rms norm": ("SkipSimplifiedLayerNormalization", [X, f(2, 6, 8), f(8)], {"epsilon": 1e-5}, 1),
    "skip rms norm, sum": ("SkipSimplifiedLayerNormalization", [X, f(2, 6, 8), f(8)], {}, -4),
    "embeddings": ("EmbedLayerNormalization", [*EMBED], {}, 2),
    "embeddings, mask": ("EmbedLayerNormalization", [*EMBED, RAW], {"epsilon": 1e-5}, 3),
    "embeddings without segments": ("EmbedLayerNormalization", [IDS, None, *EMBED[2:4], None, *EMBED[5:]], {}, 2),
    "attention": ("Attention", [X, f(8, 24), f(24)], PACKED, 1),
    "attention, lengths": ("Attention", [X, f(8, 24), f(24), i([4, 6])], PACKED, 1),
    "attention, ends": ("Attention", [X, f(8, 24), f(24), i([4, 6, 1, 0])], PACKED, 1),
    "attention, raw mask": ("Attention", [X, f(8, 24), f(24), RAW], PACKED, 1),
    "attention, mask of pairs": ("Attention", [X, f(8, 24), f(24), np.stack([RAW] * 6, 1)], PACKED, 1),
    "attention, past": ("Attention", [X, f(8, 24), f(24), None, f(2, 2, 2, 3, 4)], PACKED | {"unidirectional": 1}, 2),
    "attention, sizes": ("Attention", [X, f(8, 20), f(20), None, None, f(2, 2, 6, 6)],
                         PACKED | {"qkv_hidden_sizes": [8, 8, 4], "scale": 0.3}, 1),
    "heads": ("MultiHeadAttention", [X, f(2, 5, 8), f(2, 5, 8), f(24)], PACKED, 1),
    "heads, mask": ("MultiHeadAttention", [X, f(2, 5, 8), f(2, 5, 8), None, RAW[:, :5]], PACKED, 1),
    "heads, bias": ("MultiHeadAttention", [X, f(2, 5, 8), f(2, 5, 8), None, None, f(1, 2, 6, 5)], PACKED, 1),
    "heads of keys": ("MultiHeadAttention", [X, f(2, 2, 5, 4), f(2, 2, 5, 4)], PACKED, 1),
    "heads, past": ("MultiHeadAttention", [X, X, X, None, None, None, f(2, 2, 3, 4), f(2, 2, 3, 4)],
                    PACKED | {"unidirectional": 1}, 3),
    "groups, first": ("GroupQueryAttention", [*QKV, None, None, i([5, 5]), 6], GROUPS, 3),
    "groups, packed, lengths, rotary": ("GroupQueryAttention", [f(2, 6, 64), None, None, None, None, i([3, 5]), 6,
                                        f(12, 8), f(12, 8)], GROUPS | {"do_rotary": 1}, 3),
    "groups, past": ("GroupQueryAttention", [f(1, 2, 32), f(1, 2, 16), f(1, 2, 16), PAST, PAST, i([6]), 7],
                     GROUPS | {"scale": 0.3}, 3),
    "groups, room": ("GroupQueryAttention", [f(2, 1, 32), f(2, 1, 16), f(2, 1, 16), f(2, 1, 9, 16), f(2, 1, 9, 16),
                     i([6, 3]), 7, f(12, 8), f(12, 8)],
                     GROUPS | {"do_rotary": 1, "rotary_interleaved": 1, "softcap": 2.0}, 3),
    "groups, window": ("GroupQueryAttention", [*QKV, None, None, i([5, 5]), 6], GROUPS | {"local_window_size": 3}, 3),
    "groups, bias": ("GroupQueryAttention", [*QKV, None, None, i([5, 5]), 6, None, None, None, f(1, 2, 6, 6)],
                     GROUPS, 1),
    "groups, sinks": ("GroupQueryAttention", [*QKV, None, None, i([5, 5]), 6, None, None, None, None, f(2)], GROUPS, 1),
    "groups, smooth": ("GroupQueryAttention", [*QKV, None, None, i([5, 5]), 6],
                       GROUPS | {"smooth_softmax": 1, "local_window_size": 2}, 1),
    "rotary": ("RotaryEmbedding", [f(2, 6, 16), np.array([3]), f(12, 4), f(12, 4)], {}, 1),
    "rotary, heads": ("RotaryEmbedding", [f(2, 2, 6, 8), rng.integers(0, 12, (2, 6)), f(12, 4), f(12, 4)],
                      {"interleaved": 1}, 1),
    "quantize": ("QuantizeLinear", [X, scale(), HALF], {}, 1),
    "dequantize": ("DequantizeLinear", [u(3, 4), scale(), HALF], {}, 1),
    "qadd": ("QLinearAdd", [u(3, 4), scale(), HALF, u(4), scale(0.02), ZERO, scale(0.1), HALF], {}, 1),
    "qmul": ("QLinearMul", [u(3, 4), scale(), HALF, u(3, 4), scale(0.02), ZERO, scale(0.1), HALF], {}, 1),
    "qsigmoid": ("QLinearSigmoid", [u(3, 4), scale(), HALF, scale(1 / 256), ZERO], {}, 1),
    "qleaky": ("QLinearLeakyRelu", [u(3, 4), scale(), HALF, scale(), HALF], {"alpha": 0.2}, 1),
    "qsoftmax": ("QLinearSoftmax", [u(3, 4), scale(), HALF, scale(1 / 256), ZERO], {"opset": 13, "axis": -1}, 1),
    "qmean": ("QLinearGlobalAveragePool", [u(2, 3, 5, 5), scale(), HALF, scale(), HALF], {}, 1),
    "qmean, channels last": ("QLinearGlobalAveragePool", [u(2, 5, 5, 3), scale(), HALF, scale(), HALF],
                             {"channels_last": 1}, 1),
    "qpool": ("QLinearAveragePool", [u(2, 3, 6, 6), scale(), HALF, scale(), HALF],
              {"kernel_shape": [2, 2], "strides": [2, 2]}, 1),
    "qcat": ("QLinearConcat", [scale(0.1), HALF, u(2, 3), scale(), ZERO, u(2, 4), scale(0.2), HALF], {"axis": 1}, 1),
    "to float": ("MatMulIntegerToFloat", [u(3, 4), u(4, 5), scale(), f(5), HALF, u(5), f(5)], {}, 1),
    "dynamic": ("DynamicQuantizeMatMul", [f(3, 4), u(4, 5), scale(), HALF, f(5)], {}, 1),
    "qgemm": ("QGemm", [u(3, 4), scale(), HALF, u(5, 4), scale(0.02), HALF, i([1, 2, 3, 4, 5]), scale(0.5), HALF],
              {"transB": 1}, 1),
    "qgemm to float": ("QGemm", [u(3, 4), scale(), HALF, u(4, 5), scale(0.02), HALF], {}, 1),
    "qattention": ("QAttention", [u(2, 6, 8), u(8, 24), f(24), scale(), scale(0.01), i([4, 6]), HALF, HALF],
                   PACKED, 1),
    "qlstm": ("DynamicQuantizeLSTM", [f(5, 2, 4), u(1, 4, 32), u(1, 8, 32), f(1, 64), None, None, None, None,
              scale(0.01).reshape(1), HALF.reshape(1), scale(0.01).reshape(1), HALF.reshape(1)], {"hidden_size": 8}, 2),
    "qlstm both ways": ("DynamicQuantizeLSTM", [f(4, 1, 4), u(2, 4, 32).view(np.int8), u(2, 8, 32).view(np.int8),
                        f(2, 64), i([3]), None, None, None, *[f(2) ** 2 / 99, np.zeros(2, np.int8)] * 2],
                        {"hidden_size": 8, "direction": "bidirectional"}, 3),
    "4 bits": ("MatMulNBits", [f(3, 40), u(5, 3, 8), f(5, 3)], {"K": 40, "N": 5, "bits": 4, "block_size": 16}, 1),
    "4 bits, zeros": ("MatMulNBits", [f(2, 3, 32), u(5, 2, 8), f(5, 2), u(5, 1)],
                      {"K": 32, "N": 5, "bits": 4, "block_size": 16}, 1),
}  # fmt: skip


def written(path: Path, name: str) -> tuple[Path, dict[str, Any], list[str]]:
    """Write a file of one node; of a negative number of outputs, only the first and the last are read.

    An int among the inputs is a size that the file has.
    """
    helper = package().helper
    kind, given, attributes, count = CASES[name]
    feed = {f"x{k}": np.asarray(x) for k, x in enumerate(given) if x is not None and not isinstance(x, int)}
    sizes = [helper.make_tensor(f"x{k}", 6, [1], [x]) for k, x in enumerate(given) if isinstance(x, int)]
    outputs = [f"y{k}" if count > 0 or k + 1 == -count else "" for k in range(abs(count))]
    if count < 0:
        outputs[0] = "y0"
    inputs = ["" if x is None else f"x{k}" for k, x in enumerate(given)]
    node = helper.make_node(kind, inputs, outputs, domain="com.microsoft", **attributes)
    kinds = helper.np_dtype_to_tensor_dtype
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info(name, kinds(x.dtype), x.shape) for name, x in feed.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs if name],
        sizes,
    )
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    package().save(helper.make_model(graph, opset_imports=imports, ir_version=10), path)
    return path, feed, outputs


@pytest.mark.parametrize("name", CASES)
def test_an_operator(tmp_path: Path, name: str) -> None:
    import onnxruntime

    path, feed, _ = written(tmp_path / "a.onnx", name)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1  # several threads would each round rows of a state by the range of these
    expected = onnxruntime.InferenceSession(path, settings, ["CPUExecutionProvider"]).run(None, feed)
    model = onnx.load(path, NumPy)
    for call in (model, burnpy.compiled(model)):
        results: Any = call(*map(tensor, feed.values()))
        for found, value in zip(results if isinstance(results, tuple) else (results,), expected, strict=True):
            assert (found.dtype, found.shape) == (value.dtype, value.shape)
            rough = 2e-5 if value.dtype.kind == "f" else 1
            np.testing.assert_allclose(found.to_numpy(), value, rtol=1e-4, atol=rough)


def test_operators_that_are_not_read_are_named(tmp_path: Path) -> None:
    helper = package().helper
    node = helper.make_node("BeamSearch", ["x"], ["y"], domain="com.microsoft")
    value = [helper.make_tensor_value_info(name, 1, [2]) for name in ("x", "y")]
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    package().save(helper.make_model(helper.make_graph([node], "g", value[:1], value[1:]), opset_imports=imports),
                   tmp_path / "a.onnx")  # fmt: skip
    with pytest.raises(LoadingError, match=r"the operator BeamSearch \(y\) of the domain com.microsoft is unknown"):
        onnx.load(tmp_path / "a.onnx", NumPy)


def of_blocks(path: Path, layers: list[dict[str, Any]], settings: dict[str, int]) -> None:
    """Write a file of MatMulNBits nodes, each with its arrays, one after the other."""
    helper, nodes, held = package().helper, [], []
    for k, arrays in enumerate(layers):
        held += [package().numpy_helper.from_array(array, f"{name}{k}") for name, array in arrays.items()]
        given, result = [f"y{k - 1}" if k else "x", *[f"{name}{k}" for name in arrays]], f"y{k}"
        nodes.append(helper.make_node("MatMulNBits", given, [result], domain="com.microsoft", **settings))
    sizes = (("x", settings["K"]), (result, settings["N"]))
    ends = [helper.make_tensor_value_info(name, 1, ["n", count]) for name, count in sizes]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], initializer=held)
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    package().save(helper.make_model(graph, opset_imports=imports, ir_version=9), path)


def test_loading_ints_takes_little_memory_beside_them(tmp_path: Path) -> None:
    """The bytes of the file are gone as soon as a matrix is made of them."""
    layers = [{"w": u(512, 16, 16), "s": f(512, 16)} for _ in range(32)]
    path = tmp_path / "a.onnx"
    of_blocks(path, layers, {"K": 512, "N": 512, "bits": 4, "block_size": 32})
    onnx.load(path, NumPy)  # imports
    gc.collect()
    tracemalloc.start()
    model = onnx.load(path, NumPy)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(model.graph.nodes) == len(layers)
    assert held < 1.1 * path.stat().st_size
    assert peak < 1.5 * path.stat().st_size


@pytest.mark.parametrize(("bits", "size", "zeros"), [(4, 16, False), (4, 32, True), (8, 16, True), (2, 32, False)])
def test_ints_of_few_bits_stay_ints(tmp_path: Path, bits: int, size: int, zeros: bool) -> None:
    """In plans, where they are 4-bit ints in the memory of the kernels; the last block may be incomplete."""
    import onnxruntime

    inputs, outputs, blocks = 200, 48, -(-200 // size)
    arrays = {"w": u(outputs, blocks, size * bits // 8), "s": f(outputs, blocks)}
    arrays |= {"z": u(outputs, -(-blocks * bits // 8))} if zeros else {}
    of_blocks(tmp_path / "a.onnx", [arrays], {"K": inputs, "N": outputs, "bits": bits, "block_size": size})
    session = onnxruntime.InferenceSession(tmp_path / "a.onnx", providers=["CPUExecutionProvider"])
    model = onnx.load(tmp_path / "a.onnx", NumPy)
    step = burnpy.compiled(model)
    for x in (f(1, inputs), f(20, inputs)):
        (expected,) = session.run(None, {"x": x})
        for out in (model(tensor(x)), step(tensor(x))):
            np.testing.assert_allclose(out.to_numpy(), expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())
        assert "quantized_matmul" in [part.name for part in step.explain(tensor(x)).operations]
    largest = max(value.numel() for value in model.graph.constants.values() if value.dtype.itemsize == 1)
    assert largest == outputs * blocks * size // (1 if bits == 8 else 2)
