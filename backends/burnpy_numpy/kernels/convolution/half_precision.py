"""Convolution of 16-bit floats in float32, and its gradients, by the kernel of matrix products.

An image is laid out with its channels last and its rows one after the other. Windows then begin a fixed number of
elements apart, and the elements of a window's row lie together: a view, whose rows overlap, is a matrix with a row for
each window, and no window is copied. Each row of the kernel makes a product with such a view, and these are added
up. Windows that would begin near the end of one row of the image and end in the next are computed, too, and
dropped.

With a stride, the rows of the image with the same remainder lie together, as a row of the kernel meets no others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32, infinity_bits
from burnpy.backend.operations.convolution import Pair, window_counts
from burnpy.backend.primitives import Shape
from burnpy_numpy.convolution import pointwise_convolution, pointwise_input_gradient, pointwise_weight_gradient
from burnpy_numpy.cpu_threads import shared
from burnpy_numpy.kernels.convolution.tiles import Where
from burnpy_numpy.kernels.products.products import Product, multiplied_by, product_of
from burnpy_numpy.matmul import LEAST

_WORTH = {"amx": 1 << 22, "dots": 1 << 25}
"""The least number of multiplications for which this takes less time than float32, by the instructions for bfloat16."""
_CHANNELS, _WINDOWS = 32, 32
"""The least numbers of channels, of a group and of its results, and of an image's windows."""
_BLOCK_BYTES = 1 << 20
"""The bytes of the products of a block of images, which are copied from the second cache. Sums of weights' gradients
depend on it, and so it is one number for any count of threads."""


def convolution(name: str, x: Any, y: Any, *args: Any) -> Any:
    """Return a convolution of 16-bit floats in float32; None without instructions for bfloat16, and where float32 takes
    less time.

    Args:
        name: the operation.
        x: its first operand, images or a gradient.
        y: its second one.
        args: its other arguments.
    """
    *others, stride, padding, dilation, groups = args
    if multiplied_by((x.dtype.name, y.dtype.name)) == "numbers":
        return None
    function, pointwise = _FUNCTIONS[name]
    shape = others[0] if name == "conv2d_weight" else y.shape
    given = x, y, *(others or (None,))  # without a bias
    if shape[2:] == (1, 1) and padding == (0, 0) and groups == 1:
        return pointwise(*given, stride) if x.size // max(x.shape[1], 1) * prod(shape) >= LEAST else None
    return function(*given, (stride, padding, dilation), groups)


def convolve(x: Any, weight: Any, bias: Any, where: Where, groups: int) -> Any:
    """Return a convolution in float32; None if it is small, or if the weight is not finite.

    Args:
        x: images in 16 bits, (N, C, H, W).
        weight: the weight in 16 bits, (O, C / groups, height, width).
        bias: (O,), or None.
        where: stride, padding and dilation.
        groups: the number of groups.
    """
    stride, padding, dilation = where
    counts = window_counts(x.shape, weight.shape[2:], *where)
    if not (_is_worth(len(x), counts, weight.shape, groups) and _is_finite(weight)):
        return None
    begin, taps = (-padding[0], -padding[1]), _grouped(weight, groups, 0)
    return _correlation(_grouped(x, groups), taps, begin, counts, stride, dilation, bias)


def input_gradient(grad: Any, weight: Any, shape: Shape, where: Where, groups: int) -> Any:
    """Return the gradient of images of a shape, in float32: a convolution of the gradient and the flipped weight. None
    as for `convolve`, and with a stride, where the gradients of neighbours are convolutions with other parts of the
    weight."""
    (o, c, *kernel), (stride, padding, dilation) = weight.shape, where
    turned = c * groups, o // groups, *kernel
    if stride != (1, 1) or not (_is_worth(shape[0], shape[2:], turned, groups) and _is_finite(weight)):
        return None
    begins = [p - d * (k - 1) for k, p, d in zip(kernel, padding, dilation, strict=True)]
    taps = _grouped(weight, groups, 0).swapaxes(1, 2)[..., ::-1, ::-1]
    return _correlation(_grouped(grad, groups), taps, (begins[0], begins[1]), shape[2:], stride, dilation)


def weight_gradient(grad: Any, x: Any, shape: Shape, where: Where, groups: int) -> Any:
    """Return the gradient of a weight of a shape, in float32; None if it is small or not finite. A dropped window has a
    gradient of 0 here, whose product with an infinity is NaN."""
    stride, padding, dilation = where
    counts = grad.shape[2:]
    if not _is_worth(len(x), counts, shape, groups):
        return None
    images, grads = _grouped(x, groups), _grouped(grad, groups)
    total: Any = None
    for begin, end in _blocks(len(x), 2 * images[:1].nbytes):
        rows = Rows(images[begin:end], (shape[2], shape[3]), (-padding[0], -padding[1]), counts, stride, dilation)
        spread = np.zeros((*grads.shape[1:3], end - begin, rows.high, rows.across), grad.dtype)
        _copy(grads[begin:end], spread[..., : counts[0], : counts[1]].transpose(2, 0, 1, 3, 4))
        left = spread.reshape((*spread.shape[:2], -1))[..., : rows.together]
        windows = rows.matrices()
        found = product_of(left, windows[0])
        if not isinstance(found, Product):
            return None
        if total is None:
            total = np.empty((len(windows), *found.shape), float32)
        for part, right in zip(total, windows, strict=True):
            found.run(left, right, part, adds=begin > 0)
    if not np.isfinite(total).all():
        return None
    o, c, high, wide = shape
    total = total.reshape((high, -1, groups, o // groups, wide * high // len(total), c))
    return total.transpose(2, 3, 5, 0, 1, 4).reshape(shape)


_FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "conv2d": (convolve, pointwise_convolution),
    "conv2d_bias": (convolve, pointwise_convolution),
    "conv2d_input": (input_gradient, pointwise_input_gradient),
    "conv2d_weight": (weight_gradient, pointwise_weight_gradient),
}
"""The functions for each convolution: of any windows, and of windows of one element."""


def _correlation(x: Any, taps: Any, begin: Pair, counts: Shape, stride: Pair, dilation: Pair, bias: Any = None) -> Any:
    """Return the sums of products of windows and taps in float32; None if the kernel computes no such products.

    Args:
        x: images in 16 bits, (N, groups, C, H, W), with zeros around them.
        taps: the weight, (groups, O, C, height, width).
        begin: the row and the column at which the first window begins.
        counts: the numbers of windows below and beside each other.
        stride: the distance of windows.
        dilation: the distance of the elements of a window.
        bias: (groups · O,), which is added to the sums.
    """
    members, (groups, outputs, _, *kernel) = len(x), taps.shape
    out = np.empty((members, groups, outputs, *counts), float32)
    matrices = np.ascontiguousarray(taps.transpose(3, 0, 1, 4, 2))
    column = None if bias is None else bias.reshape((groups, outputs, 1, 1))
    for first, end in _blocks(members, out[:1].nbytes):
        rows = Rows(x[first:end], (kernel[0], kernel[1]), begin, (counts[0], counts[1]), stride, dilation)
        sums = np.empty((end - first, groups, outputs, counts[0] * rows.across), float32)
        weights = [matrices[i, :, :, j : j + length].reshape((groups, outputs, -1)) for i, j, length in rows.runs]
        windows = rows.columns()
        found = product_of(weights[0], windows[0])
        if not isinstance(found, Product):
            return None
        for k, (left, right) in enumerate(zip(weights, windows, strict=True)):
            found.run(left, right, sums, adds=k > 0)
        _copy(sums.reshape((*sums.shape[:3], counts[0], -1))[..., : counts[1]], out[first:end], column)
    return out.reshape((members, -1, *counts))


class Rows:
    """Images with their channels last, and the views of them whose rows are windows.

    A window consists of runs of elements that lie together: the rows of the kernel, or with a dilation its elements.

    Args:
        x: images in 16 bits, (N, groups, C, H, W), with zeros around them.
        kernel: the height and the width of windows.
        begin: the row and the column at which the first window begins.
        counts: the numbers of windows below and beside each other.
        stride: the distance of windows.
        dilation: the distance of the elements of a window.
    """

    def __init__(self, x: Any, kernel: Pair, begin: Pair, counts: Pair, stride: Pair, dilation: Pair) -> None:
        members, groups, channels = x.shape[:3]
        down, right = stride
        places = [divmod(i * dilation[0], down) for i in range(kernel[0])]  # rows and remainders
        remainders = sorted({remainder for _, remainder in places})
        reach, most = (kernel[1] - 1) * dilation[1], places[-1][0]
        self.high = counts[0] + most  #: the rows with one remainder
        self.across = counts[1] + reach // right  #: the windows that begin in a row, dropped ones among them
        self.together = (members * self.high - most) * self.across  #: the windows of all images
        length = kernel[1] if dilation[1] == 1 else 1
        #: the runs' first rows and columns, and their lengths
        self.runs = [(i, j, length) for i in range(kernel[0]) for j in range(0, kernel[1], length)]

        shape = groups, len(remainders), members, self.high, self.across * right, channels
        self._memory = np.zeros(prod(shape) + reach * channels, x.dtype)
        image = self._memory[: prod(shape)].reshape(shape)
        self._group, remainder, self._member, line, pixel, self._element = image.strides
        self._window, self._size = right * pixel, length * channels
        self._shape = members, groups, counts[0] * self.across
        self._first = [
            remainders.index(places[i][1]) * remainder + places[i][0] * line + j * dilation[1] * pixel
            for i, j, _ in self.runs
        ]
        for k, first in enumerate(remainders):
            high, rows = _inside(begin[0] + first, down, self.high, x.shape[3])
            wide, columns = _inside(begin[1], 1, image.shape[4], x.shape[4])
            _copy(x[..., rows, columns], image[:, k, :, high, wide].transpose(1, 0, 4, 2, 3))

    def columns(self) -> list[Any]:
        """Return a matrix for each image and run, (N, groups, elements of a run, windows)."""
        members, groups, windows = self._shape
        shape, strides = (
            (members, groups, self._size, windows),
            (self._member, self._group, self._element, self._window),
        )
        return [np.ndarray(shape, self._memory.dtype, self._memory, first, strides) for first in self._first]

    def matrices(self) -> list[Any]:
        """Return a matrix for each run, (groups, windows of all images, elements of a run)."""
        shape, strides = (self._shape[1], self.together, self._size), (self._group, self._window, self._element)
        return [np.ndarray(shape, self._memory.dtype, self._memory, first, strides) for first in self._first]


def _inside(begin: int, step: int, count: int, size: int) -> tuple[slice, slice]:
    """Return which of ``count`` rows lie in an image, and which rows of the image these are.

    Args:
        begin: the place of the first row, negative before the image.
        step: the distance of the rows.
        count: the number of rows.
        size: the number of rows of the image.
    """
    first = max(0, -(begin // step))
    end = max(first, min(count, -((begin - size) // step)))
    return slice(first, end), slice(begin + first * step, begin + end * step, step)


def _copy(x: Any, out: Any, added: Any = None) -> None:
    """Copy images, a part in each thread, and add an array to each."""

    def work(begin: int, end: int) -> None:
        if added is None:
            out[begin:end] = x[begin:end]
        else:
            np.add(x[begin:end], added, out[begin:end])

    if x.size:
        shared(work, len(x), x[0].size)


def _blocks(count: int, each: int) -> Iterator[tuple[int, int]]:
    """Yield begin and end of blocks of images, which take this many bytes each."""
    parts = -(-count // max(1, _BLOCK_BYTES // max(each, 1)))
    step = -(-count // parts)
    return ((begin, min(begin + step, count)) for begin in range(0, count, step))


def _grouped(x: Any, groups: int, dim: int = 1) -> Any:
    """Return an array with the channels of each group apart."""
    return x.reshape((*x.shape[:dim], groups, -1, *x.shape[dim + 1 :]))


def _is_worth(members: int, counts: Shape, weight: Shape, groups: int) -> bool:
    """Return whether a convolution with this many windows takes less time here."""
    outputs, channels, *_ = weight
    enough = outputs // groups >= _CHANNELS <= channels and prod(counts) >= _WINDOWS
    return enough and members * prod(counts) * prod(weight) >= _WORTH[multiplied_by(("bfloat16", "bfloat16"))]


def _is_finite(weight: Any) -> bool:
    """Return whether a weight of 16 bits has neither infinities nor NaN, whose products with padding would be NaN."""
    exponent = infinity_bits(weight.dtype)
    return bool((weight.view(np.uint16) & exponent).max() < exponent)
