"""The ground under the families: the array module ``xp`` and the one way to call it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

from burnpy.backend.backend import Backend
from burnpy.backend.dtypes import float32, float64, kind_of
from burnpy.backend.primitives import Dims, DType, Scalar

NUMBERS = frozenset({float, int, bool})
"""The types of Python numbers. NumPy's float64 is a subclass of float, so `isinstance` would not tell them apart."""


class ArrayBase(Backend):
    """A backend of the array module ``xp``, an attribute of the class or the device.

    A primitive is an array of ``xp`` or, on NumPy, a NumPy scalar: NumPy gives those for 0-d results, and to wrap
    each in an array would cost as much as the operation.
    """

    xp: Any

    def storage_of(self, x: Any) -> tuple[Hashable, int]:
        size = int(x.nbytes)
        while getattr(x, "base", None) is not None:  # of a view: what it is a view of, all of which it keeps alive
            x = x.base
            size = getattr(x, "nbytes", size)
        return id(x), size

    def _call(self, f: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
        """f(*args, **keywords) as this backend must call its library: on its GPU, or without warnings."""
        raise NotImplementedError

    def _share(self, work: Callable[[int, int], None], size: int, each: int = 1, *, products: bool = False) -> None:
        """work(start, stop) for parts that cover range(size), within a `_call`: on several threads, where that pays.

        ``each`` says how many elements of arrays stand for one of range(size), and ``products`` whether matrices are
        multiplied.
        """
        work(0, size)

    def _binary(self, f: Callable[..., Any], x: Any, y: Any) -> Any:
        """f(x, y) for two primitives of any dtypes of a kind, or for a primitive and a Python number."""
        if type(y) in NUMBERS:
            y = self._number(y, x.dtype)
        elif x.dtype is not y.dtype:
            x, y = self.promote(x, y)
        return self._call(f, x, y)

    def _number(self, y: Scalar, dtype: DType) -> Any:
        """A Python number as the second operand of a primitive of ``dtype``."""
        return dtype.type(y) if dtype.kind == "V" else y  # weak promotion does not know bfloat16

    def _erf(self, x: Any) -> Any:
        """The error function of float32 or float64, within a `_call`."""
        raise NotImplementedError

    def _total(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        """The sum of floats over ``dims``, which are not (), accumulated in their own dtype."""
        return x.sum(dims, None, None, keepdim)


def in_order(sums: Mapping[int, Any]) -> Any:
    """The sum of what the parts of a shared work have summed up, by where they begin; in the memory of the first."""
    first, *rest = sorted(sums)
    total = sums[first]
    for start in rest:
        total += sums[start]
    return total


def is_half(dtype: DType) -> bool:
    """Whether a dtype is float16 or bfloat16, of which sums and products are accumulated in float32."""
    return dtype is not float32 and dtype is not float64 and dtype.itemsize == 2 and kind_of(dtype) == "float"
