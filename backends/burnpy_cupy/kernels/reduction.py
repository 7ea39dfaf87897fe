"""Sums, products, means, extremes and their positions, `any` and `all`: one launch each, whatever dims and layout.

Views are read where they lie. The result for a row, one element of the output, is computed by a warp, by a block, or by
lanes of several warps where rows are neighbours in memory. Few long rows are divided among several blocks: each stores
its part, and the block that finds all others done combines the parts, in their order. So sums have the same bits in
every run.
"""

from __future__ import annotations

import math
import struct
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from burnpy.backend.dtypes import HALVES, dtype_of, int64, kind_of, uint8, uint32
from burnpy.backend.primitives import Dims, DType, Shape
from burnpy_array import ArrayBackend
from burnpy_cupy.cuda_graphs import capture
from burnpy_cupy.kernels.elementwise_kernel import C_NAMES, REGISTER, contiguous, headers_of
from burnpy_cupy.kernels.emitter import FUNCTIONS
from burnpy_cupy.kernels.launch import Launch, launcher, of_view
from burnpy_cupy.kernels.programs import OPTIONS
from burnpy_cupy.runtime import empty

_BATCH = 32
"""The bytes that a thread reads before it uses them; its elements are added up before the sum of others."""
_PLACES = {
    "warp": ("blockIdx.x * (index_t)blockDim.y + threadIdx.y", "threadIdx.x", "blockDim.x"),
    "block": ("blockIdx.x", "threadIdx.x", "blockDim.x"),
    "lanes": ("blockIdx.x * (index_t)blockDim.x + threadIdx.x", "threadIdx.y", "blockDim.y"),
}
"""By `Threads.kind`: a thread's row, its number among those of the row, and how many they are."""
_POSITION = """struct A { V value; long long index; };
__device__ inline A joined(const A& a, const A& b) {
  if (a.index < 0) return b;
  if (b.index < 0) return a;
  const bool a_is_nan = a.value != a.value, b_is_nan = b.value != b.value;
  if (a_is_nan != b_is_nan) return a_is_nan ? a : b;
  if (a_is_nan || a.value == b.value) return a.index < b.index ? a : b;
  return a.value COMPARED b.value ? a : b;
}
__device__ inline A beside(const A& a, int apart) {
  return A{V(__shfl_xor_sync(0xffffffffu, a.value, apart)), __shfl_xor_sync(0xffffffffu, a.index, apart)};
}"""
"""The position of the first extreme, or of the first NaN; -1 stands for none."""


_OF_WARP = """
__device__ inline A of_warp(A a) {
  for (int apart = 16; apart; apart /= 2) a = joined(a, beside(a, apart));
  return a;
}
"""
_ALL_OF = {
    "warp": f"""{_OF_WARP}
__device__ inline A all_of(A* const, const A a) {{ return of_warp(a); }}
""",
    "block": f"""{_OF_WARP}
__device__ inline A all_of(A* const memory, A a) {{
  a = of_warp(a);
  if (threadIdx.x % 32 == 0) memory[threadIdx.x / 32] = a;
  __syncthreads();
  return threadIdx.x < 32 ? of_warp(threadIdx.x < blockDim.x / 32 ? memory[threadIdx.x] : A(NOTHING)) : a;
}}
""",
    "lanes": """
__device__ inline A all_of(A* const memory, const A a) {
  A* const mine = memory + threadIdx.y * blockDim.x + threadIdx.x;
  *mine = a;
  for (unsigned half = blockDim.y / 2; half; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half) *mine = joined(*mine, mine[half * blockDim.x]);
  }
  return *mine;
}
""",
}
"""By `Threads.kind`: a function that gives the first thread of a row the combination of all of them."""


class Combination(NamedTuple):
    """How elements of a type are combined: the definition of the type A of partial results, and expressions."""

    definition: str  #: with ``joined(a, b)``, and ``beside(a, apart)`` of the thread so far apart in the warp
    nothing: str  #: the partial result of no elements
    one: str  #: the partial result of the element ``x`` at ``column``
    result: str  #: the result of ``total``, over ``columns`` elements


@cache
def combination(op: str, dtype: str) -> Combination:
    """Return how an operation combines elements of a dtype."""
    kind = kind_of(dtype_of(dtype))
    value = REGISTER[dtype]
    if op in ("argmax", "argmin"):
        text = _POSITION.replace("COMPARED", ">" if op == "argmax" else "<")
        return Combination(f"typedef {value} V;\n{text}", "A{V(0), -1}", "A{V(x), column}", "total.index")
    if op in ("amax", "amin"):
        name, sign = ("maximum_of", "-") if op == "amax" else ("minimum_of", "")
        nothing = f"A({sign}BURNPY_INFINITY)" if kind == "float" else _extreme(dtype, least=op == "amax")
        return Combination(_joined(value, f"{name}(a, b)"), nothing, "A(x)", "total")
    if op in ("any", "all"):
        joined, nothing = ("a || b", "false") if op == "any" else ("a && b", "true")
        return Combination(_joined("bool", joined), nothing, "x != T(0)", "total")
    sums = value if kind == "float" else "unsigned long long"  # which wraps around
    joined, nothing = ("a * b", "A(1)") if op == "prod" else ("a + b", "A(0)")
    return Combination(_joined(sums, joined), nothing, "A(x)", "total / A(columns)" if op == "mean" else "total")


def _joined(kind: str, expression: str) -> str:
    return f"""typedef {kind} A;
__device__ inline A joined(A a, A b) {{ return {expression}; }}
__device__ inline A beside(A a, int apart) {{ return A(__shfl_xor_sync(0xffffffffu, a, apart)); }}"""


def _extreme(dtype: str, least: bool) -> str:
    """Return the least or the greatest int of a dtype, as a literal."""
    if dtype == "bool":
        return "false" if least else "true"
    info = np.iinfo(dtype)
    number = int(info.min if least else info.max)
    suffix = "ULL" if dtype == "uint64" else "LL"
    return f"A({number + 1}{suffix} - 1)" if number < 0 else f"A({number}{suffix})"


def reduction_source(
    name: str, op: str, dtype: str, result: str, kind: str, block: int, *, planes: bool, wide: bool
) -> str:
    """Return the source of a kernel.

    Args:
        name: the name of the kernel.
        op: the operation.
        dtype: the dtype of the array.
        result: the dtype of the results.
        kind: see `Threads.kind`.
        block: the number of threads of a block.
        planes: whether the columns of a row are at two steps; at one, they are found without divisions.
        wide: whether positions are ints of 64 bits.
    """
    combined = combination(op, dtype)
    row, lane, lanes = _PLACES[kind]
    batch = min(16, _BATCH // dtype_of(dtype).itemsize)
    room = {"warp": 1, "block": 32, "lanes": block}[kind]
    column = "column / inner_column * step2 + column % inner_column * step3" if planes else "column * step3"
    narrow = f"{C_NAMES[result]}({REGISTER[result]}({combined.result}))" if result in HALVES else combined.result
    return f"""{headers_of((dtype, result))}{FUNCTIONS}
typedef {"long long" if wide else "int"} index_t;
typedef {C_NAMES[dtype]} T;
typedef {C_NAMES[result]} R;
{combined.definition}
struct burnpy_sizes {{
  long long rows, columns, inner_row, inner_column, step0, step1, step2, step3, span;
}};
{_ALL_OF[kind].replace("NOTHING", combined.nothing)}
extern "C" __global__ __launch_bounds__({block}) void {name}(
  const T* const __restrict__ in, R* const out, A* const parts, unsigned* const finished, const burnpy_sizes sizes) {{
  __shared__ A memory[{room}];
  __shared__ bool is_last;
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x, lane = {lane}, lanes = {lanes};
  const index_t rows = sizes.rows, columns = sizes.columns, span = sizes.span, wanted = {row};
  const index_t row = wanted < rows ? wanted : rows - 1, inner_row = sizes.inner_row;
  const index_t inner_column = sizes.inner_column, step2 = sizes.step2, step3 = sizes.step3;
  const index_t begin = blockIdx.y * span, stop = begin + span, end = stop < columns ? stop : columns;
  const bool writes = wanted < rows && lane == 0;
  const T* const first_column = in + (row / inner_row * (index_t)sizes.step0 + row % inner_row * (index_t)sizes.step1);
  A total = {combined.nothing};
  for (index_t first = begin + lane; first < end; first += {batch} * (index_t)lanes) {{
    T batch[{batch}];
#pragma unroll
    for (int k = 0; k < {batch}; k++) {{
      const index_t wanted = first + k * (index_t)lanes, column = wanted < end ? wanted : end - 1;
      batch[k] = first_column[{column}];
    }}
    A run = {combined.nothing};
#pragma unroll
    for (int k = 0; k < {batch}; k++) {{
      const index_t column = first + k * (index_t)lanes;
      const T x = batch[k];
      if (column < end) run = joined(run, {combined.one});
    }}
    total = joined(total, run);
  }}
  total = all_of(memory, total);
  if (gridDim.y > 1) {{
    if (writes) parts[blockIdx.y * (long long)rows + row] = total;
    __threadfence();
    __syncthreads();
    if (thread == 0) is_last = atomicAdd(&finished[blockIdx.x], 1u) + 1 == gridDim.y;
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    total = {combined.nothing};
    const long long apart = rows;
    for (unsigned part = lane; part < gridDim.y; part += lanes) total = joined(total, parts[part * apart + row]);
    total = all_of(memory, total);
    if (thread == 0) finished[blockIdx.x] = 0;
  }}
  if (writes) out[row] = {narrow};
}}
"""


_BLOCKS = 512
"""About the number of blocks that long rows are divided among."""
_LEAST_OF_THREAD = {"block": 8, "lanes": 4}
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
        if not dims or x.dtype.kind == "c":
            return super().sum(x, dims, keepdim)
        return self._call(self._reduced, "sum", x, dims, keepdim)

    def prod(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        if not dims or x.dtype.kind == "c":
            return super().prod(x, dims, keepdim)
        return self._call(self._reduced, "prod", x, dims, keepdim)

    def mean(self, x: Any, dims: Dims, keepdim: bool) -> Any:
        if not dims or x.dtype.kind == "c":
            return super().mean(x, dims, keepdim)
        return self._call(self._reduced, "mean", x, dims, keepdim)

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
        return super()._total(x, dims, keepdim) if x.dtype.kind == "c" else self._reduced("sum", x, dims, keepdim)

    def _reduced(self, op: str, x: Any, dims: Dims, keepdim: bool, dtype: DType | None = None) -> Any:
        """Launch a reduction, with results of its usual dtype or of another one; it is called within a `_call`."""
        xp = self.xp
        reduction = _reduction(xp, self.index, op, x.dtype, dtype, x.shape, x.strides, dims, keepdim)
        if reduction is None:  # of a view whose elements are at too many steps
            before = x.shape
            x = contiguous(xp, x.transpose([*[d for d in range(x.ndim) if d not in dims], *dims]))
            columns = math.prod(x.shape[x.ndim - len(dims) :])
            out = self._reduced(op, x.reshape((-1, columns)), (1,), False, dtype)
            return out.reshape(_shape(before, dims, keepdim))
        out = empty(xp, reduction.shape, reduction.dtype)
        if reduction.launch is None:
            if out.size:
                out.fill(_OF_NOTHING[op])
            return out
        if reduction.parts == 1:
            reduction.launch(x.data.ptr, out.data.ptr, 0, 0)
            return out
        parts = empty(xp, (reduction.parts, out.size, _PART_BYTES), uint8)
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
    if threads.kind in _LEAST_OF_THREAD:
        most = -(-geometry.columns // (_LEAST_OF_THREAD[threads.kind] * threads.lanes))
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
    if op in ("argmax", "argmin"):
        return int64
    return int64 if op in ("sum", "prod") and kind_of(dtype) != "float" else dtype


@cache
def _kernel(xp: Any, op: str, dtype: str, result: str, kind: str, block: int, planes: bool, wide: bool) -> Any:
    name = f"burnpy_{op}_{kind}"
    return xp.RawKernel(reduction_source(name, op, dtype, result, kind, block, planes=planes, wide=wide), name, OPTIONS)
