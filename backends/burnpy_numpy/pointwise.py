"""Pointwise functions that are more than one NumPy function: kernels, and a ``where`` without branches.

`numpy.where` branches, which is slow for irregular masks.

Operands that are rows or columns of the result are read by kernels, in one pass: NumPy starts its inner loop anew for
each row of the result, which takes longer than a short row's arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy import ndarray

from burnpy.backend.dtypes import bool_, float32, float64, kind_of
from burnpy.backend.primitives import DType, Scalar, Shape
from burnpy_array import ArrayBackend
from burnpy_array.array_base import NUMBERS, is_half
from burnpy_array.pointwise import division_by_zero, negative_power
from burnpy_array.shape import is_positive_zero
from burnpy_numpy.kernels.kernel import (
    LEAST,
    MANY,
    elementwise_kernel,
    has_kernels,
    kernel_of_numbers,
    lookup,
    operation_kernel,
)
from burnpy_numpy.numpy_calls import constant, direct, quietly, run

if TYPE_CHECKING:
    from burnpy_numpy.kernels.launch import Kernel

_COMPARISONS = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))
OPERATIONS = _COMPARISONS | {"add", "sub", "mul", "div", "maximum", "minimum", "where", "fmax", "fmin"}
"""The operations whose kernels have the bits of NumPy's functions."""
_KEPT = 4096
"""The number of plans that are kept."""
LARGE = 1 << 10
"""The number of elements of the result from which a kernel takes less time than NumPy."""
OUTER = 1 << 7
"""The number of elements of each operand from which shapes are compared, as a column and a row may have one size."""


class Layout(NamedTuple):
    """Operands as parts of a matrix."""

    shape: Shape  #: the shape of the result
    rows: int
    columns: int
    extents: tuple[str, ...]  #: for each operand: full, row or column
    spread: tuple[Shape | None, ...] | None
    """For each operand, the shape to expand it to before, or None for its own; None if all have their own."""


@lru_cache(maxsize=1024)
def layout(shapes: tuple[Shape, ...]) -> Layout | None:
    """Return the layout of operands of some shapes; None if they are no rows and columns, or there is little to do.

    Neighbouring dims along which the same operands vary are one. An operand that varies along the middle one of three
    is expanded to a column, which has few elements beside an operand that varies along all.

    >>> layout(((2, 3, 1000), (1000,)))
    Layout(shape=(2, 3, 1000), rows=6, columns=1000, extents=('full', 'row'), spread=None)
    >>> layout(((8, 3, 1000), (3, 1))).extents
    ('full', 'column')
    """
    ndim = max(map(len, shapes))
    padded = [(1,) * (ndim - len(own)) + own for own in shapes]
    sizes = [{*along} - {1} or {1} for along in zip(*padded, strict=True)]
    if any(len(found) > 1 for found in sizes):
        return None
    shape = tuple(size for found in sizes for size in found)
    if math.prod(shape) < LARGE:
        return None
    dims = [(k, tuple(own[k] != 1 for own in padded)) for k, n in enumerate(shape) if n != 1]
    groups = [(varies, [k for k, _ in group]) for varies, group in groupby(dims, key=lambda dim: dim[1])]
    if len(groups) == 3 and groups[0][0] == groups[2][0] and all(groups[1][0]):
        over_rows, over_columns = groups[1][0], groups[2][0]
    elif len(groups) == 2:
        over_rows, over_columns = groups[0][0], groups[1][0]
    else:
        return None
    words = {(True, True): "full", (False, True): "row", (True, False): "column"}
    extents = tuple(words.get(varies, "") for varies in zip(over_rows, over_columns, strict=True))
    if not all(extents):
        return None
    cut = groups[-1][1][0]
    by_row = (*shape[:cut], *(1,) * (len(shape) - cut))
    spread = tuple(by_row if extent == "column" else None for extent in extents) if len(groups) == 3 else None
    return Layout(shape, math.prod(shape[:cut]), math.prod(shape[cut:]), extents, spread)


def broadcast(name: str, x: Any, y: Any) -> Any:
    """Return an operation of two arrays of one dtype, of different shapes or 16 bits; None without a kernel for it.

    Args:
        name: the operation: "add", "maximum", "lt", …
        x: the first array.
        y: the second one.
    """
    if x.shape == y.shape:
        kernel = elementwise_kernel(name, (), x, y) if name in OPERATIONS and is_half(x.dtype) else None
        return None if kernel is None else kernel.alike((x, y))
    key = name, x.shape, y.shape, x.dtype
    plan = _plans[key] if key in _plans else _planned(key, (x.shape, y.shape), x.dtype)
    return None if plan is None else plan.run((x, y), ())


def broadcast_where(condition: Any, x: Any, y: Any) -> Any:
    """Return ``where`` of a condition, an array, and an array of its dtype or a number; None without a kernel."""
    arrays: tuple[Any, ...] = condition, x
    numbers: tuple[float, ...] = ()
    if type(y) in NUMBERS:
        numbers = (float(y),)
    elif type(y) is ndarray and y.dtype is x.dtype:
        arrays = condition, x, y
    else:
        return None
    shapes = tuple(array.shape for array in arrays)
    key = "where", shapes, x.dtype
    plan = _plans[key] if key in _plans else _planned(key, shapes, x.dtype)
    if plan is None or not all(type(array) is ndarray for array in arrays):
        return None
    return plan.run(arrays, numbers)


class _Plan(NamedTuple):
    """A kernel for operands of some shapes."""

    kernel: Kernel
    dtype: DType  #: of the result
    layout: Layout

    def run(self, arrays: tuple[Any, ...], numbers: tuple[float, ...]) -> Any:
        """Compute the result; None if a large array is not C-contiguous. Small ones are copied."""
        shape, rows, columns, _, spread = self.layout
        if not all(array.flags.c_contiguous for array in arrays):
            if any(array.size * 8 > rows * columns and not array.flags.c_contiguous for array in arrays):
                return None
            arrays = tuple(map(np.ascontiguousarray, arrays))
        if spread is not None:
            arrays = tuple(
                array if to is None else np.ascontiguousarray(np.broadcast_to(array, to))
                for array, to in zip(arrays, spread, strict=True)
            )
        out = np.empty(shape, self.dtype)
        self.kernel.into((*arrays, out), numbers, rows, columns)
        return out


_plans: dict[Any, _Plan | None] = lookup()


def _planned(key: Any, shapes: tuple[Shape, ...], dtype: DType) -> _Plan | None:
    """Return the plan of an operation, and keep it."""
    plan, name = None, key[0]
    found = layout(shapes) if name in OPERATIONS and has_kernels(dtype) else None
    if found is not None:
        extents = found.extents
        if name == "where":  # of a mask and two arrays, or of a mask, an array and a number
            extents = f"mask_{extents[0]}", *extents[1:], *["scalar"] * (3 - len(shapes))
        kernel = operation_kernel(name, extents, dtype, ())
        if kernel is not None:
            plan = _Plan(kernel, bool_ if name in _COMPARISONS else dtype, found)
    if len(_plans) >= _KEPT:
        _plans.clear()
    return _plans.setdefault(key, plan)


_TWO_STEPS = frozenset((3, 4, -2))
"""Powers of two or three operations, which a kernel computes in one pass."""
BITS: dict[int, Any] = {2: np.dtype(np.int16), 4: np.dtype(np.int32), 8: np.dtype(np.int64)}
"""The int dtypes by size in bytes."""
BLENDED = 8192
"""The number of conditions from which this takes less time."""
_where, _putmask = direct(np.where), direct(np.putmask)


class NumPyPointwise(ArrayBackend):
    """Functions that NumPy lacks as kernels of their defaults, and ``where`` on the bits of large arrays."""

    def clamp(self, x: Any, low: Scalar | None, high: Scalar | None) -> Any:
        kernel = kernel_of_numbers("clamped", x, 2)
        if kernel is None:
            if x.size < MANY or x.dtype.kind not in "iu":
                return super().clamp(x, low, high)
            numbers = np.iinfo(x.dtype)
            low, high = numbers.min if low is None else low, numbers.max if high is None else high
            if not numbers.min <= low <= numbers.max or not numbers.min <= high <= numbers.max:
                return super().clamp(x, low, high)
            return self._call(np.clip, x, x.dtype.type(low), x.dtype.type(high))  # vectorized, as maximum is not
        bounds = (-math.inf if low is None else float(low), math.inf if high is None else float(high))
        return kernel.alike((x,), bounds)

    def clamp_min(self, x: Any, y: Any) -> Any:
        return self.clamp(x, y, None) if type(y) in NUMBERS else self.maximum(x, y)

    def clamp_max(self, x: Any, y: Any) -> Any:
        return self.clamp(x, None, y) if type(y) in NUMBERS else self.minimum(x, y)

    def pow(self, x: Any, y: Any) -> Any:
        kernel = (
            elementwise_kernel("pow", (y,), x) if x.size >= MANY and type(y) in NUMBERS and y in _TWO_STEPS else None
        )
        if kernel is not None:
            return kernel.alike((x,))
        out = self._halves_in_float32(self.pow, x, y)
        return super().pow(x, y) if out is None else out

    def rsqrt(self, x: Any) -> Any:
        kernel = elementwise_kernel("rsqrt", (), x) if x.size >= MANY else None
        return super().rsqrt(x) if kernel is None else kernel.alike((x,))

    def reciprocal(self, x: Any) -> Any:
        kernel = elementwise_kernel("reciprocal", (), x) if x.size >= MANY else None
        return super().reciprocal(x) if kernel is None else kernel.alike((x,))

    def floor_divide(self, x: Any, y: Any) -> Any:
        out = self._halves_in_float32(self.floor_divide, x, y)
        out = _in_float64("floor_divide_in_float64", x, y) if out is None else out
        return super().floor_divide(x, y) if out is None else out

    def remainder(self, x: Any, y: Any) -> Any:
        out = self._halves_in_float32(self.remainder, x, y)
        out = _in_float64("remainder_in_float64", x, y) if out is None else out
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
        out = _in_float64("fmod_in_float64", x, y) if out is None else out
        return super().fmod(x, y) if out is None else out

    def _halves_in_float32(self, method: Callable[..., Any], x: Any, y: Any) -> Any:
        """Return a method of a large array of 16-bit floats, computed in float32; None for others.

        A number is rounded to the dtype first.
        """
        if x.itemsize != 2 or x.size < MANY or not is_half(x.dtype):
            return None
        return self._in_float32(method, x, float(constant(y, x.dtype)) if type(y) in NUMBERS else y)[0]

    def squared_difference(self, x: Any, y: Any) -> Any:
        kernel = elementwise_kernel("squared_difference", (), x, y) if x.size >= MANY and type(y) is ndarray else None
        return super().squared_difference(x, y) if kernel is None else kernel.alike((x, y))

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        if type(x) is ndarray:
            shape = condition.shape
            if x.shape != shape:
                out = self._call(broadcast_where, condition, x, y)
                if out is not None:
                    return out
            elif condition.size < BLENDED:  # a copy and a change of it take less time than numpy.where
                if type(y) is ndarray:
                    if y.shape == shape and y.dtype is x.dtype:
                        out = y.copy()
                        _putmask(out, condition, x)
                        return out
                elif type(y) is float and shape and (x.dtype is float32 or x.dtype is float64):
                    out = self.full(shape, y, x.dtype)
                    _putmask(out, condition, x)
                    return out
        if condition.size >= BLENDED and blendable(x):
            if type(y) in NUMBERS and y == 0 and is_positive_zero(y):
                return kept(condition, x)
            if (
                type(y) is np.ndarray
                and y.shape == x.shape == condition.shape
                and y.dtype is x.dtype
                and y.flags.c_contiguous
            ):
                return blended(condition, x, y)
        if type(y) is np.ndarray:
            try:
                return run(_where, condition, x, y)
            except RuntimeError:
                return quietly(_where, condition, x, y)
        return super().where(condition, x, y)

    def bitwise_left_shift(self, x: Any, y: Any) -> Any:  # NumPy defines shifts by any number of places, CUDA does not
        return self._binary(np.left_shift, x, y)

    def bitwise_right_shift(self, x: Any, y: Any) -> Any:
        return self._binary(np.right_shift, x, y)

    def _check_exponent(self, x: Any, y: Any) -> None:
        if kind_of(x.dtype) == "int" and (y < 0).any():
            raise negative_power(x)

    def _check_divisor(self, x: Any, y: Any, operation: str) -> None:
        if type(y) in NUMBERS:
            super()._check_divisor(x, y, operation)
        elif kind_of(x.dtype) == "int" and not y.all():
            raise division_by_zero(operation, x)


def _remainder_of_ints(x: Any, y: Any) -> Any:
    """Return the remainder of floor division, from that of division rounded toward 0, which NumPy computes faster."""
    rest = np.fmod(x, y)
    other_sign = np.less(np.bitwise_xor(rest, y), 0)
    np.logical_and(other_sign, rest, other_sign)
    return np.add(rest, np.multiply(y, other_sign), rest)


def _in_float64(name: str, x: Any, y: Any) -> Any:
    """Return a quotient or a remainder of float32 numbers by a kernel; None without one, or if a result is NaN."""
    kernel, number = None, type(y) in NUMBERS
    if x.size >= LEAST and x.dtype is float32 and (number or (y.dtype is float32 and y.shape == x.shape)):
        kernel = operation_kernel(name, ("full", "scalar" if number else "full"), float32, ())
    if kernel is None:
        return None
    out = kernel.alike((x,), (float(y),)) if number else kernel.alike((x, y))
    return None if np.isnan(out).any() else out


def blendable(x: Any) -> bool:
    """Return whether x is contiguous, and its bits can be viewed as ints."""
    return type(x) is np.ndarray and x.dtype.itemsize in BITS and bool(x.flags.c_contiguous)


def kept(condition: Any, x: Any) -> Any:
    """x where condition is true, 0 elsewhere: its bits, as ints, times 1 or 0."""
    return np.multiply(x.view(BITS[x.dtype.itemsize]), condition).view(x.dtype)


def blended(condition: Any, x: Any, y: Any) -> Any:
    """x where condition is true, y elsewhere: arrays of one shape, x and y of one dtype."""
    mask = condition.astype(BITS[x.dtype.itemsize])
    np.negative(mask, mask)
    other = y.view(mask.dtype)
    np.bitwise_and(mask, np.bitwise_xor(x.view(mask.dtype), other), mask)
    return np.bitwise_xor(mask, other, mask).view(x.dtype)
