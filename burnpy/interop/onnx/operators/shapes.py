"""Operators that make, reshape, join and cut tensors, and that select and change elements at indices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from burnpy.backend.devices import innermost
from burnpy.backend.dtypes import float32, float64, int64, kind_of
from burnpy.backend.primitives import DType
from burnpy.interop.onnx.operators.table import (
    CLASSES,
    HOST,
    Conditional,
    GraphWriter,
    Ints,
    Kept,
    Numbers,
    Operand,
    Scalar,
    Value,
    arange,
    cast,
    common_dtype,
    is_float,
    like,
    only,
    onnx_dtype,
    operator,
    rule,
    tensor,
)
from burnpy.interop.onnx.sizes import Size
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
def constant_of_shape(shape: Ints, device_like: Value = None, *, value: Any = None) -> Value:
    """Return a tensor filled with one value, on the host, or on the device of another tensor."""
    number = np.float32(0) if value is None else value.reshape(-1)[0]
    return like(tensor(number, getattr(device_like, "device", HOST)), shape, number.item())


@operator("Range")
def range_(start: Numbers, limit: Numbers, delta: Numbers, device_like: Value = None) -> Value:
    """Return start, start + delta, … below the limit, on the host, or on the device of another tensor."""
    (first, end, step), device = [x.item() for x in (start, limit, delta)], getattr(device_like, "device", HOST)
    stop = end if (end - first) * step > 0 else first
    return CLASSES[kind_of(start.dtype)].arange(first, stop, step, dtype=start.dtype, device=device)


@operator("EyeLike")
def eye_like(x: Value, *, dtype: int | None = None, k: int = 0) -> Value:
    """Return a matrix of x's shape with ones on a diagonal."""
    rows, columns = x.shape
    ones = arange(columns, x.device) == (arange(rows, x.device) + k).unsqueeze(1)
    return cast(ones, x.dtype if dtype is None else onnx_dtype(dtype))


@operator("Reshape")
def reshape(x: Value, shape: Ints = (), *, allowzero: int = 0) -> Value:
    """Return x with another shape; 0 stands for x's size, unless ``allowzero``."""
    return x.reshape(*[x.shape[k] if n == 0 and not allowzero else n for k, n in enumerate(shape)])


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
def unsqueeze(x: Value, axes: Ints = ()) -> Value:
    """Insert dimensions of size 1."""
    ndim = x.ndim + len(axes)
    for dim in sorted([axis % ndim for axis in axes]):
        x = x.unsqueeze(dim)
    return x


@operator("Squeeze")
def squeeze(x: Value, axes: Ints | None = None) -> Value:
    """Remove dimensions of size 1, by default all."""
    dims = [k for k, n in enumerate(x.shape) if n == 1] if axes is None else [axis % x.ndim for axis in axes]
    return x.reshape(*[n for k, n in enumerate(x.shape) if k not in dims])


@operator("Concat")
def concat(*xs: Value, axis: int) -> Value:
    """Concatenate."""
    return cat(list(xs), dim=axis)


@operator("Split")
def split(x: Value, split: Ints | None = None, *, axis: int = 0, num_outputs: int | None = None, outputs: int) -> Any:
    """Cut into parts of given sizes, or into equal ones, where the last may be smaller."""
    if split is None:
        total, count = x.shape[axis], num_outputs or outputs
        each = -(-total // count)
        split = tuple([max(min(each, total - k * each), 0) for k in range(count)])
    return tuple(x.split(list(split), dim=axis))


@operator("Expand")
def expand(x: Value, shape: Ints) -> Value:
    """Broadcast x with a shape."""
    return x.expand(*np.broadcast_shapes(x.shape, shape)) if shape else x


@operator("Tile")
def tile(x: Value, repeats: Ints) -> Value:
    """Repeat x along each dimension."""
    return x.repeat(*repeats)


_WHOLE = (2**31 - 1, 2**63 - 1)  # the ends that onnxruntime takes for the last element, backward for the first


@operator("Slice")
def slice_(x: Value, starts: Ints = (), ends: Ints = (), axes: Ints | None = None, steps: Ints | None = None) -> Value:
    """Cut a part out of x; bounds beyond its ends are its ends, and a backward start before the first element is it."""
    key = [slice(None)] * x.ndim
    for k, dim in enumerate(range(len(starts)) if axes is None else axes):
        start, step, size = starts[k], 1 if steps is None else steps[k], x.shape[dim]
        backward = step < 0 < size
        to_first = backward and (ends[k] < -size or ends[k] in _WHOLE)
        key[dim % x.ndim] = slice(max(start, -size) if backward else start, None if to_first else ends[k], step)
    return x[tuple(key)] if key else x


@operator("Pad")
def pad(
    x: Value,
    pads: Ints = (),
    value: Scalar = None,
    axes: Ints | None = None,
    *,
    mode: Any = "constant",
    paddings: tuple[int, ...] = (),
) -> Value:
    """Pad, or cut for negative numbers."""
    numbers = pads or paddings
    dims = list(range(len(numbers) // 2)) if axes is None else [axis % x.ndim for axis in axes]
    sizes_around = np.zeros((x.ndim, 2), int)
    sizes_around[dims] = np.reshape(numbers, (2, -1)).T
    ends, cuts = sizes_around.clip(0).tolist(), (-sizes_around).clip(0).tolist()
    x = x[tuple([slice(a, n - b) for (a, b), n in zip(cuts, x.shape, strict=True)])] if np.any(cuts) else x
    constant = value or 0.0
    how: Any = {"value": constant} if mode == "constant" else {"mode": _PADS[mode]}
    inside = mode != "wrap" and (innermost(x.device).sizes_vary or np.all(np.max(ends, 1, initial=0) < x.shape))
    if isinstance(x, Tensor) and (mode == "constant" or inside):
        sizes = [n for pair in ends[::-1] for n in pair]
        return functional.pad(x, sizes, **how) if any(sizes) else x
    for dim, around in enumerate(ends):
        if mode == "constant":
            x = _between(x, dim, around, bool(constant) if x.dtype.kind == "b" else int(constant))
        elif any(around):
            n = x.shape[dim]
            places = (arange(n + sum(around), x.device) - around[0]).remainder(n)
            x = x.index_select(dim, places if mode == "wrap" else tensor(np.pad(np.arange(n), around, mode), x.device))
    return x


def _between(x: Value, dim: int, sizes: Sequence[int], value: Any) -> Value:
    """Return x with so many slices of a value before and after it."""
    ends = [like(x, [n if k == dim else m for k, m in enumerate(x.shape)], value) for n in sizes]
    return cat([ends[0], x, ends[1]], dim=dim) if any(sizes) else x


@operator("Trilu")
def trilu(x: Value, k: Ints = (0,), *, upper: int = 1) -> Value:
    """Return a triangle of matrices."""
    return x.triu(*k) if upper else x.tril(*k)


@operator("CenterCropPad")
def center_crop_pad(x: Value, shape: Ints, *, axes: tuple[int, ...] | None = None) -> Value:
    """Cut or pad to a shape, the same on both sides."""
    for axis, target in zip(range(x.ndim) if axes is None else axes, shape, strict=True):
        dim = axis % x.ndim
        extra = target - x.shape[dim]
        if extra <= 0:
            x = x.narrow(dim, (-extra) // 2, target)
        else:
            x = _between(x, dim, [extra // 2, extra - extra // 2], 0)
    return x


@operator("DepthToSpace")
def depth_to_space(x: Value, *, blocksize: int, mode: Literal["DCR", "CRD"] = "DCR") -> Value:
    """Move blocks of channels to squares of pixels."""
    if mode == "CRD":
        return functional.pixel_shuffle(x, blocksize)
    (n, c, h, w), b = x.shape, blocksize
    return x.reshape(n, b, b, c // b // b, h, w).permute(0, 3, 4, 1, 5, 2).reshape(n, c // b // b, h * b, w * b)


@operator("SpaceToDepth")
def space_to_depth(x: Value, *, blocksize: int, mode: Literal["DCR", "CRD"] = "DCR") -> Value:
    """Move squares of pixels to blocks of channels."""
    (n, c, h, w), b = x.shape, blocksize
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return x.reshape(n, c, h // b, b, w // b, b).permute(*order).reshape(n, c * b * b, h // b, w // b)


@operator("OneHot")
def one_hot(index: Value, depth: Ints, values: Value, *, axis: int = -1) -> Value:
    """Return the on value at an index of a new dimension, if it exists, and the off value elsewhere."""
    chosen = wrapped(index, depth[0]).unsqueeze(-1) == arange(depth[0], index.device)
    return where(chosen, values[1], values[0]).movedim(-1, axis)


REDUCTIONS = {"mul": "prod", "max": "amax", "min": "amin"}


def wrapped(index: Value, size: int) -> Value:
    """Return an index of int64 whose negative elements count from the end."""
    index = cast(index, "int64")
    return where(index < 0, index + size, index)


@operator("Gather")
def gather(x: Value, index: Value, *, axis: int = 0) -> Value:
    """Select slices at an index of any shape."""
    dim = axis % x.ndim
    places = wrapped(index, x.shape[dim])
    return x.index_select(dim, places.reshape(-1)).reshape(*x.shape[:dim], *places.shape, *x.shape[dim + 1 :])


@operator("GatherElements")
def gather_elements(x: Value, index: Value, *, axis: int = 0) -> Value:
    """Select elements along an axis."""
    return x.gather(axis % x.ndim, wrapped(index, x.shape[axis]))


def flat_index(index: Value, sizes: tuple[int, ...]) -> Value:
    """Return the row-major place of index tuples, which are the last dimension of ``index``."""
    flat: Value = 0
    for k, size in enumerate(sizes):
        places = wrapped(index[..., k], size)
        checked = arange(size, index.device).index_select(0, places.reshape(-1))  # else 3 of 2 would be in the next row
        flat = flat * size + checked.reshape(*places.shape)
    return flat


@operator("GatherND")
def gather_nd(x: Value, index: Value, *, batch_dims: int = 0) -> Value:
    """Select slices at tuples of indices."""
    b, k = batch_dims, index.shape[-1]
    lead, inner = math.prod(x.shape[:b]), x.shape[b : b + k]
    rest, size = x.shape[b + k :], math.prod(inner)
    flat = flat_index(index.reshape(lead, -1, k), inner) + arange(lead, x.device).unsqueeze(1) * size
    picked = x.reshape(lead * size, *rest).index_select(0, flat.reshape(-1))
    return picked.reshape(*index.shape[:-1], *rest)


@operator("ScatterElements", "Scatter")
def scatter_elements(x: Value, index: Value, updates: Value, *, axis: int = 0, reduction: str = "none") -> Value:
    """Write or combine elements along an axis."""
    dim = axis % x.ndim
    places = wrapped(index, x.shape[dim])
    if reduction == "none":
        return x.scatter(dim, places, updates)
    return x.scatter_reduce(dim, places, updates, {"add": "sum", **REDUCTIONS}[reduction])


@operator("ScatterND")
def scatter_nd(x: Value, index: Value, updates: Value, *, reduction: str = "none") -> Value:
    """Write or combine slices at tuples of indices."""
    k = index.shape[-1]
    lead, rest = math.prod(x.shape[:k]), x.shape[k:]
    flat = flat_index(index.reshape(-1, k), x.shape[:k])
    whole, values = x.reshape(lead, *rest), updates.reshape(flat.shape[0], *rest)
    if reduction == "none":
        out = whole.index_copy(0, flat, values)
    elif reduction == "add":
        out = whole.index_add(0, flat, values)
    else:
        out = whole.index_reduce(0, flat, values, REDUCTIONS[reduction])
    return out.reshape(*x.shape)


@operator("Compress")
def compress(x: Value, mask: Kept, *, axis: int | None = None) -> Value:
    """Select the slices whose mask is true."""
    flat, places = x.reshape(-1) if axis is None else x, mask.nonzero().reshape(-1)
    return flat.index_select(axis or 0, places.to_device(x.device) if mask.device is HOST else places)


def write_reshape(g: GraphWriter, x: Operand, shape: Any) -> Any:
    """Write a Reshape; one size that varies between calls, and is none of x, is left to the operator."""
    varying = [k for k, size in enumerate(shape) if not isinstance(size, int)]
    if len(varying := [k for k in varying if shape[k] not in x.shape] or varying) == 1 and 0 not in shape:
        return g.node("Reshape", x, g.sizes([-1 if k in varying else size for k, size in enumerate(shape)]))
    return g.node("Reshape", x, g.sizes(shape), allowzero=1)


_ENDS = (-(2**62), 2**62)


def write_slice(g: GraphWriter, x: Operand, key: Any) -> Any:
    """Write a Slice, and the removed and new dimensions."""
    bounds, removed, added = [], [], []  # starts, ends, axes and steps
    axis = place = 0
    out: Any = x
    for entry in key:
        if entry is None:
            added.append(place)
        elif isinstance(entry, slice):
            start, stop, step = entry.start, entry.stop, 1 if entry.step is None else entry.step
            before, after = _ENDS if step > 0 else _ENDS[::-1]
            if step < 0 and isinstance(x.shape[axis], Size) and isinstance(start, int) and start < -1:
                # few elements have none before the start, and a backward Slice takes the first one instead
                out = g.node("Slice", out, *[g.sizes((n,)) for n in (0, start + 1, axis)])
                stop, start = stop - start - 1 if isinstance(stop, int) and stop < 0 else stop, None
            if (start, stop, step) != (None, None, 1):
                bounds.append((before if start is None else start, after if stop is None else stop, axis, step))
        else:
            bounds.append((entry, g.each(lambda k: k + 1 if k != -1 else _ENDS[1], entry), axis, 1))
            removed.append(axis)
        place += entry is None or isinstance(entry, slice)
        axis += entry is not None
    if bounds:
        out = g.node("Slice", out, *[g.sizes(column) for column in zip(*bounds, strict=True)])
    if removed:
        out = g.node("Squeeze", out, g.sizes(removed))
    return g.node("Unsqueeze", out, g.sizes(added)) if added else out


def write_slice_scatter(g: GraphWriter, x: Operand, key: Any, src: Any) -> Any:
    """Write the update of a slice: of the elements at the row-major places that the slice of all places has.

    In an array that is filled with one number, it is a Pad.
    """
    if (fill := g.filling(x)) is not None and all(isinstance(each, slice) and each.step in (None, 1) for each in key):
        bounds = [*key, *[slice(None)] * (len(x.shape) - len(key))]
        starts = [each.start or 0 for each in bounds]
        ends = [
            0 if each.stop is None else g.each(lambda size, stop: size - stop, size, each.stop)
            for size, each in zip(x.shape, bounds, strict=True)
        ]
        return g.node("Pad", g.cast(src, x.dtype), g.sizes([*starts, *ends]), fill)
    total, vector = g.node("Size", x), g.sizes((-1,))
    order = g.node("Range", g.constant(0, int64), total, g.constant(1, int64))
    places = write_slice(g, Operand(g.node("Reshape", order, g.node("Shape", x)), x.shape, int64), key)
    values = g.node("Expand", g.cast(src, x.dtype), g.node("Shape", places))
    flat = [g.node("Reshape", part, vector) for part in (x, places, values)]
    return g.node("Reshape", g.node("ScatterElements", *flat, axis=0), g.node("Shape", x))


_PADS = {"reflect": "reflect", "edge": "replicate", "wrap": "circular"}


@only(since=19, when=lambda x, pairs, how: min(map(min, pairs)) >= 0)
def write_pad_ends(g: GraphWriter, x: Operand, pairs: Any, how: str) -> Any:
    """Write a Pad with elements of x."""
    sizes = g.sizes([pair[end] for end in (0, 1) for pair in pairs])
    return g.node("Pad", x, sizes, mode=next(mode for mode, name in _PADS.items() if name == how))


write_permute = rule(lambda g, x, dims: g.node("Transpose", x, perm=list(dims)) if dims else x)
write_expand = rule(lambda g, x, shape: g.node("Expand", x, g.sizes(shape)))
write_transposed = rule(lambda g, x: g.node("Transpose", x, perm=[*range(n := len(x.shape) - 2), n + 1, n]))
write_cat = rule(lambda g, xs, dim: g.node("Concat", *xs, axis=dim))
write_eye = rule(lambda g, n, m, to: g.node("Cast", g.node("EyeLike", write_full(g, (n, m), 0.0, float32)), to=to))
write_tril = rule(lambda g, x, diagonal: g.node("Trilu", x, g.constant(diagonal, int64), upper=0))
write_triu = rule(lambda g, x, diagonal: g.node("Trilu", x, g.constant(diagonal, int64), upper=1))
write_index_select = rule(lambda g, x, dim, index: g.node("Gather", x, index, axis=dim))
write_embedding = rule(lambda g, weight, index, padding: g.node("Gather", weight, index, axis=0))
write_gather = rule(lambda g, x, dim, index: g.node("GatherElements", x, index, axis=dim))
write_unchecked = Conditional(lambda g, index, *rest: index, when=lambda *args: len(args) == 1 or args[4] is None)


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


def write_linspace(g: GraphWriter, start: Any, stop: Any, num: Any, dtype: DType) -> Any:
    """Write start + k · (stop - start) / (num - 1) in float64; ``stop`` is exact, and the only one is ``start``."""
    first, last, zero = g.constant(start, float64), g.constant(stop, float64), g.constant(0, int64)
    one, count = g.constant(1, int64), g.constant(num, int64)
    order, steps = g.node("Range", zero, count, one), g.node("Max", g.node("Sub", count, one), one)
    step = g.node("Div", g.node("Sub", last, first), g.node("Cast", steps, to=float64))
    line = g.node("Add", g.node("Mul", g.node("Cast", order, to=float64), step), first)
    return g.node("Cast", g.node("Where", g.node("Equal", order, steps), last, line), to=dtype)


def write_scatter(g: GraphWriter, x: Operand, dim: int, index: Operand, src: Operand, reduction: str = "none") -> Any:
    """Write the update of elements at an index."""
    axes = range(len(index.shape))
    inside = g.sizes([0] * len(axes)), g.node("Shape", index), g.sizes(axes)  # src may be larger
    return _updated(g, x, dim, index, src, reduction, lambda values: g.node("Slice", values, *inside))


def write_index_put(g: GraphWriter, x: Operand, dim: int, index: Operand, src: Operand, reduction: str = "none") -> Any:
    """Write the update of the slices at a 1-d index."""
    column = g.node("Unsqueeze", index, g.sizes([k for k in range(len(src.shape)) if k != dim]))
    return _updated(g, x, dim, g.node("Expand", column, g.node("Shape", src)), src, reduction)


def _updated(g: GraphWriter, x: Operand, dim: int, index: Any, src: Operand, reduction: str, of: Any = str) -> Any:
    """Write a ScatterElements of ``of(src)``; onnxruntime combines no floats of 16 bits."""
    dtype = common_dtype(x, src)
    wide = float32 if reduction != "none" and is_float(dtype) and dtype.itemsize == 2 else dtype
    values = g.cast(x, wide), index, of(g.cast(src, wide))
    return g.cast(Operand(g.node("ScatterElements", *values, axis=dim, reduction=reduction), (), wide), dtype)


write_scatter_add, write_index_add = partial(write_scatter, reduction="add"), partial(write_index_put, reduction="add")
_COMBINED = {name: reduction for reduction, name in REDUCTIONS.items()}
write_index_reduce = rule(lambda g, x, dim, index, src, how: write_index_put(g, x, dim, index, src, _COMBINED[how]))
