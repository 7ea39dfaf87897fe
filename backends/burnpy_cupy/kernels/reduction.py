"""Sums, products, means, extremes and their positions, `any` and `all`: one launch each, whatever dims and layout.

Views are read where they lie. The result for a row, one element of the output, is computed by a warp, by a block, or by
lanes of several warps where rows are neighbours in memory. Few long rows are divided among several blocks: each stores
its part, and the block that finds all others done combines the parts, in their order. So sums have the same bits in
every run. `burnpy_cupy.kernels.reduction_source` has the kernels.
"""

from __future__ import annotations

import math
import struct
from functools import cache, lru_cache
from typing import Any, NamedTuple

from burnpy.backend.dtypes import int64, kind_of, uint8, uint32
from burnpy.backend.primitives import Dims, DType, Shape
from burnpy_array import ArrayBackend
from burnpy_cupy.captures import capture
from burnpy_cupy.kernels.launch import OPTIONS
from burnpy_cupy.kernels.launcher import Launch, launcher
from burnpy_cupy.kernels.reduction_source import reduction_source
from burnpy_cupy.kernels.row_geometry import of_view

_BLOCKS = 512
"""About the number of blocks that long rows are divided among."""
_LEAST = {"block": 8, "lanes": 4}
"""The least number of elements that a thread of a divided row combines, by `Threads.kind`; a warp's is not divided."""
_PART_BYTES = 16
"""The most bytes of a partial result: of a value and its position."""
_OF_NOTHING = {"sum": 0, "prod": 1, "mean": math.nan, "any": False, "all": True}
"""The results for rows without elements; extremes have none."""


class CuPyReduction(ArrayBackend):
    """Reductions, each one launch. Positions of extremes are the first; NaN is the largest and the smallest."""

    index: int
    _finished: dict[int, tuple[Any, Any]]
    """For each stream, by its address: the stream, so that no other gets it, and the blocks' counters, all 0."""

    def sum(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        return self._call(self._reduced, "sum", x, dims, keepdim) if dims else super().sum(x, dims, keepdim)

    def prod(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        return self._call(self._reduced, "prod", x, dims, keepdim) if dims else super().prod(x, dims, keepdim)

    def mean(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        return self._call(self._reduced, "mean", x, dims, keepdim) if dims else super().mean(x, dims, keepdim)

    def amax(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        return self._call(self._reduced, "amax", x, dims, keepdim) if dims else super().amax(x, dims, keepdim)

    def amin(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        return self._call(self._reduced, "amin", x, dims, keepdim) if dims else super().amin(x, dims, keepdim)

    def any(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        return self._call(self._reduced, "any", x, dims, keepdim) if dims else super().any(x, dims, keepdim)

    def all(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        return self._call(self._reduced, "all", x, dims, keepdim) if dims else super().all(x, dims, keepdim)

    def argmax(self, x: Any, dim: int, keepdim: bool) -> Any:
        return self._call(self._reduced, "argmax", x, (dim,), keepdim)

    def argmin(self, x: Any, dim: int, keepdim: bool) -> Any:
        return self._call(self._reduced, "argmin", x, (dim,), keepdim)

    def _total(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        return self._reduced("sum", x, dims, keepdim)

    def _reduced(self, op: str, x: Any, dims: Dims, keepdim: bool, dtype: DType | None = None) -> Any:
        """Launch a reduction, with results of its usual dtype or of another one; it is called within a `_call`."""
        xp = self.xp
        reduction = _reduction(xp, self.index, op, x.dtype, dtype, x.shape, x.strides, dims, keepdim)
        if reduction is None:  # of a view whose elements are at too many steps
            before = x.shape
            x = xp.ascontiguousarray(x.transpose([*[d for d in range(x.ndim) if d not in dims], *dims]))
            columns = math.prod(x.shape[x.ndim - len(dims) :])
            out = self._reduced(op, x.reshape((-1, columns)), (1,), False, dtype)
            return out.reshape(_shape(before, dims, keepdim))
        out = xp.ndarray(reduction.shape, reduction.dtype)
        if reduction.launch is None:
            if out.size:
                out.fill(_OF_NOTHING[op])
            return out
        if reduction.parts == 1:
            reduction.launch(x.data.ptr, out.data.ptr, 0, 0)
            return out
        parts = xp.ndarray((reduction.parts, out.size, _PART_BYTES), uint8)
        reduction.launch(x.data.ptr, out.data.ptr, parts.data.ptr, self._counters().data.ptr)
        return out

    def _counters(self) -> Any:
        """Return an array of zeros, in which the blocks of a launch on the current stream count those that are done."""
        captured = capture.get()
        if captured is not None:  # in a graph, which sets them to zero first
            return captured.own("counters", self._zeros)
        stream = self.xp.cuda.get_current_stream()
        known = self._finished.get(stream.ptr)
        if known is None:
            known = self._finished[stream.ptr] = stream, self._zeros()
        return known[1]

    def _zeros(self) -> Any:
        return self.xp.zeros((_BLOCKS,), uint32)


class _Reduction(NamedTuple):
    """A launch for an array of known layout."""

    shape: Shape  #: of the results
    dtype: DType  #: of the results
    launch: Launch | None = None  #: None if rows have no elements, or there are no rows
    parts: int = 1  #: the number of blocks that each row is divided among


@lru_cache(8192)
def _reduction(
    xp: Any,
    device: int,
    op: str,
    dtype: DType,
    result: DType | None,
    shape: Shape,
    strides: Shape,
    dims: Dims,
    keepdim: bool,
) -> _Reduction | None:
    """Return the launch of a reduction on a device, which is current; None if the array has to be copied first."""
    out, result = _shape(shape, dims, keepdim), _result(op, dtype) if result is None else result
    if 0 in shape:
        return _Reduction(out, result)
    geometry = of_view(shape, tuple([stride // dtype.itemsize for stride in strides]), dims)
    if geometry is None:
        return None
    threads = geometry.threads(elementwise=False)
    grid = threads.blocks(geometry), 1
    if threads.kind in _LEAST:
        lanes = threads.x if threads.kind == "block" else threads.y
        most = -(-geometry.columns // (_LEAST[threads.kind] * lanes))
        grid = grid[0], min(most, max(1, _BLOCKS // grid[0]))
    planes = geometry.inner[1] < geometry.columns
    kernel = _kernel(xp, op, dtype.name, result.name, threads.kind, threads.block, planes, geometry.wide)
    sizes = (geometry.rows, geometry.columns, *geometry.inner, *geometry.steps, -(-geometry.columns // grid[1]))
    launch = launcher(xp, kernel, grid, (threads.x, threads.y), "4Q", struct.pack(f"={len(sizes)}q", *sizes))
    return _Reduction(out, result, launch, grid[1])


def _shape(shape: Shape, dims: Dims, keepdim: bool) -> Shape:
    """Return the shape of the results."""
    return tuple([1 if d in dims else n for d, n in enumerate(shape) if keepdim or d not in dims])


def _result(op: str, dtype: DType) -> DType:
    """Return the dtype of the results."""
    if op in ("argmax", "argmin"):
        return int64
    return int64 if op in ("sum", "prod") and kind_of(dtype) != "float" else dtype


@cache
def _kernel(xp: Any, op: str, dtype: str, result: str, kind: str, block: int, planes: bool, wide: bool) -> Any:
    name = f"burnpy_{op}_{kind}"
    return xp.RawKernel(reduction_source(name, op, dtype, result, kind, block, planes=planes, wide=wide), name, OPTIONS)
