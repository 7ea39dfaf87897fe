"""Linear algebra by the ``linalg`` of the array module: LAPACK of NumPy, cuSOLVER and cuBLAS of CuPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burnpy.backend.backend import Backend
from burnpy_array.base import ArrayBase

_NAMES = (
    *("cholesky", "solve", "solve_triangular", "inv", "det", "slogdet", "adjugate", "eigh", "eigvalsh"),
    *("svd", "svdvals", "qr", "lu_factor", "pinv", "matrix_exp"),
)


class LinearAlgebra(ArrayBase):
    """Linear algebra, on the device of the arrays, by the functions of `burnpy.backend.numerics.lapack`."""

    def _lapack(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return function(xp, *args), which raises NumPy's `LinAlgError` where a matrix has no result."""
        return self._call(function, self.xp, *args)


def _method(name: str) -> Any:
    """Return the method of an operation that a function of `burnpy.backend.numerics.lapack` computes."""

    def method(self: LinearAlgebra, *args: Any) -> Any:
        import burnpy.backend.numerics.lapack as lapack

        return self._lapack(getattr(lapack, name), *args)

    method.__name__, method.__qualname__ = name, f"LinearAlgebra.{name}"
    method.__doc__ = getattr(Backend, name).__doc__
    method.__wrapped__ = getattr(Backend, name)  # type: ignore[attr-defined]  # by which `inspect` shows the signature
    return method


for _name in _NAMES:
    setattr(LinearAlgebra, _name, _method(_name))
