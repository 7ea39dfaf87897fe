"""Matrix products and linear layers by cuBLAS."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache, cached_property
from typing import Any

from burnpy.backend.dtypes import float32, is_inexact
from burnpy.backend.entries import Operation
from burnpy.backend.operations.matmul import rows
from burnpy.backend.primitives import DType
from burnpy.backend.programs import Extent, Input, Program, trace
from burnpy_cupy import epilogues, gemm
from burnpy_cupy.kernels.kernel import CuPyPrograms
from burnpy_cupy.kernels.library import Kernels
from burnpy_cupy.kernels.row_geometry import matrix

_TENSOR_CORES = 80
"""The compute capability, times 10, from which on tensor cores multiply both 16-bit floats and TF32."""


@cache
def _bias(product: DType, bias: DType, out: DType) -> Program:
    """Return the program of the sum of a product and a bias, rounded once."""

    def added(b: Any, x: Any, row: Any) -> Any:
        return b.cast(b.add(x, b.cast(row, product)), out)

    return trace(added, (Input(Extent.FULL, product.name), Input(Extent.ROW, bias.name)), name="add")


class CuPyMatmul(CuPyPrograms):
    """Products, which accumulate 16-bit floats in float32.

    A method ``_name_as`` computes the product ``name`` with a result of the dtype that is its last argument.
    """

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
        if not product.size:
            return self.cast(product, dtype)
        kernel = self._program_kernel(_bias(product.dtype, bias.dtype, dtype))
        if kernel is None:
            return self.cast(self.add(product, self.cast(bias, product.dtype)), dtype)
        out = product if product.dtype is dtype else None
        size = bias.shape[0]
        return self._call(kernel, (product, bias), (), matrix(product.size // size, size), product.shape, (), out)[0]
