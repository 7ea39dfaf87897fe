"""NumPy's functions that are given tensors: a number of NumPy's on the left of an operator, and calls to refuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from burnpy.backend.errors import KindError, a
from burnpy.tensor.base import TensorBase

REFLECTED = {
    "add": "__radd__",
    "subtract": "__rsub__",
    "multiply": "__rmul__",
    "divide": "__rtruediv__",
    "floor_divide": "__rfloordiv__",
    "remainder": "__rmod__",
    "power": "__rpow__",
    "matmul": "__rmatmul__",
    "bitwise_and": "__rand__",
    "bitwise_or": "__ror__",
    "bitwise_xor": "__rxor__",
    "equal": "__eq__",
    "not_equal": "__ne__",
    "less": "__gt__",
    "less_equal": "__ge__",
    "greater": "__lt__",
    "greater_equal": "__le__",
}
"""For each of NumPy's functions that an operator calls, the special method of the tensor on its right."""


def applied(tensor: TensorBase[Any], ufunc: Any, method: str, inputs: tuple[Any, ...], options: Any) -> Any:
    """Return the result of an operator with something of NumPy's on its left, and refuse other functions.

    Args:
        tensor: the first tensor among the inputs.
        ufunc: the function.
        method: how it was called: "__call__", "reduce" and so on.
        inputs: its arguments.
        options: its keyword arguments.

    Raises:
        KindError: the function was called by its name; or the left operand is an array.
    """
    name = REFLECTED.get(ufunc.__name__)
    if method == "__call__" and name and not options and isinstance(inputs[0], (np.generic, np.ndarray)):
        left: Any = inputs[0]
        left = left if left.ndim else left[()]  # comparisons make a 0-d array of a number
        operator = getattr(inputs[1], name, None)
        result = NotImplemented if operator is None else operator(left)
        if result is not NotImplemented:
            return result
    called = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
    what = f"np.{called}() got {a(type(tensor).__name__)} of shape {tensor.shape}, but computes with arrays"
    from burnpy.hints.table import row_of

    row = row_of(ufunc.__name__) if method == "__call__" else None
    ours = "x == y" if ufunc.__name__ == "equal" else row.ours if row is not None else None
    raise KindError(f"{what}; {f'write {ours}' if ours else 'compute with tensors, or pass x.to_numpy()'}")
