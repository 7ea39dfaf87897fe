"""Custom CUDA kernels: where CuPy's functions differ from NumPy's, and where one launch replaces several."""

from __future__ import annotations

from typing import Any

from burnpy.backend.primitives import DType
from burnpy_cupy.attention_kernels import ATTENTION
from burnpy_cupy.convolution_kernels import CONVOLUTION
from burnpy_cupy.definitions import Elementwise, Reduction
from burnpy_cupy.indexing_kernels import INDEXING
from burnpy_cupy.pooling_kernels import POOLING
from burnpy_cupy.recurrence_kernels import RECURRENCE

_DIVISION = """
template <typename T> struct burnpy_wide { typedef float type; };
template <> struct burnpy_wide<double> { typedef double type; };
template <typename F> __device__ F burnpy_divmod(F a, F b, F& quotient) {
  F modulus = fmod(a, b);
  quotient = a / b;
  if (b == F(0)) return modulus;
  F exact = (a - modulus) / b;
  if (modulus == F(0)) modulus = copysign(F(0), b);
  else if ((b < F(0)) != (modulus < F(0))) modulus += b, exact -= F(1);
  if (exact == F(0)) quotient = copysign(F(0), quotient);
  else {
    quotient = floor(exact);
    if (exact - quotient > F(0.5)) quotient += F(1);
  }
  return modulus;
}
"""
"""NumPy's ``npy_divmod``. CuPy's own quotient is floor(x / y), which is 10 for 1.0 // 0.1, and 1 % inf is NaN."""

_DIVIDE = """
typedef burnpy_wide<T>::type F;
F quotient;
F modulus = burnpy_divmod(static_cast<F>(x), static_cast<F>(y), quotient);
"""

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


def _cat(count: int) -> Elementwise:
    """The kernel that concatenates arrays whose dimensions are (outer, sizes of the arrays, inner)."""
    names = range(count)
    picks = "".join(f"if (at < n{k}) y = x{k}[outer * n{k} + at]; else {{ at -= n{k}; " for k in names[:-1])
    return Elementwise(
        ", ".join([*(f"raw T x{k}" for k in names), *(f"int64 n{k}" for k in names), "int64 row"]),
        "T y",
        f"long long outer = i / row, at = i % row; {picks} y = x{count - 1}[outer * n{count - 1} + at];"
        + " }" * (count - 1),
    )


CATS = range(2, 9)
"""The numbers of arrays for which there is a kernel that concatenates them."""
ELEMENTWISE = {
    **{f"burnpy_cat_{count}": _cat(count) for count in CATS},
    "burnpy_floor_divide": Elementwise("T x, T y", "T z", _DIVIDE + "z = static_cast<T>(quotient);", _DIVISION),
    "burnpy_remainder": Elementwise("T x, T y", "T z", _DIVIDE + "z = static_cast<T>(modulus);", _DIVISION),
    "burnpy_floor_divide_by": Elementwise(
        "T x, float64 y", "T z", _DIVIDE + "z = static_cast<T>(quotient);", _DIVISION
    ),
    "burnpy_remainder_by": Elementwise("T x, float64 y", "T z", _DIVIDE + "z = static_cast<T>(modulus);", _DIVISION),
    "burnpy_arange": Elementwise("T start, T step", "T x", "x = start + static_cast<T>(i) * step"),
    "burnpy_note": Elementwise(
        "T value, int64 slot", "raw int64 memory", "memory[slot] = static_cast<long long>(value)"
    ),
    "burnpy_count": Elementwise(
        "int64 count, raw T total, int64 last", "int64 sum", "sum = count + llrint(static_cast<double>(total[last]))"
    ),
    "burnpy_bounded": Elementwise(
        "int64 index, int64 low, int64 high, int64 ignored, int64 slot",
        "int64 inside, raw int64 memory",
        "bool counts = index != ignored;"
        "if (counts && index < low) atomicMin(&memory[slot + 1], index);"
        "if (counts && index > high) atomicMax(&memory[slot + 2], index);"
        "inside = !counts || index < low ? low : index > high ? high : index",
    ),
    "burnpy_bias": Elementwise("P product, T bias", "Q out", "out = static_cast<Q>(product + static_cast<P>(bias))"),
    **CONVOLUTION,
    **INDEXING,
    **POOLING,
    **RECURRENCE,
}
RAW = {**ATTENTION}
REDUCTIONS = {"burnpy_argmax": _position("true"), "burnpy_argmin": _position("false")}


_MANY = 1 << 31
_FOR_MANY = "_many"
_OPTIONS = ("--fmad=false",)
"""Options of raw kernels: a score is rounded before its maximum is subtracted, as it was when the maximum was found."""

_C = {"float32": "float", "float64": "double"}
"""CUDA's names of dtypes, where they differ."""


class Kernels:
    """The kernels by name, created on first access; CuPy compiles each for the dtypes it is called with."""

    def __init__(self, xp: Any) -> None:
        self._xp = xp
        self._kernels: dict[str, Any] = {}

    def counting(self, name: str, *arrays: Any) -> Any:
        """Return an elementwise kernel that counts elements of these arrays, in 32 bits where these are enough."""
        return self[name if max(x.size for x in arrays) < _MANY else f"{name}{_FOR_MANY}"]

    def typed(self, name: str, **types: DType) -> Any:
        """Return a raw kernel for the dtypes that its source names by letters."""
        key = " ".join([name, *(t.name for t in types.values())])
        kernel = self._kernels.get(key)
        if kernel is None:
            source = RAW[name].typed(**{letter: _C.get(t.name, t.name) for letter, t in types.items()})
            kernel = self._kernels[key] = self._xp.RawKernel(source, name, _OPTIONS)
        return kernel

    def __getitem__(self, name: str) -> Any:
        kernel = self._kernels.get(name)
        if kernel is None:
            # two threads at once may create it twice, which is harmless: the kernels are equal
            kernel = self._kernels[name] = _created(self._xp, name)
        return kernel


def _created(xp: Any, name: str) -> Any:
    base = name.removesuffix(_FOR_MANY)
    if base in ELEMENTWISE:
        e = ELEMENTWISE[base] if base == name else ELEMENTWISE[base].for_many()
        return xp.ElementwiseKernel(e.inputs, e.outputs, e.code, name, e.reduce_dims, preamble=e.preamble)
    r = REDUCTIONS[name]
    return xp.ReductionKernel(
        r.inputs, r.outputs, r.map, r.reduce, r.post, r.identity, name, reduce_type=r.type, preamble=r.preamble
    )
