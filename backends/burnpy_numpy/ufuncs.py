"""Fast methods for the operations that are one NumPy function each.

`burnpy_array` calls ``self._call(self.xp.add, x, y)``: three attribute lookups and a frame, together half of NumPy's
own time for a small array. Here the functions themselves are globals of the method.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import ndarray

from burnpy.backend.error_origin import raised_by_other_code
from burnpy_array.pointwise import BINARY, UNARY, operation
from burnpy_numpy.kernels.operations import MANY, elementwise_kernel
from burnpy_numpy.constants import known
from burnpy_numpy.errstate import quietly, run

FUNCTION: Any = None
FUNCTION_of_scalars: Any = None
OPERATION: Any = None
"""Placeholders in the templates for the NumPy function, for a faster one for two NumPy scalars, and for the name of the
operation; `operation` replaces them in each method."""

OPERATORS: dict[str, Any] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}
"""Operators by NumPy's function names: on NumPy scalars they take an eighth of the time of NumPy's functions."""

COMPILED = frozenset(
    (
        *("expm1", "log1p", "tanh", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh"),
        *("atan2", "hypot", "logaddexp"),
    )
)
"""Functions that run as kernels on large arrays, where NumPy takes two to twenty times as long.

Of exp and log, it takes twice as long at most; to look at the size would slow down small arrays by a tenth."""

REDUCTION = {"amax": "maximum", "amin": "minimum", "any": "logical_or", "all": "logical_and"}
"""Reductions that are the ``reduce`` method of one NumPy function for all dtypes: burnpy's name to NumPy's."""


def _unary(self: Any, x: Any) -> Any:
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
                return run(FUNCTION, x, y)
        elif kind is float or kind is int:
            return run(FUNCTION, x, known[x.dtype][y or str(y)])
        elif kind is type(x):
            return run(FUNCTION_of_scalars, x, y)
    except (RuntimeError, KeyError) as error:  # the context of `run` is in use; the number is not cached yet
        if raised_by_other_code(error, ()):
            raise
    return self._binary(FUNCTION, x, y)


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


def fast_methods() -> dict[str, Callable[..., Any]]:
    """Return the methods by name."""
    methods = {ours: _method(_compiled if ours in COMPILED else _unary, ours, theirs) for ours, theirs in UNARY.items()}
    methods |= {
        ours: _method(_compiled_binary if ours in COMPILED else _binary, ours, theirs)
        for ours, theirs in BINARY.items()
    }
    return methods | {ours: _method(_reduction, ours, f"{theirs}_reduce") for ours, theirs in REDUCTION.items()}


def _method(template: Callable[..., Any], name: str, function: str) -> Callable[..., Any]:
    words = {"FUNCTION": function, "FUNCTION_of_scalars": f"{function}_of_scalars", "OPERATION": f"name_of_{name}"}
    return operation(template, name, words, _NAMES)


_NAMES = {
    **{name: getattr(np, name) for name in (*UNARY.values(), *BINARY.values())},
    **{f"{name}_of_scalars": OPERATORS.get(name, getattr(np, name)) for name in BINARY.values()},
    **{f"{name}_reduce": getattr(np, name).reduce for name in REDUCTION.values()},
    **{f"name_of_{name}": name for name in COMPILED},
    **globals(),
}
