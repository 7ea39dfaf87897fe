"""Operations that only int tensors have: true division with a float result, and one-hot vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, overload

from burnpy.backend.dtypes import float32
from burnpy.backend.errors import ArgumentError
from burnpy.tensor.arithmetic import Arithmetic, RoundingMode, is_floor
from burnpy.tensor.base import TensorBase
from burnpy.tensor.dims import addressable, integer
from burnpy.tensor.index_checks import in_range
from burnpy.tensor.logic import Logic
from burnpy.tensor.operands import operands
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.discrete import IntOperand  # noqa: F401  # in the bases, as text
    from burnpy.tensor.tensor import Tensor


class Integers(Arithmetic[B, "IntOperand[B]"], Logic[B, "IntOperand[B]"]):
    """Arithmetic and logic of ints, true division and one-hot vectors."""

    __slots__ = ()

    @overload
    def div(self, other: Self | float, *, rounding_mode: None = None) -> Tensor[B]: ...
    @overload
    def div(self, other: Self | int, *, rounding_mode: RoundingMode) -> Self: ...
    def div(self, other: Any, *, rounding_mode: RoundingMode | None = None) -> Any:
        """The elementwise quotient in float32, for ints of any dtype; also ``x / y``.

        With ``rounding_mode`` the result is ints: ``"floor"`` rounds toward minus infinity, as ``x // y``, and
        ``"trunc"`` toward 0.

        Raises:
            ArgumentError: ``rounding_mode`` is something else; or a divisor is 0 and ``rounding_mode`` is not None.

        >>> from burnpy import IntTensor
        >>> from burnpy.backend import NumPy
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

        >>> from burnpy import IntTensor
        >>> from burnpy.backend import NumPy
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
