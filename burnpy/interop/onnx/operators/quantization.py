"""Quantized numbers: conversions, and products of ints."""

from __future__ import annotations

from typing import Any

import numpy as np

from burnpy.interop.onnx.operators.narrow_dtypes import INTS, is_narrow, narrowed, wide_dtype
from burnpy.interop.onnx.operators.table import Value, cast, onnx_dtype, operator
from burnpy.interop.onnx.operators.windows import conv

LIMITS = {"uint8": (0, 255), "int8": (-128, 127), "uint16": (0, 65535), "int16": (-32768, 32767)}


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
    axis = axis % max(x.ndim, 1)
    wide = cast(x, "float32") if x.dtype.itemsize == 2 or x.dtype.kind != "f" else x
    parts = cast(aligned(x, scale, axis, block_size), wide.dtype)
    if is_narrow(number) and number not in INTS:
        return narrowed(wide / parts, number, bool(saturate))
    dtype = zero.dtype if zero is not None else wide_dtype(number) if number else np.dtype(np.uint8)
    low, high = INTS[number] if number in INTS else LIMITS[dtype.name]
    rounded = cast((wide / parts).round().clamp(-(2.0**31), 2.0**31), "int64")
    moved = rounded if zero is None else rounded + cast(aligned(x, zero, axis, block_size), "int64")
    return cast(moved.clamp(low, high), dtype)


@operator("DequantizeLinear")
def dequantize(
    x: Value, scale: Value, zero: Value = None, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0
) -> Value:
    """Return (x - zero point) · scale."""
    axis = axis % max(x.ndim, 1)
    moved = x if x.dtype.kind == "f" else cast(x, "int64")
    if zero is not None:
        moved = moved - cast(aligned(x, zero, axis, block_size), moved.dtype)
    dtype = onnx_dtype(output_dtype) if output_dtype else scale.dtype
    return cast(cast(moved, scale.dtype) * aligned(x, scale, axis, block_size), dtype)


@operator("DynamicQuantizeLinear")
def dynamic_quantize(x: Value) -> Any:
    """Quantize to uint8 by the range of x, and return the scale and the zero point too."""
    dims = tuple(range(x.ndim))
    low, high = x.amin(dims, False).clamp(None, 0.0), x.amax(dims, False).clamp(0.0, None)
    scale = (high - low) / 255.0
    zero = cast((-low / scale).round().clamp(0.0, 255.0), "uint8")
    return quantize(x, scale, zero), scale, zero


def _centred(x: Value, zero: Value, axis: int) -> Value:
    moved = cast(x, "int64")
    return moved if zero is None else moved - cast(aligned(x, zero, axis, 0), "int64")


@operator("MatMulInteger")
def matmul_integer(a: Value, b: Value, a_zero: Value = None, b_zero: Value = None) -> Value:
    """Multiply matrices of ints, less their zero points."""
    return cast(_centred(a, a_zero, -2) @ _centred(b, b_zero, -1), "int32")


@operator("QLinearMatMul")
def qlinear_matmul(
    a: Value, a_scale: Value, a_zero: Value, b: Value, b_scale: Value, b_zero: Value, y_scale: Value, y_zero: Value
) -> Value:
    """Multiply quantized matrices, and quantize the product."""
    product = cast(_centred(a, a_zero, -2) @ _centred(b, b_zero, -1), "float32")
    scales = [cast(part, "float32") for part in (aligned(a, a_scale, -2, 0), aligned(b, b_scale, -1, 0), y_scale)]
    return quantize(product * (scales[0] * scales[1]), scales[2], y_zero)


@operator("ConvInteger")
def conv_integer(x: Value, w: Value, x_zero: Value = None, w_zero: Value = None, **settings: Any) -> Value:
    """Convolve ints, less their zero points."""
    parts = [cast(part, "float64") for part in (_centred(x, x_zero, 1), _centred(w, w_zero, 0))]
    return cast(conv(*parts, **settings), "int32")


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
    parts = [cast(part, "float64") for part in (_centred(x, x_zero, 1), _centred(w, w_zero, 0))]
    out = conv(*parts, None if bias is None else cast(bias, "float64"), **settings)
    scale = cast(x_scale, "float64").reshape(()) * cast(aligned(out, w_scale, 1, 0), "float64")
    return quantize(out * scale, cast(y_scale, "float64"), y_zero)
