"""Quantized numbers: narrow dtypes, conversions, and products of ints."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from burnpy.backend.dtypes import dtype_of, int8
from burnpy.interop.onnx.operators.table import (
    DTYPES,
    NARROW,
    GraphWriter,
    Operand,
    Value,
    cast,
    only,
    onnx_dtype,
    operator,
    tensor,
)
from burnpy.interop.onnx.operators.windows import conv
from burnpy.tensor.joining import where
from burnpy.tensor.ordering import searchsorted

INTS = {21: (0, 15), 22: (-8, 7), 25: (0, 3), 26: (-2, 1)}
"""The limits of UINT4, INT4, UINT2 and INT2."""

POWERS = 24
"""FLOAT8E8M0, whose numbers are powers of two, without a sign."""


def is_narrow(number: int) -> bool:
    """Return whether tensors lack the dtype of a number of ``TensorProto.DataType``."""
    return number in NARROW and number not in DTYPES


def narrowed(x: Value, number: int, saturate: bool = True, round_mode: str = "up") -> Value:
    """Convert numbers to a dtype of ``TensorProto.DataType``, as the operator Cast does.

    Args:
        x: a tensor.
        number: of the dtype.
        saturate: whether numbers beyond the largest one become it, and not infinity or NaN.
        round_mode: of FLOAT8E8M0, whose numbers are powers of two: ``up``, ``down`` or ``nearest``.
    """
    if not is_narrow(number):
        return cast(x, onnx_dtype(number))
    if number in INTS:
        low, high = INTS[number]
        return cast((cast(x, "int64") - low).remainder(high - low + 1) + low, NARROW[number].wide)
    return _rounded(cast(x, "float32"), number, saturate, round_mode)


def _rounded(x: Value, number: int, saturate: bool, round_mode: str) -> Value:
    values, bounds, beyond = _table(number, round_mode)
    size = x.abs()
    places = searchsorted(tensor(bounds, x.device), size.reshape(-1), right=True).reshape(*x.shape)
    nearest = tensor(values, x.device).index_select(0, places.reshape(-1)).reshape(*x.shape)
    if not saturate:
        nearest = where(size >= float(beyond[0]), float(beyond[1]), nearest)
    missing = float(np.float32(np.nan).astype(NARROW[number].name).astype(np.float32))  # FLOAT4E2M1 has no NaN
    return where(x.isnan(), missing, nearest if number == POWERS else where(x < 0, -nearest, nearest))


@cache
def _table(number: int, round_mode: str) -> tuple[Any, Any, tuple[float, float]]:
    """Return the numbers of a dtype from 0 on, the least float32 that rounds to each but the first, and the least one
    beyond the largest, with what it becomes without saturation.
    """
    dtype = np.dtype(NARROW[number].name)
    count = 16 if "float4" in dtype.name else 256
    every = np.arange(count, dtype=np.uint8).view(dtype).astype(np.float32)
    values = np.unique(np.abs(every[np.isfinite(every)]))
    low, high = values[:-1], values[1:]
    if number == POWERS:
        middle = {"up": np.nextafter(low, high), "down": high, "nearest": low * 1.5}[round_mode]
        return values, middle.astype(np.float32), (np.inf, np.nan)
    middle = ((low.astype(np.float64) + high) / 2).astype(np.float32)
    goes_down = middle.astype(dtype).astype(np.float32) == low
    step = values[-1] - values[-2]
    tie = np.float32(values[-1] + step / 2)
    beyond = tie if len(values) % 2 == 0 else np.nextafter(tie, np.float32(np.inf))
    largest = np.float32(1e30).astype(dtype).astype(np.float32)
    return values, np.where(goes_down, np.nextafter(middle, high), middle), (float(beyond), float(largest))


def wide_dtype(number: int) -> Any:
    """Return the dtype of the tensor that holds numbers of a dtype of ``TensorProto.DataType``."""
    return dtype_of(NARROW[number].wide) if is_narrow(number) else onnx_dtype(number)


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
    dims = tuple(range(x.ndim))
    low, high = x.amin(dims, False).clamp(None, 0.0), x.amax(dims, False).clamp(0.0, None)
    scale = (high - low) / 255.0
    zero = cast((-low / scale).round().clamp(0.0, 255.0), "uint8")
    return quantize(x, scale, zero), scale, zero


def _largest(x: Value, zero: Value) -> int:
    """Return a bound of 8-bit ints less their zero point."""
    return 255 if zero is not None or x.dtype.name == "uint8" else 128


def _centred(x: Value, zero: Value, axis: int, dtype: str = "float32") -> Value:
    """Return ints less their zero point, as floats."""
    moved = cast(x, dtype)
    return moved if zero is None else moved - cast(aligned(x, zero, axis, 0), moved.dtype)


def _sum_of(parts: Iterator[Value]) -> Value:
    """Return the sum of products, which is exact: in float64 if there are several."""
    first = next(parts)
    total = None
    for part in parts:
        total = cast(first if total is None else total, "float64") + cast(part, "float64")
    return first if total is None else total


def centred_product(a: Value, a_zero: Value, b: Value, b_zero: Value) -> Value:
    """Return the product of matrices of ints, less their zero points, as exact floats.

    It is the sum of products of float32, each of so many terms that it is exact.
    """
    left, right = _centred(a, a_zero, -2), _centred(b, b_zero, -1)
    terms, step = a.shape[-1], 2**24 // (_largest(a, a_zero) * _largest(b, b_zero))
    if terms <= step:
        return left @ right
    return _sum_of(
        left[..., k : k + step] @ (right[k : k + step] if b.ndim == 1 else right[..., k : k + step, :])
        for k in range(0, terms, step)
    )


def _convolution(x: Value, x_zero: Value, w: Value, w_zero: Value, bias: Value, settings: dict[str, Any]) -> Value:
    """Return the convolution of ints, less their zero points, as `centred_product`, in parts of the channels."""
    area, most = math.prod(w.shape[2:]), 2**24 // (_largest(x, x_zero) * _largest(w, w_zero))
    step, channels = most // area, w.shape[1]
    if channels > step and (step == 0 or settings.get("group", 1) != 1):
        out = conv(_centred(x, x_zero, 1, "float64"), _centred(w, w_zero, 0, "float64"), **settings)
    else:
        wide, weight = _centred(x, x_zero, 1), _centred(w, w_zero, 0)
        step = channels if channels <= step else step
        places = range(0, max(channels, 1), max(step, 1))
        whole = channels <= step
        out = _sum_of(
            conv(wide if whole else wide[:, k : k + step], weight[:, k : k + step], **settings) for k in places
        )
    return out if bias is None else cast(out, "float64") + cast(bias, "float64").reshape(1, -1, *(1,) * (x.ndim - 2))


@operator("MatMulInteger")
def matmul_integer(a: Value, b: Value, a_zero: Value = None, b_zero: Value = None) -> Value:
    """Multiply matrices of ints, less their zero points."""
    return cast(centred_product(a, a_zero, b, b_zero), "int32")


@operator("QLinearMatMul")
def qlinear_matmul(
    a: Value, a_scale: Value, a_zero: Value, b: Value, b_scale: Value, b_zero: Value, y_scale: Value, y_zero: Value
) -> Value:
    """Multiply quantized matrices, and quantize the product."""
    product = cast(centred_product(a, a_zero, b, b_zero), "float32")
    scales = [cast(part, "float32") for part in (aligned(a, a_scale, -2, 0), aligned(b, b_scale, -1, 0), y_scale)]
    return quantize(product * (scales[0] * scales[1]), scales[2], y_zero)


@operator("ConvInteger")
def conv_integer(x: Value, w: Value, x_zero: Value = None, w_zero: Value = None, **settings: Any) -> Value:
    """Convolve ints, less their zero points."""
    return cast(_convolution(x, x_zero, w, w_zero, None, settings), "int32")


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
    out = cast(_convolution(x, x_zero, w, w_zero, bias, settings), "float64")
    scale = cast(x_scale, "float64").reshape(()) * cast(aligned(out, w_scale, 1, 0), "float64")
    return quantize(out * scale, cast(y_scale, "float64"), y_zero)


@only(since=21, when=lambda x, weight, scale: weight.dtype == int8)
def write_quantized_matmul(g: GraphWriter, x: Operand, weight: Operand, scale: Operand) -> Any:
    """Write a product with a matrix of int8 that a DequantizeLinear makes floats, by rows or by groups of a row."""
    groups = scale.shape[1]
    if groups == 1:
        matrix = g.node("DequantizeLinear", weight, g.node("Squeeze", scale, g.sizes((1,))), axis=0)
    else:
        matrix = g.node("DequantizeLinear", weight, scale, axis=1, block_size=weight.shape[1] // groups)
    return g.node("MatMul", x, g.node("Transpose", matrix, perm=[1, 0]))
