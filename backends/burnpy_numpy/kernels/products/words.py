"""Products of words of neighbouring numbers, which one instruction multiplies and adds: by AMX, whose registers hold
tiles of 16 rows of 16 words, or by vectors of words; and sums of rows, of words or of numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from burnpy_numpy.kernels.compiler.vectors import Vector
from burnpy_numpy.kernels.products.copies import (
    BYTES_AHEAD,
    COPY,
    LINE,
    ROW_BYTES,
    ROWS_AHEAD,
    STORED,
    STRIPE,
    VECTORS,
    ProductLines,
)

TILE, STRIPE_ROWS = 16, 32
"""The rows of a register of AMX, each of as many words, and the rows of a stripe for it."""
MOST_BYTES = 4096
"""The most bytes of a row of A in a chunk for AMX. The sums' bits do not depend on it."""
_AHEAD = 64
"""The number of lines of a panel by which it is fetched ahead if there are few rows."""
_A_AHEAD = 4
"""The lines of the next stripe of A that are fetched with each tile."""
_CHAINS = 8
"""The number of sums that make up the sum of rows of B."""
_DEEP = 256
"""The words of a column from which the places of the results are fetched before they are written."""
CONFIGURATION = "@configuration = internal constant [16 x i32] [i32 1, i32 0, i32 0, i32 0, {}, {}], align 64".format(
    ", ".join(["i32 4194368"] * 4 + ["i32 0"] * 4), ", ".join(["i32 269488144"] * 2 + ["i32 0"] * 2)
)
"""AMX's table of eight registers: 1, the form; from byte 16 on their bytes in a row, each 16 bits; from 48 on rows."""


class Words(NamedTuple):
    """How neighbours of a row of A or of a column of B lie in words of 32 bits, which one instruction multiplies and
    adds: bfloat16 and ints of 8 bits for AMX, and ints of 8 bits as ints of 16 bits for all others.

    A panel has a line for each word of a column; numbers that are missing are zeros.
    """

    stored: str  #: the dtype of the operand
    bits: int  #: of a number in a word
    step: int  #: the numbers that are multiplied together, to which their count is rounded up

    @property
    def each(self) -> int:
        """Return how many numbers a word has."""
        return 32 // self.bits

    def lines(self, numbers: int) -> int:
        """Return the words of so many numbers, rounded up."""
        return -(-numbers // self.step) * self.step // self.each

    def kept(self, dtype: Any) -> Any:
        """Return the dtype of the numbers in words, which have another one in an array."""
        return dtype if 8 * dtype.itemsize == self.bits else np.dtype(np.int16)


def words_of(dtype: str, registers: int, stored: str) -> Words | None:
    """Return the words of an operand; None if it is multiplied number by number. See
    `burnpy_numpy.kernels.products.text.product`."""
    if registers:
        return Words(stored, 16, 2) if dtype == "int32" else None
    bits = 8 * STORED[stored].bytes
    return Words(stored, bits, TILE * 32 // bits)


class WordLines(ProductLines):
    """The lines of a function that reads or writes words."""

    def word_of_rows(self, source: str, row: str, words: Words, mask: str | None) -> Vector:
        """Return words of neighbouring rows, the first one in the lowest bits; zeros from row ``%depth`` on."""
        total, kind = None, self.type("int32")
        for k in range(words.each):
            number, some = self.plus(row, k), mask
            if mask is not None:
                within = self.assign(f"icmp slt i64 {number}, %depth")
                some = self.either(within, mask, "zeroinitializer", self.type("bool"))
            line = self.unit(source, self.times(number, "%distance"), words.stored)
            narrow = self._in_word(line, words, self.width, some)
            wide = Vector(self.assign(f"zext <{self.width} x i{words.bits}> {narrow} to {kind}"), "int32")
            moved = self._moved("shl", wide, words.bits * k)
            total = moved if total is None else self.binary("or", total, moved)
        assert total is not None
        return total

    def words_of_whole_rows(self, source: str, row: str, words: Words) -> list[Vector]:
        """Return words of neighbouring rows in `VECTORS` vectors, by one shuffle for each."""
        lanes, kind = VECTORS * self.width, f"i{words.bits}"
        lines = [self.unit(source, self.times(self.plus(row, k), "%distance"), words.stored) for k in range(words.each)]
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

    def lines_of(self, words: Words, count: str) -> str:
        """Return `Words.lines` of a count."""
        return self.times(self.upper(count, words.step), words.step // words.each)

    def store_rounded(self, low: Vector, high: Vector, pointer: str, left: str | None) -> None:
        """Store two vectors of float32, without subnormal numbers, as the nearest bfloat16, ties to even; none from
        ``left`` numbers on."""
        kind, given, rounded = f"<{2 * self.width} x bfloat>", self.type("float32"), "llvm.x86.avx512bf16.cvtne2ps2bf16"
        self.declared.add(f"declare {kind} @{rounded}.512({given}, {given})")
        text = self.assign(f"call {kind} @{rounded}.512({given} {high.text}, {given} {low.text})")
        if left is None:
            self.write(f"store {kind} {text}, ptr {pointer}, align 2")
            return
        with self.of_width(2 * self.width):
            mask, masks = self.below(left), self.type("bool")
        stored, full = f"<{2 * self.width} x i16>", f"@llvm.masked.store.v{2 * self.width}i16.p0"
        bits = self.assign(f"bitcast {kind} {text} to {stored}")
        self.declared.add(f"declare void {full}({stored}, ptr, i32, {masks})")
        self.write(f"call void {full}({stored} {bits}, ptr {pointer}, i32 2, {masks} {mask})")

    def amx(self, instruction: str, arguments: str = "") -> None:
        """Write an instruction of AMX; its registers are numbers."""
        kinds = ", ".join([argument.split()[0] for argument in arguments.split(", ")]) if arguments else ""
        self.declared.add(f"declare void @llvm.x86.{instruction}({kinds})")
        self.write(f"call void @llvm.x86.{instruction}({arguments})")


def copy_rows_of_words(dtype: str, width: int, words: Words) -> ProductLines:
    """Return the function that copies rows to panels of words, one after the other; columns beyond the last are
    zeros."""
    w, lanes = WordLines(dtype, width), VECTORS * width
    lines = w.lines_of(words, "%depth")
    with w.loop("0", lines) as p, w.loop("0", w.upper("%columns", lanes)) as q:
        column, row = w.times(q, lanes), w.times(p, words.each)
        to = w.at(w.at("%to", w.times(column, lines)), w.times(p, lanes))
        for k in range(words.each):
            ahead = w.times(w.plus(row, ROWS_AHEAD + k), "%distance")
            w.prefetch(w.unit("%source", w.plus(column, ahead), words.stored))

        def copy(masked: bool) -> None:
            if not masked:
                for v, x in enumerate(w.words_of_whole_rows(w.unit("%source", column, words.stored), row, words)):
                    w.store(x, w.at(to, v * width), None)
                return
            for v in range(VECTORS):
                first = w.plus(column, v * width)
                mask = w.below(w.minus("%columns", first))
                w.store(
                    w.word_of_rows(w.unit("%source", first, words.stored), row, words, mask), w.at(to, v * width), None
                )

        with w.when(f"slt i64 {row}, %depth"):
            w.in_two_ways(copy, [(w.plus(column, lanes), "%columns"), (w.plus(row, words.each), "%depth")])
        with w.when(f"sge i64 {row}, %depth"):
            for v in range(VECTORS):
                w.store(w.constant(0, "int32"), w.at(to, v * width), None)
    return w.named("copy_rows", "ptr %source, i64 %depth, i64 %columns, i64 %distance, ptr %to")


def copy_columns_of_words(dtype: str, width: int, words: Words) -> ProductLines:
    """Return the function that copies a panel of words whose columns lie together; columns beyond the last repeat the
    last."""
    w = WordLines(dtype, width)
    last, numbers = w.plus("%columns", -1), width * words.each
    lines = w.lines_of(words, "%depth")
    with w.loop("0", w.smaller(str(VECTORS), w.upper("%columns", width))) as v:
        places = [w.smaller(w.plus(w.times(v, width), t), last) for t in range(width)]
        lanes = [w.unit("%source", w.times(place, "%distance"), words.stored) for place in places]
        with w.loop("0", w.upper("%depth", numbers)) as q:
            first = w.times(q, numbers)
            to = w.at("%to", w.plus(w.times(q, width * VECTORS * width), w.times(v, width)))
            for lane in lanes:
                w.prefetch(w.assign(f"getelementptr i8, ptr {w.unit(lane, first, words.stored)}, i64 {BYTES_AHEAD}"))

            def copy(masked: bool) -> None:
                left = w.minus("%depth", first) if masked else None
                here = w.minus(lines, w.times(q, width)) if masked else None
                for t, line in enumerate(w.transposed([w.words_of_line(lane, first, words, left) for lane in lanes])):
                    with w.inside(t, here):
                        w.store(line, w.at(to, t * VECTORS * width), None)

            w.in_two_ways(copy, [(w.plus(first, numbers), "%depth")])
    return w.named("copy_columns", "ptr %source, i64 %depth, i64 %columns, i64 %distance, ptr %to")


def copy_stripe_of_words(dtype: str, width: int, words: Words, in_tiles: bool, transposed: bool) -> ProductLines:
    """Return the function that copies rows of A as words: one row after the other, or in tiles, which have some words
    of each row.

    Words beyond the last are zeros, and so are rows beyond the last if the columns of A lie together, which is only
    copied to tiles; else they repeat the last.
    """
    w = WordLines(dtype, width)
    unit, numbers = STRIPE_ROWS * TILE, width * words.each
    if transposed:
        masks = [w.below(w.plus("%rows", -v * width)) for v in range(STRIPE_ROWS // width)]
        with w.loop("0", w.upper("%depth", numbers)) as q:
            for v, mask in enumerate(masks):
                source = w.unit("%source", v * width, words.stored)
                starts = [w.plus(w.times(q, numbers), words.each * t) for t in range(width)]
                found = w.transposed([w.word_of_rows(source, start, words, mask) for start in starts])
                for t, row in enumerate(found):
                    w.store(row, w.at("%to", w.plus(w.times(q, unit), (v * width + t) * TILE)), None)
        return w.named("copy_stripes", COPY)
    last = w.plus("%rows", -1)
    with w.loop("0", "%height") as i:
        line = w.unit("%source", w.times(w.smaller(i, last), "%distance"), words.stored)
        to = w.at("%to", w.times(i, TILE if in_tiles else ROW_BYTES // STORED[dtype].bytes))
        with w.loop("0", w.upper("%depth", numbers)) as q:
            first, place = w.times(q, numbers), w.at(to, w.times(q, unit if in_tiles else width))

            def copy(masked: bool) -> None:
                left = w.minus("%depth", first) if masked else None
                w.store(w.words_of_line(line, first, words, left), place, None)

            w.in_two_ways(copy, [(w.plus(first, numbers), "%depth")])
    return w.named("copy_stripes", COPY)


def stripe_by_amx(dtype: str, width: int, height: int, transposed: bool, stored: tuple[str, str, str]) -> ProductLines:
    """Return the function that multiplies a stripe of up to ``height`` rows of A by a block of B, both of words, by
    AMX; ``stored`` are the dtypes of A, B and C.

    An instruction multiplies 16 rows by 16 columns. Of bfloat16, it adds the products of even places, and those of odd
    places, in order; then both, to what was before. Sums are in registers 0 to 3; A is in 4 and 5, and B in 6 and 7.
    Tiles of A that are in place are read there with the first panel, and copied meanwhile. What a panel gives is
    written while the next one is multiplied.
    """
    w, lanes, tall = WordLines(dtype, width), VECTORS * width, range(height // TILE)
    (a_stored, b_stored, c_stored), size = stored, STORED[dtype].bytes
    rooms, row, tile_row = w.room(2 * height * lanes, dtype), str(lanes * size), str(TILE * size)
    tiles = [(t, v) for t in tall for v in range(VECTORS)]
    signs = "".join("s" if stored == "int8" else "u" for stored in (a_stored, b_stored))
    multiplies = f"tdpb{signs}d" if dtype == "int32" else "tdpbf16ps"
    all_rows = w.assign(f"icmp eq i64 %rows, {height}")

    def sums(how: str, pointer: str, distance: str) -> None:
        for t, v in tiles:
            at = w.at(w.unit(pointer, w.times(distance, t * TILE), "int8"), v * width)
            w.amx(how, f"i8 {t * VECTORS + v}, ptr {at}, i64 {distance}")

    def multiply(q: str, b: str, ahead: str, in_place: bool) -> None:
        """Add the products of tiles of A; with them, a part of the next stripe of A comes into the second cache."""
        line = w.times(q, TILE)
        for k in range(_A_AHEAD):
            w.prefetch(w.unit(w.unit(ahead, w.times(q, "%a_step"), "int8"), w.times("%a_distance", k), "int8"), 2)
        for v in range(VECTORS):
            at = w.at(b, w.plus(w.times(line, lanes), v * width))
            w.amx("tileloadd64", f"i8 {6 + v}, ptr {at}, i64 {row}")
            for k in range(TILE if height == TILE else 0):  # few rows: B comes from memory, and is read once
                w.prefetch(w.at(b, w.plus(w.times(w.plus(line, _AHEAD + k), lanes), v * width)))
        for t in tall:
            copied = w.at("%a", w.plus(w.times(line, STRIPE_ROWS), t * TILE * TILE))
            if in_place:
                at = w.unit(w.unit("%a_rows", w.times("%a_distance", t * TILE), "int8"), w.times(q, tile_row), "int8")
                w.amx("tileloadd64", f"i8 {4 + t}, ptr {at}, i64 %a_distance")
                w.amx("tilestored64", f"i8 {4 + t}, ptr {copied}, i64 {tile_row}")
            else:
                w.amx("tileloadd64", f"i8 {4 + t}, ptr {copied}, i64 {tile_row}")
        for t, v in tiles:
            w.amx(multiplies, f"i8 {t * VECTORS + v}, i8 {4 + t}, i8 {6 + v}")

    def finish(panel: str, left: str) -> None:
        """Write the call of `finish_by_amx`."""
        c = w.unit("%c", w.times(panel, lanes), c_stored)
        w.write(f"call void @finish(ptr {room(panel)}, ptr {c}, i64 %c_row, i64 %rows, i64 {left})")

    def room(panel: str) -> str:
        return w.at(rooms, w.times(w.assign(f"and i64 {panel}, 1"), height * lanes))

    zeros = w.assign(f"icmp eq i64 {w.assign('or i64 %before_row, %before_column')}, 0")  # the first ones, of no row
    panels = w.upper("%columns", lanes)
    with w.loop("0", panels) as panel:
        j = w.times(panel, lanes)
        b, left, sums_of = w.at("%panels", w.times(j, "%tall")), w.minus("%columns", j), room(panel)
        c, before = w.unit("%c", j, c_stored), w.at("%before", w.times(j, "%before_column"))
        full = w.assign(f"and i1 {all_rows}, {w.assign(f'icmp sge i64 {left}, {lanes}')}")
        with w.when(f"ne i1 {zeros}, 0"):
            for t, v in tiles:
                w.amx("tilezero", f"i8 {t * VECTORS + v}")
        with w.when(f"eq i1 {zeros}, 0"):
            with w.when(f"ne i1 {full}, 0"):
                sums("tileloadd64", before, w.times("%before_row", size))
            with w.when(f"eq i1 {full}, 0"):
                for v in range(VECTORS):
                    mask = w.below(w.plus(left, -v * width))
                    with w.loop("0", "%rows") as i:
                        x = w.load(w.at(before, w.plus(w.times(i, "%before_row"), v * width)), dtype, mask)
                        w.store(x, w.at(sums_of, w.plus(w.times(i, lanes), v * width)), None)
                sums("tileloadd64", sums_of, row)
        with w.when(f"sge i64 %depth, {_DEEP}"):  # what is written comes while the sums are computed
            for k in range(height):
                for line in range(0, STORED[c_stored].bytes * lanes, LINE):
                    w.prefetch(w.unit(w.unit(c, w.times("%c_row", k), c_stored), line, "int8"))
        lines = w.times("%a_distance", w.times(w.assign(f"and i64 {panel}, {STRIPE_ROWS // _A_AHEAD - 1}"), _A_AHEAD))
        ahead = w.unit("%a_next", lines, "int8")
        begin = "0"
        if not transposed:
            begin = w.either(w.assign(f"icmp eq i64 {panel}, 0"), "%in_place", "0", "i64")
            with w.loop("0", begin) as q:
                multiply(q, b, ahead, True)
        with w.loop(begin, w.upper("%depth", TILE)) as q:
            multiply(q, b, ahead, False)
        with w.when(f"sgt i64 {panel}, 0"):
            finish(w.plus(panel, -1), str(lanes))
        sums("tilestored64", sums_of, row)
    last = w.plus(panels, -1)
    finish(last, w.minus("%columns", w.times(last, lanes)))
    return w.named(f"stripe_{height}", STRIPE + _PLACE)


_PLACE = ", ptr %a_rows, i64 %a_distance, i64 %in_place, ptr %a_next, i64 %a_step"
"""The parameters of A: the address of its lines and the bytes between them; the tiles that are in place; the lines of
the next stripe; and the bytes from one tile of it to the next."""


def finish_by_amx(dtype: str, width: int, c_stored: str) -> ProductLines:
    """Return the function that writes the sums of a panel, rounded to the dtype of C."""
    w, lanes = WordLines(dtype, width), VECTORS * width

    def finish(masked: bool) -> None:
        masks = [w.below(w.plus("%left", -v * width)) for v in range(VECTORS)]
        with w.loop("0", "%rows") as i:
            source, to = w.at("%sums", w.times(i, lanes)), w.unit("%c", w.times(i, "%c_row"), c_stored)
            xs = [w.load(w.at(source, v * width), dtype, None) for v in range(VECTORS)]
            if c_stored == dtype:
                for v, (x, mask) in enumerate(zip(xs, masks, strict=True)):
                    w.store(x, w.at(to, v * width), mask if masked else None)
            else:
                w.store_rounded(xs[0], xs[1], to, "%left" if masked else None)

    w.in_two_ways(finish, [(str(lanes), "%left")])
    return w.named("finish", "ptr %sums, ptr %c, i64 %c_row, i64 %rows, i64 %left")


def sum_of_rows(dtype: str, width: int, words: Words | None, stored: str, c_stored: str) -> ProductLines:
    """Return the function that adds the sum of the rows of a block of B to what was before; see `ProductLines.panel`.

    Every `_CHAINS`-th row is added to the same sum, and then these, as a sum in order loses more digits.
    """
    w, lanes, each = WordLines(dtype, width), VECTORS * width, 1 if words is None else words.each
    zero = w.constant(0.0, dtype)
    with w.loop("0", w.upper("%columns", lanes)) as panel:
        j, b, b_row = w.panel(panel, stored)
        totals = [[w.variable(zero) for _ in range(VECTORS)] for _ in range(_CHAINS)]

        def add(line: str, chain: int) -> None:
            start = w.unit(b, w.times(line, b_row), stored or dtype)
            for v in range(VECTORS):
                at = w.unit(start, v * width, stored or dtype)
                if words is None:
                    xs = [w.widened(at, stored or dtype, None)]
                else:
                    xs = [w.number_in(w.load(at, "int32", None), k, words.stored) for k in range(each)]
                for total, x in zip(totals[chain:], xs, strict=False):
                    w.set(total[v], w.add(w.get(total[v], dtype), x))

        turns, _ = w.divided("%depth", str(_CHAINS // each))
        with w.loop("0", turns) as turn:
            for chain in range(0, _CHAINS, each):
                add(w.plus(w.times(turn, _CHAINS // each), chain // each), chain)
        with w.loop(w.times(turns, _CHAINS // each), "%depth") as line:
            add(line, 0)
        found, before, left = [], w.at("%before", w.times(j, "%before_column")), w.minus("%columns", j)
        masks = [w.below(w.plus(left, -v * width)) for v in range(VECTORS)]
        for v, mask in enumerate(masks):
            xs = [w.get(total[v], dtype) for total in totals]
            while len(xs) > 1:
                xs = [w.add(x, y) for x, y in zip(xs[::2], xs[1::2], strict=True)]
            found.append(w.add(xs[0], w.load(w.at(before, v * width), dtype, mask)))
        c = w.unit("%c", j, c_stored)
        if c_stored == dtype:
            for v, (x, mask) in enumerate(zip(found, masks, strict=True)):
                w.store(x, w.at(c, v * width), mask)
        else:
            w.store_rounded(found[0], found[1], c, left)
    return w.named(f"{'widened' if stored else 'stripe'}_0", STRIPE)
