"""Matrix products and linear layers by cuBLAS, dropout's scaling and losses."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from burnpy.backend.dtypes import float32, kind_of
from burnpy.backend.entries import Operation
from burnpy.backend.operations.dense import rows
from burnpy.backend.primitives import DType
from burnpy.backend.programs import Extent, Input, Program, trace
from burnpy_cupy import epilogues, gemm
from burnpy_cupy.kernels import cross_entropy
from burnpy_cupy.kernels.elementwise import Elementwise
from burnpy_cupy.kernels.kernel import CuPyPrograms
from burnpy_cupy.kernels.library import Kernels
from burnpy_cupy.kernels.row_geometry import along, flat, matrix

DENSE = {
    "burnpy_bias": Elementwise("P product, T bias", "Q out", "out = static_cast<Q>(product + static_cast<P>(bias))"),
}
"""For biases of other dimensions than the last."""
_FULL, _COLUMN = "full", "column"


@cache
def _bias(product: DType, bias: DType, out: DType) -> Program:
    """Return the program of the sum of a product and a bias, rounded once."""

    def added(b: Any, x: Any, row: Any) -> Any:
        return b.cast(b.add(x, b.cast(row, product)), out)

    return trace(added, (Input(Extent.FULL, product.name), Input(Extent.ROW, bias.name)), name="add")


class CuPyDense(CuPyPrograms):
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
        out = self._call(epilogues.biased_product, self.xp, x, weight, bias, dtype)
        if out is not None:
            return out
        return self._biased(self._matmul_as(x, weight, float32 if dtype.itemsize == 2 else dtype), bias, dtype)

    def linear_backward(self, grad: Any, x: Any) -> tuple[Any, Any]:
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

    def masked_scale(self, x: Any, mask: Any, scale: float) -> Any:
        kernel = None
        if x.size and x.shape == mask.shape:
            kernel = self._operation_kernel("masked_scale", (_FULL, "mask_full", "scalar"), x.dtype)
        if kernel is None:
            return super().masked_scale(x, mask, scale)
        return self._call(kernel, [x, mask], (scale,), flat(x.size), x.shape, ())[0]

    def masked_mean(self, x: Any, mask: Any) -> Any:
        geometry, kernel = flat(x.size), None
        if x.size and geometry.occupies:
            kernel = self._operation_kernel("masked_mean_of_rows", (_FULL, "mask_full"), x.dtype)
        if kernel is None:
            return super().masked_mean(x, mask)
        return self._call(kernel, [x, mask], (), geometry, x.shape, ())[0]

    def masked_mean_backward(self, grad: Any, mask: Any) -> Any:
        geometry, kernel = flat(mask.size), None
        if mask.size and geometry.occupies:
            kernel = self._operation_kernel("masked_mean_of_rows_backward", (_COLUMN, "mask_full"), grad.dtype)
        if kernel is None:
            return super().masked_mean_backward(grad, mask)
        return self._call(kernel, [grad, mask], (), geometry, mask.shape, ())[0]

    def cross_entropy(self, x: Any, index: Any, dim: int) -> tuple[Any, Any]:
        geometry = along(x.shape, (dim,))
        kernel = None
        if geometry is not None and index.size == geometry.rows:
            kernel = self._operation_kernel("cross_entropy", (_FULL, "index"), x.dtype, (1,))
        if geometry is None or kernel is None:
            return super().cross_entropy(x, index, dim)
        losses, total = self._call(kernel, [x, index], (), geometry, x.shape, index.shape)
        return losses, total.reshape((*x.shape[:dim], 1, *x.shape[dim + 1 :]))

    def cross_entropy_backward(self, grad: Any, x: Any, logsumexp: Any, index: Any, dim: int) -> Any:
        geometry = along(x.shape, (dim,))
        kernel = None
        if geometry is not None and grad.size == logsumexp.size == index.size == geometry.rows:
            dtypes = (grad.dtype, x.dtype, logsumexp.dtype)
            kernel = self._operation_kernel("cross_entropy_gradient", (_COLUMN, _FULL, _COLUMN, "index"), *dtypes[:1])
            kernel = kernel if dtypes[0] is dtypes[1] is dtypes[2] else None
        if geometry is None or kernel is None:
            return super().cross_entropy_backward(grad, x, logsumexp, index, dim)
        return self._call(kernel, [grad, x, logsumexp, index], (), geometry, x.shape, ())[0]

    def mean_cross_entropy(self, x: Any, index: Any, counted: Any, dim: int) -> tuple[Any, Any]:
        if not cross_entropy.fits(x, index, counted, dim):
            return super().mean_cross_entropy(x, index, counted, dim)
        mean, logsumexp = self._call(cross_entropy.mean_cross_entropy, self, x, index, counted)
        return mean, logsumexp

    def mean_cross_entropy_backward(self, grad: Any, x: Any, logsumexp: Any, index: Any, counted: Any, dim: int) -> Any:
        fits = grad.dtype is x.dtype is logsumexp.dtype and cross_entropy.fits(x, index, counted, dim)
        if not fits:
            return super().mean_cross_entropy_backward(grad, x, logsumexp, index, counted, dim)
        return self._call(cross_entropy.mean_cross_entropy_backward, self, grad, x, logsumexp, index, counted)
