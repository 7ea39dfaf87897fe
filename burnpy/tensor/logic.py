"""Bitwise and logical operations of int and bool tensors, and the comparisons of bool tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from burnpy.tensor.base import TensorBase
from burnpy.tensor.operands import operands
from burnpy.tensor.template import binary, comparison, unary
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.bool_tensor import BoolTensor

S = TypeVar("S")
"""The Python numbers that can be combined with a kind: int for `IntTensor`, bool for `BoolTensor`."""


class Logic(TensorBase[B], Generic[B, S]):
    """Bitwise operations of ints and logical operations of bools.

    Operands broadcast, promote and may be Python numbers.
    """

    __slots__ = ()

    @binary
    def bitwise_and(self, other: Self | S) -> Self:
        """The bitwise AND, for bools the logical AND; also ``x & y``.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> x = Tensor[NumPy].from_data([1.0, 2.0, 3.0])
        >>> ((x > 1) & (x < 3)).tolist()
        [False, True, False]
        """
        ...

    @binary
    def bitwise_or(self, other: Self | S) -> Self:
        """The bitwise OR, for bools the logical OR; also ``x | y``."""
        ...

    @binary
    def bitwise_xor(self, other: Self | S) -> Self:
        """The bitwise XOR, for bools the logical XOR; also ``x ^ y``."""
        ...

    @unary
    def bitwise_not(self) -> Self:
        """The bitwise NOT, for bools the logical NOT; also ``~x``."""
        ...

    def logical_and(self, other: Self | S) -> BoolTensor[B]:
        """The elementwise logical AND, a `BoolTensor`; elements that are not 0 count as True."""
        return self._logical("bitwise_and", "logical_and", other)

    def logical_or(self, other: Self | S) -> BoolTensor[B]:
        """The elementwise logical OR, a `BoolTensor`; elements that are not 0 count as True."""
        return self._logical("bitwise_or", "logical_or", other)

    def logical_xor(self, other: Self | S) -> BoolTensor[B]:
        """The elementwise logical XOR, a `BoolTensor`; elements that are not 0 count as True."""
        return self._logical("bitwise_xor", "logical_xor", other)

    def logical_not(self) -> BoolTensor[B]:
        """The elementwise logical NOT, a `BoolTensor`: True where the element is 0."""
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


class Equality(TensorBase[B]):
    """Comparisons of bool tensors."""

    __slots__ = ()

    @comparison
    def eq(self, other: Self | bool) -> BoolTensor[B]:
        """A `BoolTensor` that is True where the elements are equal; also ``x == y``."""
        ...

    @comparison
    def ne(self, other: Self | bool) -> BoolTensor[B]:
        """A `BoolTensor` that is True where the elements are not equal; also ``x != y``."""
        ...

    if TYPE_CHECKING:
        # Wider argument types would be sound, but type checkers would not know the type of ``x == y``.
        def __eq__(self, other: Self | bool) -> BoolTensor[B]: ...  # type: ignore[override]
        def __ne__(self, other: Self | bool) -> BoolTensor[B]: ...  # type: ignore[override]
    else:
        __eq__ = eq
        __ne__ = ne
    __hash__ = TensorBase.__hash__
