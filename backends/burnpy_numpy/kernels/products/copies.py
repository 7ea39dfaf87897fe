"""The copies of operands that the kernel of matrix products reads: panels of B and stripes of A, widened on the way.

B may be stored in floats of 16 bits, or in ints of 8 or 4 bits with a scale for each group of a column; A may be
stored in floats of 16 bits. The copies have the dtype in which products are computed, or they consist of words: see
`Words`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Self

import numpy as np

from burnpy.backend.dtypes import DTYPES, FLOATS, is_upper_half
from burnpy_numpy.kernels.compiler.loops import Int, Loops
from burnpy_numpy.kernels.compiler.vectors import Vector

VECTORS = 2
"""The number of vectors of columns of a tile."""
CHUNK_BYTES = 1600
"""The most bytes of a row of A in a chunk, so that a stripe of them stays in the first cache."""
ROW_BYTES = CHUNK_BYTES + 64
"""The distance of copied rows, no power of 2."""
STRIPE_BYTES = 1 << 15
"""The memory of a copied stripe."""
STRIPES = 4
"""The number of stripes whose columns are copied together, as they share cache lines."""
IN_PLACE, ROWS, COLUMNS, PACKED = range(4)
"""How a block of B is read: in place; in panels, copied from rows or from columns that lie together; or in panels that
B consists of, each of whole columns."""
LINE = 64
"""The bytes of a cache line."""
ROWS_AHEAD = 4
"""The number of rows of B by which it is fetched ahead when it is copied."""
BYTES_AHEAD = 256
"""The bytes by which a column is fetched ahead when it is widened."""
TILE, STRIPE_ROWS = 16, 32
"""The rows of a register of AMX, each of as many words, and the rows of a stripe for it."""
_SIGN_BITS = 0x80808080 - (1 << 32)
"""Exclusive or with it adds 128 to ints of 8 bits with signs, and subtracts 128 from others."""


class Stored(NamedTuple):
    """How the numbers of an operand are stored: in units of some bytes, which hold one number, or two of 4 bits."""

    bytes: int
    parts: int = 1
    grouped: bool = False  #: whether the numbers are ints, whose groups have scales


STORED = {
    **{name: Stored(DTYPES[name].bits // 8) for name in FLOATS},
    "int8": Stored(1, 1, True),
    "uint8": Stored(1, 2, True),
    "int32": Stored(4),
}
"""By the name of a dtype; uint8 are two ints of 4 bits, each plus 8, unless products are sums of int32."""


class ProductLines(Loops):
    """The lines of a function of this kernel, on elements of one dtype."""

    text: str = ""

    def __init__(self, dtype: str, width: int, table: int = 0, sizes: int = 0) -> None:
        super().__init__(width, table, sizes)
        self.dtype = dtype

    def at(self, pointer: str, index: str | int) -> str:
        """Return the address of an element."""
        return self.element(pointer, index, self.dtype)

    def unit(self, pointer: str, index: str | int, stored: str) -> str:
        """Return the address of a unit of an operand; see `Stored`."""
        return self.assign(f"getelementptr i{8 * STORED[stored].bytes}, ptr {pointer}, i64 {index}")

    def widened(self, pointer: str, stored: str, mask: str | None) -> Vector:
        """Load a vector of floats that may be stored in 16 bits."""
        if STORED[stored].bytes > 2:
            return self.load(pointer, stored, mask)
        return self.from_half(self.load(pointer, stored, mask))

    def number_in(self, words: Vector, k: int, stored: str) -> Vector:
        """Return number ``k`` of each word as a float, without its scale; ints of 4 bits count from the lowest bits."""
        if STORED[stored].grouped:
            size = 8 // STORED[stored].parts
            ints = self._moved("ashr", self._moved("shl", words, 32 - size * (k + 1)), 32 - size)
            return self.convert("sitofp", ints, self.dtype)
        if is_upper_half(stored):
            moved = self.binary("and", words, self.constant(-1 << 16, "int32")) if k else self._moved("shl", words, 16)
            return self.bits(moved, "float32")
        bits = self.binary("lshr", words, self.constant(16, "int32")) if k else words
        return self.from_half(self.convert("trunc", bits, stored))

    def _moved(self, how: str, x: Vector, bits: int) -> Vector:
        """Shift ints."""
        return self.binary(how, x, self.constant(bits, x.dtype)) if bits else x

    def add(self, x: Vector, y: Vector) -> Vector:
        """x + y, of floats or of ints."""
        return self.binary("add", x, y) if x.dtype == "int32" else super().add(x, y)

    def fma(self, x: Vector, y: Vector, z: Vector) -> Vector:
        """x · y + z, rounded once; of words, the products of both numbers plus z."""
        return self.add(self.pair_products(x, y), z) if x.dtype == "int32" else super().fma(x, y, z)

    def panel(self, number: Int, stored: str) -> tuple[Int, str, Int]:
        """Return the first column of a panel of B for a stripe, its address and the distance of its rows. With
        ``stored``, a dtype of 16 bits, B is read in place."""
        whole, b_row, tall = self.arguments("whole b_row tall")
        in_place, lanes = self.icmp("slt", number, whole), VECTORS * self.width
        first = number * lanes
        if stored:
            return first, self.unit("%b", first, stored), b_row
        b = self.either(in_place, self.at("%b", first), self.at("%panels", first * tall))
        return first, b, self.chosen(in_place, b_row, lanes)

    def named(self, name: str, arguments: str) -> Self:
        """End the lines as a function of this name."""
        self.text = self.body(f"internal void @{name}({arguments}) noinline")
        return self


class Words(NamedTuple):
    """The layout of neighbours in a row of A, or a column of B, in 32-bit words, which one instruction multiplies and
    adds: bfloat16, and 8-bit ints as they are or as 16-bit ints. A panel has a line for each word of a column; numbers
    that are missing are zeros."""

    stored: str  #: the dtype of the operand
    bits: int  #: of a number in a word
    step: int  #: the numbers that are multiplied together, to which their count is rounded up
    by: str  #: the instructions: see `words_of`

    @property
    def each(self) -> int:
        """Return how many numbers a word has."""
        return 32 // self.bits

    def lines(self, numbers: int) -> int:
        """Return the words of this many numbers, rounded up."""
        return -(-numbers // self.step) * self.step // self.each

    def kept(self, dtype: Any) -> Any:
        """Return the dtype of the numbers in words, which have another one in an array."""
        return dtype if 8 * dtype.itemsize == self.bits else np.dtype(np.int16)

    def shifts(self, other: str) -> bool:
        """Return whether numbers of A, of dtype ``other``, are shifted by 128: the instruction has products of ints
        with signs and ints without signs alone."""
        return self.by == "dots" and self.stored == other != "bfloat16"


def words_of(by: str, stored: str) -> Words | None:
    """Return the words of an operand; None if it is multiplied number by number.

    Args:
        by: "amx"; "dots", of words of bfloat16 (`vdpbf16ps`) or ints of 8 bits (`vpdpbusd`); "pairs", of ints of 16
            bits; or "numbers".
        stored: the dtype of the operand.
    """
    if by == "numbers":
        return None
    bits = 16 if by == "pairs" else 8 * STORED[stored].bytes
    return Words(stored, bits, TILE * 32 // bits if by == "amx" else 32 // bits, by)


class WordLines(ProductLines):
    """The lines of a function that reads or writes words."""

    def word_of_rows(self, source: str, row: Int, words: Words, mask: str | None) -> Vector:
        """Return words of neighbouring rows, the first one in the lowest bits; zeros from row ``%depth`` on."""
        depth, distance = self.arguments("depth distance")
        total, kind = None, self.type("int32")
        for k in range(words.each):
            number, some = row + k, mask
            if mask is not None:
                within = self.icmp("slt", number, depth)
                some = self.either(within, mask, "zeroinitializer", self.type("bool"))
            line = self.unit(source, number * distance, words.stored)
            narrow = self._in_word(line, words, self.width, some)
            wide = Vector(self.assign(f"zext <{self.width} x i{words.bits}> {narrow} to {kind}"), "int32")
            moved = self._moved("shl", wide, words.bits * k)
            total = moved if total is None else self.binary("or", total, moved)
        assert total is not None
        return total

    def words_of_whole_rows(self, source: str, row: Int, words: Words) -> list[Vector]:
        """Return words of neighbouring rows in `VECTORS` vectors, by one shuffle for each."""
        [distance] = self.arguments("distance")
        lanes, kind = VECTORS * self.width, f"i{words.bits}"
        lines = [self.unit(source, (row + k) * distance, words.stored) for k in range(words.each)]
        rows = [self._in_word(line, words, lanes, None) for line in lines]
        length = lanes
        while len(rows) > 2:
            both = range(2 * length)
            rows = [self._chosen(kind, length, x, y, both) for x, y in zip(rows[::2], rows[1::2], strict=True)]
            length *= 2
        found = []
        for first in range(0, lanes, self.width):
            places = [k * lanes + first + n for n in range(self.width) for k in range(words.each)]
            mixed = self._chosen(kind, length, rows[0], rows[1], places)
            text = self.assign(f"bitcast <{len(places)} x {kind}> {mixed} to {self.type('int32')}")
            found.append(Vector(text, "int32"))
        return found

    def _chosen(self, kind: str, length: int, x: str, y: str, places: Iterable[int]) -> str:
        """Return numbers of two vectors by their places."""
        order = ", ".join(f"i32 {place}" for place in places)
        count = order.count("i32")
        given = f"<{length} x {kind}> {x}, <{length} x {kind}> {y}"
        return self.assign(f"shufflevector {given}, <{count} x i32> <{order}>")

    def words_of_line(self, line: str, number: str, words: Words, left: str | None) -> Vector:
        """Load a vector of words of neighbours; zeros from ``left`` numbers on."""
        length, mask = words.each * self.width, None
        if left is not None:
            with self.of_width(length):
                mask = self.below(left)
        loaded = self._in_word(self.unit(line, number, words.stored), words, length, mask)
        text = self.assign(f"bitcast <{length} x i{words.bits}> {loaded} to {self.type('int32')}")
        return Vector(text, "int32")

    def _in_word(self, pointer: str, words: Words, count: int, mask: str | None) -> str:
        """Load numbers as ints of the size that they have in words."""
        size = STORED[words.stored].bytes
        kind, masks, full = f"<{count} x i{8 * size}>", f"<{count} x i1>", f"@llvm.masked.load.v{count}i{8 * size}.p0"
        if mask is None:
            loaded = self.assign(f"load {kind}, ptr {pointer}, align {size}")
        else:
            self.declared.add(f"declare {kind} {full}(ptr, i32, {masks}, {kind})")
            given = f"ptr {pointer}, i32 {size}, {masks} {mask}, {kind} zeroinitializer"
            loaded = self.assign(f"call {kind} {full}({given})")
        if 8 * size == words.bits:
            return loaded
        extends = "sext" if words.stored == "int8" else "zext"
        return self.assign(f"{extends} {kind} {loaded} to <{count} x i{words.bits}>")

    def shifted(self, words: Vector) -> Vector:
        """Return words of ints of 8 bits that are shifted by 128, see `Words.shifts`."""
        return self.binary("xor", words, self.constant(_SIGN_BITS, "int32"))

    def lines_of(self, words: Words, count: Int) -> Int:
        """Return `Words.lines` of a count."""
        return self.ceil_div(count, words.step) * (words.step // words.each)


def copy_rows(dtype: str, width: int, stored: str) -> ProductLines:
    """Return the function that copies rows to panels, one after the other; columns beyond the last are zeros."""
    w, lanes = ProductLines(dtype, width), VECTORS * width
    columns, depth, distance = w.arguments("columns depth distance")
    whole, rest = divmod(columns, lanes)
    begin = whole * lanes
    masks = [w.below(rest - v * width) for v in range(VECTORS)]
    panel, end = depth * lanes, w.at("%to", begin * depth)
    some = w.smaller(rest, 1)
    with w.loop(0, depth) as p:
        source, to = w.unit("%source", p * distance, stored), p * lanes
        ahead = w.unit(source, distance * ROWS_AHEAD, stored)
        with w.loop(0, whole) as q:
            column, place = q * lanes, w.at("%to", q * panel + to)
            for v in range(VECTORS):
                w.prefetch(w.unit(w.unit(ahead, column, stored), v * width, stored))
                x = w.widened(w.unit(w.unit(source, column, stored), v * width, stored), stored, None)
                w.store(x, w.at(place, v * width), None)
        with w.loop(0, some):
            for v, mask in enumerate(masks):
                x = w.widened(w.unit(w.unit(source, begin, stored), v * width, stored), stored, mask)
                w.store(x, w.at(w.at(end, to), v * width), None)
    return w.named("copy_rows", "ptr %source, i64 %depth, i64 %columns, i64 %distance, ptr %to")


def copy_columns(dtype: str, width: int) -> ProductLines:
    """Return the function that copies a panel whose columns lie together; columns beyond the last repeat the last."""
    w = ProductLines(dtype, width)
    columns, depth, distance = w.arguments("columns depth distance")
    last, (whole, rest) = columns - 1, divmod(depth, width)
    with w.loop(0, w.smaller(VECTORS, w.ceil_div(columns, width))) as v:
        first = v * width
        lanes = [w.at("%source", w.smaller(first + t, last) * distance) for t in range(width)]
        to = w.at("%to", first)

        def square(p: Int, mask: str | None, left: Int | None) -> None:
            xs = [w.load(w.at(lane, p), dtype, mask) for lane in lanes]
            place = w.at(to, p * (VECTORS * width))
            for t, x in enumerate(w.transposed(xs)):
                with w.inside(t, left):
                    w.store(x, w.at(place, t * VECTORS * width), None)

        with w.loop(0, whole) as q:
            square(q * width, None, None)
        with w.when(f"sgt i64 {rest}, 0"):
            square(whole * width, w.below(rest), rest)
    return w.named("copy_columns", "ptr %source, i64 %depth, i64 %columns, i64 %distance, ptr %to")


def copy_rows_of_stripe(dtype: str, width: int, stored: str) -> ProductLines:
    """Return the function that copies rows of A; rows beyond the last repeat the last."""
    w = ProductLines(dtype, width)
    rows, depth, height, distance = w.arguments("rows depth height distance")
    last, (whole, rest) = rows - 1, divmod(depth, width)
    done, mask = whole * width, w.below(rest)
    with w.loop(0, height) as i:
        line = w.unit("%source", w.smaller(i, last) * distance, stored)
        to = w.at("%to", i * (ROW_BYTES // STORED[dtype].bytes))
        with w.loop(0, whole) as q:
            p = q * width
            w.store(w.widened(w.unit(line, p, stored), stored, None), w.at(to, p), None)
        w.store(w.widened(w.unit(line, done, stored), stored, mask), w.at(to, done), None)
    return w.named("copy_stripes", COPY)


def copy_columns_of_stripes(
    dtype: str, width: int, high: int, stored: str, words: Words | None = None, shifted: bool = False
) -> ProductLines:
    """Return the function that copies parts of the columns of A, of stripes of this many rows one after the other; rows
    beyond the last are zeros. With ``words`` they are words of neighbours of a row: see `copy_stripe_of_words`."""
    w, vectors, each = WordLines(dtype, width), stripe_vectors(width), 1 if words is None else words.each
    rows, depth, distance = w.arguments("rows depth distance")
    starts = [
        (t * high + v * width, t * (STRIPE_BYTES // STORED[dtype].bytes) + v * width)
        for t in range(STRIPES)
        for v in range(vectors)
    ]
    masks = [w.below(rows - row) for row, _ in starts]

    def copy(count: int) -> None:
        with w.loop(0, w.ceil_div(depth, each) if words else depth) as p:
            line, to = w.unit("%source", p * distance, stored), w.at("%to", p * (vectors * width))
            for (row, place), mask in zip(starts[:count], masks, strict=False):
                if words is None:
                    x = w.widened(w.unit(line, row, stored), stored, mask)
                else:
                    x = w.word_of_rows(w.unit("%source", row, stored), p * each, words, mask)
                w.store(w.shifted(x) if shifted else x, w.at(to, place), None)

    with w.when(f"sle i64 %rows, {high}"):
        copy(vectors)
    with w.when(f"sgt i64 %rows, {high}"):
        copy(len(starts))
    return w.named("copy_stripes", COPY)


def copy_rows_of_words(dtype: str, width: int, words: Words) -> ProductLines:
    """Return the function that copies rows to panels of words, one after the other; columns beyond the last are
    zeros."""
    w, lanes = WordLines(dtype, width), VECTORS * width
    depth, columns, distance = w.arguments("depth columns distance")
    lines = w.lines_of(words, depth)
    with w.loop(0, lines) as p, w.loop(0, w.ceil_div(columns, lanes)) as q:
        column, row = q * lanes, p * words.each
        to = w.at(w.at("%to", column * lines), p * lanes)
        for k in range(words.each):
            ahead = (row + (ROWS_AHEAD + k)) * distance
            w.prefetch(w.unit("%source", column + ahead, words.stored))

        def copy(masked: bool) -> None:
            if not masked:
                for v, x in enumerate(w.words_of_whole_rows(w.unit("%source", column, words.stored), row, words)):
                    w.store(x, w.at(to, v * width), None)
                return
            for v in range(VECTORS):
                first = column + v * width
                mask = w.below(columns - first)
                w.store(
                    w.word_of_rows(w.unit("%source", first, words.stored), row, words, mask), w.at(to, v * width), None
                )

        with w.when(f"slt i64 {row}, %depth"):
            w.in_two_ways(copy, [(column + lanes, columns), (row + words.each, depth)])
        with w.when(f"sge i64 {row}, %depth"):
            for v in range(VECTORS):
                w.store(w.constant(0, "int32"), w.at(to, v * width), None)
    return w.named("copy_rows", "ptr %source, i64 %depth, i64 %columns, i64 %distance, ptr %to")


def copy_columns_of_words(dtype: str, width: int, words: Words) -> ProductLines:
    """Return the function that copies a panel of words whose columns lie together; columns beyond the last repeat the
    last."""
    w = WordLines(dtype, width)
    columns, depth, distance = w.arguments("columns depth distance")
    last, numbers = columns - 1, width * words.each
    lines = w.lines_of(words, depth)
    with w.loop(0, w.smaller(VECTORS, w.ceil_div(columns, width))) as v:
        places = [w.smaller(v * width + t, last) for t in range(width)]
        lanes = [w.unit("%source", place * distance, words.stored) for place in places]
        with w.loop(0, w.ceil_div(depth, numbers)) as q:
            first = q * numbers
            to = w.at("%to", q * (width * VECTORS * width) + v * width)
            for lane in lanes:
                w.prefetch(w.assign(f"getelementptr i8, ptr {w.unit(lane, first, words.stored)}, i64 {BYTES_AHEAD}"))

            def copy(masked: bool) -> None:
                left = depth - first if masked else None
                here = lines - q * width if masked else None
                for t, line in enumerate(w.transposed([w.words_of_line(lane, first, words, left) for lane in lanes])):
                    with w.inside(t, here):
                        w.store(line, w.at(to, t * VECTORS * width), None)

            w.in_two_ways(copy, [(first + numbers, depth)])
    return w.named("copy_columns", "ptr %source, i64 %depth, i64 %columns, i64 %distance, ptr %to")


def copy_stripe_of_words(dtype: str, width: int, words: Words, transposed: bool, shifted: bool) -> ProductLines:
    """Return the function that copies rows of A as words: one row after the other, or for AMX in tiles, which have some
    words of each row.

    Words beyond the last are zeros, and so are rows beyond the last if the columns of A lie together, which is only
    copied to tiles; else they repeat the last. Ints are shifted by 128 with ``shifted``, see `Words.shifts`.
    """
    w, in_tiles = WordLines(dtype, width), words.by == "amx"
    rows, depth, height, distance = w.arguments("rows depth height distance")
    unit, numbers = STRIPE_ROWS * TILE, width * words.each
    if transposed:
        masks = [w.below(rows - v * width) for v in range(STRIPE_ROWS // width)]
        with w.loop(0, w.ceil_div(depth, numbers)) as q:
            for v, mask in enumerate(masks):
                source = w.unit("%source", v * width, words.stored)
                starts = [q * numbers + words.each * t for t in range(width)]
                found = w.transposed([w.word_of_rows(source, start, words, mask) for start in starts])
                for t, row in enumerate(found):
                    w.store(row, w.at("%to", q * unit + (v * width + t) * TILE), None)
        return w.named("copy_stripes", COPY)
    last = rows - 1
    with w.loop(0, height) as i:
        line = w.unit("%source", w.smaller(i, last) * distance, words.stored)
        to = w.at("%to", i * (TILE if in_tiles else ROW_BYTES // STORED[dtype].bytes))
        with w.loop(0, w.ceil_div(depth, numbers)) as q:
            first, place = q * numbers, w.at(to, q * (unit if in_tiles else width))

            def copy(masked: bool) -> None:
                left = depth - first if masked else None
                x = w.words_of_line(line, first, words, left)
                w.store(w.shifted(x) if shifted else x, place, None)

            w.in_two_ways(copy, [(first + numbers, depth)])
    return w.named("copy_stripes", COPY)


STRIPE = (
    "ptr %a, ptr %b, i64 %b_row, i64 %whole, ptr %panels, i64 %tall, i64 %depth, ptr %c, i64 %c_row, ptr %before, "
    "i64 %before_row, i64 %before_column, i64 %rows, i64 %columns"
)
"""The first arguments of a function that multiplies a stripe."""
COPY = "ptr %source, i64 %depth, i64 %rows, i64 %height, i64 %distance, ptr %to"


def stripe_vectors(width: int) -> int:
    """Return the number of vectors that hold a column of the highest stripe."""
    return -(-12 // width)
