"""Convolution and its gradients by products of gathered tiles, see `convolution_tiles`, or by sums of few products.

With ``h = y · stride - padding + r · dilation``, and ``w`` likewise::

    result[n, o, y, x] = Σ over the group's c, and r, s of image[n, c, h, w] · weight[o, c, r, s]
    image[n, c, h, w] = Σ over the group's o, and r, s, y, x that lead to h, w of grad[n, o, y, x] · weight[o, c, r, s]
    weight[o, c, r, s] = Σ over n, y, x of grad[n, o, y, x] · image[n, c, h, w]

A thread adds the products of an element where these are few, as with one channel to a group; tiles would be empty.
"""

from __future__ import annotations

import math
import struct
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

from burnpy.backend.dtypes import float32
from burnpy.backend.operations.convolution import Pair, window_counts
from burnpy.backend.primitives import DType, Shape
from burnpy_cupy.kernels.convolution_tiles import PACK, SIZES
from burnpy_cupy.kernels.elementwise import INDEX, Elementwise
from burnpy_cupy.kernels.kernel import SUM, SUM_TYPE
from burnpy_cupy.kernels.launch import Launch, launcher
from burnpy_cupy.kernels.matmul import CuPyMatmul

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
    "burnpy_conv_pack": PACK,
}

Where = tuple[Pair, Pair, Pair]
"""Stride, padding and dilation."""

_FEW, _SEVERAL, _SHARING = 16, 64, 4
"""The limits of `_is_direct`. They were not measured on a GPU."""
_THREADS = 256
_PROCESSORS = 132
"""The multiprocessors among which blocks are divided evenly, those of an H100. Sums are divided alike on every GPU."""
_RATES = {(128, 128): 1.0, (64, 128): 0.9, (64, 64): 0.75}
"""The tiles, and about how fast they are: the larger they are, the less they read. They were not measured on a GPU."""
_ALONE = 0.7
"""About the rate of a multiprocessor with one block in place of two."""
_SHORTEST, _MOST_PARTS = 512, 256
"""The least number of pixels whose products a block adds up, and the most parts of such a sum."""
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


class _Axis(NamedTuple):
    """The pixels and taps along a dimension: pixel p has its tap t at ``p · step + first + t · tap`` of the image."""

    pixels: int
    step: int
    first: int
    taps: int
    tap: int
    out_first: int  #: where the result of pixel 0 lies
    out_step: int
    first_tap: int = 0  #: of the kernel, tap 0
    tap_step: int = 1


def _axis(count: int, kernel: int, stride: int, padding: int, dilation: int) -> _Axis:
    """Return the windows along a dimension."""
    return _Axis(count, stride, -padding, kernel, dilation, 0, 1)


def _phases(size: int, kernel: int, stride: int, padding: int, dilation: int) -> list[_Axis]:
    """Return the elements of a dimension as pixels of the gradient by it, for each remainder that has some."""
    found, apart = [], stride // math.gcd(stride, dilation)
    for first in range(min(stride, size)):
        taps = [r for r in range(kernel) if (first + padding - r * dilation) % stride == 0]
        r = taps[0] if taps else 0
        moved = (first + padding - r * dilation) // stride
        axis = _Axis(-(-(size - first) // stride), 1, moved, len(taps), -(apart * dilation // stride), first, stride)
        found.append(axis._replace(first_tap=r, tap_step=apart))
    return found


def _is_direct(terms: int, sharing: int) -> bool:
    """Return whether a kernel of its own adds up the ``terms`` of each element of the result.

    ``sharing`` is the number of elements of the result that are made of the same ones of the operand.
    """
    # If few share, as with one channel to a group, a product of matrices gains little from reading them once.
    return terms <= _FEW or (terms <= _SEVERAL and sharing <= _SHARING)


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
    out = b.xp.ndarray((n, o, *counts), dtype)
    if not out.size:
        return out
    if _is_direct(weight.shape[1] * math.prod(kernel), o // groups):
        name, given = ("burnpy_conv_direct", ()) if bias is None else ("burnpy_conv_direct_bias", (bias,))
        return _direct(b, name, (x, weight, *given), out, (x.shape, kernel, where, counts, o, groups))
    axes = [_axis(*each) for each in zip(counts, kernel, *where, strict=True)]
    bias = bias if bias is None or bias._c_contiguous else b.xp.ascontiguousarray(bias)
    _convolve(b, weight, x, bias, out, (axes[0], axes[1]), groups, by_image=False)
    return out


def _by_input(b: CuPyConvolution, grad: Any, weight: Any, shape: Shape, where: Where, groups: int, dtype: DType) -> Any:
    o, kernel, out = grad.shape[1], weight.shape[2:], b.xp.ndarray(shape, dtype)
    if not out.size:
        return out
    if _is_direct(o // groups * math.prod(kernel), weight.shape[1]):
        sizes = (shape, kernel, where, grad.shape[2:], o, groups)
        return _direct(b, "burnpy_conv_direct_input", (grad, weight), out, sizes)
    phases = [_phases(*each) for each in zip(shape[2:], kernel, *where, strict=True)]
    for y, x in product(*phases):
        _convolve(b, weight, grad, None, out, (y, x), groups, by_image=True)
    return out


def _by_weight(b: CuPyConvolution, grad: Any, x: Any, shape: Shape, where: Where, groups: int, dtype: DType) -> Any:
    most = max(1, _MOST_PIXELS // max(1, math.prod(grad.shape[2:])))
    if len(grad) > most:
        parts = [(grad[k : k + most], x[k : k + most]) for k in range(0, len(grad), most)]
        wide = float32 if dtype.itemsize == 2 else dtype
        return b.cast(sum(_by_weight(b, *part, shape, where, groups, wide) for part in parts), dtype)
    out = b.xp.ndarray(shape, dtype)
    if not out.size or not grad.size or not x.size:
        out.fill(0)
        return out
    axes = [_axis(*each) for each in zip(grad.shape[2:], shape[2:], *where, strict=True)]
    given = (axes[0], axes[1]), x.shape, x.strides, grad.shape, grad.strides, groups, x.dtype, dtype
    launch, splits = _weight_launch(b, *given, b.multiplies_in_tensor_cores(x.dtype))
    if splits == 1:
        launch(grad.data.ptr, x.data.ptr, out.data.ptr)
        return out
    parts = b.xp.ndarray((splits, out.size), float32 if dtype.itemsize == 2 else dtype)
    launch(grad.data.ptr, x.data.ptr, parts.data.ptr)
    return b._reduced("sum", parts, (0,), False, dtype).reshape(shape)


def _convolve(
    b: CuPyConvolution,
    weight: Any,
    image: Any,
    bias: Any,
    out: Any,
    axes: tuple[_Axis, _Axis],
    groups: int,
    *,
    by_image: bool,
) -> None:
    """Write the sums over the channels of a group of ``image``, and over taps, to the pixels of ``out``."""
    most = max(1, _MOST_PIXELS // max(1, axes[0].pixels * axes[1].pixels))
    if len(image) > most:
        for k in range(0, len(image), most):
            part = slice(k, k + most)
            _convolve(b, weight, image[part], bias, out[part], axes, groups, by_image=by_image)
        return
    cores, packed = b.multiplies_in_tensor_cores(image.dtype), weight
    given = axes, image.shape, image.strides, image.dtype, out.shape, out.dtype, groups, bias is not None, cores
    launch, length, depth = _launch(b, *given)
    rows, channels = out.shape[1] // groups, image.shape[1] // groups
    is_packed = not by_image and weight._c_contiguous and length == channels == math.prod(weight.shape[1:])
    if length and not (is_packed and weight.data.ptr % 16 == 0):
        packed = b.xp.ndarray((groups, rows, length), weight.dtype)
        y, x = axes
        numbers = (y.taps, x.taps, y.first_tap, x.first_tap, y.tap_step, x.tap_step)
        b._kernels["burnpy_conv_pack"](weight, (rows, channels, length, depth, int(by_image), *numbers), packed)
    launch(packed.data.ptr, image.data.ptr, 0 if bias is None else bias.data.ptr, out.data.ptr)


@lru_cache(2048)
def _launch(
    b: CuPyConvolution,
    axes: tuple[_Axis, _Axis],
    shape: Shape,
    strides: Shape,
    dtype: DType,
    out_shape: Shape,
    out_dtype: DType,
    groups: int,
    has_bias: bool,
    cores: bool,
) -> tuple[Launch, int, int]:
    """Return the launch, the number of packed weights of a row, and how many channels of a tap lie side by side."""
    y, x = axes
    rows, channels, taps = out_shape[1] // groups, shape[1] // groups, y.taps * x.taps
    pixels, depth = shape[0] * y.pixels * x.pixels, 64 // _width(dtype, cores)
    is_flat = taps > 1 and 2 * channels <= depth * -(-channels // depth)
    steps = -(-channels * taps // depth) if is_flat else -(-channels // depth) * taps
    tile = _tile(rows, pixels, groups, cores)
    channel = math.prod(out_shape[2:])
    sizes = {
        "rows": rows,
        "steps": steps,
        "out_first": y.out_first * out_shape[3] + x.out_first,
        "out_member": out_shape[1] * channel,
        "out_channel": channel,
        "out_row": y.out_step * out_shape[3],
        "out_column": x.out_step,
    }
    constants = {"FLAT": int(is_flat), "HAS_BIAS": int(has_bias)}
    blocks = -(-rows // tile[0]) * -(-pixels // tile[1]), groups
    geometry = _geometry(axes, shape, strides, dtype, groups, sizes)
    launch = _prepared(b, "burnpy_conv", cores, tile, constants, blocks, "4Q", geometry, dtype, out_dtype)
    return launch, steps * depth, 0 if is_flat else depth


@lru_cache(1024)
def _weight_launch(
    b: CuPyConvolution,
    axes: tuple[_Axis, _Axis],
    shape: Shape,
    strides: Shape,
    grad_shape: Shape,
    grad_strides: Shape,
    groups: int,
    dtype: DType,
    out_dtype: DType,
    cores: bool,
) -> tuple[Launch, int]:
    """Return the launch of the gradient by the weight, and the number of parts of its sums."""
    y, x = axes
    rows, channels, taps = grad_shape[1] // groups, shape[1] // groups, y.taps * x.taps
    columns, pixels = channels * taps, shape[0] * y.pixels * x.pixels
    names = ("grad_member", "grad_channel", "grad_row", "grad_column")
    sizes = {"rows": rows, **dict(zip(names, [step // dtype.itemsize for step in grad_strides], strict=True))}
    if rows * channels <= _SHARING:
        geometry, cores, tile = _geometry(axes, shape, strides, dtype, groups, sizes), False, (64, 64)
        blocks = groups * rows * columns, 1
        name, splits = "burnpy_conv_direct_weight", 1
    else:
        tile = (128, 64) if cores and rows > 64 else (64, 64 if columns <= 64 else 128)
        tiles, depth = -(-rows // tile[0]) * -(-columns // tile[1]), 64 // _width(dtype, cores)
        length = -(-pixels // (_parts(tiles * groups, pixels) * depth)) * depth
        splits = -(-pixels // length)
        geometry = _geometry(axes, shape, strides, dtype, groups, sizes | {"splits": splits, "length": length})
        name, blocks = "burnpy_conv_weight", (tiles, groups * splits)
    into = out_dtype if splits == 1 or out_dtype.itemsize > 2 else float32
    return _prepared(b, name, cores, tile, {}, blocks, "3Q", geometry, dtype, into), splits


def _width(dtype: DType, cores: bool) -> int:
    """Return the bytes of a number in shared memory."""
    return dtype.itemsize if cores or dtype.itemsize > 2 else 4


def _tile(rows: int, pixels: int, groups: int, cores: bool) -> tuple[int, int]:
    """Return the rows and columns of the tiles that take the least time; larger ones have registers on tensor cores."""

    def time(tile: tuple[int, int]) -> float:
        blocks = groups * -(-rows // tile[0]) * -(-pixels // tile[1])
        return -(-blocks // _PROCESSORS) * tile[0] * tile[1] / _RATES[tile]

    return min([tile for tile in _RATES if cores or tile[0] == 64], key=time)


def _parts(tiles: int, pixels: int) -> int:
    """Return in how many parts to add up products of all pixels, for so many tiles."""

    def time(parts: int) -> float:
        blocks = tiles * parts
        rate = 1.0 if blocks >= 2 * _PROCESSORS else _ALONE
        return -(-blocks // _PROCESSORS) / parts / rate * (1 + parts / 1024)  # as parts are written and read

    return min(range(1, max(1, min(_MOST_PARTS, pixels // _SHORTEST)) + 1), key=time)


def _geometry(
    axes: tuple[_Axis, _Axis], shape: Shape, strides: Shape, dtype: DType, groups: int, sizes: dict[str, int]
) -> bytes:
    """Return the structure `Geometry` of the kernels."""
    names = ("image_member", "image_channel", "image_row", "image_column")
    found = dict(zip(names, [step // dtype.itemsize for step in strides], strict=True)) | sizes
    found |= {"channels": shape[1] // groups, "height": shape[2], "width": shape[3]}
    found |= {"pixels": shape[0] * axes[0].pixels * axes[1].pixels, "high": axes[0].pixels, "wide": axes[1].pixels}
    for d, axis in zip("yx", axes, strict=True):
        found |= {f"taps_{d}": axis.taps, f"step_{d}": axis.step, f"first_{d}": axis.first, f"tap_{d}": axis.tap}
    return struct.pack(f"={len(SIZES)}q", *[found.get(name, 0) for name in SIZES])


def _prepared(
    b: CuPyConvolution,
    name: str,
    cores: bool,
    tile: tuple[int, int],
    constants: dict[str, int],
    blocks: tuple[int, int],
    given: str,
    geometry: bytes,
    dtype: DType,
    out_dtype: DType,
) -> Launch:
    of_cores = 32 // dtype.itemsize if cores else 0
    constants = {"TENSOR_CORES": of_cores, "ROWS": tile[0], "COLUMNS": tile[1], **constants}
    sums = float32 if dtype.itemsize == 2 else dtype
    kernel = b._kernels.typed(name, constants, T=dtype, S=sums, O=out_dtype)
    return launcher(b.xp, kernel, blocks, (_THREADS, 1), given, geometry)
