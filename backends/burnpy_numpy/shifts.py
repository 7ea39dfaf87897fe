"""Shifts of ints, of which NumPy defines those by more places than there are bits; in CUDA they are undefined."""

from __future__ import annotations

from typing import Any

import numpy as np

from burnpy_array.base import ArrayBase


class Shifts(ArrayBase):
    """Shifts of ints for NumPy."""

    def bitwise_left_shift(self, x: Any, y: Any) -> Any:
        return self._binary(np.left_shift, x, y)

    def bitwise_right_shift(self, x: Any, y: Any) -> Any:
        return self._binary(np.right_shift, x, y)
