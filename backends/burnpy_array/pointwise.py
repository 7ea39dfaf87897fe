"""Pointwise operations: arithmetic, comparisons, functions of one and two arguments, complex parts, and formulas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from burnpy.backend.backend import Backend
from burnpy.backend.dtypes import complex_dtype, float32, float64, kind_of
from burnpy.backend.errors import ArgumentError
from burnpy.backend.functions import copy_function
from burnpy.backend.operations.programs import Formula
from burnpy_array.array_base import NUMBERS, ArrayBase, is_half

UNARY = {
    **{name: name for name in ("sign", "floor", "ceil", "exp", "expm1", "log", "log1p", "sqrt", "sin", "cos", "tanh")},
    **{name: name for name in ("tan", "sinh", "cosh", "exp2", "log2", "log10", "trunc")},
    **{f"a{name}": f"arc{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    "neg": "negative",
    "abs": "absolute",
    "round": "rint",
    "bitwise_not": "invert",
    "square": "square",
    "isnan": "isnan",
    "isinf": "isinf",
    "isfinite": "isfinite",
    "conj": "conjugate",
    "complex_abs": "absolute",
    "angle": "angle",
}
"""Operations of one argument that are one function of the array module: burnpy's name to the module's."""
BINARY = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "div": "divide",
    "maximum": "maximum",
    "minimum": "minimum",
    "clamp_min": "maximum",
    "clamp_max": "minimum",
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    **{name: name for name in ("bitwise_and", "bitwise_or", "bitwise_xor")},
    **{name: name for name in ("hypot", "copysign", "fmax", "fmin", "nextafter", "gcd", "lcm")},
    **{name: name for name in ("logaddexp", "logaddexp2")},
    "atan2": "arctan2",
}
"""Operations of two arguments that are one function of the array module: burnpy's name to the module's."""


def _unary(self: Any, x: Any) -> Any:
    return self._call(self.xp.FUNCTION, x)


def _binary(self: Any, x: Any, y: Any) -> Any:
    if type(x) is type(y) and x.dtype is y.dtype:
        return self._call(self.xp.FUNCTION, x, y)
    return self._binary(self.xp.FUNCTION, x, y)


def unary(name: str) -> Callable[..., Any]:
    """Return the method of an operation in `UNARY`."""
    return method_from_template(_unary, name, {"FUNCTION": UNARY[name]})


def binary(name: str) -> Callable[..., Any]:
    """Return the method of an operation in `BINARY`."""
    return method_from_template(_binary, name, {"FUNCTION": BINARY[name]})


def method_from_template(
    template: Callable[..., Any], name: str, words: Mapping[str, str], namespace: dict[str, Any] | None = None
) -> Callable[..., Any]:
    """Return the method that a template makes for an operation, with the operation's docstring: see `copy_function`."""
    method: Callable[..., Any] = copy_function(template, name, words, namespace)
    method.__doc__ = getattr(Backend, name).__doc__
    return method


class ArrayArithmetic(ArrayBase):
    """Operations of two arguments."""

    add, sub, mul, div = binary("add"), binary("sub"), binary("mul"), binary("div")
    maximum, minimum = binary("maximum"), binary("minimum")
    clamp_min, clamp_max = binary("clamp_min"), binary("clamp_max")
    eq, ne, lt, le, gt, ge = binary("eq"), binary("ne"), binary("lt"), binary("le"), binary("gt"), binary("ge")
    bitwise_and, bitwise_or, bitwise_xor = binary("bitwise_and"), binary("bitwise_or"), binary("bitwise_xor")

    def pow(self, x: Any, y: Any) -> Any:
        if type(y) in NUMBERS:
            if kind_of(x.dtype) == "int":
                if y < 0:
                    raise negative_power(x)
            elif y in POWERS and not is_half(x.dtype):  # a product of 16-bit floats would be rounded more than once
                return POWERS[y](self, x)
        else:
            self._check_exponent(x, y)
        return self._binary(self.xp.power, x, y)

    def floor_divide(self, x: Any, y: Any) -> Any:
        self._check_divisor(x, y, "floor_divide")
        return self._binary(self.xp.floor_divide, x, y)

    def remainder(self, x: Any, y: Any) -> Any:
        self._check_divisor(x, y, "remainder")
        return self._binary(self.xp.remainder, x, y)

    def _check_exponent(self, x: Any, y: Any) -> None:
        """Raise an error for a negative exponent of ints, if the backend can read an array without waiting for it."""

    def _check_divisor(self, x: Any, y: Any, operation: str) -> None:
        """Raise an error for a zero divisor of ints; in an array only if the backend can read it without waiting."""
        if type(y) in NUMBERS and y == 0 and kind_of(x.dtype) == "int":
            raise division_by_zero(operation, x)

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        if type(y) in NUMBERS:
            y = self._number(bool(y) if x.dtype.kind == "b" else y, x.dtype)
        return self._call(self.xp.where, condition, x, y)


def division_by_zero(operation: str, x: Any) -> ArgumentError:
    """Return the error for dividing an int primitive by zero."""
    words = {"floor_divide": "integer division"}  # of the operators, and of div() that rounds
    return ArgumentError(
        f"{words.get(operation, operation)} of {x.dtype} divides by zero; ints have no infinity: convert to float "
        "first, or replace the zeros of the divisor"
    )


def negative_power(x: Any) -> ArgumentError:
    """Return the error for raising an int primitive to a negative power."""
    return ArgumentError(f"pow of {x.dtype} with a negative exponent has no int result; convert to float first")


POWERS: dict[float, Callable[[Any, Any], Any]] = {
    1: lambda b, x: b._call(x.copy),
    2: lambda b, x: b.square(x),
    3: lambda b, x: b.mul(b.square(x), x),
    4: lambda b, x: b.square(b.square(x)),
    -1: lambda b, x: b.reciprocal(x),
    -2: lambda b, x: b.reciprocal(b.square(x)),
    0.5: lambda b, x: b.sqrt(x),
    -0.5: lambda b, x: b.rsqrt(x),
}
"""Powers computed as products, quotients and roots. A general power of negative numbers takes 60 ns per element."""


class ArrayUnary(ArrayBase):
    """Operations of one argument."""

    neg, abs, sign = unary("neg"), unary("abs"), unary("sign")
    floor, ceil, round = unary("floor"), unary("ceil"), unary("round")
    exp, expm1, log, log1p = unary("exp"), unary("expm1"), unary("log"), unary("log1p")
    sqrt, sin, cos, tanh = unary("sqrt"), unary("sin"), unary("cos"), unary("tanh")
    square, bitwise_not = unary("square"), unary("bitwise_not")
    isnan, isinf, isfinite = unary("isnan"), unary("isinf"), unary("isfinite")

    def reciprocal(self, x: Any) -> Any:
        return self._call(self.xp.reciprocal, x)

    def rsqrt(self, x: Any) -> Any:
        return self.reciprocal(self.sqrt(x))

    def masked_scale(self, x: Any, mask: Any, scale: float) -> Any:
        out = self.where(mask, x, 0.0)
        return (
            self.mul(out, scale)
            if x.shape == ()
            else self._call(self.xp.multiply, out, self._number(scale, x.dtype), out)
        )

    def sigmoid(self, x: Any) -> Any:
        if is_half(x.dtype):
            return self.cast(self._call(sigmoid, self.xp, self.cast(x, float32)), x.dtype)
        return self._call(sigmoid, self.xp, x)

    def erf(self, x: Any) -> Any:
        if is_half(x.dtype):
            return self.cast(self._call(self._erf, self.cast(x, float32)), x.dtype)
        return self._call(self._erf, x)


def sigmoid(xp: Any, x: Any, out: Any = None) -> Any:
    """Return 1 / (1 + exp(-x)), of negative x as exp(x) / (1 + exp(x)): no overflow, and exact to a few roundings.

    The result is in ``out`` if that is given: an array of the shape and dtype of x, which has other memory.
    """
    e = xp.asarray(xp.absolute(x, out=out))  # of 0-d x it may be a NumPy scalar, which is immutable
    xp.negative(e, e)
    xp.exp(e, e)
    top = xp.maximum(e, xp.greater_equal(x, 0))  # 1 in place of exp(-x), which is at most 1
    xp.add(e, 1.0, e)
    return xp.divide(top, e, e)


class ArrayComplex(ArrayBase):
    """Complex arrays and their parts, which are views."""

    conj, complex_abs, angle = unary("conj"), unary("complex_abs"), unary("angle")

    def complex(self, real: Any, imag: Any) -> Any:
        return self._call(_joined, self.xp, real, imag)

    def real(self, z: Any) -> Any:
        return z.real

    def imag(self, z: Any) -> Any:
        return z.imag


def _joined(xp: Any, real: Any, imag: Any) -> Any:
    out = xp.empty(real.shape, complex_dtype(real.dtype))
    out.real[...] = real
    out.imag[...] = imag
    return out


class ArrayElementary(ArrayBase):
    """Elementary functions of one argument and of two."""

    tan, asin, acos, atan = unary("tan"), unary("asin"), unary("acos"), unary("atan")
    sinh, cosh = unary("sinh"), unary("cosh")
    asinh, acosh, atanh = unary("asinh"), unary("acosh"), unary("atanh")
    exp2, log2, log10, trunc = unary("exp2"), unary("log2"), unary("log10"), unary("trunc")
    atan2, hypot, copysign = binary("atan2"), binary("hypot"), binary("copysign")
    fmax, fmin, nextafter = binary("fmax"), binary("fmin"), binary("nextafter")
    logaddexp, logaddexp2 = binary("logaddexp"), binary("logaddexp2")
    gcd, lcm = binary("gcd"), binary("lcm")

    def signbit(self, x: Any) -> Any:
        return self._call(self.xp.signbit, x) if kind_of(x.dtype) == "float" else self.lt(x, 0)

    def fmod(self, x: Any, y: Any) -> Any:
        self._check_divisor(x, y, "fmod")
        return self._binary(self.xp.fmod, x, y)


LEAST = 2048
"""The least number of elements for which one pass takes less time than several short ones."""


class ArrayFused(ArrayBase):
    """Formulas in one pass over the memory, which a backend may compile, where arrays are large and alike."""

    def fused(self, formula: Formula, xs: Sequence[Any], numbers: tuple[float, ...] = ()) -> tuple[Any, ...]:
        if not self.fuses(xs):
            return formula(self, *xs, *numbers)
        from burnpy.backend.programs.trace import run_formula  # not imported before the first large array

        return run_formula(self, formula, xs, numbers)

    def fuses(self, xs: Sequence[Any]) -> bool:
        return bool(xs[0].size >= LEAST and alike(xs))


def alike(xs: Sequence[Any]) -> bool:
    """Return whether arrays are of one shape and of one dtype that kernels have."""
    x = xs[0]
    shape, dtype = x.shape, x.dtype
    return (dtype is float32 or dtype is float64) and all(y.shape == shape and y.dtype is dtype for y in xs[1:])
