"""Products of few rows with a matrix of 8-bit or 4-bit ints, which a kernel converts in registers; and the windows of
images of 8-bit ints as the columns of a matrix, whose product with the weight is a convolution.

A product with one row takes as long as reading the matrix, so that a quarter or an eighth of the bytes is a quarter or
an eighth of the time where the matrix is not in the cache.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from burnpy.backend.dtypes import uint8
from burnpy.backend.primitives import Shape
from burnpy_numpy.kernels.compiler.loops import WORDS, Int, Loops
from burnpy_numpy.kernels.compiler.vectors import Vector
from burnpy_numpy.kernels.kernel import template_kernel
from burnpy_numpy.kernels.launch import TemplateKernel, block_starts, block_width
from burnpy_numpy.kernels.products.copies import BYTES_AHEAD, STORED, VECTORS, ProductLines

_VECTOR_BYTES = 64
"""The size of a vector of floats in bytes."""
_TILE_ROWS = 4
"""The number of rows of x that are multiplied by each converted vector of the matrix."""
_UNROLLED = 4
"""The number of vectors of a row of the matrix that are converted at a time."""
_AHEAD = 4096
"""The bytes by which the matrix is read ahead, as processors themselves do not read beyond a page of memory."""
_WORD_BYTES = 4
"""The bytes of a word; some neighbouring ones are transposed together."""
_EIGHTS = 0x88888888 - (1 << 32)
"""Ints of 4 bits that are stored plus 8 become signed ones by exclusive or with this."""


def run_quantized_product(x: Any, weight: Any, scale: Any) -> Any:
    """Return the product of `Backend.quantized_matmul` for C-contiguous matrices; None without a kernel, or if groups
    are too short."""
    width, bits = _VECTOR_BYTES // x.itemsize, 4 if weight.dtype is uint8 else 8
    (rows, columns), (outputs, groups) = x.shape, scale.shape
    count = weight.shape[1] // groups
    if count < width:
        return None
    vectors = count // width
    constant = vectors if groups > 1 and count % width == 0 and vectors <= _UNROLLED else 0
    out, done = np.empty((rows, outputs), x.dtype), 0
    for tile in (_TILE_ROWS, 1):
        some = (rows - done) // tile * tile
        if some:
            kernel = template_kernel(quantized_rows, x.dtype, width, bits, tile, constant)
            if kernel is None:
                return None
            arrays = (x[done : done + some], weight, scale, out[done : done + some])
            kernel.run(arrays, (some, outputs, columns, groups, count), outputs, some * columns)
            done += some
    return out


def quantized_rows(dtype: str, width: int, bits: int, tile: int, vectors: int) -> str:
    """Return the text of the kernel of products of rows with the rows of a quantized matrix.

    The table: x (rows, in), the matrix (out, bytes), scale (out, groups) and the products (rows, out). The sizes: rows,
    out, in, groups, and bytes in a group, no fewer than ``width``. ``begin`` and ``end`` are rows of the matrix.

    Args:
        dtype: float32 or float64.
        width: the number of elements of a vector.
        bits: the size of an int, 8 or 4.
        tile: the number of rows of x at a time, which divides their number.
        vectors: the number of vectors in a group; 0 if it is known only when the kernel runs.
    """
    w = _Rows(dtype, width, bits, tile)
    x, weight, scale, out = w.table
    rows, outputs, columns, groups, count = w.sizes
    with w.loop(w.begin, w.end) as o, w.loop(0, rows // tile) as r:
        line, scales = o * groups * count, w.element(scale, o * groups, dtype)
        first = r * tile
        starts = [w.element(x, (first + t) * columns, dtype) for t in range(tile)]
        totals = [w.variable(w.zero) for _ in range(tile)]
        with w.loop(0, groups) as g:
            packed = w.element(weight, line + g * count, "int8")
            sums = w.sums_of_group(packed, [w.element(start, g * w.size, dtype) for start in starts], vectors)
            factor = w.load_one(w.element(scales, g, dtype), dtype)
            for total, mine in zip(totals, sums, strict=True):
                one = w.get(mine[0], dtype)
                for part in mine[1:]:
                    one = w.add(one, w.get(part, dtype))
                w.set(total, w.fma(one, factor, w.get(total, dtype)))
        for t, total in enumerate(totals):
            place = (first + t) * outputs + o
            w.store_one(w.total(w.get(total, dtype)), w.element(out, place, dtype))
    return w.function()


class _Rows(Loops):
    """The kernel `quantized_rows`: its sums of products of ints with as many rows of x."""

    def __init__(self, dtype: str, width: int, bits: int, tile: int) -> None:
        super().__init__(width, 4, 5)
        self.dtype, self.int_bits, self.tile, self.group = dtype, bits, tile, self.sizes[4]
        self.zero = self.constant(0.0, dtype)
        self.size = self.group * (8 // bits)
        self.whole = self.group // width * width
        self.turns = self.group // (width * _UNROLLED) * _UNROLLED
        self.last = self.lanes_where("uge", self.whole + width - self.group)
        """The mask of the lanes of a last vector that are not in whole vectors before it."""

    def sums_of_group(self, packed: str, xs: list[str], vectors: int) -> list[list[str]]:
        """Write the products of a group with rows of x, and return the variables of each row's sums."""
        sums = [[self.variable(self.zero) for _ in range(_UNROLLED if self.tile == 1 else 1)] for _ in range(self.tile)]
        if vectors:
            self.prefetch(self.element(packed, _AHEAD, "int8"))
            for k in range(vectors):
                self.add_vector(packed, xs, sums, str(k * self.width), k)
            return sums
        with self.loop(0, self.turns // _UNROLLED) as j:
            at = j * (self.width * _UNROLLED)
            self.prefetch(self.element(packed, at + _AHEAD, "int8"))
            for k in range(_UNROLLED):
                self.add_vector(packed, xs, sums, at + k * self.width, k)
        with self.loop(self.turns, self.whole // self.width) as j:
            self.add_vector(packed, xs, sums, j * self.width, 0)
        with self.inside(0, self.group - self.whole):
            self.add_vector(packed, xs, sums, self.group - self.width, 1, self.last)
        return sums

    def add_vector(
        self, packed: str, xs: list[str], sums: list[list[str]], at: str, k: int, mask: str | None = None
    ) -> None:
        """Add the products of a vector of ints to the k-th sums."""
        for part, ints in enumerate(_converted(self, self.element(packed, at, "int8"), self.int_bits, self.dtype)):
            place = at if part == 0 else at + self.group
            for x, mine in zip(xs, sums, strict=True):
                total = mine[k % len(mine)]
                value = self.load(self.element(x, place, self.dtype), self.dtype, mask)
                self.set(total, self.fma(ints, value, self.get(total, self.dtype)))


def _converted(w: Loops, pointer: str, bits: int, dtype: str) -> list[Vector]:
    """Load bytes, and return their ints as floats: a vector of one for each byte, or two for its two halves."""
    packed = w.load(pointer, "int8", None)
    if bits == 8:
        return [w.convert("sitofp", w.convert("sext", packed, "int32"), dtype)]
    wide = w.convert("zext", packed, "int32")
    halves = w.binary("and", wide, w.constant(15, "int32")), w.binary("lshr", wide, w.constant(4, "int32"))
    return [w.convert("sitofp", w.binary("sub", half, w.constant(8, "int32")), dtype) for half in halves]


class IntegerWindows(NamedTuple):
    """The windows of images of 8-bit ints, copied by a kernel to the columns of a matrix for each image."""

    kernel: TemplateKernel
    columns: Shape  #: of the matrices, (N, elements of a window, windows)
    counts: Shape  #: the numbers of windows
    scratch: int  #: the bytes of memory for images with what is around them; 0 to read images where they are
    starts: tuple[Any, Any]  #: the first columns of the vectors of a row of an image, and of a row of windows
    sizes: tuple[int, ...]
    planes: int

    @property
    def each(self) -> int:
        """The number of elements that are copied of a plane, for `burnpy_numpy.cpu_threads.shared`."""
        return math.prod(self.columns) // self.planes

    def table(self, x: Any, value: Any, columns: Any, scratch: Any) -> tuple[Any, ...]:
        """Return the table of the kernel, given images, the number around them, and memory."""
        return x, value, columns, scratch, *self.starts

    def run(self, x: Any, value: Any) -> Any:
        """Return the columns of C-contiguous images."""
        columns = np.empty(self.columns, x.dtype)
        scratch = np.empty(self.scratch, np.uint8) if self.scratch else columns
        self.kernel.run(self.table(x, value, columns, scratch), self.sizes, self.planes, self.each)
        return columns


def are_pixels(kernel: Shape, stride: Shape, low: Shape, high: Shape) -> bool:
    """Return whether windows are the elements of images, which are a matrix then."""
    return math.prod(kernel) == math.prod(stride) == 1 and not any((*low, *high))


def integer_windows(
    x: Shape, kernel: Shape, stride: Shape, low: Shape, high: Shape, dilation: Shape
) -> IntegerWindows | None:
    """Return the windows of one or two dimensions of images of shape (N, C, …); None without a kernel for them."""
    if len(kernel) > 2 or 0 in x or are_pixels(kernel, stride, low, high):
        return None
    one, none = (1,) * (2 - len(kernel)), (0,) * (2 - len(kernel))
    high_by_wide, taps, steps, gaps = ((*one, *sizes) for sizes in (x[2:], kernel, stride, dilation))
    before, behind = ((*none, *sizes) for sizes in (low, high))
    whole = [a + n + b for a, n, b in zip(before, high_by_wide, behind, strict=True)]
    each = list(zip(whole, taps, steps, gaps, strict=True))
    counts = tuple((n - (k - 1) * gap - 1) // step + 1 for n, k, step, gap in each)
    width, row = block_width(counts[1], _VECTOR_BYTES), block_width(high_by_wide[1], _VECTOR_BYTES)
    copier = template_kernel(window_columns, width, row, min(steps[1], 3)) if min(counts) > 0 else None
    if copier is None:
        return None
    planes = x[0] * x[1]
    padded = whole != [*high_by_wide] or steps[1] == 2  # whose last vector is one element longer than the row
    scratch = planes * math.prod(whole) + 1 if padded else 0
    starts = block_starts(high_by_wide[1], row), block_starts(counts[1], width)
    sizes = (padded, *high_by_wide, *whole, *before, *taps, *steps, *gaps, *counts, *map(len, starts))
    columns = x[0], x[1] * math.prod(taps), math.prod(counts)
    return IntegerWindows(copier, columns, counts[2 - len(kernel) :], scratch, starts, sizes, planes)


def window_columns(width: int, row: int, step: int) -> str:
    """Return the text of the kernel that copies the elements of windows of images of 8-bit ints.

    The table: images (planes, height, width), the number around them, the columns (planes, rows and columns of a
    window, rows and columns of windows), memory for images with what is around them, and as int64 the first columns of
    vectors of a row of an image, and of a row of windows. The sizes: 1 if something is around images, or 0; height and
    width of images, and of those with what is around them; where they begin there; height and width of a window, of a
    step, and between elements of a window; the rows and the columns of windows; and the vectors of each row.
    ``begin`` and ``end`` are planes.

    Args:
        width: the number of elements of a vector of windows.
        row: the number of elements of a vector of a row of an image.
        step: the step between windows of a row; 3 stands for any.
    """
    w = Loops(width, 6, 17)
    x, value, out, scratch, of_rows, of_windows = w.table
    padded, high, wide, whole_high, whole_wide, top, left, *sizes, row_vectors, vectors = w.sizes
    taps_high, taps_wide, step_high, step_wide, gap_high, gap_wide, down, across = sizes
    area, whole_area = high * wide, whole_high * whole_wide
    taps, windows = taps_high * taps_wide, down * across
    w.declared.add("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
    around = w.first(w.load_one(value, "int8"))
    images = w.either(w.icmp("eq", padded, 0), x, scratch)
    with w.loop(w.begin, w.end) as plane:
        image = w.element(images, plane * whole_area, "int8")
        with w.when(f"ne i64 {padded}, 0"):
            w.write(f"call void @llvm.memset.p0.i64(ptr {image}, i8 {around}, i64 {whole_area}, i1 false)")
            given = w.element(x, plane * area, "int8")
            first = w.element(image, top * whole_wide + left, "int8")
            with w.of_width(row), w.loop(0, high) as y, w.loop(0, row_vectors) as v:
                start = w.number(of_rows, v)
                copied = w.load(w.element(given, y * wide + start, "int8"), "int8", None)
                w.store(copied, w.element(first, y * whole_wide + start, "int8"), None)
        result = w.element(out, plane * (taps * windows), "int8")
        with w.loop(0, taps_high) as i, w.loop(0, taps_wide) as j, w.loop(0, down) as y:
            place = (y * step_high + i * gap_high) * whole_wide
            source = w.element(image, place + j * gap_wide, "int8")
            line = (i * taps_wide + j) * down + y
            target = w.element(result, line * across, "int8")
            with w.loop(0, vectors) as v:
                start = w.number(of_windows, v)
                at = w.element(source, start * step_wide, "int8")
                w.store(_apart(w, at, step, step_wide), w.element(target, start, "int8"), None)
    return w.function()


def _apart(w: Loops, at: str, step: int, distance: Int) -> Vector:
    """Load bytes a step apart; 3 stands for any distance."""
    if step == 1:
        return w.load(at, "int8", None)
    if step == 2:
        pair = [w.load(w.element(at, k * w.width, "int8"), "int8", None) for k in range(2)]
        return w.shuffled(pair[0], pair[1], range(0, 2 * w.width, 2))
    return w.load_lanes([w.element(at, distance * k, "int8") for k in range(w.width)], 0, "int8")


def copy_widened_columns(dtype: str, width: int, stored: str) -> ProductLines:
    """Return the function that widens a panel whose columns lie together; columns beyond the last repeat the last.
    Words of some neighbours of as many columns as a vector has elements are taken together. A group ends with units
    that make no such square, which are taken one at a time."""
    w, (size, parts, grouped) = ProductLines(dtype, width), STORED[stored]
    depth, count, distance, groups = w.arguments("depth columns distance groups")
    last, per_word = count - 1, _WORD_BYTES // size
    square = WORDS * per_word
    [group] = w.arguments("group") if grouped else [depth]
    with w.loop(0, w.smaller(VECTORS, w.ceil_div(count, width))) as v:
        first = v * width
        numbers = [w.smaller(first + t, last) for t in range(width)]
        columns = [w.unit("%source", number * distance, stored) for number in numbers]
        scales = [w.at("%scale", number * groups) for number in numbers] if grouped else []
        with w.loop(0, w.ceil_div(depth, group)) as g:
            begin = g * group
            units = w.smaller(group, depth - begin)
            whole = units // square
            scale = w.load_lanes(scales, g, dtype) if grouped else None
            to = w.at(w.at("%to", first), begin * (parts * VECTORS * width))

            def keep(words: Vector, unit: Int, k: int) -> None:
                """Store the numbers of a unit of each word."""
                signed = w.binary("xor", words, w.constant(_EIGHTS, "int32")) if parts > 1 else words
                for part in range(parts):
                    x = w.number_in(signed, k * parts + part, stored)
                    row = unit + units * part if part else unit
                    place = w.at(to, row * (VECTORS * width))
                    w.store(w.mul(x, scale) if scale else x, place, None)

            with w.loop(0, whole) as q:
                unit = q * square
                at = [w.unit(column, begin + unit, stored) for column in columns]
                for lane in at:
                    w.prefetch(w.assign(f"getelementptr i8, ptr {lane}, i64 {BYTES_AHEAD}"))
                for t, words in enumerate(w.neighbouring_words(at)):
                    for k in range(per_word):
                        keep(words, unit + (t * per_word + k), k)
            with w.loop(whole * square, units) as unit:
                at = [w.unit(column, begin + unit, stored) for column in columns]
                keep(w.one_by_one(at, size), unit, 0)
    scaled = ", ptr %scale, i64 %groups, i64 %group"
    return w.named("copy_columns", f"ptr %source, i64 %depth, i64 %columns, i64 %distance, ptr %to{scaled}")
