"""Normalization, its gradients and running statistics, as programs; a batch norm of few channels is divided.

A program computes each channel by one block, which is few blocks for a batch norm. So where channels are few and long,
blocks first add up parts of them: means and sums of squared deviations, or the sums that gradients need. Then as many
blocks combine the parts of their channel, all in the same order, and compute their elements. Both go through as many
channels at a time as the GPU's L2 cache keeps from the first to the second, so that memory is read once.

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
from burnpy_cupy.kernels.elementwise import Elementwise
from burnpy_cupy.kernels.kernel import SUM, SUM_TYPE, CuPyPrograms, Kernels, Raw
from burnpy_cupy.kernels.launch import Geometry, Launch, along, launcher
from burnpy_cupy.kernels.programs import Kernel

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
"""The number of channels from which on a block for each keeps a GPU busy."""
_PART = 2048
"""The least number of elements of a part."""
_PARTS = 128
"""The most parts of a channel, which a warp combines."""
_KEPT = 0.4
"""The share of the L2 cache that keeps arguments from one launch to the next; results pass through the rest."""
_LEAST_KEPT = 8 << 20
"""The bytes of arguments from which on two launches take longer to compute than to begin."""
_CHANNEL = f"""
struct Sizes {{ long long members, channels, plane, length; }};  // of x, and the elements of a part

// Goes through the elements of the part of a channel, which lie in planes.
struct Elements {{
  long long at, end, place, skip;
  int rest, plane, by_plane, by_rest;
  __device__ Elements(const Sizes& sizes) {{
    const long long begin = blockIdx.y * sizes.length, count = sizes.members * sizes.plane;
    end = begin + sizes.length < count ? begin + sizes.length : count;
    at = begin + threadIdx.x, plane = sizes.plane, skip = sizes.channels * sizes.plane;
    rest = at % plane, place = at / plane * skip + blockIdx.x * sizes.plane + rest;
    by_rest = {_THREADS} % plane, by_plane = {_THREADS} / plane;
  }}
  __device__ bool more() const {{ return at < end; }}
  __device__ void next() {{
    at += {_THREADS}, rest += by_rest, place += by_plane * skip + by_rest;
    if (rest >= plane) rest -= plane, place += skip - plane;
  }}
}};

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
// The sum of a number of each part of the channel.
__device__ S combined(const S* parts, int which) {{
  parts += (static_cast<long long>(which) * gridDim.x + blockIdx.x) * gridDim.y;
  S sum = 0;
  for (int k = threadIdx.x % 32; k < gridDim.y; k += 32) sum += parts[k];
  return warp_total(sum);
}}
__device__ void keep(S* parts, int which, S x) {{
  if (threadIdx.x == 0) parts[(static_cast<long long>(which) * gridDim.x + blockIdx.x) * gridDim.y + blockIdx.y] = x;
}}
"""
_BOUNDS = f'extern "C" __global__ __launch_bounds__({_THREADS}) void'
_SUMS = f"""
{_CHANNEL}
{_BOUNDS} burnpy_batch_norm_sums(const T* x, S* parts, Sizes sizes) {{
  S sum = 0, squares = 0;
  for (Elements e(sizes); e.more(); e.next()) sum += static_cast<S>(x[e.place]);
  const Elements first(sizes);
  const S count = static_cast<S>(first.end - blockIdx.y * sizes.length);
  sum = block_total(sum);
  const S mean = sum / count;
  for (Elements e(sizes); e.more(); e.next()) {{
    const S apart = static_cast<S>(x[e.place]) - mean;
    squares = fma(apart, apart, squares);
  }}
  keep(parts, 0, sum), keep(parts, 1, block_total(squares));
}}
"""
_NORMALIZED = f"""
{_CHANNEL}
{_BOUNDS} burnpy_batch_norm(const T* x, const T* weight, const T* bias, const S* parts, T* out, T* mean, T* var,
                            double eps, Sizes sizes) {{
  const S count = static_cast<S>(sizes.members * sizes.plane), middle = combined(parts, 0) / count;
  const int channel = blockIdx.x;
  S apart = 0;  // the squared distances of the parts' means from the mean of all
  for (int k = threadIdx.x % 32; k < gridDim.y; k += 32) {{
    const long long left = sizes.members * sizes.plane - k * sizes.length;
    const S of_part = static_cast<S>(left < sizes.length ? left : sizes.length);
    const S distance = parts[static_cast<long long>(channel) * gridDim.y + k] / of_part - middle;
    apart = fma(distance * of_part, distance, apart);
  }}
  const S spread = (combined(parts, 1) + warp_total(apart)) / count;
  const S scale = S(1) / sqrt(spread + static_cast<S>(eps));
  const S factor = static_cast<S>(weight[channel]), added = static_cast<S>(bias[channel]);
  for (Elements e(sizes); e.more(); e.next())
    out[e.place] = T((static_cast<S>(x[e.place]) - middle) * scale * factor + added);
  if (blockIdx.y == 0 && threadIdx.x == 0) mean[channel] = T(middle), var[channel] = T(spread);
}}
"""
_GRADIENT_SUMS = f"""
{_CHANNEL}
{_BOUNDS} burnpy_batch_norm_gradient_sums(const T* grad, const T* x, const T* mean, S* parts, Sizes sizes) {{
  const S middle = static_cast<S>(mean[blockIdx.x]);
  S sum = 0, product = 0;
  for (Elements e(sizes); e.more(); e.next()) {{
    const S g = static_cast<S>(grad[e.place]);
    sum += g, product = fma(g, static_cast<S>(x[e.place]) - middle, product);
  }}
  keep(parts, 0, block_total(sum)), keep(parts, 1, block_total(product));
}}
"""
_GRADIENT = f"""
{_CHANNEL}
{_BOUNDS} burnpy_batch_norm_gradient(const T* grad, const T* x, const T* weight, const T* mean, const T* var,
                                     const S* parts, T* by_x, T* by_weight, T* by_bias, double eps, Sizes sizes) {{
  const int channel = blockIdx.x;
  const S count = static_cast<S>(sizes.members * sizes.plane), middle = static_cast<S>(mean[channel]);
  const S scale = S(1) / sqrt(static_cast<S>(var[channel]) + static_cast<S>(eps));
  const S sum = combined(parts, 0), product = combined(parts, 1) * scale;  // of grad, and of grad · normal
  const S factor = static_cast<S>(weight[channel]) * scale;
  for (Elements e(sizes); e.more(); e.next()) {{
    const S normal = (static_cast<S>(x[e.place]) - middle) * scale;
    by_x[e.place] = T((static_cast<S>(grad[e.place]) - sum / count - normal * (product / count)) * factor);
  }}
  if (blockIdx.y == 0 && threadIdx.x == 0) by_weight[channel] = T(product), by_bias[channel] = T(sum);
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
        by_x, by_weight, by_bias = self._call(kernel, xs, (eps,), geometry, x.shape, shape)
        if by_weight.shape != shape:
            by_weight, by_bias = by_weight.reshape(shape), by_bias.reshape(shape)
        return by_x, by_weight, by_bias

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
        by_x, by_weight = self._call(kernel, [grad, x, weight], (eps,), geometry, x.shape, weight.shape)
        return by_x, by_weight.reshape(weight.shape)

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
        outs = [xp.ndarray(x.shape, x.dtype) for x in (count, *averages)]
        kernel = self._kernels[f"burnpy_statistics_{len(averages)}"]
        kernel(count, *pairs, 1.0 - share, share, totals[0].size - 1, *outs)
        return outs[0], outs[1:]

    def batch_totals(self, mean: Any, var: Any, factor: float) -> Any:
        if not mean.size or is_half(mean.dtype):
            return super().batch_totals(mean, var, factor)
        out = self._call(self.xp.ndarray, (2 * mean.size + 2,), mean.dtype)
        return self._call(self._kernels["burnpy_batch_totals"], mean, var, mean.size, float(factor), out)

    def count_update(self, count: Any, total: Any) -> Any:
        if total.dtype.kind == "V":
            total = self.cast(total, float32)
        return self._call(self._kernels["burnpy_count"], count, total, total.shape[0] - 1)

    def _normalizing_kernel(
        self,
        name: str,
        full: tuple[Any, ...],
        weights: tuple[Any, ...],
        small: tuple[Any, ...],
        dims: Dims,
    ) -> tuple[Kernel, Geometry] | None:
        """Return the kernel of a normalization and its geometry, for weights of each column, or of each row.

        Its number is eps.
        """
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
    """Return whether a normalization is a batch norm of few, long channels, of arrays that lie in row-major order."""
    shape, dtype = full[0].shape, full[0].dtype
    if len(shape) < 2 or dims != (0, *range(2, len(shape))) or not 0 < shape[1] < _CHANNELS:
        return False
    if math.prod(shape) < 2 * _PART * shape[1]:
        return False
    if any(x.dtype is not dtype or not x._c_contiguous for x in (*full, *channels)):
        return False
    of_channels = (shape[1], *(1,) * (len(shape) - 2))
    return all(x.shape == shape for x in full) and all(x.shape[1 - len(shape) :] == of_channels for x in channels)


def _batch_norm(b: CuPyNormalization, x: Any, weight: Any, bias: Any, eps: float) -> tuple[Any, Any, Any]:
    names = ("burnpy_batch_norm_sums", "burnpy_batch_norm")
    launches, parts = _divided(b, x.shape, x.dtype, 1, names, ("2Q", "7Qd"))
    held, out = b.xp.ndarray(*parts), b.xp.ndarray(x.shape, x.dtype)
    shape = (1, x.shape[1], *(1,) * (x.ndim - 2))
    mean, var = b.xp.ndarray(shape, x.dtype), b.xp.ndarray(shape, x.dtype)
    for first, sums, normalized in launches:
        (x_at, out_at), (weight_at, bias_at, *moments) = _from(first, (x, out), (weight, bias, mean, var))
        sums(x_at, held.data.ptr)
        normalized(x_at, weight_at, bias_at, held.data.ptr, out_at, *moments, eps)
    return out, mean, var


def _batch_norm_gradient(
    b: CuPyNormalization, grad: Any, x: Any, weight: Any, mean: Any, var: Any, eps: float
) -> tuple[Any, Any, Any]:
    names = ("burnpy_batch_norm_gradient_sums", "burnpy_batch_norm_gradient")
    launches, parts = _divided(b, x.shape, x.dtype, 2, names, ("4Q", "9Qd"))
    held, by_x = b.xp.ndarray(*parts), b.xp.ndarray(x.shape, x.dtype)
    by_weight, by_bias = b.xp.ndarray(weight.shape, x.dtype), b.xp.ndarray(weight.shape, x.dtype)
    for first, sums, gradient in launches:
        (*full, by_x_at), channels = _from(first, (grad, x, by_x), (weight, mean, var, by_weight, by_bias))
        sums(*full, channels[1], held.data.ptr)
        gradient(*full, *channels[:3], held.data.ptr, by_x_at, *channels[3:], eps)
    return by_x, by_weight, by_bias


def _from(channel: int, full: tuple[Any, ...], channels: tuple[Any, ...]) -> tuple[list[int], list[int]]:
    """Return the addresses of a channel in arrays such as x, and in arrays of an element for each channel."""
    places = [a.data.ptr + channel * a.strides[1] for a in full]
    return places, [a.data.ptr + channel * a.itemsize for a in channels]


def channels_kept(cache: int, shape: Shape, dtype: DType, arrays: int) -> int:
    """Return how many channels of so many arrays a cache keeps from one launch to the next; all if it gains nothing."""
    channel = arrays * math.prod(shape) // shape[1] * dtype.itemsize
    most = int(_KEPT * cache)
    if most < _LEAST_KEPT or channel > most:
        return shape[1]
    return -(-shape[1] // -(-shape[1] * channel // most))


@lru_cache(1024)
def _divided(
    b: CuPyNormalization, shape: Shape, dtype: DType, arrays: int, names: tuple[str, str], given: tuple[str, str]
) -> tuple[list[tuple[int, Launch, Launch]], tuple[Shape, DType]]:
    """Return pairs of launches, each with its first channel, and the shape and dtype of the memory of the parts' sums.

    ``arrays`` is the number of arrays such as x that both launches read, and ``given`` are the formats of the arguments
    that change.
    """
    wide, members = float32 if is_half(dtype) else dtype, math.prod(shape) // shape[1]
    step = channels_kept(b.xp.cuda.Device(b.index).attributes["L2CacheSize"], shape, dtype, arrays)
    most = min(_PARTS, 2 * _CHANNELS // step, members // _PART)
    length = -(-members // most)
    parts = -(-members // length)
    sizes = struct.pack("=4q", shape[0], shape[1], math.prod(shape[2:]), length)
    kernels = [b._kernels.typed(name, T=dtype, S=wide) for name in names]
    launches: list[tuple[int, Launch, Launch]] = []
    for first in range(0, shape[1], step):
        grid = (min(step, shape[1] - first), parts)
        sums, second = [
            launcher(b.xp, kernel, grid, (_THREADS, 1), changing, sizes)
            for kernel, changing in zip(kernels, given, strict=True)
        ]
        launches.append((first, sums, second))
    return launches, ((2, step, parts), wide)
