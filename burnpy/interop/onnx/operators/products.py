"""Products of matrices, of floats and of quantized numbers, and sums of products."""

from __future__ import annotations

from typing import Any

from burnpy.backend.dtypes import float64, int8
from burnpy.interop.onnx.operators.attention import self_attention
from burnpy.interop.onnx.operators.elementwise import gated
from burnpy.interop.onnx.operators.quantization import (
    aligned,
    centred,
    dynamic_levels,
    largest_of,
    quantize,
    sum_of_parts,
)
from burnpy.interop.onnx.operators.table import (
    MICROSOFT,
    Conditional,
    GraphWriter,
    Maybe,
    Operand,
    Value,
    cast,
    common_dtype,
    only,
    operator,
    refuse,
)
from burnpy.nn import functional
from burnpy.tensor.einsum import einsum as sum_of_products
from burnpy.tensor.joining import stack
from burnpy.tensor.tensor import IntTensor


@operator("Einsum")
def einsum(*xs: Value, equation: str) -> Value:
    """Return the sum of products of an equation."""
    return sum_of_products(equation, *xs)


@operator("Linear")
def linear(x: Value, weight: Value, bias: Value) -> Value:
    """Return x @ weight + bias: no operator of ONNX, but how `burnpy.interop.onnx.graph` joins two."""
    return functional.linear(x, weight, bias)


@operator("Gemm")
def gemm(
    a: Value,
    b: Value,
    c: Value = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    broadcast: int = 1,
    trans_a: int = 0,
    trans_b: int = 0,
) -> Value:
    """Return alpha · a @ b + beta · c, of matrices that may be transposed."""
    out = (a.T if trans_a else a) @ (b.T if trans_b else b)
    out = out if alpha == 1.0 else out * (alpha if not isinstance(out, IntTensor) else int(alpha))
    if c is None:
        return out
    return out + (c if beta == 1.0 else c * (beta if not isinstance(out, IntTensor) else int(beta)))


@operator("FusedMatMul", "TransposeMatMul", domain=MICROSOFT)
def fused_matmul(
    a: Value,
    b: Value,
    *,
    alpha: float = 1.0,
    trans_a: int = 0,
    trans_b: int = 0,
    trans_batch_a: int = 0,
    trans_batch_b: int = 0,
) -> Value:
    """Return alpha · a @ b of operands that may be transposed; rows may be a batch's first dimension."""
    parts = []
    for x, turned, batch in ((a, trans_a, trans_batch_a), (b, trans_b, trans_batch_b)):
        whole = x.movedim(0, -2) if batch else x
        parts.append(whole.mT if turned and whole.ndim > 1 else whole)
    out = parts[0] @ parts[1]
    return out if alpha == 1.0 else out * alpha


@operator("FusedGemm", domain=MICROSOFT)
def fused_gemm(
    a: Value,
    b: Value,
    c: Value = None,
    *,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    activation_gamma: float | None = None,
    **settings: Any,
) -> Value:
    """Return an activation of a Gemm."""
    out = gemm(a, b, c, **settings)
    return out if activation is None else gated(out, activation, activation_alpha, activation_beta)


def centred_product(a: Value, a_zero: Value, b: Value, b_zero: Value) -> Value:
    """Return the product of matrices of ints, less their zero points, as exact floats.

    It is the sum of products of float32, each of so many terms that it is exact.
    """
    left, right = centred(a, a_zero, -2), centred(b, b_zero, -1)
    terms, step = a.shape[-1], 2**24 // (largest_of(a, a_zero) * largest_of(b, b_zero))
    if terms <= step:
        return left @ right
    return sum_of_parts(
        left[..., k : k + step] @ (right[k : k + step] if b.ndim == 1 else right[..., k : k + step, :])
        for k in range(0, terms, step)
    )


@operator("MatMulInteger")
def matmul_integer(a: Value, b: Value, a_zero: Value = None, b_zero: Value = None) -> Value:
    """Multiply matrices of ints, less their zero points."""
    return cast(centred_product(a, a_zero, b, b_zero), "int32")


@operator("MatMulLevels")
def matmul_levels(a: Value, b: Value, a_zero: Maybe, b_zero: Maybe, bias: Value = None) -> Value:
    """Return a MatMulInteger and a bias as float32: no operator of ONNX, but a MatMulInteger, an Add and a Cast."""
    out = centred(a, a_zero, -2) @ centred(b, b_zero, -1)
    return out if bias is None else out + cast(bias, "float32")


@operator("QLinearMatMul")
def qlinear_matmul(
    a: Value, a_scale: Value, a_zero: Value, b: Value, b_scale: Value, b_zero: Value, y_scale: Value, y_zero: Value
) -> Value:
    """Multiply quantized matrices, and quantize the product."""
    product = cast(centred_product(a, a_zero, b, b_zero), "float32")
    scales = [cast(part, "float32") for part in (aligned(a, a_scale, -2, 0), aligned(b, b_scale, -1, 0), y_scale)]
    return quantize(product * (scales[0] * scales[1]), scales[2], y_zero)


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
    out = cast(matmul_levels(a, b, a_zero, b_zero), a_scale.dtype) * (a_scale * aligned(b, b_scale, -1, 0))
    return out if bias is None else out + bias


@operator("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_quantize_matmul(a: Value, b: Value, b_scale: Value, b_zero: Value = None, bias: Value = None) -> Value:
    """Quantize a by its range, and multiply it by a quantized matrix."""
    levels, scale, zero = dynamic_levels(a)
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


def write_matmul(g: GraphWriter, x: Operand, y: Operand) -> Any:
    """Write a product of operands of one dtype."""
    dtype = common_dtype(x, y)
    return g.node("MatMul", g.cast(x, dtype), g.cast(y, dtype))


write_det = Conditional("Det")


@only(since=21, when=lambda x, weight, scale: weight.dtype == int8 and scale.dtype != float64)
def write_quantized_matmul(g: GraphWriter, x: Operand, weight: Operand, scale: Operand) -> Any:
    """Write a product with a matrix of int8 that a DequantizeLinear makes floats, by rows or by groups of a row."""
    groups = scale.shape[1]
    if groups == 1:
        matrix = g.node("DequantizeLinear", weight, g.node("Squeeze", scale, g.sizes((1,))), axis=0)
    else:
        matrix = g.node("DequantizeLinear", weight, scale, axis=1, block_size=weight.shape[1] // groups)
    return g.node("MatMul", x, g.node("Transpose", matrix, perm=[1, 0]))
