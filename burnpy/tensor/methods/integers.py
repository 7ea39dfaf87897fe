"""Methods of int tensors alone: common divisors and multiples, and shifts of bits."""

from __future__ import annotations

from typing import Self

from burnpy.tensor.base import TensorBase
from burnpy.tensor.operands import number
from burnpy.tensor.template import binary
from burnpy.typevars import B


class NumberTheory(TensorBase[B]):
    """Operations of ints, which broadcast, promote and may be Python ints."""

    __slots__ = ()

    @binary
    def gcd(self, other: Self | int) -> Self:
        """Compute the greatest common divisor, which is not negative; for x = 0 it is ``|other|``.

        >>> from burnpy import IntTensor
        >>> from burnpy.backend import NumPy
        >>> x = IntTensor[NumPy].from_data([4, 0, -6])
        >>> x.gcd(6).tolist(), x.lcm(6).tolist()
        ([2, 6, 6], [12, 0, 6])
        """
        ...

    @binary
    def lcm(self, other: Self | int) -> Self:
        """Compute the least common multiple, which is not negative; for x = 0 it is 0."""
        ...

    @binary
    def bitwise_left_shift(self, other: Self | int) -> Self:
        """The bits of x shifted to the left; also ``x << y``. It is 0 where y is negative, or no less than the bits.

        >>> from burnpy import IntTensor
        >>> from burnpy.backend import NumPy
        >>> x = IntTensor[NumPy].from_data([1, -5])
        >>> (x << 3).tolist(), (x >> 1).tolist(), (1 << x.abs()).tolist()
        ([8, -40], [0, -3], [2, 32])
        """
        ...

    @binary
    def bitwise_right_shift(self, other: Self | int) -> Self:
        """The bits of x shifted to the right, which keeps the sign; also ``x >> y``.

        Where y is negative, or no less than the bits, all are shifted out: the result is 0, or -1 where x < 0.
        """
        ...

    def __rlshift__(self, other: int) -> Self:
        filled = self._backend.full((), number(self, other, "bitwise_left_shift"), self.dtype)
        return self._like(filled).bitwise_left_shift(self)

    def __rrshift__(self, other: int) -> Self:
        filled = self._backend.full((), number(self, other, "bitwise_right_shift"), self.dtype)
        return self._like(filled).bitwise_right_shift(self)

    __lshift__ = bitwise_left_shift
    __rshift__ = bitwise_right_shift
