"""Quantized numbers: conversions, convolutions of ints, and elementwise operators."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from burnpy.interop.onnx.operators.elementwise import gated
from burnpy.interop.onnx.operators.table import (
    INTS,
    MICROSOFT,
    Maybe,
    Value,
    cast,
    is_narrow,
    narrowed,
    onnx_dtype,
    operator,
    wide_dtype,
)
from burnpy.interop.onnx.operators.windows import average_pool, conv
from burnpy.tensor.joining import cat

LIMITS = {"uint8": (0, 255), "int8": (-128, 127), "uint16": (0, 65535), "int16": (-32768, 32767)}

SMALLEST = float(np.finfo(np.float32).tiny)
"""The scale of zeros, by which they can be divided."""


def aligned(x: Value, part: Value, axis: int, block: int) -> Value:
    """Return scales or zero points with the shape of x: of all, of an axis, or of blocks along it."""
    if block:
        return part.repeat_interleave(block, dim=axis).narrow(axis, 0, x.shape[axis])
    if part.ndim == 0 or part.numel() == 1:
        return part.reshape(())
    return part.reshape(*[-1 if d == axis % x.ndim else 1 for d in range(x.ndim)])


@operator("QuantizeLinear")
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
    return cast(levels, dtype)


def _levels(
    x: Value, scale: Value, zero: Value, axis: int, block: int, number: int, saturate: bool
) -> tuple[Value, Any]:
    """Return quantized numbers as floats, which hold ints of 16 bits exactly, and the dtype for them."""
    axis = axis % max(x.ndim, 1)
    wide = cast(x, "float32") if x.dtype.itemsize == 2 or x.dtype.kind != "f" else x
    parts = cast(aligned(x, scale, axis, block), wide.dtype)
    if is_narrow(number) and number not in INTS:
        return narrowed(wide / parts, number, saturate), wide.dtype
    dtype = zero.dtype if zero is not None else wide_dtype(number) if number else np.dtype(np.uint8)
    rounded = (wide / parts).round()
    moved = rounded if zero is None else rounded + cast(aligned(x, zero, axis, block), wide.dtype)
    return moved.clamp(*(INTS[number] if number in INTS else LIMITS[dtype.name])), dtype


@operator("DequantizeLinear")
def dequantize(
    x: Value, scale: Value, zero: Value = None, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0
) -> Value:
    """Return (x - zero point) · scale."""
    axis = axis % max(x.ndim, 1)
    exact = x.dtype.kind != "f" and x.dtype.itemsize > 2  # in int64, as ints of 32 bits are more than float32 holds
    moved = cast(x, "int64") if exact else cast(x, "float32") if x.dtype.kind != "f" else x
    if zero is not None:
        moved = moved - cast(aligned(x, zero, axis, block_size), moved.dtype)
    dtype = onnx_dtype(output_dtype) if output_dtype else scale.dtype
    return cast(cast(moved, scale.dtype) * aligned(x, scale, axis, block_size), dtype)


@operator("QuantizeDequantize")
def quantize_dequantize(
    x: Value,
    scale: Value,
    zero: Value = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    number: int = 0,
) -> Value:
    """Return x rounded to the numbers of a quantization: no operator of ONNX, but a QuantizeLinear and its inverse."""
    levels, _ = _levels(x, scale, zero, axis, block_size, number, True)
    moved = levels if zero is None else levels - cast(aligned(x, zero, axis, block_size), levels.dtype)
    return cast(moved, scale.dtype) * aligned(x, scale, axis, block_size)


@operator("DynamicQuantizeLinear")
def dynamic_quantize(x: Value) -> Any:
    """Quantize to uint8 by the range of x, and return the scale and the zero point too."""
    levels, scale, zero = dynamic_levels(x)
    return cast(levels, "uint8"), scale, cast(zero, "uint8")


@operator("DynamicLevels")
def dynamic_levels(x: Value) -> Any:
    """Return what `dynamic_quantize` does, with the ints as floats: no operator of ONNX."""
    dims = tuple(range(x.ndim))
    above, below = x.amax(dims, False).relu(), (-x).amax(dims, False).relu()
    scale = (above + below) / 255.0 + SMALLEST
    zero = (below / scale).round()
    return ((x / scale).round() + zero).clamp(0.0, 255.0), scale, zero


operator("QuantizeLinear", domain=MICROSOFT)(quantize)


operator("DequantizeLinear", domain=MICROSOFT)(dequantize)


def largest_of(x: Value, zero: Value) -> int:
    """Return a bound of 8-bit ints, or of floats that stand for uint8, less their zero point."""
    return 255 if zero is not None or x.dtype.name != "int8" else 128


def centred(x: Value, zero: Value, axis: int, dtype: str = "float32") -> Value:
    """Return ints less their zero point, as floats."""
    moved = cast(x, dtype)
    return moved if zero is None else moved - cast(aligned(x, zero, axis, 0), moved.dtype)


def sum_of_parts(parts: Iterator[Value]) -> Value:
    """Return the sum of products, which is exact: in float64 if there are several."""
    first = next(parts)
    total = None
    for part in parts:
        total = cast(first if total is None else total, "float64") + cast(part, "float64")
    return first if total is None else total


def _centred_convolution(
    x: Value, x_zero: Value, w: Value, w_zero: Value, bias: Value, settings: dict[str, Any]
) -> Value:
    """Return the convolution of ints, less their zero points, as `centred_product`, in parts of the channels."""
    area, most = math.prod(w.shape[2:]), 2**24 // (largest_of(x, x_zero) * largest_of(w, w_zero))
    step, channels = most // area, w.shape[1]
    if channels > step and (step == 0 or settings.get("group", 1) != 1):
        out = conv(centred(x, x_zero, 1, "float64"), centred(w, w_zero, 0, "float64"), **settings)
    else:
        wide, weight = centred(x, x_zero, 1), centred(w, w_zero, 0)
        step = channels if channels <= step else step
        places = range(0, max(channels, 1), max(step, 1))
        whole = channels <= step
        out = sum_of_parts(
            conv(wide if whole else wide[:, k : k + step], weight[:, k : k + step], **settings) for k in places
        )
    return out if bias is None else cast(out, "float64") + cast(bias, "float64").reshape(1, -1, *(1,) * (x.ndim - 2))


@operator("ConvInteger")
def conv_integer(x: Value, w: Value, x_zero: Value = None, w_zero: Value = None, **settings: Any) -> Value:
    """Convolve ints, less their zero points."""
    return cast(_centred_convolution(x, x_zero, w, w_zero, None, settings), "int32")


@operator("ConvLevels")
def conv_levels(x: Value, w: Value, x_zero: Maybe, w_zero: Maybe, bias: Value = None, **settings: Any) -> Value:
    """Return a ConvInteger and a bias as float32: no operator of ONNX, but a ConvInteger, an Add and a Cast."""
    out = conv(centred(x, x_zero, 1), centred(w, w_zero, 0), **settings)
    return out if bias is None else out + cast(bias, "float32")


@operator("QLinearConv")
def qlinear_conv(
    x: Value,
    x_scale: Value,
    x_zero: Value,
    w: Value,
    w_scale: Value,
    w_zero: Value,
    y_scale: Value,
    y_zero: Value,
    bias: Value = None,
    **settings: Any,
) -> Value:
    """Convolve quantized numbers, and quantize the result."""
    out = cast(_centred_convolution(x, x_zero, w, w_zero, bias, settings), "float64")
    scale = cast(x_scale, "float64").reshape(()) * cast(aligned(out, w_scale, 1, 0), "float64")
    return quantize(out * scale, cast(y_scale, "float64"), y_zero)


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
