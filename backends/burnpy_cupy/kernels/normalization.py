"""Normalization, its gradients and running statistics, as programs; a batch norm of long channels is divided.

A program computes each channel by one block, which keeps it in registers. Where channels are too long for that, or few,
blocks first add up parts of them: sums and sums of squared deviations, or the sums that gradients need, of distances
from the channel's first element or rounded mean. Then as many blocks combine the parts of their channel, all in one
order, and compute their elements, from the last part on, which the L2 cache has read last.
Source: Chan, Golub and LeVeque, Updating Formulae and a Pairwise Algorithm for Computing Sample Variances, 1979.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from burnpy.backend.dtypes import float32
from burnpy.backend.primitives import Dims, DType, Shape
from burnpy_array.array_base import is_half
from burnpy_cupy.kernels.elementwise_kernel import Elementwise
from burnpy_cupy.kernels.kernel import SUM, SUM_TYPE, CuPyPrograms, Kernels, Raw
from burnpy_cupy.kernels.launch import Geometry, Launch, along, launcher
from burnpy_cupy.kernels.programs import Kernel
from burnpy_cupy.runtime import empty

_COUNT = "llrint(static_cast<double>(total{}[last]))"


def _statistics(count: int) -> Elementwise:
    """Return the kernel that updates a count and so many running averages by the totals of a batch."""
    each = "y{0} = static_cast<T>(F(x{0}) * F(keep) + F(total{0}[i]) / F(total{0}[last]) * F(share));"
    return Elementwise(
        ", ".join(["raw int64 count", *[f"T x{k}, raw T total{k}" for k in range(count)]])
        + ", float64 keep, float64 share, int64 last",
        ", ".join(["raw int64 sum", *[f"T y{k}" for k in range(count)]]),
        f"{SUM_TYPE} if (i == 0) sum[0] = count[0] + {_COUNT.format(0)}; "
        + " ".join([each.format(k) for k in range(count)]),
        SUM,
        exact=True,
    )


_STATISTICS = range(1, 3)
"""The numbers of averages for which there is a kernel."""
NORMALIZATION = {
    "burnpy_count": Elementwise(
        "int64 count, raw T total, int64 last", "int64 sum", f"sum = count + {_COUNT.format('')}"
    ),
    "burnpy_batch_totals": Elementwise(
        "raw T mean, raw T var, int64 size, float64 factor",
        "T total",
        "const long long at = i % (size + 1);"
        "total = at == size ? T(1) : i <= size ? mean[at] : var[at] * static_cast<T>(factor)",
    ),
    **{f"burnpy_statistics_{count}": _statistics(count) for count in _STATISTICS},
}
_FULL, _ROW, _COLUMN = "full", "row", "column"

_THREADS = 256
_CHANNELS = 264
"""The least number of channels for which a block for each keeps a GPU busy."""
_MIN_PART = 2048
"""The least number of elements of a part."""
_MAX_PARTS = 128
"""The most parts of a channel, which a warp combines."""
_LONG_CHANNEL = 8192
"""The length of a channel up to which one block keeps it in registers."""
_BLOCKS = 2112
"""About the number of blocks: twice those of 256 threads that the largest GPUs run at a time."""
_BATCH = 16
"""The number of elements of each array that a thread reads before it uses them; half as many of 8 bytes."""
_READ_BYTES = 16
"""The most bytes that a thread reads at a time."""
_CHANNEL = f"""
struct Sizes {{ long long members, channels, plane, length; }};  // of x, and the elements of a part, in vectors
struct alignas(WIDTH * sizeof(T)) Vector {{ T x[WIDTH]; }};
const int BATCH = {_BATCH} / (sizeof(T) > 4 ? 2 : 1) / WIDTH;

// Goes through the vectors of a part of a channel, which lie in planes, by batches.
struct Elements {{
  long long at, end, place, skip;
  int rest, plane, by_plane, by_rest;
  __device__ Elements(const Sizes& sizes, int channel, int part) {{
    const long long begin = part * sizes.length, count = sizes.members * sizes.plane;
    end = begin + sizes.length < count ? begin + sizes.length : count;
    at = begin + threadIdx.x, plane = sizes.plane, skip = sizes.channels * sizes.plane;
    rest = at % plane, place = at / plane * skip + channel * sizes.plane + rest;
    by_rest = {_THREADS} % plane, by_plane = {_THREADS} / plane;
  }}
  __device__ bool more() const {{ return at < end; }}
  // Notes the places of the next batch, -1 after the end.
  __device__ void next(long long* places) {{
#pragma unroll
    for (int j = 0; j < BATCH; j++) {{
      places[j] = more() ? place : -1;
      at += {_THREADS}, rest += by_rest, place += by_plane * skip + by_rest;
      if (rest >= plane) rest -= plane, place += skip - plane;
    }}
  }}
}};
__device__ void read(const T* x, const long long* places, Vector* batch) {{
#pragma unroll
  for (int j = 0; j < BATCH; j++) if (places[j] >= 0) batch[j] = reinterpret_cast<const Vector*>(x)[places[j]];
}}

__device__ S warp_total(S x) {{
  for (int apart = 16; apart > 0; apart /= 2) x += __shfl_xor_sync(0xffffffff, x, apart);
  return x;
}}
__device__ S block_total(S x) {{
  __shared__ S warps[{_THREADS} / 32];
  x = warp_total(x);
  __syncthreads();  // until the last total is read
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = x;
  __syncthreads();
  S sum = 0;
  for (int k = 0; k < {_THREADS} / 32; k++) sum += warps[k];
  return sum;
}}
// The sum of a number of each part of a channel.
__device__ S combined(const S* parts, int which, int channel) {{
  parts += (static_cast<long long>(which) * gridDim.x + channel) * gridDim.y;
  S sum = 0;
  for (int k = threadIdx.x % 32; k < gridDim.y; k += 32) sum += parts[k];
  return warp_total(sum);
}}
__device__ void keep(S* parts, int which, S x) {{
  if (threadIdx.x == 0) parts[(static_cast<long long>(which) * gridDim.x + blockIdx.x) * gridDim.y + blockIdx.y] = x;
}}
"""
_BOUNDS = f'extern "C" __global__ __launch_bounds__({_THREADS}) void'
_EACH = """
#pragma unroll
    for (int j = 0; j < BATCH; j++) if (places[j] >= 0)
#pragma unroll
      for (int k = 0; k < WIDTH; k++)"""
"""Goes through the elements of a batch."""
_SUMS = f"""
{_CHANNEL}
{_BOUNDS} burnpy_batch_norm_sums(const T* x, S* parts, Sizes sizes) {{
  const S first = static_cast<S>(x[blockIdx.x * sizes.plane * WIDTH]);
  S count = 0, mean = 0, squares = 0;  // of the elements of a thread, and the sum of squared distances from the mean
  long long places[BATCH];
  Vector batch[BATCH];
  for (Elements e(sizes, blockIdx.x, blockIdx.y); e.more();) {{
    e.next(places), read(x, places, batch);
    S number = 0, sum = 0, near = 0;{_EACH} sum += static_cast<S>(batch[j].x[k]) - first;
#pragma unroll
    for (int j = 0; j < BATCH; j++) number += places[j] >= 0 ? WIDTH : 0;
    const S middle = sum / number, all = count + number, share = number / all, distance = middle - mean;{_EACH} {{
        const S apart = (static_cast<S>(batch[j].x[k]) - first) - middle;
        near = fma(apart, apart, near);
      }}
    mean += distance * share, squares += near + distance * distance * (count * share), count = all;
  }}
  const S all = block_total(count), sum = block_total(mean * count), apart = count > 0 ? mean - sum / all : S(0);
  keep(parts, 0, sum), keep(parts, 1, block_total(squares + apart * apart * count));
}}
"""
_NORMALIZED = f"""
{_CHANNEL}
{_BOUNDS} burnpy_batch_norm(const T* x, const T* weight, const T* bias, const S* parts, T* out, T* mean, T* var,
                            double eps, Sizes sizes) {{
  const int channel = gridDim.x - 1 - blockIdx.x, part = gridDim.y - 1 - blockIdx.y;
  const S count = static_cast<S>(sizes.members * sizes.plane * WIDTH), middle = combined(parts, 0, channel) / count;
  S apart = 0;  // the squared distances of the parts' means from the mean of all
  for (int k = threadIdx.x % 32; k < gridDim.y; k += 32) {{
    const long long left = sizes.members * sizes.plane - k * sizes.length;
    const S of_part = static_cast<S>((left < sizes.length ? left : sizes.length) * WIDTH);
    const S distance = parts[static_cast<long long>(channel) * gridDim.y + k] / of_part - middle;
    apart = fma(distance * of_part, distance, apart);
  }}
  const S spread = (combined(parts, 1, channel) + warp_total(apart)) / count;
  const S scale = S(1) / sqrt(spread + static_cast<S>(eps)), first = static_cast<S>(x[channel * sizes.plane * WIDTH]);
  const S factor = static_cast<S>(weight[channel]), added = static_cast<S>(bias[channel]);
  long long places[BATCH];
  Vector batch[BATCH];
  for (Elements e(sizes, channel, part); e.more();) {{
    e.next(places), read(x, places, batch);{_EACH}
        batch[j].x[k] = T(((static_cast<S>(batch[j].x[k]) - first) - middle) * scale * factor + added);
#pragma unroll
    for (int j = 0; j < BATCH; j++) if (places[j] >= 0) reinterpret_cast<Vector*>(out)[places[j]] = batch[j];
  }}
  if (part == 0 && threadIdx.x == 0) mean[channel] = T(first + middle), var[channel] = T(spread);
}}
"""
_GRADIENT_SUMS = f"""
{_CHANNEL}
{_BOUNDS} burnpy_batch_norm_gradient_sums(const T* grad, const T* x, const T* mean, S* parts, Sizes sizes) {{
  const S middle = static_cast<S>(mean[blockIdx.x]);
  S sum = 0, product = 0, error = 0;
  long long places[BATCH];
  Vector batch[BATCH], grads[BATCH];
  for (Elements e(sizes, blockIdx.x, blockIdx.y); e.more();) {{
    e.next(places), read(x, places, batch), read(grad, places, grads);
    S near = 0, with_x = 0, rest = 0;{_EACH} {{
        const S g = static_cast<S>(grads[j].x[k]), apart = static_cast<S>(batch[j].x[k]) - middle;
        near += g, with_x = fma(g, apart, with_x), rest += apart;
      }}
    sum += near, product += with_x, error += rest;
  }}
  keep(parts, 0, block_total(sum)), keep(parts, 1, block_total(product)), keep(parts, 2, block_total(error));
}}
"""
_GRADIENT = f"""
{_CHANNEL}
{_BOUNDS} burnpy_batch_norm_gradient(const T* grad, const T* x, const T* weight, const T* mean, const T* var,
                                     const S* parts, T* grad_x, T* grad_weight, T* grad_bias, double eps,
                                     Sizes sizes) {{
  const int channel = gridDim.x - 1 - blockIdx.x, part = gridDim.y - 1 - blockIdx.y;
  const S count = static_cast<S>(sizes.members * sizes.plane * WIDTH), middle = static_cast<S>(mean[channel]);
  const S scale = S(1) / sqrt(static_cast<S>(var[channel]) + static_cast<S>(eps));
  const S error = combined(parts, 2, channel) / count, sum = combined(parts, 0, channel);  // of the mean, of grad
  const S product = (combined(parts, 1, channel) - error * sum) * scale;  // of grad · normal
  const S factor = static_cast<S>(weight[channel]) * scale, shift = sum / count, slope = product / count;
  long long places[BATCH];
  Vector batch[BATCH], grads[BATCH];
  for (Elements e(sizes, channel, part); e.more();) {{
    e.next(places), read(x, places, batch), read(grad, places, grads);{_EACH} {{
        const S normal = ((static_cast<S>(batch[j].x[k]) - middle) - error) * scale;
        batch[j].x[k] = T((static_cast<S>(grads[j].x[k]) - shift - normal * slope) * factor);
      }}
#pragma unroll
    for (int j = 0; j < BATCH; j++) if (places[j] >= 0) reinterpret_cast<Vector*>(grad_x)[places[j]] = batch[j];
  }}
  if (part == 0 && threadIdx.x == 0) grad_weight[channel] = T(product), grad_bias[channel] = T(sum);
}}
"""
BATCH_NORM = {
    "burnpy_batch_norm_sums": Raw(_SUMS),
    "burnpy_batch_norm": Raw(_NORMALIZED),
    "burnpy_batch_norm_gradient_sums": Raw(_GRADIENT_SUMS),
    "burnpy_batch_norm_gradient": Raw(_GRADIENT),
}
"""The two kernels of a batch norm and of its gradient, for arrays of T and sums of S."""


class CuPyNormalization(CuPyPrograms):
    """Normalization of rows, or of groups of dimensions, and running statistics."""

    _kernels: Kernels

    def normalize(self, x: Any, weight: Any, bias: Any, dims: Dims, eps: float) -> tuple[Any, Any, Any]:
        if _is_divided(dims, (x,), (weight, bias)):
            return self._call(_batch_norm, self, x, weight, bias, eps)  # type: ignore[no-any-return]  # as it returns
        chosen = self._normalizing_kernel("normalize", (x,), (weight, bias), (), dims)
        if chosen is None:
            return super().normalize(x, weight, bias, dims, eps)
        kernel, geometry = chosen
        out, mean, var = self._call(kernel, [x, weight, bias], (eps,), geometry, x.shape, _small(x.shape, dims))
        return out, mean, var

    def normalize_backward(
        self, grad: Any, x: Any, weight: Any, mean: Any, var: Any, dims: Dims, eps: float
    ) -> tuple[Any, Any, Any]:
        if _is_divided(dims, (grad, x), (weight, mean, var)):
            return self._call(_batch_norm_gradient, self, grad, x, weight, mean, var, eps)  # type: ignore[no-any-return]  # as it returns
        chosen = self._normalizing_kernel("normalize_backward", (grad, x), (weight,), (mean, var), dims)
        if chosen is None:
            return super().normalize_backward(grad, x, weight, mean, var, dims, eps)
        kernel, geometry = chosen
        xs = [grad, x, weight, mean, var]
        shape = weight.shape
        grad_x, grad_weight, grad_bias = self._call(kernel, xs, (eps,), geometry, x.shape, shape)
        if grad_weight.shape != shape:
            grad_weight, grad_bias = grad_weight.reshape(shape), grad_bias.reshape(shape)
        return grad_x, grad_weight, grad_bias

    def rms_norm(self, x: Any, weight: Any, dims: Dims, eps: float) -> Any:
        chosen = self._normalizing_kernel("rms_norm", (x,), (weight,), (), dims)
        if chosen is None:
            return super().rms_norm(x, weight, dims, eps)
        kernel, geometry = chosen
        return self._call(kernel, [x, weight], (eps,), geometry, x.shape, ())[0]

    def rms_norm_backward(self, grad: Any, x: Any, weight: Any, dims: Dims, eps: float) -> tuple[Any, Any]:
        chosen = self._normalizing_kernel("rms_norm_backward", (grad, x), (weight,), (), dims)
        if chosen is None:
            return super().rms_norm_backward(grad, x, weight, dims, eps)
        kernel, geometry = chosen
        grad_x, grad_weight = self._call(kernel, [grad, x, weight], (eps,), geometry, x.shape, weight.shape)
        return grad_x, grad_weight.reshape(weight.shape)

    def statistics_update(
        self, count: Any, averages: Sequence[Any], totals: Sequence[Any], share: float
    ) -> tuple[Any, list[Any]]:
        shape, dtype = averages[0].shape, averages[0].dtype
        alike = all(x.shape == shape and x.dtype is dtype for x in averages) and all(x.dtype is dtype for x in totals)
        if not alike or not averages[0].size or len(averages) not in _STATISTICS:
            return super().statistics_update(count, averages, totals, share)
        return self._call(self._updated, count, averages, totals, share)  # type: ignore[no-any-return]  # as it returns

    def _updated(
        self, count: Any, averages: Sequence[Any], totals: Sequence[Any], share: float
    ) -> tuple[Any, list[Any]]:
        xp = self.xp
        pairs = [x for pair in zip(averages, totals, strict=True) for x in pair]
        outs = [empty(xp, x.shape, x.dtype) for x in (count, *averages)]
        kernel = self._kernels[f"burnpy_statistics_{len(averages)}"]
        kernel(count, *pairs, 1.0 - share, share, totals[0].size - 1, *outs)
        return outs[0], outs[1:]

    def batch_totals(self, mean: Any, var: Any, factor: float) -> Any:
        if not mean.size or is_half(mean.dtype):
            return super().batch_totals(mean, var, factor)
        out = self._call(empty, self.xp, (2 * mean.size + 2,), mean.dtype)
        return self._call(self._kernels["burnpy_batch_totals"], mean, var, mean.size, float(factor), out)

    def count_update(self, count: Any, total: Any) -> Any:
        if total.dtype.kind == "V":
            total = self.cast(total, float32)
        return self._call(self._kernels["burnpy_count"], count, total, total.shape[0] - 1)

    def _normalizing_kernel(
        self, name: str, full: tuple[Any, ...], weights: tuple[Any, ...], small: tuple[Any, ...], dims: Dims
    ) -> tuple[Kernel, Geometry] | None:
        """Return the kernel of a normalization and its geometry, for weights of each column, or of each row. Its number
        is eps."""
        dtype = full[-1].dtype
        for a in (*full, *weights, *small):
            if a.dtype is not dtype:
                return None
        layout = _layout(
            tuple([a.shape for a in full]), tuple([a.shape for a in weights]), tuple([a.size for a in small]), dims
        )
        if layout is None:
            return None
        kernel = self._operation_kernel(name, (*layout[0], "scalar"), dtype, ((1,),))
        return None if kernel is None else (kernel, layout[1])


@lru_cache(1024)
def _layout(
    full: tuple[Shape, ...], weights: tuple[Shape, ...], small: tuple[int, ...], dims: Dims
) -> tuple[tuple[str, ...], Geometry] | None:
    """Return the extents of a normalization's arrays and their geometry; None if kernels are not for them."""
    shape, weight = full[0], weights[0]
    geometry = along(shape, dims)
    alike = all(other == shape for other in full) and all(other == weight for other in weights)
    if geometry is None or not alike or any(size != geometry.rows for size in small):
        return None
    if weight == shape[dims[0] :] and len(dims) == len(weight):
        extent = _ROW
    elif math.prod(weight) == geometry.rows and all(
        weight[d - len(shape)] == 1 for d in dims if d >= len(shape) - len(weight)
    ):
        extent = _COLUMN
    else:
        return None
    return (_FULL,) * len(full) + (extent,) * len(weights) + (_COLUMN,) * len(small), geometry


@lru_cache(1024)
def _small(shape: Shape, dims: Dims) -> Shape:
    """Return a shape with dims of size 1."""
    return tuple([1 if d in dims else n for d, n in enumerate(shape)])


def _is_divided(dims: Dims, full: tuple[Any, ...], channels: tuple[Any, ...]) -> bool:
    """Return whether a normalization is a batch norm of long, or of few channels, of arrays in row-major order."""
    shapes = tuple([x.shape for x in full]), tuple([x.shape for x in channels])
    if 0 not in dims or not _has_long_channels(dims, *shapes):
        return False
    dtype = full[0].dtype
    return all(x.dtype is dtype and x._c_contiguous for x in (*full, *channels))


@lru_cache(1024)
def _has_long_channels(dims: Dims, full: tuple[Shape, ...], channels: tuple[Shape, ...]) -> bool:
    """Return whether arrays are normalized by channels that one block does not compute well, and each has a weight."""
    shape = full[0]
    if len(shape) < 2 or dims != (0, *range(2, len(shape))) or not shape[1]:
        return False
    members = math.prod(shape) // shape[1]
    if members < 2 * _MIN_PART or (members <= _LONG_CHANNEL and shape[1] >= _CHANNELS):
        return False
    of_channels = (shape[1], *(1,) * (len(shape) - 2))
    return all(x == shape for x in full) and all(x[1 - len(shape) :] == of_channels for x in channels)


def _batch_norm(b: CuPyNormalization, x: Any, weight: Any, bias: Any, eps: float) -> tuple[Any, Any, Any]:
    names = ("burnpy_batch_norm_sums", "burnpy_batch_norm")
    sums, normalized, parts = _divided(b, x.shape, x.dtype, _alignment(x), names, ("2Q", "7Qd"), 2)
    held, out = empty(b.xp, *parts), empty(b.xp, x.shape, x.dtype)
    shape = (1, x.shape[1], *(1,) * (x.ndim - 2))
    mean, var = empty(b.xp, shape, x.dtype), empty(b.xp, shape, x.dtype)
    sums(x.data.ptr, held.data.ptr)
    normalized(*[a.data.ptr for a in (x, weight, bias, held, out, mean, var)], eps)
    return out, mean, var


def _batch_norm_gradient(
    b: CuPyNormalization, grad: Any, x: Any, weight: Any, mean: Any, var: Any, eps: float
) -> tuple[Any, Any, Any]:
    names = ("burnpy_batch_norm_gradient_sums", "burnpy_batch_norm_gradient")
    sums, gradient, parts = _divided(b, x.shape, x.dtype, _alignment(grad, x), names, ("4Q", "9Qd"), 3)
    held, grad_x = empty(b.xp, *parts), empty(b.xp, x.shape, x.dtype)
    grad_weight, grad_bias = empty(b.xp, weight.shape, x.dtype), empty(b.xp, weight.shape, x.dtype)
    sums(*[a.data.ptr for a in (grad, x, mean, held)])
    gradient(*[a.data.ptr for a in (grad, x, weight, mean, var, held, grad_x, grad_weight, grad_bias)], eps)
    return grad_x, grad_weight, grad_bias


def _alignment(*arrays: Any) -> int:
    """Return the bytes to whose multiples arrays are aligned, up to those that a thread reads at a time."""
    together = _READ_BYTES
    for x in arrays:
        together |= x.data.ptr
    return together & -together


@lru_cache(1024)
def _divided(
    b: CuPyNormalization,
    shape: Shape,
    dtype: DType,
    alignment: int,
    names: tuple[str, str],
    given: tuple[str, str],
    kept: int,
) -> tuple[Launch, Launch, tuple[Shape, DType]]:
    """Return the two launches, and the shape and dtype of the memory of the parts' sums. ``given`` are the formats of
    the arguments that change, ``kept`` is the number of sums of a part."""
    width = math.gcd(alignment // dtype.itemsize, math.prod(shape[2:]))  # the elements of a vector of a plane
    wide, channels, vectors = float32 if is_half(dtype) else dtype, shape[1], math.prod(shape) // shape[1] // width
    length = -(-vectors // max(1, min(_MAX_PARTS, _BLOCKS // channels, vectors * width // _MIN_PART)))
    parts = -(-vectors // length)
    sizes = struct.pack("=4q", shape[0], channels, math.prod(shape[2:]) // width, length)
    kernels, grid = [b._kernels.typed(name, {"WIDTH": width}, T=dtype, S=wide) for name in names], (channels, parts)
    sums, second = [
        launcher(b.xp, kernel, grid, (_THREADS, 1), changing, sizes)
        for kernel, changing in zip(kernels, given, strict=True)
    ]
    return sums, second, ((kept, channels, parts), wide)
