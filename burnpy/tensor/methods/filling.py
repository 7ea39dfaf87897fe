"""Tensors of the shape, dtype and device of another one, filled with a number."""

from __future__ import annotations

from typing import Any, Self

from burnpy.backend.dtypes import dtype_of
from burnpy.tensor.base import TensorBase
from burnpy.tensor.data import DTypeLike, fitting
from burnpy.typevars import B


class Filling(TensorBase[B]):
    """Methods that create a tensor of the shape, dtype and device of another one."""

    __slots__ = ()

    def zeros_like(self, *, dtype: DTypeLike | None = None) -> Self:
        """A tensor of zeros (or False) with this tensor's shape and, by default, its dtype."""
        return self._filled_like(False if self.kind == "bool" else 0, dtype, "zeros_like")

    def ones_like(self, *, dtype: DTypeLike | None = None) -> Self:
        """A tensor of ones (or True) with this tensor's shape and, by default, its dtype."""
        return self._filled_like(True if self.kind == "bool" else 1, dtype, "ones_like")

    def full_like(self, value: float, *, dtype: DTypeLike | None = None) -> Self:
        """A tensor filled with ``value`` with this tensor's shape and, by default, its dtype.

        Raises:
            DTypeError: the value is of another kind, or does not fit the dtype.

        >>> from burnpy import IntTensor
        >>> from burnpy.backend import NumPy
        >>> IntTensor[NumPy].from_data([1, 2]).full_like(7).tolist()
        [7, 7]
        """
        return self._filled_like(value, dtype, "full_like")

    def _filled_like(self, value: Any, dtype: Any, operation: str) -> Self:
        target_dtype = self.dtype if dtype is None else dtype_of(dtype, self.kind)
        return self._like(
            self._backend.full(self.shape, fitting(value, self.kind, target_dtype, operation), target_dtype)
        )
