"""Rules of operations that move elements, of the matrix product and of creation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from burnpy.backend.dtypes import int64
from burnpy.backend.primitives import DType
from burnpy.interop.onnx.rules.rule import Conditional, GraphWriter, Operand, common_dtype, is_float


def reshape(g: GraphWriter, x: Operand, shape: Any) -> Any:
    """Write a Reshape; one size that varies between calls is left to the operator."""
    varying = [k for k, size in enumerate(shape) if not isinstance(size, int)]
    if len(varying) == 1 and 0 not in shape:
        return g.node("Reshape", x, g.sizes([-1 if k in varying else size for k, size in enumerate(shape)]))
    return g.node("Reshape", x, g.sizes(shape), allowzero=1)


def permute(g: GraphWriter, x: Operand, dims: Any) -> Any:
    """Write a Transpose."""
    return g.node("Transpose", x, perm=list(dims)) if dims else x


def transposed(g: GraphWriter, x: Operand) -> Any:
    """Write a Transpose of the last two dimensions."""
    ndim = len(x.shape)
    return g.node("Transpose", x, perm=[*range(ndim - 2), ndim - 1, ndim - 2])


def expand(g: GraphWriter, x: Operand, shape: Any) -> Any:
    """Write an Expand."""
    return g.node("Expand", x, g.sizes(shape))


_ENDS = (-(2**62), 2**62)


def slice_(g: GraphWriter, x: Any, key: Any) -> Any:
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


def slice_scatter(g: GraphWriter, x: Operand, key: Any, src: Any) -> Any:
    """Write the update of a slice: of the elements at the row-major places that the slice of all places has."""
    total, vector = g.node("Size", x), g.sizes((-1,))
    order = g.node("Range", g.constant(0, int64), total, g.constant(1, int64))
    places = slice_(g, g.node("Reshape", order, g.node("Shape", x)), key)
    values = g.node("Expand", g.cast(src, x.dtype), g.node("Shape", places))
    flat = [g.node("Reshape", part, vector) for part in (x, places, values)]
    return g.node("Reshape", g.node("ScatterElements", *flat, axis=0), g.node("Shape", x))


def cat(g: GraphWriter, xs: Sequence[Operand], dim: int) -> Any:
    """Write a Concat."""
    return g.node("Concat", *xs, axis=dim)


def triangle(upper: bool) -> Callable[..., Any]:
    """Return the rule of a triangle of matrices."""

    def rule(g: GraphWriter, x: Operand, diagonal: int) -> Any:
        return g.node("Trilu", x, g.constant(diagonal, int64), upper=int(upper))

    return rule


tril, triu = triangle(upper=False), triangle(upper=True)


def matmul(g: GraphWriter, x: Operand, y: Operand) -> Any:
    """Write a product of operands of one dtype."""
    dtype = common_dtype(x, y)
    return g.node("MatMul", g.cast(x, dtype), g.cast(y, dtype))


def full(g: GraphWriter, shape: Any, value: Any, dtype: DType) -> Any:
    """Write a constant of a shape."""
    number = g.constant(value, dtype)
    return g.node("Expand", number, g.sizes(shape)) if shape else number


def arange(g: GraphWriter, start: Any, stop: Any, step: Any, dtype: DType) -> Any:
    """Write a Range; of floats start + step · k, as each element is rounded once."""
    if not is_float(dtype):
        return g.node("Cast", g.node("Range", *[g.constant(k, int64) for k in (start, stop, step)]), to=dtype)
    count = g.each(lambda a, b, c: max(math.ceil((b - a) / c), 0), start, stop, step)
    order = g.node("Cast", g.node("Range", *[g.constant(k, int64) for k in (0, count, 1)]), to=dtype)
    return g.node("Add", g.node("Mul", order, g.constant(step, dtype)), g.constant(start, dtype))


det = Conditional("Det")
