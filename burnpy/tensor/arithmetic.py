"""Arithmetic and comparisons: the operators that float and int tensors share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Self, TypeVar

from burnpy.tensor.base import B, TensorBase
from burnpy.tensor.bool_tensor import BoolTensor
from burnpy.tensor.operands import number
from burnpy.tensor.template import binary, comparison, unary

S = TypeVar("S", bound=float)
"""The Python numbers that a kind mixes with: float (and so int) for `Tensor`, int for `IntTensor`."""


class Arithmetic(TensorBase[B], Generic[B, S]):
    """Elementwise arithmetic. Operands broadcast, promote as ``torch.result_type`` says, and may be Python numbers.

    Errors of every operation here: `ShapeError` where shapes do not broadcast, `KindError` where kinds differ,
    `DeviceError` where devices do.
    """

    __slots__ = ()

    @binary
    def add(self, other: Self | S) -> Self:
        """The sum, elementwise; also ``x + y``.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> (Tensor[NumPy].from_data([1.0, 2.0]) + 1).tolist()
        [2.0, 3.0]
        """
        ...

    @binary
    def sub(self, other: Self | S) -> Self:
        """The difference, elementwise; also ``x - y``."""
        ...

    @binary
    def mul(self, other: Self | S) -> Self:
        """The product, elementwise; also ``x * y``."""
        ...

    @binary
    def pow(self, other: Self | S) -> Self:
        """The power, elementwise; also ``x ** y``. An int tensor takes no negative exponents."""
        ...

    @binary
    def floor_divide(self, other: Self | S) -> Self:
        """The quotient rounded toward minus infinity; also ``x // y``."""
        ...

    @binary
    def remainder(self, other: Self | S) -> Self:
        """The remainder with the sign of the divisor; also ``x % y``."""
        ...

    @binary
    def maximum(self, other: Self | S) -> Self:
        """The larger, elementwise; NaN where either is. The gradient of ties is split evenly."""
        ...

    @binary
    def minimum(self, other: Self | S) -> Self:
        """The smaller, elementwise; NaN where either is. The gradient of ties is split evenly."""
        ...

    @unary
    def neg(self) -> Self:
        """The negative; also ``-x``."""
        ...

    @unary
    def abs(self) -> Self:
        """The absolute value; also ``abs(x)``. Its gradient at 0 is 0."""
        ...

    @unary
    def sign(self) -> Self:
        """-1, 0 or 1; NaN of NaN. Its gradient is 0."""
        ...

    @unary
    def square(self) -> Self:
        """x · x."""
        ...

    def clamp(self, min: S | None = None, max: S | None = None) -> Self:
        """The elements limited to ``min … max``, either of which may be None. The gradient at a bound is 1.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> Tensor[NumPy].from_data([-1.0, 0.5, 2.0]).clamp(0, 1).tolist()
        [0.0, 0.5, 1.0]
        """
        low, high = (None if bound is None else number(self, bound, "clamp") for bound in (min, max))
        return self._like(self._backend.clamp(self._primitive, low, high))

    @comparison
    def eq(self, other: Self | S) -> BoolTensor[B]:
        """Where equal; also ``x == y``."""
        ...

    @comparison
    def ne(self, other: Self | S) -> BoolTensor[B]:
        """Where different; also ``x != y``."""
        ...

    @comparison
    def lt(self, other: Self | S) -> BoolTensor[B]:
        """Where smaller; also ``x < y``."""
        ...

    @comparison
    def le(self, other: Self | S) -> BoolTensor[B]:
        """Where smaller or equal; also ``x <= y``."""
        ...

    @comparison
    def gt(self, other: Self | S) -> BoolTensor[B]:
        """Where larger; also ``x > y``."""
        ...

    @comparison
    def ge(self, other: Self | S) -> BoolTensor[B]:
        """Where larger or equal; also ``x >= y``."""
        ...

    def _filled(self, value: S, operation: str) -> Self:
        """A 0-d tensor of this one's dtype, for the operators that have the number first."""
        return self._like(self._backend.full((), number(self, value, operation), self.dtype))

    def __rsub__(self, other: S) -> Self:
        return self.neg().add(other)  # exactly other - x, signed zeros included

    def __rpow__(self, other: S) -> Self:
        return self._filled(other, "pow").pow(self)

    def __rfloordiv__(self, other: S) -> Self:
        return self._filled(other, "floor_divide").floor_divide(self)

    def __rmod__(self, other: S) -> Self:
        return self._filled(other, "remainder").remainder(self)

    def __pos__(self) -> Self:
        return self

    __add__ = __radd__ = add
    __sub__ = sub
    __mul__ = __rmul__ = mul
    __pow__ = pow
    __floordiv__ = floor_divide
    __mod__ = remainder
    __neg__ = neg
    __abs__ = abs
    __lt__ = lt
    __le__ = le
    __gt__ = gt
    __ge__ = ge
    if TYPE_CHECKING:
        # Wider arguments would be sound, but what ``x == y`` gives would be unknown.
        def __eq__(self, other: Self | S) -> BoolTensor[B]: ...  # type: ignore[override]
        def __ne__(self, other: Self | S) -> BoolTensor[B]: ...  # type: ignore[override]
    else:
        __eq__ = eq
        __ne__ = ne
    __hash__ = TensorBase.__hash__
