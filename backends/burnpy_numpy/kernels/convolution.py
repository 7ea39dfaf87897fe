"""`CompiledConvolution`: convolution and its gradients as kernels on arrays with the channels first.

Each number is summed in an order that depends on shapes and the machine alone, however work is divided among threads.
"""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from burnpy.backend.dtypes import float32, float64
from burnpy.backend.operations.windows import Pair, window_counts
from burnpy.backend.primitives import Shape
from burnpy_array import ArrayBackend
from burnpy_numpy.kernels.operations import kernels_enabled, template_kernel
from burnpy_numpy.convolution import all_finite, fits
from burnpy_numpy.threads import COUNT, shared

if TYPE_CHECKING:
    from burnpy_numpy.kernels.kernel import NamedKernel
    from burnpy_numpy.kernels.windows import Tables, Where, Windows

_MIN_PRODUCTS = 1 << 16
"""The number of products from which kernels are used."""
_TINY = 1 << 12
"""The product of the sizes of two arrays below which nothing else is looked at."""
_WASTE = 0.25
"""The share of `Tables.wasted` up to which the gradient by a weight takes less time than a product of matrices."""
_USED = 0.6
"""The value of `Windows.lanes_used` below which a convolution takes longer than a product of matrices."""
_PRODUCTS = 8
"""The number of products that take as long as an operation of one element elsewhere."""
_ROWS = 1 << 14
"""The maximum size in bytes of those channels of a gradient that are read again and again for a block of a weight."""
_PART = 4
"""The number of a window's elements for each rest of a stride, from which the gradient by an input is convolutions."""


class CompiledConvolution(ArrayBackend):
    """Convolution and its gradients for windows of several elements, by kernels."""

    def conv2d(self, x: Any, weight: Any, stride: Pair, padding: Pair, dilation: Pair, groups: int) -> Any:
        tiny = x.size * weight.size < _TINY
        out = None if tiny else self._convolved(x, weight, None, (stride, padding, dilation), groups)
        return super().conv2d(x, weight, stride, padding, dilation, groups) if out is None else out

    def conv2d_bias(
        self, x: Any, weight: Any, bias: Any, stride: Pair, padding: Pair, dilation: Pair, groups: int
    ) -> Any:
        tiny = x.size * weight.size < _TINY
        out = None if tiny else self._convolved(x, weight, bias, (stride, padding, dilation), groups)
        return super().conv2d_bias(x, weight, bias, stride, padding, dilation, groups) if out is None else out

    def conv2d_input(
        self, grad: Any, weight: Any, shape: Shape, stride: Pair, padding: Pair, dilation: Pair, groups: int
    ) -> Any:
        out = None
        area, parts = math.prod(weight.shape[2:]), math.prod(stride)
        small = parts > 1 and area < _PART * parts and fits(weight, groups)  # then products of matrices are faster
        suits = grad.size * weight.size >= _TINY and _suits(grad, weight, weight.shape, grad.shape[2:])
        if suits and not small and kernels_enabled() and all_finite(weight):
            out = self._by_input(grad, weight, shape, (stride, padding, dilation), groups)
        return super().conv2d_input(grad, weight, shape, stride, padding, dilation, groups) if out is None else out

    def conv2d_weight(
        self, grad: Any, x: Any, shape: Shape, stride: Pair, padding: Pair, dilation: Pair, groups: int
    ) -> Any:
        if _suits(grad, x, shape, grad.shape[2:]):
            windows = _windows(x, shape, (stride, padding, dilation), groups)
            slow = windows is None or (fits(x, groups) and windows.backward.wasted > _WASTE)
            kernel = None if slow or windows is None else _kernel("weight_gradient", windows.backward, x.dtype)
            if windows is not None and kernel is not None:
                return self._call(_by_weight, kernel, windows, grad, x)
        return super().conv2d_weight(grad, x, shape, stride, padding, dilation, groups)

    def _by_input(self, grad: Any, weight: Any, shape: Shape, where: Where, groups: int) -> Any:
        """Return the gradient by the input, as convolutions with the flipped weight; None if there is no kernel for it.

        With a stride, the elements that have the same rest are a convolution with a part of the weight.
        """
        o, c, *kernel = weight.shape
        turned = weight.reshape((groups, o // groups, c, *kernel)).swapaxes(1, 2).reshape((-1, o // groups, *kernel))
        high, wide = (_phases(shape[k], grad.shape[k], kernel[k - 2], *(pair[k - 2] for pair in where)) for k in (2, 3))
        (down, across), whole = where[0], where[0] == (1, 1)
        out: Any = None if whole else np.zeros(shape, grad.dtype)
        for (a, row), (b, column) in product(high.items(), wide.items()):
            selected, padding = turned[:, :, row.part, column.part], (row.padding, column.padding)
            one = (1, 1), padding, (row.dilation, column.dilation)
            part = self._convolved(grad, selected, None, one, groups)
            if part is None:
                if whole or not kernels_enabled():
                    return None
                part = super().conv2d(grad, selected, *one, groups)
            part = part[:, :, row.inside, column.inside]
            if whole:
                return part
            out[:, :, a::down, b::across] = part
        return out

    def _convolved(self, x: Any, weight: Any, bias: Any, where: Where, groups: int) -> Any:
        """Return a convolution; None if there is no kernel for it."""
        shape = weight.shape
        if _suits(x, weight, shape, window_counts(x.shape, (shape[2], shape[3]), *where)) and (
            bias is None or bias.dtype is x.dtype
        ):
            windows = _windows(x, shape, where, groups)
            slow = windows is None or (fits(x, groups) and windows.lanes_used < _USED)
            kernel = None if slow or windows is None else _kernel("convolution", windows.forward, x.dtype)
            if windows is not None and kernel is not None:
                return self._call(_forward, kernel, windows, x, weight, bias)
        return None


class _Phase(NamedTuple):
    """The elements of an input along a dimension that have the same rest, as a convolution of the gradient."""

    part: slice  #: the elements of the weight, turned round
    padding: int
    dilation: int
    inside: slice  #: the elements of the convolution's result


def _phases(n: int, count: int, size: int, stride: int, padding: int, dilation: int) -> dict[int, _Phase]:
    """Return the phases of an input of length n by rest, without those that no window reaches.

    Args:
        n: the length of the input.
        count: the number of windows.
        size: the length of a window.
        stride: the distance of windows.
        padding: the zeros before and after the input.
        dilation: the distance of elements of a window.
    """
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


def _suits(x: Any, y: Any, weight: Shape, counts: Shape) -> bool:
    """Return whether kernels are used for two arrays of a convolution with a weight and a result of these shapes."""
    members, area = x.shape[0], weight[2] * weight[3]
    return (
        area > 1  # without windows it is a matrix product
        and counts[1] >= 4  # a vector does not reach from one row into the next
        and counts[0] > 0
        and members * counts[0] * counts[1] * math.prod(weight) >= _MIN_PRODUCTS
        and (x.dtype is float32 or x.dtype is float64)
        and y.dtype is x.dtype
    )


def _windows(x: Any, weight: Shape, where: Where, groups: int) -> Windows | None:
    """Return the tables of a convolution; None if kernels are off."""
    if not kernels_enabled():
        return None
    from burnpy_numpy.kernels.windows import windows

    return windows(x.shape[1:], weight, where, groups, x.dtype.itemsize)


def _kernel(name: str, tables: Tables, dtype: Any) -> NamedKernel | None:
    """Return the kernel of a template of `convolution_kernels`; None if it cannot be compiled."""
    dtype_name = "float32" if dtype is float32 else "float64"
    return template_kernel("convolution_kernels", name, dtype_name, tables.width, *tables.block)


def _forward(kernel: NamedKernel, windows: Windows, x: Any, weight: Any, bias: Any) -> Any:
    tables, members, o = windows.forward, x.shape[0], weight.shape[0]
    weight = np.ascontiguousarray(weight)
    added = np.zeros(o, x.dtype) if bias is None else np.ascontiguousarray(bias)
    out = np.empty((members, o, *windows.counts), x.dtype)
    far, tiles = windows.counts[0] * windows.counts[1], len(tables.places) // tables.block[1]
    blocks = len(tables.channels)

    def work(begin: int, end: int, first: int = 0, last: int = blocks) -> None:
        for start, stop, source in windows.parts(x, begin, end):
            table = (source, weight, out[start:], added, *windows.forward_tables)
            sizes = (stop - start, windows.length, tiles, windows.member, o * far, far)
            kernel(table, sizes, first, last)

    each = far * math.prod(weight.shape) / _PRODUCTS
    if members >= COUNT:
        shared(work, members, each)
    else:
        shared(lambda first, last: work(0, members, first, last), blocks, each * members / blocks)
    kernel.note()
    return out


def _by_weight(kernel: NamedKernel, windows: Windows, grad: Any, x: Any) -> Any:
    tables, members, o = windows.backward, x.shape[0], grad.shape[1]
    grad = np.ascontiguousarray(grad)
    far = windows.counts[0] * windows.counts[1]
    (size, wide), blocks = tables.block, len(tables.channels)
    columns, vectors = len(tables.elements) // wide, len(tables.places)
    sums = np.zeros((blocks, columns, size, wide), x.dtype)
    rows = np.ascontiguousarray(tables.channels * far)
    most = max(64, _ROWS // (size * tables.width * x.itemsize))
    several = max(1, most // vectors)

    def work(first: int, last: int) -> None:
        for start, stop, source in windows.parts(x, 0, members):
            for begin in range(0, vectors, most):
                end = min(begin + most, vectors)
                places, targets = tables.places[begin:], tables.targets[begin:]
                table = (source, grad[start:], sums, tables.elements, places, targets, rows, tables.sources)
                whole = min(max(tables.whole - begin, 0), end - begin)
                sizes = (stop - start, several, columns, whole, end - begin, windows.member, o * far, tables.left)
                kernel(table, sizes, first, last)

    shared(work, blocks, members * far * windows.length * o / blocks / _PRODUCTS)
    kernel.note()
    out = np.empty((o, windows.length), x.dtype)
    out[tables.channels] = sums.swapaxes(1, 2).reshape((blocks, size, -1))[:, :, : windows.length]
    return out.reshape(windows.weight)
