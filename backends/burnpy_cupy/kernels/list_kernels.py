"""Kernels for all arrays of lists at once, which find the arrays by a table of addresses.

The table is a parameter of the kernel and has at most 4 KB, so nothing is copied to the GPU beforehand and nothing
waits. When the table is full, there are further launches. The arrays are divided into parts of `PART` elements, whose
blocks find their array by bisection.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from burnpy.backend.dtypes import dtype_of
from burnpy.backend.operations.lists import Formula
from burnpy.backend.program import Extent, Input, Program, ProgramError, trace
from burnpy_cupy.kernels.emitter import FUNCTIONS, HEADERS, MEMORY, REGISTER, expression
from burnpy_cupy.kernels.launch import OPTIONS

PART = 4096
"""The number of elements of a part of an array, which one block computes."""
_THREADS = 256
_AHEAD = 4
"""The number of elements that a thread reads before it writes one, as a result may be in the memory of an array."""
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


class Batch(NamedTuple):
    """A launch: the table, and the number of parts."""

    table: Any
    parts: int


def batches(columns: Sequence[Sequence[Any]], positions: Sequence[int]) -> list[Batch]:
    """Return the tables of arrays.

    Args:
        columns: lists of arrays, which are C-contiguous. Those that are empty are left out.
        positions: the position of each array in the lists that the operation got.
    """
    full = [(k, rows[0].size, rows) for k, *rows in zip(positions, *columns, strict=True) if rows[0].size]
    count, dtype = capacity(len(columns)), _table_dtype(len(columns))
    tables = []
    for begin in range(0, len(full), count):
        rows = full[begin : begin + count]
        table = np.zeros((), dtype)
        firsts = [0, *accumulate(-(-size // PART) for _, size, _ in rows)]
        table["arrays"][: len(rows) * len(columns)] = [x.data.ptr for _, _, xs in rows for x in xs]
        table["sizes"][: len(rows)] = [size for _, size, _ in rows]
        table["positions"][: len(rows)] = [k for k, _, _ in rows]
        table["firsts"][: len(firsts)] = firsts
        table["count"] = len(rows)
        tables.append(Batch(table[()], firsts[-1]))
    return tables


def capacity(columns: int) -> int:
    """Return how many arrays of each of so many lists a table has."""
    return (_PARAMETERS - 8) // (8 * columns + 16)


@cache
def _table_dtype(columns: int) -> np.dtype[Any]:
    count = capacity(columns)
    fields: list[Any] = [("arrays", np.uint64, (count * columns,)), ("sizes", np.int64, (count,))]
    fields += [("positions", np.int32, (count,)), ("firsts", np.int32, (count + 1,)), ("count", np.int32)]
    return np.dtype(fields, align=True)


def _head(columns: int) -> str:
    return _TABLE.replace("COUNT", str(capacity(columns))).replace("COLUMNS", str(columns)).replace("PART", str(PART))


class FormulaKernel(NamedTuple):
    """A kernel of a formula, for arrays of one dtype, as `burnpy.backend.explain` lists it."""

    program: Program
    text: str
    function: Any  #: cupy.RawKernel

    def launch(self, batch: Batch, numbers: Sequence[Any]) -> None:
        """Compute one batch."""
        self.function((batch.parts,), (_THREADS,), (batch.table, *numbers))


@cache
def formula_kernel(
    xp: Any, formula: Formula, dtypes: tuple[str, ...], numbers: tuple[str, ...], flags: tuple[bool, ...], gated: bool
) -> FormulaKernel | None:
    """Return the kernel of a formula; None if it is not elementwise, or has instructions that kernels have not.

    Args:
        xp: the module cupy.
        formula: the formula.
        dtypes: the dtype of the arrays of each list; all but the first are converted to the first dtype.
        numbers: for each number "" if it is Python's, else the dtype of the array that holds it.
        flags: its flags.
        gated: whether the kernel takes a bool by which it copies parameters and states instead.
    """
    first, arrays = dtype_of(dtypes[0]), len(dtypes)
    inputs = [Input(Extent.FULL, dtype) for dtype in dtypes] + [Input(Extent.SCALAR, dtypes[0])] * len(numbers)

    def converted(b: Any, *args: Any) -> tuple[Any, ...]:
        return formula(b, *[b.cast(x, first) for x in args[:arrays]], *args[arrays:])

    try:
        program = trace(converted, tuple(inputs), *flags, name=formula.__name__)
        if not program.elementwise:
            return None
        name = f"burnpy_each_{re.sub('[^A-Za-z0-9]+', '_', program.name)}"
        text = _text(program, name, arrays, numbers, gated)
    except ProgramError:
        return None
    return FormulaKernel(program, text, xp.RawKernel(text, name, OPTIONS))


def _text(program: Program, name: str, arrays: int, numbers: tuple[str, ...], gated: bool) -> str:
    """Return the source of an elementwise program for all arrays of lists."""
    steps = program.instructions
    columns = arrays + len(program.outputs)
    parameters = ["const burnpy_table table", *(["const bool* const skipped"] if gated else [])]
    before: list[str] = []
    inside: list[str] = []
    for k, held in enumerate(numbers):
        if held:
            parameters.append(f"const {MEMORY[held]}* const numbers{k}, const long long step{k}")
            before.append(
                f"const double number{arrays + k} = ({REGISTER[held]})numbers{k}[table.positions[row] * step{k}];"
            )
        else:
            parameters.append(f"const double number{arrays + k}")
    for k, step in enumerate(steps):
        kind = REGISTER[step.dtype]
        if step.op == "input":
            scalar = step.extent is Extent.SCALAR
            text = f"({kind})number{step.value}" if scalar else f"({kind})x{step.value}[k]"
        else:
            text = expression(step, [f"v{a}" for a in step.args], [steps[a].dtype for a in step.args])
        (before if step.extent is Extent.SCALAR else inside).append(f"const {kind} v{k} = {text};")
    pointers = [f"in{k}" for k in range(arrays)] + [f"out{k}" for k in range(len(program.outputs))]
    dtypes = [steps[k].dtype for k in program.outputs]
    kinds = [f"const {MEMORY[given.dtype]}" for given in program.inputs[:arrays]] + [MEMORY[dtype] for dtype in dtypes]
    for k, (pointer, kind) in enumerate(zip(pointers, kinds, strict=True)):
        before.append(f"{kind}* const {pointer} = ({kind}*)arrays[{k}];")
    inside += [f"out{number}[at] = v{k};" for number, k in enumerate(program.outputs)]
    if gated:
        before.append("const bool copies = *skipped;")
        copied = [f"out{k}[at] = x{k + (k > 0)}[k];" for k in range(len(program.outputs))]
        inside = [f"if (copies) {{ {' '.join(copied)} continue; }}", *inside]
    used = {step.dtype for step in steps}
    source = [
        *[f"#include <{header}>" for dtype, header in HEADERS.items() if dtype in used],
        FUNCTIONS,
        _head(columns),
        f'extern "C" __global__ void {name}({", ".join(parameters)}) {{',
        "  BURNPY_FIND",
        *[f"  {line}" for line in before],
        f"  for (long long first = start + threadIdx.x; first < end; first += {_AHEAD * _THREADS}) {{",
        *[f"    {MEMORY[given.dtype]} x{k}[{_AHEAD}];" for k, given in enumerate(program.inputs[:arrays])],
        *_each_ahead([f"x{k}[k] = in{k}[at];" for k in range(arrays)]),
        *_each_ahead(inside),
        "  }",
        "}",
        "",
    ]
    return "\n".join(source)


def _each_ahead(lines: list[str]) -> list[str]:
    """Return the loop over the elements that a thread has at a time."""
    return [
        "#pragma unroll",
        f"    for (int k = 0; k < {_AHEAD}; k++) {{",
        f"      const long long at = first + k * {_THREADS};",
        "      if (at >= end) break;",
        *[f"      {line}" for line in lines],
        "    }",
    ]


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
  __shared__ double parts[{_THREADS}];
  for (int k = 0; k < 3; k++) {{
    parts[threadIdx.x] = sums[k];
    for (int half = {_THREADS} / 2; half; half /= 2) {{
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

_PARTS = """
extern "C" __global__ void burnpy_norm_parts(const burnpy_table table, double* const out) {
  BURNPY_FIND
  const T* const x = (const T*)arrays[0];
  double sums[3] = {0, 0, 0};
#pragma unroll 4
  for (long long at = start + threadIdx.x; at < end; at += blockDim.x) burnpy_add(sums, (double)(R)x[at]);
  burnpy_all(sums);
  if (threadIdx.x < 3) out[part * 3LL + threadIdx.x] = sums[threadIdx.x];
}
"""
_ROOT = f"""
__device__ void burnpy_norm(const double* const parts, const long long begin, const long long end, R* const out) {{
  double sums[3] = {{0, 0, 0}};
  for (long long at = begin + threadIdx.x; at < end; at += blockDim.x)
    for (int k = 0; k < 3; k++)
      sums[k] = KIND == 0 ? maximum_of(sums[k], parts[at * 3 + k]) : sums[k] + parts[at * 3 + k];
  burnpy_all(sums);
  if (threadIdx.x) return;
  double norm = KIND == 2 ? sqrt(sums[0]) : sums[0];
  if (sums[1] > 0) norm = sqrt(sums[1] + (norm * {_DOWN}) * (norm * {_DOWN})) / {_DOWN};
  else if (sums[2] > 0 && !(norm > {_SMALL} * 1e8)) norm = sqrt(sums[2] + (norm * {_UP}) * (norm * {_UP})) / {_UP};
  *out = (R)norm;
}}
extern "C" __global__ void burnpy_total_norm(const double* const parts, const long long count, R* const out) {{
  burnpy_norm(parts, 0, count, out);
}}
extern "C" __global__ void burnpy_each_norm(const burnpy_table table, const double* const parts, R* const out) {{
  const int row = blockIdx.x;
  burnpy_norm(parts, table.firsts[row], table.firsts[row + 1], out + table.positions[row]);
}}
"""


class NormKernels(NamedTuple):
    """The kernels of norms: of parts of arrays, then of these norms for each array, or for all arrays."""

    parts: Any
    each: Any
    total: Any


@cache
def norm_kernels(xp: Any, p: float, dtype: str, result: str) -> NormKernels:
    """Return the kernels of the norms of arrays of a dtype, in another.

    Args:
        xp: the module cupy.
        p: 1, 2 or ∞.
        dtype: the dtype of the arrays.
        result: the dtype of the norms: float32 or float64.
    """
    kind = {1.0: 1, 2.0: 2}.get(p, 0)
    head = f"{''.join(f'#include <{HEADERS[name]}>' for name in HEADERS if name == dtype)}\n{FUNCTIONS}{_head(1)}"

    def kernel(body: str, name: str, of: str) -> Any:
        text = f"{head}\n#define KIND {kind}\ntypedef {MEMORY[of]} T;\ntypedef {REGISTER[of]} R;\n{_REDUCE}{body}"
        return xp.RawKernel(text, name, OPTIONS)

    each, total = kernel(_ROOT, "burnpy_each_norm", result), kernel(_ROOT, "burnpy_total_norm", result)
    return NormKernels(kernel(_PARTS, "burnpy_norm_parts", dtype), each, total)


def partial_norms(kernels: NormKernels, batches: Sequence[Batch], out: Any) -> None:
    """Launch the kernels of parts; what they find goes to ``out``, three numbers for each part of all batches."""
    start = 0
    for batch in batches:
        kernels.parts((batch.parts,), (_THREADS,), (batch.table, out[3 * start :]))
        start += batch.parts


def each_norm(kernels: NormKernels, batches: Sequence[Batch], parts: Any, out: Any) -> None:
    """Launch the kernels of the norm of each array, which goes to its position of ``out``."""
    start = 0
    for batch in batches:
        kernels.each((int(batch.table["count"]),), (_THREADS,), (batch.table, parts[3 * start :], out))
        start += batch.parts


def total_norm(kernels: NormKernels, parts: Any, out: Any) -> None:
    """Launch the kernel of the norm of all parts."""
    kernels.total((1,), (_THREADS,), (parts, len(parts) // 3, out))
