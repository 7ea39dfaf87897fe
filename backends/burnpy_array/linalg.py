"""Matrix products, norms, and what the array module's ``linalg`` computes, by LAPACK or cuSOLVER."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burnpy.backend.backend import Backend
from burnpy.backend.dtypes import float32, float64
from burnpy.backend.primitives import Dims
from burnpy_array.array_base import ArrayBase, is_half
from burnpy_array.reduction import SAFE

_NAMES = (
    *("cholesky", "solve", "solve_triangular", "inv", "det", "slogdet", "adjugate", "eigh", "eigvalsh"),
    *("svd", "svdvals", "qr", "lu_factor", "pivot_order", "pinv", "matrix_exp"),
)


class ArrayMatmul(ArrayBase):
    """Matrix products and linear layers; 16-bit floats are computed in float32."""

    def matmul(self, x: Any, y: Any) -> Any:
        if x.dtype is not y.dtype:
            x, y = self.promote(x, y)
        return self._call(product, self.xp, x, y)

    def linear(self, x: Any, weight: Any, bias: Any) -> Any:
        out = self.matmul(x, weight)
        if out.shape == () or is_half(out.dtype):
            return self.add(out, bias)
        return self._call(self.xp.add, out, bias, out)


def product(xp: Any, x: Any, y: Any) -> Any:
    """Return the matrix product of two arrays of one dtype; 16-bit floats go through float32, which is 200 times
    faster."""
    if x.dtype is not float32 and x.dtype is not float64 and is_half(x.dtype):
        return product(xp, x.astype(float32), y.astype(float32)).astype(x.dtype)
    if x.ndim > 1 < y.ndim and x.shape[-1] == 1 == y.shape[-2]:  # outer products, in a sixth of the time
        return xp.multiply(x, y)
    if y.ndim == 2:
        if x.ndim == 2:
            return x.dot(y)
        if x.ndim > 2 and x.size and x.flags.c_contiguous:  # one large product instead of many small ones
            return x.reshape((-1, x.shape[-1])).dot(y).reshape((*x.shape[:-1], y.shape[-1]))
    return xp.matmul(x, y)


class ArrayLinalg(ArrayBase):
    """Linear algebra, on the device of the arrays, by the functions of `burnpy.backend.numerics.lapack`."""

    def _lapack(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return function(xp, *args), which raises NumPy's `LinAlgError` where a matrix has no result."""
        return self._call(function, self.xp, *args)


def _method(name: str) -> Any:
    """Return the method of an operation that a function of `burnpy.backend.numerics.lapack` computes."""

    def method(self: ArrayLinalg, *args: Any) -> Any:
        import burnpy.backend.numerics.lapack as lapack

        return self._lapack(getattr(lapack, name), *args)

    method.__name__, method.__qualname__ = name, f"ArrayLinalg.{name}"
    method.__doc__ = getattr(Backend, name).__doc__
    method.__wrapped__ = getattr(Backend, name)  # type: ignore[attr-defined]  # by which `inspect` shows the signature
    return method


for _name in _NAMES:
    setattr(ArrayLinalg, _name, _method(_name))


class ArrayNorms(ArrayBase):
    """The Euclidean norm by squares, if none over- or underflows."""

    def vector_norm(self, x: Any, p: float, dims: Dims, keepdim: bool) -> Any:
        if p == 2 and dims and x.size and self.eager_checks:
            out = self._call(_by_squares, self, x, dims, keepdim)
            if out is not None:
                return out
        return super().vector_norm(x, p, dims, keepdim)

    def _sum_of_squares(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        """Return the sum of the squares of floats over ``dims``, which are not empty."""
        return self._total(self.xp.multiply(x, x), dims, keepdim)


def _by_squares(b: ArrayNorms, x: Any, dims: Dims, keepdim: bool) -> Any:
    """Return the root of the sum of squares; None where it may have over- or underflowed."""
    xp = b.xp
    wide = x.astype(float32) if is_half(x.dtype) else x
    total = b._sum_of_squares(wide, dims, keepdim)
    least, most = SAFE[wide.dtype]
    if total.shape == ():  # numbers are compared in a fifth of the time of arrays
        safe = least < total < most
    else:
        safe = least < total.min() and total.max() < most
    if not safe:
        return None
    return xp.sqrt(total).astype(x.dtype, copy=False)
