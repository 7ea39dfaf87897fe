"""Kernels that run for all arrays of lists in one call: of a formula, and of norms.

The arrays of a list are divided into parts of `PART` elements, whatever the number of threads; threads share the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from itertools import chain
from operator import attrgetter
from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32, float64
from burnpy.backend.operations.programs import Formula, Spent
from burnpy.backend.programs import Program, ProgramError
from burnpy.backend.programs.trace import formula_program
from burnpy_array.array_base import NUMBERS, is_half
from burnpy_numpy.cpu_threads import COUNT, LEAST
from burnpy_numpy.kernels.compiler.emitter import emit
from burnpy_numpy.kernels.compiler.entry import TABLE, Entry
from burnpy_numpy.kernels.compiler.llvm import vector_bytes
from burnpy_numpy.kernels.compiler.loops import Loops
from burnpy_numpy.kernels.compiler.vectors import Vector
from burnpy_numpy.kernels.kernel import loaded, lookup, template_kernel
from burnpy_numpy.kernels.launch import TemplateKernel, ran, share, time_of

PART = 1 << 14
"""The number of elements of a part of an array."""

_DRIVER = """
define void @kernel(ptr %table, ptr %sizes, i64 %begin, i64 %end) {
entry:
  %which_at = getelementptr ptr, ptr %table, i64 1
  %starts_at = getelementptr ptr, ptr %table, i64 2
  %stops_at = getelementptr ptr, ptr %table, i64 3
  %numbers_at = getelementptr ptr, ptr %table, i64 4
  %count_at = getelementptr i64, ptr %sizes, i64 1
  %tables = load ptr, ptr %table
  %which = load ptr, ptr %which_at
  %starts = load ptr, ptr %starts_at
  %stops = load ptr, ptr %stops_at
  %numbers = load ptr, ptr %numbers_at
  %arrays = load i64, ptr %sizes
  %count = load i64, ptr %count_at
  br label %head
head:
  %part = phi i64 [%begin, %entry], [%next, %body]
  %more = icmp slt i64 %part, %end
  br i1 %more, label %body, label %done
body:
  %position_at = getelementptr i64, ptr %which, i64 %part
  %start_at = getelementptr i64, ptr %starts, i64 %part
  %stop_at = getelementptr i64, ptr %stops, i64 %part
  %position = load i64, ptr %position_at
  %start = load i64, ptr %start_at
  %stop = load i64, ptr %stop_at
  %first = mul i64 %position, %arrays
  %own = getelementptr ptr, ptr %tables, i64 %first
  %skipped = mul i64 %position, %count
  %values = getelementptr double, ptr %numbers, i64 %skipped
  call void @one(ptr %own, ptr %values, i64 %start, i64 %stop, i64 1, i64 %stop)
  %next = add i64 %part, 1
  br label %head
done:
  ret void
}
"""
"""The loop over parts, around the kernel of an elementwise program. The table: the addresses of the arrays of each
position, for each part its position, its start and its stop, and the numbers. The sizes: how many arrays a position
has, and how many numbers for itself, 0 if all have the same."""


_POWERS = {1.0: "abs", 2.0: "square", np.inf: "max"}
"""The norms that are kernels, by p, with what their kernels add up or find."""
_found: dict[tuple[Any, ...], ForeachKernel | None] = lookup()
_size = attrgetter("size")
Lists = Sequence[Sequence[Any]]


class ForeachKernel:
    """The kernel of an elementwise program that runs for all positions of lists."""

    __slots__ = ("_write", "each", "function", "program", "results")

    def __init__(self, program: Program, write: Callable[[], str], function: Entry) -> None:
        self.program, self._write, self.function = program, write, function
        self.results, self.each = len(program.outputs), time_of(program)

    @property
    def text(self) -> str:
        """The generated code."""
        return self._write()

    def parts(self, sizes: tuple[int, ...]) -> tuple[int, Any, Any, Any, Any]:
        """Return the parts of arrays, see `parts_of`."""
        return parts_of(sizes)

    def __call__(self, ids: Any, columns: int, sizes: tuple[int, ...], numbers: tuple[Any, ...]) -> None:
        """Compute the results of all positions, on several threads if there are many elements.

        Args:
            ids: for each position the arrays and the memory of the results, by `id`. They are C-contiguous, of the
                program's dtypes and, at one position, of one size: that is not checked.
            columns: how many these are.
            sizes: the number of elements at each position.
            numbers: Python numbers or arrays, of one value or of one for each position.
        """
        parts, which, starts, stops, _ = parts_of(sizes)
        if parts:
            values, count = _packed(numbers, len(sizes))
            table = ids, which, starts, stops, values
            if COUNT == 1 or (work := sum(sizes) * self.each) < 2 * LEAST:  # too little to share
                self.function(0, parts, len(table), *table, columns, count)
            else:
                share(self.function, table, (columns, count), parts, work / parts)
        ran(self)


def _packed(numbers: tuple[Any, ...], positions: int) -> tuple[Any, int]:
    """Return numbers as doubles, and how many of them each position has for itself."""
    if NUMBERS.issuperset(map(type, numbers)):
        return np.array(numbers, np.float64), 0
    if any(getattr(x, "ndim", 0) for x in numbers):
        each = np.empty((positions, len(numbers)))
        for k, x in enumerate(numbers):
            each[:, k] = x
        return each, len(numbers)
    return np.array([float(x) for x in numbers]), 0


@lru_cache(64)
def parts_of(sizes: tuple[int, ...]) -> tuple[int, Any, Any, Any, Any]:
    """Return the number of parts of arrays; for each its array, its start and its stop; and the first of each array."""
    counts = np.array([-(-size // PART) for size in sizes], np.int64)
    which = np.repeat(np.arange(len(sizes), dtype=np.int64), counts)
    firsts = np.cumsum(counts) - counts
    starts = (np.arange(len(which), dtype=np.int64) - firsts[which]) * PART
    stops = np.minimum(starts + PART, np.array(sizes, np.int64)[which])
    return len(which), which, starts, stops, firsts


def foreach_kernel(
    formula: Formula, arrays: int, numbers: int, dtype: Any, flags: tuple[bool, ...]
) -> ForeachKernel | None:
    """Return the kernel of a formula of lists; None if it is not elementwise or no program, or of other dtypes."""
    key = (formula, dtype, flags)
    try:
        return _found[key]
    except KeyError:
        kernel = None
        if dtype is float32 or dtype is float64:
            with suppress(ProgramError):
                program = formula_program(formula, dtype.name, arrays, numbers, flags)
                kernel = _program_kernel(program) if program.elementwise else None
        return _found.setdefault(key, kernel)


@cache
def _program_kernel(program: Program) -> ForeachKernel | None:
    def write() -> str:
        text, _ = emit(program, vector_bytes())
        return text.replace("define void @kernel(", "define internal void @one(") + _DRIVER

    function = loaded(program.name, f"lists {program.key}", write, TABLE)
    return None if function is None else ForeachKernel(program, write, function)


def norm_kernel(dtype: str, what: str) -> TemplateKernel | None:
    """Return the kernel that adds up squares ("square") or magnitudes ("abs"), or finds the largest ("max"). It is None
    if kernels are off."""
    return template_kernel(norm_of_parts, dtype, what, vector_bytes() // 4)


def partial_norms(kernel: TemplateKernel, arrays: Sequence[Any]) -> tuple[Any, Any]:
    """Return what a kernel of norms finds in each part of arrays, in float64, and the first part of each array. The
    arrays are C-contiguous, of the kernel's dtype, and not empty."""
    parts, which, starts, stops, firsts = parts_of(tuple([x.size for x in arrays]))
    ids, out = np.fromiter(map(id, arrays), np.int64, len(arrays)), np.empty(parts)
    kernel.run([ids, which, starts, stops, out], (), parts, PART)
    return out, firsts


def norm_of_parts(dtype: str, what: str, width: int) -> str:
    """Return the text of the kernel of norms. The table: the arrays by `id`, and for each part its array, its start,
    its stop and the result. All is added up in float64, where squares of float32 numbers neither overflow nor
    underflow.

    Args:
        dtype: float32 or float64.
        what: "square", "abs" or "max".
        width: the number of elements of a vector.
    """
    w = Loops(width, 5, 0)
    arrays, which, starts, stops, out = w.table
    with w.loop(w.begin, w.end) as part:
        start, stop = w.number(starts, part), w.number(stops, part)
        array = w.assign(f"load ptr, ptr {w.element(arrays, w.number(which, part), 'int64')}, align 8")
        head = w.assign(f"getelementptr i8, ptr {array}, i64 {object.__basicsize__}")
        data = w.element(w.assign(f"load ptr, ptr {head}, align 8"), start, dtype)
        size = stop - start
        vectors = size // width
        total = w.variable(w.constant(0.0, "float64"))
        with w.loop(0, vectors) as k:
            _add(w, what, total, w.load_at(data, k * width, dtype))
        whole = vectors * width
        mask = w.below(size - whole)
        _add(w, what, total, w.load(w.element(data, whole, dtype), dtype, mask))
        vector = w.get(total, "float64")
        w.store_one(w.largest(vector) if what == "max" else w.total(vector), w.element(out, part, "float64"))
    return w.function()


def _add(w: Loops, what: str, total: str, x: Vector) -> None:
    """Write how a vector is added to a variable in float64, or compared with it."""
    wide = x if x.dtype == "float64" else w.convert("fpext", x, "float64")
    so_far = w.get(total, "float64")
    if what == "square":
        w.set(total, w.fma(wide, wide, so_far))
        return
    size = w.call("fabs", wide)
    w.set(total, w.extreme("maximum", so_far, size) if what == "max" else w.add(so_far, size))


def run_foreach(kernel: ForeachKernel, lists: Lists, numbers: tuple[Any, ...], owned: bool) -> tuple[list[Any], ...]:
    """Return a kernel's results: the first in the second list's memory if that is spent, others in owned states."""
    columns = [*map(_whole, lists)]
    firsts = columns[0]
    memory: list[list[Any]] = [[None] * len(firsts)] * kernel.results
    if len(lists) > 1 and type(lists[1]) is Spent:  # others may read what a view is a part of
        given = zip(columns[1], lists[1], strict=True)
        memory[0] = [x if x is y and x.flags.writeable and x.base is None else None for x, y in given]
    if owned:
        pairs = [zip(*pair, strict=True) for pair in zip(columns, lists, strict=True)][2 : kernel.results + 1]
        memory[1 : len(pairs) + 1] = [[x if x is y and x.flags.writeable else None for x, y in pair] for pair in pairs]
    for states in memory:
        columns.append([np.empty(x.shape, x.dtype) if y is None else y for x, y in zip(firsts, states, strict=True)])
    ids = np.fromiter(map(id, chain(*zip(*columns, strict=True))), np.int64, len(firsts) * len(columns))
    kernel(ids, len(columns), tuple(map(_size, firsts)), numbers)
    return tuple(columns[len(lists) :])


def _whole(xs: Sequence[Any]) -> list[Any]:
    """Return arrays whose elements lie side by side in order; copies of others, and of NumPy's scalars."""
    return [x if type(x) is np.ndarray and x.flags.c_contiguous else np.array(x, order="C") for x in xs]


def run_norms(xs: Sequence[Any], p: float) -> list[tuple[Any, Any, list[int]]] | None:
    """Return the sums or maxima of parts of arrays, the number of each array's first part, and the arrays' positions,
    for each dtype; None if there is no kernel."""
    if p not in _POWERS:
        return None
    full = [k for k, x in enumerate(xs) if x.size]
    arrays = [xs[k].astype(float32) if is_half(xs[k].dtype) else xs[k] for k in full]
    parts = []
    for dtype in dict.fromkeys([x.dtype for x in arrays]):
        kernel = norm_kernel(dtype.name, _POWERS[p])
        if kernel is None:
            return None
        own = _whole([x for x in arrays if x.dtype is dtype])
        positions = [k for k, x in zip(full, arrays, strict=True) if x.dtype is dtype]
        parts.append((*partial_norms(kernel, own), positions))
    return parts
