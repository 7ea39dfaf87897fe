"""Pointwise functions: programs, and functions that CuPy computes in another way than NumPy or not for every dtype; and
softmax, as programs of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from burnpy.backend.dtypes import float32, float64, kind_of, uint16
from burnpy.backend.primitives import Dims, DType, Scalar
from burnpy_array import ArrayBackend
from burnpy_array.array_base import NUMBERS, is_half
from burnpy_cupy.kernels.elementwise import Elementwise, in_order_of
from burnpy_cupy.kernels.kernel import (
    CuPyPrograms,
    Kernels,
    along_method,
    broadcast_method,
    documented,
    elementwise_method,
)
from burnpy_cupy.kernels.launch import along, flat

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
_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_WIDE = (float32, float64)
_CASTS = range(1, 5)
"""The numbers of arrays that one kernel rounds."""
POINTWISE = {
    **{f"burnpy_{name}": Elementwise("T x, T y", "T z", f"z = x {sign} y") for name, sign in _OPERATORS.items()},
    **{
        f"burnpy_round_{count}": Elementwise(
            ", ".join([f"T x{k}" for k in range(count)]),
            ", ".join([f"Q y{k}" for k in range(count)]),
            " ".join([f"y{k} = static_cast<Q>(x{k});" for k in range(count)]),
        )
        for count in _CASTS
    },
    "burnpy_floor_divide": Elementwise("T x, T y", "T z", _DIVIDE + "z = static_cast<T>(quotient);", _DIVISION),
    "burnpy_remainder": Elementwise("T x, T y", "T z", _DIVIDE + "z = static_cast<T>(modulus);", _DIVISION),
    "burnpy_floor_divide_by": Elementwise(
        "T x, float64 y", "T z", _DIVIDE + "z = static_cast<T>(quotient);", _DIVISION
    ),
    "burnpy_remainder_by": Elementwise("T x, float64 y", "T z", _DIVIDE + "z = static_cast<T>(modulus);", _DIVISION),
}


def _operator(name: str) -> Callable[..., Any]:
    """Return the method of an operator: for contiguous arrays a kernel of our own, whose launch takes less time."""
    kernel = f"burnpy_{name}"

    def method(self: CuPyPointwise, x: Any, y: Any) -> Any:
        alike = type(x) is type(y) and x.dtype is y.dtype and x.dtype in _WIDE and x.shape == y.shape
        if alike and x._c_contiguous and y._c_contiguous:
            return self._call(self._kernels[kernel], x, y)
        return getattr(ArrayBackend, name)(self, x, y)

    return documented(method, name)


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
        kernel = self._elementwise_kernel("weighted_elu", (x,), (), 3)
        if kernel is None:
            return super().elu(x, alpha, scale, input_scale)
        return self._call(kernel, [x], (alpha * scale, scale, input_scale), flat(x.size), x.shape, ())[0]

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

    add, sub, mul, div = map(_operator, _OPERATORS)
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
        kernel = None
        if x.size and x.shape == mask.shape:
            kernel = self._operation_kernel("masked_scale", ("full", "mask_full", "scalar"), x.dtype)
        if kernel is None:
            return super().masked_scale(x, mask, scale)
        return self._call(kernel, [x, mask], (scale,), flat(x.size), x.shape, ())[0]

    def clamp(self, x: Any, low: Scalar | None, high: Scalar | None) -> Any:
        kernel = None
        if x.size and low is not None and high is not None and kind_of(x.dtype) == "float":
            kernel = self._operation_kernel(
                "clamped", ("full", "scalar", "scalar"), x.dtype
            )  # as the bounds may change
        if kernel is None:
            return super().clamp(x, low, high)
        return self._call(kernel, [x], (low, high), flat(x.size), x.shape, ())[0]

    def cast(self, x: Any, dtype: DType) -> Any:
        if x.dtype is float32 and is_half(dtype):
            return self._call(self._rounded, (x,), dtype)[0]
        return super().cast(x, dtype)

    def foreach_cast(self, xs: Sequence[Any], dtype: DType) -> list[Any]:
        shape = xs[0].shape if xs else ()
        if len(xs) in _CASTS and is_half(dtype) and all(x.shape == shape and x.dtype is float32 for x in xs):
            return self._call(self._rounded, xs, dtype)  # type: ignore[no-any-return]  # as it returns them
        if not all(x._c_contiguous for x in xs):  # which would be copied first
            return [self.cast(x, dtype) for x in xs]
        return super().foreach_cast(xs, dtype)

    def _rounded(self, xs: Sequence[Any], dtype: DType) -> list[Any]:
        """Return float32 arrays of one shape in 16 bits, each in its own order of memory, from one launch."""
        outs = [in_order_of(self.xp, x, x.shape, dtype) for x in xs]
        self._kernels[f"burnpy_round_{len(xs)}"](*xs, *outs)
        return outs

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

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        if x.dtype.kind != "V":
            return super().where(condition, x, y)
        y = self._number(y, x.dtype) if type(y) in NUMBERS else y
        return self._call(self.xp.where, condition, x.view(uint16), y.view(uint16)).view(x.dtype)
