"""Making primitives, converting their dtype and kind, and moving them to and from NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from burnpy.backend.operations.base import OperationsBase
from burnpy.backend.primitives import Bool, Discrete, DType, Float, Int, Scalar, Shape, Value
from burnpy.backend.schema import Algebra, derived, required

LINEAR, NONE = Algebra.LINEAR, Algebra.NONDIFFERENTIABLE


class Creation(OperationsBase):
    """Operations that make a primitive from none, and conversions."""

    @required(NONE)
    def from_numpy(self, array: np.ndarray[Any, Any]) -> Value:
        """A copy of a NumPy array on this device; later changes of the array do not reach it."""
        ...

    @derived(NONE)
    def adopt_numpy(self, array: np.ndarray[Any, Any]) -> Value:
        """A NumPy array on this device, in its own memory where that is possible: nobody will write to it again."""
        return self.from_numpy(array)

    @required(NONE)
    def to_numpy(self, x: Value) -> np.ndarray[Any, Any]:
        """The values as a NumPy array: ``x``'s own memory where that is possible, else a copy."""
        ...

    @required(NONE)
    def full(self, shape: Shape, value: Scalar, dtype: DType) -> Value:
        """All elements equal to ``value``."""
        ...

    @required(NONE)
    def arange(self, start: Scalar, stop: Scalar, step: Scalar, dtype: DType) -> Value:
        """start, start + step, … up to but without stop, which need not fit the dtype; 1-d."""
        ...

    @derived(NONE)
    def linspace(self, start: Scalar, stop: Scalar, num: int, dtype: DType) -> Value:
        """``num`` numbers evenly spaced from start to stop, both included; 1-d."""
        return self.from_numpy(np.linspace(start, stop, num).astype(dtype))

    @derived(NONE)
    def eye(self, rows: int, columns: int, dtype: DType) -> Value:
        """Ones on the diagonal of a (rows, columns) matrix, zeros elsewhere."""
        return self.from_numpy(np.eye(rows, columns, dtype=dtype))

    @required(LINEAR)
    def cast(self, x: Value, dtype: DType) -> Value:
        """``x`` in another dtype of the same kind. On a plain backend any dtype to any other."""
        ...

    @derived(NONE)
    def to_float(self, x: Discrete, dtype: DType) -> Float:
        """Ints or bools as floats."""
        return self.discrete.cast(x, dtype)

    @derived(NONE)
    def to_int(self, x: Value, dtype: DType) -> Int:
        """Floats (truncated toward zero) or bools as ints."""
        return self.cast(x, dtype)

    @derived(NONE)
    def to_bool(self, x: Value) -> Bool:
        """True where ``x`` is not zero; NaN is true."""
        return self.ne(x, 0)
