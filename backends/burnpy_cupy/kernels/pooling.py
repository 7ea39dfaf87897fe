"""Pooling, one launch each, and two for the gradient of a maximum: the chosen elements, and sums of their gradients.

Kernels of pooling. Each thread gathers the elements for its own element of the result, a window's elements or, for
gradients, the windows that an element lies in, in row-major order: no two threads write one place, and sums are added
up in one order.

    max:      out[n, c, y, x] = the first NaN of the window, or else its first maximum; padding never is
    average:  out[n, c, y, x] = Σ of the window / divisor, or / the number of its elements
    adaptive: the window of y begins at ⌊y · height / high⌋ and ends before ⌈(y + 1) · height / high⌉
"""

from __future__ import annotations

from typing import Any

from burnpy.backend.dtypes import int32, int64
from burnpy.backend.operations.convolution import Pair, window_counts
from burnpy.backend.primitives import DType, Shape
from burnpy_array import ArrayBackend
from burnpy_cupy.kernels.elementwise_kernel import INDEX, Elementwise
from burnpy_cupy.kernels.kernel import MINUS_INFINITY, SUM, SUM_TYPE, Kernels
from burnpy_cupy.runtime import empty

_SIZES = "int32 channels, int32 height, int32 width, int32 high, int32 wide"
"""The sizes of x, and of the results (high, wide)."""

_WINDOWS = ", ".join([f"const int32 {name}_y, const int32 {name}_x" for name in ("size", "stride", "padding")])
_DILATION = "const int32 dilation_y, const int32 dilation_x"
"""Windows are constants of a kernel's source: loops over them have no branches, and divisions by them are products."""

_WIDE = INDEX + MINUS_INFINITY + SUM

_PLACE = "const index_t n = _at[0], c = _at[1], {y} = _at[2], {x} = _at[3];"
_OF_RESULT = _PLACE.format(x="x", y="y")
_OF_INPUT = _PLACE.format(x="w", y="h")

_WINDOW = """
index_t place = -1;
typename burnpy_sum<T>::type best = {best};
for (index_t r = 0; r < size_y; r++) {{
  const index_t h = y * stride_y - padding_y + r * dilation_y;
  if (h < 0 || h >= height) continue;
  for (index_t s = 0; s < size_x; s++) {{
    const index_t w = x * stride_x - padding_x + s * dilation_x;
    if (w < 0 || w >= width) continue;
    const ptrdiff_t at[] = {{n, c, h, w}};
    const typename burnpy_sum<T>::type value = image[at];
    {take}
  }}
}}
"""
_LARGEST = _WINDOW.format(
    best="MINUS_INFINITY",
    take="""if (place < 0 || value > best || (value != value && best == best)) {
      best = value;
      place = h * width + w;
    }""",
)
_CHOSEN = _WINDOW.format(
    best="pooled", take="if (place < 0 && (value >= best || value != value)) place = h * width + w;"
)
"""The first element that reaches the result of the window, or is NaN."""

_ADAPTIVE_LARGEST = """
index_t place = -1;
typename burnpy_sum<T>::type best = MINUS_INFINITY;
for (index_t h = y * height / high; h < ((y + 1) * height + high - 1) / high; h++)
  for (index_t w = x * width / wide; w < ((x + 1) * width + wide - 1) / wide; w++) {
    const ptrdiff_t at[] = {n, c, h, w};
    const typename burnpy_sum<T>::type value = image[at];
    if (place < 0 || value > best || (value != value && best == best)) {
      best = value;
      place = h * width + w;
    }
  }
"""

_MAX_BACKWARD = (
    _OF_INPUT
    + """
F total = F(0);
for (index_t r = (size_y - 1) * dilation_y / stride_y; r >= 0; r--) {
  const index_t y = (h + padding_y) / stride_y - r;
  if (y < 0 || y >= high) continue;
  for (index_t s = (size_x - 1) * dilation_x / stride_x; s >= 0; s--) {
    const index_t x = (w + padding_x) / stride_x - s;
    if (x < 0 || x >= wide) continue;
    const ptrdiff_t window[] = {n, c, y, x};
    if (chosen[window] == h * width + w) total += static_cast<F>(grad[window]);
  }
}
out = static_cast<T>(total);
"""
)
"""The windows from the first to the last that may have the element, in row-major order."""

_COUNT = """
const index_t top = {y} * stride_y - padding_y, left = {x} * stride_x - padding_x;
const index_t outside_y = with_padding ? padding_y : 0, outside_x = with_padding ? padding_x : 0;
const index_t count_y = min(top + size_y, height + outside_y) - max(top, -outside_y);
const index_t count_x = min(left + size_x, width + outside_x) - max(left, -outside_x);
const F share = F(1) / static_cast<F>(divisor ? divisor : count_y * count_x);
"""

_AVERAGE = (
    _OF_RESULT
    + _COUNT.format(y="y", x="x")
    + """
F total = F(0);
for (index_t h = max(top, index_t(0)); h < min(top + size_y, height); h++)
  for (index_t w = max(left, index_t(0)); w < min(left + size_x, width); w++) {
    const ptrdiff_t at[] = {n, c, h, w};
    total += static_cast<F>(image[at]);
  }
out = static_cast<T>(total * share);
"""
)

_AVERAGE_BACKWARD = (
    _OF_INPUT
    + """
F total = F(0);
for (index_t r = size_y - 1; r >= 0; r--) {
  const index_t below = h + padding_y - r, y = below / stride_y;
  if (below < 0 || y >= high || y * stride_y != below) continue;
  for (index_t s = size_x - 1; s >= 0; s--) {
    const index_t right = w + padding_x - s, x = right / stride_x;
    if (right < 0 || x >= wide || x * stride_x != right) continue;
"""
    + _COUNT.format(y="y", x="x")
    + """
    const ptrdiff_t window[] = {n, c, y, x};
    total += static_cast<F>(grad[window]) * share;
  }
}
out = static_cast<T>(total);
"""
)

_ADAPTIVE_AVERAGE = (
    _OF_RESULT
    + """
const index_t top = y * height / high, bottom = ((y + 1) * height + high - 1) / high;
const index_t left = x * width / wide, right = ((x + 1) * width + wide - 1) / wide;
F total = F(0);
for (index_t h = top; h < bottom; h++)
  for (index_t w = left; w < right; w++) {
    const ptrdiff_t at[] = {n, c, h, w};
    total += static_cast<F>(image[at]);
  }
out = static_cast<T>(total / static_cast<F>((bottom - top) * (right - left)));
"""
)

_ADAPTIVE_AVERAGE_BACKWARD = (
    _OF_INPUT
    + """
F total = F(0);
for (index_t y = h * high / height; y <= ((h + 1) * high - 1) / height; y++)
  for (index_t x = w * wide / width; x <= ((w + 1) * wide - 1) / width; x++) {
    const index_t count_y = ((y + 1) * height + high - 1) / high - y * height / high;
    const index_t count_x = ((x + 1) * width + wide - 1) / wide - x * width / wide;
    const ptrdiff_t window[] = {n, c, y, x};
    total += static_cast<F>(grad[window]) / static_cast<F>(count_y * count_x);
  }
out = static_cast<T>(total);
"""
)
"""The windows that h lies in are those from ⌊h · high / height⌋ to ⌊((h + 1) · high - 1) / height⌋."""

_AVERAGES = f"{_SIZES}, {_WINDOWS}, const bool with_padding, const int32 divisor"

POOLING = {
    "burnpy_max_pool": Elementwise(
        f"raw T image, {_SIZES}, {_WINDOWS}, {_DILATION}",
        "T out",
        f"{_OF_RESULT}{_LARGEST}out = static_cast<T>(best);",
        _WIDE,
    ),
    "burnpy_max_pool_indices": Elementwise(
        f"raw T image, {_SIZES}, {_WINDOWS}, {_DILATION}", "int64 out", f"{_OF_RESULT}{_LARGEST}out = place;", _WIDE
    ),
    "burnpy_max_pool_chosen": Elementwise(
        f"raw T image, T pooled, {_SIZES}, {_WINDOWS}, {_DILATION}",
        "int32 out",
        f"{_OF_RESULT}{_CHOSEN}out = place;",
        _WIDE,
    ),
    "burnpy_max_pool_backward": Elementwise(
        f"raw T grad, raw int32 chosen, {_SIZES}, {_WINDOWS}, {_DILATION}", "T out", SUM_TYPE + _MAX_BACKWARD, _WIDE
    ),
    "burnpy_adaptive_max_pool_indices": Elementwise(
        f"raw T image, {_SIZES}", "int64 out", f"{_OF_RESULT}{_ADAPTIVE_LARGEST}out = place;", _WIDE
    ),
    "burnpy_avg_pool": Elementwise(f"raw T image, {_AVERAGES}", "T out", SUM_TYPE + _AVERAGE, _WIDE),
    "burnpy_avg_pool_backward": Elementwise(f"raw T grad, {_AVERAGES}", "T out", SUM_TYPE + _AVERAGE_BACKWARD, _WIDE),
    "burnpy_adaptive_avg_pool": Elementwise(f"raw T image, {_SIZES}", "T out", SUM_TYPE + _ADAPTIVE_AVERAGE, _WIDE),
    "burnpy_adaptive_avg_pool_backward": Elementwise(
        f"raw T grad, {_SIZES}", "T out", SUM_TYPE + _ADAPTIVE_AVERAGE_BACKWARD, _WIDE
    ),
}


class CuPyPooling(ArrayBackend):
    """Pooling by gathering; sums of 16-bit floats are accumulated in float32."""

    _kernels: Kernels

    def max_pool2d(self, x: Any, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair, ceil_mode: bool) -> Any:
        size = window_counts(x.shape, kernel, stride, padding, dilation, ceil_mode)
        where = (*kernel, *stride, *padding, *dilation)
        return self._pooled("burnpy_max_pool", (x,), (*x.shape[:2], *size), x.dtype, x.shape, size, where)

    def max_pool2d_indices(
        self, x: Any, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair, ceil_mode: bool
    ) -> Any:
        size = window_counts(x.shape, kernel, stride, padding, dilation, ceil_mode)
        where = (*kernel, *stride, *padding, *dilation)
        return self._pooled("burnpy_max_pool_indices", (x,), (*x.shape[:2], *size), int64, x.shape, size, where)

    def max_pool2d_backward(
        self, grad: Any, x: Any, out: Any, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair
    ) -> Any:
        where, size = (*kernel, *stride, *padding, *dilation), out.shape[2:]
        chosen = self._pooled("burnpy_max_pool_chosen", (x, out), out.shape, int32, x.shape, size, where)
        return self._pooled("burnpy_max_pool_backward", (grad, chosen), x.shape, x.dtype, x.shape, size, where)

    def avg_pool2d(
        self,
        x: Any,
        kernel: Pair,
        stride: Pair,
        padding: Pair,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor: int | None,
    ) -> Any:
        size = window_counts(x.shape, kernel, stride, padding, (1, 1), ceil_mode)
        where = (*kernel, *stride, *padding, count_include_pad, divisor or 0)
        return self._pooled("burnpy_avg_pool", (x,), (*x.shape[:2], *size), x.dtype, x.shape, size, where)

    def avg_pool2d_backward(
        self,
        grad: Any,
        shape: Shape,
        kernel: Pair,
        stride: Pair,
        padding: Pair,
        count_include_pad: bool,
        divisor: int | None,
    ) -> Any:
        where = (*kernel, *stride, *padding, count_include_pad, divisor or 0)
        return self._pooled("burnpy_avg_pool_backward", (grad,), shape, grad.dtype, shape, grad.shape[2:], where)

    def adaptive_avg_pool2d(self, x: Any, size: Pair) -> Any:
        if size == (1, 1):  # where one thread for each plane would add up much, and others nothing
            return super().adaptive_avg_pool2d(x, size)
        return self._pooled("burnpy_adaptive_avg_pool", (x,), (*x.shape[:2], *size), x.dtype, x.shape, size, ())

    def adaptive_avg_pool2d_backward(self, grad: Any, shape: Shape) -> Any:
        size = grad.shape[2:]
        return self._pooled("burnpy_adaptive_avg_pool_backward", (grad,), shape, grad.dtype, shape, size, ())

    def adaptive_max_pool2d_indices(self, x: Any, size: Pair) -> Any:
        return self._pooled("burnpy_adaptive_max_pool_indices", (x,), (*x.shape[:2], *size), int64, x.shape, size, ())

    def _pooled(
        self,
        name: str,
        given: tuple[Any, ...],
        shape: Shape,
        dtype: DType,
        image: Shape,
        size: Shape,
        where: tuple[int, ...],
    ) -> Any:
        """Launch a kernel for a result of a shape and dtype: of arrays, the shape of x, the number of windows along its
        last two dimensions, and the kernel's further arguments."""
        out = self._call(empty, self.xp, shape, dtype)
        self._call(self._kernels[name], *given, (*image[1:], *size, *where), out)
        return out
