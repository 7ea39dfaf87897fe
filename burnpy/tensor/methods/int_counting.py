"""Counts of non-negative ints."""

from __future__ import annotations

from typing import Any

from burnpy.backend.dtypes import float64, int64
from burnpy.backend.errors import ArgumentError, DTypeError, KindError, ShapeError
from burnpy.tensor.base import TensorBase, describe
from burnpy.tensor.dims import integer
from burnpy.tensor.operands import together
from burnpy.typevars import B


class IntCounting(TensorBase[B]):
    """Counts of non-negative ints."""

    __slots__ = ()

    def bincount(self, weights: Any = None, minlength: int = 0) -> Any:
        """The counts of each int from 0 to the largest in a 1-d x, int64; with ``weights``, their sums, a `Tensor`.

        The size of the result depends on the values, so that a GPU is synchronized.

        Args:
            weights: a tensor of x's shape; None to count. The result has its dtype (float64 of ints and bools), and
                gradients go to the weights.
            minlength: the smallest size of the result.

        Raises:
            ShapeError: x is not 1-d, or the weights have another shape.
            DTypeError: an int is negative.
            ArgumentError: ``minlength`` is negative.

        >>> from burnpy import IntTensor
        >>> from burnpy.backend import NumPy
        >>> IntTensor[NumPy].from_data([1, 3, 1]).bincount(minlength=5).tolist()
        [0, 2, 0, 1, 0]
        """
        least = integer(minlength, "minlength", "bincount")
        if self.ndim != 1:
            raise ShapeError(f"bincount() got shape {self.shape}; it counts a 1-d tensor: x.flatten()")
        if least < 0:
            raise ArgumentError(f"bincount() got minlength={least}; it can be 0 or more")
        d = self._device.discrete
        index = self._primitive if self.dtype == int64 else d.cast(self._primitive, int64)
        count = 0
        if self.shape[0]:
            lowest = int(d.to_numpy(d.amin(index, (0,), False)))
            if lowest < 0:
                raise DTypeError(f"bincount() got {lowest}; it counts ints from 0")
            count = int(d.to_numpy(d.amax(index, (0,), False))) + 1
        count = max(count, least)
        if weights is None:
            ones = d.full(self.shape, 1, int64)
            return self._int(d.index_add(d.full((count,), 0, int64), 0, index, ones))
        if not isinstance(weights, TensorBase):
            raise KindError(f"bincount() takes its weights as a tensor, got {describe(weights)}")
        if weights.shape != self.shape:
            raise ShapeError(f"bincount() got shape {self.shape} with weights of shape {weights.shape}")
        together("bincount", self, weights)  # ints are the same on every level
        summed: Any = weights
        if weights.kind != "float":
            summed = weights._float(weights._device.to_float(weights._primitive, float64))
        b, values = summed._backend, summed._primitive
        return summed._like(b.index_add(b.full((count,), 0, values.dtype), 0, index, values))
