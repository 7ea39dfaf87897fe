"""Convolution and its gradients as kernels on arrays with the channels first, for vectors of neighbours in a row.

With the channels first, neighbours of the result are sums of products of neighbours of x, each with one weight. So
nothing is transposed: `convolution` computes a block of several channels times several vectors in registers, in one
loop over the elements of a window, and `weight_gradient` a block of several channels times several elements of a
window in one loop over the vectors of the result. Where these elements and vectors lie is listed in tables, so that
one kernel serves every size of window, stride, dilation and number of groups. Where vectors of channels take less time,
`channel_lanes` computes instead.

Source of the blocks in registers: Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication, 2008; of
convolution without a matrix of windows: Zhang, Franchetti and Low, High Performance Zero-Memory Overhead Direct
Convolutions, 2018.

Each number is summed in an order that depends on shapes and the machine alone, however work is divided among threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from burnpy.backend.dtypes import float32, float64
from burnpy.backend.operations.convolution import Pair, window_counts
from burnpy.backend.primitives import Shape
from burnpy_numpy.convolution import has_few_windows
from burnpy_numpy.cpu_threads import COUNT
from burnpy_numpy.kernels.compiler.loops import Loops
from burnpy_numpy.kernels.convolution.channel_blocks import (
    PRODUCTS,
    SCRATCH,
    Epilogue,
    PartCalls,
    add_products,
    compiles_parts,
    computed,
    others_of,
    parameters_of,
)
from burnpy_numpy.kernels.convolution.channel_lanes import (
    convolve_lanes,
    faster_than_product,
    uses_lanes,
    weight_gradient_lanes,
)
from burnpy_numpy.kernels.convolution.depthwise_and_few_windows import convolve_planes, is_by_planes
from burnpy_numpy.kernels.convolution.tiles import (
    SWAP_CHANNELS,
    Swap,
    Tables,
    Where,
    Windows,
    pairs_swapped,
    swap_of,
    swapped,
    windows,
)
from burnpy_numpy.kernels.convolution.weight_gradients import run_by_weight, weight_gradient
from burnpy_numpy.kernels.kernel import described, kernels_enabled, template_kernel
from burnpy_numpy.kernels.launch import TemplateKernel

if TYPE_CHECKING:
    from burnpy_array import ArrayBackend
    from burnpy_numpy.convolution import NumPyConvolution


def gradient_by_phases(
    grad: Any, weight: Any, shape: Shape, where: tuple[Shape, ...], groups: int, convolve: Callable[[Any, Any], Any]
) -> Any:
    """Return the gradient of the input as convolutions of the gradient; None if one of them is None.

    Args:
        grad: the gradient of the result.
        weight: the weight.
        shape: the shape of the input.
        where: stride, padding and dilation.
        groups: the number of groups.
        convolve: the convolution of ``grad`` with a part of the flipped weight, for stride, padding and dilation.
    """
    o, c, *kernel = weight.shape  # of each group, input and output channels are exchanged
    turned = weight.reshape((groups, o // groups, c, *kernel)).swapaxes(1, 2).reshape((-1, o // groups, *kernel))
    every, ones = slice(None), (1,) * len(kernel)
    total = None if where[0] == ones else np.zeros(shape, grad.dtype)
    for rests, part, padding, dilation, inside in _phases_of(shape, grad.shape, weight.shape, where):
        out = convolve(turned[(every, every, *part)], (ones, padding, dilation))
        if out is None:
            return None
        out = out[(every, every, *inside)]
        if total is None:
            return out
        total[(every, every, *map(slice, rests, [None] * len(kernel), where[0]))] = out
    return total


def _phases_of(shape: Shape, result: Shape, weight: Shape, where: tuple[Shape, ...]) -> Iterator[tuple[Any, ...]]:
    """Yield the convolutions of a gradient, of shape ``result``, that give the gradient of the input.

    There is one for each rest of the input's places, by the stride: the rests, the elements of the weight in the order
    in which they are used, padding and dilation, and the elements of the convolution's result that belong to the input;
    each for all dimensions.
    """
    sizes = zip(shape[2:], result[2:], weight[2:], *where, strict=True)
    for phases in product(*[_phases(*size).items() for size in sizes]):
        rests, each = zip(*phases, strict=True)
        yield rests, *zip(*each, strict=True)


class _Phase(NamedTuple):
    """The elements of an input along a dimension that have the same rest, as a convolution of the gradient."""

    part: slice  #: the elements of the weight, turned round
    padding: int
    dilation: int
    inside: slice  #: the elements of the convolution's result


def _phases(n: int, count: int, size: int, stride: int, padding: int, dilation: int) -> dict[int, _Phase]:
    """Return the phases of an input of length n by rest, without those that no window reaches."""
    phases: dict[int, _Phase] = {}
    common = math.gcd(stride, dilation)
    for rest in range(min(stride, n)):
        taken = [k for k in range(size) if (rest + padding - k * dilation) % stride == 0]
        if taken:
            part = slice(taken[-1], taken[0] - 1 if taken[0] else None, -(stride // common))
            start, length = (rest + padding - taken[-1] * dilation) // stride, -(-(n - rest) // stride)
            reach = dilation // common * (len(taken) - 1)
            zeros = max(0, -start, start + length + reach - count)
            inside = slice(start + zeros, start + zeros + length)
            phases[rest] = _Phase(part, zeros, dilation // common, inside)
    return phases


MIN_PRODUCTS = 1 << 16
"""The least number of products for which kernels are used."""
NARROW = 4
"""The least length of rows of the result for which vectors are neighbours in a row: none reaches into the next row."""


def convolve(
    b: ArrayBackend,
    x: Any,
    weight: Any,
    bias: Any,
    where: Where,
    groups: int,
    out: Any = None,
    epilogue: Epilogue | None = None,
    counts: Pair | None = None,
) -> Any:
    """Return a convolution; None without a kernel for it.

    Args:
        b: the device.
        x: the input, (N, C, H, W).
        weight: the weight, (O, C / groups, height, width).
        bias: the bias, (O,), or None.
        where: stride, padding and dilation.
        groups: the number of groups.
        out: C-contiguous memory for the result; new memory if None.
        epilogue: what follows.
        counts: the height and width of the result, if there are more zeros after x than the padding.
    """
    way, longer = described(_way, x.shape, weight.shape, x.dtype, where, groups, counts), counts is not None
    if way is None or weight.dtype is not x.dtype or (bias is not None and bias.dtype is not x.dtype):
        return None
    result, swap = way.result, way.swap
    if swap is not None and not longer and (swap is Swap.VIEWS or out is None):
        memory = None if out is None else out.reshape(result).swapaxes(2, 3)
        turned = convolve(b, swapped(x), swapped(weight), bias, pairs_swapped(where), groups, memory, epilogue)
        return None if turned is None else swapped(turned)
    if way.by_planes:
        by_planes = convolve_planes(b, x, weight, bias, result, where, out, epilogue)
        if by_planes is not None or longer:
            return by_planes
    by_lanes = None
    if way.by_lanes:
        by_lanes = convolve_lanes(b, x, weight, bias, result, where, groups, False, out, epilogue)
    if by_lanes is not None or result[3] < NARROW:
        return by_lanes
    tables = windows(x.shape[1:], weight.shape, where, groups, x.itemsize)
    kernel = kernel_of(convolution, tables.forward, x.dtype, *parameters_of(epilogue))
    if kernel is None:
        return None
    if out is None:
        out = np.empty(result, x.dtype)
    return b._call(run_forward, kernel, tables, x, weight, bias, out, () if epilogue is None else epilogue.arrays)


class _Way(NamedTuple):
    """How a convolution is computed, which the shapes of its arrays say."""

    result: Shape  #: the shape of the result
    swap: Swap | None  #: how rows and columns are swapped
    by_planes: bool
    by_lanes: bool


def _way(source: Shape, weight: Shape, dtype: Any, where: Where, groups: int, counts: Pair | None) -> _Way | None:
    """Return how a convolution of arrays of two shapes and a dtype is computed; None without a kernel for it."""
    x, y = (np.broadcast_to(np.empty((), dtype), shape) for shape in (source, weight))
    sizes = counts or window_counts(source, (weight[2], weight[3]), *where)
    if not _suits(x, y, weight, sizes):
        return None
    result = (source[0], weight[0], *sizes)
    planes, lanes = is_by_planes(x, y, where, groups), uses_lanes(x, weight, result, where, groups, False)
    return _Way(result, swap_of(source, result, weight, x.itemsize, planes or lanes), planes, lanes)


def has_kernel(x: Any, weight: Any, where: Where, groups: int, result: Pair) -> bool:
    """Return whether `convolve` has a kernel for arrays like these and a result of some height and width, if all is
    finite."""
    longer = result != window_counts(x.shape, (weight.shape[2], weight.shape[3]), *where)  # more zeros after x
    if weight.shape[2:] == (1, 1):
        return not longer and faster_than_product(x, weight, where, groups)
    way = described(_way, x.shape, weight.shape, x.dtype, where, groups, result)
    if way is None or weight.dtype is not x.dtype:
        return False
    if longer:
        return way.by_planes
    if has_few_windows(x, weight, where, groups):
        return False
    return way.swap is Swap.VIEWS or (way.swap is None and (way.by_planes or way.by_lanes or result[1] >= NARROW))


def run_weight_gradient(b: ArrayBackend, grad: Any, x: Any, shape: Shape, where: Where, groups: int) -> Any:
    """Return the gradient of the weight, of a shape; None without a kernel for it.

    Args:
        b: the device.
        grad: the gradient of the result.
        x: the input.
        shape: the shape of the weight.
        where: stride, padding and dilation.
        groups: the number of groups.
    """
    if not _suits(grad, x, shape, grad.shape[2:]):
        return None
    swap = swap_of(x.shape, grad.shape, shape, x.itemsize, False)
    out = None if swap is Swap.VIEWS else weight_gradient_lanes(b, grad, x, shape, where, groups)
    if out is None and swap is not None:
        turned = (*shape[:2], *shape[:1:-1])
        grad_weight = run_weight_gradient(b, swapped(grad), swapped(x), turned, pairs_swapped(where), groups)
        return None if grad_weight is None else swapped(grad_weight)
    if out is not None or grad.shape[3] < NARROW:
        return out
    tables = windows(x.shape[1:], shape, where, groups, x.dtype.itemsize)
    kernel = kernel_of(weight_gradient, tables.backward, x.dtype)
    return None if kernel is None else b._call(run_by_weight, kernel, tables, grad, x).reshape(shape)


def input_gradient(b: NumPyConvolution, grad: Any, weight: Any, shape: Shape, where: Where, groups: int) -> Any:
    """Return the gradient of the input; None without a kernel for it.

    By neighbours in a row it is a convolution with the flipped weight. With a stride, the elements that have the same
    rest are a convolution with a part of the weight.

    Args:
        b: the device, which computes a part that has no kernel.
        grad: the gradient of the result.
        weight: the weight.
        shape: the shape of the input.
        where: stride, padding and dilation.
        groups: the number of groups.
    """
    if not _suits(grad, weight, weight.shape, grad.shape[2:]):
        return None
    lanes = uses_lanes(grad, weight.shape, shape, where, groups, True)
    if weight.shape[1] >= SWAP_CHANNELS and swap_of(shape, grad.shape, weight.shape, grad.itemsize, lanes):
        turned = (*shape[:2], *shape[:1:-1])
        out = input_gradient(b, swapped(grad), swapped(weight), turned, pairs_swapped(where), groups)
        return None if out is None else swapped(out)
    out = convolve_lanes(b, grad, weight, None, shape, where, groups, True)
    short = grad.shape[3] < NARROW and not is_by_planes(grad, weight, where, groups)
    if out is not None or short or not np.isfinite(weight).all():
        return out

    def convolved(part: Any, one: Where) -> Any:
        found = convolve(b, grad, part, None, one, groups)
        if found is None and where[0] != (1, 1) and kernels_enabled():
            return b._conv2d_by_products(grad, part, *one, groups)
        return found

    return gradient_by_phases(grad, weight, shape, where, groups, convolved)


def _suits(x: Any, y: Any, weight: Shape, counts: Shape) -> bool:
    """Return whether kernels are used for two arrays of a convolution with a weight and a result of these shapes."""
    members, area = x.shape[0], weight[2] * weight[3]
    return (
        area > 1  # without windows it is a matrix product
        and min(counts) > 0
        and members * counts[0] * counts[1] * math.prod(weight) >= MIN_PRODUCTS
        and (x.dtype is float32 or x.dtype is float64)
        and y.dtype is x.dtype
    )


def kernel_of(template: Callable[..., str], tables: Tables, dtype: Any, *rest: Any) -> TemplateKernel | None:
    """Return the kernel of a template, whose last parameters are given; None if it cannot be compiled."""
    name = "float32" if dtype is float32 else "float64"
    return template_kernel(template, name, tables.width, *tables.block, *rest) if compiles_parts(dtype) else None


def run_forward(
    kernel: TemplateKernel, windows: Windows, x: Any, weight: Any, bias: Any, out: Any, others: Sequence[Any]
) -> Any:
    """Compute a convolution by its kernel into C-contiguous memory; ``others`` are an epilogue's arrays, of images."""
    tables, o = windows.forward, weight.shape[0]
    weight = np.ascontiguousarray(weight)
    added = np.zeros(o, x.dtype) if bias is None else np.ascontiguousarray(bias)
    tiles, blocks = len(tables.places) // tables.block[1], len(tables.channels)
    member, channel = windows.distances(o)
    each, size = math.prod(windows.counts) * math.prod(weight.shape) / PRODUCTS, x.itemsize
    sizes = windows.length, tiles, windows.step, member, channel
    for members, batch, result in windows.batches(x, out):
        divided = 1 < COUNT <= members  # threads share the members, else the blocks of channels
        for start, stop, array in windows.parts(batch, members, divided):
            count = stop - start
            if not divided:
                rest = [y[start:] if y.ndim > 1 else y for y in others]
                table = array, weight, result[start * member :], added, *windows.forward_tables, *rest
                kernel.launch(table, (count, *sizes), blocks, each * count / blocks)
                continue
            calls, far = PartCalls(), member * result.itemsize
            moved = [(y, start * y.strides[0], y.strides[0]) if y.ndim > 1 else y for y in others]
            source = windows.source(calls, batch) if array is SCRATCH else (array, 0, windows.step * size)
            given = source, weight, (result, start * far, far), added, *windows.forward_tables, *moved
            calls.add(kernel, given, (1, *sizes), end=blocks)
            calls.run(count, each, scratch=windows.member * size if array is SCRATCH else 0, zeros=True)
    kernel.note()
    return out


def convolution(dtype: str, width: int, channels: int, vectors: int, *epilogue: Any) -> str:
    """Return the text of the kernel of convolution: out = bias + Σ weight · x over the elements of each window.

    The table: x, weight, out, bias, and int64: the place of each element of the window;
    the places in x and in out of each vector; the first channel of each block, and where its x begins; and the arrays
    of an epilogue. The sizes: the numbers of members, elements, and tiles of vectors; the distances of members of x and
    of out, and of channels of out. ``begin`` and ``end`` are blocks. All places and distances count elements.

    Args:
        dtype: float32 or float64.
        width: the number of elements of a vector.
        channels: the number of channels in a block.
        vectors: the number of vectors in a tile.
        epilogue: the parameters of an `Epilogue`, if there is one.
    """
    w = Loops(width, 9 + others_of(epilogue), 6)
    x, weight, out, bias, elements, places, targets, firsts, sources, *others = w.table
    members, length, tiles, x_member, out_member, out_channel = w.sizes
    with w.loop(0, members) as n, w.loop(w.begin, w.end) as b:
        first = w.number(firsts, b)
        source = w.element(w.element(x, n * x_member, dtype), w.number(sources, b), dtype)
        target = n * out_member + first * out_channel
        rows = [w.element(weight, (first + c) * length, dtype) for c in range(channels)]
        with w.loop(0, tiles) as t:
            at = [t * vectors + v for v in range(vectors)]
            starts = [w.element(source, w.number(places, v), dtype) for v in at]
            totals = [[w.variable(w.constant(0.0, dtype)) for _ in at] for _ in range(channels)]
            with w.loop(0, length) as k:
                place = w.number(elements, k)
                xs = [w.load_at(start, place, dtype) for start in starts]
                for sums, row in zip(totals, rows, strict=True):
                    add_products(w, sums, w.load_one_at(row, k, dtype), xs)
            for c in range(channels):
                added = w.load_one_at(bias, first + c, dtype)
                channel = target + out_channel * c
                for total, v in zip(totals[c], at, strict=True):
                    result, place = w.add(w.get(total, dtype), added), channel + w.number(targets, v)
                    result = computed(w, result, epilogue, others, place, first + c, None)
                    w.store_at(result, out, place)
    return w.function()
