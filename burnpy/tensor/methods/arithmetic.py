"""Methods of numbers with others: sums of products, closeness; of ints, shifts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Generic, Self

from burnpy.backend.dtypes import float64
from burnpy.backend.errors import ArgumentError, KindError, ShapeError
from burnpy.backend.numerics.neighbours import largest
from burnpy.backend.primitives import Shape
from burnpy.tensor.arithmetic import S
from burnpy.tensor.operands import broadcast_shape, number, operands, together
from burnpy.tensor.template import binary
from burnpy.tensor.tensor_base import TensorBase, describe
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import BoolTensor, Tensor
    from burnpy.tensor.tensor_types import Ints


class Combining(TensorBase[B], Generic[B, S]):
    """Functions of several tensors of one kind, which broadcast and promote."""

    __slots__ = ()

    def heaviside(self, values: Self | S) -> Self:
        """Return the step function: 0 where x < 0 or x is NaN, 1 where x > 0, and ``values`` where x is 0.

        It is constant in x, so its gradient goes to ``values`` alone.

        Raises:
            ShapeError: the shapes do not broadcast.
        """
        x, values = combined("heaviside", self, values)
        b = x._backend
        above: Any = b.where(b.gt(x._primitive, 0), x.ones_like()._primitive, 0)
        return x._like(above).where(x.ne(0), values)  # type: ignore[no-any-return]  # of this class

    def addcmul(self, tensor1: Self, tensor2: Self, *, value: S | int = 1) -> Self:
        """Return the sum x + value · tensor1 · tensor2.

        Raises:
            ShapeError: the shapes do not broadcast.

        >>> x = IntTensor[NumPy].from_data([1, 2])
        >>> x.addcmul(x, x, value=10).tolist()
        [11, 42]
        """
        x, first, second = combined("addcmul", self, tensor1, tensor2)
        product: Any = first * second
        return x + (product if value == 1 else product * number(self, value, "addcmul"))  # type: ignore[no-any-return]  # as above

    def addmm(self, mat1: Self, mat2: Self, *, beta: S | int = 1, alpha: S | int = 1) -> Self:
        """Return the sum beta · x + alpha · (mat1 @ mat2) with a product of matrices, to whose shape x broadcasts.

        With ``beta`` 0, x is left out, so that its NaNs are.

        Raises:
            ShapeError: the factors are not matrices that fit, or x does not broadcast to the product.
        """
        return _added("addmm", self, mat1, mat2, beta, alpha)  # type: ignore[no-any-return]  # of this class

    def addmv(self, mat: Self, vec: Self, *, beta: S | int = 1, alpha: S | int = 1) -> Self:
        """Return the sum beta · x + alpha · (mat @ vec) with a product of a matrix and a vector; the rest is as for
        `addmm`.

        >>> x, mat = Tensor[NumPy].from_data([1.0, 2.0]), Tensor[NumPy].from_data([[1.0, 0.0], [1.0, 1.0]])
        >>> x.addmv(mat, x, alpha=10.0).tolist()
        [11.0, 32.0]
        """
        return _added("addmv", self, mat, vec, beta, alpha)  # type: ignore[no-any-return]  # of this class

    def addr(self, vec1: Self, vec2: Self, *, beta: S | int = 1, alpha: S | int = 1) -> Self:
        """Return the sum beta · x + alpha · vec1.outer(vec2) with the outer product of vectors; the rest is as for
        `addmm`.

        >>> v = Tensor[NumPy].from_data([1.0, 2.0])
        >>> Tensor[NumPy].ones((2, 2)).addr(v, v).tolist()
        [[2.0, 3.0], [3.0, 5.0]]
        """
        return _added("addr", self, vec1, vec2, beta, alpha)  # type: ignore[no-any-return]  # of this class

    def baddbmm(self, batch1: Self, batch2: Self, *, beta: S | int = 1, alpha: S | int = 1) -> Self:
        """Return the sum beta · x + alpha · (batch1 @ batch2) with products of batches, (b, n, k) and (b, k, m).

        With ``beta`` 0, x is left out, so that its NaNs are.

        Raises:
            ShapeError: the factors do not fit, or x does not broadcast to the product.
        """
        return _added("baddbmm", self, batch1, batch2, beta, alpha)  # type: ignore[no-any-return]  # of this class

    def addbmm(self, batch1: Self, batch2: Self, *, beta: S | int = 1, alpha: S | int = 1) -> Self:
        """Return the sum beta · x + alpha · Σ (batch1 @ batch2) with the sum over the batch of its products, of shape
        (n, m).

        The factors are as for `baddbmm`, and the rest as for `addmm`.

        >>> Tensor[NumPy].zeros((1, 1)).addbmm(Tensor[NumPy].ones((5, 1, 3)), Tensor[NumPy].ones((5, 3, 1))).tolist()
        [[15.0]]
        """
        return _added("addbmm", self, batch1, batch2, beta, alpha)  # type: ignore[no-any-return]  # of this class

    def float_power(self, exponent: Tensor[B] | Ints[B] | float) -> Tensor[B]:
        """Return the power in float64, a `Tensor`, of floats and of ints; the exponent may be of either kind too.

        Raises:
            ShapeError: the shapes do not broadcast.

        >>> IntTensor[NumPy].from_data([2, 10]).float_power(-1).tolist()
        [0.5, 0.1]
        """
        if not isinstance(exponent, TensorBase):
            base = _doubles(self)
            return base.pow(number(base, exponent, "float_power"))  # type: ignore[no-any-return]  # a Tensor
        if "bool" in (self.kind, exponent.kind):
            raise KindError(f"float_power() takes floats and ints, got {describe(self)} and {describe(exponent)}")
        base, power = together("float_power", self, exponent)
        return _doubles(base).pow(_doubles(power))  # type: ignore[no-any-return]  # a Tensor

    def nan_to_num(
        self, nan: S | float = 0.0, posinf: S | float | None = None, neginf: S | float | None = None
    ) -> Self:
        """Return the elements with numbers in place of NaN and of the infinities; ints are returned unchanged.

        Args:
            nan: in place of NaN.
            posinf: in place of inf; None for the largest number of the dtype.
            neginf: in place of -inf; None for the least one.

        The gradient is 0 where an element was replaced.

        >>> Tensor[NumPy].from_data([float("nan"), float("inf"), 1.0]).nan_to_num(posinf=9.0).tolist()
        [0.0, 9.0, 1.0]
        """
        if self.kind != "float":
            return self
        most = largest(self.dtype)
        b, x = self._backend, self._primitive
        for found, value in (
            (b.isnan(x), nan),
            (b.eq(x, math.inf), most if posinf is None else posinf),
            (b.eq(x, -math.inf), -most if neginf is None else neginf),
        ):
            x = b.where(b.discrete.bitwise_not(found), x, number(self, value, "nan_to_num"))
        return self._like(x)

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


def combined(operation: str, x: Any, *others: Any) -> tuple[Any, ...]:
    """Return tensors of one kind on one device; numbers among the operands stay numbers.

    Raises:
        KindError: the kinds differ, or an operand is neither a tensor nor a number.
        DeviceError: the tensors are on unrelated devices.
        ShapeError: the shapes do not broadcast.
    """
    given = [x, *(other if isinstance(other, TensorBase) else operands(x, other, operation)[1] for other in others)]
    tensors = [operand for operand in given if isinstance(operand, TensorBase)]
    for other in tensors[1:]:
        operands(x, other, operation)  # raises an error if they cannot be combined
    check_broadcast(operation, *tensors)
    placed = iter(together(operation, *tensors))
    return tuple([next(placed) if isinstance(operand, TensorBase) else operand for operand in given])


def check_broadcast(operation: str, *tensors: TensorBase[Any]) -> None:
    """Check that the shapes of tensors broadcast.

    Raises:
        ShapeError: they do not.
    """
    if broadcast_shape(*[tensor.shape for tensor in tensors]) is None:
        raise ShapeError(
            f"{operation}() got shapes {', '.join(str(tensor.shape) for tensor in tensors)}, which do not "
            "broadcast: aligned at the right, sizes must be equal or 1"
        )


_FACTORS = {
    "addmm": ("(n, k) and (k, m)", 2, 2),
    "addmv": ("(n, k) and (k,)", 2, 1),
    "addr": ("(n,) and (m,)", 1, 1),
    "baddbmm": ("(b, n, k) and (b, k, m)", 3, 3),
    "addbmm": ("(b, n, k) and (b, k, m)", 3, 3),
}
"""The shapes of the factors, and their numbers of dimensions, by the operation that adds a product."""


def _added(operation: str, x: Any, first: Any, second: Any, beta: Any, alpha: Any) -> Any:
    """Return beta · x + alpha · a product of two factors.

    Raises:
        ShapeError: the factors do not fit, or x does not broadcast to the product.
        KindError: a factor is not a tensor of x's kind.
    """
    for factor in (first, second):
        if not isinstance(factor, TensorBase):
            raise KindError(f"{operation}() multiplies tensors, got {describe(factor)}")
        operands(x, factor, operation)  # raises an error if they cannot be combined
    sizes, others = first.shape, second.shape
    product = _product_shape(operation, sizes, others)
    if product is None or broadcast_shape(x.shape, product) != product:
        raise ShapeError(
            f"{operation}() cannot add the product of shapes {sizes} and {others} to shape {x.shape}; it "
            f"multiplies {_FACTORS[operation][0]}, to whose product x must broadcast"
        )
    weight, factor = number(x, beta, operation), number(x, alpha, operation)
    x, first, second = together(operation, x, first, second)
    out: Any
    if operation == "addr":
        out = first.reshape(sizes[0], 1) * second
    elif operation == "addbmm":  # a sum of products is the product of the factors side by side
        side = sizes[0] * sizes[2]
        out = first.permute(1, 0, 2).reshape(sizes[1], side) @ second.reshape(side, others[2])
    else:
        out = first @ second
    out = out if factor == 1 else out * factor
    if weight == 0:
        return out
    return (x if weight == 1 else x * weight) + out


def _product_shape(operation: str, sizes: Shape, others: Shape) -> Shape | None:
    """Return the shape of the product that an operation adds; None if the factors do not fit."""
    if (len(sizes), len(others)) != _FACTORS[operation][1:]:
        return None
    if operation == "addr":
        return (*sizes, *others)
    if sizes[-1] != others[-min(len(others), 2)] or (len(sizes) == 3 and sizes[0] != others[0]):
        return None
    product = (*sizes[:-1], *others[len(sizes) - 1 :])
    return product[1:] if operation == "addbmm" else product


def _close(operation: str, x: Any, other: Any, rtol: Any, atol: Any, equal_nan: bool) -> Any:
    """Implement `Combining.isclose`."""
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if not isinstance(tolerance, (int, float)) or not tolerance >= 0:
            raise ArgumentError(f"{operation}() got {name}={tolerance!r:.80}; give a number that is not negative")
    x, other = combined(operation, x, other)
    close: Any = x.eq(other)
    many = not isinstance(other, (int, float))
    a: Any = x.detach()
    b: Any = other.detach() if many else other
    if x.kind == "int":
        a = _doubles(a)
        b = _doubles(b) if many else b
    elif equal_nan:
        close = close | (a.isnan() & (b.isnan() if many else b != b))
    if not rtol and not atol:
        return close
    error, scaled = (a - b).abs(), b * rtol
    return close | (error.isfinite() & (error <= abs(scaled) + atol))


def _doubles(x: Any) -> Any:
    """Return floats or ints as float64."""
    if x.kind == "float":
        return x.to_dtype(float64)
    return x._float(x._device.to_float(x._primitive, float64))


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
