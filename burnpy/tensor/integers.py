"""Operations of int and bool tensors: bitwise and logical ones, and of ints true division and one-hot vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Self, overload

from burnpy.backend.dtypes import float32
from burnpy.backend.errors import ArgumentError
from burnpy.tensor.arithmetic import Arithmetic, RoundingMode, S, is_floor
from burnpy.tensor.dims import addressable, integer
from burnpy.tensor.operands import in_range, operands
from burnpy.tensor.template import binary, comparison, unary
from burnpy.tensor.tensor_base import TensorBase
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import BoolTensor, Tensor
    from burnpy.tensor.tensor_types import IntOperand  # noqa: F401  # in the bases, as text


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


class Equality(TensorBase[B]):
    """Comparisons of bool tensors."""

    __slots__ = ()

    @comparison
    def eq(self, other: Self | bool) -> BoolTensor[B]:
        """Return a `BoolTensor` that is True where the elements are equal; also ``x == y``."""
        ...

    @comparison
    def ne(self, other: Self | bool) -> BoolTensor[B]:
        """Return a `BoolTensor` that is True where the elements are not equal; also ``x != y``."""
        ...

    if TYPE_CHECKING:
        # Wider argument types would be sound, but type checkers would not know the type of ``x == y``.
        def __eq__(self, other: Self | bool) -> BoolTensor[B]: ...  # type: ignore[override]
        def __ne__(self, other: Self | bool) -> BoolTensor[B]: ...  # type: ignore[override]
    else:
        __eq__ = eq
        __ne__ = ne
    __hash__ = TensorBase.__hash__


class Integers(Arithmetic[B, "IntOperand[B]"], Logic[B, "IntOperand[B]"]):
    """Arithmetic and logic of ints, true division and one-hot vectors."""

    __slots__ = ()

    @overload
    def div(self, other: Self | float, *, rounding_mode: None = None) -> Tensor[B]: ...
    @overload
    def div(self, other: Self | int, *, rounding_mode: RoundingMode) -> Self: ...
    def div(self, other: Any, *, rounding_mode: RoundingMode | None = None) -> Any:
        """Return the elementwise quotient in float32, for ints of any dtype; also ``x / y``.

        With ``rounding_mode`` the result is ints: ``"floor"`` rounds toward minus infinity, as ``x // y``, and
        ``"trunc"`` toward 0.

        Raises:
            ArgumentError: ``rounding_mode`` is something else; or a divisor is 0 and ``rounding_mode`` is not None.

        >>> x = IntTensor[NumPy].from_data([1, -2])
        >>> x.div(4).tolist(), x.div(4, rounding_mode="floor").tolist(), x.div(4, rounding_mode="trunc").tolist()
        ([0.25, -0.5], [0, -1], [0, 0])
        """
        if rounding_mode is None:
            return self.__truediv__(other)
        floored = self.floor_divide(other)
        if is_floor(rounding_mode):
            return floored
        above = (floored < 0) & (self != floored * other)  # negative quotients that were rounded down
        return floored + above.int(floored.dtype)

    def __truediv__(self, other: Self | float) -> Tensor[B]:
        if isinstance(other, TensorBase):
            operands(self, other, "div")  # raises an error if they cannot be combined
            return _floats(self).div(_floats(other))
        return _floats(self).div(other)

    def __rtruediv__(self, other: float) -> Tensor[B]:
        return other / _floats(self)

    def one_hot(self, num_classes: int = -1) -> Self:
        """One-hot vectors in a new last dimension of size ``num_classes``: 1 at the index, 0 elsewhere; int64.

        Args:
            num_classes: the number of classes; -1 means one more than the largest element.

        Raises:
            IndexRangeError: an element is negative, or not below ``num_classes``.
            ArgumentError: there are no elements to infer ``num_classes`` from.

        >>> IntTensor[NumPy].from_data([0, 2]).one_hot(3).tolist()
        [[1, 0, 0], [0, 0, 1]]
        """
        num_classes = integer(num_classes, "num_classes", "one_hot")
        if num_classes == -1:
            values = self._backend.to_numpy(self._primitive)
            if not values.size:
                raise ArgumentError(f"one_hot() of an empty tensor, of shape {self.shape}, needs num_classes")
            num_classes = int(values.max()) + 1
        if num_classes < 1:
            raise ArgumentError(f"one_hot() got {num_classes} classes; give 1 or more")
        shape = addressable((*self.shape, num_classes), "one_hot")
        index = in_range(self.device, self._primitive, num_classes, False, "one_hot()", self.ndim, shape)
        return self._like(self._backend.one_hot(index, num_classes))


def _floats(x: TensorBase[B]) -> Tensor[B]:
    return x._float(x._device.to_float(x._primitive, float32))
