"""Operations of ints: common divisors and multiples, and shifts of bits."""

from __future__ import annotations

from typing import Any

from burnpy.backend.operations.base import OperationsBase
from burnpy.backend.primitives import Int, Scalar
from burnpy.backend.schema import NONDIFFERENTIABLE, derived


class Integers(OperationsBase):
    """Elementwise operations of ints."""

    @derived(NONDIFFERENTIABLE, elementwise=True, flops=100)
    def gcd(self, x: Int, y: Int | Scalar) -> Int:
        """Greatest common divisor, not negative; |y| for x = 0."""
        first, second = self.promote(x, self.full((), y, x.dtype) if isinstance(y, int) else y)
        first, second = self.abs(first), self.abs(second)
        for _ in range(3 * 8 * first.dtype.itemsize // 2):  # no two numbers of n bits need 1.45 n divisions
            done = self.eq(second, 0)
            divisor = self.where(done, self.full((), 1, first.dtype), second)
            first, second = self.where(done, first, second), self.where(done, second, self.remainder(first, divisor))
        return first

    @derived(NONDIFFERENTIABLE, elementwise=True, flops=100)
    def lcm(self, x: Int, y: Int | Scalar) -> Int:
        """Least common multiple, not negative; 0 for x = 0."""
        first, second = self.promote(x, self.full((), y, x.dtype) if isinstance(y, int) else y)
        divisor = self.gcd(first, second)
        none = self.eq(divisor, 0)
        share = self.floor_divide(self.abs(first), self.where(none, self.full((), 1, divisor.dtype), divisor))
        return self.mul(share, self.abs(second))

    @derived(NONDIFFERENTIABLE, elementwise=True)
    def bitwise_left_shift(self, x: Int, y: Int | Scalar) -> Int:
        """Shift the bits of x by y places to the left: x · 2ʸ; 0 where y is negative or no less than the bits."""
        x, y = self.promote(x, self.full((), y, x.dtype) if isinstance(y, int) else y)
        bits = 8 * x.dtype.itemsize
        fits = self.bitwise_and(self.ge(y, 0), self.lt(y, bits))
        power = self.pow(self.full((), 2, x.dtype), self.minimum(self.maximum(y, 0), bits - 1))
        return self.where(fits, self.mul(x, power), 0)

    @derived(NONDIFFERENTIABLE, elementwise=True)
    def bitwise_right_shift(self, x: Int, y: Int | Scalar) -> Int:
        """Shift the bits of x by y places to the right, ⌊x / 2ʸ⌋; by all where y is negative or beyond the bits."""
        places: Any = self.full((), y, x.dtype) if isinstance(y, int) else y
        x, places = self.promote(x, places)
        bits = 8 * x.dtype.itemsize
        fits = self.bitwise_and(self.ge(places, 0), self.lt(places, bits))
        places = self.where(fits, places, self.full((), bits, places.dtype))
        half, two = self.floor_divide(places, 2), self.full((), 2, x.dtype)  # 2 ** bits does not fit, its root does
        half_power, rest_power = self.pow(two, half), self.pow(two, self.sub(places, half))
        return self.floor_divide(self.floor_divide(x, half_power), rest_power)
