"""`Kernel`: a compiled program, and `TemplateKernel`, one that a template wrote: how they are called."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

import burnpy_numpy.cpu_threads as threads
from burnpy.backend.dtypes import dtype_of, uint8
from burnpy.backend.primitives import Shape
from burnpy.backend.programs import Extent, Program, ProgramError
from burnpy.backend.programs.program import FUNCTIONS, REDUCTIONS
from burnpy.backend.runtime import executed
from burnpy_numpy.cpu_threads import COUNT, pool_of
from burnpy_numpy.kernels.compiler.emitter import CHUNK, Layout
from burnpy_numpy.kernels.compiler.entry import FLAGS, JOB, Entry, code_of
from burnpy_numpy.numpy_calls import inverse, memory_order


class Kernel:
    """A compiled program. Its arrays are contiguous, and its numbers are Python's."""

    __slots__ = (
        "_arrays",
        "_dtype",
        "_dtypes",
        "_flat",
        "_outputs",
        "_scratch",
        "_unit",
        "_write",
        "each",
        "function",
        "layout",
        "plain",
        "program",
    )

    def __init__(self, program: Program, write: Callable[[], str], layout: Layout, function: Entry) -> None:
        self.program, self._write, self.layout = program, write, layout
        self._flat, self._scratch = layout.flat, layout.scratch
        self.plain = not layout.flat and not layout.scratch  #: whether a call has rows, and no memory of its own
        self.function, self._unit = function, CHUNK if layout.sums else 1
        self.each = time_of(program)  #: the elements for `shared` that take as long as one of this program
        self._arrays = [
            (i.extent.over_rows, i.extent.over_columns, dtype_of(i.dtype))
            for i in program.inputs
            if i.extent is not Extent.SCALAR
        ]
        steps = [program.instructions[k] for k in program.outputs]
        self._outputs = [
            (step.extent.over_rows, step.extent.over_columns, dtype_of(step.dtype), partial)
            for step, partial in zip(steps, layout.partial, strict=True)
        ]
        self._dtypes = [dtype for _, _, dtype, _ in self._outputs]
        self._dtype = self._dtypes[0]

    @property
    def text(self) -> str:
        """The generated code."""
        return self._write()

    def __call__(self, xs: Sequence[Any], numbers: Sequence[float], rows: int, columns: int) -> Sequence[Any]:
        """Compute the outputs, on several threads if there are many elements.

        Args:
            xs: the inputs that are arrays, of the program's dtypes; of their shapes only the sizes matter.
            numbers: the inputs that are numbers.
            rows: the number of rows of all arrays that have a value for each row, not 0.
            columns: the number of columns of all that have one for each column, not 0.
        """
        for x, (over_rows, over_columns, dtype) in zip(xs, self._arrays, strict=True):
            size = (rows if over_rows else 1) * (columns if over_columns else 1)
            if x.size != size or x.dtype is not dtype:
                raise ProgramError(
                    f"kernel {self.program.name} got {x.size} elements of {x.dtype}, expected {size} of {dtype}"
                )
        results = self._memory(rows, columns)
        self.into((*xs, *results), numbers, rows, columns)
        return [*map(_added, results, self._outputs)] if 1 < self._unit < rows else results

    def alike(self, xs: Sequence[Any], numbers: Sequence[float] = ()) -> Any:
        """Compute the only output of a program, which is of the shape of its arrays. Their last dimension is a row.

        Args:
            xs: the arrays, of one shape and of the program's dtypes, not empty and no scalars: that is not checked. The
                result of an elementwise program has their order in memory.
            numbers: the inputs that are numbers.
        """
        shape = xs[0].shape
        if len(shape) > 1 and self._flat and not xs[0].flags.c_contiguous and (axes := memory_order(xs)):
            return self.alike([x.transpose(axes) for x in xs], numbers).transpose(inverse(axes))
        out, columns = _empty(shape, self._dtype), shape[-1]
        self.into((*xs, out), numbers, out.size // columns, columns)
        return out

    def each_alike(self, xs: Sequence[Any], numbers: Sequence[float] = ()) -> list[Any]:
        """Compute the outputs of an elementwise program: see `alike`."""
        shape = xs[0].shape
        if len(shape) > 1 and not xs[0].flags.c_contiguous and (axes := memory_order(xs)):
            outs = self.each_alike([x.transpose(axes) for x in xs], numbers)
            return [out.transpose(inverse(axes)) for out in outs]
        return self.outputs(xs, (shape,) * len(self._dtypes), 1, xs[0].size, numbers)

    def outputs(
        self, xs: Sequence[Any], shapes: Sequence[Shape], rows: int, columns: int, numbers: Sequence[float] = ()
    ) -> list[Any]:
        """Compute the outputs of a program that adds up no columns, each in a shape that is given.

        Args:
            xs: the inputs, of the program's dtypes and sizes: that is not checked.
            shapes: the shapes of the outputs.
            rows: the number of rows, not 0.
            columns: the number of columns, not 0.
            numbers: the inputs that are numbers.
        """
        results = [*map(_empty, shapes, self._dtypes)]
        direct = self.plain and rows * columns * self.each < _SHARED and not executed  # a call less than `into`
        if not direct or self.function(*xs, *results, *numbers, 0, rows, rows, columns):  # refused, see `ENTRIES`
            self.into((*xs, *results), numbers, rows, columns)
        return results

    def into(self, arrays: Sequence[Any], numbers: Sequence[float], rows: int, columns: int) -> None:
        """Compute a program into given memory.

        Args:
            arrays: the inputs that are arrays, and C-contiguous memory for the outputs, which may be the inputs' memory
                if the program is elementwise. They must be of the program's dtypes and sizes (not checked).
            numbers: the inputs that are numbers.
            rows: the number of rows, not 0.
            columns: the number of columns, not 0; the elements of an elementwise program may be divided at will.
        """
        size = rows * columns
        if size * self.each >= _SHARED and COUNT > 1:
            self._share(self._contiguous(arrays), numbers, rows, columns)
        elif self._flat:
            if self.function(*arrays, *numbers, 0, size, 1, size):  # refused, see `ENTRIES`
                self.function(*self._contiguous(arrays), *numbers, 0, size, 1, size)
        else:
            scratch = (_empty(self._scratch * (columns + _PADDING)),) if self._scratch else ()
            if self.function(*arrays, *scratch, *numbers, 0, rows, rows, columns):
                self.function(*self._contiguous(arrays), *scratch, *numbers, 0, rows, rows, columns)
        if executed:
            ran(self)

    def _contiguous(self, arrays: Sequence[Any]) -> Sequence[Any]:
        """Return arrays of `into` with copies of the inputs that are not C-contiguous, and arrays for scalars."""
        count = len(self._arrays)
        if not all(x.flags.c_contiguous for x in arrays[count:]):
            raise ProgramError(f"kernel {self.program.name} got memory for an output that is not contiguous")
        from burnpy_numpy.kernels.kernel import contiguous  # which imports this module

        return [*map(contiguous, arrays[:count]), *arrays[count:]]

    def _share(self, arrays: Sequence[Any], numbers: Sequence[float], rows: int, columns: int) -> None:
        """Compute a program on several threads."""
        unit = self._unit
        if self._flat:
            rows, columns = 1, rows * columns
        count, each = (columns, self.each) if self._flat else (rows, columns * self.each)
        units = -(-count // unit)
        pool, team = pool_of(units, unit * each)
        place, scratch = -1, 0
        if self._scratch:
            place, scratch = len(arrays), 8 * self._scratch * (columns + _PADDING)
            arrays = [*arrays, _empty((team, scratch // 8))]
        if pool is None:
            self.function(*arrays, *numbers, 0, count, rows, columns)
            return
        parts = team if unit > 1 else min(units, team * PARTS)  # sums of neighbours share lines of the cache
        job = (code_of(self.function), parts, units, unit, count, rows, columns, len(arrays), place, scratch, team)
        addresses, values = [*map(id, arrays)], np.array(numbers, np.float64)
        pool.share(0, 1, JOB + 1 + len(arrays), pool.words, *job, *addresses, values)

    def _memory(self, rows: int, columns: int) -> list[Any]:
        """Allocate the outputs; zeros for sums over rows, one for each chunk of rows if there are several."""
        results = []
        for over_rows, over_columns, dtype, partial in self._outputs:
            width = columns if over_columns else 1
            if over_rows:
                results.append(_empty((rows, width), dtype))
            elif partial and rows > CHUNK:
                results.append(np.zeros((-(-rows // CHUNK), width), dtype))
            else:
                results.append((np.zeros if partial else _empty)((columns,) if over_columns else (), dtype))
        return results


def time_of(program: Program) -> float:
    """Return how many elements, as `shared` counts them, take as long as one of a program. An element of an addition
    takes half as long as the multiplications of matrices that count as one."""
    total = 1.0  # to read and write it
    for op, _, extent, *_ in program.instructions:
        if op in FUNCTIONS:
            total += 3 if extent is Extent.FULL else 0
        elif op in REDUCTIONS:
            total += 0.5
        elif extent is Extent.FULL and op not in ("input", "constant"):
            total += 0.25
    return total / 2


def _added(x: Any, output: tuple[bool, bool, Any, bool]) -> Any:
    """Add up the chunks of a sum over rows; return another result as it is."""
    _, over_columns, _, partial = output
    return sum_of_rows(x).reshape(x.shape[1:] if over_columns else ()) if partial else x


def sum_of_rows(x: Any) -> Any:
    """Return the sum of the rows of a matrix, whose memory it changes: rows are added in pairs, as roundings of many
    chunks would add up."""
    count = len(x)
    while count > 1:
        half = (count + 1) // 2
        np.add(x[: count - half], x[half:count], x[: count - half])
        count = half
    return x[0].copy()


class TemplateDescription(NamedTuple):
    """The description of a `TemplateKernel`, for `burnpy.backend.explain`."""

    name: str
    text: str


class TemplateKernel:
    """A kernel that is not a program but made from a template, with a table of addresses and one of sizes."""

    __slots__ = ("_write", "function", "program")

    def __init__(self, program: TemplateDescription, write: Callable[[], str], function: Entry) -> None:
        self.program, self._write, self.function = program, write, function

    @property
    def text(self) -> str:
        """The generated code."""
        return self._write()

    def __call__(self, table: Sequence[Any], sizes: Sequence[int], begin: int, end: int) -> None:
        """Run it for a range of its blocks. It can read and write wherever the addresses lead: nothing is checked.

        Args:
            table: C-contiguous arrays, or addresses.
            sizes: its sizes.
            begin: the first block.
            end: the block after the last.
        """
        self.function(begin, end, len(table), *table, *sizes)

    def run(
        self, arrays: Sequence[Any], sizes: Sequence[int], blocks: int, each: float, scratch: Scratch | None = None
    ) -> None:
        """Run it for all of its blocks, on several threads if there is much to do, and note that it ran.

        Args:
            arrays: its table, see `__call__`; shapes and dtypes of arrays are not checked.
            sizes: its sizes.
            blocks: the number of blocks.
            each: the number of elements of a block, for `shared`.
            scratch: the memory that each thread needs for itself, which is not in the table yet.
        """
        self.launch(arrays, sizes, blocks, each, scratch)
        self.note()

    def launch(
        self, arrays: Sequence[Any], sizes: Sequence[int], blocks: int, each: float, scratch: Scratch | None = None
    ) -> None:
        """Do as `run`, without a note."""
        if COUNT == 1 or blocks * each < _SHARED:
            given = arrays if scratch is None else scratch.entered(arrays, 1)
            self.function(0, blocks, len(given), *given, *sizes)
        elif scratch is None:
            share(self.function, arrays, sizes, blocks, each)
        else:
            share(
                self.function,
                scratch.entered(arrays, threads.COUNT),
                sizes,
                blocks,
                each,
                scratch.place,
                scratch.distance,
            )

    def note(self) -> None:
        """Tell `explain` that the kernel ran."""
        ran(self)


class Scratch(NamedTuple):
    """Scratch memory, which each thread needs for itself while it runs a template's kernel."""

    place: int  #: in the table
    size: int  #: in bytes
    zeros: bool = False  #: whether it has to be filled with zeros

    @property
    def distance(self) -> int:
        """The bytes from one thread's memory to the next: whole lines of the cache."""
        return -(-self.size // _LINE) * _LINE

    def entered(self, table: Sequence[Any], team: int) -> Sequence[Any]:
        """Return a table with the memory of a team in its place."""
        memory = (np.zeros if self.zeros else _empty)(team * self.distance, uint8)
        return (*table[: self.place], memory, *table[self.place :])


def share(
    function: Entry,
    table: Sequence[Any],
    sizes: Sequence[int],
    blocks: int,
    each: float,
    place: int = -1,
    distance: int = 0,
) -> None:
    """Run a template's kernel for all of its blocks, on several threads if there is much to do.

    Args:
        function: the kernel.
        table: its table, see `TemplateKernel.__call__`.
        sizes: its sizes.
        blocks: the number of blocks.
        each: the number of elements of a block, for `shared`.
        place: the place in the table of the scratch memory of `COUNT` threads, or -1.
        distance: the bytes from one thread's scratch memory to the next.
    """
    (pool, team), length = pool_of(blocks, each), len(table)
    if pool is None:
        function(0, blocks, length, *table, *sizes)
        return
    job = (code_of(function), min(blocks, team * PARTS), blocks, 1, blocks, -1, 0, length, place, distance, team)
    pool.share(0, 1, JOB + length, pool.words, *job, *table, *sizes)


def ran(kernel: Any) -> None:
    """Tell `explain` that a kernel ran."""
    for note in executed:
        note.append(kernel)


_empty = np.empty
_SHARED = 1 << 18
"""The number of elements below which one thread computes alone, as `shared` would decide, too, but not as fast."""
PARTS = 4
"""The number of parts for each thread: the caller takes more of them while the others wake up."""
_LINE = 64
"""The bytes of a line of the cache."""
_PADDING = 64
"""Columns by which scratch memory is longer, as its last vector is whole."""


def reads_arrays() -> bool:
    """Return whether a NumPy array has its data's address right behind the head of Python objects, as in CPython.
    Kernels read it there, which takes no time; by ``array.ctypes.data`` it would take longer than a small kernel. They
    read the flags, too."""
    try:
        x = np.zeros(3)
        flags = [ctypes.c_int.from_address(id(each) + FLAGS).value for each in (x, x[::2])]
        data = ctypes.c_void_p.from_address(id(x) + object.__basicsize__).value
        return data == x.ctypes.data and flags == [x.flags.num, x[::2].flags.num]
    except (AttributeError, ValueError):
        return False


def block_width(count: int, most: int) -> int:
    """Return the largest power of 2 up to a count and up to ``most``; 1 for a count of 0."""
    return min(most, 1 << max(count.bit_length() - 1, 0))


def block_starts(count: int, width: int) -> Any:
    """Return the first of each block of ``width``; the last block may overlap with the one before. Few are kept."""
    return (_kept_starts if count <= _MOST_KEPT else _starts)(count, width)


def _starts(count: int, width: int) -> Any:
    return np.minimum(np.arange(0, count, width), count - width)


_MOST_KEPT = 1 << 12
_kept_starts = lru_cache(256)(_starts)
