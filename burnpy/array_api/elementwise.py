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
    INTEGERS,
    NUMERIC,
    Kinds,
    array,
    arrays,
    standard,
)
from burnpy.backend.dtypes import bool_
from burnpy.backend.errors import KindError
from burnpy.tensor.tensor import BoolTensor
from burnpy.tensor.tensor_base import TensorBase, describe

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


def unary(name: str, kinds: Kinds, method: str | None = None) -> Any:
    """Make a function of one array."""

    def function(x: Any, /) -> Any:
        return getattr(array(x, kinds), method or name)()

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


acos: Unary = unary("acos", FLOAT)
acosh: Unary = unary("acosh", FLOAT)
asin: Unary = unary("asin", FLOAT)
asinh: Unary = unary("asinh", FLOAT)
atan: Unary = unary("atan", FLOAT)
atanh: Unary = unary("atanh", FLOAT)
cos: Unary = unary("cos", FLOAT)
cosh: Unary = unary("cosh", FLOAT)
exp: Unary = unary("exp", FLOAT)
expm1: Unary = unary("expm1", FLOAT)
log: Unary = unary("log", FLOAT)
log1p: Unary = unary("log1p", FLOAT)
log2: Unary = unary("log2", FLOAT)
log10: Unary = unary("log10", FLOAT)
reciprocal: Unary = unary("reciprocal", FLOAT)
sin: Unary = unary("sin", FLOAT)
sinh: Unary = unary("sinh", FLOAT)
sqrt: Unary = unary("sqrt", FLOAT)
tan: Unary = unary("tan", FLOAT)
tanh: Unary = unary("tanh", FLOAT)
abs: Unary = unary("abs", NUMERIC)
negative: Unary = unary("negative", NUMERIC, "neg")
positive: Unary = unary("positive", NUMERIC, "__pos__")
sign: Unary = unary("sign", NUMERIC)
square: Unary = unary("square", NUMERIC)
bitwise_invert: Unary = unary("bitwise_invert", BITS, "bitwise_not")

signbit: Predicate = unary("signbit", FLOAT)
logical_not: Predicate = unary("logical_not", BOOL)

atan2: Binary = binary("atan2", FLOAT)
copysign: Binary = binary("copysign", FLOAT)
divide: Binary = binary("divide", FLOAT, "div")
hypot: Binary = binary("hypot", FLOAT)
logaddexp: Binary = binary("logaddexp", FLOAT)
nextafter: Binary = binary("nextafter", FLOAT)
add: Binary = binary("add", NUMERIC)
floor_divide: Binary = binary("floor_divide", NUMERIC)
maximum: Binary = binary("maximum", NUMERIC)
minimum: Binary = binary("minimum", NUMERIC)
multiply: Binary = binary("multiply", NUMERIC, "mul")
pow: Binary = binary("pow", NUMERIC)
remainder: Binary = binary("remainder", NUMERIC)
subtract: Binary = binary("subtract", NUMERIC, "sub")
bitwise_left_shift: Binary = binary("bitwise_left_shift", INTEGERS)
bitwise_right_shift: Binary = binary("bitwise_right_shift", INTEGERS)
bitwise_and: Binary = binary("bitwise_and", BITS)
bitwise_or: Binary = binary("bitwise_or", BITS)
bitwise_xor: Binary = binary("bitwise_xor", BITS)

equal: Comparison = binary("equal", ALL, "eq")
not_equal: Comparison = binary("not_equal", ALL, "ne")
greater: Comparison = binary("greater", NUMERIC, "gt")
greater_equal: Comparison = binary("greater_equal", NUMERIC, "ge")
less: Comparison = binary("less", NUMERIC, "lt")
less_equal: Comparison = binary("less_equal", NUMERIC, "le")


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
        return x if array(x, NUMERIC).kind == "int" else getattr(x, name)()

    return _named(function, name, name, NUMERIC)


def _of_floats(name: str, of_int: bool) -> Any:
    """Make a predicate of floats, which has the same value for every int."""

    def function(x: Any, /) -> Any:
        x = array(x, NUMERIC)
        return getattr(x, name)() if x.kind == "float" else x._bool(x._backend.full(x.shape, of_int, bool_))

    return _named(function, name, name, NUMERIC)


ceil: Unary = _rounding("ceil")
floor: Unary = _rounding("floor")
round: Unary = _rounding("round")
trunc: Unary = _rounding("trunc")

isfinite: Predicate = _of_floats("isfinite", True)
isinf: Predicate = _of_floats("isinf", False)
isnan: Predicate = _of_floats("isnan", False)


@standard
def clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    """Limit the elements to a range; the bounds are numbers or arrays, and one or both may be None."""
    bounds = {name: bound for name, bound in (("min", min), ("max", max)) if bound is not None}
    first, *others = arrays(array(x, NUMERIC), *bounds.values(), kinds=NUMERIC)
    return first.clamp(**dict(zip(bounds, others, strict=True))) if bounds else first


@standard
def real(x: Any, /) -> Any:
    """Return the real part of a complex tensor; a real array itself."""
    return x.real if hasattr(x, "imag") else array(x, NUMERIC)


@standard
def conj(x: Any, /) -> Any:
    """Return the complex conjugate of a complex tensor; a real array itself."""
    return x.conj() if hasattr(x, "imag") else array(x, NUMERIC)


@standard
def imag(x: Any, /) -> Any:
    """Return the imaginary part of a `burnpy.fft.ComplexTensor`; real arrays have none.

    Raises:
        KindError: the array is real.
    """
    if not hasattr(x, "imag"):
        raise KindError(f"array() takes a complex array, got {describe(x)}; {COMPLEX}")
    return x.imag
