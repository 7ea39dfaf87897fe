"""A program as CUDA source: one kernel, in which some threads compute each row.

For each step from sums of a row to values that need them, the threads of a row go through its columns once; what they
add up is reduced by shuffles in a warp, and through shared memory in a block. A thread reads a batch of elements before
it uses the first, as memory delivers only to as many reads as are under way; where a batch is the thread's part of the
row, it is read once for all passes. Each thread adds up a batch before it adds those sums, so that the rounding of a
long row grows as slowly as NumPy's.

A kernel's parameters are its arrays, the outputs, its numbers as doubles or addresses, and the sizes of `Geometry`;
only "planes" needs all of these. A chunked kernel has sums as its only outputs: each row of blocks computes the sums of
some columns.

Instructions are C++ expressions. `REGISTER` names the types of their results, `C_NAMES` those of arrays.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from burnpy.backend.dtypes import FLOATS, HALVES
from burnpy.backend.programs import Extent, Instruction, Program, ProgramError
from burnpy.backend.programs.program import Schedule
from burnpy_cupy.kernels.elementwise_kernel import C_NAMES, REGISTER, headers_of
from burnpy_cupy.kernels.launch import FEW, Batch

FUNCTIONS = """
#define BURNPY_INFINITY __longlong_as_double(0x7ff0000000000000LL)
#define BURNPY_NAN __longlong_as_double(0x7ff8000000000000LL)
template <class T> __device__ inline T maximum_of(T a, T b) { return a > b || a != a ? a : b; }
template <class T> __device__ inline T minimum_of(T a, T b) { return a < b || a != a ? a : b; }
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
__device__ inline float maximum_of(float a, float b) {
  asm("max.NaN.f32 %0, %0, %1;" : "+f"(a) : "f"(b));
  return a;
}
#endif
template <class T> __device__ inline T sign_of(T x) { return x > T(0) ? T(1) : x < T(0) ? T(-1) : x != x ? x : T(0); }
template <class T> __device__ inline T sigmoid_of(T x) {
  const T e = exp(-fabs(x));
  return (x < T(0) ? e : T(1)) / (T(1) + e);
}
"""
"""Functions that CUDA lacks: extrema that are NaN where an argument is, signs, and a sigmoid that does not overflow."""

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/",
          "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
          "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}  # fmt: skip
_CALLS = {
    **{name: name for name in ("floor", "ceil", "exp", "expm1", "log", "log1p", "sqrt", "sinh", "cosh", "tanh")},
    **{name: name for name in ("sin", "cos", "tan", "asin", "acos", "atan", "erf", "erfc", "erfinv")},
    **{name: f"{name}_of" for name in ("maximum", "minimum", "sign", "sigmoid")},
    "abs": "fabs",
    "round": "rint",
}


def expression(step: Instruction, args: list[str], dtypes: list[str]) -> str:
    """Return an instruction as an expression of its arguments.

    Args:
        step: the instruction: an elementwise one, a constant, a conversion or ``expand``.
        args: the names of its arguments.
        dtypes: their dtypes.
    """
    op, _, _, dtype, value = step
    kind = REGISTER[dtype]
    if op == "constant":
        return f"({kind}){_number(str(value), dtype)}"
    if op == "cast":
        converted = f"({kind}){args[0]}" if dtype != "bool" else f"{args[0]} != 0"
        narrows = dtype in HALVES and dtypes[0] != dtype
        return f"(float){dtype}((float){args[0]})" if narrows else converted
    if op in _INFIX:
        return f"{args[0]} {_INFIX[op]} {args[1]}"
    if op in _CALLS:
        return f"{_CALLS[op]}({', '.join(args)})"
    if op == "where":
        return f"{args[0]} ? {args[1]} : {args[2]}"
    if op == "neg":
        return f"-{args[0]}"
    if op == "bitwise_not" and dtype == "bool":
        return f"!{args[0]}"
    if op == "expand":
        return args[0]
    raise ProgramError(f"CUDA kernels do not compute {op} of {dtype}")


def _number(value: str, dtype: str) -> str:
    """Return a constant of a program as a literal of C++."""
    if "float" not in dtype:
        return f"{value}LL"
    number = float.fromhex(value)
    if math.isnan(number):
        return "BURNPY_NAN"
    if math.isinf(number):
        return "BURNPY_INFINITY" if number > 0 else "-BURNPY_INFINITY"
    return repr(number)


_ADDRESS = {
    "plain": "row * columns + column",
    "transposed": "column * rows + row",
    "planes": "row / inner_row * step0 + row % inner_row * step1 + column / inner_column * step2"
    " + column % inner_column * step3",
}
_PLACES = {
    "grid": ("0", "blockIdx.x * (index_t)blockDim.x + threadIdx.x", "gridDim.x * (index_t)blockDim.x"),
    "warp": ("blockIdx.x * (index_t)blockDim.y + threadIdx.y", "threadIdx.x", "32"),
    "block": ("blockIdx.x", "threadIdx.x", "blockDim.x"),
    "lanes": ("blockIdx.x * (index_t)blockDim.x + threadIdx.x", "threadIdx.y", "blockDim.y"),
}
"""For each kind of `Threads`: the row of a thread, its number among those of the row, and how many these are."""
_COMBINED = {"sum": "{} + {}", "amax": "maximum_of({}, {})"}
_IDENTITY = {"sum": "0", "amax": "-BURNPY_INFINITY"}
"""By the operation of a reduction: how two partial results are combined, and the result of no elements."""
_REDUCTIONS = {
    "warp": """
template <class T> __device__ inline T all_OP(T a) {
  for (int mask = 16; mask; mask >>= 1) {
    const T b = __shfl_xor_sync(0xffffffffu, a, mask);
    a = COMBINED;
  }
  return a;
}
""",
    "block": """
template <class T> __device__ inline T all_OP(T a) {
  __shared__ T parts[32];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  a = warp_OP(a);
  __syncthreads();  // the parts of the reduction before have been read
  if (lane == 0) parts[warp] = a;
  __syncthreads();
  return warp_OP(lane < blockDim.x / 32 ? parts[lane] : T(IDENTITY));
}
""",
    "lanes": """
template <class T> __device__ inline T all_OP(T x) {
  __shared__ T parts[32 * 32];
  const unsigned at = threadIdx.y * 32 + threadIdx.x;
  __syncthreads();  // the parts of the reduction before have been read
  parts[at] = x;
  for (unsigned half = blockDim.y / 2; half; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half) {
      const T a = parts[at], b = parts[at + half * 32];
      parts[at] = COMBINED;
    }
  }
  __syncthreads();
  return parts[threadIdx.x];
}
""",
}
"""Functions that give all threads of a row the sum or the maximum of their values."""


def emit(
    program: Program,
    name: str,
    address: str,
    kind: str,
    block: int,
    batch: Batch = FEW,
    *,
    wide: bool = False,
    chunked: bool = False,
    held: Sequence[str] = (),
) -> str:
    """Return the source of a kernel.

    Args:
        program: a program without sums over rows.
        name: the name of the kernel.
        address: see `Geometry.address`.
        kind: see `Threads.kind`.
        block: the number of threads of a block. The compiler gives each as many registers as so many can have.
        batch: the elements that a thread reads at a time.
        wide: whether positions are ints of 64 bits.
        chunked: whether columns are divided among blocks; sums are stored as they are computed, in float32 if of 16
            bits, at ``chunk · stride + row``.
        held: the dtypes of the numbers, if these are in memory: the kernel gets their addresses.
    """
    return _Emitter(program, kind, batch, chunked, held).text(name, address, block, wide)


class _Emitter:
    """The state of emitting one program."""

    def __init__(self, program: Program, kind: str, batch: Batch, chunked: bool, held: Sequence[str]) -> None:
        self.program, self.steps, self.kind, self.chunked = program, program.instructions, kind, chunked
        self.batch = batch
        numbers = [k for k, (extent, _) in enumerate(program.inputs) if extent is Extent.SCALAR]
        self.held = dict(zip(numbers, held, strict=True)) if held else {}  # the dtypes by the positions of inputs
        self.schedule = Schedule(program, FLOATS, ints=True)
        if any(self.schedule.over_rows(k) for k in self.schedule.live):
            raise ProgramError("a CUDA kernel adds up columns, not rows")
        self.lines: list[str] = []
        self.of_row: set[int] = set()  # the values of the row, the same in all its columns, that are defined
        self.read: set[int] = set()  # the inputs whose current batch is in registers
        self.passes = 0  # over the columns, that are written

    def text(self, name: str, address: str, block: int, wide: bool) -> str:
        row, lane, lanes = _PLACES[self.kind]
        sizes = self._sizes(address)
        self._write(f"const index_t {', '.join(f'{size} = {size}_' for size in sizes)};")
        self._write(f"const index_t wanted = {row};")
        self._write("const bool inside = wanted < rows;")
        self._write("const index_t row = inside ? wanted : rows - 1;")
        self._write(f"const index_t lane = {lane}, lanes = {lanes};")
        if self.chunked:
            self._write("const index_t begin = blockIdx.y * span, end = min(begin + span, columns);")
        else:
            self._write("const index_t begin = 0, end = columns;")
        full = [k for k in self.schedule.live if self._is_array(k, Extent.FULL)]
        if self.batch.whole:
            self._write("const index_t first = begin + lane;")
        if self.batch.ahead:
            self._open_rows(full)
        elif self.batch.whole:
            self._read(full)
        self._define_of_row(0)
        for stage in range(self.schedule.stages - 1):
            self._reduce(stage)
            self._define_of_row(stage + 1)
        self._store_columns()
        self._store_elements()
        if self.batch.ahead:
            self._write("}")
        dtypes = {step.dtype for step in self.steps}
        operations = sorted({self.steps[k].op for k in self.schedule.live if self.schedule.over_columns(k)})
        source = [
            f"{headers_of(dtypes)}typedef {'long long' if wide else 'int'} index_t;",
            FUNCTIONS,
            *[reduction for op in operations for reduction in self._reductions(op)],
            f'extern "C" __global__ __launch_bounds__({block}) void {name}({", ".join(self._parameters(address))}) {{',
            *[f"  {line}" for line in self.lines],
            "}",
            "",
        ]
        return "\n".join(source).replace("ADDRESS", _ADDRESS[address])

    def _reductions(self, op: str) -> list[str]:
        functions = [_REDUCTIONS[self.kind]]
        if self.kind == "block":
            functions.insert(0, _REDUCTIONS["warp"].replace("all_", "warp_"))
        combined, identity = _COMBINED[op].format("a", "b"), _IDENTITY[op]
        return [
            text.replace("OP", op).replace("COMBINED", combined).replace("IDENTITY", identity) for text in functions
        ]

    def _parameters(self, address: str) -> list[str]:
        inputs = list(enumerate(self.program.inputs))
        arrays = [(k, dtype) for k, (extent, dtype) in inputs if extent is not Extent.SCALAR]
        parameters = [f"const {C_NAMES[dtype]}* __restrict__ in{k}" for k, dtype in arrays]
        types = REGISTER if self.chunked else C_NAMES
        outputs = [self.steps[k].dtype for k in self.program.outputs]
        parameters += [f"{types[dtype]}* __restrict__ out{k}" for k, dtype in enumerate(outputs)]
        parameters += [
            f"const {C_NAMES[self.held[k]]}* number{k}" if self.held else f"const double number{k}"
            for k, (extent, _) in inputs
            if extent is Extent.SCALAR
        ]
        return parameters + [f"const long long {size}_" for size in self._sizes(address)]

    def _sizes(self, address: str) -> list[str]:
        """Return the names of the sizes."""
        planes = ["inner_row", "inner_column", "step0", "step1", "step2", "step3"] if address == "planes" else []
        return ["rows", "columns", *planes, *(["span", "stride"] if self.chunked else [])]

    def _write(self, *lines: str) -> None:
        self.lines += lines

    def _define_of_row(self, depth: int) -> None:
        """Write the values of the row, of extents SCALAR and COLUMN, that need this many passes over the columns."""
        for k in self.schedule.live:
            if not self.steps[k].extent.over_columns and self.schedule.depth[k] == depth and k not in self.of_row:
                self._define(k)
                self.of_row.add(k)

    def _define(self, k: int) -> None:
        step = self.steps[k]
        kind = REGISTER[step.dtype]
        if step.op == "gather":
            self._gather(k)
            return
        if step.op == "input" or k in self.read:
            text = self._input(k)
        elif step.op == "length":
            text = f"({kind}){'columns' if step.value == 1 else 'rows'}"
        elif step.op == "index":
            text = f"({kind}){'column' if step.value == 1 else 'row'}"
        else:
            text = expression(step, [f"v{a}" for a in step.args], [self.steps[a].dtype for a in step.args])
        self._write(f"const {kind} v{k} = {text};")

    def _input(self, k: int) -> str:
        _, _, extent, dtype, number = self.steps[k]
        if k in self.read:
            return f"batch{k}[j]"
        if extent is Extent.SCALAR:
            return f"({REGISTER[dtype]}){'*' if self.held else ''}number{number}"
        place = {Extent.FULL: "at", Extent.ROW: "column", Extent.COLUMN: "row"}[extent]
        return f"in{number}[{place}]"

    def _gather(self, k: int) -> None:
        """Write the value of a full instruction at the one column that an int names."""
        source, index = self.steps[k].args
        read, self.read = self.read, set()
        self._write(f"{REGISTER[self.steps[k].dtype]} v{k};")
        self._write("{")
        self._write(f"const index_t column = (index_t)v{index}, at = ADDRESS;")
        self._elements([source])
        self._write(f"v{k} = v{source};")
        self._write("}")
        self.read = read

    def _elements(self, roots: list[int]) -> None:
        """Write all values at one column that some need."""
        for k in sorted(self.schedule.needed(roots)):
            self._define(k)

    def _is_array(self, k: int, *extents: Extent) -> bool:
        """Return whether an instruction is an input of one of some extents."""
        return self.steps[k].op == "input" and self.steps[k].extent in extents

    def _open_rows(self, full: list[int]) -> None:
        """Write the head of a loop over rows, which reads the next row's batches of inputs before it computes a row."""
        self._write(f"const index_t apart = gridDim.x * (index_t){'blockDim.y' if self.kind == 'warp' else '1'};")
        self._declare(full, "ahead")
        self._write("{")
        self._load(full, "ahead")
        self._write("}", "for (index_t row = wanted, next; row < rows; row = next) {", "const bool inside = true;")
        self._declare(full, "batch")
        self._open_batch()
        self._write(*[f"batch{k}[j] = ahead{k}[j];" for k in full], "}")
        self._write("next = row + apart;", "if (next < rows) {", "const index_t row = next;")
        self._load(full, "ahead")
        self._write("}")
        self.read.update(full)

    def _declare(self, values: Iterable[int], name: str) -> None:
        """Write the declarations of registers for a batch of each value."""
        self._write(*[f"{REGISTER[self.steps[k].dtype]} {name}{k}[{self.batch.size}];" for k in values])

    def _load(self, inputs: list[int], name: str) -> None:
        """Write the reading of a batch of inputs into registers."""
        self._open_batch()
        for k in inputs:
            kind = REGISTER[self.steps[k].dtype]
            self._write(f"{name}{k}[j] = column < end ? ({kind}){self._input(k)} : ({kind})0;")
        self._write("}")

    def _read(self, inputs: list[int]) -> None:
        """Write the declaration and the reading of a batch of inputs."""
        if inputs:
            self._declare(inputs, "batch")
            self._load(inputs, "batch")
            self.read.update(inputs)

    def _open_batch(self) -> None:
        """Write the head of a loop over a batch."""
        self._write("#pragma unroll", f"for (int j = 0; j < {self.batch.size}; j++) {{")
        self._write("const index_t column = first + j * lanes, at = ADDRESS;")

    def _pass(
        self, roots: list[int], each: Sequence[str], before: Sequence[str] = (), after: Sequence[str] = ()
    ) -> None:
        """Write a pass over the columns, batch by batch; every other one goes from the end to the beginning.

        Args:
            roots: the values that it needs at each column.
            each: statements for each column, given these values.
            before: statements before a batch.
            after: statements after it.
        """
        step = f"{self.batch.size} * lanes"
        last = f"begin + lane + (end - begin - 1 - lane) / ({step}) * ({step})"
        if self.batch.whole:
            self._write("{")
        elif self.passes % 2:  # from the end of the row, which the caches have from the pass before
            self._write(f"for (index_t first = {last}; first >= begin; first -= {step}) {{")
        else:
            self._write(f"for (index_t first = begin + lane; first < end; first += {step}) {{")
        self.passes += 1
        kept, needed = set(self.read), sorted(self.schedule.needed(roots))
        self._read([k for k in needed if self._is_array(k, Extent.FULL, Extent.ROW) and k not in kept])
        self._write(*before)
        self._open_batch()
        self._elements(roots)
        self._write(*[f"if (column < end) {line}" for line in each], "}", *after, "}")
        self.read = kept

    def _reduce(self, stage: int) -> None:
        """Write a pass over the columns that computes the sums and maxima of one depth."""
        reductions = self.schedule.reductions(stage)
        kinds = {k: REGISTER[self.steps[k].dtype] for k in reductions}
        identity = {k: _IDENTITY[self.steps[k].op] for k in reductions}
        for k in reductions:
            self._write(f"{kinds[k]} total{k} = {identity[k]};")
        needed = self.schedule.needed([self.steps[k].args[0] for k in reductions])
        kept = [k for k in self.schedule.kept if k in needed and k not in self.read] if self.batch.whole else []
        self._declare(kept, "batch")
        self._pass(
            [self.steps[k].args[0] for k in reductions],
            [f"batch{k}[j] = v{k};" for k in kept]
            + [f"run{k} = {self._combined(k, f'run{k}', f'v{self.steps[k].args[0]}')};" for k in reductions],
            [f"{kinds[k]} run{k} = {identity[k]};" for k in reductions],
            [f"total{k} = {self._combined(k, f'total{k}', f'run{k}')};" for k in reductions],
        )
        self.read.update(kept)
        for k in reductions:
            self._write(f"const {kinds[k]} v{k} = all_{self.steps[k].op}(total{k});")
            self.of_row.add(k)

    def _combined(self, k: int, a: str, b: str) -> str:
        """Return the combination of two partial results of a reduction."""
        return _COMBINED[self.steps[k].op].format(a, b)

    def _store_columns(self) -> None:
        """Write the stores of outputs that are one number for each row."""
        for number, k in enumerate(self.program.outputs):
            if self.steps[k].extent is Extent.COLUMN:
                place = "blockIdx.y * stride + row" if self.chunked else "row"
                self._write(f"if (inside && lane == 0) out{number}[{place}] = v{k};")

    def _store_elements(self) -> None:
        """Write the last pass over the columns: the outputs that have a value for each element."""
        outputs = [(number, k) for number, k in enumerate(self.program.outputs) if self.steps[k].extent is Extent.FULL]
        if not outputs:
            return
        self._write("if (!inside) return;")
        self._pass([k for _, k in outputs], [f"out{number}[at] = v{k};" for number, k in outputs])
