"""Comparisons, closeness, and logical and bitwise operations, elementwise.

A body of ``...`` is not what runs: the decorator above it copies a function of `burnpy.tensor.template`, ``@binary``
the function ``_binary``, with the method's name in place of ``OPERATION``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Self

from burnpy.backend.dtypes import float64
from burnpy.backend.errors import ArgumentError
from burnpy.tensor.operand_checks import combined, number, operands
from burnpy.tensor.template import S, binary, comparison, unary
from burnpy.tensor.tensor_base import TensorBase
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import BoolTensor


class Equality(TensorBase[B], Generic[B, S]):
    """Elementwise tests of equality. Operands broadcast, promote and may be Python numbers."""

    __slots__ = ()

    @comparison
    def eq(self, other: Self | S) -> BoolTensor[B]:
        """Return a `BoolTensor` that is True where the elements are equal; also ``x == y``."""
        ...

    @comparison
    def ne(self, other: Self | S) -> BoolTensor[B]:
        """Return a `BoolTensor` that is True where the elements are not equal; also ``x != y``."""
        ...

    if TYPE_CHECKING:
        # Wider argument types would be sound, but type checkers would not know the type of ``x == y``.
        def __eq__(self, other: Self | S) -> BoolTensor[B]: ...  # type: ignore[override]
        def __ne__(self, other: Self | S) -> BoolTensor[B]: ...  # type: ignore[override]
    else:
        __eq__ = eq
        __ne__ = ne
    __hash__ = TensorBase.__hash__


class Comparison(Equality[B, S]):
    """Elementwise comparisons of numbers that have an order."""

    __slots__ = ()

    @comparison
    def lt(self, other: Self | S) -> BoolTensor[B]:
        """Return a `BoolTensor` that is True where x is less than y; also ``x < y``."""
        ...

    @comparison
    def le(self, other: Self | S) -> BoolTensor[B]:
        """Return a `BoolTensor` that is True where x is less than or equal to y; also ``x <= y``."""
        ...

    @comparison
    def gt(self, other: Self | S) -> BoolTensor[B]:
        """Return a `BoolTensor` that is True where x is greater than y; also ``x > y``."""
        ...

    @comparison
    def ge(self, other: Self | S) -> BoolTensor[B]:
        """Return a `BoolTensor` that is True where x is greater than or equal to y; also ``x >= y``."""
        ...

    __lt__ = lt
    __le__ = le
    __gt__ = gt
    __ge__ = ge


class Logic(TensorBase[B], Generic[B, S]):
    """Bitwise operations of ints and logical operations of bools.

    Operands broadcast, promote and may be Python numbers.
    """

    __slots__ = ()

    @binary
    def bitwise_and(self, other: Self | S) -> Self:
        """Return the bitwise AND, for bools the logical AND; also ``x & y``.

        >>> x = Tensor[NumPy].from_data([1.0, 2.0, 3.0])
        >>> ((x > 1) & (x < 3)).tolist()
        [False, True, False]
        """
        ...

    @binary
    def bitwise_or(self, other: Self | S) -> Self:
        """Return the bitwise OR, for bools the logical OR; also ``x | y``."""
        ...

    @binary
    def bitwise_xor(self, other: Self | S) -> Self:
        """Return the bitwise XOR, for bools the logical XOR; also ``x ^ y``."""
        ...

    @unary
    def bitwise_not(self) -> Self:
        """Return the bitwise NOT, for bools the logical NOT; also ``~x``."""
        ...

    def logical_and(self, other: Self | S) -> BoolTensor[B]:
        """Return the elementwise logical AND, a `BoolTensor`; elements that are not 0 count as True."""
        return self._logical("bitwise_and", "logical_and", other)

    def logical_or(self, other: Self | S) -> BoolTensor[B]:
        """Return the elementwise logical OR, a `BoolTensor`; elements that are not 0 count as True."""
        return self._logical("bitwise_or", "logical_or", other)

    def logical_xor(self, other: Self | S) -> BoolTensor[B]:
        """Return the elementwise logical XOR, a `BoolTensor`; elements that are not 0 count as True."""
        return self._logical("bitwise_xor", "logical_xor", other)

    def logical_not(self) -> BoolTensor[B]:
        """Return the elementwise logical NOT, a `BoolTensor`: True where the element is 0."""
        return self._truth().bitwise_not()

    def _logical(self, operation: str, name: str, other: Any) -> BoolTensor[B]:
        if isinstance(other, TensorBase):
            operands(self, other, name)  # raises an error if they cannot be combined
            other = other._truth()  # type: ignore[attr-defined]  # the same kind as self
        else:
            other = bool(operands(self, other, name)[1])
        out: BoolTensor[B] = getattr(self._truth(), operation)(other)
        return out

    def _truth(self) -> BoolTensor[B]:
        return self._bool(self._primitive if self.kind == "bool" else self._backend.to_bool(self._primitive))

    __and__ = __rand__ = bitwise_and
    __or__ = __ror__ = bitwise_or
    __xor__ = __rxor__ = bitwise_xor
    __invert__ = bitwise_not


class Shifts(TensorBase[B]):
    """Shifts of ints, which broadcast, promote and may be Python ints."""

    __slots__ = ()

    @binary
    def bitwise_left_shift(self, other: Self | int) -> Self:
        """Return the bits of x shifted to the left; also ``x << y``. It is 0 where y is negative, or no less than the
        bits.

        >>> x = IntTensor[NumPy].from_data([1, -5])
        >>> (x << 3).tolist(), (x >> 1).tolist(), (1 << x.abs()).tolist()
        ([8, -40], [0, -3], [2, 32])
        """
        ...

    @binary
    def bitwise_right_shift(self, other: Self | int) -> Self:
        """Return the bits of x shifted to the right, which keeps the sign; also ``x >> y``.

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


class Closeness(TensorBase[B], Generic[B, S]):
    """Comparisons with tolerances."""

    __slots__ = ()

    def isclose(
        self, other: Self | S, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
    ) -> BoolTensor[B]:
        """Return a `BoolTensor` that is True where |x - other| <= atol + rtol · |other|, or the elements are equal.

        Args:
            other: the tensor or number to compare with.
            rtol: the difference that is tolerated, relative to ``other``.
            atol: the difference that is tolerated in addition.
            equal_nan: whether two NaNs are close.

        Raises:
            ArgumentError: ``rtol`` or ``atol`` is negative or NaN.

        >>> x = Tensor[NumPy].from_data([1.0, float("nan")])
        >>> x.isclose(x + 1e-7).tolist(), x.isclose(x, equal_nan=True).tolist()
        ([True, False], [True, True])
        """
        return _close("isclose", self, other, rtol, atol, equal_nan)  # type: ignore[no-any-return]  # a BoolTensor

    def allclose(self, other: Self | S, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
        """Return whether all elements are close, as a Python bool: see `isclose`, whose arguments it has.

        >>> x = Tensor[NumPy].from_data([1.0, 2.0])
        >>> x.allclose(x + 1e-7), x.allclose(x + 1e-3)
        (True, False)
        """
        return bool(_close("allclose", self, other, rtol, atol, equal_nan).all())


def _close(operation: str, x: Any, other: Any, rtol: Any, atol: Any, equal_nan: bool) -> Any:
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if not isinstance(tolerance, (int, float)) or not tolerance >= 0:
            raise ArgumentError(f"{operation}() got {name}={tolerance!r:.80}; give a number that is not negative")
    x, other = combined(operation, x, other)
    close: Any = x.eq(other)
    many = isinstance(other, TensorBase)
    a, b = x.detach(), other
    if many:
        b = b.detach()
    if x.kind == "int":
        a = _doubles(a)
        b = _doubles(b) if many else b
    elif equal_nan:
        close = close | (a.isnan() & (b.isnan() if many else b != b))
    if not rtol and not atol:
        return close
    error, size = (a - b).abs(), abs(b)
    return close | (error.isfinite() & (error <= size * rtol + atol))


def _doubles(x: Any) -> Any:
    """Return floats or ints as float64."""
    if x.kind == "float":
        return x.to_dtype(float64)
    return x._float(x._device.to_float(x._primitive, float64))
