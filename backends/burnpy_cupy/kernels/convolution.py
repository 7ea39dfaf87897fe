"""Convolution and its gradients by products of gathered tiles, see `convolution_tiles`, or by sums of few products.

With ``h = y · stride - padding + r · dilation``, and ``w`` likewise::

    result[n, o, y, x] = Σ over the group's c, and r, s of image[n, c, h, w] · weight[o, c, r, s]
    image[n, c, h, w] = Σ over the group's o, and r, s, y, x that lead to h, w of grad[n, o, y, x] · weight[o, c, r, s]
    weight[o, c, r, s] = Σ over n, y, x of grad[n, o, y, x] · image[n, c, h, w]

A thread adds the products of an element where these are few, as with one channel to a group; tiles would be empty.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from burnpy.backend.dtypes import float32
from burnpy.backend.entries import Operation
from burnpy.backend.operations.convolution import Pair, window_counts
from burnpy.backend.primitives import DType, Shape
from burnpy_cupy import gemm
from burnpy_cupy.kernels.convolution_launches import (
    THREADS,
    Layout,
    Operand,
    Where,
    copying,
    image_operand,
    launches,
    layout,
    packed_sizes,
    weight_launches,
    window_sizes,
)
from burnpy_cupy.kernels.convolution_tiles import PIXELS
from burnpy_cupy.kernels.elementwise_kernel import INDEX, Elementwise, contiguous
from burnpy_cupy.kernels.kernel import SUM, SUM_TYPE, Raw
from burnpy_cupy.kernels.launch import Launch, launcher
from burnpy_cupy.kernels.matmul import CuPyMatmul
from burnpy_cupy.runtime import empty

_GEOMETRY = (
    "int32 members, int32 channels, int32 height, int32 width, int32 high, int32 wide, int32 rows, int32 columns, "
    "int32 stride_y, int32 stride_x, int32 padding_y, int32 padding_x, int32 dilation_y, int32 dilation_x"
)
"""Sizes: of the batch, the image, the results (high, wide) and the kernel (rows, columns)."""

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
_BY_WEIGHT_OF_FEW = f"""
constexpr int THREADS = {THREADS};
extern "C" __global__ __launch_bounds__({THREADS}) void burnpy_conv_direct_weight(
  const T* grad, const T* image, O* out, Geometry g) {{
  __shared__ S parts[THREADS];
  const int thread = threadIdx.x, taps = g.taps_y * g.taps_x, tap = blockIdx.x % taps;
  const int channel = blockIdx.x / taps % g.channels, output = blockIdx.x / taps / g.channels;
  const int down = tap / static_cast<int>(g.taps_x) * g.tap_y - g.padding_y;
  const int right = tap % static_cast<int>(g.taps_x) * g.tap_x - g.padding_x;
  image += (output / g.rows * g.channels + channel) * g.image_channel;
  grad += output * g.grad_channel;
  S sum = 0;
  for (unsigned pixel = thread; pixel < g.members * g.high * g.wide; pixel += THREADS) {{
    const Pixel at(pixel, g.high, g.wide);
    const int h = at.y * g.stride_y + down, w = at.x * g.stride_x + right;
    if (inside(g, h, w))
      sum = fma(static_cast<S>(grad[at.member * g.grad_member + at.y * g.grad_row + at.x * g.grad_column]),
                static_cast<S>(image[place(g, at.member, h, w)]), sum);
  }}
  parts[thread] = sum;
  for (int half = THREADS / 2; half > 0; half /= 2) {{
    __syncthreads();
    if (thread < half) parts[thread] += parts[thread + half];
  }}
  if (thread == 0) out[blockIdx.x] = O(parts[0]);
}}
"""

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
}


DIRECT = {"burnpy_conv_direct_weight": Raw(PIXELS + _BY_WEIGHT_OF_FEW)}
"""The gradient of the weight by sums of few products; a block has one element."""

_FEW_PRODUCTS, _SEVERAL_PRODUCTS, _SHARING_CHANNELS = 16, 64, 4
"""The limits of `_is_direct`. They were not measured on a GPU."""
_FEWEST_PIXELS = 64
"""The least number of pixels of an image for which cuBLAS multiplies its matrix."""
_MOST_PIXELS = (1 << 31) - (1 << 16)
"""The most pixels of a launch, which counts them in 32 bits."""


class CuPyConvolution(CuPyMatmul):
    """Convolution; 16-bit floats are accumulated in float32."""

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

    def rounded_operands(
        self, xs: Sequence[Any], dtype: DType, op: Operation | None, args: tuple[Any, ...]
    ) -> list[Any]:
        """Return operands in 16 bits, images and weights of convolutions with their channels last in memory."""
        is_tiled = op is not None and op.name.startswith("conv2d") and args[-1] == 1
        if not is_tiled or not self.multiplies_in_tensor_cores(dtype):
            return super().rounded_operands(xs, dtype, op, args)
        return [self._call(_channels_last, self, x, dtype) for x in xs]

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
        return self._call(_gradient_of_input, self, grad, weight, shape, (stride, padding, dilation), groups, dtype)

    def _conv2d_weight_as(
        self, grad: Any, x: Any, shape: Shape, stride: Pair, padding: Pair, dilation: Pair, groups: int, dtype: DType
    ) -> Any:
        return self._call(_gradient_of_weight, self, grad, x, shape, (stride, padding, dilation), groups, dtype)


def _channels_last(b: CuPyConvolution, x: Any, dtype: DType) -> Any:
    """Return a float32 image in 16 bits, with its channels last in memory if they fill vectors."""
    n, c, height, width = x.shape
    if not x.size or c < 16 // dtype.itemsize or height * width == 1:
        return b.cast(x, dtype)
    copy, pixel = _channels_last_launch(b, layout(x), x.dtype, dtype)
    out = empty(b.xp, (n, height, width, pixel), dtype)
    copy(x.data.ptr, out.data.ptr, 0, 0)
    return (out if pixel == c else out[..., :c]).transpose(0, 3, 1, 2)


@lru_cache(1024)
def _channels_last_launch(b: CuPyConvolution, given: Layout, dtype: DType, into: DType) -> tuple[Launch, int]:
    """Return the launch that converts an image to one whose channels are last in memory, and its stride of pixels."""
    operand = image_operand(given, 1, into.itemsize, is_converted=True)
    (launch,) = copying(b, (operand, Operand((0, 0, 0, 0), (), 0)), True, dtype, into)
    return launch, operand.strides[3]


def _is_direct(terms: int, kernel: Shape, sharing: int) -> bool:
    """Return whether a kernel of its own adds up the products of each element of the result.

    Args:
        terms: the products of an element for each position of the window.
        kernel: the sizes of the window.
        sharing: the number of elements of the result that are made of the same ones of the operand.
    """
    terms *= kernel[0] * kernel[1]
    # If few share, as with one channel to a group, a product of matrices gains little from reading them once.
    return terms <= _FEW_PRODUCTS or (terms <= _SEVERAL_PRODUCTS and sharing <= _SHARING_CHANNELS)


def _direct(b: CuPyConvolution, name: str, arrays: tuple[Any, ...], out: Any, sizes: tuple[Any, ...]) -> Any:
    """Write the sums of few products to ``out``; return it."""
    shape, kernel, where, counts, outputs, groups = sizes
    stride, padding, dilation = where
    geometry = (*shape, *counts, *kernel, *stride, *padding, *dilation, outputs, groups)
    b._kernels[name](*arrays, geometry, out)
    return out


def _forward(b: CuPyConvolution, x: Any, weight: Any, bias: Any, where: Where, groups: int, dtype: DType) -> Any:
    n, o, kernel = x.shape[0], weight.shape[0], weight.shape[2:]
    counts = window_counts(x.shape, kernel, *where)
    out = empty(b.xp, (n, o, *counts), dtype)
    if not out.size:
        return out
    if _is_direct(weight.shape[1], kernel, o // groups):
        name, given = ("burnpy_conv_direct", ()) if bias is None else ("burnpy_conv_direct_bias", (bias,))
        return _direct(b, name, (x, weight, *given), out, (x.shape, kernel, where, counts, o, groups))
    if bias is None and _is_product(x, kernel, where, groups):
        gemm.multiply(b.xp, weight.reshape(weight.shape[:2]), _pixels(x), _pixels(out))
        return out
    bias = None if bias is None else contiguous(b.xp, bias)
    x, where = _sampled(x, kernel, where)
    _convolve(b, weight, x, bias, out, where, groups, by_image=False)
    return out


def _gradient_of_input(
    b: CuPyConvolution, grad: Any, weight: Any, shape: Shape, where: Where, groups: int, dtype: DType
) -> Any:
    o, kernel, out = grad.shape[1], weight.shape[2:], empty(b.xp, shape, dtype)
    if not out.size:
        return out
    if _is_direct(o // groups, kernel, weight.shape[1]):
        sizes = (shape, kernel, where, grad.shape[2:], o, groups)
        return _direct(b, "burnpy_conv_direct_input", (grad, weight), out, sizes)
    if _is_product(grad, kernel, where, groups):
        gemm.multiply(b.xp, weight.reshape(weight.shape[:2]).T, _pixels(grad), _pixels(out))
        return out
    _convolve(b, weight, grad, None, out, where, groups, by_image=True)
    return out


def _gradient_of_weight(
    b: CuPyConvolution, grad: Any, x: Any, shape: Shape, where: Where, groups: int, dtype: DType
) -> Any:
    most, wide = _most_members(grad, x), float32 if dtype.itemsize == 2 else dtype
    if len(grad) > most:
        parts = [(grad[k : k + most], x[k : k + most]) for k in range(0, len(grad), most)]
        return b.cast(sum(_gradient_of_weight(b, *part, shape, where, groups, wide) for part in parts), dtype)
    out = empty(b.xp, shape, dtype)
    if not out.size or not grad.size or not x.size:
        out.fill(0)
        return out
    if x._c_contiguous and grad._c_contiguous and _is_product(x, shape[2:], where, groups) and _is_long(shape, grad):
        sums = empty(b.xp, (len(grad), *shape[:2]), wide)
        gemm.multiply(b.xp, _pixels(grad), _pixels(x).transpose(0, 2, 1), sums)
        return b._reduced("sum", sums, (0,), False, dtype).reshape(shape)
    cores = b.multiplies_in_tensor_cores(x.dtype)
    if shape[0] // groups * shape[1] <= _SHARING_CHANNELS:
        _few_launch(b, grad.shape, layout(grad).strides, layout(x), shape, where, x.dtype, dtype)(
            grad.data.ptr, x.data.ptr, out.data.ptr
        )
        return out
    x, where = _sampled(x, shape[2:], where)
    found = weight_launches(b, layout(grad), layout(x), shape, where, groups, x.dtype, dtype, cores)
    if found.splits == 1:
        found.run(b, grad, x, out.data.ptr)
        return out
    sums = empty(b.xp, (found.splits, out.size), wide)
    found.run(b, grad, x, sums.data.ptr)
    return b._reduced("sum", sums, (0,), False, dtype).reshape(shape)


def _is_product(image: Any, kernel: Shape, where: Where, groups: int) -> bool:
    """Return whether a convolution is one product of matrices for each member, which cuBLAS reads where they lie."""
    if kernel != (1, 1) or where[:2] != ((1, 1), (0, 0)) or groups > 1:
        return False
    channels, pixels = image.shape[1], math.prod(image.shape[2:])
    line = pixels if image._c_contiguous else channels if image.transpose(0, 2, 3, 1)._c_contiguous else 0
    # Where lines do not begin at 16 bytes, cuBLAS has slow kernels alone.
    return bool(pixels >= _FEWEST_PIXELS and line > 0 and line * image.itemsize % 16 == 0)


def _sampled(x: Any, kernel: Shape, where: Where) -> tuple[Any, Where]:
    """Return the pixels that windows of one element meet, without a stride, so that no others are copied."""
    stride, padding, dilation = where
    if kernel != (1, 1) or padding != (0, 0) or stride == (1, 1):
        return x, where
    return x[:, :, :: stride[0], :: stride[1]], ((1, 1), padding, dilation)


def _is_long(shape: Shape, grad: Any) -> bool:
    """Return whether a weight's gradients of each member take less memory than a copy of the operands."""
    return 8 * math.prod(shape[:2]) < int(sum(shape[:2]) * math.prod(grad.shape[2:]) * grad.itemsize)


def _most_members(*images: Any) -> int:
    """Return how many members of batches one launch takes: kernels, and those that copy, count pixels in 32 bits."""
    pixels: int = max([1, *[math.prod(x.shape[2:]) for x in images]])
    return max(1, _MOST_PIXELS // pixels)


def _pixels(x: Any) -> Any:
    """Return the matrices of the channels and pixels of a batch."""
    return x.reshape((*x.shape[:2], -1))


def _convolve(
    b: CuPyConvolution, weight: Any, image: Any, bias: Any, out: Any, where: Where, groups: int, *, by_image: bool
) -> None:
    """Write the sums over the channels of a group of ``image``, and over taps, to the pixels of ``out``."""
    most = _most_members(image, out)
    if len(image) > most:
        for k in range(0, len(image), most):
            part = slice(k, k + most)
            _convolve(b, weight, image[part], bias, out[part], where, groups, by_image=by_image)
        return
    given = layout(weight), layout(image), out.shape, where, groups, by_image, bias is not None, image.dtype, out.dtype
    found = launches(b, *given, b.multiplies_in_tensor_cores(image.dtype))
    found.run(b, weight, image, 0 if bias is None else bias.data.ptr, out.data.ptr)


@lru_cache(1024)
def _few_launch(
    b: CuPyConvolution,
    grad_shape: Shape,
    grad_strides: Shape,
    of_image: Layout,
    shape: Shape,
    where: Where,
    dtype: DType,
    out_dtype: DType,
) -> Launch:
    """Return the launch of the gradient of a weight that has few channels for each output, and few outputs."""
    groups = of_image.shape[1] // shape[1]
    member, channel, row, column = of_image.strides
    given = Operand((member, shape[1] * channel, row, column), (), 0)
    names = ("grad_member", "grad_channel", "grad_row", "grad_column")
    sizes = window_sizes(where, shape[2:], of_image.shape, groups, given, dtype.itemsize) | {
        **dict(zip(names, grad_strides, strict=True)),
        "rows": shape[0] // groups,
        "channels": shape[1],
        "image_channel": channel,
        "members": grad_shape[0],
        "high": grad_shape[2],
        "wide": grad_shape[3],
    }
    sums = float32 if dtype.itemsize == 2 else dtype
    kernel = b._kernels.typed("burnpy_conv_direct_weight", {"WIDE": 1}, T=dtype, S=sums, O=out_dtype)
    return launcher(b.xp, kernel, (math.prod(shape), 1), (THREADS, 1), "3Q", packed_sizes(sizes))
