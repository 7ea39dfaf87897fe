"""Complex numbers by the functions of the array module, which has complex arrays of its own."""

from __future__ import annotations

from typing import Any

from burnpy.backend.dtypes import complex_dtype
from burnpy_array.array_base import ArrayBase
from burnpy_array.pointwise import unary


class ArrayComplex(ArrayBase):
    """Complex arrays and their parts, which are views."""

    conj, complex_abs, angle = unary("conj"), unary("complex_abs"), unary("angle")

    def complex(self, real: Any, imag: Any) -> Any:
        return self._call(_joined, self.xp, real, imag)

    def real(self, z: Any) -> Any:
        return z.real

    def imag(self, z: Any) -> Any:
        return z.imag


def _joined(xp: Any, real: Any, imag: Any) -> Any:
    out = xp.empty(real.shape, complex_dtype(real.dtype))
    out.real[...] = real
    out.imag[...] = imag
    return out
