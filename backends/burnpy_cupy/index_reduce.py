"""Reducing slices by index in place: products, minima and maxima, for which CUDA has no atomic float operations."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from burnpy.backend.dtypes import float32, int32, kind_of, uint32

_COMBINED = {
    "prod": "current * value",
    "amin": "value < current || value != value ? value : current",
    "amax": "value > current || value != value ? value : current",
}
"""The C expressions that replace ``current``; a NaN stays, as comparisons with it are false."""

_SOURCE = """
{bits}* const target = reinterpret_cast<{bits}*>(&out[place]);
{bits} seen = *target, before;
do {{
    before = seen;
    const T current = reinterpret_cast<const T&>(before);
    const T combined = {combined};
    const {bits} after = reinterpret_cast<const {bits}&>(combined);
    if (after == before) break;
    seen = atomicCAS(target, before, after);
}} while (seen != before);
"""
"""The kernel: compare and swap, repeated until no other thread has changed the element in between. Source: NVIDIA,
CUDA C++ Programming Guide, atomic functions."""


def reduce_at(xp: Any, out: Any, dim: int, index: Any, src: Any, reduce: str) -> None:
    """Reduce the slices of src along ``dim`` into the slices of ``out`` at ``index``, in place; out is contiguous."""
    if out.dtype.itemsize < 4:  # atomicCAS supports 4 and 8 bytes
        wide = out.astype(_wide(out.dtype))
        reduce_at(xp, wide, dim, index, src.astype(wide.dtype), reduce)
        out[...] = wide
        return
    outer, size, inner = math.prod(out.shape[:dim]), out.shape[dim], math.prod(out.shape[dim + 1 :])
    rows = xp.add(xp.arange(0, outer * size, size).reshape((outer, 1, 1)), index.reshape((1, -1, 1)))
    place = xp.add(xp.multiply(rows, inner), xp.arange(inner).reshape((1, 1, inner)))
    _kernel(xp, reduce, out.dtype.itemsize)(place, src.reshape(place.shape), out)


def _wide(dtype: Any) -> Any:
    if kind_of(dtype) == "float":
        return float32
    return int32 if dtype.kind == "i" else uint32


@cache
def _kernel(xp: Any, reduce: str, itemsize: int) -> Any:
    bits = "unsigned int" if itemsize == 4 else "unsigned long long"
    source = _SOURCE.format(bits=bits, combined=_COMBINED[reduce])
    return xp.ElementwiseKernel("int64 place, T value", "raw T out", source, f"burnpy_index_{reduce}_{itemsize}")
