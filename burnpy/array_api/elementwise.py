"""Elementwise functions: a table of names, each a method of tensors for arrays of some kinds.

`unary` and `binary` make a function whose signature is the standard's. A method of the same name is left out.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from burnpy.array_api.data_types import (
    ALL,
    BITS,
    BOOL,
    COMPLEX,
    FLOAT,
    FLOATING,
    INTEGERS,
    NUMERIC,
    REAL,
    Kinds,
    array,
    arrays,
    standard,
)
from burnpy.backend.dtypes import bool_
from burnpy.tensor.complex_numbers_lazy import complex as join
from burnpy.tensor.tensor import BoolTensor
from burnpy.tensor.tensor_base import TensorBase

A = TypeVar("A", bound=TensorBase[Any])


class Unary(Protocol):
    """A function of an array with a result of its kind."""

    def __call__(self, x: A, /) -> A:
        """Call it."""
        ...


class Predicate(Protocol):
    """A function of an array with a bool result."""

    def __call__(self, x: TensorBase[Any], /) -> BoolTensor[Any]:
        """Call it."""
        ...


class Binary(Protocol):
    """A function of two arrays, or of an array and a number, that broadcast and promote."""

    def __call__(self, x1: Any, x2: Any, /) -> Any:
        """Call it."""
        ...


class Comparison(Protocol):
    """A function of two arrays, or of an array and a number, with a bool result."""

    def __call__(self, x1: Any, x2: Any, /) -> BoolTensor[Any]:
        """Call it."""
        ...


def unary(name: str, kinds: Kinds, method: str | None = None, *, of_complex: str | None = None) -> Any:
    """Make a function of one array; ``of_complex`` is the method of complex tensors if it is another."""

    def function(x: Any, /) -> Any:
        own = of_complex if array(x, kinds).kind == "complex" else None
        return getattr(x, own or method or name)()

    return _named(function, name, method or name, kinds)


def binary(name: str, kinds: Kinds, method: str | None = None) -> Any:
    """Make a function of two arrays."""

    def function(x1: Any, x2: Any, /) -> Any:
        first, second = arrays(x1, x2, kinds=kinds)
        return getattr(first, method or name)(second)

    return _named(function, name, method or name, kinds)


def _named(function: Any, name: str, method: str, kinds: Kinds) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Compute `{method}` of each element; for arrays of kind {', '.join(kinds)}."
    return standard(function)


acos: Unary = unary("acos", FLOATING)
acosh: Unary = unary("acosh", FLOATING)
asin: Unary = unary("asin", FLOATING)
asinh: Unary = unary("asinh", FLOATING)
atan: Unary = unary("atan", FLOATING)
atanh: Unary = unary("atanh", FLOATING)
cos: Unary = unary("cos", FLOATING)
cosh: Unary = unary("cosh", FLOATING)
exp: Unary = unary("exp", FLOATING)
expm1: Unary = unary("expm1", FLOATING)
log: Unary = unary("log", FLOATING)
log1p: Unary = unary("log1p", FLOATING)
log2: Unary = unary("log2", FLOATING)
log10: Unary = unary("log10", FLOATING)
reciprocal: Unary = unary("reciprocal", FLOATING)
sin: Unary = unary("sin", FLOATING)
sinh: Unary = unary("sinh", FLOATING)
sqrt: Unary = unary("sqrt", FLOATING)
tan: Unary = unary("tan", FLOATING)
tanh: Unary = unary("tanh", FLOATING)
abs: Unary = unary("abs", NUMERIC)
negative: Unary = unary("negative", NUMERIC, "neg")
positive: Unary = unary("positive", NUMERIC, "__pos__")
sign: Unary = unary("sign", NUMERIC, of_complex="sgn")
square: Unary = unary("square", NUMERIC)
bitwise_invert: Unary = unary("bitwise_invert", BITS, "bitwise_not")

signbit: Predicate = unary("signbit", FLOAT)
logical_not: Predicate = unary("logical_not", BOOL)

atan2: Binary = binary("atan2", FLOAT)
copysign: Binary = binary("copysign", FLOAT)
divide: Binary = binary("divide", FLOATING, "div")
hypot: Binary = binary("hypot", FLOAT)
logaddexp: Binary = binary("logaddexp", FLOAT)
nextafter: Binary = binary("nextafter", FLOAT)
add: Binary = binary("add", NUMERIC)
floor_divide: Binary = binary("floor_divide", REAL)
maximum: Binary = binary("maximum", REAL)
minimum: Binary = binary("minimum", REAL)
multiply: Binary = binary("multiply", NUMERIC, "mul")
pow: Binary = binary("pow", NUMERIC)
remainder: Binary = binary("remainder", REAL)
subtract: Binary = binary("subtract", NUMERIC, "sub")
bitwise_left_shift: Binary = binary("bitwise_left_shift", INTEGERS)
bitwise_right_shift: Binary = binary("bitwise_right_shift", INTEGERS)
bitwise_and: Binary = binary("bitwise_and", BITS)
bitwise_or: Binary = binary("bitwise_or", BITS)
bitwise_xor: Binary = binary("bitwise_xor", BITS)

equal: Comparison = binary("equal", ALL, "eq")
not_equal: Comparison = binary("not_equal", ALL, "ne")
greater: Comparison = binary("greater", REAL, "gt")
greater_equal: Comparison = binary("greater_equal", REAL, "ge")
less: Comparison = binary("less", REAL, "lt")
less_equal: Comparison = binary("less_equal", REAL, "le")


def _logical(name: str) -> Any:
    """Make a function of two truth values; numbers, which scikit-learn passes too, are true unless they are 0."""

    def function(x1: Any, x2: Any, /) -> Any:
        first, second = (x.bool() for x in arrays(x1, x2))
        return getattr(first, name)(second)

    return _named(function, name, name, ALL)


logical_and: Comparison = _logical("logical_and")
logical_or: Comparison = _logical("logical_or")
logical_xor: Comparison = _logical("logical_xor")


def _rounding(name: str) -> Any:
    """Make a function that rounds floats; ints are whole already."""

    def function(x: Any, /) -> Any:
        return x if array(x, REAL).kind == "int" else getattr(x, name)()

    return _named(function, name, name, REAL)


def _of_floats(name: str, of_int: bool) -> Any:
    """Make a predicate of floats, which has the same value for every int."""

    def function(x: Any, /) -> Any:
        x = array(x, NUMERIC)
        return getattr(x, name)() if x.kind in FLOATING else x._bool(x._backend.full(x.shape, of_int, bool_))

    return _named(function, name, name, NUMERIC)


ceil: Unary = _rounding("ceil")
floor: Unary = _rounding("floor")
trunc: Unary = _rounding("trunc")

isfinite: Predicate = _of_floats("isfinite", True)
isinf: Predicate = _of_floats("isinf", False)
isnan: Predicate = _of_floats("isnan", False)


@standard
def round(x: Any, /) -> Any:
    """Round to the nearest whole number, halves to even ones; both parts of complex numbers."""
    if array(x, NUMERIC).kind == "complex":
        return join(x.real.round(), x.imag.round())
    return x if x.kind == "int" else x.round()


@standard
def clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    """Limit the elements to a range; the bounds are numbers or arrays, and one or both may be None."""
    bounds = {name: bound for name, bound in (("min", min), ("max", max)) if bound is not None}
    first, *others = arrays(array(x, REAL), *bounds.values(), kinds=REAL)
    return first.clamp(**dict(zip(bounds, others, strict=True))) if bounds else first


@standard
def real(x: Any, /) -> Any:
    """Return the real part of a complex array; a real array itself."""
    return x.real if array(x, NUMERIC).kind == "complex" else x


@standard
def conj(x: Any, /) -> Any:
    """Return the complex conjugate of a complex array; a real array itself."""
    return x.conj() if array(x, NUMERIC).kind == "complex" else x


@standard
def imag(x: Any, /) -> Any:
    """Return the imaginary part of a complex array; real arrays have none.

    Raises:
        KindError: the array is real.
    """
    return array(x, COMPLEX).imag
