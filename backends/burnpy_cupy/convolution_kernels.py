"""Kernels of convolution: the windows of a batch as the columns of a matrix, and the sums of such columns.

With ``h = y · stride - padding + r · dilation``, and ``w`` likewise::

    columns[c, r, s, n, y, x] = image[n, c, h, w], or 0 outside of the image             (im2col)
    image[n, c, h, w] = Σ over r, s, y, x that lead to h, w of columns[c, r, s, n, y, x]   (col2im)

Where few products add up to an element, as with one channel to a group, they are added up at once, without columns::

    result[n, o, y, x] = Σ over the group's c, and r, s of image[n, c, h, w] · weight[o, c, r, s]
    image[n, c, h, w] = Σ over the group's o, and r, s, y, x that lead to h, w of grad[n, o, y, x] · weight[o, c, r, s]

Source: Chellapilla, Puri and Simard, High Performance Convolutional Neural Networks for Document Processing, 2006.
"""

from __future__ import annotations

from burnpy_cupy.definitions import INDEX, SUM, SUM_TYPE, Elementwise

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
