"""The arrays of lists as tables of addresses, by which one kernel finds all of them.

The table is the last parameter of a kernel and has at most 4 KB, so nothing is copied to the GPU beforehand and nothing
waits. When the table is full, there are further launches. The arrays are divided into parts of `PART` elements, whose
blocks find their array by bisection."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import accumulate, chain
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from burnpy.backend.dtypes import float64
from burnpy.backend.operations.programs import widest
from burnpy.backend.primitives import DType
from burnpy_cupy.kernels.elementwise_kernel import C_NAMES, REGISTER, copied, headers_of
from burnpy_cupy.kernels.emitter import FUNCTIONS
from burnpy_cupy.kernels.launch import Launch, launcher
from burnpy_cupy.kernels.programs import OPTIONS
from burnpy_cupy.runtime import empty

PART = 4096
"""The number of elements of a part of an array, which one block computes."""
THREADS = 256
SUMMED = 2048
"""The number of parts whose sums one block adds up, before one block adds these up."""
_SIZE, _ADDRESS, _IS_CONTIGUOUS = attrgetter("size"), attrgetter("data.ptr"), attrgetter("_c_contiguous")
_PARAMETERS = 4000
"""The bytes that a table may take; a kernel has a few numbers besides."""
_TABLE = """
struct burnpy_table {
  unsigned long long arrays[COUNT * COLUMNS];
  long long sizes[COUNT];
  int positions[COUNT];
  int firsts[COUNT + 1];
  int count;
};
#define BURNPY_FIND \\
  const int part = blockIdx.x; \\
  int row = 0; \\
  for (int last = table.count - 1; row < last;) { \\
    const int middle = (row + last + 1) / 2; \\
    if (table.firsts[middle] <= part) row = middle; else last = middle - 1; \\
  } \\
  const unsigned long long* const arrays = table.arrays + row * COLUMNS; \\
  const long long start = (long long)(part - table.firsts[row]) * PART; \\
  const long long left = table.sizes[row] - start, end = start + (left < PART ? left : PART);
"""
"""The addresses of ``count`` arrays, their sizes, positions in the lists, and first parts."""


class TableLayout(NamedTuple):
    """A table without the addresses that it begins with."""

    rows: slice  #: of the arrays that are not empty
    parts: int  #: the number of parts of all its arrays
    rest: bytes  #: what follows the addresses


@lru_cache(256)
def table_layouts(columns: int, sizes: tuple[int, ...], positions: tuple[int, ...]) -> list[TableLayout]:
    """Return the tables of lists of arrays of some sizes.

    Args:
        columns: the number of lists.
        sizes: the number of elements of each array of a list. Those that are empty are left out.
        positions: the position of each array in the lists that the operation got.
    """
    full = [(k, size) for k, size in zip(positions, sizes, strict=True) if size]
    count, tables = capacity(columns), []
    for begin in range(0, len(full), count):
        rows = full[begin : begin + count]
        firsts = [0, *accumulate([-(-size // PART) for _, size in rows])]
        table = np.zeros((), _table_dtype(columns))
        table["positions"][: len(rows)], table["sizes"][: len(rows)] = zip(*rows, strict=True)
        table["firsts"][: len(firsts)] = firsts
        table["count"] = len(rows)
        rest = table.tobytes()[8 * columns * len(rows) :]
        tables.append(TableLayout(slice(begin, begin + len(rows)), firsts[-1], rest))
    return tables


def table_launches(
    xp: Any,
    kernel: Any,
    given: str,
    columns: Sequence[Sequence[Any]],
    positions: tuple[int, ...],
    *,
    by_rows: bool = False,
) -> Iterator[tuple[TableLayout, Launch, list[int]]]:
    """Yield the tables of arrays, each with the launch of a kernel and with the addresses, its last arguments.

    Args:
        xp: the module cupy.
        kernel: a `cupy.RawKernel`.
        given: the format of the kernel's other parameters.
        columns: lists of arrays, which are C-contiguous.
        positions: the position of each array in the lists that the operation got.
        by_rows: whether the kernel has a block for each array, not for each part.
    """
    sizes = tuple(map(_SIZE, columns[0]))
    rows = [*zip(*[map(_ADDRESS, column) for column in columns], strict=True)]
    if 0 in sizes:
        rows = [row for row, size in zip(rows, sizes, strict=True) if size]
    device = xp.cuda.runtime.getDevice()
    for layout, launch in _launches(xp, device, kernel, given, len(columns), sizes, positions, by_rows):
        yield layout, launch, [*chain.from_iterable(rows[layout.rows])]


@lru_cache(256)
def _launches(
    xp: Any,
    device: int,
    kernel: Any,
    given: str,
    columns: int,
    sizes: tuple[int, ...],
    positions: tuple[int, ...],
    by_rows: bool,
) -> list[tuple[TableLayout, Launch]]:
    """Return the launches of a kernel, one for each table, on a device, which is the current one."""
    launches = []
    for layout in table_layouts(columns, sizes, positions):
        count = layout.rows.stop - layout.rows.start
        grid = count if by_rows else layout.parts, 1
        launches.append((layout, launcher(xp, kernel, grid, (THREADS, 1), f"{given}{columns * count}Q", layout.rest)))
    return launches


class NamedTable(NamedTuple):
    """A table whose addresses are to be filled in."""

    content: bytes
    arrays: dict[int, str]  #: the names of the arrays by the positions of their addresses in bytes
    parts: int


def named_tables(rows: Sequence[Sequence[str]], sizes: Sequence[int]) -> list[NamedTable]:
    """Return the tables of arrays without empty ones, given their names row by row and the sizes of the rows."""
    tables = []
    for layout in table_layouts(len(rows[0]), tuple(sizes), tuple(range(len(sizes)))):
        names = [name for row in rows[layout.rows] for name in row]
        content = bytes(8 * len(names)) + layout.rest
        tables.append(NamedTable(content, {8 * k: name for k, name in enumerate(names)}, layout.parts))
    return tables


def capacity(columns: int) -> int:
    """Return how many arrays of each of this many lists a table has."""
    return (_PARAMETERS - 8) // (8 * columns + 16)


@cache
def _table_dtype(columns: int) -> np.dtype[Any]:
    count = capacity(columns)
    fields: list[Any] = [("arrays", np.uint64, (count * columns,)), ("sizes", np.int64, (count,))]
    fields += [("positions", np.int32, (count,)), ("firsts", np.int32, (count + 1,)), ("count", np.int32)]
    return np.dtype(fields, align=True)


def table_source(columns: int) -> str:
    """Return the source of a table of this many lists, and of how a block finds its array."""
    return _TABLE.replace("COUNT", str(capacity(columns))).replace("COLUMNS", str(columns)).replace("PART", str(PART))


def contiguous(xp: Any, xs: Sequence[Any]) -> Sequence[Any]:
    """Return arrays in row-major order; copies of others."""
    return xs if all(map(_IS_CONTIGUOUS, xs)) else [x if x._c_contiguous else copied(xp, x) for x in xs]


_SMALL, _BIG = "1.4916681462400413e-154", "1.997919072202235e+146"
_UP, _DOWN = "4.4989137945431964e+161", "1.1113793747425387e-162"
_REDUCE = f"""
__device__ void burnpy_add(double* sums, double x) {{
  const double size = fabs(x);
  if (KIND != 2) sums[0] = KIND == 0 ? maximum_of(sums[0], size) : sums[0] + size;
  else if (size > {_BIG}) sums[1] += (x * {_DOWN}) * (x * {_DOWN});
  else if (size < {_SMALL}) sums[2] += (x * {_UP}) * (x * {_UP});
  else sums[0] += x * x;
}}
__device__ void burnpy_all(double* sums) {{
  __shared__ double parts[{THREADS}];
#pragma unroll  // so that the sums are in registers
  for (int k = 0; k < 3; k++) {{
    parts[threadIdx.x] = sums[k];
    for (int half = {THREADS} / 2; half; half /= 2) {{
      __syncthreads();
      if (threadIdx.x < half) {{
        const double a = parts[threadIdx.x], b = parts[threadIdx.x + half];
        parts[threadIdx.x] = KIND == 0 ? maximum_of(a, b) : a + b;
      }}
    }}
    __syncthreads();
    sums[k] = parts[0];
    __syncthreads();
  }}
}}
"""
"""Sums of powers in float64; squares of large numbers and of small ones by themselves, multiplied by a power of 2.

Source: Blue, A Portable Fortran Program to Find the Euclidean Norm of a Vector, 1978; the bounds are those of Anderson,
Safe Scaling in the Level 1 BLAS, 2017. The kind is 2 for squares, 1 for magnitudes, 0 for the largest of them.
"""

_BATCH = 8
"""The number of elements that a thread reads before it adds the first."""
_PARTS = f"""
extern "C" __global__ __launch_bounds__({THREADS}) void burnpy_norm_parts(
  double* const out, const burnpy_table table) {{
  BURNPY_FIND
  const T* const x = (const T*)arrays[0];
  double sums[3] = {{0, 0, 0}};
  for (long long first = start + threadIdx.x; first < end; first += {_BATCH}LL * blockDim.x) {{
    R batch[{_BATCH}];
#pragma unroll
    for (int k = 0; k < {_BATCH}; k++) {{
      const long long at = first + (long long)k * blockDim.x;
      batch[k] = at < end ? (R)x[at] : R(0);
    }}
#pragma unroll
    for (int k = 0; k < {_BATCH}; k++) burnpy_add(sums, (double)batch[k]);
  }}
  burnpy_all(sums);
  if (threadIdx.x == 0)
#pragma unroll
    for (int k = 0; k < 3; k++) out[part * 3LL + k] = sums[k];
}}
"""
_ROOT = f"""
__device__ void burnpy_gather(const double* parts, const long long begin, const long long end, double* sums) {{
  for (long long at = begin + threadIdx.x; at < end; at += blockDim.x)
#pragma unroll
    for (int k = 0; k < 3; k++)
      sums[k] = KIND == 0 ? maximum_of(sums[k], parts[at * 3 + k]) : sums[k] + parts[at * 3 + k];
}}
__device__ void burnpy_norm(const double* const parts, const long long begin, const long long end, R* const out) {{
  double sums[3] = {{0, 0, 0}};
  burnpy_gather(parts, begin, end, sums);
  burnpy_all(sums);
  if (threadIdx.x) return;
  double norm = KIND == 2 ? sqrt(sums[0]) : sums[0];
  if (sums[1] > 0) norm = sqrt(sums[1] + (norm * {_DOWN}) * (norm * {_DOWN})) / {_DOWN};
  else if (sums[2] > 0 && !(norm > {_SMALL} * 1e8)) norm = sqrt(sums[2] + (norm * {_UP}) * (norm * {_UP})) / {_UP};
  *out = (R)norm;
}}
extern "C" __global__ __launch_bounds__({THREADS}) void burnpy_norm_sums(
  const double* const parts, const long long count, double* const out) {{
  double sums[3] = {{0, 0, 0}};
  const long long each = (count + gridDim.x - 1) / gridDim.x, start = blockIdx.x * each;
  burnpy_gather(parts, start, start + each < count ? start + each : count, sums);
  burnpy_all(sums);
  if (threadIdx.x == 0)
#pragma unroll
    for (int k = 0; k < 3; k++) out[blockIdx.x * 3LL + k] = sums[k];
}}
extern "C" __global__ __launch_bounds__({THREADS}) void burnpy_total_norm(
  const double* const parts, const long long count, R* const out) {{
  burnpy_norm(parts, 0, count, out);
}}
extern "C" __global__ __launch_bounds__({THREADS}) void burnpy_each_norm(
  const double* const parts, R* const out, const burnpy_table table) {{
  const int row = blockIdx.x;
  burnpy_norm(parts, table.firsts[row], table.firsts[row + 1], out + table.positions[row]);
}}
"""


class NormKernels(NamedTuple):
    """The kernels of norms: of parts of arrays, then of these norms for each array, or for all arrays."""

    parts: Any
    sums: Any  #: of parts, where these are many
    each: Any
    total: Any


@cache
def norm_kernels(xp: Any, p: float, dtype: DType, result: DType) -> NormKernels:
    """Return the kernels of the norms of arrays of a dtype, in another.

    Args:
        xp: the module cupy.
        p: 1, 2 or ∞.
        dtype: the dtype of the arrays.
        result: the dtype of the norms: float32 or float64.
    """
    kind = {1.0: 1, 2.0: 2}.get(p, 0)
    head = f"{headers_of([dtype.name])}{FUNCTIONS}{table_source(1)}"

    def kernel(body: str, name: str, of: DType) -> Any:
        types = f"typedef {C_NAMES[of.name]} T;\ntypedef {REGISTER[of.name]} R;"
        text = f"{head}\n#define KIND {kind}\n{types}\n{_REDUCE}{body}"
        return xp.RawKernel(text, name, OPTIONS)

    each, total = kernel(_ROOT, "burnpy_each_norm", result), kernel(_ROOT, "burnpy_total_norm", result)
    return NormKernels(
        kernel(_PARTS, "burnpy_norm_parts", dtype), kernel(_ROOT, "burnpy_norm_sums", result), each, total
    )


def run_norms(xp: Any, xs: Sequence[Any], p: float, each: bool) -> Any:
    """Return the norm of each array, or the norm of all."""
    result = widest(xs)
    groups: dict[Any, list[int]] = {}
    for k, x in enumerate(xs):
        if x.size:
            groups.setdefault(x.dtype, []).append(k)
    if not groups:
        return xp.zeros((len(xs),) if each else (), result)
    arrays = contiguous(xp, xs)
    of_dtypes = [
        (norm_kernels(xp, p, dtype, result), [[arrays[k] for k in positions]], tuple(positions))
        for dtype, positions in groups.items()
    ]
    tables = [[*table_launches(xp, kernels.parts, "Q", lists, positions)] for kernels, lists, positions in of_dtypes]
    count = sum([layout.parts for launches in tables for layout, *_ in launches])
    parts = empty(xp, (count, 3), float64)
    out = xp.zeros((len(xs),), result) if each else empty(xp, (), result)
    start = parts.data.ptr
    for (kernels, lists, positions), launches in zip(of_dtypes, tables, strict=True):
        starts = []
        for layout, launch, addresses in launches:
            starts.append(start)
            launch(start, *addresses)
            start += layout.parts * 3 * float64.itemsize
        if each:
            by_row = table_launches(xp, kernels.each, "QQ", lists, positions, by_rows=True)
            for begin, (_, launch, addresses) in zip(starts, by_row, strict=True):
                launch(begin, out.data.ptr, *addresses)
    if each:
        return out
    kernels, device = of_dtypes[0][0], xp.cuda.runtime.getDevice()
    if count > SUMMED:
        blocks = -(-count // SUMMED)
        sums = empty(xp, (blocks, 3), float64)
        _adding(xp, device, kernels.sums, blocks)(parts.data.ptr, count, sums.data.ptr)
        parts, count = sums, blocks
    _adding(xp, device, kernels.total, 1)(parts.data.ptr, count, out.data.ptr)
    return out


@lru_cache(256)
def _adding(xp: Any, device: int, kernel: Any, blocks: int) -> Launch:
    """Return the launch of blocks that add up parts, given these, their number and the result."""
    return launcher(xp, kernel, (blocks, 1), (THREADS, 1), "QqQ")
