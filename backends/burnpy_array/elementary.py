"""Elementary functions, functions of two arguments and operations of ints that are one function of the array module."""

from __future__ import annotations

from typing import Any

from burnpy.backend.dtypes import kind_of
from burnpy_array.base import ArrayBase
from burnpy_array.pointwise import binary, unary


class Elementary(ArrayBase):
    """Elementary functions of one argument and of two."""

    tan, asin, acos, atan = unary("tan"), unary("asin"), unary("acos"), unary("atan")
    sinh, cosh = unary("sinh"), unary("cosh")
    asinh, acosh, atanh = unary("asinh"), unary("acosh"), unary("atanh")
    exp2, log2, log10, trunc = unary("exp2"), unary("log2"), unary("log10"), unary("trunc")
    atan2, hypot, copysign = binary("atan2"), binary("hypot"), binary("copysign")
    fmax, fmin, logaddexp = binary("fmax"), binary("fmin"), binary("logaddexp")
    gcd, lcm = binary("gcd"), binary("lcm")

    def signbit(self, x: Any) -> Any:
        return self._call(self.xp.signbit, x) if kind_of(x.dtype) == "float" else self.lt(x, 0)

    def fmod(self, x: Any, y: Any) -> Any:
        self._check_divisor(x, y, "fmod")
        return self._binary(self.xp.fmod, x, y)
