"""Sums of elements at given places, times weights, and their gradients, as kernels.

Arrays are x, (members, channels, elements), places and weights, (members, taps, points), and sums,
(members, channels, points). A place that is out of range stands for an element 0. Points are computed by vectors; the
last ones may overlap with the ones before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from burnpy_numpy.kernels.kernel import template_kernel
from burnpy_numpy.kernels.launch import block_starts, block_width
from burnpy_numpy.kernels.loops import Loops
from burnpy_numpy.kernels.vectors import Vector

_POINTS = 8
"""The number of points of a vector."""
_CHANNELS = 4
"""The number of channels for which places are read once."""


def run_weighted_gather(x: Any, places: Any, weights: Any) -> Any:
    """Return the sums of the elements at places, times weights; None if kernels are off."""
    width, block = block_width(places.shape[2], _POINTS), block_width(x.shape[1], _CHANNELS)
    kernel = template_kernel(weighted_gather, x.dtype, width, block)
    if kernel is None:
        return None
    (n, channels, elements), (_, taps, points) = x.shape, places.shape
    firsts, starts = block_starts(channels, block), block_starts(points, width)
    out = np.empty((n, channels, points), x.dtype)
    arrays = [*map(np.ascontiguousarray, (x, places, weights)), out, firsts, starts]
    sizes = (len(firsts), channels, elements, taps, points, len(starts))
    kernel.run(arrays, sizes, n * len(firsts), block * taps * points)
    return out


def run_weighted_scatter(grad: Any, places: Any, weights: Any, size: int) -> Any:
    """Return the gradient of `run_weighted_gather` by its elements; None if kernels are off."""
    kernel = template_kernel(weighted_scatter, grad.dtype)
    if kernel is None:
        return None
    (n, channels, points), taps = grad.shape, places.shape[1]
    out = np.zeros((n, channels, size), grad.dtype)
    arrays = [*map(np.ascontiguousarray, (grad, places, weights)), out]
    kernel.run(arrays, (channels, size, taps, points), n * channels, taps * points)
    return out


def run_gathered_products(grad: Any, x: Any, places: Any) -> Any:
    """Return the gradient of `run_weighted_gather` by its weights; None if kernels are off."""
    width = block_width(places.shape[2], _POINTS)
    kernel = template_kernel(gathered_products, x.dtype, width)
    if kernel is None:
        return None
    (n, channels, elements), (_, taps, points) = x.shape, places.shape
    out, starts = np.empty(places.shape, x.dtype), block_starts(points, width)
    arrays = [np.ascontiguousarray(x), np.ascontiguousarray(places), np.ascontiguousarray(grad), out, starts]
    kernel.run(arrays, (channels, elements, taps, points, len(starts)), n, channels * taps * points)
    return out


def weighted_gather(dtype: str, width: int, channels: int) -> str:
    """Return the text of the kernel of the sums: several channels at a time, for which places are read once.

    The table: x, places (int64), weights, sums, and int64: the first channel of each block of channels, and the first
    point of each vector. The sizes: the numbers of blocks of channels, channels, elements, taps, points and vectors.
    ``begin`` and ``end`` are blocks of channels of all members.

    Args:
        dtype: float32 or float64.
        width: the number of points of a vector.
        channels: the number of channels of a block.
    """
    w = Loops(width, 6, 6)
    x, places, weights, out, firsts, starts = w.table
    blocks, all_channels, elements, taps, points, vectors = w.sizes
    with w.loop("%begin", "%end") as b:
        n = w.assign(f"sdiv i64 {b}, {blocks}")
        first = w.plus(w.times(n, all_channels), w.number(firsts, w.assign(f"srem i64 {b}, {blocks}")))
        planes = [w.element(x, w.times(w.plus(first, c), elements), dtype) for c in range(channels)]
        lines = [w.element(out, w.times(w.plus(first, c), points), dtype) for c in range(channels)]
        table = w.times(w.times(n, taps), points)
        with w.loop("0", vectors) as v:
            point = w.number(starts, v)
            sums = [w.variable(w.constant(0.0, dtype)) for _ in range(channels)]
            with w.loop("0", taps) as t:
                at = w.plus(w.plus(table, w.times(t, points)), point)
                there, lanes = _places(w, w.element(places, at, "int64"), elements)
                weight = w.load(w.element(weights, at, dtype), dtype, None)
                for plane, total in zip(planes, sums, strict=True):
                    value = w.select(there, _picked(w, plane, lanes, dtype), w.constant(0.0, dtype))
                    w.set(total, w.add(w.get(total, dtype), w.mul(value, weight)))
            for line, total in zip(lines, sums, strict=True):
                w.store(w.get(total, dtype), w.element(line, point, dtype), None)
    return w.function()


def gathered_products(dtype: str, width: int) -> str:
    """Return the text of the kernel of the gradient by the weights: the sum over channels of products with x.

    The table: x, places (int64), the gradients of the sums and the weights, and the first point of each vector (int64).
    The sizes: the numbers of channels, elements, taps, points and vectors. ``begin`` and ``end`` are members.

    Args:
        dtype: float32 or float64.
        width: the number of points of a vector.
    """
    w = Loops(width, 5, 5)
    x, places, grad, out, starts = w.table
    channels, elements, taps, points, vectors = w.sizes
    with w.loop("%begin", "%end") as n:
        plane = w.element(x, w.times(w.times(n, channels), elements), dtype)
        line = w.element(grad, w.times(w.times(n, channels), points), dtype)
        table = w.times(w.times(n, taps), points)
        with w.loop("0", taps) as t, w.loop("0", vectors) as v:
            point = w.number(starts, v)
            at = w.plus(w.plus(table, w.times(t, points)), point)
            there, lanes = _places(w, w.element(places, at, "int64"), elements)
            total = w.variable(w.constant(0.0, dtype))
            with w.loop("0", channels) as c:
                here = w.element(plane, w.times(c, elements), dtype)
                value = w.select(there, _picked(w, here, lanes, dtype), w.constant(0.0, dtype))
                factor = w.load(w.element(line, w.plus(w.times(c, points), point), dtype), dtype, None)
                w.set(total, w.add(w.get(total, dtype), w.mul(factor, value)))
            w.store(w.get(total, dtype), w.element(out, at, dtype), None)
    return w.function()


def weighted_scatter(dtype: str) -> str:
    """Return the text of the kernel of the gradient by x: out += grad · weights at the places, one after the other.

    The table: the gradient of the sums, places (int64), weights, and out. The sizes: the numbers of channels, elements,
    taps and points. ``begin`` and ``end`` are channels of all members.

    Args:
        dtype: float32 or float64.
    """
    w = Loops(1, 4, 4)
    grad, places, weights, out = w.table
    channels, elements, taps, points = w.sizes
    with w.loop("%begin", "%end") as c:
        n = w.assign(f"sdiv i64 {c}, {channels}")
        plane = w.element(out, w.times(c, elements), dtype)
        line = w.element(grad, w.times(c, points), dtype)
        table = w.times(w.times(n, taps), points)
        with w.loop("0", taps) as t:
            row = w.plus(table, w.times(t, points))
            with w.loop("0", points) as p:
                at = w.plus(row, p)
                there, (place,) = _places(w, w.element(places, at, "int64"), elements)
                factor = w.load(w.element(weights, at, dtype), dtype, None)
                product = w.mul(w.load(w.element(line, p, dtype), dtype, None), factor)
                target = w.element(plane, place, dtype)
                added = w.select(there, product, w.constant(-0.0, dtype))  # adding it changes nothing
                w.store(w.add(w.load(target, dtype, None), added), target, None)
    return w.function()


def _places(w: Loops, pointer: str, elements: str) -> tuple[Vector, list[str]]:
    """Load places; return which of them are in range, and all, with 0 in place of those that are not."""
    loaded = w.load(pointer, "int64", None)
    limit = w.splat(elements, "int64")
    there = Vector(w.assign(f"icmp ult {w.type('int64')} {loaded.text}, {limit.text}"), "bool")
    inside = []
    for k in range(w.width):
        place = w.number(pointer, str(k))
        inside.append(w.assign(f"select i1 {w.assign(f'icmp ult i64 {place}, {elements}')}, i64 {place}, i64 0"))
    return there, inside


def _picked(w: Loops, pointer: str, places: Sequence[str], dtype: str) -> Vector:
    """Load the elements at several places as a vector."""
    if len(places) == 1:
        return w.load(w.element(pointer, places[0], dtype), dtype, None)
    return w.load_lanes([w.element(pointer, place, dtype) for place in places], "0", dtype)
