"""`NumPy`: the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from burnpy.backend.dtypes import kind_of
from burnpy.backend.primitives import Shape
from burnpy_array import ArrayBackend
from burnpy_array.base import NUMBERS
from burnpy_array.creation import contiguous
from burnpy_array.pointwise import division_by_zero
from burnpy_numpy.allocator import keep_freed_memory
from burnpy_numpy.fast import fast_methods
from burnpy_numpy.quiet import quietly, run


class NumPy(ArrayBackend):
    """Tensors on the CPU, as NumPy arrays.

    The first device made tells glibc to keep freed memory (`burnpy_numpy.allocator`); ``BURNPY_MALLOPT=0`` prevents it.
    """

    xp = np

    def __init__(self) -> None:
        super().__init__()
        keep_freed_memory()

    locals().update(fast_methods())

    def _call(self, f: Callable[..., Any], *args: Any) -> Any:
        try:
            return run(f, *args)
        except RuntimeError:
            return quietly(f, *args)

    def from_numpy(self, array: np.ndarray[Any, Any]) -> Any:
        return contiguous(array)

    def to_numpy(self, x: Any) -> np.ndarray[Any, Any]:
        return np.asarray(x)

    def reshape(self, x: Any, shape: Shape) -> Any:
        return x.reshape(shape)

    def _add_at(self, out: Any, dim: int, index: Any, src: Any) -> None:
        self._call(np.add.at, out, (*(slice(None),) * dim, index), src)

    def _refuse_zero(self, x: Any, y: Any, operation: str) -> None:
        if type(y) in NUMBERS:
            super()._refuse_zero(x, y, operation)
        elif kind_of(x.dtype) == "int" and not y.all():
            raise division_by_zero(operation, x)
