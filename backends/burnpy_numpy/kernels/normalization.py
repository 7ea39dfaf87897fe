"""Batch, group and instance norms, by kernels on groups of planes of the channels.

A plane is the elements of one channel of one member. The planes that are normalized together are a group. A group is
read for the mean, for the variance and for the result before the next one is, so that it comes from the cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32, float64
from burnpy.backend.primitives import Dims, Shape
from burnpy_numpy.kernels.compiler.llvm import vector_bytes
from burnpy_numpy.kernels.compiler.loops import Loops
from burnpy_numpy.kernels.compiler.vectors import Vector
from burnpy_numpy.kernels.kernel import LEAST, LONGEST, contiguous, template_kernel
from burnpy_numpy.kernels.launch import TemplateKernel

_SHORTEST = 4
"""The least size of a plane for which kernels are used."""


def group_normalize(x: Any, weight: Any, bias: Any, dims: Dims, eps: float) -> tuple[Any, Any, Any] | None:
    """Normalize planes of channels, or of groups of channels; None without a kernel for it."""
    groups = _groups_of(x, weight, dims) if bias.shape == weight.shape else None
    kernel = None if groups is None else _kernel(group_normalization, x.dtype, eps)
    if groups is None or kernel is None:
        return None
    small = tuple(1 if d in dims else k for d, k in enumerate(x.shape))
    out, mean, var = np.empty(x.shape, x.dtype), np.empty(small, x.dtype), np.empty(small, x.dtype)
    groups.run(kernel, (x, weight, bias, out, mean, var))
    return out, mean, var


def group_normalize_backward(
    grad: Any, x: Any, weight: Any, mean: Any, var: Any, dims: Dims, eps: float
) -> tuple[Any, Any, Any] | None:
    """Return the gradients of `group_normalize`; None without a kernel for it."""
    groups = _groups_of(x, weight, dims) if (grad.shape, grad.dtype) == (x.shape, x.dtype) else None
    kernel = None if groups is None else _kernel(group_normalization_backward, x.dtype, eps)
    if groups is None or kernel is None:
        return None
    out, parts = np.empty(x.shape, x.dtype), np.empty((2, len(x), weight.size), x.dtype)
    groups.run(kernel, (grad, x, weight, mean, var, out, parts[0], parts[1]))
    grad_weight, grad_bias = np.add.reduce(parts, 1)
    return out, grad_weight.reshape(weight.shape), grad_bias.reshape(weight.shape)


def _kernel(template: Callable[..., str], dtype: Any, eps: Any, relu: bool = False) -> TemplateKernel | None:
    """Return the kernel of a template; None if kernels are off."""
    return template_kernel(template, dtype, vector_bytes() // dtype.itemsize, float(eps), relu)


def planes_kernel(dtype: Any, eps: float, backward: bool, relu: bool) -> TemplateKernel | None:
    """Return the kernel of a normalization of planes, or of its gradients; None if kernels are off.

    Args:
        dtype: the dtype.
        eps: the number that is added to variances.
        backward: whether to return the kernel of the gradients.
        relu: whether relu is applied to the result.
    """
    return _kernel(group_normalization_backward if backward else group_normalization, dtype, eps, relu)


_PASSES = 3
"""The number of times that all elements of a group are read, or read and written."""


class PlaneGroups:
    """The groups of planes that are normalized together.

    Args:
        lead: the dimensions of x before those of a plane: members and channels, or members, groups and their channels.
        size: the number of elements of a plane.
    """

    def __init__(self, lead: Shape, size: int) -> None:
        if len(lead) == 2:
            members, count = lead
            planes, weights, steps = np.arange(count), np.arange(count), (count, 0)
            each = members
        else:
            members, groups, each = lead
            planes = np.arange(members * groups) * each
            weights, steps = planes % (groups * each), (1, 1)
        self.tables, self.count = (planes, weights), len(planes)
        self.sizes, self.each = (each, size, *steps), _PASSES * each * size

    def run(self, kernel: TemplateKernel, arrays: tuple[Any, ...]) -> None:
        """Run a kernel for all groups."""
        used = [*map(contiguous, arrays), *self.tables]
        kernel.run(used, self.sizes, self.count, self.each)


_groups = lru_cache(maxsize=256)(PlaneGroups)


def _groups_of(x: Any, weight: Any, dims: Dims) -> PlaneGroups | None:
    """Return the groups of x, if it is normalized over planes, with one weight for each channel."""
    if not (x.dtype is float32 or x.dtype is float64) or weight.dtype is not x.dtype:
        return None
    return plane_groups(x.shape, weight.shape, dims)


def plane_groups(shape: Shape, weight: Shape, dims: Dims) -> PlaneGroups | None:
    """Return the groups of an array, if it is normalized over planes, with one weight for each channel.

    Args:
        shape: its shape.
        weight: the shape of the weights.
        dims: the dims to normalize over.
    """
    count = len(shape)
    if math.prod(shape) < LEAST or count < 3:
        return None
    if dims == (0, *range(2, count)):
        lead = shape[:2]
    elif count > 3 and dims == tuple(range(2, count)):
        lead = shape[:3]
    else:
        return None
    size = math.prod(shape[len(lead) :])
    if not _SHORTEST <= size <= LONGEST or weight != (*lead[1:], *(1,) * (count - len(lead))):
        return None
    return _groups(lead, size)


class _GroupWriter(Loops):
    """A kernel on groups of planes. The last two addresses of its table are of int64: the first plane and the first
    weight of each group. The sizes: the numbers of planes of a group, and of elements of a plane; and how far apart the
    planes of a group are, and their weights. ``begin`` and ``end`` are groups."""

    def __init__(self, dtype: str, width: int, table: int) -> None:
        super().__init__(width, table, 4)
        self.dtype = dtype
        self.planes, self.size, self.step, self.weight_step = self.sizes
        self.whole = self.size // width
        left = self.size - self.whole * width
        self.rest = self.below(left)
        self.last = self.chosen(self.icmp("eq", left, 0), 0, 1)
        kind = "float" if dtype == "float32" else "double"
        number = self.assign(f"sitofp i64 {self.planes * self.size} to {kind}")
        self.divisor = self.splat(number, dtype)

    @contextmanager
    def group_planes(self, group: str) -> Generator[tuple[str, str]]:
        """Write a loop over the planes of a group; gives the numbers of a plane and of its weight."""
        first, first_weight = self.number(self.table[-2], group), self.number(self.table[-1], group)
        with self.loop(0, self.planes) as k:
            plane = first + k * self.step
            yield plane, first_weight + k * self.weight_step

    def vectors(self, plane: str, arrays: Sequence[str], body: Callable[[str, str | None, list[Vector]], None]) -> None:
        """Write a loop over the vectors of a plane.

        ``body`` is called with the position of the first element, a mask for the last elements, and the vectors.
        """
        start = plane * self.size
        for first, end, mask in ((0, self.whole, None), (self.whole, self.whole + self.last, self.rest)):
            with self.loop(first, end) as v:
                at = start + v * self.width
                body(at, mask, [self.load(self.element(x, at, self.dtype), self.dtype, mask) for x in arrays])

    def one(self, array: str, index: str | int) -> Vector:
        """Load one number of an array."""
        return self.load_one_at(array, index, self.dtype)

    def added(self, total: str, x: Vector, mask: str | None = None) -> None:
        """Add a vector to a variable, but for elements that a mask excludes."""
        if mask is not None:
            x = self.select(Vector(mask, "bool"), x, self.constant(0.0, self.dtype))
        self.set(total, self.add(self.get(total, self.dtype), x))

    def zero(self) -> str:
        """Return a new variable, which each round of the loop around it sets to 0."""
        return self.variable(self.constant(0.0, self.dtype))

    def slope(self, var: Vector, eps: float) -> Vector:
        """1 / √(var + eps)."""
        root = self.call("sqrt", self.add(var, self.constant(eps, self.dtype)))
        return self.div(self.constant(1.0, self.dtype), root)


def group_normalization(dtype: str, width: int, eps: float, relu: bool) -> str:
    """Return the text of the kernel of a normalization; the table: x, weight, bias, out, means and variances.

    Args:
        dtype: float32 or float64.
        width: the number of elements of a vector.
        eps: the number that is added to variances.
        relu: whether relu is applied to the result.
    """
    w = _GroupWriter(dtype, width, 8)
    x, weight, bias, out, means, variances = w.table[:6]
    with w.loop(w.begin, w.end) as group:
        total, squares, errors = w.zero(), w.zero(), w.zero()
        with w.group_planes(group) as (plane, _):
            part = w.zero()
            w.vectors(plane, [x], lambda at, mask, xs: w.added(part, xs[0]))
            w.added(total, w.total(w.get(part, dtype)))
        mean = w.div(w.get(total, dtype), w.divisor)
        with w.group_planes(group) as (plane, _):
            part, rest = w.zero(), w.zero()

            def square(at: str, mask: str | None, xs: list[Vector]) -> None:
                deviation = w.sub(xs[0], mean)
                w.added(part, w.mul(deviation, deviation), mask)
                w.added(rest, deviation, mask)

            w.vectors(plane, [x], square)
            w.added(squares, w.total(w.get(part, dtype)))
            w.added(errors, w.total(w.get(rest, dtype)))
        error = w.div(w.get(errors, dtype), w.divisor)
        square_mean = w.div(w.get(squares, dtype), w.divisor)
        var = w.extreme("maximum", w.sub(square_mean, w.mul(error, error)), w.constant(0.0, dtype))
        w.store_one(w.add(mean, error), w.element(means, group, dtype))
        w.store_one(var, w.element(variances, group, dtype))
        slope = w.slope(var, eps)
        with w.group_planes(group) as (plane, channel):
            scale = w.mul(slope, w.one(weight, channel))
            added = w.sub(w.one(bias, channel), w.mul(error, scale))

            def normalize(at: str, mask: str | None, xs: list[Vector]) -> None:
                result = w.add(w.mul(w.sub(xs[0], mean), scale), added)
                if relu:
                    result = w.extreme("maximum", result, w.constant(0.0, dtype))
                w.store(result, w.element(out, at, dtype), mask)

            w.vectors(plane, [x], normalize)
    return w.function()


def group_normalization_backward(dtype: str, width: int, eps: float, relu: bool) -> str:
    """Return the text of the kernel of the gradients of a normalization. The table: the gradient, x, weight, means,
    variances, the gradient of x, and the parts of the gradients of weight and bias that each plane adds; with relu, its
    result too. The arguments are those of `group_normalization`."""
    w = _GroupWriter(dtype, width, 11 if relu else 10)
    read = [*w.table[:2], *w.table[8 : 9 if relu else 8]]

    def pair(xs: list[Vector]) -> tuple[Vector, Vector]:
        """Return vectors of the gradient of the normalization, and of x."""
        if not relu:
            return xs[0], xs[1]
        zero = w.constant(0.0, dtype)
        return w.select(w.compare("une", xs[2], zero), xs[0], zero), xs[1]

    weight, means, variances, out, grad_weight, grad_bias = w.table[2:8]
    with w.loop(w.begin, w.end) as group:
        mean, slope = w.one(means, group), w.slope(w.one(variances, group), eps)
        along, level, errors = w.zero(), w.zero(), w.zero()
        with w.group_planes(group) as (plane, channel):
            products, sums, rest = w.zero(), w.zero(), w.zero()

            def add_up(at: str, mask: str | None, xs: list[Vector]) -> None:
                own, value = pair(xs)
                deviation = w.sub(value, mean)
                w.added(products, w.mul(own, deviation), mask)
                w.added(sums, own)
                w.added(rest, deviation, mask)

            w.vectors(plane, read, add_up)
            product, total = w.mul(w.total(w.get(products, dtype)), slope), w.total(w.get(sums, dtype))
            w.store_one(product, w.element(grad_weight, plane, dtype))
            w.store_one(total, w.element(grad_bias, plane, dtype))
            factor = w.one(weight, channel)
            w.added(along, w.mul(product, factor))
            w.added(level, w.mul(total, factor))
            w.added(errors, w.total(w.get(rest, dtype)))
        error = w.div(w.get(errors, dtype), w.divisor)
        with w.group_planes(group) as (plane, _):
            product, total = w.one(grad_weight, plane), w.one(grad_bias, plane)
            w.store_one(w.sub(product, w.mul(w.mul(error, slope), total)), w.element(grad_weight, plane, dtype))
        shift = w.div(w.mul(w.get(level, dtype), slope), w.divisor)
        product = w.sub(w.get(along, dtype), w.mul(w.mul(error, slope), w.get(level, dtype)))
        tilt = w.div(w.mul(product, w.mul(slope, slope)), w.divisor)
        shift = w.sub(shift, w.mul(error, tilt))
        with w.group_planes(group) as (plane, channel):
            scale = w.mul(slope, w.one(weight, channel))

            def combine(at: str, mask: str | None, xs: list[Vector]) -> None:
                own, value = pair(xs)
                result = w.sub(w.sub(w.mul(own, scale), w.mul(w.sub(value, mean), tilt)), shift)
                w.store(result, w.element(out, at, dtype), mask)

            w.vectors(plane, read, combine)
    return w.function()
