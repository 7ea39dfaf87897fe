"""Matrix products and linear layers by cuBLAS, and products of few rows with quantized matrices in one launch."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32, is_inexact, uint8
from burnpy.backend.entries import Operation
from burnpy.backend.primitives import DType
from burnpy.backend.rules import rows
from burnpy_array import ArrayBackend
from burnpy_cupy import epilogues, gemm
from burnpy_cupy.kernels.elementwise_kernel import Elementwise, contiguous
from burnpy_cupy.kernels.kernel import SUM, SUM_TYPE, CuPyPrograms, Kernels, Raw
from burnpy_cupy.runtime import empty

_TENSOR_CORES = 80
"""The compute capability, times 10, from which on tensor cores multiply both 16-bit floats and TF32."""


BIASES = {
    "burnpy_add_bias": Elementwise(
        "T product, Q bias",
        "P out",
        "typedef decltype(+T()) F; out = static_cast<P>(static_cast<F>(product) + static_cast<F>(bias))",
        exact=True,
    )
}
"""The kernel of the sum of a product and a bias, which is rounded once."""


class CuPyMatmul(CuPyPrograms):
    """Products, which accumulate 16-bit floats in float32. A method ``_name_as`` computes the product ``name`` with a
    result of the dtype that is its last argument."""

    _kernels: Kernels
    _reduced: Callable[..., Any]

    @staticmethod
    def tf32(enabled: bool = True) -> AbstractContextManager[None]:
        """Compute products of float32 in TF32 within a context, in the present thread or coroutine.

        TF32 has the range of float32 and 10 bits of precision instead of 23; sums remain float32. Tensor cores multiply
        it several times as fast. It is off by default, holds for matrix products, convolutions and attention, forward
        and backward alike, and has no effect on GPUs older than compute capability 8.0. CuPy's environment variable
        CUPY_TF32 is not consulted.

        Args:
            enabled: False computes in float32 within an outer ``tf32``.

        ::

            with CuPy.tf32():
                grads = loss(model(x)).backward()
        """
        return gemm.tf32(enabled)

    @cached_property
    def _limits(self) -> tuple[int, int]:
        """The GPU's compute capability, times 10, and the bytes of shared memory that a block can ask for."""
        device = self.xp.cuda.Device(self.index)
        return int(device.compute_capability), device.attributes["MaxSharedMemoryPerBlockOptin"]

    def multiplies_in_tensor_cores(self, dtype: DType) -> bool:
        """Return whether kernels of ours multiply a dtype in tensor cores, in this context."""
        return self._limits[0] >= _TENSOR_CORES and (dtype.itemsize == 2 or (dtype is float32 and gemm.uses_tf32()))

    def product_in_float32(self, op: Operation, args: tuple[Any, ...]) -> Any:
        method = getattr(self, f"_{op.name}_as", None)
        return super().product_in_float32(op, args) if method is None else method(*args, float32)

    def matmul(self, x: Any, y: Any) -> Any:
        if x.dtype is not y.dtype:
            x, y = self.promote(x, y)
        if not is_inexact(x.dtype):
            return self._call(self.xp.matmul, x, y)
        return self._call(gemm.product, self.xp, x, y, x.dtype)

    def _matmul_as(self, x: Any, y: Any, dtype: DType) -> Any:
        if x.dtype is not y.dtype:
            x, y = self.promote(x, y)
        return self._call(gemm.product, self.xp, x, y, dtype)

    def _matmul_nt_as(self, x: Any, y: Any, dtype: DType) -> Any:
        return self._matmul_as(x, self.mT(y), dtype)

    def _matmul_tn_as(self, x: Any, y: Any, dtype: DType) -> Any:
        return self._matmul_as(self.mT(x), y, dtype)

    def linear(self, x: Any, weight: Any, bias: Any) -> Any:
        return super().linear(x, weight, bias) if x.dtype.kind == "c" else self._linear_as(x, weight, bias, x.dtype)

    def _linear_as(self, x: Any, weight: Any, bias: Any, dtype: DType) -> Any:
        out = self._call(epilogues.biased_product, self.xp, x, weight, bias, dtype)
        if out is not None:
            return out
        return self._biased(self._matmul_as(x, weight, float32 if dtype.itemsize == 2 else dtype), bias, dtype)

    def linear_backward(self, grad: Any, x: Any) -> tuple[Any, Any]:
        if grad.dtype.kind == "c":
            return super().linear_backward(grad, x)
        return self._linear_backward_as(grad, x, grad.dtype)

    def _linear_backward_as(self, grad: Any, x: Any, dtype: DType) -> tuple[Any, Any]:
        grad, turned = rows(self, grad), self.mT(rows(self, x))
        found: tuple[Any, Any] | None = self._call(epilogues.product_and_sum, self.xp, turned, grad, dtype)
        if found is not None:
            return found
        return self._matmul_as(turned, grad, dtype), self._call(self._reduced, "sum", grad, (0,), False, dtype)

    def _biased(self, product: Any, bias: Any, dtype: DType) -> Any:
        """Return product + bias, rounded once to ``dtype``; in the memory of the product if its dtype is that."""
        out = product if product.dtype is dtype else self._call(empty, self.xp, product.shape, dtype)
        return self._call(self._kernels["burnpy_add_bias"], product, bias, out)


_WARPS = 4
"""The number of rows of the matrix that a block of threads multiplies, one in each warp."""
_FEW_ROWS = 16
"""The least number of rows for which the product is computed by default."""

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
        if not 0 < matrix.shape[0] < _FEW_ROWS or not x.shape[-1] or scale.dtype is not x.dtype:
            return super().quantized_matmul(x, weight, scale)
        out = self._call(_product, self, matrix, weight, scale)
        return out.reshape((*x.shape[:-1], scale.shape[0]))


def _product(b: CuPyQuantization, x: Any, weight: Any, scale: Any) -> Any:
    xp, (outputs, groups) = b.xp, scale.shape
    out = xp.empty((x.shape[0], outputs), x.dtype)
    arrays = [contiguous(xp, a) for a in (x, weight, scale)]
    sizes = [np.int64(n) for n in (outputs, groups, weight.shape[1] // groups)]
    kernel = b._kernels.typed("burnpy_quantized_product", T=x.dtype)
    kernel(
        (-(-outputs // _WARPS), x.shape[0]),
        (32 * _WARPS,),
        (*arrays, out, *sizes, np.int32(2 if weight.dtype is uint8 else 1)),
    )
    return out
