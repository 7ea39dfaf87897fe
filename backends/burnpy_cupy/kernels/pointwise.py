"""Pointwise functions: elementwise kernels of single ones, and programs of formulas; and softmax, as programs of rows.

CuPy's own kernels have one element a thread, with less than half of the memory's speed. They compute complex arrays,
and functions of few uses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from burnpy.backend.dtypes import FLOATS, INTS, float32, installed, kind_of, nearest
from burnpy.backend.primitives import Dims, DType, Scalar, Shape
from burnpy.backend.programs import Extent, Instruction
from burnpy_array import ArrayBackend
from burnpy_array.array_base import NUMBERS, is_half
from burnpy_array.shape import is_positive_zero
from burnpy_cupy.kernels.elementwise_kernel import Elementwise, in_order_of
from burnpy_cupy.kernels.emitter import FUNCTIONS, expression
from burnpy_cupy.kernels.kernel import (
    CuPyPrograms,
    Kernels,
    along_method,
    broadcast_method,
    documented,
    elementwise_method,
)
from burnpy_cupy.kernels.launch import along
from burnpy_cupy.runtime import empty

_DIVISION = """
template <typename T> struct burnpy_wide { typedef float type; };
template <> struct burnpy_wide<double> { typedef double type; };
template <typename F> __device__ F burnpy_divmod(F a, F b, F& quotient) {
  F modulus = fmod(a, b);
  quotient = a / b;
  if (b == F(0)) return modulus;
  F exact = (a - modulus) / b;
  if (modulus == F(0)) modulus = copysign(F(0), b);
  else if ((b < F(0)) != (modulus < F(0))) modulus += b, exact -= F(1);
  if (exact == F(0)) quotient = copysign(F(0), quotient);
  else {
    quotient = floor(exact);
    if (exact - quotient > F(0.5)) quotient += F(1);
  }
  return modulus;
}
"""
"""NumPy's ``npy_divmod``. CuPy's own quotient is floor(x / y), which is 10 for 1.0 // 0.1, and 1 % inf is NaN."""

_DIVIDE = """
typedef burnpy_wide<T>::type F;
F quotient;
F modulus = burnpy_divmod(static_cast<F>(x), static_cast<F>(y), quotient);
"""
_F, _I, _B = installed(FLOATS), installed(INTS), installed(("bool",))
_NAMED = {
    **{name: name for name in ("atan2", "hypot", "copysign", "fmax", "fmin")},
    **{name: name for name in ("tan", "sinh", "cosh", "exp2", "log2", "log10", "trunc", "isnan", "isinf", "isfinite")},
    **{f"a{name}": f"a{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    "clamp_min": "maximum_of",
    "clamp_max": "minimum_of",
}
"""The functions of C++ of operations that are not instructions of programs."""
_FORMULAS = {"neg": "-x", "square": "x * x", "reciprocal": "F(1) / x", "bitwise_not": "x ^ static_cast<F>(T(-1))"}
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_TESTS = frozenset({*_COMPARISONS, "isnan", "isinf", "isfinite"})
"""Operations with results of bool."""
BINARY = {
    **dict.fromkeys(("add", "sub", "mul", "maximum", "minimum", "clamp_min", "clamp_max"), _F | _I),
    **dict.fromkeys(("div", "atan2", "hypot", "copysign", "fmax", "fmin"), _F),
    **dict.fromkeys(_COMPARISONS, _F | _I | _B),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor"), _I | _B),
}
"""The dtypes of the kernels of operations of two arguments; the second one may be a number."""
UNARY = {
    **dict.fromkeys(("neg", "sign", "square"), _F | _I),
    **dict.fromkeys(
        ("abs", "floor", "ceil", "round", "exp", "expm1", "log", "log1p", "sqrt", "sin", "cos", "tanh"), _F
    ),
    **dict.fromkeys(_NAMED.keys() - BINARY.keys(), _F),
    "reciprocal": _F,
    "bitwise_not": _I | _B,
}
"""The dtypes of the kernels of operations of one argument."""
_COMPUTED_TYPE = f"{FUNCTIONS}typedef decltype(+T()) F;\n"
"""A part of the preamble: the type in which values are computed, float32 for 16-bit floats."""


def _function(name: str, *parameters: str) -> Elementwise:
    """Return the kernel of an operation of x and of y, which may be a number."""
    args = ["x", "y"][: len(parameters)]
    if name in _NAMED:
        formula = f"{_NAMED[name]}({', '.join(args)})"
    else:
        step = Instruction(name, (), Extent.FULL, "float32", None)
        formula = _FORMULAS.get(name) or expression(step, args, ["float32"] * len(args))
    values = ", ".join([f"{arg} = static_cast<F>({arg}_)" for arg in args])
    kind = "bool" if name in _TESTS else "T"
    return Elementwise(
        ", ".join(parameters),
        f"{kind} z",
        f"const F {values}; z = static_cast<{kind}>({formula})",
        _COMPUTED_TYPE,
        True,
    )


_ROUNDED = range(1, 5)
"""The numbers of arrays that one kernel rounds to 16 bits."""
POINTWISE = {
    **{f"burnpy_{name}": _function(name, "T x_") for name in UNARY},
    **{f"burnpy_{name}": _function(name, "T x_", "T y_") for name in BINARY},
    **{f"burnpy_{name}_float": _function(name, "T x_", "float64 y_") for name in BINARY if _F & BINARY[name]},
    **{f"burnpy_{name}_int": _function(name, "T x_", "int64 y_") for name in BINARY if _I & BINARY[name]},
    "burnpy_where": Elementwise("bool condition, T x, T y", "T z", "z = condition ? x : y"),
    "burnpy_where_float": Elementwise("bool condition, T x, float64 y", "T z", "z = condition ? x : static_cast<T>(y)"),
    "burnpy_where_int": Elementwise("bool condition, T x, int64 y", "T z", "z = condition ? x : static_cast<T>(y)"),
    "burnpy_fill_float": Elementwise("float64 y", "T z", "z = static_cast<T>(y)"),
    "burnpy_fill_int": Elementwise("int64 y", "T z", "z = static_cast<T>(y)"),
    "burnpy_cast": Elementwise("T x", "Q y", "y = static_cast<Q>(+x)"),
    **{
        f"burnpy_round_{count}": Elementwise(
            ", ".join([f"T x{k}" for k in range(count)]),
            ", ".join([f"Q y{k}" for k in range(count)]),
            " ".join([f"y{k} = static_cast<Q>(+x{k});" for k in range(count)]),
        )
        for count in _ROUNDED
    },
    "burnpy_floor_divide": Elementwise("T x, T y", "T z", _DIVIDE + "z = static_cast<T>(quotient);", _DIVISION),
    "burnpy_remainder": Elementwise("T x, T y", "T z", _DIVIDE + "z = static_cast<T>(modulus);", _DIVISION),
    "burnpy_floor_divide_by": Elementwise(
        "T x, float64 y", "T z", _DIVIDE + "z = static_cast<T>(quotient);", _DIVISION
    ),
    "burnpy_remainder_by": Elementwise("T x, float64 y", "T z", _DIVIDE + "z = static_cast<T>(modulus);", _DIVISION),
}


_MOST_INT = (1 << 63) - 1
"""The largest number that a kernel gets as an int."""


def _number(y: Any, dtype: DType) -> tuple[str, Any] | None:
    """Return the kind of kernel for a number beside arrays, and the number as dtype has it; None if there is none."""
    if dtype in _F and type(y) is not complex:
        return "float", float(dtype.type(nearest(y, dtype))) if dtype.itemsize == 2 else float(y)
    if dtype in _I and type(y) is int and np.iinfo(dtype).min <= y <= min(np.iinfo(dtype).max, _MOST_INT):
        return "int", y
    return ("int", int(y)) if dtype in _B and type(y) is bool else None


def _binary(name: str) -> Callable[..., Any]:
    kernel, dtypes, default = f"burnpy_{name}", BINARY[name], getattr(ArrayBackend, name)

    def method(self: CuPyArithmetic, x: Any, y: Any) -> Any:
        if type(x) is type(y):
            if x.dtype is not y.dtype:
                x, y = self.promote(x, y)
            if x.dtype in dtypes:
                return self._call(self._kernels[kernel], x, y)
        elif x.dtype in dtypes and (number := _number(y, x.dtype)) is not None:
            return self._call(self._kernels[f"{kernel}_{number[0]}"], x, number[1])
        return default(self, x, y)

    return documented(method, name)


def _unary(name: str) -> Callable[..., Any]:
    kernel, dtypes, default = f"burnpy_{name}", UNARY[name], getattr(ArrayBackend, name)

    def method(self: CuPyArithmetic, x: Any) -> Any:
        return self._call(self._kernels[kernel], x) if x.dtype in dtypes else default(self, x)

    return documented(method, name)


class CuPyArithmetic(ArrayBackend):
    """Functions of one and of two arguments, selection, conversion and constants, in one launch each."""

    _kernels: Kernels

    add, sub, mul, div = map(_binary, ("add", "sub", "mul", "div"))
    maximum, minimum = _binary("maximum"), _binary("minimum")
    clamp_min, clamp_max = _binary("clamp_min"), _binary("clamp_max")
    eq, ne, lt, le, gt, ge = map(_binary, _COMPARISONS)
    bitwise_and, bitwise_or, bitwise_xor = map(_binary, ("bitwise_and", "bitwise_or", "bitwise_xor"))
    atan2, hypot, copysign = map(_binary, ("atan2", "hypot", "copysign"))
    fmax, fmin = _binary("fmax"), _binary("fmin")
    neg, abs, sign, square = map(_unary, ("neg", "abs", "sign", "square"))
    floor, ceil, round, trunc = map(_unary, ("floor", "ceil", "round", "trunc"))
    exp, expm1, exp2 = map(_unary, ("exp", "expm1", "exp2"))
    log, log1p, log2, log10 = map(_unary, ("log", "log1p", "log2", "log10"))
    sqrt, reciprocal, bitwise_not = map(_unary, ("sqrt", "reciprocal", "bitwise_not"))
    sin, cos, tan = map(_unary, ("sin", "cos", "tan"))
    sinh, cosh, tanh = map(_unary, ("sinh", "cosh", "tanh"))
    asin, acos, atan = map(_unary, ("asin", "acos", "atan"))
    asinh, acosh, atanh = map(_unary, ("asinh", "acosh", "atanh"))
    isnan, isinf, isfinite = map(_unary, ("isnan", "isinf", "isfinite"))

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        if type(y) in NUMBERS:
            number = _number(y, x.dtype)
            if number is None:
                return super().where(condition, x, y)
            return self._call(self._kernels[f"burnpy_where_{number[0]}"], condition, x, number[1])
        if x.dtype is not y.dtype:
            x, y = self.promote(x, y)
        return self._call(self._kernels["burnpy_where"], condition, x, y)

    def full(self, shape: Shape, value: Scalar, dtype: DType) -> Any:
        number = None if value == 0 and is_positive_zero(value) else _number(value, dtype)
        if number is None:
            return super().full(shape, value, dtype)
        return self._call(_filled, self, shape, number, dtype)

    def cast(self, x: Any, dtype: DType) -> Any:
        if x.dtype is dtype or "complex" in (kind_of(x.dtype), kind_of(dtype)):
            return super().cast(x, dtype)
        return self._call(self._converted, (x,), dtype)[0]

    def foreach_cast(self, xs: Sequence[Any], dtype: DType) -> list[Any]:
        shape = xs[0].shape if xs else ()
        if len(xs) in _ROUNDED and is_half(dtype) and all(x.shape == shape and x.dtype is float32 for x in xs):
            return self._call(self._converted, xs, dtype)  # type: ignore[no-any-return]  # as it returns them
        if not all(x._c_contiguous for x in xs):  # which would be copied first
            return [self.cast(x, dtype) for x in xs]
        return super().foreach_cast(xs, dtype)

    def _converted(self, xs: Sequence[Any], dtype: DType) -> list[Any]:
        """Return arrays of one shape and dtype in another, each in its own order of memory, from one launch."""
        outs = [in_order_of(self.xp, x, x.shape, dtype) for x in xs]
        self._kernels[f"burnpy_round_{len(xs)}" if is_half(dtype) else "burnpy_cast"](*xs, *outs)
        return outs


def _filled(b: CuPyArithmetic, shape: Shape, number: tuple[str, Any], dtype: DType) -> Any:
    return b._kernels[f"burnpy_fill_{number[0]}"](number[1], empty(b.xp, shape, dtype))


class CuPyActivation(CuPyPrograms):
    """Activation functions, and softmax along any dimension, in one launch each."""

    relu = elementwise_method("relu")
    sigmoid, gelu, silu = elementwise_method("sigmoid"), elementwise_method("gelu"), elementwise_method("silu")
    mish, hardswish = elementwise_method("mish"), elementwise_method("hardswish")
    softplus, leaky_relu = elementwise_method("softplus", numbers=1), elementwise_method("leaky_relu", numbers=1)
    relu_backward = elementwise_method("relu_backward", 2)
    gelu_backward, silu_backward = elementwise_method("gelu_backward", 2), elementwise_method("silu_backward", 2)
    softmax, softmax_backward = along_method("softmax"), along_method("softmax_backward", 2)
    log_softmax, log_softmax_backward = along_method("log_softmax"), along_method("log_softmax_backward", 2)

    def elu(self, x: Any, alpha: float, scale: float, input_scale: float) -> Any:
        numbers = alpha * scale, scale, input_scale
        out = self._pointwise("weighted_elu", ("full", *["scalar"] * 3), (x,), numbers)
        return super().elu(x, alpha, scale, input_scale) if out is None else out

    def logsumexp(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        geometry = along(x.shape, dims) if dims else None
        kernel = None if geometry is None else self._operation_kernel("logsumexp", ("full",), x.dtype, ((1,), True))
        if geometry is None or kernel is None:
            return super().logsumexp(x, dims, keepdim)
        shape = tuple([1 if d in dims else n for d, n in enumerate(x.shape) if keepdim or d not in dims])
        return self._call(kernel, [x], (), geometry, x.shape, shape)[0]


class CuPyPointwise(CuPyPrograms):
    """Special functions and clamping as programs, and functions that CuPy computes in another way than NumPy."""

    _kernels: Kernels

    rsqrt, sinc = elementwise_method("rsqrt"), elementwise_method("sinc")
    gamma_quantile_slope = elementwise_method("gamma_quantile_slope", 2, "slope_of_gamma_quantile")
    beta_quantile_slope = elementwise_method("beta_quantile_slope", 3, "slope_of_beta_quantile")
    betainc, betainc_density = elementwise_method("betainc", 3), elementwise_method("betainc_density", 3)
    lgamma, digamma = elementwise_method("lgamma"), elementwise_method("digamma")
    erfcx, erfcx_slope, ndtr = map(elementwise_method, ("erfcx", "erfcx_slope", "ndtr"))
    log_ndtr, normal_ratio, entr = map(elementwise_method, ("log_ndtr", "normal_ratio", "entr"))
    ndtri, ndtri_exp = map(elementwise_method, ("ndtri", "ndtri_exp"))
    i0, i0e, i1, i1e = map(elementwise_method, ("i0", "i0e", "i1", "i1e"))
    bessel_ratio = elementwise_method("bessel_ratio")
    zeta, xlog1py = map(broadcast_method, ("zeta", "xlog1py"))
    squared_difference = broadcast_method("squared_difference")
    igamma, igammac, igamma_density = map(broadcast_method, ("igamma", "igammac", "igamma_density"))

    def masked_scale(self, x: Any, mask: Any, scale: float) -> Any:
        out = self._pointwise("masked_scale", ("full", "mask_full", "scalar"), (x, mask), (scale,))
        return super().masked_scale(x, mask, scale) if out is None else out

    def clamp(self, x: Any, low: Scalar | None, high: Scalar | None) -> Any:
        out = None
        if low is not None and high is not None:  # as numbers, which may change
            out = self._pointwise("clamped", ("full", "scalar", "scalar"), (x,), (low, high))
        return super().clamp(x, low, high) if out is None else out

    def _erf(self, x: Any) -> Any:
        return import_module("cupyx.scipy.special").erf(x)

    def erfc(self, x: Any) -> Any:
        return self._special("erfc", x)

    def erfinv(self, x: Any) -> Any:
        return self._special("erfinv", x)

    def _special(self, name: str, x: Any) -> Any:
        """Return a special function that CuPy has as one kernel; 16-bit floats are computed in float32."""
        function = getattr(import_module("cupyx.scipy.special"), name)
        if is_half(x.dtype):
            return self.cast(self._call(function, self.cast(x, float32)), x.dtype)
        return self._call(function, x)

    def floor_divide(self, x: Any, y: Any) -> Any:
        return self._divided("floor_divide", x, y) if kind_of(x.dtype) == "float" else super().floor_divide(x, y)

    def remainder(self, x: Any, y: Any) -> Any:
        return self._divided("remainder", x, y) if kind_of(x.dtype) == "float" else super().remainder(x, y)

    def _divided(self, operation: str, x: Any, y: Any) -> Any:
        name = f"burnpy_{operation}"
        if type(y) in NUMBERS:
            name, y = f"{name}_by", float(x.dtype.type(y))
        elif x.dtype is not y.dtype:
            x, y = self.promote(x, y)
        return self._call(self._kernels[name], x, y)
