"""`CompiledConvolution`: convolution and its gradients as kernels on arrays with the channels first.

Each number is summed in an order that depends on shapes and the machine alone, however work is divided among threads.
"""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.dtypes import float32, float64
from burnpy.backend.operations.windows import Pair, window_counts
from burnpy.backend.primitives import Shape
from burnpy_array import ArrayBackend
from burnpy_numpy.convolution import fits
from burnpy_numpy.threads import COUNT, shared

if TYPE_CHECKING:
    from burnpy_numpy.compiled.kernel import NamedKernel
    from burnpy_numpy.compiled.windows import Tables, Where, Windows

_LEAST = 1 << 16
"""The number of products from which kernels are used."""
_TINY = 1 << 12
"""The product of the sizes of two arrays below which nothing else is looked at."""
_WASTE = 0.25
"""The share of `Tables.wasted` up to which the gradient by a weight takes less time than a product of matrices."""
_PRODUCTS = 8
"""The number of products that take as long as an operation of one element elsewhere."""
_DENSE, _BROAD = 2, 16
"""With a stride, how often an element is in a window, and the width of the gradient, from which the gradient by the
input takes less time as convolutions."""
_ROWS = 1 << 14
"""The maximum size in bytes of those channels of a gradient that are read again and again for a block of a weight."""


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
        reach = [d * (k - 1) - p for d, k, p in zip(dilation, weight.shape[2:], padding, strict=True)]
        out = None
        if stride == (1, 1) and min(reach) >= 0:  # a convolution with the flipped weight
            o, c, *kernel = weight.shape
            flipped = weight.reshape((groups, o // groups, c, *kernel)).swapaxes(1, 2)[..., ::-1, ::-1]
            flipped = flipped.reshape((groups * c, o // groups, *kernel))
            out = self._convolved(grad, flipped, None, (stride, (reach[0], reach[1]), dilation), groups)
        elif (
            dilation == (1, 1)
            and weight.shape[2] * weight.shape[3] > _DENSE * stride[0] * stride[1]
            and grad.shape[3] >= _BROAD
            and _suits(grad, weight, weight.shape, grad.shape[2:])
        ):
            from burnpy_numpy.compiled.kernel import enabled

            out = self._call(_by_phases, self, grad, weight, shape, stride, padding, groups) if enabled() else None
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

    def _convolved(self, x: Any, weight: Any, bias: Any, where: Where, groups: int) -> Any:
        """Return a convolution; None if there is no kernel for it."""
        shape = weight.shape
        if _suits(x, weight, shape, window_counts(x.shape, (shape[2], shape[3]), *where)) and (
            bias is None or bias.dtype is x.dtype
        ):
            windows = _windows(x, shape, where, groups)
            kernel = None if windows is None else _kernel("convolution", windows.forward, x.dtype)
            if windows is not None and kernel is not None:
                return self._call(_forward, kernel, windows, x, weight, bias)
        return None


def _by_phases(
    b: CompiledConvolution, grad: Any, weight: Any, shape: Shape, stride: Pair, padding: Pair, groups: int
) -> Any:
    """The gradient by the input of a convolution with a stride, as a convolution for each phase of its elements.

    The elements of a phase are apart by the stride, and only every stride-th row and column of the weight reaches them.
    """
    rows, columns = (
        [_Phase(k, *numbers) for k in range(numbers[0])]
        for numbers in zip(stride, padding, weight.shape[2:], shape[2:], strict=True)
    )
    before = [max(0, -min(phase.start for phase in phases)) for phases in (rows, columns)]
    after = [
        max(0, max(phase.stop for phase in phases) - n)
        for phases, n in zip((rows, columns), grad.shape[2:], strict=True)
    ]
    wide = np.pad(grad, ((0, 0), (0, 0), *zip(before, after, strict=True)))
    o, c = weight.shape[:2]
    out = np.zeros(shape, grad.dtype)
    for row, column in product(rows, columns):
        part = weight[:, :, row.key, column.key]
        if not part.size or not row.count or not column.count:
            continue
        flipped = part.reshape((groups, o // groups, c, *part.shape[2:])).swapaxes(1, 2)[..., ::-1, ::-1]
        flipped = flipped.reshape((groups * c, o // groups, *part.shape[2:]))
        (top, bottom), (left, right) = ((p.start + n, p.stop + n) for p, n in zip((row, column), before, strict=True))
        given = wide[:, :, top:bottom, left:right]
        out[:, :, row.first :: stride[0], column.first :: stride[1]] = b.conv2d(
            given, flipped, (1, 1), (0, 0), (1, 1), groups
        )
    return out


class _Phase:
    """The elements of one dimension of x that the elements ``key`` of a window reach, and the windows with these."""

    def __init__(self, phase: int, stride: int, padding: int, kernel: int, size: int) -> None:
        self.key = slice(phase, None, stride)
        self.first = (phase - padding) % stride  #: the first element of x
        self.count = len(range(self.first, size, stride))
        last = (self.first + padding - phase) // stride  #: the last window that the first element is in
        self.start = last - len(range(phase, kernel, stride)) + 1 if self.count else 0
        self.stop = last + self.count if self.count else 0


def _suits(x: Any, y: Any, weight: Shape, counts: Shape) -> bool:
    """Return whether kernels are used for two arrays of a convolution with a weight and a result of these shapes."""
    members, area = x.shape[0], weight[2] * weight[3]
    return (
        area > 1  # without windows it is a matrix product
        and counts[1] >= 4  # a vector does not reach from one row into the next
        and counts[0] > 0
        and members * counts[0] * counts[1] * math.prod(weight) >= _LEAST
        and (x.dtype is float32 or x.dtype is float64)
        and y.dtype is x.dtype
    )


def _windows(x: Any, weight: Shape, where: Where, groups: int) -> Windows | None:
    """Return the tables of a convolution; None if kernels are off."""
    from burnpy_numpy.compiled.kernel import enabled  # not imported before the first large convolution
    from burnpy_numpy.compiled.windows import windows

    return windows(x.shape[1:], weight, where, groups, x.dtype.itemsize) if enabled() else None


def _kernel(name: str, tables: Tables, dtype: Any) -> NamedKernel | None:
    """Return the kernel of a template of `convolving`; None if it cannot be compiled."""
    from burnpy_numpy.compiled import convolving
    from burnpy_numpy.compiled.kernel import named_kernel

    return named_kernel(getattr(convolving, name), dtype.name, tables.width, *tables.block)


def _forward(kernel: NamedKernel, windows: Windows, x: Any, weight: Any, bias: Any) -> Any:
    tables, members, o = windows.forward, x.shape[0], weight.shape[0]
    packed = np.ascontiguousarray(weight.reshape((o, -1))[tables.channels].swapaxes(1, 2))
    added = np.zeros(o, x.dtype) if bias is None else np.ascontiguousarray(bias)
    out = np.empty((members, o, *windows.counts), x.dtype)
    firsts = np.ascontiguousarray(tables.channels[:, 0])
    arrays = (packed, out, added, tables.elements, tables.places, tables.targets, firsts, tables.sources)
    addresses = [a.ctypes.data for a in arrays]
    far, tiles, blocks = windows.counts[0] * windows.counts[1], len(tables.places) // tables.block[1], len(firsts)
    step = out.itemsize * o * far

    def work(begin: int, end: int, first: int = 0, last: int = blocks) -> None:
        for start, stop, source in windows.parts(x, begin, end):
            table = [source, *addresses]
            table[2] += start * step
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
    arrays = (grad, sums, tables.elements, tables.places, tables.targets, rows, tables.sources)
    addresses = [a.ctypes.data for a in arrays]

    def work(first: int, last: int) -> None:
        for start, stop, source in windows.parts(x, 0, members):
            for begin in range(0, vectors, most):
                end = min(begin + most, vectors)
                table = [source, *addresses]
                table[1] += start * o * far * x.itemsize
                table[4] += 8 * begin
                table[5] += 8 * begin
                whole = min(max(tables.whole - begin, 0), end - begin)
                sizes = (stop - start, several, columns, whole, end - begin, windows.member, o * far, tables.left)
                kernel(table, sizes, first, last)

    shared(work, blocks, members * far * windows.length * o / blocks / _PRODUCTS)
    kernel.note()
    out = np.empty((o, windows.length), x.dtype)
    out[tables.channels] = sums.swapaxes(1, 2).reshape((blocks, size, -1))[:, :, : windows.length]
    return out.reshape(windows.weight)
