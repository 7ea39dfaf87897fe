"""Matrix products and linear layers by cuBLAS."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from burnpy.backend.dtypes import float32, kind_of
from burnpy.backend.entries import Operation
from burnpy.backend.primitives import DType
from burnpy_array import ArrayBackend
from burnpy_cupy import gemm
from burnpy_cupy.library import Kernels


class Products(ArrayBackend):
    """Products, which accumulate 16-bit floats in float32.

    A method ``_name_as`` computes the product ``name`` with a result of the dtype that is its last argument.
    """

    _kernels: Kernels

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

    def product_in_float32(self, op: Operation, args: tuple[Any, ...]) -> Any:
        method = getattr(self, f"_{op.name}_as", None)
        return super().product_in_float32(op, args) if method is None else method(*args, float32)

    def matmul(self, x: Any, y: Any) -> Any:
        if x.dtype is not y.dtype:
            x, y = self.promote(x, y)
        if kind_of(x.dtype) != "float":
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
        return self._linear_as(x, weight, bias, x.dtype)

    def _linear_as(self, x: Any, weight: Any, bias: Any, dtype: DType) -> Any:
        return self._biased(self._matmul_as(x, weight, float32 if dtype.itemsize == 2 else dtype), bias, dtype)

    def _biased(self, product: Any, bias: Any, dtype: DType) -> Any:
        """Return product + bias, rounded once to ``dtype``; in the memory of the product if its dtype is that."""
        out = product if product.dtype is dtype else self._call(self.xp.empty, product.shape, dtype)
        self._call(self._kernels["burnpy_bias"], product, bias, out)
        return out
