"""Quantized numbers: conversions, products and convolutions of ints, and elementwise operators."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Unpack

import numpy as np

from burnpy.backend.dtypes import float64, int8, uint8
from burnpy.interop.onnx.operators.attention import SelfAttentionSettings, self_attention
from burnpy.interop.onnx.operators.products import (
    ConvSettings,
    GemmSettings,
    PoolSettings,
    Windows,
    average_pool,
    conv,
    global_pool,
)
from burnpy.interop.onnx.operators.table import (
    MICROSOFT,
    NARROW,
    GraphWriter,
    Maybe,
    Operand,
    Value,
    cast,
    is_narrow,
    levels_of,
    like,
    narrowed,
    only,
    onnx_dtype,
    operator,
    range_of,
    refuse,
    unpacked,
    wide_dtype,
)
from burnpy.nn import functional
from burnpy.tensor.joining import cat

LIMITS = {"uint8": (0, 255), "int8": (-128, 127), "uint16": (0, 65535), "int16": (-32768, 32767)}


def aligned(x: Value, part: Value, axis: int, block: int) -> Value:
    """Return scales or zero points in the shape of x, from one for all elements, an axis, or blocks along it."""
    if block:
        return part.repeat_interleave(block, dim=axis).narrow(axis, 0, x.shape[axis])
    if part.ndim == 0 or part.numel() == 1:
        return part.reshape(())
    return part.reshape(*[-1 if d == axis % x.ndim else 1 for d in range(x.ndim)])


@operator("QuantizeLinear")
@operator("QuantizeLinear", domain=MICROSOFT)
def quantize(
    x: Value,
    scale: Value,
    zero: Value = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
    types: tuple[int, ...] = (),
) -> Value:
    """Return x / scale, rounded, plus the zero point, limited to the ints of the result's dtype."""
    number = (types[2] if len(types) > 2 else 0) or output_dtype
    levels, dtype = _levels(x, scale, zero, axis, block_size, number, bool(saturate))
    return cast(levels, dtype) if dtype.kind == "f" else levels.int(dtype)


def _levels(
    x: Value, scale: Value, zero: Value, axis: int, block: int, number: int, saturate: bool
) -> tuple[Value, Any]:
    """Return quantized numbers as floats, which hold ints of 16 bits exactly, and the dtype for them."""
    axis = axis % max(x.ndim, 1)
    wide = cast(x, "float32") if x.dtype.itemsize == 2 or x.dtype.kind != "f" else x
    parts = cast(aligned(x, scale, axis, block), wide.dtype)
    narrow = NARROW.get(number)
    if narrow is not None and narrow.limits is None and is_narrow(number):
        return narrowed(wide / parts, number, saturate), wide.dtype
    dtype = zero.dtype if zero is not None else wide_dtype(number) if number else np.dtype(np.uint8)
    rounded = (wide / parts).round()
    moved = rounded if zero is None else rounded + cast(aligned(x, zero, axis, block), wide.dtype)
    limits = LIMITS[dtype.name] if narrow is None or narrow.limits is None else narrow.limits
    return moved.clamp(*limits), dtype


@operator("DequantizeLinear")
@operator("DequantizeLinear", domain=MICROSOFT)
def dequantize(
    x: Value,
    scale: Value,
    zero: Value = None,
    device_like: Value = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Value:
    """Return (x - zero point) · scale, on the device of a further tensor, which `burnpy.interop.onnx.patterns` adds."""
    axis = axis % max(x.ndim, 1)
    exact = zero is not None and x.dtype.itemsize > 2 and x.dtype.kind != "f"  # beyond what float32 and int32 hold
    moved = (
        cast(x, "int64") if exact else cast(x, scale.dtype if zero is None else "float32") if x.dtype.kind != "f" else x
    )
    if zero is not None:
        moved = moved - cast(aligned(x, zero, axis, block_size), moved.dtype)
    dtype = onnx_dtype(output_dtype) if output_dtype else scale.dtype
    return cast(cast(moved, scale.dtype) * aligned(x, scale, axis, block_size), dtype)


@operator("QuantizeDequantize")
def quantize_dequantize(
    x: Value, scale: Value, zero: Value = None, *, axis: int = 1, block_size: int = 0, number: int = 0
) -> Value:
    """Return x rounded to the numbers of a quantization: no operator of ONNX, but a QuantizeLinear and its inverse."""
    levels, _ = _levels(x, scale, zero, axis, block_size, number, True)
    moved = levels if zero is None else levels - cast(aligned(x, zero, axis, block_size), levels.dtype)
    return cast(moved, scale.dtype) * aligned(x, scale, axis, block_size)


@operator("DynamicQuantizeLinear")
def dynamic_quantize(x: Value) -> Any:
    """Quantize to uint8 by the range of x, and return the scale and the zero point too."""
    scale, zero = (part.reshape(()) for part in range_of(x.reshape(1, -1)))
    return levels_of(x, scale, zero), scale, zero.int("uint8")


def centred(x: Value, zero: Value, axis: int, dtype: str = "float32") -> Value:
    """Return ints less their zero point, as floats."""
    moved = cast(x, dtype)
    return moved if zero is None else moved - cast(aligned(x, zero, axis, 0), moved.dtype)


def integer_product(a: Value, a_zero: Value, b: Value, b_zero: Value) -> Value:
    """Return the product of matrices of ints, less their zero points, as int32; of floats of 8 bits, as floats.

    Those of a may be one for each row, those of b one for each column.
    """
    if not {a.dtype, b.dtype} <= {int8, uint8}:
        return centred(a, a_zero, -2) @ centred(b, b_zero, -1)
    left, right = a if a.ndim > 1 else a.unsqueeze(0), b if b.ndim > 1 else b.unsqueeze(1)
    terms, out = a.shape[-1], functional.integer_matmul(left, right)
    first, second = (None if zero is None else cast(zero, "int32") for zero in (a_zero, b_zero))
    first = None if first is None else aligned(left, first, -2, 0)
    if first is not None:  # the sums of constants are computed once, if compiled
        out = out - first * functional.integer_matmul(like(right, (1, terms), 1), right)
    if second is not None:
        rows = functional.integer_matmul(left, like(left, (terms, 1), 1))
        out = out - (rows if first is None else rows - first * terms) * aligned(right, second, -1, 0)
    shape = *out.shape[:-2], *out.shape[-2:-1][: a.ndim - 1], *out.shape[-1:][: b.ndim - 1]
    return out if shape == out.shape else out.reshape(*shape)  # a plan computes what follows in the product's kernel


@operator("MatMulDequantized")
def matmul_dequantized(x: Value, rows: Value, scale: Value, offset: Value = None, bias: Value = None) -> Value:
    """Multiply by the transpose of a quantized matrix: no operator of ONNX, but a DequantizeLinear and a MatMul.

    Args:
        x: shape (…, in).
        rows: int8 (out, in), or uint8 (out, in / 2) with two ints of 4 bits in each; further columns are zeros.
        scale: shape (out, groups).
        offset: the zero points times the scales, which are taken from all elements of a group.
        bias: shape (out,).
    """
    size = rows.shape[1] * (2 if rows.dtype == uint8 else 1)
    x = x if x.shape[-1] == size else functional.pad(x, (0, size - x.shape[-1]))
    out = functional.quantized_linear(x, rows, scale)
    if offset is not None:
        out = out - x.reshape(*x.shape[:-1], scale.shape[1], -1).sum(dim=-1) @ offset.T
    return out if bias is None else out + bias


@operator("MatMulInteger")
def matmul_integer(a: Value, b: Value, a_zero: Value = None, b_zero: Value = None) -> Value:
    """Multiply matrices of ints, less their zero points; see `integer_product`."""
    return integer_product(a, a_zero, b, b_zero)


def requantized(total: Value, scale: Value, y_scale: Value, y_zero: Value) -> Value:
    """Return sums of products in the numbers of another quantization, rounded as onnxruntime rounds them."""
    levels = (cast(total, "float32") * (scale / cast(y_scale, "float32"))).round() + cast(y_zero, "float32")
    return levels.clamp(*LIMITS[y_zero.dtype.name]).int(y_zero.dtype)


@operator("QLinearMatMul")
def qlinear_matmul(
    a: Value, a_scale: Value, a_zero: Value, b: Value, b_scale: Value, b_zero: Value, y_scale: Value, y_zero: Value
) -> Value:
    """Multiply quantized matrices, and quantize the product."""
    left, right = (cast(part, "float32") for part in (aligned(a, a_scale, -2, 0), aligned(b, b_scale, -1, 0)))
    return requantized(integer_product(a, a_zero, b, b_zero), left * right, y_scale, y_zero)


@operator("MatMulIntegerToFloat", domain=MICROSOFT)
def matmul_integer_to_float(
    a: Value, b: Value, a_scale: Value, b_scale: Value, a_zero: Value = None, b_zero: Value = None, bias: Value = None
) -> Value:
    """Multiply quantized matrices as the numbers that they stand for."""
    out = cast(integer_product(a, a_zero, b, b_zero), a_scale.dtype) * (a_scale * aligned(b, b_scale, -1, 0))
    return out if bias is None else out + bias


@operator("DynamicQuantizeMatMul", domain=MICROSOFT)
def dynamic_quantize_matmul(a: Value, b: Value, b_scale: Value, b_zero: Value = None, bias: Value = None) -> Value:
    """Quantize a by its range, and multiply it by a quantized matrix."""
    ints, scale, zero = dynamic_quantize(a)
    return matmul_integer_to_float(ints, b, scale, b_scale, zero, b_zero, bias)


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
    **settings: Unpack[GemmSettings],
) -> Value:
    """Multiply quantized matrices and add ints of the product's scale; quantize the sum if there is a scale for it."""
    left, right = a.T if settings.get("trans_a") else a, b.T if settings.get("trans_b") else b
    product = integer_product(left, a_zero, right, b_zero)
    total = product if c is None else product + cast(c, product.dtype)
    out = cast(total, "float32") * (a_scale * aligned(right, b_scale, -1, 0) * settings.get("alpha", 1.0))
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
    """Multiply by the transpose of a matrix (N, K) of ints of some bits, with a scale for each block of a row.

    `burnpy.interop.onnx.patterns` replaces those whose ints are constants.
    """
    refuse("MatMulNBits", g_idx=g_idx, weight_prepacked=weight_prepacked)
    blocks = -(-k // block_size)
    levels = cast(unpacked(packed.reshape(n, -1), bits, blocks * block_size), x.dtype).reshape(n, blocks, block_size)
    if zeros is None:
        centre: Any = float(2 ** (bits - 1))
    else:
        rows = zeros.reshape(n, -1)
        centre = cast(rows if zeros.dtype.kind == "f" else unpacked(rows, bits, blocks), x.dtype).unsqueeze(2)
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
    num_heads: int,
    outputs: int = 1,
    **settings: Unpack[SelfAttentionSettings],
) -> Any:
    """Attend to quantized numbers, by a quantized matrix of queries, keys and values."""
    projected = matmul_integer_to_float(x, weights, x_scale, w_scale, x_zero, w_zero, bias)
    return self_attention(projected, num_heads, settings, outputs, mask, past)


def integer_convolution(
    x: Value, x_zero: Value, w: Value, w_zero: Value, bias: Value = None, **settings: Unpack[ConvSettings]
) -> Value:
    """Return the convolution of ints, less their zero points, plus a bias of ints, as int32.

    Where a group has few channels, it is a convolution of floats, which hold the sums exactly.
    """
    given: dict[str, Any] = {**settings}
    groups, terms = given.pop("group", 1), math.prod(w.shape[1:])
    if groups > 1 and 255**2 * terms <= 2**24:
        return _biased(conv(centred(x, x_zero, 1), centred(w, w_zero, 0), **settings).int("int32"), bias)
    if groups > 1:
        zeros = [w_zero] * groups if w_zero is None or w_zero.numel() == 1 else w_zero.chunk(groups, 0)
        parts = zip(x.chunk(groups, 1), w.chunk(groups, 0), zeros, strict=True)
        products = [integer_convolution(part, x_zero, some, zero, **given) for part, some, zero in parts]
        return _biased(cat(products, dim=1), bias)
    value = like(x, (), 0) if x_zero is None else x_zero.reshape(())
    windows = [tuple(sizes.tolist()) for sizes in Windows(x, w.shape[2:], **given).around()]
    taps = w if w_zero is None else cat([w, like(w, (1, *w.shape[1:]), 1)], dim=0)  # the sums of windows, too
    out = x._like(x._backend.integer_conv(x._primitive, taps._primitive, value._primitive, *windows))
    zero = None if w_zero is None else aligned(w, cast(w_zero, "int32"), 0, 0)
    if zero is not None:
        out = out[:, :-1] - out[:, -1:] * (zero if zero.ndim == 0 else zero.reshape(-1, *(1,) * (x.ndim - 2)))
    if x_zero is not None:  # the sums of constants are computed once, if compiled
        sums = functional.integer_matmul(w.reshape(-1, terms), like(w, (terms, 1), 1)).reshape(-1)
        moved = (sums if zero is None else sums - zero.reshape(-1) * terms) * cast(value, "int32")
        bias = -moved if bias is None else bias - moved
    return _biased(out, bias)


def _biased(out: Value, bias: Value) -> Value:
    """Return images plus a number for each channel."""
    return out if bias is None else out + bias.reshape(-1, *(1,) * (out.ndim - 2))


@operator("ConvInteger")
def conv_integer(
    x: Value, w: Value, x_zero: Value = None, w_zero: Value = None, **settings: Unpack[ConvSettings]
) -> Value:
    """Convolve ints, less their zero points."""
    return integer_convolution(x, x_zero, w, w_zero, **settings)


@operator("ConvDequantized")
def conv_dequantized(
    x: Value,
    w: Value,
    x_scale: Value,
    w_scale: Value,
    x_zero: Maybe,
    w_zero: Maybe,
    bias: Value = None,
    **settings: Unpack[ConvSettings],
) -> Value:
    """Convolve the numbers that ints stand for: no operator of ONNX, but a Conv of two DequantizeLinear."""
    out = cast(integer_convolution(x, x_zero, w, w_zero, **settings), "float32")
    return _biased(out * (x_scale * aligned(x, w_scale, 1, 0)), bias)


@operator("QLinearConv")
def qlinear_conv(
    x: Value,
    x_scale: Value,
    x_zero: Value,
    w: Value,
    w_scale: Value,
    w_zero: Maybe,
    y_scale: Value,
    y_zero: Value,
    bias: Value = None,
    **settings: Unpack[ConvSettings],
) -> Value:
    """Convolve quantized numbers, and quantize the result."""
    out = integer_convolution(x, x_zero, w, w_zero, bias, **settings)
    return requantized(out, x_scale.reshape(()) * aligned(out, w_scale, 1, 0), y_scale, y_zero)


class QuantizedSettings(PoolSettings, total=False):
    """The attributes of functions of quantized numbers."""

    alpha: float
    axis: int
    channels_last: int


def _softmax(x: Value, axis: int = -1, opset: int = 1) -> Value:
    """Return softmax; before opset 13 over all dimensions from the axis on."""
    flat = x if opset >= 13 else x.reshape(*x.shape[: axis % x.ndim], -1)
    return flat.softmax(dim=axis if opset >= 13 else -1).reshape(*x.shape)


def _pooled(x: Value, pool: Callable[..., Value], channels_last: int = 0, **settings: Any) -> Value:
    """Return a pool of images, whose channels may be last."""
    out = pool(x.movedim(-1, 1) if channels_last else x, **settings)
    return out.movedim(1, -1) if channels_last else out


QUANTIZED: dict[str, Callable[..., Value]] = {
    "QLinearAdd": lambda x, y, **_: x + y,
    "QLinearMul": lambda x, y, **_: x * y,
    "QLinearSigmoid": lambda x, **_: x.sigmoid(),
    "QLinearLeakyRelu": lambda x, *, alpha=0.01, **_: functional.leaky_relu(x, alpha),
    "QLinearSoftmax": _softmax,
    "QLinearAveragePool": lambda x, *, opset, **settings: _pooled(x, average_pool, **settings),
    "QLinearGlobalAveragePool": lambda x, *, opset, **settings: _pooled(
        x, partial(global_pool, kind="GlobalAveragePool"), **settings
    ),
}
"""Functions of numbers that are quantized, and whose result is."""


@operator(*QUANTIZED, domain=MICROSOFT)
def quantized_function(
    a: Value, scale: Value, zero: Maybe, *given: Value, kind: str, opset: int, **settings: Unpack[QuantizedSettings]
) -> Value:
    """Return a function of quantized numbers, quantized; each is followed by its scale and zero point.

    Without a zero point the result has the dtype of the first numbers.
    """
    function, triples = QUANTIZED[kind.removeprefix(f"{MICROSOFT}.")], [(a, scale, zero)]
    while len(given) > 2:
        triples.append(given[:3])
        given = given[3:]
    y_scale, y_zero = (*given, None)[:2]
    types = () if y_zero is not None else (0, 0, 3 if a.dtype.name == "int8" else 2)
    out = function(*[dequantize(*triple) for triple in triples], opset=opset, **settings)
    return quantize(out, y_scale, y_zero, types=types)


@operator("QLinearConcat", domain=MICROSOFT)
def quantized_concat(y_scale: Value, y_zero: Value, *given: Value, axis: int) -> Value:
    """Join quantized tensors, each with its scale and zero point, and quantize them anew."""
    parts = [dequantize(*given[k : k + 3]) for k in range(0, len(given), 3)]
    return quantize(cat(parts, dim=axis), y_scale, y_zero)


@only(since=21, when=lambda x, weight, scale: weight.dtype == int8 and scale.dtype != float64)
def write_quantized_matmul(g: GraphWriter, x: Operand, weight: Operand, scale: Operand) -> Any:
    """Write a product with a matrix of int8 that a DequantizeLinear makes floats, by rows or by groups of a row."""
    groups = scale.shape[1]
    if groups == 1:
        matrix = g.node("DequantizeLinear", weight, g.node("Squeeze", scale, g.sizes((1,))), axis=0)
    else:
        matrix = g.node("DequantizeLinear", weight, scale, axis=1, block_size=weight.shape[1] // groups)
    return g.node("MatMul", x, g.node("Transpose", matrix, perm=[1, 0]))


def write_integer_matmul(g: GraphWriter, x: Operand, y: Operand) -> Any:
    """Write a product of ints of 8 bits."""
    return g.node("MatMulInteger", x, y)
