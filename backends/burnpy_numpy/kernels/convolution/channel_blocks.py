"""Images as blocks of channels, the lanes of a vector: reorders, and what follows a convolution."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from burnpy.backend.dtypes import float32
from burnpy.backend.operations.convolution import Pair
from burnpy.backend.primitives import DType, Shape
from burnpy.backend.programs import Extent, Program
from burnpy_numpy.kernels.compiler.entry import code_of
from burnpy_numpy.kernels.compiler.loops import Int, Loops
from burnpy_numpy.kernels.compiler.target import target
from burnpy_numpy.kernels.compiler.vectors import Vector, bytes_of
from burnpy_numpy.kernels.kernel import template_kernel
from burnpy_numpy.kernels.launch import Scratch, TemplateKernel

if TYPE_CHECKING:
    from burnpy_numpy.kernels.plans import KernelCall


class Epilogue(NamedTuple):
    """A program of a convolution's result, and the other arrays that it reads."""

    program: Program  #: elementwise; its inputs of extent COLUMN have one value for each channel
    place: int  #: the number of the input that is the result
    arrays: tuple[Any, ...]  #: the other inputs, C-contiguous: of the result's shape, or one value for each channel

    def part(self, member: int, channel: int) -> Epilogue:
        """Return it for the members and the channels of the result from some on."""
        parts = [x[channel:] if x.ndim == 1 else x[member:, channel:] for x in self.arrays]
        return self._replace(arrays=tuple(parts))


def parameters_of(epilogue: Epilogue | None) -> tuple[Program, int] | tuple[()]:
    """Return the parameters by which templates get an epilogue; empty without one."""
    return () if epilogue is None else (epilogue.program, epilogue.place)


def others_of(parameters: Sequence[Any]) -> int:
    """Return the number of arrays of an epilogue, given its parameters."""
    return len(parameters[0].inputs) - 1 if parameters else 0


def computed(
    w: Loops, x: Vector, how: Sequence[Any], arrays: Sequence[str], index: str, channel: str, mask: str | None
) -> Vector:
    """Write an epilogue for neighbouring elements of a channel, and return its result; without one, ``x``.

    Args:
        w: the kernel.
        x: the elements of the convolution's result.
        how: its parameters, see `parameters_of`.
        arrays: the addresses of the arrays.
        index: the position of the elements in the arrays that have the result's shape.
        channel: the position of the channel in the others.
        mask: the mask of the elements; None for all.
    """
    if not how:
        return x
    program, place = how
    given = [*program.inputs]
    del given[place]
    xs = []
    for (extent, dtype), pointer in zip(given, arrays, strict=True):
        if extent is Extent.FULL:
            xs.append(w.load(w.element(pointer, index, dtype), dtype, mask))
        else:
            xs.append(w.load_one_at(pointer, channel, dtype))
    return w.program(program, [*xs[:place], x, *xs[place:]])[0]


Template: TypeAlias = Callable[..., str]
"""A function that writes the text of a kernel, for a dtype, the elements of a vector, rows, and vectors."""

CHAIN = 600
"""The number of products that are added up before the sum is added to the result."""
PRODUCTS = 8
"""The number of products that take as long as an operation of one element elsewhere."""
GROUPS = 8
"""The number of groups of members that threads share in the gradient of a weight, if there are so many members."""
WINDOW = 16
"""The largest window whose elements lie in registers for 16 channels at a time, for kernels that are short enough."""


class Planes(NamedTuple):
    """Sizes and distances, in elements, of an array whose planes have rows of neighbouring pixels."""

    members: int
    channels: int
    rows: int  #: of a plane; 1 where whole planes lie together
    columns: int
    member: int  #: the distance of members
    channel: int  #: the distance of channels
    row: int  #: the distance of rows


def vector_width(dtype: Any) -> int:
    """Return the number of elements of a register."""
    return target().vector // int(dtype.itemsize)


def block_kernels(dtype: Any, *requests: tuple[Any, ...]) -> list[TemplateKernel]:
    """Return the kernels of templates for a dtype and vectors of a register.

    Args:
        dtype: float32 or float64.
        requests: for each kernel, its template, and the parameters after the dtype and the width.
    """
    name, width = "float32" if dtype is float32 else "float64", vector_width(dtype)
    found = [template_kernel(template, name, width, *parameters) for template, *parameters in requests]
    kernels = [kernel for kernel in found if kernel is not None]
    if len(kernels) < len(found):
        raise Uncompiled
    return kernels


def pair_of(sizes: Any) -> Pair:
    """Return height and width as a pair of ints."""
    high, wide = sizes
    return int(high), int(wide)


def planes_of(shape: Shape, far: int, members: int, row: int) -> Planes:
    """Return the sizes of some members of an array, whose rows are at some distance in blocks.

    The array is C-contiguous, or some channels of one.

    Args:
        shape: its shape.
        far: the distance of its members.
        members: how many.
        row: the distance of rows in blocks.
    """
    _, channels, high, wide = shape
    rows, columns = (1, high * wide) if row == wide else (high, wide)
    return Planes(members, channels, rows, columns, far, high * wide, wide)


def distances_of(shape: Shape) -> tuple[int, int, int]:
    """Return the distances of members, rows and pixels in blocks of channels of a shape."""
    (*_, rows, columns, lanes) = shape
    return rows * columns * lanes, columns * lanes, lanes


class Planned(NamedTuple):
    """A convolution with a fixed weight and bias as calls of kernels, for plans."""

    scratch: Sequence[tuple[Shape, DType]]  #: the memory that it needs while it runs
    calls: Callable[[Sequence[str], Sequence[str]], Sequence[KernelCall]]
    """The calls, given the names of arrays and of the scratch memory: of x, the arrays of an epilogue, and the result.
    """


class Uncompiled(Exception):
    """A kernel cannot be compiled."""


SCRATCH = None
"""In the table of a call: the memory of a thread."""
_HEAD, _MOST = 5, 32
"""The words of a call's record before those of its table, and the largest table."""


class PartCalls:
    """Calls of kernels, one after the other for each part of the blocks of a job that threads share.

    Calls for arrays of some shapes can be made again and again, by any thread, for other arrays, which they know by
    their numbers.

    Args:
        given: the number of arrays that `run` gets.
    """

    def __init__(self, given: int = 0) -> None:
        kernel = template_kernel(calls_of_parts)
        if kernel is None:
            raise Uncompiled
        self._kernel, self._count, self._given = kernel, 0, given
        self._arrays: list[Any] = []
        self._words: list[int] = []
        self._record: Any = None

    def add(
        self, kernel: TemplateKernel, table: Sequence[Any], sizes: Sequence[int], each: int = 1, end: int = 0
    ) -> None:
        """Add a call.

        Args:
            kernel: the kernel.
            table: its table: arrays, or numbers of those that `run` gets; or tuples of one or `SCRATCH`, an offset in
                bytes, and how many bytes further the kernel finds it for each block of the job before the part.
            sizes: its sizes.
            each: the number of the kernel's blocks that are a block of the job.
            end: the number of the kernel's blocks, if it computes all of them for each part.
        """
        self._count += 1
        self._words += (code_of(kernel.function), each, end, len(table), len(sizes))
        for x in table:
            array, offset, step = x if type(x) is tuple else (x, 0, 0)
            if array is SCRATCH:
                place = 1
            elif type(array) is int:
                place = 2 + array
            else:
                self._arrays.append(array)
                place = 1 + self._given + len(self._arrays)
            self._words += (place, offset, step)
        self._words += sizes
        self._record = None

    def run(
        self,
        blocks: int,
        each: float,
        part: int = 1,
        scratch: int = 0,
        zeros: bool = False,
        given: Sequence[Any] = (),
    ) -> None:
        """Make the calls for all blocks of a job, on several threads if there is much to do.

        Args:
            blocks: the number of blocks.
            each: the number of elements of a block, for `burnpy_numpy.cpu_threads.shared`.
            part: the number of blocks of a part.
            scratch: the bytes of memory that a thread needs.
            zeros: whether that memory has to begin with zeros.
            given: the arrays that calls know by their numbers.
        """
        if self._record is None:
            self._record = np.array(self._words, np.int64)
        table, own = [self._record, *given, *self._arrays], Scratch(1, scratch, zeros=zeros)
        self._kernel.launch(table, (self._count, part), blocks, each, own)


def compiles_parts(dtype: Any) -> bool:
    """Return whether the kernels are there that make calls for parts and lay out images."""
    name = "float32" if dtype is float32 else "float64"
    laid_out = template_kernel(copy_of_phases, name, vector_width(dtype))
    return laid_out is not None and template_kernel(calls_of_parts) is not None


def calls_of_parts() -> str:
    """Return the text of the kernel that makes the calls of `PartCalls`.

    The table: the records of the calls, memory of the thread, and the arrays. The sizes: the number of calls, and the
    blocks of a part. A record: the address of the kernel, its blocks for each block here, their number if it computes
    all, the lengths of its table and of its sizes; for each array its place here, an offset and a step in bytes; and
    the sizes.
    """
    w = Loops(1, 2, 2)
    (records, _), (count, size) = w.table, w.sizes
    own, place = w.stack_memory(_MOST, "int64"), w.stack_memory(1, "int64")
    parts = w.ceil_div(w.end - w.begin, size)
    with w.loop(0, parts) as part:
        start = w.begin + part * size
        stop = w.smaller(start + size, w.end)
        w.set_number(place, 0)
        with w.loop(0, count):
            record = w.element(records, w.number(place, 0), "int64")
            each, end, length, sizes = (w.number(record, k) for k in range(1, _HEAD))
            words = w.element(record, _HEAD, "int64")
            with w.loop(0, length) as k:
                which, offset, step = (w.number(words, k * 3 + j) for j in range(3))
                address = w.number("%table", which) + offset + start * step
                w.set_number(w.element(own, k, "int64"), address)
            all_of_them = w.icmp("ne", end, 0)
            first = w.chosen(all_of_them, 0, start * each)
            last = w.chosen(all_of_them, end, stop * each)
            given = length * 3
            arguments = f"ptr {own}, ptr {w.element(words, given, 'int64')}, i64 {first}, i64 {last}"
            w.write(f"call void {w.pointer(record, 0)}({arguments})")
            w.set_number(place, w.number(place, 0) + _HEAD + (given + sizes))
    return w.function()


def to_blocks(dtype: str, width: int, lanes: int) -> str:
    """Return the text of the kernel that reorders an array to blocks of channels.

    The table: the array, the blocks, and a vector to which 0 · x is added for each element x, so that it tells whether
    all are finite. The sizes: those of `Planes`, the distances of blocks, their members, rows and pixels, and the
    numbers of zeros before and after each row. ``begin`` and ``end`` are blocks. Lanes beyond the last channel are
    those of the last channel.

    Args:
        dtype: float32 or float64.
        width: the number of elements of a vector, a power of 2.
        lanes: the number of channels in a block: a multiple of the width, or a power of 2 below it.
    """
    w = Squares(width, table=3, sizes=13)
    (x, blocks, finite), (members, channels, rows, columns, x_member, x_channel, x_row) = w.table, w.sizes[:7]
    block, member, row, pixel, before, after = w.sizes[7:]
    size, last = min(lanes, width), channels - 1
    zero = w.constant(0.0, dtype)
    checked = w.variable(w.load(finite, dtype))
    with w.loop(w.begin, w.end) as b, w.loop(0, lanes // size) as group:
        first = b * lanes + group * size
        lines = [w.smaller(first + k, last) * x_channel for k in range(size)]
        target = b * block + group * size
        with w.loop(0, members) as n, w.loop(0, rows) as h:
            source = n * x_member + h * x_row
            start = target + (n * member + h * row)
            if lanes >= width:  # narrower blocks have no zeros
                inside = start + before * pixel
                beyond = inside + columns * pixel
                for place, count in ((start, before), (beyond, after)):
                    with w.loop(0, count) as k:
                        w.store_at(zero, blocks, place + k * pixel)
                start = inside
            for column, left in w.squares(columns):
                at = source + column
                mask = None if left is None else w.below(left)
                xs = [w.load(w.element(x, line + at, dtype), dtype, mask) for line in lines]
                w.check(checked, xs)
                out = start + column * pixel
                for number, v in enumerate(w.transposed(xs)):
                    if size == width:
                        with w.inside(number, left):
                            w.store_at(v, blocks, out + pixel * number)
                    else:
                        rest = None if left is None else w.below(left * size - number * width)
                        w.store(v, w.element(blocks, out + number * width, dtype), rest)
    w.store(w.get(checked, dtype), finite)
    return w.function()


def from_blocks(dtype: str, width: int, lanes: int, *epilogue: Any) -> str:
    """Return the text of the kernel that reorders blocks of channels to an array.

    The table: the blocks, the array, and the arrays of an epilogue. The sizes: those of `Planes`, and the distances of
    blocks, their members, rows and pixels. ``begin`` and ``end`` are blocks. Lanes beyond the last channel are not
    read.

    Args:
        dtype: float32 or float64.
        width: the number of elements of a vector, a power of 2.
        lanes: the number of channels in a block, a multiple of the width.
        epilogue: the parameters of an `Epilogue`, if there is one.
    """
    w = Squares(width, table=2 + others_of(epilogue), sizes=11)
    (blocks, x, *others), (members, channels, rows, columns, x_member, x_channel, x_row) = w.table, w.sizes[:7]
    block, member, row, pixel = w.sizes[7:]
    with w.loop(w.begin, w.end) as b, w.loop(0, lanes // width) as group:
        first = b * lanes + group * width
        source = b * block + group * width
        target = first * x_channel
        there = channels - first
        with w.loop(0, members) as n, w.loop(0, rows) as h:
            start = source + (n * member + h * row)
            line = target + (n * x_member + h * x_row)
            for column, left in w.squares(columns):
                at = [column + k for k in range(width)]
                if left is not None:
                    at = [w.smaller(place, columns - 1) for place in at]
                xs = [w.load_at(blocks, start + place * pixel, dtype) for place in at]
                mask = None if left is None else w.below(left)
                for k, v in enumerate(w.transposed(xs)):
                    with w.inside(k, there):
                        place = line + column + x_channel * k
                        out = computed(w, v, epilogue, others, place, first + k, mask)
                        w.store(out, w.element(x, place, out.dtype), mask)
    return w.function()


def copy_of_phases(dtype: str, width: int) -> str:
    """Return the text of the kernel that copies images to memory in which the phases of a stride lie apart.

    The table: the images, memory, and the phases of `Windows`, int64. The sizes: the channels of an image; the
    distances of images, channels, rows and columns; those of images, channels and rows in memory; the strides down and
    across; and the number of phases. ``begin`` and ``end`` are planes.
    """
    w = Loops(width, 3, 11)
    x, memory, phases = w.table
    channels, x_member, x_channel, x_row, x_column, member, channel, line, down, across, count = w.sizes
    w.declared.add("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
    step = x_column * across
    with w.loop(w.begin, w.end) as plane, w.loop(0, count) as phase:
        n, c = plane // channels, plane % channels
        top, left, place, rows, columns = (w.number(phases, phase * 5 + k) for k in range(5))
        start = n * x_member + c * x_channel + left * x_column
        goal = n * member + c * channel + place
        with w.loop(0, rows) as row:
            at = start + (top + row * down) * x_row
            source, target = w.element(x, at, dtype), w.element(memory, goal + row * line, dtype)
            with w.when(f"eq i64 {step}, 1"):
                size = columns * bytes_of(dtype)
                w.write(f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {size}, i1 false)")
            with w.when(f"ne i64 {step}, 1"), w.loop(0, columns) as k:
                value = w.load_one_at(source, k * step, dtype)
                w.store_one(value, w.element(target, k, dtype))
    return w.function()


class Squares(Loops):
    """The lines of a kernel that transposes squares of a matrix in registers."""

    def squares(self, columns: Int) -> Generator[tuple[Int, Int | None]]:
        """Write loops over the columns by vectors; gives the first column, and how many are left in the last vector."""
        whole = columns // self.width
        with self.loop(0, whole) as k:
            yield k * self.width, None
        done = whole * self.width
        left = columns - done
        with self.inside(0, left):
            yield done, left

    def check(self, checked: str, xs: Sequence[Vector]) -> None:
        """Add 0 · x to a variable for vectors x, which makes it NaN where one is not finite."""
        for x in xs:
            self.set(checked, self.fma(x, self.constant(0.0, x.dtype), self.get(checked, x.dtype)))

    def by_taps(self, xs: Sequence[Vector]) -> list[Vector]:
        """Return a vector for each element of a window, given the windows of as many channels one after the other."""
        if len(xs) == self.width:
            return self.transposed(xs)
        count = range(self.width)
        return [self.picked(xs, [divmod(c * len(xs) + k, self.width) for c in count]) for k in range(len(xs))]

    def by_windows(self, xs: Sequence[Vector]) -> list[Vector]:
        """Return the windows of channels one after the other, given a vector for each element of a window."""
        if self.width % len(xs) == 0:
            return self.transposed(xs)
        places = [divmod(k, len(xs)) for k in range(len(xs) * self.width)]
        parts = [places[k : k + self.width] for k in range(0, len(places), self.width)]
        return [self.picked(xs, [(tap, channel) for channel, tap in part]) for part in parts]


def load_vectors(w: Loops, pointer: str, vectors: int, dtype: str) -> list[Vector]:
    """Load neighbouring vectors."""
    return [w.load_at(pointer, j * w.width, dtype) for j in range(vectors)]


def add_products(w: Loops, totals: list[str], factor: Vector, xs: Sequence[Vector]) -> None:
    """Add the products of a factor and several vectors to as many variables."""
    for total, x in zip(totals, xs, strict=True):
        w.set(total, w.fma(factor, x, w.get(total, x.dtype)))
