"""Arithmetic, interpolation and the matrix product: the operators of tensors of numbers, and methods beside them.

A body of ``...`` is not what runs: the decorator above it copies a function of `burnpy.tensor.template`, ``@binary``
the function ``_binary``, with the method's name in place of ``OPERATION``.
"""

from __future__ import annotations

import math
from numbers import Number
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeAlias, overload

from burnpy.backend.dtypes import float32
from burnpy.backend.errors import ArgumentError, BurnpyError, KindError, OutOfMemoryError, ShapeError
from burnpy.tensor.call_errors import refuse_option
from burnpy.tensor.comparison import Comparison, Logic
from burnpy.tensor.dim_checks import MOST, addressable, integer
from burnpy.tensor.operand_checks import (
    broadcast_shape,
    combined,
    from_other_code,
    in_range,
    is_number,
    number,
    operands,
    out_of_memory,
    times,
    together,
)
from burnpy.tensor.template import S, binary, from_template, unary
from burnpy.tensor.tensor_base import TensorBase, blank, describe
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import Tensor
    from burnpy.tensor.tensor_types import IntOperand  # noqa: F401  # in the bases, as text

RoundingMode: TypeAlias = Literal["floor", "trunc"]
"""The rounding of ``div``: toward minus infinity, or toward 0."""


def is_floor(rounding_mode: Any) -> bool:
    """Return True for the rounding mode "floor", False for "trunc"."""
    if not isinstance(rounding_mode, str) or (rounding_mode != "floor" and rounding_mode != "trunc"):
        raise ArgumentError(f'div() got rounding_mode={describe(rounding_mode)}; expected "floor", "trunc" or None')
    return rounding_mode == "floor"


def _is_one(alpha: Any) -> bool:
    return alpha.__class__ is int and alpha == 1


class NumberArithmetic(TensorBase[B], Generic[B, S]):
    """Sums, products and powers. Operands broadcast, promote as in ``torch.result_type``, and may be Python numbers.

    Every operation raises `ShapeError` if the shapes do not broadcast, `KindError` if the kinds differ and
    `DeviceError` if the devices differ.
    """

    __slots__ = ()

    @binary
    def add(self, other: Self | S, *, alpha: S | int = 1) -> Self:
        """Return the elementwise sum; also ``x + y``. With ``alpha``, a number, it is ``x + alpha * y``.

        >>> (Tensor[NumPy].from_data([1.0, 2.0]) + 1).tolist()
        [2.0, 3.0]
        """
        ...

    @binary
    def sub(self, other: Self | S, *, alpha: S | int = 1) -> Self:
        """Return the elementwise difference; also ``x - y``. With ``alpha``, a number, it is ``x - alpha * y``."""
        ...

    @binary
    def mul(self, other: Self | S) -> Self:
        """Return the elementwise product; also ``x * y``."""
        ...

    @binary
    def pow(self, exponent: Self | S) -> Self:
        """Return the elementwise power; also ``x ** y``. For an int tensor the exponents must not be negative."""
        ...

    @unary
    def neg(self) -> Self:
        """Return the elementwise negative; also ``-x``."""
        ...

    @unary
    def square(self) -> Self:
        """Return the elementwise square, x · x."""
        ...

    def _add_with(self, other: Self | S, alpha: S) -> Self:
        return self.add(other if _is_one(alpha) else times(alpha, self, other, "add"))

    def _sub_with(self, other: Self | S, alpha: S) -> Self:
        return self.sub(other if _is_one(alpha) else times(alpha, self, other, "sub"))

    def _filled(self, value: S, operation: str) -> Self:
        """Return ``value`` as a 0-d tensor of this one's dtype, for operators whose first operand is a number."""
        return self._like(self._backend.full((), number(self, value, operation), self.dtype))

    def __rsub__(self, other: S) -> Self:
        try:
            return self.neg().add(other)  # exactly other - x, signed zeros included
        except BurnpyError as error:
            refusal = error
        self.sub(other)  # raises the error that names sub
        raise refusal

    def __rpow__(self, other: S) -> Self:
        return self._filled(other, "pow").pow(self)

    def __pos__(self) -> Self:
        return self

    if TYPE_CHECKING:  # operators take no option

        def __add__(self, other: Self | S) -> Self: ...
        def __sub__(self, other: Self | S) -> Self: ...

        __radd__ = __add__
    else:
        __add__ = __radd__ = add
        __sub__ = sub
    __mul__ = __rmul__ = mul
    __pow__ = pow
    __neg__ = neg


class Arithmetic(NumberArithmetic[B, S]):
    """Arithmetic of numbers that have an order."""

    __slots__ = ()

    @binary
    def floor_divide(self, other: Self | S) -> Self:
        """Return the elementwise quotient rounded toward minus infinity; also ``x // y``."""
        ...

    @binary
    def remainder(self, other: Self | S) -> Self:
        """Return the elementwise remainder, with the sign of the divisor; also ``x % y``."""
        ...

    @binary
    def maximum(self, other: Self | S) -> Self:
        """Return the elementwise maximum; NaN where either operand is NaN. The gradient of ties is split evenly."""
        ...

    @binary
    def minimum(self, other: Self | S) -> Self:
        """Return the elementwise minimum; NaN where either operand is NaN. The gradient of ties is split evenly."""
        ...

    @unary
    def abs(self) -> Self:
        """Return the elementwise absolute value; also ``abs(x)``. Its gradient at 0 is 0."""
        ...

    @unary
    def sign(self) -> Self:
        """Return the sign of each element: -1, 0 or 1, and NaN for NaN. Its gradient is 0."""
        ...

    def clamp(self, min: Self | S | None = None, max: Self | S | None = None) -> Self:
        """Return the elements limited to the range from ``min`` to ``max``.

        The bounds are numbers or tensors that broadcast; one of them may be None. The result is ``max`` where ``max``
        is below ``min``, and NaN where x or a bound is NaN. At a bound the gradient goes to x, beyond it to the bound.

        Raises:
            ArgumentError: there is no bound.

        >>> x = Tensor[NumPy].from_data([-1.0, 0.5, 2.0])
        >>> x.clamp(0, 1).tolist(), x.clamp(max=Tensor[NumPy].from_data([0.0, 0.0, 3.0])).tolist()
        ([0.0, 0.5, 1.0], [-1.0, 0.0, 2.0])
        """
        if isinstance(min, TensorBase) or isinstance(max, TensorBase):
            return self._clamped(min, max)
        if min is None and max is None:
            raise ArgumentError("clamp() got no bounds; pass min, max or both")
        low, high = (None if bound is None else number(self, bound, "clamp") for bound in (min, max))
        return self._like(self._backend.clamp(self._primitive, low, high))

    @binary
    def clamp_min(self, min: Self | S) -> Self:
        """Return the elements limited to at least ``min``: `maximum` with the gradient of `clamp`."""
        ...

    @binary
    def clamp_max(self, max: Self | S) -> Self:
        """Return the elements limited to at most ``max``: `minimum` with the gradient of `clamp`."""
        ...

    def _clamped(self, low: Self | S | None, high: Self | S | None) -> Self:
        """Implement `clamp` where at least one bound is a tensor."""
        bounds = [bound for bound in (low, high) if bound is not None]
        for bound in bounds:
            operands(self, bound, "clamp")  # raises an error if they cannot be combined
        shapes = [bound.shape for bound in bounds if isinstance(bound, TensorBase)]
        if broadcast_shape(self.shape, *shapes) is None:
            raise ShapeError(
                f"clamp() got shape {self.shape} with bounds of shape {' and '.join(map(str, shapes))}, "
                "which do not broadcast"
            )
        if low is None or high is None:
            return self.clamp_max(bounds[0]) if low is None else self.clamp_min(low)
        tensors = together(
            "clamp", self, *[b if isinstance(b, TensorBase) else self._filled(b, "clamp") for b in bounds]
        )
        first, backend = tensors[0], tensors[0]._backend
        out: Self = first._like(backend.clamp_between(*backend.promote(*[t._primitive for t in tensors])))
        return out

    def __rfloordiv__(self, other: S) -> Self:
        return self._filled(other, "floor_divide").floor_divide(self)

    def __rmod__(self, other: S) -> Self:
        return self._filled(other, "remainder").remainder(self)

    __floordiv__ = floor_divide
    __mod__ = remainder
    __abs__ = abs


def _product(self: Any, other: Any, out: Any = None) -> Any:
    if out is not None:
        refuse_option(self, "OPERATION", out=out)
    if other.__class__ is not self.__class__ or other._device is not self._device:
        _refuse_number(other)
        self, right = operands(self, other, "OPERATION")
    else:
        right = other._primitive
    try:
        primitive = self._backend.OPERATION(self._primitive, right)
    except Exception as error:  # of the array library, of any class; it is explained or raised again
        _explain(error, self, other)
        raise
    result = blank()
    result._device = self._device
    result._primitive = primitive
    return result


class MatrixProduct(TensorBase[B]):
    """The matrix product of tensors of numbers."""

    __slots__ = ()

    @from_template(_product)
    def matmul(self, other: Self) -> Self:
        """Return the matrix product; also ``x @ y``.

        For shapes (…, n, k) and (…, k, m) the result has shape (…, n, m), and … broadcasts. A vector on the left is
        treated as a row, one on the right as a column, and its dimension is removed from the result: the product of two
        vectors is their 0-d inner product. Dtypes promote.

        Raises:
            ShapeError: the inner sizes differ, the other dimensions do not broadcast, or one of the tensors is 0-d.
            KindError: the other operand is a number, or a tensor of another kind.

        >>> x = Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 4.0]])
        >>> v = Tensor[NumPy].from_data([1.0, -1.0])
        >>> (x @ x).tolist(), (x @ v).tolist(), (v @ v).item()
        ([[7.0, 10.0], [15.0, 22.0]], [-1.0, -1.0], 2.0)
        """
        ...

    __matmul__ = matmul

    if not TYPE_CHECKING:  # to type checkers, the left operand is always a tensor

        def __rmatmul__(self, other):
            _refuse_number(other)
            operands(self, other, "matmul")
            raise AssertionError("two tensors of one class never come here")


def _refuse_number(other: object) -> None:
    if isinstance(other, Number):
        raise KindError(
            f"matmul() got a tensor and the number {describe(other)}; to scale it write x * {describe(other)}"
        )


def _explain(error: Exception, x: TensorBase[Any], y: TensorBase[Any]) -> None:
    """Raise a clear error if the shapes of x and y, or their size, caused ``error``; else return."""
    if isinstance(error, BurnpyError) and not isinstance(error, OutOfMemoryError):
        return
    asked = f"matmul() got shapes {x.shape} and {y.shape}"
    if not x.ndim or not y.ndim:
        raise ShapeError(f"{asked}, and a 0-d tensor has no dimension to multiply along; write x * y") from error
    rows = -2 if y.ndim > 1 else -1
    if x.shape[-1] != y.shape[rows]:
        sizes = f"{x.shape[-1]} in dim -1 of the first must be {y.shape[rows]} in dim {rows} of the second"
        raise ShapeError(f"{asked}, which do not multiply: {sizes}") from error
    batch = broadcast_shape(x.shape[:-2], y.shape[:-2])
    if batch is None:
        raise ShapeError(f"{asked}, whose dimensions before the last two do not broadcast") from error
    shape = (*batch, *x.shape[-2:-1], *(y.shape[-1:] if y.ndim > 1 else ()))
    if from_other_code(error, x._device):
        return
    if isinstance(error, MemoryError) or math.prod(shape) > MOST:
        raise out_of_memory(error, "matmul", x, y, shape) from error


class Interpolating(TensorBase[B]):
    """Values between those of two tensors of floats."""

    __slots__ = ()

    def lerp(self, end: Self, weight: Self | float) -> Self:
        """Return the linear interpolation x + weight · (end - x), which is exactly ``end`` at weight 1.

        Raises:
            KindError: ``end`` is not a tensor.
            ShapeError: the shapes do not broadcast.

        >>> Tensor[NumPy].from_data([0.0, 10.0]).lerp(Tensor[NumPy].from_data([4.0, 20.0]), 0.25).tolist()
        [1.0, 12.5]
        """
        x, stop, part = combined("lerp", self, end, weight)
        if not isinstance(stop, TensorBase):
            raise KindError(f"lerp() interpolates between tensors, got {describe(end)} as end; use x.full_like(end)")
        from burnpy.backend.operations.programs import lerp_each

        ends = (x._primitive, stop._primitive)
        if isinstance(part, TensorBase):
            (out,) = x._backend.fused(_from_nearer, (*ends, part._primitive))
        elif abs(part) < 0.5:
            (out,) = x._backend.fused(lerp_each, ends, (part,))
        else:
            (out,) = x._backend.fused(_from_end, ends, (1.0 - part,))
        return x._like(out)  # type: ignore[no-any-return]  # of this class


def _from_end(b: Any, x: Any, stop: Any, rest: Any) -> tuple[Any]:
    return (b.sub(stop, b.mul(b.sub(stop, x), rest)),)


def _from_nearer(b: Any, x: Any, stop: Any, share: Any) -> tuple[Any]:
    step = b.sub(stop, x)
    near, far = b.add(x, b.mul(step, share)), b.sub(stop, b.mul(step, b.add(b.neg(share), 1.0)))
    return (b.where(b.lt(b.abs(share), 0.5), near, far),)


class Integers(Arithmetic[B, "IntOperand[B]"], Comparison[B, "IntOperand[B]"], Logic[B, "IntOperand[B]"]):
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
        divisor: Any = other
        if isinstance(other, TensorBase) and not is_number(other):
            operands(self, other, "div")  # raises an error if they cannot be combined
            divisor = _floats(other)
        return _floats(self).div(divisor)

    def __rtruediv__(self, other: float) -> Tensor[B]:
        return other / _floats(self)

    def one_hot(self, num_classes: int = -1) -> Self:
        """Return one-hot vectors in a new last dimension of size ``num_classes``: 1 at the index, 0 elsewhere; int64.

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
