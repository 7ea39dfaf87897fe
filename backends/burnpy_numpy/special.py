"""Special functions, which NumPy lacks, by kernels of their defaults, or by the defaults in blocks; powers and
remainders; dropout, and derivatives of random numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any

import numpy as np

from burnpy.backend.backend import Backend
from burnpy.backend.dtypes import float32, float64, kind_of
from burnpy.backend.primitives import Shape
from burnpy_array import ArrayBackend
from burnpy_array.array_base import NUMBERS, is_half
from burnpy_array.pointwise import alike, division_by_zero, negative_power
from burnpy_numpy.kernels.kernel import LEAST, MANY, elementwise_kernel, operation_kernel
from burnpy_numpy.numpy_calls import constant

BLOCK = 8192
"""The elements of a block. The defaults keep some ten arrays of them, which fit into the cache."""
_PHI = (
    *(1.567257510322256e-09, -1.2525670029454741e-07, 3.873058151769855e-06, -5.478173633260026e-05),
    *(-3.3911227109113235e-05, 0.03633434813295285, 0.7978846366104373),
)
"""A polynomial p, highest power first, with erf(x / √2) = tanh(x · p(x²)), to a relative error of 1e-7.

Fitted by weighted least squares, with weights that were increased where the error was largest until it was uniform. As
the first coefficient is positive, the formula is correct for the largest x too, without clamping.
"""
_ERF = tuple(np.array(c * math.sqrt(2) * 2 ** (len(_PHI) - 1 - k), float32) for k, c in enumerate(_PHI))
"""The same polynomial scaled so that erf(x) = tanh(x · p(x²)). With 0-d arrays operations take half the time of NumPy's
scalars."""


def _unary(name: str) -> Callable[..., Any]:
    """Return the method of a function of one array; its options are part of the program."""

    def method(self: NumPySpecial, x: Any, *options: Any) -> Any:
        kernel = elementwise_kernel(name, options, x)
        return self._in_blocks(name, (x,), options) if kernel is None else kernel.alike((x,))

    return _described(method, name)


def _binary(name: str) -> Callable[..., Any]:
    """Return the method of a function of two arrays, which are broadcast first."""

    def method(self: NumPySpecial, x: Any, y: Any) -> Any:
        x, y = self._of_one_shape(x, y)
        kernel = elementwise_kernel(name, (), x, y)
        return self._in_blocks(name, (x, y), ()) if kernel is None else kernel.alike((x, y))

    return _described(method, name)


def _ternary(name: str) -> Callable[..., Any]:
    """Return the method of a function of three arrays, which are broadcast first."""

    def method(self: NumPySpecial, x: Any, a: Any, b: Any) -> Any:
        xs: Any = (x, a, b)
        if x.dtype is a.dtype and x.dtype is b.dtype:
            with suppress(ValueError):  # the operation tells the user
                xs = self._call(np.broadcast_arrays, x, a, b)
        large = xs[0].size >= MANY_STEPS and alike(xs)
        kernel = operation_kernel(name, ("full",) * 3, x.dtype, ()) if large else None
        return self._in_blocks(name, xs, ()) if kernel is None else kernel.alike(xs)

    return _described(method, name)


def _described(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return the method with the name, the docstring and the signature of the operation."""
    described: Callable[..., Any] = wraps(getattr(Backend, name))(method)
    return described


MANY_STEPS = 4096
"""The least number of elements for which a function of thousands of steps is a kernel, as compiling takes seconds."""


class NumPySpecial(ArrayBackend):
    """Special functions as kernels of their defaults."""

    erfc, erfinv, lgamma, digamma, sinc = map(_unary, ("erfc", "erfinv", "lgamma", "digamma", "sinc"))
    erfcx, erfcx_slope, ndtr, log_ndtr = map(_unary, ("erfcx", "erfcx_slope", "ndtr", "log_ndtr"))
    normal_ratio, ndtri, ndtri_exp = map(_unary, ("normal_ratio", "ndtri", "ndtri_exp"))
    entr, bessel_ratio, polygamma = map(_unary, ("entr", "bessel_ratio", "polygamma"))
    i0, i0e, i1, i1e = map(_unary, ("i0", "i0e", "i1", "i1e"))
    igamma, igammac, igamma_density = map(_binary, ("igamma", "igammac", "igamma_density"))
    betainc, betainc_density = map(_ternary, ("betainc", "betainc_density"))
    zeta, xlogy, xlog1py = map(_binary, ("zeta", "xlogy", "xlog1py"))

    def erf(self, x: Any) -> Any:
        kernel = elementwise_kernel("erf", (), x)
        return super().erf(x) if kernel is None else kernel.alike((x,))

    def _erf(self, x: Any) -> Any:
        """Return the error function of float32 with a relative error below 4e-7, or of float64 to full precision."""
        return _tanh_of_product(np.asarray(x)) if x.dtype is float32 else _exact(x)

    def igamma_slope(self, x: Any, y: Any, order: int) -> Any:
        x, y = self._of_one_shape(x, y)
        kernel = elementwise_kernel("igamma_slope", (1,), x, y) if order == 1 and x.size >= MANY_STEPS else None
        return self._in_blocks("igamma_slope", (x, y), (order,)) if kernel is None else kernel.alike((x, y))

    def _in_blocks(self, name: str, xs: tuple[Any, ...], options: tuple[Any, ...]) -> Any:
        """Compute the default, of large arrays of one shape and dtype block by block."""
        default, x = getattr(ArrayBackend, name), xs[0]
        if x.size <= 2 * BLOCK or any(y.shape != x.shape or y.dtype is not x.dtype for y in xs):
            return default(self, *xs, *options)
        flat = [np.ascontiguousarray(y).reshape(-1) for y in xs]
        out = np.empty(x.size, x.dtype)
        for start in range(0, x.size, BLOCK):
            part = slice(start, start + BLOCK)
            out[part] = default(self, *[y[part] for y in flat], *options)
        return out.reshape(x.shape)


def _tanh_of_product(x: Any) -> Any:
    """Return tanh(x · p(x²)), p being `_ERF`."""
    squared, out = np.empty_like(x), np.empty_like(x)
    np.multiply(x, x, squared)
    np.multiply(squared, _ERF[0], out)
    for c in _ERF[1:-1]:
        np.add(out, c, out)
        np.multiply(out, squared, out)
    np.add(out, _ERF[-1], out)
    np.multiply(out, x, out)
    return np.tanh(out, out)


def _exact(x: Any) -> Any:
    """Return the error function in double precision: SciPy's if it is installed, else Python's, element by element."""
    try:
        from scipy.special import erf as precise  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        x = np.asarray(x)
        return np.fromiter(map(math.erf, x.ravel().tolist()), float64, x.size).reshape(x.shape)
    return precise(x)


LEAST_OF_SLOPES = 8 * MANY
"""The least number of elements for which kernels are used: compiling one takes one to three seconds."""


class NumPyRandom(ArrayBackend):
    """Dropout, and the derivatives of quantiles, in a sixteenth of the time of one operation after another."""

    def random_mask(self, generator: np.random.Generator, shape: Shape, p: float) -> Any:
        if p >= 1.0:
            return np.ones(shape, np.bool_)
        drawn = generator.integers(0, 1 << 32, shape, np.uint32)  # takes half the time of drawing floats
        return np.asarray(drawn < np.uint32(p * (1 << 32)))

    def masked_scale(self, x: Any, mask: Any, scale: float) -> Any:
        kernel = None
        if x.size >= LEAST and x.shape == mask.shape and (x.dtype is float32 or x.dtype is float64):
            kernel = operation_kernel("masked_scale", ("full", "mask_full", "scalar"), x.dtype, ())
        if kernel is None:
            return super().masked_scale(x, mask, scale)
        return kernel.alike((x, mask), (scale,))

    def gamma_quantile_slope(self, x: Any, concentration: Any, log: bool) -> Any:
        kernel = None
        if _fit(x, concentration):
            kernel = operation_kernel("slope_of_gamma_quantile", ("full", "full"), x.dtype, (log,))
        return (
            super().gamma_quantile_slope(x, concentration, log) if kernel is None else kernel.alike((x, concentration))
        )

    def beta_quantile_slope(self, x: Any, a: Any, b: Any) -> Any:
        kernel = None
        if _fit(x, a) and _fit(x, b):
            kernel = operation_kernel("slope_of_beta_quantile", ("full", "full", "full"), x.dtype, ())
        return super().beta_quantile_slope(x, a, b) if kernel is None else kernel.alike((x, a, b))


def _fit(x: Any, y: Any) -> bool:
    """Return whether two arrays are of one shape and one of the usual dtypes, and large."""
    dtype = x.dtype
    return (
        x.size >= LEAST_OF_SLOPES and x.shape == y.shape and dtype is y.dtype and (dtype is float32 or dtype is float64)
    )


_TWO_STEPS = frozenset((3, 4, -2))
"""Powers of two or three operations, which a kernel computes in one pass."""
_STEPS_OF_HALVES = _TWO_STEPS | {2, 0.5, -1}
"""The same of 16-bit floats, beside the conversions."""


class NumPyArithmetic(ArrayBackend):
    """Powers, quotients rounded down, remainders and neighbours, by kernels or by NumPy's fastest functions."""

    def pow(self, x: Any, y: Any) -> Any:
        kernel = None
        if x.size >= MANY and type(y) in NUMBERS and y in (_STEPS_OF_HALVES if x.itemsize == 2 else _TWO_STEPS):
            kernel = elementwise_kernel("pow", (y,), x)
        if kernel is not None:
            return kernel.alike((x,))
        out = self._halves_in_float32(self.pow, x, y)
        return super().pow(x, y) if out is None else out

    def _halves_in_float32(self, method: Callable[..., Any], x: Any, y: Any) -> Any:
        """Return a method of a large array of 16-bit floats, computed in float32; None for others. A number is rounded
        to the dtype first."""
        number = type(y) in NUMBERS
        if x.itemsize != 2 or max(x.size, 1 if number else y.size) < MANY or not is_half(x.dtype):
            return None
        return self._in_float32(method, x, float(constant(y, x.dtype)) if number else y)[0]

    def _divided(self, name: str, x: Any, y: Any) -> Any:
        """Return a quotient or a remainder of floats by a kernel; None without one, or if a result is NaN."""
        number, dtype = type(y) in NUMBERS, x.dtype
        if not (dtype is float32 or dtype is float64) or not (number or y.dtype is dtype):
            return None
        name = f"{name}_in_float64" if dtype is float32 else f"exact_{name}"
        if not number and y.shape != x.shape:
            x, y = self._of_one_shape(x, y)
        usual = x.size >= LEAST and (number or y.shape == x.shape)
        kernel = operation_kernel(name, ("full", "scalar" if number else "full"), dtype, ()) if usual else None
        if kernel is None:
            return None
        out = kernel.alike((x,), (float(y),)) if number else kernel.alike((x, y))
        return None if np.isnan(out).any() else out

    def floor_divide(self, x: Any, y: Any) -> Any:
        out = self._halves_in_float32(self.floor_divide, x, y)
        out = self._divided("floor_divide", x, y) if out is None else out
        return super().floor_divide(x, y) if out is None else out

    def remainder(self, x: Any, y: Any) -> Any:
        out = self._halves_in_float32(self.remainder, x, y)
        out = self._divided("remainder", x, y) if out is None else out
        if out is not None:
            return out
        number = type(y) is int
        if x.size < MANY or x.dtype.kind != "i" or not (number or (y.dtype is x.dtype and y.shape == x.shape)):
            return super().remainder(x, y)
        self._check_divisor(x, y, "remainder")
        if number:  # by which NumPy divides with vectors of products
            return self.sub(x, self.mul(self.floor_divide(x, y), y))
        return self._call(_remainder_of_ints, x, y)

    def fmod(self, x: Any, y: Any) -> Any:
        out = self._halves_in_float32(self.fmod, x, y)
        out = self._divided("fmod", x, y) if out is None else out
        return super().fmod(x, y) if out is None else out

    def nextafter(self, x: Any, y: Any) -> Any:
        usual = x.size >= MANY and type(y) is np.ndarray and not is_half(x.dtype)  # those have neighbours of their own
        kernel = elementwise_kernel("nextafter", (), x, y) if usual else None
        return self._binary(np.nextafter, x, y) if kernel is None else kernel.alike((x, y))

    def _check_exponent(self, x: Any, y: Any) -> None:
        if kind_of(x.dtype) == "int" and (y < 0).any():
            raise negative_power(x)

    def _check_divisor(self, x: Any, y: Any, operation: str) -> None:
        if type(y) in NUMBERS:
            super()._check_divisor(x, y, operation)
        elif kind_of(x.dtype) == "int" and not y.all():
            raise division_by_zero(operation, x)


def _remainder_of_ints(x: Any, y: Any) -> Any:
    """Return the remainder of floor division, from the remainder of division toward 0, which NumPy computes faster."""
    rest = np.fmod(x, y)
    other_sign = np.less(np.bitwise_xor(rest, y), 0)
    np.logical_and(other_sign, rest, other_sign)
    return np.add(rest, np.multiply(y, other_sign), rest)
