"""Operations that create primitives, and convert their dtype and kind."""

from __future__ import annotations

from typing import Any

import numpy as np

from burnpy.backend.operations import OperationsBase
from burnpy.backend.primitives import Bool, Discrete, DType, Float, Int, Ordered, Scalar, Shape, Value
from burnpy.backend.rules import SHIFTED
from burnpy.backend.schema import LINEAR, NONDIFFERENTIABLE, derived, required


class Creation(OperationsBase):
    """Operations that create a primitive, and conversions of dtype and kind."""

    @required(NONDIFFERENTIABLE, onnx="indexing.unchecked")
    def from_numpy(self, array: np.ndarray[Any, Any]) -> Value:
        """Copy a NumPy array to this device; later changes of the array do not affect the result."""
        ...

    @derived(NONDIFFERENTIABLE, view="array", onnx="indexing.unchecked")
    def adopt_numpy(self, array: np.ndarray[Any, Any]) -> Value:
        """Move a NumPy array to this device, sharing its memory if possible; the array must not be written to again."""
        return self.from_numpy(array)

    @required(NONDIFFERENTIABLE, onnx="refused")
    def to_numpy(self, x: Value) -> np.ndarray[Any, Any]:
        """Return ``x`` as a NumPy array that shares its memory if possible, and is a copy otherwise."""
        ...

    @required(NONDIFFERENTIABLE, onnx="shapes.full")
    def full(self, shape: Shape, value: Scalar, dtype: DType) -> Value:
        """Return a primitive of the given shape and dtype, filled with ``value``."""
        ...

    @required(NONDIFFERENTIABLE, onnx="shapes.arange")
    def arange(self, start: Scalar, stop: Scalar, step: Scalar, dtype: DType) -> Value:
        """Return start, start + step, … up to stop, excluded, as 1-d; stop may exceed the range of the dtype."""
        ...

    @derived(NONDIFFERENTIABLE)
    def linspace(self, start: Scalar, stop: Scalar, num: int, dtype: DType) -> Value:
        """Return ``num`` evenly spaced numbers from start to stop, both included; 1-d."""
        return self.from_numpy(np.linspace(start, stop, num).astype(dtype))

    @derived(NONDIFFERENTIABLE)
    def eye(self, rows: int, columns: int, dtype: DType) -> Value:
        """Return a (rows, columns) matrix with ones on the diagonal and zeros elsewhere."""
        return self.from_numpy(np.eye(rows, columns, dtype=dtype))

    @required(
        LINEAR, like="x", flops=0, vjp=lambda i, g, x_dtype: i.cast(g, x_dtype), batch=SHIFTED, onnx="elementwise.cast"
    )
    def cast(self, x: Value, dtype: DType) -> Value:
        """Convert ``x`` to another dtype of the same kind; a plain backend converts any dtype to any other."""
        ...

    @derived(NONDIFFERENTIABLE, elementwise=True, flops=0, onnx="elementwise.cast")
    def to_float(self, x: Discrete, dtype: DType) -> Float:
        """Convert ints or bools to a float dtype."""
        return self.discrete.cast(x, dtype)

    @derived(NONDIFFERENTIABLE, elementwise=True, flops=0, onnx="elementwise.cast")
    def to_int(self, x: Ordered, dtype: DType) -> Int:
        """Convert floats, truncated toward zero, or bools to an int dtype."""
        return self.cast(x, dtype)

    @derived(NONDIFFERENTIABLE, elementwise=True, flops=0, onnx="elementwise.to_bool")
    def to_bool(self, x: Value) -> Bool:
        """Convert to bool: True where ``x`` is not zero; NaN gives True."""
        return self.ne(x, 0)
