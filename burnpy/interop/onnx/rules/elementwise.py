"""Rules of elementwise operations and of conversions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burnpy.backend.dtypes import int32, int64
from burnpy.backend.primitives import DType
from burnpy.interop.onnx.rules.rule import GraphWriter, Operand, common_dtype, is_float, only


def not_equal(g: GraphWriter, x: Operand, y: Any) -> Any:
    """Write ``x != y``."""
    dtype = common_dtype(x, y)
    return g.node("Not", g.node("Equal", g.cast(x, dtype), g.cast(y, dtype)))


def logical(kind: str) -> Callable[..., Any]:
    """Return the rule of an operation of bools or of the bits of ints."""

    def rule(g: GraphWriter, *operands: Any) -> Any:
        dtype = common_dtype(*operands)
        return g.node(kind if dtype.kind == "b" else f"Bitwise{kind}", *[g.cast(x, dtype) for x in operands])

    return rule


and_, or_, xor, not_ = logical("And"), logical("Or"), logical("Xor"), logical("Not")


def where(g: GraphWriter, condition: Operand, x: Operand, y: Any) -> Any:
    """Write the selection of elements; runtimes lack a Where of bools."""
    if x.dtype.kind != "b":
        return g.node("Where", condition, x, g.cast(y, x.dtype))
    other = g.node("And", g.node("Not", condition), g.cast(y, x.dtype))
    return g.node("Or", g.node("And", condition, x), other)


@only(when=lambda x, low, high: low is not None and high is not None)
def clamp(g: GraphWriter, x: Operand, low: Any, high: Any) -> Any:
    """Write a Clip with both bounds; it keeps NaN."""
    return g.node("Clip", x, g.constant(low, x.dtype), g.constant(high, x.dtype))


def rounding(kind: str) -> Callable[..., Any]:
    """Return the rule of a rounding, which ints do not need."""
    return lambda g, x: g.node(kind, x) if is_float(x.dtype) else x


floor, ceil, round_ = rounding("Floor"), rounding("Ceil"), rounding("Round")


def ordering(kind: str) -> Callable[..., Any]:
    """Return the rule of a comparison by size; bools are compared as ints."""

    def rule(g: GraphWriter, x: Operand, y: Any) -> Any:
        dtype = common_dtype(x, y)
        dtype = int32 if dtype.kind == "b" else dtype
        return g.node(kind, g.cast(x, dtype), g.cast(y, dtype))

    return rule


less, less_equal = ordering("Less"), ordering("LessOrEqual")
greater, greater_equal = ordering("Greater"), ordering("GreaterOrEqual")


def expm1(g: GraphWriter, x: Operand) -> Any:
    """Write exp(x) - 1 without cancellation, as (u - 1) · x / log(u) for u = exp(x).

    Source: Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 1.14.1.
    """
    one, u = g.constant(1.0, x.dtype), g.node("Exp", x)
    difference = g.node("Sub", u, one)
    exact = g.node("Div", g.node("Mul", difference, x), g.node("Log", u))
    limit = g.node("Or", g.node("Equal", difference, g.constant(-1.0, x.dtype)), g.node("IsInf", u))
    out = g.node("Where", limit, difference, exact)
    return g.node("Where", g.node("Equal", u, one), x, out)


def log1p(g: GraphWriter, x: Operand) -> Any:
    """Write log(1 + x) without cancellation, as log(u) · x / (u - 1) for u = 1 + x.

    Source: Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 1.14.1.
    """
    one = g.constant(1.0, x.dtype)
    u = g.node("Add", x, one)
    logarithm = g.node("Log", u)
    exact = g.node("Div", g.node("Mul", logarithm, x), g.node("Sub", u, one))
    out = g.node("Where", g.node("IsInf", u), logarithm, exact)
    return g.node("Where", g.node("Equal", u, one), x, out)


def remainder(g: GraphWriter, x: Operand, y: Any) -> Any:
    """Write the remainder with the sign of y."""
    dtype = common_dtype(x, y)
    a, b = g.cast(x, dtype), g.cast(y, dtype)
    if not is_float(dtype):
        return g.node("Mod", a, b)
    zero = g.constant(0.0, dtype)
    rest = g.node("Mod", a, b, fmod=1)
    other = g.node("Xor", g.node("Less", rest, zero), g.node("Less", b, zero))
    moved = g.node("And", other, g.node("Not", g.node("Equal", rest, zero)))
    return g.node("Where", moved, g.node("Add", rest, b), rest)


def floor_divide(g: GraphWriter, x: Operand, y: Any) -> Any:
    """Write the rounded quotient (x - remainder) / y, which is exact but for the rounding of floats."""
    dtype = common_dtype(x, y)
    if dtype.kind in "iu" and dtype.itemsize <= 2:  # runtimes divide no small ints
        wide = [Operand(g.cast(z, int64), (), int64) if isinstance(z, Operand) else z for z in (x, y)]
        return g.node("Cast", floor_divide(g, wide[0], wide[1]), to=dtype)
    quotient = g.node("Div", g.node("Sub", g.cast(x, dtype), remainder(g, x, y)), g.cast(y, dtype))
    return g.node("Round", quotient) if is_float(dtype) else quotient


@only(since=20)
def gelu(g: GraphWriter, x: Operand, approximate: bool) -> Any:
    """Write Gelu."""
    return g.node("Gelu", x, approximate="tanh" if approximate else "none")


def cast(g: GraphWriter, x: Operand, dtype: DType) -> Any:
    """Write a conversion of dtypes."""
    return g.cast(x, dtype)


def to_bool(g: GraphWriter, x: Operand) -> Any:
    """Write the test for a number that is not zero."""
    return g.node("Not", g.node("Equal", x, g.constant(0, x.dtype)))
