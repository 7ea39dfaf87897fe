"""Derivatives of elementwise functions by a parameter, with dual numbers made of a backend's operations.

A default must not use `burnpy.autodiff`, which lies above the backends. Where a function is computed by series and
fractions, its derivative by a parameter is computed by the same steps, on dual numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from burnpy.backend.primitives import DType, Scalar, Shape


class _Dual(NamedTuple):
    """A float primitive and its derivative by a parameter."""

    value: Any
    slope: Any

    @property
    def dtype(self) -> DType:
        return self.value.dtype  # type: ignore[no-any-return]  # of a primitive

    @property
    def shape(self) -> Shape:
        return self.value.shape  # type: ignore[no-any-return]  # of a primitive


class _Duals:
    """Elementwise operations on `_Dual`s by those of a backend, or other `_Duals` for derivatives of higher order."""

    def __init__(self, b: Any) -> None:
        self.b = b
        self.discrete = b.discrete

    def full(self, shape: Shape, value: Scalar, dtype: DType) -> _Dual:
        return _Dual(self.b.full(shape, value, dtype), self.b.full(shape, 0.0, dtype))

    def add(self, x: _Dual, y: _Dual | float) -> _Dual:
        if not isinstance(y, _Dual):
            return _Dual(self.b.add(x.value, y), x.slope)
        return _Dual(self.b.add(x.value, y.value), self.b.add(x.slope, y.slope))

    def sub(self, x: _Dual, y: _Dual) -> _Dual:
        return _Dual(self.b.sub(x.value, y.value), self.b.sub(x.slope, y.slope))

    def neg(self, x: _Dual) -> _Dual:
        return _Dual(self.b.neg(x.value), self.b.neg(x.slope))

    def mul(self, x: _Dual, y: _Dual | float) -> _Dual:
        b = self.b
        if not isinstance(y, _Dual):
            return _Dual(b.mul(x.value, y), b.mul(x.slope, y))
        return _Dual(b.mul(x.value, y.value), b.add(b.mul(x.slope, y.value), b.mul(x.value, y.slope)))

    def div(self, x: _Dual, y: _Dual) -> _Dual:
        b = self.b
        quotient = b.div(x.value, y.value)
        return _Dual(quotient, b.div(b.sub(x.slope, b.mul(quotient, y.slope)), y.value))

    def reciprocal(self, x: _Dual) -> _Dual:
        inverse = self.b.reciprocal(x.value)
        return _Dual(inverse, self.b.neg(self.b.mul(self.b.mul(x.slope, inverse), inverse)))

    def exp(self, x: _Dual) -> _Dual:
        e = self.b.exp(x.value)
        return _Dual(e, self.b.mul(x.slope, e))

    def expm1(self, x: _Dual) -> _Dual:
        return _Dual(self.b.expm1(x.value), self.b.mul(x.slope, self.b.exp(x.value)))

    def log(self, x: _Dual) -> _Dual:
        return _Dual(self.b.log(x.value), self.b.div(x.slope, x.value))

    def log1p(self, x: _Dual) -> _Dual:
        return _Dual(self.b.log1p(x.value), self.b.div(x.slope, self.b.add(x.value, 1.0)))

    def sqrt(self, x: _Dual) -> _Dual:
        root = self.b.sqrt(x.value)
        return _Dual(root, self.b.div(self.b.mul(x.slope, 0.5), root))

    def round(self, x: _Dual) -> _Dual:
        return _Dual(self.b.round(x.value), self.b.mul(x.slope, 0.0))

    def where(self, condition: Any, x: _Dual, y: _Dual | float) -> _Dual:
        value, slope = (y.value, y.slope) if isinstance(y, _Dual) else (y, 0.0)
        return _Dual(self.b.where(condition, x.value, value), self.b.where(condition, x.slope, slope))

    def maximum(self, x: _Dual, y: _Dual | float) -> _Dual:
        return self.where(self.b.ge(x.value, _value(y)), x, y)

    def minimum(self, x: _Dual, y: _Dual | float) -> _Dual:
        return self.where(self.b.le(x.value, _value(y)), x, y)

    def clamp(self, x: _Dual, low: float, high: float) -> _Dual:
        return self.minimum(self.maximum(x, low), high)

    def eq(self, x: _Dual, y: _Dual | float) -> Any:
        return self.b.eq(x.value, _value(y))

    def lt(self, x: _Dual, y: _Dual | float) -> Any:
        return self.b.lt(x.value, _value(y))

    def le(self, x: _Dual, y: _Dual | float) -> Any:
        return self.b.le(x.value, _value(y))

    def gt(self, x: _Dual, y: _Dual | float) -> Any:
        return self.b.gt(x.value, _value(y))

    def ge(self, x: _Dual, y: _Dual | float) -> Any:
        return self.b.ge(x.value, _value(y))


def _value(y: _Dual | float) -> Any:
    return y.value if isinstance(y, _Dual) else y


def slope_of(b: Any, f: Callable[..., Any], x: Any, *rest: Any, order: int) -> Any:
    """Return the derivative of f(b, x, *rest) by x of an order.

    Args:
        b: the backend.
        f: an elementwise function of a backend that uses operations of `_Duals` alone.
        x: the parameter.
        rest: its other primitives, which are constants, and flags.
        order: the order of the derivative, 0 for the function itself.
    """
    if order == 0:
        return f(b, x, *rest)
    zero = b.full((), 0.0, x.dtype)
    constants = [v if isinstance(v, bool) else _Dual(v, zero) for v in rest]
    moving = _Dual(x, b.full((), 1.0, x.dtype))
    return slope_of(_Duals(b), f, moving, *constants, order=order - 1).slope
