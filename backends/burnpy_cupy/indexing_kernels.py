"""Kernels that select by index and add at an index, for arrays with any strides.

A thread writes one element of the result, but for ``burnpy_scatter_add``, where several may add to one place: they do
so by atomic additions, in any order.
"""

from __future__ import annotations

from burnpy_cupy.definitions import Elementwise

_PLACE = """
ptrdiff_t at[_ind.ndim];
for (int d = 0; d < _ind.ndim; d++) at[d] = _ind.get()[d];
"""
"""The indices of the element, of which that along ``dim`` is then replaced."""

INDEXING = {
    "burnpy_gather": Elementwise(
        "raw T x, int64 index, int32 dim", "T out", f"{_PLACE}at[dim] = index; out = x[at];", reduce_dims=False
    ),
    "burnpy_scatter_add": Elementwise(
        "T src, int64 index, int32 dim",
        "raw T out",
        f"{_PLACE}at[dim] = index; atomicAdd(&out[at], src);",
        reduce_dims=False,
    ),
}
