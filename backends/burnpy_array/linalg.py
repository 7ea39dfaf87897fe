"""Norms, and linear algebra by the ``linalg`` of the array module: NumPy's LAPACK, CuPy's cuSOLVER and cuBLAS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burnpy.backend.backend import Backend
from burnpy.backend.dtypes import float32
from burnpy.backend.primitives import Dims
from burnpy_array.array_base import ArrayBase, is_half
from burnpy_array.reduction import SAFE

_NAMES = (
    *("cholesky", "solve", "solve_triangular", "inv", "det", "slogdet", "adjugate", "eigh", "eigvalsh"),
    *("svd", "svdvals", "qr", "lu_factor", "pinv", "matrix_exp"),
)


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
        safe = xp.logical_and(xp.greater(total, least), xp.less(total, most)).all()
    if not safe:
        return None
    return xp.sqrt(total).astype(x.dtype, copy=False)
