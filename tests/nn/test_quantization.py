"""Quantized weights: values, gradients, selection of layers, files, and mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, IntTensor, Tensor, compiled, nn, record
from burnpy.backend import NumPy
from burnpy.errors import ArgumentError, DTypeError, KindError, ShapeError, StateError
from burnpy.func import vmap
from burnpy.nn import functional
from tests.rows import every_row

Train = Autodiff[NumPy]


def network(device: Any = NumPy) -> Any:
    return nn.Sequential(nn.Linear(64, 48, device=device), nn.Relu(), nn.Linear(48, 10, bias=False, device=device))


def drawn(*shape: int, device: Any = NumPy, dtype: str = "float32") -> Any:
    return Tensor.from_data(np.random.default_rng(0).normal(size=shape), dtype=dtype, device=device)


SETTINGS: list[tuple[Any, int | None, int]] = [
    ("int8", None, 127),
    ("int8", 16, 127),
    ("int4", None, 7),
    ("int4", 8, 7),
]


@every_row("dtype, group_size, limit", SETTINGS)
def test_an_element_is_at_most_half_a_scale_away(dtype: Any, group_size: int | None, limit: int) -> None:
    weight = drawn(64, 5).at[:, 0].set(0.0)
    ints, scale = functional.quantize(weight, dtype, group_size=group_size)
    size = 64 // scale.shape[1]
    largest = np.abs(weight.to_numpy().T.reshape(5, -1, size)).max(-1)
    np.testing.assert_allclose(scale.to_numpy()[1:], largest[1:] / limit, rtol=1e-6)
    error = np.abs(functional.dequantize(ints, scale).to_numpy() - weight.to_numpy()).T.reshape(5, -1, size)
    assert np.all(error <= scale.to_numpy()[:, :, None] * 0.5001)
    assert not error[0].any()
    assert ints.to_numpy().nbytes * (8 if dtype == "int4" else 4) == weight.to_numpy().nbytes


@every_row("scale", [1e-4, 1e-5, 1e-6, 1e-7])
@every_row("dtype, limit", [("int8", 127), ("int4", 7)])
def test_tiny_numbers_of_float16_have_a_scale_that_fits_the_largest(scale: float, dtype: Any, limit: int) -> None:
    weight = (drawn(64, 8) * scale).to_dtype("float16")
    ints, scales = functional.quantize(weight, dtype)
    size = 64 // scales.shape[1]
    exact, found = (x.to_dtype("float64").to_numpy() for x in (weight, functional.dequantize(ints, scales)))
    error = np.abs(found - exact).T.reshape(8, -1, size)
    assert (scales.to_numpy() > 0).all()
    assert np.all(error <= scales.to_dtype("float64").to_numpy()[:, :, None] * 0.501 + 6e-8)


@every_row("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_the_product_is_that_of_the_dequantized_weight(dtype: str) -> None:
    x, weight, bias = drawn(3, 64, dtype=dtype), drawn(64, 5, dtype=dtype), drawn(5, dtype=dtype)
    ints, scale = functional.quantize(weight, "int4")
    out = functional.quantized_linear(x, ints, scale, bias)
    exact = functional.linear(*(y.to_dtype("float64") for y in (x, functional.dequantize(ints, scale), bias)))
    assert out.dtype.name == dtype
    close = {"float32": 1e-5, "float64": 1e-12, "float16": 1e-2, "bfloat16": 1e-1}[dtype]
    np.testing.assert_allclose(out.to_dtype("float64").to_numpy(), exact.to_numpy(), rtol=close, atol=close)


@every_row("batched", ["x", "y", "both"])
def test_products_of_ints_are_exact_in_batches_and_plans(batched: str) -> None:
    rng = np.random.default_rng(1)
    x = rng.integers(-128, 128, (3, 20, 40)).astype(np.int8)
    y = rng.integers(0, 256, (3, 40, 50)).astype(np.uint8)
    a, b = (IntTensor[NumPy].from_data(v if batched in (name, "both") else v[0]) for name, v in (("x", x), ("y", y)))
    wanted = np.matmul(a.to_numpy(), b.to_numpy(), dtype=np.int32)
    dims = tuple(0 if part.ndim == 3 else None for part in (a, b))
    step = compiled(functional.integer_matmul)
    for _ in range(3):
        for found in (functional.integer_matmul(a, b), vmap(functional.integer_matmul, in_dims=dims)(a, b), step(a, b)):
            assert found.dtype.name == "int32"
            np.testing.assert_array_equal(found.to_numpy(), wanted)


def test_gradients_pass_through_and_leave_the_ints() -> None:
    model = network(Train).quantized("int4", group_size=16)
    x = drawn(3, 64, device=Train).require_grad()
    grads = model(x).square().sum().backward()
    assert x in grads
    assert [param.value in grads for param in model.params()] == [True]  # the bias of the first layer
    plain = network().replace({"0.weight": nn.Param(model[0].dequantized().inner())})
    plain = plain.replace({"2.weight": nn.Param(model[2].dequantized().inner()), "0.bias": model.valid()[0].bias})
    np.testing.assert_allclose(model.valid()(x.inner()).to_numpy(), plain(x.inner()).to_numpy(), rtol=1e-4, atol=1e-5)


def test_layers_are_chosen() -> None:
    def not_first(path: str, variable: Any) -> bool:
        return not path.startswith("0")

    def kinds(**settings: Any) -> list[str]:
        return [type(layer).__name__ for layer in network().quantized(**settings)]

    assert kinds() == ["QuantizedLinear", "Relu", "QuantizedLinear"]
    assert kinds(where="0") == ["QuantizedLinear", "Relu", "Linear"]
    assert kinds(where=not_first) == ["Linear", "Relu", "QuantizedLinear"]
    linear = nn.Linear(64, 64, device=NumPy)
    shared = nn.Sequential(linear, nn.Relu(), linear).quantized()
    assert shared[0] is shared[2]


def called(model: Any, x: Any) -> Any:
    return model(x)


def test_it_is_saved_compiled_and_moved(tmp_path: Path) -> None:
    model, x = network(Train).quantized("int8"), drawn(1, 64)
    record.save(tmp_path / "ints.safetensors", model=model)
    fresh = network().quantized("int8")
    loaded = record.load(tmp_path / "ints.safetensors").apply_to(fresh)
    out = model.valid()(x).tolist()
    assert loaded(x).tolist() == out
    call: Any = compiled(called)
    assert call(loaded, x).tolist() == call(loaded, x).tolist() == out
    with pytest.raises(StateError, match=r"0\.weight \(of dtype int8, not uint8\)|0\.weight \(of shape"):
        record.load(tmp_path / "ints.safetensors").apply_to(network().quantized("int4", group_size=16))
    assert loaded.astype("bfloat16")[0].weight.dtype.name == "int8"
    assert loaded[2].in_features == 48


def test_attention_has_a_quantized_layer_for_each_projection() -> None:
    attention: Any = nn.MultiHeadAttention(32, 4, key_heads=2, device=Train)
    model: Any = attention.quantized("int8")
    kinds = {path: type(part).__name__ for path, part in model.named_modules().items() if path}
    assert kinds == dict.fromkeys(["out_proj", "q_proj", "k_proj", "v_proj"], "QuantizedLinear")
    x, memory = drawn(2, 5, 32, device=Train), drawn(2, 7, 32, device=Train) * 0.5
    for args, how in (((x,), {"causal": True}), ((x, memory), {}), ((x, memory, memory * 2.0), {})):
        exact = attention(*args, **how).to_numpy()
        np.testing.assert_allclose(model(*args, **how).to_numpy(), exact, atol=0.03 * np.abs(exact).max())
    whole, cache = model(x, causal=True), model.empty_cache(2, 5)
    for t in range(5):
        y, cache = model(x[:, t : t + 1], causal=True, cache=cache)
        np.testing.assert_allclose(y.to_numpy(), whole[:, t : t + 1].to_numpy(), atol=1e-5)
    assert (model.size, model.bias) == (32, True)
    some: Any = nn.Sequential(attention).quantized(where="0.out_proj")
    assert some[0].in_proj_weight is attention.in_proj_weight
    one: Any = nn.add_lora(nn.Sequential(attention), "0.v_proj", rank=2)
    assert [path for path, p in one.named_params().items() if not p.frozen] == ["0.v_proj.lora_a", "0.v_proj.lora_b"]
    np.testing.assert_allclose(one[0](x).to_numpy(), attention(x).to_numpy(), atol=1e-6)


def test_the_error_of_the_logits() -> None:
    model, x = network(), drawn(7, 64)
    eight, four = (nn.quantization_error(model, model.quantized(d, group_size=16), x) for d in ("int8", "int4"))
    assert 0 < eight.relative < 0.02 < four.relative < 0.3
    assert nn.quantization_error(model, model, x) == (0.0, 0.0, 1.0)
    linear: Any = nn.Linear(64, 48, bias=False, device=NumPy)
    nothing = linear.with_state({"weight": np.zeros((64, 48))})
    assert nn.quantization_error(nothing, linear, x).relative == float("inf")


_W, _S = IntTensor[NumPy].zeros((2, 8), dtype="int8"), Tensor[NumPy].ones((2, 1))
MISTAKES: list[tuple[Any, type[Exception], str]] = [
    (lambda: nn.Linear(2, 2, device=NumPy).quantized(), ArgumentError, "write QuantizedLinear"),
    (
        lambda: network().quantized("int4"),
        ArgumentError,
        "cannot convert 2: .*groups of 32 for a weight with 48 inputs",
    ),
    (lambda: functional.quantize(Tensor[NumPy].zeros((3, 0))), ShapeError, "which has no elements"),
    (lambda: network().quantized("int5"), ArgumentError, "expected 'int8' or 'int4'"),
    (lambda: network().quantized(group_size=0), ArgumentError, "group_size=0"),
    (lambda: network().quantized(where="3"), ArgumentError, "'3', which is not a path"),
    (lambda: nn.Sequential(nn.LayerNorm(3, device=NumPy)).quantized(), ArgumentError, "found no linear layer"),
    (lambda: functional.quantize(drawn(4, 4) / 0.0), ArgumentError, "infinite elements or NaN"),
    (lambda: functional.quantize(drawn(4)), ShapeError, r"\(in, out\)"),
    (lambda: functional.quantized_linear(drawn(3, 9), _W, _S), ShapeError, r"x of shape \(3, 9\) for a weight with 8"),
    (lambda: functional.quantized_linear(drawn(8), _W, _S, drawn(3)), ShapeError, r"bias of shape \(3,\) for 2"),
    (lambda: functional.quantized_linear(drawn(8), _W, drawn(2, 3)), ShapeError, r"scales of shape \(2, 3\)"),
    (lambda: functional.quantized_linear(drawn(8), _W.int("int64"), _S), DTypeError, "ints of int64"),
    (lambda: functional.integer_matmul(_W, _W), ShapeError, r"shapes \(2, 8\) and \(2, 8\), expected"),
    (lambda: functional.integer_matmul(_W, _W[0]), ShapeError, r"shapes \(2, 8\) and \(8,\), expected"),
    (lambda: functional.integer_matmul(_W, _W.T.int("int64")), DTypeError, "ints of int64, expected int8 or uint8"),
    (lambda: functional.integer_matmul(_W, drawn(8, 2)), KindError, "takes IntTensors of int8 or uint8, got"),
    (lambda: functional.quantized_linear(drawn(8, dtype="float64"), _W, _S), DTypeError, "float64"),
    (lambda: nn.quantization_error(network(), network()[:2], drawn(2, 64)), ShapeError, r"\(2, 10\) and \(2, 48\)"),
]


@every_row("call, error, message", MISTAKES)
def test_mistakes(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
