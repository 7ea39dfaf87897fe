"""`ArrayBase`, the base class of the operation families: the array module ``xp`` and the method that calls it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from typing import Any

from burnpy.backend.backend import Backend
from burnpy.backend.dtypes import float32, float64, kind_of, nearest
from burnpy.backend.primitives import Dims, DType, Scalar

NUMBERS = frozenset({float, int, bool, complex})
"""The types of Python numbers. NumPy's float64 is a subclass of float, so `isinstance` would not tell them apart."""


class ArrayBase(Backend):
    """A backend on top of an array module ``xp``, which is an attribute of the class or the device. A primitive is an
    array of ``xp`` or, on NumPy, a NumPy scalar: NumPy returns scalars for 0-d results, and wrapping each in an array
    would take as long as the operation."""

    xp: Any

    @property
    def complex_arrays(self) -> bool:
        return True

    def storage_of(self, x: Any) -> tuple[Hashable, int]:
        size = int(x.nbytes)
        while getattr(x, "base", None) is not None:  # a view keeps the whole array that it is a view of alive
            x = x.base
            size = getattr(x, "nbytes", size)
        return id(x), size

    def _call(self, f: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
        """Call f(*args, **keywords) as the backend's library requires: on its GPU, or without warnings."""
        raise NotImplementedError

    def _share(self, work: Callable[[int, int], None], size: int, each: int = 1, *, products: bool = False) -> None:
        """Call work(start, stop) for parts that cover range(size), on several threads if that is faster. It is called
        within a `_call`. ``each`` is the number of array elements per element of the range, and ``products`` is whether
        ``work`` multiplies matrices."""
        work(0, size)

    def _binary(self, f: Callable[..., Any], x: Any, y: Any) -> Any:
        """Return f(x, y) for two primitives of the same kind and any dtypes, or for a primitive and a Python number."""
        if type(y) in NUMBERS:
            y = self._number(y, x.dtype)
        elif x.dtype is not y.dtype:
            x, y = self.promote(x, y)
        return self._call(f, x, y)

    def _of_one_shape(self, x: Any, y: Any) -> tuple[Any, Any]:
        """Broadcast a float primitive and another or a number; as they are, if their shapes or dtypes do not fit."""
        if type(y) in NUMBERS:
            return x, self.full(x.shape, y, x.dtype)
        if x.dtype is not y.dtype or x.shape == y.shape:
            return x, y
        with suppress(ValueError):  # the operation tells the user
            x, y = self._call(self.xp.broadcast_arrays, x, y)
        return x, y

    def _in_float32(self, method: Callable[..., Any], x: Any, *args: Any) -> list[Any]:
        """Call a method with 16-bit floats cast to float32, and round the floats that it returns to x's dtype."""
        wide = [self.cast(a, float32) if is_half(getattr(a, "dtype", float32)) else a for a in (x, *args)]
        results = method(*wide)
        results = results if type(results) is tuple else (results,)
        return [self.cast(out, x.dtype) if out.dtype is float32 else out for out in results]

    def _number(self, y: Scalar, dtype: DType) -> Any:
        """Convert a Python number for use as the second operand of a primitive of ``dtype``."""
        return dtype.type(nearest(y, dtype)) if dtype.kind == "V" else y  # weak promotion does not support bfloat16

    def _erf(self, x: Any) -> Any:
        """Return the error function of a float32 or float64 primitive; it is called within a `_call`."""
        raise NotImplementedError

    def _total(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        """Return the sum of a float primitive over ``dims``, which is not empty, accumulated in its own dtype."""
        return x.sum(dims, None, None, keepdim)


def in_order(sums: Mapping[int, Any]) -> Any:
    """Add the partial sums of a shared work, which are keyed by the start of their part, in the order of the parts. The
    result is in the memory of the first partial sum."""
    first, *rest = sorted(sums)
    total = sums[first]
    for start in rest:
        total += sums[start]
    return total


def is_half(dtype: DType) -> bool:
    """Return whether a dtype is float16 or bfloat16, whose sums and products are accumulated in float32."""
    return dtype is not float32 and dtype is not float64 and dtype.itemsize == 2 and kind_of(dtype) == "float"
