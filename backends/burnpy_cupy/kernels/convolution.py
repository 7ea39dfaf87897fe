"""Convolution and its gradients: one kernel that gathers and one matrix product, for as many members of the batch at
once as a limit of memory allows.

Kernels of convolution: the windows of a batch as the columns of a matrix, and the sums of such columns.

With ``h = y · stride - padding + r · dilation``, and ``w`` likewise::

    columns[c, r, s, n, y, x] = image[n, c, h, w], or 0 outside of the image             (im2col)
    image[n, c, h, w] = Σ over r, s, y, x that lead to h, w of columns[c, r, s, n, y, x]   (col2im)

Where few products add up to an element, as with one channel to a group, they are added up at once, without columns::

    result[n, o, y, x] = Σ over the group's c, and r, s of image[n, c, h, w] · weight[o, c, r, s]
    image[n, c, h, w] = Σ over the group's o, and r, s, y, x that lead to h, w of grad[n, o, y, x] · weight[o, c, r, s]

Source: Chellapilla, Puri and Simard, High Performance Convolutional Neural Networks for Document Processing, 2006.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from burnpy.backend.dtypes import float32
from burnpy.backend.operations.convolution import Pair, window_counts
from burnpy.backend.primitives import DType, Shape
from burnpy_cupy.gemm import multiply
from burnpy_cupy.kernels.elementwise import INDEX, Elementwise
from burnpy_cupy.kernels.library import SUM, SUM_TYPE
from burnpy_cupy.kernels.matmul import CuPyMatmul

_GEOMETRY = (
    "int32 members, int32 channels, int32 height, int32 width, int32 high, int32 wide, int32 rows, int32 columns, "
    "int32 stride_y, int32 stride_x, int32 padding_y, int32 padding_x, int32 dilation_y, int32 dilation_x"
)
"""Sizes: of the batch, the image, the results (high, wide) and the kernel (rows, columns)."""

_WINDOW = """
index_t rest = static_cast<index_t>(i);
const index_t x = rest % wide; rest /= wide;
const index_t y = rest % high; rest /= high;
const index_t n = rest % members, c = rest / members;
const index_t length = members * high * wide, column = static_cast<index_t>(i) - c * length;
const index_t top = y * stride_y - padding_y, left = x * stride_x - padding_x;
"""
"""The channel c and the window (n, y, x) of a thread."""

_IM2COL = """
for (index_t r = 0; r < rows; r++) {
  const index_t h = top + r * dilation_y;
  for (index_t s = 0; s < columns; s++) {
    const index_t w = left + s * dilation_x;
    T value = T(0);
    if (h >= 0 && h < height && w >= 0 && w < width) {
      const ptrdiff_t at[] = {n, c, h, w};
      value = image[at];
    }
    matrix[static_cast<ptrdiff_t>((c * rows + r) * columns + s) * length + column] = value;
  }
}
"""
"""One thread for each channel and window, which writes that part of a column: no two write one place."""

_TURNED = """
if (c < outputs) {
  const ptrdiff_t at[] = {n, c, y * wide + x};
  turned[static_cast<ptrdiff_t>(c) * length + column] = grad[at];
}
"""
"""The gradient (members, outputs, positions) in the order of the columns, in the same launch."""

_COL2IM = """
index_t rest = static_cast<index_t>(i);
const index_t w = rest % width + padding_x; rest /= width;
const index_t h = rest % height + padding_y; rest /= height;
const index_t c = rest % channels, n = rest / channels;
const ptrdiff_t length = static_cast<ptrdiff_t>(members) * high * wide;
F total = F(0);
for (index_t r = 0; r < rows; r++) {
  const index_t below = h - r * dilation_y, y = below / stride_y;
  if (below < 0 || y >= high || y * stride_y != below) continue;
  for (index_t s = 0; s < columns; s++) {
    const index_t right = w - s * dilation_x, x = right / stride_x;
    if (right < 0 || x >= wide || x * stride_x != right) continue;
    total += matrix[((c * rows + r) * columns + s) * length + (n * high + y) * wide + x];
  }
}
image = static_cast<T>(total);
"""
"""One thread for each element of the image, which gathers its terms in one order: no two write one place."""

_DIRECT = """
index_t rest = static_cast<index_t>(i);
const index_t x = rest % wide; rest /= wide;
const index_t y = rest % high; rest /= high;
const index_t o = rest % outputs, n = rest / outputs;
const index_t each = channels / groups, first = o / (outputs / groups) * each;
const index_t top = y * stride_y - padding_y, left = x * stride_x - padding_x;
F total = F(0);
for (index_t c = 0; c < each; c++)
  for (index_t r = 0; r < rows; r++) {
    const index_t h = top + r * dilation_y;
    if (h < 0 || h >= height) continue;
    for (index_t s = 0; s < columns; s++) {
      const index_t w = left + s * dilation_x;
      if (w < 0 || w >= width) continue;
      const ptrdiff_t at[] = {n, first + c, h, w};
      total += static_cast<F>(image[at]) * static_cast<F>(weight[((o * each + c) * rows + r) * columns + s]);
    }
  }
"""

_DIRECT_INPUT = """
index_t rest = static_cast<index_t>(i);
const index_t w = rest % width + padding_x; rest /= width;
const index_t h = rest % height + padding_y; rest /= height;
const index_t c = rest % channels, n = rest / channels;
const index_t each = channels / groups, outs = outputs / groups, first = c / each * outs;
F total = F(0);
for (index_t o = first; o < first + outs; o++)
  for (index_t r = 0; r < rows; r++) {
    const index_t below = h - r * dilation_y, y = below / stride_y;
    if (below < 0 || y >= high || y * stride_y != below) continue;
    for (index_t s = 0; s < columns; s++) {
      const index_t right = w - s * dilation_x, x = right / stride_x;
      if (right < 0 || x >= wide || x * stride_x != right) continue;
      const ptrdiff_t at[] = {n, o, y, x};
      total += static_cast<F>(grad[at]) * static_cast<F>(weight[((o * each + c % each) * rows + r) * columns + s]);
    }
  }
image = static_cast<Q>(total);
"""
"""In both, a thread computes one element of the result: no two write one place, and sums have one order."""

_GROUPS = f"{_GEOMETRY}, int32 outputs, int32 groups"
CONVOLUTION = {
    "burnpy_conv_direct": Elementwise(
        f"raw T image, raw T weight, {_GROUPS}",
        "Q out",
        f"{SUM_TYPE}{_DIRECT}out = static_cast<Q>(total);",
        INDEX + SUM,
    ),
    "burnpy_conv_direct_bias": Elementwise(
        f"raw T image, raw T weight, raw Q bias, {_GROUPS}",
        "Q out",
        f"{SUM_TYPE}{_DIRECT}out = static_cast<Q>(total + static_cast<F>(bias[o]));",
        INDEX + SUM,
    ),
    "burnpy_conv_direct_input": Elementwise(
        f"raw T grad, raw T weight, {_GROUPS}", "Q image", SUM_TYPE + _DIRECT_INPUT, INDEX + SUM
    ),
    "burnpy_im2col": Elementwise(f"raw T image, {_GEOMETRY}", "raw T matrix", _WINDOW + _IM2COL, INDEX),
    "burnpy_im2col_and_turn": Elementwise(
        f"raw T image, {_GEOMETRY}, raw T grad, int32 outputs",
        "raw T matrix, raw T turned",
        f"{_WINDOW}if (c < channels) {{{_IM2COL}}}{_TURNED}",
        INDEX,
    ),
    "burnpy_col2im": Elementwise(f"raw F matrix, {_GEOMETRY}", "T image", _COL2IM, INDEX),
}

Where = tuple[Pair, Pair, Pair]
"""Stride, padding and dilation."""

_FEW, _SEVERAL, _SHARING = 16, 64, 4
"""The limits of `_is_direct`. They were not measured on a GPU."""

_TRIVIAL: Where = ((1, 1), (0, 0), (1, 1))


class CuPyConvolution(CuPyMatmul):
    """Convolution; 16-bit floats are accumulated in float32.

    With a kernel of 1 × 1 that moves by 1, the image itself is the matrix of columns, and one product is all.
    """

    def conv2d(self, x: Any, weight: Any, stride: Pair, padding: Pair, dilation: Pair, groups: int) -> Any:
        return self._conv2d_as(x, weight, stride, padding, dilation, groups, x.dtype)

    def conv2d_bias(
        self, x: Any, weight: Any, bias: Any, stride: Pair, padding: Pair, dilation: Pair, groups: int
    ) -> Any:
        return self._conv2d_bias_as(x, weight, bias, stride, padding, dilation, groups, x.dtype)

    def conv2d_input(
        self, grad: Any, weight: Any, shape: Shape, stride: Pair, padding: Pair, dilation: Pair, groups: int
    ) -> Any:
        return self._conv2d_input_as(grad, weight, shape, stride, padding, dilation, groups, grad.dtype)

    def conv2d_weight(
        self, grad: Any, x: Any, shape: Shape, stride: Pair, padding: Pair, dilation: Pair, groups: int
    ) -> Any:
        return self._conv2d_weight_as(grad, x, shape, stride, padding, dilation, groups, grad.dtype)

    def _conv2d_as(
        self, x: Any, weight: Any, stride: Pair, padding: Pair, dilation: Pair, groups: int, dtype: DType
    ) -> Any:
        return self._call(_forward, self, x, weight, None, (stride, padding, dilation), groups, dtype)

    def _conv2d_bias_as(
        self, x: Any, weight: Any, bias: Any, stride: Pair, padding: Pair, dilation: Pair, groups: int, dtype: DType
    ) -> Any:
        return self._call(_forward, self, x, weight, bias, (stride, padding, dilation), groups, dtype)

    def _conv2d_input_as(
        self,
        grad: Any,
        weight: Any,
        shape: Shape,
        stride: Pair,
        padding: Pair,
        dilation: Pair,
        groups: int,
        dtype: DType,
    ) -> Any:
        return self._call(_by_input, self, grad, weight, shape, (stride, padding, dilation), groups, dtype)

    def _conv2d_weight_as(
        self, grad: Any, x: Any, shape: Shape, stride: Pair, padding: Pair, dilation: Pair, groups: int, dtype: DType
    ) -> Any:
        return self._call(_by_weight, self, grad, x, shape, (stride, padding, dilation), groups, dtype)


class _Windows:
    """The windows of a batch of images, as the columns of a matrix: of the elements of a window (c · area), the members
    of a block, and the positions of the windows.

    Args:
        b: the backend.
        shape: the shape of the images, (N, C, H, W).
        kernel: height and width of the kernel.
        where: stride, padding and dilation.
        itemsize: the size of an element of the matrix in bytes.
        most: the most bytes of a matrix.
    """

    def __init__(self, b: CuPyConvolution, shape: Shape, kernel: Shape, where: Where, itemsize: int, most: int) -> None:
        self._kernels, self._xp = b._kernels, b.xp
        self._image = shape
        self.counts = window_counts(shape, (kernel[0], kernel[1]), *where)
        stride, padding, dilation = where
        self._sizes = (*shape[1:], *self.counts, *kernel, *stride, *padding, *dilation)
        self.positions = self.counts[0] * self.counts[1]
        self.rows = shape[1] * kernel[0] * kernel[1]
        self._block = max(1, most // max(1, self.rows * self.positions * itemsize))

    def blocks(self, *arrays: Any) -> Iterator[tuple[Any, ...]]:
        """Yield the parts of arrays for each block of the batch."""
        if 0 < self._image[0] <= self._block:
            yield arrays
            return
        for start in range(0, self._image[0], self._block):
            stop = min(start + self._block, self._image[0])
            yield tuple([x[start:stop] for x in arrays])

    def lay_out(self, images: Any) -> Any:
        """Return the columns (rows, members, positions) of a block of images."""
        matrix = self.memory(images.shape[0], images.dtype)
        kernel = self._kernels["burnpy_im2col"]
        kernel(images, self._geometry(len(images)), matrix, size=images.shape[1] * len(images) * self.positions)
        return matrix

    def lay_out_with(self, images: Any, grads: Any) -> tuple[Any, Any]:
        """Return the columns of a block of images, and gradients (members, o, positions) as (o, members, positions)."""
        members, outputs, _ = grads.shape
        matrix = self.memory(members, images.dtype)
        turned = self._xp.ndarray((outputs, members, self.positions), grads.dtype)
        kernel = self._kernels["burnpy_im2col_and_turn"]
        size = max(images.shape[1], outputs) * members * self.positions
        kernel(images, self._geometry(members), grads, outputs, matrix, turned, size=size)
        return matrix, turned

    def memory(self, members: int, dtype: DType) -> Any:
        """Allocate memory for the columns of a block."""
        return self._xp.ndarray((self.rows, members, self.positions), dtype)

    def add_up(self, matrix: Any, images: Any) -> None:
        """Write the sums of the columns to a block of images."""
        self._kernels["burnpy_col2im"](matrix, self._geometry(images.shape[0]), images)

    def direct(self, images: Any, weight: Any, bias: Any, out: Any, groups: int) -> Any:
        """Write the convolution of all images to ``out`` without columns; return it."""
        name, given = ("burnpy_conv_direct", ()) if bias is None else ("burnpy_conv_direct_bias", (bias,))
        kernel = self._kernels[name]
        kernel(images, weight, *given, self._geometry(len(images), out.shape[1], groups), out)
        return out

    def direct_input(self, grad: Any, weight: Any, out: Any, groups: int) -> Any:
        """Write the gradient by all images to ``out`` without columns; return it."""
        kernel = self._kernels["burnpy_conv_direct_input"]
        kernel(grad, weight, self._geometry(len(grad), grad.shape[1], groups), out)
        return out

    def _geometry(self, members: int, *more: int) -> tuple[int, ...]:
        return (members, *self._sizes, *more)


_windows = lru_cache(1024)(_Windows)


def _is_direct(terms: int, sharing: int) -> bool:
    """Return whether sums of so few products are added up by a kernel of their own.

    Args:
        terms: the number of products of an element of the result.
        sharing: the number of elements of the result that are made of the same ones of the operand: if they are few,
            as with one channel to a group, a product of matrices gains little from reading them once.
    """
    return terms <= _FEW or (terms <= _SEVERAL and sharing <= _SHARING)


def _is_trivial(kernel: Shape, where: Where, groups: int) -> bool:
    """Return whether the windows of an image are its elements, so that the image is the matrix of their columns."""
    return tuple(kernel) == (1, 1) and where == _TRIVIAL and groups == 1


def _forward(b: CuPyConvolution, x: Any, weight: Any, bias: Any, where: Where, groups: int, dtype: DType) -> Any:
    xp, n, o = b.xp, x.shape[0], weight.shape[0]
    w = _windows(b, x.shape, weight.shape[2:], where, x.itemsize, b._columns_bytes)
    if not _is_trivial(weight.shape[2:], where, groups) and _is_direct(w.rows // groups, o // groups):
        return w.direct(x, weight, bias, xp.ndarray((n, o, *w.counts), dtype), groups)
    rows = _matrices(weight, groups)
    out = xp.ndarray((n, o, w.positions), dtype)
    wide = float32 if dtype.itemsize == 2 else dtype
    added = None if bias is None else bias.reshape((1, o, 1))
    product = out if added is None or wide is dtype else None  # else rounded once, with the bias
    if _is_trivial(weight.shape[2:], where, groups):
        product = xp.ndarray(out.shape, wide) if product is None else product
        multiply(xp, rows, x.reshape((n, x.shape[1], w.positions)), product)
        if added is not None:
            b._kernels["burnpy_bias"](product, added, out)
        return out.reshape((n, o, *w.counts))
    for images, part in w.blocks(x, out):
        columns, count = w.lay_out(images), part.shape[0]
        if groups == 1:
            target = part if product is out else xp.ndarray(part.shape, wide)
            multiply(xp, rows, columns.transpose(1, 0, 2), target)
            if added is not None:
                b._kernels["burnpy_bias"](target, added, part)
            continue
        grouped = columns.reshape((groups, w.rows // groups, count * w.positions))
        flat = multiply(xp, rows, grouped, xp.ndarray((groups, o // groups, grouped.shape[2]), wide))
        ordered = flat.reshape((o, count, w.positions)).transpose(1, 0, 2)
        if added is None:
            part[...] = ordered
        else:
            b._kernels["burnpy_bias"](ordered, added, part)
    return out.reshape((n, o, *w.counts))


def _by_input(b: CuPyConvolution, grad: Any, weight: Any, shape: Shape, where: Where, groups: int, dtype: DType) -> Any:
    xp, (n, o) = b.xp, grad.shape[:2]
    wide = float32 if dtype.itemsize == 2 else dtype
    w = _windows(b, shape, weight.shape[2:], where, wide.itemsize, b._columns_bytes)
    if not _is_trivial(weight.shape[2:], where, groups) and _is_direct(
        o // groups * math.prod(weight.shape[2:]), weight.shape[1]
    ):
        return w.direct_input(grad, weight, xp.ndarray(shape, dtype), groups)
    rows = _matrices(weight, groups).swapaxes(-1, -2)
    grads = grad.reshape((n, o, w.positions))
    out = xp.ndarray(shape, dtype)
    if _is_trivial(weight.shape[2:], where, groups):
        multiply(xp, rows, grads, out.reshape((n, shape[1], w.positions)))
        return out
    for part, images in w.blocks(grads, out):
        count = part.shape[0]
        matrix = w.memory(count, wide)
        if groups == 1:
            multiply(xp, rows, part, matrix.transpose(1, 0, 2))
        else:
            grouped = matrix.reshape((groups, w.rows // groups, count * w.positions))
            multiply(xp, rows, _channels_first(part, groups), grouped)
        w.add_up(matrix, images)
    return out


def _by_weight(b: CuPyConvolution, grad: Any, x: Any, shape: Shape, where: Where, groups: int, dtype: DType) -> Any:
    xp, (n, o) = b.xp, grad.shape[:2]
    w = _windows(b, x.shape, shape[2:], where, x.itemsize, b._columns_bytes)
    grads = grad.reshape((n, o, w.positions))
    blocks = list(w.blocks(x, grads))
    wide = dtype if dtype.itemsize > 2 or len(blocks) == 1 else float32
    total = None
    for images, part_of_grads in blocks:
        columns, turned = w.lay_out_with(images, part_of_grads)
        length = columns.shape[1] * w.positions
        columns = columns.reshape((groups, w.rows // groups, length))
        part = xp.ndarray((groups, o // groups, w.rows // groups), wide)
        multiply(xp, turned.reshape((groups, o // groups, length)), columns.swapaxes(1, 2), part)
        total = part if total is None else xp.add(total, part, total)
    if total is None:
        return xp.zeros(shape, dtype)
    total = total.reshape(shape)
    return total if wide is dtype else total.astype(dtype)


def _channels_first(grads: Any, groups: int) -> Any:
    """Return gradients (members, o, positions) as one matrix per group, with one row per channel."""
    members, o, positions = grads.shape
    return grads.transpose(1, 0, 2).reshape((groups, o // groups, members * positions))


def _matrices(weight: Any, groups: int) -> Any:
    """Return the weight as a matrix, or one per group, with one row per output channel."""
    o, c, high, wide = weight.shape
    return weight.reshape((o, c * high * wide) if groups == 1 else (groups, o // groups, c * high * wide))
