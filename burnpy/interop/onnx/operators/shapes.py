"""Operators that make, reshape, join and cut tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from burnpy.backend.dtypes import int64
from burnpy.backend.primitives import DType
from burnpy.interop.onnx.operators.indexing import wrapped
from burnpy.interop.onnx.operators.table import (
    GraphWriter,
    Ints,
    Numbers,
    Operand,
    Scalar,
    Value,
    arange,
    cast,
    is_float,
    like,
    onnx_dtype,
    operator,
    tensor,
)
from burnpy.nn import functional
from burnpy.tensor.joining import cat, where
from burnpy.tensor.tensor import Tensor


@operator("Shape")
def shape(x: Value, *, start: int = 0, end: int | None = None) -> Value:
    """Return the shape of x, or a part of it, on the host."""
    return tensor(np.array(x.shape[slice(start, end)], np.int64))


@operator("Size")
def size(x: Value) -> Value:
    """Return the number of elements, on the host."""
    return tensor(np.array(x.numel(), np.int64))


@operator("ConstantOfShape")
def constant_of_shape(shape: Ints, *, value: Any = None) -> Value:
    """Return a tensor filled with one value, on the host."""
    return tensor(np.full(shape, np.float32(0) if value is None else value.reshape(-1)[0]))


@operator("Range")
def range_(start: Numbers, limit: Numbers, delta: Numbers) -> Value:
    """Return start, start + delta, … below the limit, on the host."""
    first, end, step = (x.item() for x in (start, limit, delta))
    count = max(math.ceil((end - first) / step), 0)
    return tensor((first + np.arange(count) * step).astype(start.dtype))


@operator("EyeLike")
def eye_like(x: Value, *, dtype: int | None = None, k: int = 0) -> Value:
    """Return a matrix of x's shape with ones on a diagonal."""
    rows, columns = x.shape
    ones = arange(columns, x.device) == (arange(rows, x.device) + k).unsqueeze(1)
    return cast(ones, x.dtype if dtype is None else onnx_dtype(dtype))


@operator("Reshape")
def reshape(x: Value, shape: Ints = (), *, shape_: tuple[int, ...] | None = None, allowzero: int = 0) -> Value:
    """Return x with another shape; 0 stands for x's size, unless ``allowzero``."""
    sizes = shape if shape_ is None else shape_
    return x.reshape(*[x.shape[k] if n == 0 and not allowzero else n for k, n in enumerate(sizes)])


@operator("Flatten")
def flatten(x: Value, *, axis: int = 1) -> Value:
    """Return a matrix of the sizes before an axis and of the others."""
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


@operator("Transpose")
def transpose(x: Value, *, perm: tuple[int, ...] | None = None) -> Value:
    """Permute the dimensions, by default in reverse."""
    return x.permute(*(range(x.ndim)[::-1] if perm is None else perm))


@operator("Unsqueeze")
def unsqueeze(x: Value, axes_: Ints | None = None, *, axes: tuple[int, ...] | None = None) -> Value:
    """Insert dimensions of size 1."""
    given = (axes_ if axes is None else axes) or ()
    ndim = x.ndim + len(given)
    for dim in sorted([axis % ndim for axis in given]):
        x = x.unsqueeze(dim)
    return x


@operator("Squeeze")
def squeeze(x: Value, axes_: Ints | None = None, *, axes: tuple[int, ...] | None = None) -> Value:
    """Remove dimensions of size 1, by default all."""
    given = axes_ if axes is None else axes
    dims = [k for k, n in enumerate(x.shape) if n == 1] if given is None else [axis % x.ndim for axis in given]
    return x.reshape(*[n for k, n in enumerate(x.shape) if k not in dims])


@operator("Concat")
def concat(*xs: Value, axis: int) -> Value:
    """Concatenate."""
    return cat(list(xs), dim=axis)


@operator("Split")
def split(
    x: Value,
    sizes: Ints | None = None,
    *,
    axis: int = 0,
    split: tuple[int, ...] | None = None,
    num_outputs: int | None = None,
    outputs: int,
) -> Any:
    """Cut into parts of given sizes, or into equal ones, where the last may be smaller."""
    given = split if sizes is None else sizes
    if given is None:
        total, count = x.shape[axis], num_outputs or outputs
        each = -(-total // count)
        given = tuple([max(min(each, total - k * each), 0) for k in range(count)])
    return tuple(x.split(list(given), dim=axis))


@operator("Expand")
def expand(x: Value, shape: Ints) -> Value:
    """Broadcast x with a shape."""
    return x.expand(*np.broadcast_shapes(x.shape, shape)) if shape else x


@operator("Tile")
def tile(x: Value, repeats: Ints) -> Value:
    """Repeat x along each dimension."""
    return x.repeat(*repeats)


@operator("Slice")
def slice_(
    x: Value,
    starts_: Ints | None = None,
    ends_: Ints | None = None,
    axes_: Ints | None = None,
    steps: Ints | None = None,
    *,
    starts: tuple[int, ...] = (),
    ends: tuple[int, ...] = (),
    axes: tuple[int, ...] | None = None,
) -> Value:
    """Cut a part out of x; bounds beyond its ends are its ends."""
    first, last = starts if starts_ is None else starts_, ends if ends_ is None else ends_
    chosen = axes if axes_ is None else axes_
    dims = range(len(first)) if chosen is None else chosen
    key = [slice(None)] * x.ndim
    for k, dim in enumerate(dims):
        step, stop = 1 if steps is None else steps[k], last[k]
        size = x.shape[dim]
        key[dim % x.ndim] = slice(first[k], None if step < 0 and stop < -size else stop, step)
    return x[tuple(key)] if key else x


@operator("Pad")
def pad(
    x: Value,
    pads_: Ints | None = None,
    value_: Scalar | None = None,
    axes: Ints | None = None,
    *,
    pads: tuple[int, ...] = (),
    value: float = 0.0,
    mode: str = "constant",
    paddings: tuple[int, ...] = (),
) -> Value:
    """Pad, or cut for negative numbers."""
    numbers = (pads or paddings) if pads_ is None else pads_
    count = len(numbers) // 2
    dims = list(range(count)) if axes is None else [axis % x.ndim for axis in axes]
    low, high = [0] * x.ndim, [0] * x.ndim
    for k, dim in enumerate(dims):
        low[dim], high[dim] = numbers[k], numbers[count + k]
    inside = [slice(max(-a, 0), n - max(-b, 0)) for a, b, n in zip(low, high, x.shape, strict=True)]
    if any(a < 0 or b < 0 for a, b in zip(low, high, strict=True)):
        x = x[tuple(inside)]
    constant = value if value_ is None else value_
    if x.dtype.kind in "biu":
        constant = bool(constant) if x.dtype.kind == "b" else int(constant)
    if mode == "constant" and isinstance(x, Tensor):
        ends = [max(n, 0) for pair in zip(low[::-1], high[::-1], strict=True) for n in pair]
        return functional.pad(x, ends, value=constant) if any(ends) else x
    for dim in range(x.ndim):
        before, after = max(low[dim], 0), max(high[dim], 0)
        if not before and not after:
            continue
        if mode != "constant":
            how: Any = mode
            places = np.pad(np.arange(x.shape[dim]), (before, after), how)
            x = x.index_select(dim, tensor(places, x.device))
            continue
        low_end, high_end = (
            like(x, [n if k == dim else m for k, m in enumerate(x.shape)], constant) for n in (before, after)
        )
        x = cat([low_end, x, high_end], dim=dim)
    return x


@operator("Trilu")
def trilu(x: Value, k: Ints = (0,), *, upper: int = 1) -> Value:
    """Return a triangle of matrices."""
    diagonal = k[0] if k else 0
    return x.triu(diagonal) if upper else x.tril(diagonal)


@operator("CenterCropPad")
def center_crop_pad(x: Value, shape: Ints, *, axes: tuple[int, ...] | None = None) -> Value:
    """Cut or pad to a shape, the same on both sides."""
    for axis, target in zip(range(x.ndim) if axes is None else axes, shape, strict=True):
        dim = axis % x.ndim
        extra = target - x.shape[dim]
        if extra <= 0:
            x = x.narrow(dim, (-extra) // 2, target)
        else:
            sizes = [extra // 2, extra - extra // 2]
            ends = [like(x, [n if k == dim else m for k, m in enumerate(x.shape)], 0) for n in sizes]
            x = cat([ends[0], x, ends[1]], dim=dim)
    return x


@operator("DepthToSpace")
def depth_to_space(x: Value, *, blocksize: int, mode: str = "DCR") -> Value:
    """Move blocks of channels to squares of pixels."""
    if mode == "CRD":
        return functional.pixel_shuffle(x, blocksize)
    n, c, h, w = x.shape
    b = blocksize
    return x.reshape(n, b, b, c // b // b, h, w).permute(0, 3, 4, 1, 5, 2).reshape(n, c // b // b, h * b, w * b)


@operator("SpaceToDepth")
def space_to_depth(x: Value, *, blocksize: int, mode: str = "DCR") -> Value:
    """Move squares of pixels to blocks of channels."""
    n, c, h, w = x.shape
    b = blocksize
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return x.reshape(n, c, h // b, b, w // b, b).permute(*order).reshape(n, c * b * b, h // b, w // b)


@operator("ReverseSequence")
def reverse_sequence(x: Value, lengths: Value, *, batch_axis: int = 1, time_axis: int = 0) -> Value:
    """Reverse the first elements of each sequence."""
    moved = x if batch_axis == 0 else x.transpose(0, 1)
    order = arange(moved.shape[1], x.device).unsqueeze(0)
    ends = cast(lengths, "int64").unsqueeze(1)
    places = where(order < ends, ends - 1 - order, order)
    places = places.reshape(*places.shape, *(1,) * (x.ndim - 2)).expand(*moved.shape)
    out = moved.gather(1, places)
    return out if batch_axis == 0 else out.transpose(0, 1)


@operator("Col2Im")
def col2im(
    x: Value,
    image: Ints,
    block: Ints,
    *,
    dilations: tuple[int, ...] | None = None,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> Value:
    """Sum blocks into an image of any number of dimensions."""
    n = len(image)
    dilation, stride = dilations or (1,) * n, strides or (1,) * n
    padding = pads or (0,) * 2 * n
    whole = [size + padding[d] + padding[n + d] for d, size in enumerate(image)]
    counts = [(whole[d] - dilation[d] * (block[d] - 1) - 1) // stride[d] + 1 for d in range(n)]
    places = np.zeros((*block, *counts), np.int64)
    for d in range(n):
        taps = np.arange(block[d]).reshape(-1, 1) * dilation[d] + np.arange(counts[d]) * stride[d]
        sizes = [1] * (2 * n)
        sizes[d], sizes[n + d] = taps.shape
        places = places * whole[d] + taps.reshape(sizes)
    channels = x.shape[1] // math.prod(block)
    columns = x.reshape(x.shape[0], channels, places.size)
    index = tensor(places.reshape(-1), x.device)
    out = like(x, (x.shape[0], channels, math.prod(whole)), 0).index_add(2, index, columns)
    out = out.reshape(x.shape[0], channels, *whole)
    return out[(slice(None), slice(None), *[slice(padding[d], padding[d] + image[d]) for d in range(n)])]


@operator("OneHot")
def one_hot(index: Value, depth: Ints, values: Value, *, axis: int = -1) -> Value:
    """Return the on value at an index of a new dimension, and the off value elsewhere; all are off at an index that
    does not exist.
    """
    chosen = wrapped(index, depth[0]).unsqueeze(-1) == arange(depth[0], index.device)
    return where(chosen, values[1], values[0]).movedim(-1, axis)


def write_reshape(g: GraphWriter, x: Operand, shape: Any) -> Any:
    """Write a Reshape; one size that varies between calls is left to the operator."""
    varying = [k for k, size in enumerate(shape) if not isinstance(size, int)]
    if len(varying) == 1 and 0 not in shape:
        return g.node("Reshape", x, g.sizes([-1 if k in varying else size for k, size in enumerate(shape)]))
    return g.node("Reshape", x, g.sizes(shape), allowzero=1)


def write_permute(g: GraphWriter, x: Operand, dims: Any) -> Any:
    """Write a Transpose."""
    return g.node("Transpose", x, perm=list(dims)) if dims else x


def write_transposed(g: GraphWriter, x: Operand) -> Any:
    """Write a Transpose of the last two dimensions."""
    ndim = len(x.shape)
    return g.node("Transpose", x, perm=[*range(ndim - 2), ndim - 1, ndim - 2])


def write_expand(g: GraphWriter, x: Operand, shape: Any) -> Any:
    """Write an Expand."""
    return g.node("Expand", x, g.sizes(shape))


_ENDS = (-(2**62), 2**62)


def write_slice(g: GraphWriter, x: Any, key: Any) -> Any:
    """Write a Slice, and the removed and new dimensions."""
    starts, ends, axes, steps, removed, added = [], [], [], [], [], []
    axis = place = 0
    for entry in key:
        if entry is None:
            added.append(place)
        elif isinstance(entry, slice):
            step = 1 if entry.step is None else entry.step
            before, after = _ENDS if step > 0 else _ENDS[::-1]
            if (entry.start, entry.stop, step) != (None, None, 1):
                starts.append(before if entry.start is None else entry.start)
                ends.append(after if entry.stop is None else entry.stop)
                axes.append(axis)
                steps.append(step)
        else:
            starts.append(entry)
            ends.append(g.each(lambda k: k + 1 if k != -1 else _ENDS[1], entry))
            axes.append(axis)
            steps.append(1)
            removed.append(axis)
        place += entry is None or isinstance(entry, slice)
        axis += entry is not None
    if axes:
        x = g.node("Slice", x, g.sizes(starts), g.sizes(ends), g.sizes(axes), g.sizes(steps))
    if removed:
        x = g.node("Squeeze", x, g.sizes(removed))
    return g.node("Unsqueeze", x, g.sizes(added)) if added else x


def write_slice_scatter(g: GraphWriter, x: Operand, key: Any, src: Any) -> Any:
    """Write the update of a slice: of the elements at the row-major places that the slice of all places has."""
    total, vector = g.node("Size", x), g.sizes((-1,))
    order = g.node("Range", g.constant(0, int64), total, g.constant(1, int64))
    places = write_slice(g, g.node("Reshape", order, g.node("Shape", x)), key)
    values = g.node("Expand", g.cast(src, x.dtype), g.node("Shape", places))
    flat = [g.node("Reshape", part, vector) for part in (x, places, values)]
    return g.node("Reshape", g.node("ScatterElements", *flat, axis=0), g.node("Shape", x))


def write_cat(g: GraphWriter, xs: Sequence[Operand], dim: int) -> Any:
    """Write a Concat."""
    return g.node("Concat", *xs, axis=dim)


def triangle(upper: bool) -> Callable[..., Any]:
    """Return the rule of a triangle of matrices."""

    def rule(g: GraphWriter, x: Operand, diagonal: int) -> Any:
        return g.node("Trilu", x, g.constant(diagonal, int64), upper=int(upper))

    return rule


write_tril, write_triu = triangle(upper=False), triangle(upper=True)


def write_full(g: GraphWriter, shape: Any, value: Any, dtype: DType) -> Any:
    """Write a constant of a shape."""
    number = g.constant(value, dtype)
    return g.node("Expand", number, g.sizes(shape)) if shape else number


def write_arange(g: GraphWriter, start: Any, stop: Any, step: Any, dtype: DType) -> Any:
    """Write a Range; of floats start + step · k, as each element is rounded once."""
    if not is_float(dtype):
        return g.node("Cast", g.node("Range", *[g.constant(k, int64) for k in (start, stop, step)]), to=dtype)
    count = g.each(lambda a, b, c: max(math.ceil((b - a) / c), 0), start, stop, step)
    order = g.node("Cast", g.node("Range", *[g.constant(k, int64) for k in (0, count, 1)]), to=dtype)
    return g.node("Add", g.node("Mul", order, g.constant(step, dtype)), g.constant(start, dtype))
