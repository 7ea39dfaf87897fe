"""Quantized operators of onnxruntime's domain com.microsoft.

Source of their definitions: onnxruntime, docs/ContribOperators.md.
"""

from __future__ import annotations

from typing import Any

from burnpy.interop.onnx.operators.elementwise import gated
from burnpy.interop.onnx.operators.microsoft_attention import refuse, self_attention
from burnpy.interop.onnx.operators.quantization import aligned, centred_product, dequantize, dynamic_quantize, quantize
from burnpy.interop.onnx.operators.recurrence import recurrent
from burnpy.interop.onnx.operators.table import MICROSOFT, Maybe, Value, cast, operator
from burnpy.interop.onnx.operators.windows import average_pool
from burnpy.tensor.joining import cat, stack

operator("QuantizeLinear", domain=MICROSOFT)(quantize)
operator("DequantizeLinear", domain=MICROSOFT)(dequantize)


@operator("MatMulIntegerToFloat", domain=MICROSOFT)
def matmul_integer_to_float(
    a: Value,
    b: Value,
    a_scale: Value,
    b_scale: Value,
    a_zero: Value = None,
    b_zero: Value = None,
    bias: Value = None,
) -> Value:
    """Multiply quantized matrices as the numbers that they stand for."""
    out = cast(centred_product(a, a_zero, b, b_zero), a_scale.dtype) * (a_scale * aligned(b, b_scale, -1, 0))
    return out if bias is None else out + bias


@operator("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_quantize_matmul(a: Value, b: Value, b_scale: Value, b_zero: Value = None, bias: Value = None) -> Value:
    """Quantize a by its range, and multiply it by a quantized matrix."""
    levels, scale, zero = dynamic_quantize(a)
    return matmul_integer_to_float(levels, b, scale, b_scale, zero, b_zero, bias)


@operator("QGemm", domain=MICROSOFT)
def quantized_gemm(
    a: Value,
    a_scale: Value,
    a_zero: Maybe,
    b: Value,
    b_scale: Value,
    b_zero: Maybe,
    c: Value = None,
    y_scale: Value = None,
    y_zero: Value = None,
    *,
    alpha: float = 1.0,
    trans_a: int = 0,
    trans_b: int = 0,
) -> Value:
    """Multiply quantized matrices and add ints of the product's scale; quantize the sum if there is a scale for it."""
    left, right = a.T if trans_a else a, b.T if trans_b else b
    product = centred_product(left, a_zero, right, b_zero)
    total = product if c is None else product + cast(c, product.dtype)
    out = cast(total, "float32") * (a_scale * aligned(right, b_scale, -1, 0) * alpha)
    return out if y_scale is None else quantize(out, y_scale, y_zero)


@operator("QLinearAdd", "QLinearMul", domain=MICROSOFT)
def quantized_binary(
    a: Value,
    a_scale: Value,
    a_zero: Maybe,
    b: Value,
    b_scale: Value,
    b_zero: Maybe,
    y_scale: Value,
    y_zero: Value = None,
    *,
    kind: str,
) -> Value:
    """Add or multiply quantized numbers, and quantize the result."""
    x, y = dequantize(a, a_scale, a_zero), dequantize(b, b_scale, b_zero)
    return quantize(x + y if kind.endswith("Add") else x * y, y_scale, y_zero, types=_types(y_zero, a))


def _types(zero: Value, x: Value) -> tuple[int, ...]:
    """Return the types by which `quantize` gives the dtype of x where there is no zero point."""
    return () if zero is not None else (0, 0, 3 if x.dtype.name == "int8" else 2)


@operator("QLinearSigmoid", "QLinearLeakyRelu", domain=MICROSOFT)
def quantized_activation(
    x: Value,
    x_scale: Value,
    x_zero: Maybe,
    y_scale: Value,
    y_zero: Value = None,
    *,
    alpha: float = 0.01,
    kind: str,
) -> Value:
    """Return an activation of quantized numbers, quantized."""
    out = gated(dequantize(x, x_scale, x_zero), kind.rpartition("QLinear")[2], alpha, None)
    return quantize(out, y_scale, y_zero, types=_types(y_zero, x))


@operator("QLinearSoftmax", domain=MICROSOFT)
def quantized_softmax(
    x: Value, x_scale: Value, x_zero: Value, y_scale: Value, y_zero: Value, *, axis: int = -1, opset: int
) -> Value:
    """Return softmax of quantized numbers, quantized; before opset 13 over all dimensions from the axis on."""
    wide = dequantize(x, x_scale, x_zero)
    flat = wide if opset >= 13 else wide.reshape(*x.shape[: axis % x.ndim], -1)
    return quantize(flat.softmax(dim=axis if opset >= 13 else -1).reshape(*x.shape), y_scale, y_zero)


@operator("QLinearGlobalAveragePool", "QLinearAveragePool", domain=MICROSOFT)
def quantized_average_pool(
    x: Value,
    x_scale: Value,
    x_zero: Maybe,
    y_scale: Value,
    y_zero: Value = None,
    *,
    channels_last: int = 0,
    kind: str,
    **settings: Any,
) -> Value:
    """Return means of quantized numbers over windows or planes, quantized."""
    wide = dequantize(x, x_scale, x_zero)
    first = wide.movedim(-1, 1) if channels_last else wide
    whole = "Global" in kind
    out = first.mean(dim=tuple(range(2, x.ndim)), keepdim=True) if whole else average_pool(first, **settings)
    return quantize(out.movedim(1, -1) if channels_last else out, y_scale, y_zero, types=_types(y_zero, x))


@operator("QLinearConcat", domain=MICROSOFT)
def quantized_concat(y_scale: Value, y_zero: Value, *given: Value, axis: int) -> Value:
    """Join quantized tensors, each with its scale and zero point, and quantize them anew."""
    parts = [dequantize(*given[k : k + 3]) for k in range(0, len(given), 3)]
    return quantize(cat(parts, dim=axis), y_scale, y_zero)


@operator("MatMulNBits", domain=MICROSOFT)
def matmul_of_blocks(
    x: Value,
    packed: Value,
    scales: Value,
    zeros: Value = None,
    g_idx: Value = None,
    bias: Value = None,
    *,
    k: int,
    n: int,
    accuracy_level: int = 0,
    bits: int = 4,
    block_size: int,
    weight_prepacked: int = 0,
) -> Value:
    """Multiply by the transpose of a matrix (N, K) of ints of some bits, with a scale for each block of a row."""
    refuse("MatMulNBits", g_idx=g_idx, weight_prepacked=weight_prepacked)
    blocks = -(-k // block_size)

    def unpacked(bytes_: Value, count: int) -> Value:
        wide = cast(bytes_, "int32")
        levels = [(wide // 2 ** (bits * place)).remainder(2**bits) for place in range(8 // bits)]
        return cast(stack(levels, dim=-1).reshape(n, -1)[:, :count], x.dtype)

    levels = unpacked(packed, blocks * block_size).reshape(n, blocks, block_size)
    if zeros is None:
        centre: Any = float(2 ** (bits - 1))
    else:
        floats = zeros.dtype.kind == "f"
        centre = (zeros.reshape(n, blocks) if floats else unpacked(zeros.reshape(n, -1), blocks)).unsqueeze(2)
    weight = (levels - centre) * scales.reshape(n, blocks, 1)
    out = x @ weight.reshape(n, -1)[:, :k].T
    return out if bias is None else out + bias


@operator("QAttention", domain=MICROSOFT)
def quantized_attention(
    x: Value,
    weights: Value,
    bias: Value,
    x_scale: Value,
    w_scale: Value,
    mask: Value = None,
    x_zero: Value = None,
    w_zero: Value = None,
    past: Value = None,
    *,
    do_rotary: int = 0,
    mask_filter_value: float = -10000.0,
    num_heads: int,
    past_present_share_buffer: int = 0,
    scale: float | None = None,
    unidirectional: int = 0,
    outputs: int = 1,
) -> Any:
    """Attend to quantized numbers, by a quantized matrix of queries, keys and values."""
    refuse("QAttention", do_rotary=do_rotary, past_present_share_buffer=past_present_share_buffer)
    projected = matmul_integer_to_float(x, weights, x_scale, w_scale, x_zero, w_zero, bias)
    given = (mask, past, None, None, num_heads, unidirectional, mask_filter_value, scale)
    return self_attention(projected, projected, *given, outputs)


@operator("DynamicQuantizeLSTM", domain=MICROSOFT)
def dynamic_quantize_lstm(
    x: Value,
    w: Value,
    r: Value,
    b: Maybe,
    lengths: Maybe,
    initial_h: Maybe,
    initial_c: Maybe,
    peepholes: Maybe,
    w_scale: Value,
    w_zero: Value,
    r_scale: Value,
    r_zero: Value,
    *,
    outputs: int = 1,
    **settings: Any,
) -> Any:
    """Return an LSTM with quantized weights (directions, inputs, gates), as floats; onnxruntime rounds its inputs."""

    def weight(part: Value, scale: Value, zero: Value) -> Value:
        ways = part.shape[0]
        wide = cast(part, x.dtype) - cast(zero, x.dtype).reshape(ways, 1, -1)
        return (wide * scale.reshape(ways, 1, -1)).mT

    weights = weight(w, w_scale, w_zero), weight(r, r_scale, r_zero)
    return recurrent(x, *weights, b, lengths, initial_h, initial_c, peepholes, kind="LSTM", outputs=outputs, **settings)
