"""Depthwise convolution with channels as lanes, and which kernel computes a convolution: by channels or along rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.primitives import Shape
from burnpy_numpy.kernels.compiler.loops import Int, Loops
from burnpy_numpy.kernels.compiler.target import target
from burnpy_numpy.kernels.convolution.blocked import BlockedConvolution, blocks_of, convolve_blocks
from burnpy_numpy.kernels.convolution.channel_blocks import Epilogue, Planned, Template, Uncompiled, load_vectors
from burnpy_numpy.kernels.convolution.depthwise_and_few_windows import is_by_planes, planned_planes
from burnpy_numpy.kernels.convolution.tiles import Where, row_efficiency, swap_of
from burnpy_numpy.kernels.convolution.weight_gradients import (
    BlockedWeightGradient,
    gradient_of,
    weight_gradient_of_blocks,
)
from burnpy_numpy.kernels.kernel import contiguous, described

if TYPE_CHECKING:
    from burnpy_array import ArrayBackend

_SUMS_APART = 4
"""The number of neighbours in a row that are added up apart."""


def convolve_depthwise(
    x: Any, weight: Any, bias: Any, out: Any, where: Where, backward: bool, epilogue: Epilogue | None = None
) -> bool:
    """Compute a depthwise convolution with a weight (C, 1, height, width); see `convolve_blocks`."""
    try:
        found = blocks_of(_DepthwiseConvolution, x, weight, out, where, backward, epilogue)
        return found.run(x, weight, bias, out, epilogue)
    except Uncompiled:
        return False


def depthwise_weight_gradient(grad: Any, x: Any, out: Any, where: Where) -> bool:
    """Compute the gradient of the weight (C, 1, height, width); see `weight_gradient_of_blocks`."""
    try:
        gradient_of(_DepthwiseWeightGradient, grad, x, out, where).run(grad, x, out)
    except Uncompiled:
        return False
    return True


class _DepthwiseConvolution(BlockedConvolution):
    """Depthwise convolutions."""

    def _described(self) -> tuple[Template, int, int]:
        return blocked_depthwise, self.lanes, 1

    def _depths(self) -> tuple[int, ...]:
        return ()

    def _has_neighbours(self) -> bool:
        return True


class _DepthwiseWeightGradient(BlockedWeightGradient):
    """The gradients of the weights of depthwise convolutions."""

    def _described(self, outputs: int) -> tuple[Template, int, int, int]:
        return blocked_depthwise_gradient, 1, self.lanes, 1


def blocked_depthwise(dtype: str, width: int, rows: int, vectors: int) -> str:
    """Return the text of the kernel of depthwise convolution on blocks of channels.

    The table: the source [blocks][pixels][vectors · width], the packed weight [blocks][taps][vectors · width], the
    result [blocks][pixels][vectors · width], the bias, and the arrays of `Tiles`. The sizes: the pixels of the source
    and of the result, taps, tiles, and the steps of pixels of a tile in the source and in the result. ``begin`` and
    ``end`` are blocks.

    Args:
        dtype: float32 or float64.
        width: the number of elements of a vector.
        rows: the number of pixels of a tile.
        vectors: the number of vectors of channels of a tile.
    """
    w = Loops(width, 10, 6)
    x, weight, out, bias, sources, results, lists, limits, taps, places = w.table
    x_pixels, out_pixels, count, number, x_step, out_step = w.sizes
    lanes = vectors * width
    x_row, out_row = x_step * lanes, out_step * lanes
    with w.loop(w.begin, w.end) as b, w.loop(0, number) as t:
        source, which = b * x_pixels + w.number(sources, t), w.number(lists, t)
        added = load_vectors(w, w.element(bias, b * lanes, dtype), vectors, dtype)
        totals = [[w.variable(y) for y in added] for _ in range(rows)]
        with w.loop(w.number(limits, which), w.number(limits, which + 1)) as pair:
            pixel = w.element(x, (source + w.number(places, pair)) * lanes, dtype)
            tap = b * count + w.number(taps, pair)
            ys = load_vectors(w, w.element(weight, tap * lanes, dtype), vectors, dtype)
            for i, sums in enumerate(totals):
                xs = load_vectors(w, w.element(pixel, x_row * i, dtype), vectors, dtype)
                for total, left, right in zip(sums, xs, ys, strict=True):
                    w.set(total, w.fma(left, right, w.get(total, dtype)))
        target = w.element(out, (b * out_pixels + w.number(results, t)) * lanes, dtype)
        for i, sums in enumerate(totals):
            to = w.element(target, out_row * i, dtype)
            for j, total in enumerate(sums):
                w.store_at(w.get(total, dtype), to, j * width)
    return w.function()


def blocked_depthwise_gradient(dtype: str, width: int, rows: int, vectors: int) -> str:
    """Return the text of the kernel of the gradient of the weight of depthwise convolution.

    It is called as `blocked_weight_gradient`, with a gradient whose lanes are those of x. Neighbours in a row are added
    up apart, so that no addition waits for the one before.

    Args:
        dtype: float32 or float64.
        width: the number of elements of a vector.
        rows: 1, the number of channels multiplied by each of x.
        vectors: the number of vectors of a block.
    """
    w = Loops(width, 4, 12)
    x, grad, out, limits = w.table
    members, chunk, count, _, x_pixels, grad_pixels, x_member, x_row, x_step, grad_member, grad_row, begins = w.sizes
    lanes, zero = vectors * width, w.constant(0.0, dtype)
    with w.loop(w.begin, w.end) as unit:
        c, tap = unit // count, unit % count
        top, left, bottom, right, distance = (w.number(limits, tap * 5 + k) for k in range(5))
        pixels = c * x_pixels + distance
        cell = w.element(out, unit * (lanes * rows), dtype)
        with w.inside(0, begins):
            for j in range(vectors):
                w.store_at(zero, cell, j * width)
        chunks = w.ceil_div(bottom - top, chunk)
        several = (right - left) // _SUMS_APART
        middle = left + several * _SUMS_APART
        with w.loop(0, chunks) as part:
            totals = [[w.variable(zero) for _ in range(vectors)] for _ in range(_SUMS_APART)]
            first = top + part * chunk
            with w.loop(0, members) as n, w.loop(first, w.smaller(first + chunk, bottom)) as row:
                source = n * x_member + row * x_row + pixels
                place = c * grad_pixels + (n * grad_member + row * grad_row)

                def add(column: Int, sums: list[str], source: Int = source, place: Int = place) -> None:
                    at = source + column * x_step
                    xs = load_vectors(w, w.element(x, at * lanes, dtype), vectors, dtype)
                    there = (place + column) * lanes
                    grads = load_vectors(w, w.element(grad, there, dtype), vectors, dtype)
                    for total, x_vector, g_vector in zip(sums, xs, grads, strict=True):
                        w.set(total, w.fma(x_vector, g_vector, w.get(total, dtype)))

                with w.loop(0, several) as k:
                    for j, sums in enumerate(totals):
                        add(left + k * _SUMS_APART + j, sums)
                for j, sums in enumerate(totals[:-1]):
                    with w.inside(j, right - middle):
                        add(middle + j, sums)
            for j in range(vectors):
                parts = [w.get(sums[j], dtype) for sums in totals]
                to = w.element(cell, j * width, dtype)
                w.store(reduce(w.add, parts, w.load(to, dtype)), to)
    return w.function()


MIN_LANES, _ALWAYS_LANES, _MIN_STRIDED_LANES, _MIN_GRADIENT_LANES = 32, 256, 16, 8
"""The least numbers of channels for which vectors of channels may take less time with large images; for which they
always do; for which they do in a strided convolution; and in the gradient of its input, and for which they may at
all."""
_PIXELS, _FILLED = (40, 64), 0.8
"""The numbers of pixels, and the share of vectors that they fill, with which a product takes more time."""
_LAID_OUT = 32
"""The products that take as long as a number that is laid out by channels, and back."""
FORWARD, _FAR, _WEIGHT, _SHORT = 1.05, 0.75, 0.9, 0.6
"""The time with vectors of channels relative to vectors of neighbours in a row, if all lanes of both are used: of a
convolution, of one of large images, whose rows are in other pages in each channel, of a gradient of the weight, and of
one with rows of up to two vectors."""
_IMAGE = 3 << 18
"""The size of a large image in bytes."""


def convolve_lanes(
    b: ArrayBackend,
    x: Any,
    weight: Any,
    bias: Any,
    shape: Shape,
    where: Where,
    groups: int,
    backward: bool,
    out: Any = None,
    epilogue: Epilogue | None = None,
) -> Any:
    """Return a convolution, or the gradient of its input; None if another way takes less time.

    Args:
        b: the device.
        x: the input, or the gradient of the result.
        weight: the weight.
        bias: the bias, or None.
        shape: the shape of the result.
        where: stride, padding and dilation.
        groups: the number of groups.
        backward: whether to compute the gradient of the input.
        out: C-contiguous memory for the result; new memory if None.
        epilogue: what follows.
    """
    if not uses_lanes(x, weight.shape, shape, where, groups, backward):
        return None
    if out is None:
        out = np.empty(shape, x.dtype)
    convolve = convolve_depthwise if _is_depthwise(x, shape, groups) else convolve_blocks
    return b._call(_convolve, convolve, x, weight, bias, out, where, groups, backward, epilogue)


def planned_convolution(
    x: Any, weight: Any, bias: Any, out: Any, where: Where, groups: int, longer: bool, epilogue: Epilogue
) -> Planned | None:
    """Return a convolution with a fixed weight and bias for plans; None if Python has to call its kernels.

    Args:
        x: an array like the input.
        weight: the weight.
        bias: the bias, or None.
        out: an array like the result.
        where: stride, padding and dilation.
        groups: the number of groups.
        longer: whether there are more zeros after x than the padding.
        epilogue: what follows, without arrays.
    """
    planes = is_by_planes(x, weight, where, groups)
    lanes = planes or uses_lanes(x, weight.shape, out.shape, where, groups, False)
    if not longer and swap_of(x.shape, out.shape, weight.shape, x.itemsize, lanes) is not None:
        return None
    if planes:
        return planned_planes(x, weight, bias, out.shape, where, epilogue)
    if longer or groups != 1 or not lanes:
        return None
    try:
        found = blocks_of(BlockedConvolution, x, weight, out, where, False, epilogue)
        return found.planned(np.ascontiguousarray(weight), bias)
    except Uncompiled:
        return None


def uses_lanes(x: Any, weight: Shape, shape: Shape, where: Where, groups: int, backward: bool) -> bool:
    """Return whether vectors of channels take less time; for the arguments see `convolve_lanes`."""
    return described(_uses_lanes, x.shape, x.dtype, weight, shape, where, groups, backward)


def _uses_lanes(
    source: Shape, dtype: Any, weight: Shape, shape: Shape, where: Where, groups: int, backward: bool
) -> bool:
    x = np.broadcast_to(np.empty((), dtype), source)
    channels, depth, strided = shape[1] // groups, x.shape[1] // groups, where[0] != (1, 1)
    if _is_depthwise(x, shape, groups):  # without a stride `depthwise` takes less time
        return strided and groups >= (_MIN_GRADIENT_LANES if backward else MIN_LANES)
    least = min(depth, channels)
    if strided and least >= (_MIN_GRADIENT_LANES if backward else _MIN_STRIDED_LANES):
        return True
    cost = _FAR if least >= MIN_LANES and _is_large(x) else FORWARD
    share = _share_inside(x.shape, weight, shape, where, backward)
    laid_out = 1 + _LAID_OUT / (depth * weight[2] * weight[3])
    return better_by_channels(least, channels, x, row_efficiency(shape[3], x.itemsize) * share * cost * laid_out)


def _share_inside(source: Shape, weight: Shape, shape: Shape, where: Where, backward: bool) -> float:
    """Return the share of elements that are not padding, among those that vectors of neighbours read."""
    share = 1.0
    for n, count, size, stride, padding, dilation in zip(
        *(each[2:] for each in ((shape, source) if backward else (source, shape))), weight[2:], *where, strict=True
    ):  # n elements of the input, and count windows
        starts = [k * dilation - padding for k in range(size)]
        inside = sum(max(0, min(count, -((start - n) // stride)) - max(0, -(start // stride))) for start in starts)
        share *= min(1.0, inside * (stride if backward else 1) / max(1, (n if backward else count) * size))
    return share


def _is_depthwise(x: Any, shape: Shape, groups: int) -> bool:
    """Return whether each channel is convolved by itself."""
    return bool(shape[1] == x.shape[1] == groups)


def weight_gradient_lanes(b: ArrayBackend, grad: Any, x: Any, shape: Shape, where: Where, groups: int) -> Any:
    """Return the gradient of the weight, of a shape; None if another way takes less time; see `convolve_lanes`."""
    row = grad.shape[3]
    if shape[0] == groups == x.shape[1]:
        many = groups >= _MIN_GRADIENT_LANES and _is_short(row if where[0] != (1, 1) else 2 * row - 1, x)
        gradient = depthwise_weight_gradient
    else:
        cost = _SHORT if row <= 2 * target().vector // x.itemsize else _WEIGHT
        many = shape[1] >= MIN_LANES or not _is_large(x)
        many = many and better_by_channels(shape[1], shape[1], x, row_efficiency(row, x.itemsize) * cost)
        gradient = weight_gradient_of_blocks
    return b._call(_weight_gradient, gradient, grad, x, shape, where, groups) if many else None


def better_by_channels(least: int, lanes: int, x: Any, by_rows: float) -> bool:
    """Return whether vectors of channels take less time than vectors of neighbours in a row.

    Args:
        least: the least number of channels that are multiplied with each other.
        lanes: the number of channels that are lanes.
        x: an array, for its dtype.
        by_rows: the time of vectors of channels, if all lanes are used, relative to vectors of neighbours.
    """
    width = MIN_LANES if lanes >= MIN_LANES else target().vector // x.itemsize
    return least >= _ALWAYS_LANES or (least >= _MIN_GRADIENT_LANES and by_rows < lanes / (-(-lanes // width) * width))


def _is_large(x: Any) -> bool:
    return bool(math.prod(x.shape[1:]) * x.itemsize > _IMAGE)


def faster_than_product(x: Any, weight: Any, where: Where, groups: int) -> bool:
    """Return whether a convolution of one image by windows of one element, in a plan, takes less time by channels. The
    pixels of a small plane, such as 7 × 7, do not fill the vectors of a product, which also copies the weight."""
    pixels, usual = x.shape[2] * x.shape[3], where[:2] == ((1, 1), (0, 0)) and groups == 1 and len(x) == 1
    width = target().vector // x.itemsize
    short = _PIXELS[0] <= pixels <= _PIXELS[1] and pixels <= _FILLED * -(-pixels // width) * width
    return bool(usual and short and uses_lanes(x, weight.shape, (1, len(weight), *x.shape[2:]), where, groups, False))


def _is_short(row: int, x: Any) -> bool:
    """Return whether a row of the result does not fill a vector."""
    return row * int(x.itemsize) < target().vector


def _convolve(
    convolve: Callable[..., bool],
    x: Any,
    weight: Any,
    bias: Any,
    out: Any,
    where: Where,
    groups: int,
    backward: bool,
    epilogue: Epilogue | None,
) -> Any:
    """Return the result of a function such as `convolve_blocks` for all groups, ``out``; None if one has none."""
    x, weight = contiguous(x), contiguous(weight)
    if groups == 1 or convolve is convolve_depthwise:
        return out if convolve(x, weight, bias, out, where, backward, epilogue) else None
    biases = [None] * groups if bias is None else np.split(bias, groups)
    each = out.shape[1] // groups
    for k, parts in enumerate(
        zip(np.split(x, groups, 1), np.split(weight, groups), biases, np.split(out, groups, 1), strict=True)
    ):
        if not convolve(*parts, where, backward, None if epilogue is None else epilogue.part(0, k * each)):
            return None
    return out


def _weight_gradient(gradient: Callable[..., bool], grad: Any, x: Any, shape: Shape, where: Where, groups: int) -> Any:
    """Return the result of a function such as `weight_gradient_of_blocks` for all groups; None if one has none."""
    grad, x, out = contiguous(grad), contiguous(x), np.empty(shape, x.dtype)
    if groups == 1 or gradient is depthwise_weight_gradient:
        return out if gradient(grad, x, out, where) else None
    for parts in zip(np.split(grad, groups, 1), np.split(x, groups, 1), np.split(out, groups), strict=True):
        if not gradient(*parts, where):
            return None
    return out
