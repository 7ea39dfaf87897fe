"""Products of few rows with quantized matrices, in one launch; of many by cuBLAS with the matrix as floats."""

from __future__ import annotations

from typing import Any

import numpy as np

from burnpy.backend.dtypes import uint8
from burnpy_array import ArrayBackend
from burnpy_cupy.kernels.library import SUM, SUM_TYPE, Kernels, Raw

_WARPS = 4
"""The number of rows of the matrix that a block of threads multiplies, one in each warp."""
_FEW = 16
"""The number of rows from which the product is computed by default."""

_PRODUCT = f"""
{SUM}
extern "C" __global__ __launch_bounds__({32 * _WARPS}) void burnpy_quantized_product(
  const T* x, const signed char* weight, const T* scale, T* out, long long outputs, long long groups, long long count,
  int ints) {{
// A warp computes the product of two rows: a thread has every 32nd byte of each group, of one int or two.
{SUM_TYPE}
const long long output = blockIdx.x * static_cast<long long>({_WARPS}) + threadIdx.x / 32, row = blockIdx.y;
if (output >= outputs) return;
const int lane = threadIdx.x % 32;
F total = 0;
for (long long g = 0; g < groups; g++) {{
  const signed char* const packed = weight + (output * groups + g) * count;
  const T* const near = x + (row * groups + g) * count * ints;
  F sum = 0;
  for (long long k = lane; k < count; k += 32) {{
    const int byte = packed[k];
    if (ints == 1) sum += static_cast<F>(byte) * static_cast<F>(near[k]);
    else sum += static_cast<F>((byte & 15) - 8) * static_cast<F>(near[k])
              + static_cast<F>((byte >> 4 & 15) - 8) * static_cast<F>(near[count + k]);
  }}
  total += sum * static_cast<F>(scale[output * groups + g]);
}}
for (int apart = 16; apart > 0; apart /= 2) total += __shfl_xor_sync(0xffffffff, total, apart);
if (lane == 0) out[row * outputs + output] = static_cast<T>(total);
}}
"""
QUANTIZATION = {"burnpy_quantized_product": Raw(_PRODUCT)}


class CuPyQuantization(ArrayBackend):
    """Products with quantized matrices; 16-bit floats are added in float32."""

    _kernels: Kernels

    def quantized_matmul(self, x: Any, weight: Any, scale: Any) -> Any:
        matrix = x.reshape((-1, x.shape[-1]))
        if not 0 < matrix.shape[0] < _FEW or not x.shape[-1] or scale.dtype is not x.dtype:
            return super().quantized_matmul(x, weight, scale)
        out = self._call(_product, self, matrix, weight, scale)
        return out.reshape((*x.shape[:-1], scale.shape[0]))


def _product(b: CuPyQuantization, x: Any, weight: Any, scale: Any) -> Any:
    xp, (outputs, groups) = b.xp, scale.shape
    out = xp.empty((x.shape[0], outputs), x.dtype)
    arrays = [xp.ascontiguousarray(a) for a in (x, weight, scale)]
    sizes = [np.int64(n) for n in (outputs, groups, weight.shape[1] // groups)]
    kernel = b._kernels.typed("burnpy_quantized_product", T=x.dtype)
    kernel(
        (-(-outputs // _WARPS), x.shape[0]),
        (32 * _WARPS,),
        (*arrays, out, *sizes, np.int32(2 if weight.dtype is uint8 else 1)),
    )
    return out
