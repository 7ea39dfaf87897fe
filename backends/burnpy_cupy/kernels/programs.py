"""`Kernel`: a program that runs on the GPU, as one launch, or as up to three if it has sums over rows.

Which sources run, and by how many threads, depends on the program, on shapes and on settings alone. CuPy compiles a
source by NVRTC when it is first launched, and keeps the machine code in its own cache. Products and sums are not
contracted to fused ones (``--fmad=false``), so that a kernel rounds as the operations do which it replaces. CuPy adds
``-ftz=true`` to the options of all kernels, which sets subnormal float32 numbers to zero.

A program with sums over rows is divided into `Passes`: kernels that each need no other's sums over rows.
"""

from __future__ import annotations

import math
import os
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from burnpy.backend.dtypes import FLOATS, dtype_of, float32
from burnpy.backend.primitives import DType, Shape
from burnpy.backend.programs import Extent, Input, Instruction, Program, ProgramError, trace
from burnpy.backend.programs.program import Schedule
from burnpy.backend.runtime import executed
from burnpy_array.array_base import is_half
from burnpy_cupy.kernels.elementwise_kernel import copied
from burnpy_cupy.kernels.emitter import emit
from burnpy_cupy.kernels.launch import Batch, Geometry, Launch, Threads, batch_of, launcher, transposed
from burnpy_cupy.runtime import empty

OPTIONS = ("--fmad=false",)
_MIN_SUMMED_ROWS = 128
"""The least number of rows that a block adds up."""
_BLOCKS = 512
"""About the number of blocks that sums over rows are divided among."""
_ROWS_IN_TURN, _BLOCKS_LEFT = 4, 4224
"""The most rows that threads compute one after another, reading the next one ahead, and the blocks to leave."""
_MAX_LAYOUTS = 1024
"""The most shapes for which a kernel keeps its launches."""


def ran(kernel: Any) -> None:
    """Tell `explain` that a kernel ran."""
    for note in executed:
        note.append(kernel)


@cache
def kernels_enabled() -> bool:
    """Return whether programs run as kernels: ``BURNPY_COMPILE=0`` turns that off."""
    return os.environ.get("BURNPY_COMPILE", "1") != "0"


class Source(NamedTuple):
    """A kernel as `burnpy.backend.explain` lists it, and as CuPy launches it."""

    program: Program
    text: str
    launch: Any  #: cupy.RawKernel


class Prepared(NamedTuple):
    """A launch but for the arrays and numbers."""

    source: Source
    grid: tuple[int, int]
    block: tuple[int, int]
    sizes: list[int]


class Step(NamedTuple):
    """A launch of a layout."""

    source: Source
    launch: Launch  #: given addresses, and numbers
    arrays: tuple[int, ...]  #: the numbers of its arrays
    takes_numbers: bool


class Layout(NamedTuple):
    """The launches of a program for arrays of known sizes. These are numbered: inputs, memory, and parts of both."""

    inputs: tuple[tuple[int, DType], ...]  #: their numbers of elements and dtypes
    memory: tuple[tuple[Shape, DType], ...] = ()  #: what is allocated
    parts: tuple[tuple[int, int], ...] = ()  #: parts of memory: the number of an array, and an offset in bytes
    launches: tuple[Step, ...] = ()
    results: tuple[tuple[int, int | None], ...] = ()  #: the arrays that are returned, or rows of them
    is_one: bool = False  #: whether there is one launch of all arrays, and no parts


class Kernel:
    """A program as kernels. Its arrays are CuPy's, its numbers Python's.

    Args:
        xp: the module cupy.
        program: the program.

    Raises:
        ProgramError: kernels do not have the program's instructions.
    """

    def __init__(self, xp: Any, program: Program) -> None:
        self._xp, self.program = xp, program
        self.passes = divide(program)
        for each in (self.passes.by_rows, self.passes.by_columns):
            if each is not None:  # so that an error is raised now rather than when it runs
                emit(each, "burnpy_program", "plain", "block", 256)
        self._sources: dict[tuple[Any, ...], Source] = {}
        self._layouts: dict[tuple[Any, ...], Layout] = {}

    def __call__(
        self, xs: Sequence[Any], numbers: Sequence[float], geometry: Geometry, full: Shape, column: Shape
    ) -> list[Any]:
        """Launch the kernels, on the current GPU, and return the outputs.

        Args:
            xs: the inputs that are arrays, of the program's dtypes; of their shapes only the sizes matter.
            numbers: the inputs that are numbers.
            geometry: the rows and columns, which are not 0. If there are sums over rows, it comes from `matrix`.
            full: the shape of the outputs that have a value for each element.
            column: the shape of those that have one for each row.
        """
        layout = self._layouts.get((geometry, full, column))
        if layout is None:
            if len(self._layouts) >= _MAX_LAYOUTS:
                self._layouts.clear()
            layout = self._layouts[geometry, full, column] = self._laid_out(geometry, full, column)
        xp = self._xp
        arrays, addresses = [], []
        for x, (size, dtype) in zip(xs, layout.inputs, strict=True):
            if x.size != size or x.dtype is not dtype:
                raise ProgramError(
                    f"kernel {self.program.name} got {x.size} elements of {x.dtype}, expected {size} of {dtype}"
                )
            if not x._c_contiguous:
                x = copied(xp, x)
            arrays.append(x)  # which keeps its memory until the launch
            addresses.append(x.data.ptr)
        for shape, dtype in layout.memory:
            x = empty(xp, shape, dtype)
            arrays.append(x)
            addresses.append(x.data.ptr)
        if layout.is_one:
            (step,) = layout.launches
            step.launch(*addresses, *numbers)
            if executed:
                ran(step.source)
            return arrays[len(xs) :]
        for k, offset in layout.parts:
            addresses.append(addresses[k] + offset)
        for source, launch, at, takes_numbers in layout.launches:
            launch(*[addresses[k] for k in at], *(numbers if takes_numbers else ()))
            if executed:
                ran(source)
        return [arrays[k] if row is None else arrays[k][row] for k, row in layout.results]

    def _laid_out(self, geometry: Geometry, full: Shape, column: Shape) -> Layout:
        """Return the launches for a geometry and the shapes of results."""
        given = [each for each in self.program.inputs if each.extent is not Extent.SCALAR]
        sizes = [
            (geometry.rows if extent.over_rows else 1) * (geometry.columns if extent.over_columns else 1)
            for extent, _ in given
        ]
        layout = Layout(tuple(zip(sizes, [dtype_of(dtype) for _, dtype in given], strict=True)))
        passes = self.passes
        if passes.by_rows is not None:
            count = passes.is_sum.count(False)
            shapes = [column] * count + [(geometry.rows, 1)] * (len(passes.by_rows.outputs) - count)
            layout = self._by_rows(layout, passes.by_rows, geometry, full, shapes)
        if passes.by_columns is None:
            return layout._replace(is_one=True)
        layout = self._by_columns(layout, passes.by_columns, geometry)
        sums, others = iter(layout.results[-passes.is_sum.count(True) :]), iter(layout.results)
        return layout._replace(results=tuple([next(sums if is_sum else others) for is_sum in passes.is_sum]))

    def _by_rows(
        self, layout: Layout, program: Program, geometry: Geometry, full: Shape, columns: list[Shape]
    ) -> Layout:
        """Add the outputs that are no sums over rows: in the shape ``full``, or in their own of ``columns``."""
        memory = []
        for k, column in zip(program.outputs, columns, strict=True):
            step = program.instructions[k]
            shape = full if step.extent is Extent.FULL else column
            size = geometry.rows * (geometry.columns if step.extent is Extent.FULL else 1)
            if math.prod(shape) != size:
                raise ProgramError(f"the kernel of {program.name} got {size} elements in the shape {shape}")
            memory.append((shape, dtype_of(step.dtype)))
        at = tuple(range(len(layout.inputs) + len(memory)))
        launch = self._step(self.prepared(program, geometry), at)
        results = tuple([(k, None) for k in at[len(layout.inputs) :]])
        return layout._replace(memory=tuple(memory), launches=(launch,), results=results)

    def _by_columns(self, layout: Layout, program: Program, geometry: Geometry) -> Layout:
        """Add the sums over rows: those of chunks of rows, and then, if there are several chunks, their sums."""
        turned = transposed(geometry.rows, geometry.columns)
        dtypes = [dtype_of(program.instructions[k].dtype) for k in program.outputs]
        count, size, made = len(dtypes), turned.rows, len(layout.inputs) + len(layout.memory)
        chunks = chunks_of(turned)
        inputs = (*range(len(layout.inputs)), *[k for k, _ in layout.results[self.passes.is_sum.count(False) :]])
        if chunks == 1:
            at = tuple(range(made, made + count))
            launch = self._step(self.prepared(program, turned), (*inputs, *at))
            return layout._replace(
                memory=(*layout.memory, *[((size,), dtype) for dtype in dtypes]),
                launches=(*layout.launches, launch),
                results=(*layout.results, *[(k, None) for k in at]),
            )
        wide = float32 if is_half(dtypes[0]) else dtypes[0]
        parts = self.prepared(program, turned, chunks, count * size)
        total = self.prepared(total_of(wide.name, dtypes[0].name), transposed(chunks, count * size))
        return layout._replace(
            memory=(*layout.memory, ((chunks, count, size), wide), ((count, size), dtypes[0])),
            parts=tuple([(made, k * size * wide.itemsize) for k in range(count)]),
            launches=(
                *layout.launches,
                self._step(parts, (*inputs, *range(made + 2, made + 2 + count))),
                self._step(total, (made, made + 1), takes_numbers=False),
            ),
            results=(*layout.results, *[(made + 1, k) for k in range(count)]),
        )

    def _step(self, prepared: Prepared, arrays: tuple[int, ...], *, takes_numbers: bool = True) -> Step:
        source, grid, block, sizes = prepared
        numbers = [each.extent for each in self.program.inputs].count(Extent.SCALAR) if takes_numbers else 0
        rest = struct.pack(f"={len(sizes)}q", *sizes)
        launch = launcher(self._xp, source.launch, grid, block, f"{len(arrays)}Q{numbers}d", rest)
        return Step(source, launch, arrays, takes_numbers)

    def prepared(
        self, program: Program, geometry: Geometry, chunks: int = 1, stride: int = 0, held: tuple[str, ...] = ()
    ) -> Prepared:
        """Return the kernel of a pass, the sizes of its grid and of its blocks, and its last arguments.

        Args:
            program: the pass.
            geometry: its rows and columns.
            chunks: the number of chunks of columns.
            stride: the distance of the sums of chunks.
            held: the dtypes of the numbers, if these are in memory of the GPU.
        """
        threads, span = geometry.threads(program.elementwise), -(-geometry.columns // chunks)
        batch = batch_of(program, span, threads.lanes, threads.block)
        key = (program.key, geometry.address, threads, batch, geometry.wide, chunks > 1, held)
        source = self._sources.get(key)
        if source is None:
            source = self._sources[key] = self._source(program, geometry, threads, batch, chunks > 1, held)
        sizes = [geometry.rows, geometry.columns]
        if geometry.address == "planes":
            sizes += [*geometry.inner, *geometry.steps]
        if chunks > 1:
            sizes += [span, stride]
        blocks = threads.blocks(geometry, batch.size)
        if batch.ahead:
            blocks = max(min(blocks, _BLOCKS_LEFT), -(-blocks // _ROWS_IN_TURN))
        return Prepared(source, (blocks, chunks), (threads.x, threads.y), sizes)

    def _source(
        self, program: Program, geometry: Geometry, threads: Threads, batch: Batch, chunked: bool, held: tuple[str, ...]
    ) -> Source:
        name = f"burnpy_{re.sub('[^A-Za-z0-9]+', '_', program.name)}"
        text = emit(
            program,
            name,
            geometry.address,
            threads.kind,
            threads.block,
            batch,
            wide=geometry.wide,
            chunked=chunked,
            held=held,
        )
        return Source(program, text, self._xp.RawKernel(text, name, OPTIONS))


def chunks_of(turned: Geometry) -> int:
    """Return the number of chunks in which the columns of a geometry, the rows of the whole, are added up."""
    return min(-(-turned.columns // _MIN_SUMMED_ROWS), max(1, _BLOCKS // -(-turned.rows // 32)))


@cache
def total_of(wide: str, dtype: str) -> Program:
    """Return the program that adds up columns of one dtype and returns the sums in another."""
    add: Callable[..., Any] = lambda b, x: b.cast(b.sum(x, (1,), True), dtype_of(dtype))  # noqa: E731
    return trace(add, (Input(Extent.FULL, wide),), name="sum of chunks")


_TURNED = {Extent.ROW: Extent.COLUMN, Extent.COLUMN: Extent.ROW}


@dataclass(frozen=True)
class Passes:
    """The kernels of a program. The second program has rows and columns exchanged, so that it computes sums of its own
    columns. Its inputs are those of the whole, and the values of rows that it needs, which the first one returns
    last."""

    by_rows: Program | None  #: the outputs that are no sums over rows, and then the values that the second one needs
    by_columns: Program | None  #: the sums over rows
    is_sum: tuple[bool, ...]  #: for each output of the whole, whether the second program returns it


def divide(program: Program) -> Passes:
    """Return the kernels of a program.

    Raises:
        ProgramError: they cannot compute it.
    """
    schedule = Schedule(program, FLOATS, ints=True)
    steps = program.instructions
    is_sum = tuple([schedule.over_rows(k) for k in program.outputs])
    sums = [k for k in program.outputs if schedule.over_rows(k)]
    if any(steps[k].extent is not Extent.ROW for k in sums):
        raise ProgramError("a CUDA kernel does not add up all elements")
    carried = _carried(program, schedule, sums)
    outputs = [k for k in program.outputs if not schedule.over_rows(k)] + carried
    by_rows = Program(program.name, program.inputs, steps, tuple(outputs)) if outputs else None
    return Passes(by_rows, _turned(program, sums, carried) if sums else None, is_sum)


def _carried(program: Program, schedule: Schedule, sums: list[int]) -> list[int]:
    """Return the values of rows that enter sums over rows: sums and maxima over columns, and values that a kernel of
    other outputs computes anyway, once for a row instead of for each element."""
    has_others = len(sums) < len(program.outputs)
    positions: set[int] = set()
    stack = [a for k in sums for a in program.instructions[k].args]
    while stack:
        k = stack.pop()
        op, args, extent, dtype, _ = program.instructions[k]
        exact = has_others and dtype in ("float32", "float64")  # a 16-bit one would be rounded
        if schedule.over_columns(k) or op == "gather" or (args and extent is Extent.COLUMN and exact):
            positions.add(k)
        else:
            stack += args
    return sorted(positions)


def _turned(program: Program, sums: list[int], carried: list[int]) -> Program:
    """Return the program of the sums over rows with rows and columns exchanged; carried values are inputs."""
    inputs = [Input(_TURNED.get(extent, extent), dtype) for extent, dtype in program.inputs]
    steps = []
    for k, step in enumerate(program.instructions):
        extent, value = _TURNED.get(step.extent, step.extent), step.value
        if step.op in ("sum", "amax", "length", "index") and isinstance(value, int):
            value = 1 - value
        if k in carried:
            steps.append(Instruction("input", (), extent, step.dtype, len(inputs)))
            inputs.append(Input(extent, step.dtype))
        else:
            steps.append(Instruction(step.op, step.args, extent, step.dtype, value))
    return Program(f"{program.name}, sums over rows", tuple(inputs), tuple(steps), tuple(sums))
