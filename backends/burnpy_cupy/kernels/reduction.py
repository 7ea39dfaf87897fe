"""Reductions for which CuPy's functions differ from NumPy's."""

from __future__ import annotations

from typing import Any

from burnpy.backend.dtypes import float32
from burnpy.backend.primitives import Dims
from burnpy_array import ArrayBackend
from burnpy_array.array_base import is_half
from burnpy_cupy.kernels.library import Kernels, Reduction

_BEST = """
template <typename T> struct burnpy_best {
  T value;
  long long index;
  __device__ burnpy_best() : value(T()), index(-1) {}
  __device__ burnpy_best(T v, long long i) : value(v), index(i) {}
};
template <typename T>
__device__ burnpy_best<T> burnpy_better(const burnpy_best<T>& a, const burnpy_best<T>& b, bool most) {
  if (a.index < 0) return b;
  if (b.index < 0) return a;
  bool a_is_nan = a.value != a.value, b_is_nan = b.value != b.value;
  if (a_is_nan != b_is_nan) return a_is_nan ? a : b;
  if (a_is_nan || a.value == b.value) return a.index < b.index ? a : b;
  return (a.value > b.value) == most ? a : b;
}
"""


def _position(most: str) -> Reduction:
    """The reduction to the position of the first maximum or minimum, or of the first NaN; CuPy's finds any NaN."""
    return Reduction(
        "T x",
        "int64 y",
        "burnpy_best<T>(x, _J)",
        f"burnpy_better(a, b, {most})",
        "y = a.index",
        "burnpy_best<T>()",
        "burnpy_best<T>",
        _BEST,
    )


REDUCTIONS = {"burnpy_argmax": _position("true"), "burnpy_argmin": _position("false")}


class CuPyReduction(ArrayBackend):
    """Means in one launch, and positions of extremes that are the first, as NumPy's."""

    _kernels: Kernels

    def mean(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        if not (dims and x.size) or is_half(x.dtype):
            return super().mean(x, dims, keepdim)
        return self._call(x.mean, dims, None, None, keepdim)

    def argmax(self, x: Any, dim: int, keepdim: bool) -> Any:
        return self._position("argmax", x, dim, keepdim)

    def argmin(self, x: Any, dim: int, keepdim: bool) -> Any:
        return self._position("argmin", x, dim, keepdim)

    def _position(self, operation: str, x: Any, dim: int, keepdim: bool) -> Any:
        wide = self.cast(x, float32) if is_half(x.dtype) else x
        return self._call(self._kernels[f"burnpy_{operation}"], wide, axis=dim, keepdims=keepdim)
