"""Pointwise functions: those that are one NumPy function each, kernels of the others, and a ``where`` without branches.

`burnpy_array` calls ``self._call(self.xp.add, x, y)``: three attribute lookups and a frame, together half of NumPy's
own time for a small array. Here the functions themselves are globals of the method. `numpy.where` branches, which is
slow for irregular masks.

Operands that are rows or columns of the result are read by kernels, in one pass: NumPy starts its inner loop anew for
each row of the result, which takes longer than a short row's arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy import ndarray

from burnpy.backend.dtypes import bool_, float32, float64, part_dtype
from burnpy.backend.errors import raised_by_other_code
from burnpy.backend.primitives import DType, Scalar, Shape
from burnpy.backend.runtime import executed
from burnpy_array.array_base import NUMBERS, is_half
from burnpy_array.pointwise import BINARY, UNARY, method_from_template
from burnpy_array.shape import is_positive_zero
from burnpy_numpy.indexing import blendable, blended_bits, chosen_by_kernel, kept_bits
from burnpy_numpy.kernels.kernel import (
    MANY,
    TRANSPOSED,
    elementwise_kernel,
    has_kernels,
    kernel_of_numbers,
    lookup,
    operation_kernel,
    untransposed,
    used,
)
from burnpy_numpy.numpy_calls import (
    OPERATORS,
    constant,
    direct,
    known,
    quietly,
    run,
    spread,
)
from burnpy_numpy.reduction import extreme_of_rows, in_memory_order
from burnpy_numpy.special import NumPyArithmetic

if TYPE_CHECKING:
    from burnpy_numpy.kernels.launch import Kernel

_COMPARISONS = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))
_OPERATIONS = _COMPARISONS | {"add", "sub", "mul", "div", "maximum", "minimum", "where", "fmax", "fmin"}
"""The operations whose kernels have the bits of NumPy's functions."""
_MAX_PLANS = 4096
"""The number of plans that are kept."""
LARGE = 1 << 10
"""The least number of elements of the result for which a kernel is used even if it is the first one of the process."""
_MIN_KERNEL = 1 << 4
"""The least number of elements of the result for which a kernel takes less time than NumPy."""
_MIN_OUTER = 1 << 7
"""The least number of elements of an operand for which shapes are compared, as a column and a row may have one size."""


class Layout(NamedTuple):
    """Operands as parts of a matrix."""

    shape: Shape  #: the shape of the result
    rows: int
    columns: int
    extents: tuple[str, ...]  #: for each operand: full, row or column
    spread: tuple[Shape | None, ...] | None
    """For each operand, the shape to expand it to before, or None for its own; None if all have their own."""

    def arrays(self, operands: Sequence[Any]) -> Sequence[Any]:
        """Return the operands, expanded where they have to be."""
        if self.spread is None:
            return operands
        return [array if to is None else spread(array, to) for array, to in zip(operands, self.spread, strict=True)]


@lru_cache(maxsize=1024)
def layout(shapes: tuple[Shape, ...], singles: bool = False, least: int = LARGE) -> Layout | None:
    """Return the layout of operands of some shapes; None if they are no rows and columns, or of fewer than ``least``.

    With ``singles``, an operand of one element beside others of one shape is expanded to a column, too.

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
    if math.prod(shape) < least:
        return None
    dims = [(k, tuple(own[k] != 1 for own in padded)) for k, n in enumerate(shape) if n != 1]
    groups = [(varies, [k for k, _ in group]) for varies, group in groupby(dims, key=lambda dim: dim[1])]
    columns = groups[-1][1] if groups else []
    if len(groups) == 3 and groups[0][0] == groups[2][0] and all(groups[1][0]):
        over_rows, over_columns = groups[1][0], groups[2][0]
    elif len(groups) == 2:
        over_rows, over_columns = groups[0][0], groups[1][0]
    elif singles and len(groups) == 1:
        over_rows, over_columns = (True,) * len(shapes), groups[0][0]
        columns = columns[1:] or columns
    else:
        return None
    words = {(True, True): "full", (False, True): "row", (True, False): "column"}
    extents = tuple(words.get(varies, "") for varies in zip(over_rows, over_columns, strict=True))
    if not all(extents):
        return None
    cut = columns[0]
    by_row = (*shape[:cut], *(1,) * (len(shape) - cut))
    spread = tuple(by_row if extent == "column" else None for extent in extents) if len(groups) != 2 else None
    return Layout(shape, math.prod(shape[:cut]), math.prod(shape[cut:]), extents, spread)


def broadcast(name: str, x: Any, y: Any) -> Any:
    """Return an operation of two arrays of one dtype, of different shapes or 16 bits; None without a kernel for it.

    Args:
        name: the operation: "add", "maximum", "lt", …
        x: the first array.
        y: the second one.
    """
    if x.shape == y.shape:
        kernel = elementwise_kernel(name, (), x, y) if name in _OPERATIONS and is_half(x.dtype) else None
        return None if kernel is None else kernel.alike((x, y))
    key = name, x.shape, y.shape, x.dtype
    plan = _plans[key] if key in _plans else _planned(key, (x.shape, y.shape), x.dtype)
    return None if plan is None else plan.run((x, y), ())


def broadcast_where(condition: Any, x: Any, y: Any) -> Any:
    """Return ``where`` of a condition, an array, and an array of its dtype or a number; None without a kernel."""
    arrays: tuple[Any, ...] = condition, x
    numbers: tuple[float, ...] = ()
    if type(y) in NUMBERS and type(y) is not complex:
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
        shape, rows, columns, _, _ = self.layout
        if not all(array.flags.c_contiguous for array in arrays):
            if any(array.size * 8 > rows * columns and not array.flags.c_contiguous for array in arrays):
                return None
            arrays = tuple(map(np.ascontiguousarray, arrays))
        out = np.empty(shape, self.dtype)
        self.kernel.into((*self.layout.arrays(arrays), out), numbers, rows, columns)
        return out


_plans: dict[Any, _Plan | None] = lookup()
_small: dict[Any, tuple[Any, Shape, DType, int, int]] = lookup()
"""For few elements: the built-in function of a plan, the shape and dtype of its result, and its rows and columns."""


def _planned(key: Any, shapes: tuple[Shape, ...], dtype: DType) -> _Plan | None:
    """Return the plan of an operation, and keep it."""
    plan, name = None, key[0]
    suits = name in _OPERATIONS and has_kernels(dtype)
    found = layout(shapes, is_half(dtype), _MIN_KERNEL if used else LARGE) if suits else None
    if found is not None:
        extents = found.extents
        if name == "where":  # of a mask and two arrays, or of a mask, an array and a number
            extents = f"mask_{extents[0]}", *extents[1:], *["scalar"] * (3 - len(shapes))
        kernel = operation_kernel(name, extents, dtype, ())
        if kernel is not None:
            plan = _Plan(kernel, bool_ if name in _COMPARISONS else dtype, found)
            if found.spread is None and kernel.plain and found.rows * found.columns < MANY:
                _small[key] = kernel.function, found.shape, plan.dtype, found.rows, found.columns
    if plan is None and not used:  # small operands may have a kernel later
        return None
    if len(_plans) >= _MAX_PLANS:
        _plans.clear()
        _small.clear()
    return _plans.setdefault(key, plan)


_MIN_BLENDED = 8192
"""The least number of conditions for which bits are blended, as `numpy.where` branches."""
_where, _putmask, _empty = direct(np.where), direct(np.putmask), np.empty


class NumPyPointwise(NumPyArithmetic):
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
        bounds = [-math.inf if low is None else float(low), math.inf if high is None else float(high)]
        if is_half(x.dtype):
            bounds = [float(constant(bound, x.dtype)) for bound in bounds]
        return kernel.alike((x,), (*bounds,))

    def clamp_min(self, x: Any, y: Any) -> Any:
        return self.clamp(x, y, None) if type(y) in NUMBERS else self.maximum(x, y)

    def clamp_max(self, x: Any, y: Any) -> Any:
        return self.clamp(x, None, y) if type(y) in NUMBERS else self.minimum(x, y)

    def rsqrt(self, x: Any) -> Any:
        kernel = elementwise_kernel("rsqrt", (), x) if x.size >= MANY else None
        return super().rsqrt(x) if kernel is None else kernel.alike((x,))

    def reciprocal(self, x: Any) -> Any:
        kernel = elementwise_kernel("reciprocal", (), x) if x.size >= MANY else None
        return super().reciprocal(x) if kernel is None else kernel.alike((x,))

    def clamp_between(self, x: Any, low: Any, high: Any) -> Any:
        return self.fused(_between, (x, low, high))[0]

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
            elif condition.size < _MIN_BLENDED:  # a copy and a change of it take less time than numpy.where
                if type(y) is ndarray:
                    if y.shape == shape and y.dtype is x.dtype:
                        out = y.copy()
                        _putmask(out, condition, x)
                        return out
                elif type(y) is float and shape and (x.dtype is float32 or x.dtype is float64):
                    out = self.full(shape, y, x.dtype)
                    _putmask(out, condition, x)
                    return out
        if condition.size >= _MIN_BLENDED:
            out = self._call(chosen_by_kernel, condition, x, y)
            if out is not None:
                return out
            if type(y) in NUMBERS:
                if blendable(x) and y == 0 and is_positive_zero(y):
                    return kept_bits(condition, x)
                y = constant(bool(y) if x.dtype.kind == "b" else y, x.dtype)
            shapes = condition.shape, ()  # a fill value may be a NumPy scalar, and a gradient an expanded number
            x, y = [np.asarray(value, order="C" if np.shape(value) in shapes else None) for value in (x, y)]
            if x.shape in shapes and y.shape in shapes and x.dtype is y.dtype and blendable(x) and blendable(y):
                return blended_bits(condition, x, y)
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


def _between(b: Any, x: Any, low: Any, high: Any) -> tuple[Any]:
    return (b.minimum(b.maximum(x, low), high),)


FUNCTION: Any = None
FUNCTION_of_scalars: Any = None
OPERATION: Any = None
"""Placeholders in the templates for the NumPy function, for a faster one for two NumPy scalars, and for the name of the
operation; `method_from_template` replaces them in each method."""

COMPILED = frozenset(
    (
        *("expm1", "log1p", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
        *("sin", "cos", "tan", "asin", "acos", "atan", "sign", "exp"),
        *("atan2", "hypot", "logaddexp", "logaddexp2"),
    )
)
"""Functions that run as kernels on large arrays, where NumPy takes 1.5 to twenty times as long. Of 16-bit floats, which
NumPy converts one by one, all do."""

EXTREMES = {"amax": "maximum", "amin": "minimum"}
"""Reductions that run as kernels over the last dimensions of large arrays, where NumPy takes twice as long."""
REDUCTION = {"any": "logical_or", "all": "logical_and"}
"""Reductions that are the ``reduce`` method of one NumPy function for all dtypes: burnpy's name to NumPy's."""


def _unary(self: Any, x: Any) -> Any:
    if x.size >= MANY:
        if x.itemsize == 2:
            kernel = elementwise_kernel(OPERATION, (), x)
            if kernel is not None:
                return kernel.alike((x,))
            if is_half(x.dtype):
                return self._in_float32(getattr(self, OPERATION), x)[0]
        elif OPERATION == "neg" and x.dtype.kind == "c" and x.flags.c_contiguous:  # NumPy negates them one by one
            return FUNCTION(x.view(part_dtype(x.dtype))).view(x.dtype)
    try:
        return run(FUNCTION, x)
    except RuntimeError:
        return quietly(FUNCTION, x)


def _compiled(self: Any, x: Any) -> Any:
    if x.size >= MANY:
        kernel = elementwise_kernel(OPERATION, (), x)
        if kernel is not None:
            return kernel.alike((x,))
    try:
        return run(FUNCTION, x)
    except RuntimeError:
        return quietly(FUNCTION, x)


def _binary(self: Any, x: Any, y: Any) -> Any:
    kind = type(y)
    try:
        if kind is ndarray:
            if x.dtype is y.dtype:
                size = x.size
                differs = size != y.size
                if differs and (found := _small.get((OPERATION, x.shape, y.shape, x.dtype))) and not executed:
                    function, shape, dtype, rows, columns = found
                    few = _empty(shape, dtype)
                    if not function(x, y, few, 0, rows, rows, columns):  # else refused, see `ENTRIES`
                        return few
                large = used or size * y.size >= LARGE if differs else size >= _MIN_OUTER
                if large and (differs or x.itemsize == 2 or x.shape != y.shape):
                    out = run(broadcast, OPERATION, x, y)
                    if out is not None:
                        return out
                elif size >= TRANSPOSED and x.strides != y.strides:  # NumPy would read one of them element by element
                    x, y = untransposed(x), untransposed(y)
                return run(FUNCTION, x, y)
        elif kind is float or kind is int:
            return run(FUNCTION, x, known[x.dtype][y or str(y)])
        elif kind is type(x):
            return run(FUNCTION_of_scalars, x, y)
    except (RuntimeError, KeyError) as error:  # the context of `run` is in use; the number is not cached yet
        if raised_by_other_code(error, ()):
            raise
    out = _half_with_number(OPERATION, x, y) if x.itemsize == 2 else None
    return self._binary(FUNCTION, x, y) if out is None else out


def _half_with_number(name: str, x: Any, y: Any) -> Any:
    """Return an operation of an array of 16 bits and a number, which is rounded to its dtype first; None without a
    kernel for it."""
    if x.size < MANY or type(y) not in NUMBERS or name not in _OPERATIONS or not is_half(x.dtype):
        return None
    kernel = kernel_of_numbers(name, x, 1)
    return None if kernel is None else kernel.alike((x,), (float(constant(y, x.dtype)),))


def _compiled_binary(self: Any, x: Any, y: Any) -> Any:
    if x.size >= MANY and type(y) is ndarray:
        kernel = elementwise_kernel(OPERATION, (), x, y)
        if kernel is not None:
            return kernel.alike((x, y))
    return self._binary(FUNCTION, x, y)


def _reduction(self: Any, x: Any, dims: Any, keepdim: bool) -> Any:
    try:
        return run(FUNCTION, x, dims, None, None, keepdim)
    except RuntimeError:
        return quietly(FUNCTION, x, dims, None, None, keepdim)


def _extreme(self: Any, x: Any, dims: Any, keepdim: bool) -> Any:
    if x.size >= MANY:
        method = getattr(self, OPERATION)
        out = in_memory_order(method, x, dims, keepdim)
        out = self._call(extreme_of_rows, OPERATION, x, dims, keepdim) if out is None else out
        if out is not None:
            return out
        if dims and is_half(x.dtype):
            return self._in_float32(method, x, dims, keepdim)[0]
    elif len(dims) == x.ndim and not keepdim and (x.dtype is float32 or x.dtype is float64) and dims:
        flat = x if x.ndim == 1 else x.reshape(-1)  # the position takes a third of the time of the extreme
        return flat[flat.argmax() if OPERATION == "amax" else flat.argmin()]
    try:
        return run(FUNCTION, x, dims, None, None, keepdim)
    except RuntimeError:
        return quietly(FUNCTION, x, dims, None, None, keepdim)


def fast_methods() -> dict[str, Callable[..., Any]]:
    """Return the methods by name."""
    own = {*vars(NumPyPointwise), *vars(NumPyArithmetic)}
    unary = {ours: _compiled if ours in COMPILED else _unary for ours in UNARY if ours not in own}
    binary = {ours: _compiled_binary if ours in COMPILED else _binary for ours in BINARY if ours not in own}
    methods = {ours: _method(template, ours, {**UNARY, **BINARY}[ours]) for ours, template in (unary | binary).items()}
    methods |= {ours: _method(_extreme, ours, f"{theirs}_reduce") for ours, theirs in EXTREMES.items()}
    return methods | {ours: _method(_reduction, ours, f"{theirs}_reduce") for ours, theirs in REDUCTION.items()}


def _method(template: Callable[..., Any], name: str, function: str) -> Callable[..., Any]:
    words = {"FUNCTION": function, "FUNCTION_of_scalars": f"{function}_of_scalars", "OPERATION": f"name_of_{name}"}
    return method_from_template(template, name, words, _NAMES)


_NAMES = {
    **{name: getattr(np, name) for name in (*UNARY.values(), *BINARY.values())},
    **{f"{name}_of_scalars": OPERATORS.get(name, getattr(np, name)) for name in BINARY.values()},
    **{f"{name}_reduce": getattr(np, name).reduce for name in (*EXTREMES.values(), *REDUCTION.values())},
    **{f"name_of_{name}": name for name in (*UNARY, *BINARY, *EXTREMES)},
    **globals(),
}
