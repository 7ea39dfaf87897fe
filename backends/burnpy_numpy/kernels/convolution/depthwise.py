"""Depthwise convolution with the channels first: each plane by itself, for vectors of neighbours in a row.

Padding is neither stored nor laid out: elements beyond a row are masked, and rows beyond a plane are left out. With a
stride of 2 across, a vector is every second element of two neighbouring ones.

Each number is summed in the order of the window, so it does not depend on the rest of the batch or on threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.dtypes import float32
from burnpy.backend.primitives import Shape
from burnpy_numpy.kernels.compiler.loops import Loops
from burnpy_numpy.kernels.compiler.vectors import Vector
from burnpy_numpy.kernels.convolution.channel_blocks import (
    PRODUCTS,
    Epilogue,
    Planned,
    computed,
    others_of,
    parameters_of,
    vector_width,
)
from burnpy_numpy.kernels.convolution.tiles import Where
from burnpy_numpy.kernels.kernel import template_kernel
from burnpy_numpy.kernels.launch import TemplateKernel

if TYPE_CHECKING:
    from burnpy_array import ArrayBackend
    from burnpy_numpy.kernels.plans import KernelCall

_ROWS = 4
"""The number of rows of the result that are computed together, inside of the padding."""
_UNROLLED = 49
"""The size of the windows up to which rows are computed together."""
_WIDEST = 2
"""The largest stride across."""


def is_by_planes(x: Any, weight: Any, where: Where, groups: int) -> bool:
    """Return whether a convolution is depthwise, with a stride that the kernel has."""
    return bool(groups == x.shape[1] and weight.shape[1] == 1 and where[0][1] <= _WIDEST)


def convolve_planes(
    b: ArrayBackend, x: Any, weight: Any, bias: Any, shape: Shape, where: Where, out: Any, epilogue: Epilogue | None
) -> Any:
    """Return a depthwise convolution; None if it has no kernel, or the weight is not finite.

    Padding is not multiplied: only products of finite numbers with 0 are nothing.

    Args:
        b: the device.
        x: the input (N, C, H, W).
        weight: the weight (O, 1, height, width), where O is a multiple of C.
        bias: the bias (O,), or None.
        shape: the shape of the result.
        where: stride, padding and dilation.
        out: C-contiguous memory for the result; new memory if None.
        epilogue: what follows.
    """
    described = _described(x, weight, shape, where, epilogue)
    if described is None:
        return None
    kernel, sizes, each = described

    def run() -> Any:
        result = np.empty(shape, x.dtype) if out is None else out
        others = () if epilogue is None else epilogue.arrays
        table = (np.ascontiguousarray(x), np.ascontiguousarray(weight), _added(bias, shape, x), result, *others)
        kernel.run(table, sizes, shape[0] * shape[1], each)
        return result

    return b._call(run)


def planned_planes(x: Any, weight: Any, bias: Any, shape: Shape, where: Where, epilogue: Epilogue) -> Planned | None:
    """Return a depthwise convolution for plans; None if `convolve_planes` has no kernel for it."""
    described = _described(x, weight, shape, where, epilogue)
    if described is None:
        return None
    kernel, sizes, each = described
    weight, added, planes = np.ascontiguousarray(weight), _added(bias, shape, x), shape[0] * shape[1]

    def calls(arrays: Sequence[str], scratch: Sequence[str]) -> list[KernelCall]:
        from burnpy_numpy.kernels.plans import template_call

        given, *others, out = arrays
        return [template_call(kernel.function, (given, weight, added, out, *others), sizes, 0, planes, planes * each)]

    return Planned((), calls)


def _added(bias: Any, shape: Shape, x: Any) -> Any:
    """Return the bias of each channel, C-contiguous."""
    return np.zeros(shape[1], x.dtype) if bias is None else np.ascontiguousarray(bias)


def _described(
    x: Any, weight: Any, shape: Shape, where: Where, epilogue: Epilogue | None
) -> tuple[TemplateKernel, tuple[int, ...], float] | None:
    """Return the kernel, its sizes and the work of a plane; None without one, or if the weight is not finite."""
    stride, padding, dilation = where
    window = weight.shape[2:]
    name, width = "float32" if x.dtype is float32 else "float64", vector_width(x.dtype)
    how = (*window, *stride, *dilation)
    kernel = template_kernel(depthwise, name, width, *how, *parameters_of(epilogue))
    if kernel is None or not np.isfinite(weight).all():
        return None
    (_, channels, rows, columns), (high, wide) = shape, x.shape[2:]
    top, bottom = -(-padding[0] // stride[0]), (high - 1 + padding[0] - (window[0] - 1) * dilation[0]) // stride[0] + 1
    inside = (top, max(0, min(bottom, rows) - top) // _ROWS) if window[0] * window[1] <= _UNROLLED else (0, 0)
    sizes = (high, wide, rows, columns, *padding, channels, channels // x.shape[1], min(inside[0], rows), inside[1])
    return kernel, sizes, rows * columns * window[0] * window[1] / PRODUCTS


def depthwise(
    dtype: str, width: int, high: int, wide: int, down: int, across: int, deep: int, long: int, *epilogue: Any
) -> str:
    """Return the text of the kernel.

    The table: x, weight, bias, out, and the arrays of an epilogue. The sizes: rows and columns of x and of the result,
    the padding, the channels of the result and for each of x, the first row whose window lies inside of x, and the
    number of blocks of such rows. ``begin`` and ``end`` are planes of the result.

    Args:
        dtype: float32 or float64.
        width: the number of elements of a vector.
        high: the rows of the window.
        wide: the columns of the window.
        down: the stride of rows.
        across: the stride of columns, 1 or 2.
        deep: the dilation of rows.
        long: the dilation of columns.
        epilogue: the parameters of an `Epilogue`, if there is one.
    """
    w = Loops(width, 4 + others_of(epilogue), 10)
    x, weight, bias, out, *others = w.table
    x_rows, x_columns, rows, columns, above, before, channels, multiple, top, blocks = w.sizes
    taps = [divmod(k * long, across) for k in range(wide)]  # the vectors of x, and which of their elements
    vectors = [w.assign(f"sdiv i64 {w.plus(columns, width - 1)}, {width}")]
    rest = w.plus(top, w.times(blocks, _ROWS))
    with w.loop("%begin", "%end") as plane, w.loop("0", vectors[0]) as j:
        channel = w.assign(f"srem i64 {plane}, {channels}")
        source = w.times(w.assign(f"sdiv i64 {plane}, {multiple}"), w.times(x_rows, x_columns))
        column = w.times(j, width)
        start = w.minus(w.times(column, across), before)
        masks = {
            (q, part): _below(w, w.plus(start, q * across + part * width), x_columns)
            for q in dict(taps)
            for part in range(across)
        }
        mask = _below(w, column, columns)
        window = w.times(channel, high * wide)
        added = w.load_one_at(bias, channel, dtype)

        def computed_rows(first: str, count: int, begin: int | str, end: int | str) -> None:
            """Write some rows of the result from the first on, of a range of rows of the window."""
            totals = [w.variable(added) for _ in range(count)]
            corner = w.minus(w.times(first, down), above)

            def add(k: int | str) -> None:
                line = w.plus(window, w.times(str(k), wide))
                factors = [w.load_one_at(weight, w.plus(line, dx), dtype) for dx in range(wide)]
                for i, total in enumerate(totals):
                    for (q, which), factor in zip(taps, factors, strict=True):
                        xs = [row_part(i, k, q, part) for part in range(across)]
                        w.set(total, w.fma(_every(w, xs, which), factor, w.get(total, dtype)))

            loaded: dict[tuple[Any, ...], Vector] = {}

            def row_part(i: int, k: int | str, q: int, part: int) -> Vector:
                distance = i * down + k * deep if isinstance(k, int) else f"{i} {k}"
                key = distance, q, part
                if key not in loaded:
                    row = w.plus(corner, distance if isinstance(distance, int) else w.times(str(k), deep))
                    at = w.plus(w.plus(source, w.times(row, x_columns)), w.plus(start, q * across + part * width))
                    loaded[key] = w.load(w.element(x, at, dtype), dtype, masks[q, part])
                return loaded[key]

            if isinstance(begin, int) and isinstance(end, int):
                for k in range(begin, end):
                    add(k)
            else:
                with w.loop(str(begin), str(end)) as tap:
                    add(tap)
            for i, total in enumerate(totals):
                row = w.plus(w.times(plane, rows), w.plus(first, i))
                place = w.plus(w.times(row, columns), column)
                result = computed(w, w.get(total, dtype), epilogue, others, place, channel, mask)
                w.store(result, w.element(out, place, result.dtype), mask)

        with w.loop("0", blocks) as block:
            computed_rows(w.plus(top, w.times(block, _ROWS)), _ROWS, 0, high)
        for begin, end in (("0", top), (rest, rows)):
            with w.loop(begin, end) as row:
                before_first = w.minus(above, w.times(row, down))
                first = w.assign(f"sdiv i64 {w.plus(_positive(w, before_first), deep - 1)}, {deep}")
                beyond = w.plus(w.plus(x_rows, before_first), deep - 1)
                last = w.smaller(w.assign(f"sdiv i64 {_positive(w, beyond)}, {deep}"), str(high))
                computed_rows(row, 1, first, last)
    return w.function()


def _positive(w: Loops, x: str) -> str:
    """Return a 64-bit int, or 0 if that is larger."""
    return w.either(w.assign(f"icmp slt i64 {x}, 0"), "0", x, "i64")


def _below(w: Loops, first: str, count: str) -> str:
    """Return the mask of the elements of a vector whose places, from the first one on, are inside of a row."""
    lanes = ", ".join(f"i32 {k}" for k in range(w.width))
    places, limit = (w.splat(w.assign(f"trunc i64 {n} to i32"), "int32").text for n in (first, count))
    kind = w.type("int32")
    return w.assign(f"icmp ult {kind} {w.assign(f'add {kind} {places}, <{lanes}>')}, {limit}")


def _every(w: Loops, xs: list[Vector], first: int) -> Vector:
    """Return a vector, or every second element of two, from the first one on."""
    if len(xs) == 1:
        return xs[0]
    kind, places = w.type(xs[0].dtype), ", ".join(f"i32 {first + 2 * k}" for k in range(w.width))
    text = f"shufflevector {kind} {xs[0].text}, {kind} {xs[1].text}, <{w.width} x i32> <{places}>"
    return Vector(w.assign(text), xs[0].dtype)
