"""Elementwise formulas of large arrays as programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burnpy.backend.dtypes import float32, float64
from burnpy.backend.operations.lists import Formula
from burnpy_array.base import ArrayBase

LEAST = 2048
"""The number of elements from which one pass takes less time than several short ones."""


class Fused(ArrayBase):
    """Formulas in one pass over the memory, which a backend may compile, where arrays are large and alike."""

    def fused(self, formula: Formula, xs: Sequence[Any], numbers: tuple[float, ...] = ()) -> tuple[Any, ...]:
        if not self.fuses(xs):
            return formula(self, *xs, *numbers)
        from burnpy.backend.program.fused import in_one_pass  # not imported before the first large array

        return in_one_pass(self, formula, xs, numbers)

    def fuses(self, xs: Sequence[Any]) -> bool:
        return bool(xs[0].size >= LEAST and alike(xs))


def alike(xs: Sequence[Any]) -> bool:
    """Return whether arrays are of one shape and of one dtype that kernels have."""
    x = xs[0]
    shape, dtype = x.shape, x.dtype
    return (dtype is float32 or dtype is float64) and all(y.shape == shape and y.dtype is dtype for y in xs[1:])
