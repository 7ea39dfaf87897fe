"""The kernel of matrix products: tiles of sums in registers, as LLVM IR.

A product C = A · B is computed in blocks: some columns of B, by a chunk of the inner dimension, are copied to panels as
wide as a tile, unless they are read in place; then stripes of a few rows of A are copied and multiplied by all panels.
Each element is a sum of chunks, and each chunk a sum in order: its bits depend on the inner dimension alone.
"""

from __future__ import annotations

from typing import NamedTuple

from burnpy_numpy.kernels.compiler.loops import Int
from burnpy_numpy.kernels.products import copies
from burnpy_numpy.kernels.products.copies import (
    COLUMNS,
    IN_PLACE,
    LINE,
    PACKED,
    STORED,
    STRIPE_BYTES,
    STRIPE_ROWS,
    STRIPES,
    TILE,
    VECTORS,
    ProductLines,
    words_of,
)
from burnpy_numpy.kernels.products.quantized import copy_widened_columns
from burnpy_numpy.kernels.products.stripes import (
    CONFIGURATION,
    UNROLLED,
    StripeLines,
    copied_bytes,
    finish,
    finish_by_amx,
    shifts_of_columns,
    stripe,
    stripe_by_amx,
    stripe_heights,
    sum_of_rows,
)

_ALIGNED_ROWS = 3
"""The least number of stripes for which B is copied if its vectors are not aligned, as each is two loads then."""


def product(
    dtype: str, width: int, registers: int, by: str, transposed: bool, a_stored: str, b_stored: str, c_stored: str
) -> str:
    """Return the text of the kernel of matrix products.

    The table: A, B, C, the row of numbers to which sums are added first, memory for copies, int64: the places of A, B
    and C of each member of a batch, and the table of a program that follows. The sizes: `_Sizes`. It computes rows as
    soon as they are complete, in parts of whole rows. ``begin`` and ``end`` are parts, those of a member one after the
    other.

    If no program follows, its table is not read, unless the last size is 1: memory for the sum of the rows of B, a
    single matrix, replaces it then. If B consists of ints, no program follows: its table is replaced by the scales, a
    row for each column of B.

    Args:
        dtype: float32 or float64; int32 for products of ints of 8 bits.
        width: the number of elements of a vector.
        registers: the number of vector registers.
        by: the instructions that multiply numbers; see `words_of`.
        transposed: whether the columns of A lie together, not its rows, as those of ints do that are paired.
        a_stored: the dtype of A: ``dtype``, or a float of 16 bits; int8 or uint8 for int32.
        b_stored: the same for B, which may consist of the ints of a quantized matrix: int8 or uint8. Its columns lie
            together then.
        c_stored: the dtype of C: ``dtype``, or bfloat16 for sums of a single chunk of words of it.
    """
    return _Text(dtype, width, registers, by, transposed, (a_stored, b_stored, c_stored)).written()


class _Sizes(NamedTuple):
    """The sizes of the kernel. The inner dimension and the length of a chunk are units, see `Stored`."""

    m: Int  #: rows
    n: Int  #: columns
    k: Int  #: the inner dimension
    a_line: Int  #: the distance of rows or columns of A
    b_row: Int  #: the distance of rows of B
    b_column: Int  #: the distance of its columns
    chunk: Int  #: the length of a chunk
    block: Int  #: the columns of a block
    high: Int  #: the rows of a part
    wide: Int  #: its columns
    down: Int  #: the parts along rows
    across: Int  #: the parts along columns
    how: Int  #: the way in which B is read
    group: Int  #: the units of a group, this and the next two only if B consists of the ints of a quantized matrix
    groups: Int  #: the number of groups
    span: Int  #: the units that are divided into chunks together
    spread: Int  #: 1 if there is a number to add for each column, 0 if the first ones serve all tiles, -1 to add to C
    code: Int  #: the address of the kernel of the program that follows, or 0
    length: Int  #: the rows of all members, or 0 if that program is elementwise


class _Part(NamedTuple):
    """Some rows and columns of a member of a batch, which a thread computes at a time."""

    member: Int
    i0: Int  #: the first row
    j0: Int  #: the first column
    rows: Int
    columns: Int
    left: str  #: the address of A's first row
    right: str  #: the address of B's first column
    in_place: str  #: whether B is read in place
    out: str  #: the address of its elements of C


class _Block(NamedTuple):
    """Some columns of a part, by a chunk of the inner dimension."""

    j: Int  #: the first column, counted from the part's
    p: Int  #: the first unit
    some: Int  #: the columns
    units: Int
    depth: Int  #: the lines of a panel: numbers, or words
    source: str  #: the address of its elements of B
    whole: Int  #: the panels that are read in place
    first: Int  #: the columns before those that are not
    panels: str  #: the address of the panels
    tall: Int  #: the lines of a panel of whole columns, where these are kept
    kept: str  #: whether they are
    shifts: str  #: the address of the numbers to add to columns, see `Words.shifts`
    target: str  #: the address of its elements of C
    begins: str  #: whether its sums begin with a row of numbers, and not with those in C
    before: str  #: the address of the numbers with which they begin
    before_row: Int  #: the distance of their rows
    before_column: Int  #: the distance of their columns
    lines: str  #: the address of the numbers of A that it is multiplied by
    last: str  #: whether the rows of a part are complete with it, and a program follows


class _Text:
    """The text of a kernel, in the order in which it works; see `product`."""

    def __init__(
        self, dtype: str, width: int, registers: int, by: str, transposed: bool, stored: tuple[str, str, str]
    ) -> None:
        self.dtype, self.width, self.transposed = dtype, width, transposed
        self.a_stored, self.b_stored, self.c_stored = stored
        self.heights, self.by_amx = stripe_heights(registers, by), by == "amx"
        self.words = words = words_of(by, self.b_stored)
        self.widens = self.b_stored != dtype and words is None
        _, self.parts, self.grouped = STORED[self.b_stored if words is None else dtype]
        self.narrow = self.widens and not self.grouped
        self.sums = dtype != "int32" and not self.grouped
        self.shifted = words is not None and words.shifts(self.a_stored)
        self.tile = TILE * (1 if words is None else words.each)  # the numbers of a row of a tile of A
        self.lanes, self.size = VECTORS * width, STORED[dtype].bytes
        self.together = STRIPES if transposed and not self.by_amx else 1  # the stripes of A that are copied together

        self.w = w = StripeLines(dtype, width, 9, 19 if self.grouped else 16)
        self.a, self.b, self.c, self.start, self.memory, *places, self.arrays = w.table
        self.a_places, self.b_places, self.c_places = places
        *sizes, spread, code, length = w.sizes
        grouping = [] if self.grouped else [sizes[2], w.int_of(0), sizes[2]]
        self.sizes = _Sizes._make([*sizes, *grouping, spread, code, length])
        self.panels = w.at(self.memory, copied_bytes(transposed, by) // self.size)
        self.follows = w.assign(f"inttoptr i64 {code} to ptr")
        a_line = self.sizes.a_line
        one = w.int_of(1)
        self.a_row, self.a_column = (one, a_line) if transposed else (a_line, one)

    def written(self) -> str:
        w, sizes, helpers = self.w, self.sizes, [*self._copies(), *self._stripes()]
        if self.by_amx:
            w.declared.add(CONFIGURATION)
            w.amx("ldtilecfg", "ptr @configuration")
        with w.loop(w.begin, w.end) as number:
            part = self._part(number)
            chunks = w.ceil_div(sizes.span, sizes.chunk)
            blocks, turns = w.ceil_div(part.columns, sizes.block), w.ceil_div(sizes.k, sizes.span) * chunks
            with w.loop(0, blocks) as jb, w.loop(0, turns) as pb:
                block = self._block(part, jb * sizes.block, pb, chunks)
                self._multiply_rows(part, block, self._ahead(part, block))
                if self.sums:
                    self._sum_rows(part, block)
        if self.by_amx:
            w.amx("tilerelease")
        w.declared.update(*(helper.declared for helper in helpers))
        return w.function(*[helper.text for helper in helpers])

    def _copies(self) -> list[ProductLines]:
        """Return the functions that copy panels of B and stripes of A."""
        dtype, width, words, high = self.dtype, self.width, self.words, self.heights[0]
        if words is not None:
            of_b = [copies.copy_columns_of_words(dtype, width, words), copies.copy_rows_of_words(dtype, width, words)]
        else:
            widens = copy_widened_columns(dtype, width, self.b_stored) if self.widens else None
            of_b = [widens or copies.copy_columns(dtype, width)]
            of_b += [] if self.grouped else [copies.copy_rows(dtype, width, self.b_stored)]
        of_a = None if words is None else words._replace(stored=self.a_stored)
        if self.transposed and not self.by_amx:
            return [*of_b, copies.copy_columns_of_stripes(dtype, width, high, self.a_stored, of_a, self.shifted)]
        if of_a is not None:
            return [*of_b, copies.copy_stripe_of_words(dtype, width, of_a, self.transposed, self.shifted)]
        return [*of_b, copies.copy_rows_of_stripe(dtype, width, self.a_stored)]

    def _stripes(self) -> list[ProductLines]:
        """Return the functions that multiply stripes and add up the rows of B."""
        dtype, width, words, c_stored = self.dtype, self.width, self.words, self.c_stored
        found: list[ProductLines] = []
        if self.by_amx:
            found.append(finish_by_amx(dtype, width, c_stored))
            stored = self.a_stored, self.b_stored, c_stored
            found += [stripe_by_amx(dtype, width, height, self.transposed, stored) for height in self.heights]
        else:
            found.append(finish(dtype, width, c_stored))
            for b_stored in ("", self.b_stored) if self.narrow else ("",):
                given = c_stored, b_stored, words, self.shifted
                found += [stripe(dtype, width, height, self.transposed, *given) for height in self.heights]
        summed = [self.b_stored] * self.narrow + [""] * self.sums
        found += [sum_of_rows(dtype, width, words, b_stored, c_stored) for b_stored in summed]
        if self.shifted and words is not None:
            found.append(shifts_of_columns(dtype, width, words))
        return found

    def _part(self, number: Int) -> _Part:
        """Return a part by its number."""
        w, sizes = self.w, self.sizes
        member, rest = divmod(number, sizes.down * sizes.across)
        row_part, column_part = divmod(rest, sizes.across)
        i0, j0 = row_part * sizes.high, column_part * sizes.wide
        rows = w.smaller(i0 + sizes.high, sizes.m) - i0
        columns = w.smaller(j0 + sizes.wide, sizes.n) - j0
        left = w.unit(self.a, w.number(self.a_places, member) + i0 * self.a_row, self.a_stored)
        right = w.unit(self.b, w.number(self.b_places, member) + j0 * sizes.b_column, self.b_stored)
        in_place = self._in_place(right, rows)
        place = w.number(self.c_places, member) + (i0 * sizes.n + j0)
        return _Part(member, i0, j0, rows, columns, left, right, in_place, w.unit(self.c, place, self.c_stored))

    def _in_place(self, source: str, rows: str) -> str:
        """Return whether a part reads B in place: as it is told, if its vectors are aligned or there are few rows."""
        w, size = self.w, self.size
        places = w.int_of(w.assign(f"or i64 {w.assign(f'ptrtoint ptr {source} to i64')}, {self.sizes.b_row * size}"))
        aligned = w.icmp("eq", places & (w.width * size - 1), 0)
        either = w.any(aligned, w.icmp("slt", rows, _ALIGNED_ROWS * self.heights[0]))
        return w.both(either, w.icmp("eq", self.sizes.how, IN_PLACE))

    def _block(self, part: _Part, j: Int, turn: Int, chunks: Int) -> _Block:
        """Return the block that begins with a column; its panels are copied, unless they are kept or read in place."""
        w, sizes = self.w, self.sizes
        spans, at = divmod(turn, chunks)
        begin = spans * sizes.span
        p, beyond = begin + at * sizes.chunk, w.smaller(sizes.k, begin + sizes.span)
        some = w.smaller(sizes.block, part.columns - j)
        units = w.smaller(sizes.chunk, beyond - p)
        depth, whole_depth = (units * self.parts if self.parts > 1 else units), sizes.k
        if self.words is not None:
            depth, whole_depth = w.lines_of(self.words, units), w.lines_of(self.words, sizes.k)
        source = w.unit(part.right, p * sizes.b_row + j * sizes.b_column, self.b_stored)
        whole = w.chosen(part.in_place, some // self.lanes, 0)
        first = whole * self.lanes
        column = part.j0 + j
        self._copy_panels(source, units, depth, first, some, (p, column))
        kept = w.icmp("eq", sizes.how, PACKED)
        panels, tall = w.either(kept, source, self.panels), w.chosen(kept, whole_depth, depth)
        shifts = self._shifts(depth, some, kept, whole_depth, (at, column)) if self.shifted else ""

        target = w.unit(part.out, j, self.c_stored)
        adds = w.icmp("sge", sizes.spread, 0)
        begins = w.both(w.icmp("eq", p, 0), adds)
        before = w.either(begins, w.at(self.start, sizes.spread * column), target)
        before_row, before_column = w.chosen(begins, 0, sizes.n), w.chosen(begins, sizes.spread, 1)
        lines = w.unit(part.left, p * self.a_column, self.a_stored)
        ended = w.icmp("sge", j + sizes.block, part.columns)
        ended = w.both(ended, w.icmp("sge", p + sizes.chunk, sizes.k))
        last = w.both(ended, w.icmp("ne", sizes.code, 0))
        place = source, whole, first, panels, tall, kept, shifts
        return _Block(j, p, some, units, depth, *place, target, begins, before, before_row, before_column, lines, last)

    def _copy_panels(self, source: str, units: Int, depth: Int, first: Int, some: Int, place: tuple[Int, Int]) -> None:
        """Write the copies of the panels of a block that begins at a place, from rows of B or from columns."""
        w, sizes, (p, j) = self.w, self.sizes, place
        if not self.grouped:
            with w.when(f"slt i64 {sizes.how}, {COLUMNS}"):
                given = f"ptr {w.unit(source, first, self.b_stored)}, i64 {units}, i64 {some - first}"
                to = w.at(self.panels, first * depth)
                w.write(f"call void @copy_rows({given}, i64 {sizes.b_row}, ptr {to})")
        with w.when(f"eq i64 {sizes.how}, {COLUMNS}"), w.loop(0, w.ceil_div(some, self.lanes)) as panel:
            column = panel * self.lanes
            given = f"ptr {w.unit(source, column * sizes.b_column, self.b_stored)}, i64 {units}"
            to = w.at(self.panels, column * depth)
            given += f", i64 {some - column}, i64 {sizes.b_column}, ptr {to}"
            if self.widens:
                row = (j + column) * sizes.groups
                scale = w.at(self.arrays, row + p // sizes.group)
                given += f", ptr {scale}, i64 {sizes.groups}, i64 {sizes.group}"
            w.write(f"call void @copy_columns({given})")

    def _shifts(self, depth: Int, some: Int, kept: str, tall: Int, place: tuple[Int, Int]) -> str:
        """Return the address of the numbers to add to columns, see `Words.shifts`: behind kept panels, which have them
        for each chunk of all columns, or behind copied panels."""
        w, (chunk, column) = self.w, place
        columns = w.ceil_div(self.sizes.n, self.lanes) * self.lanes
        behind = w.at(self.b, columns * (tall + chunk) + column)
        copied = w.at(self.panels, w.ceil_div(some, self.lanes) * self.lanes * depth)
        with w.when(f"eq i1 {kept}, 0"):
            w.write(f"call void @shifts_of_columns(ptr {self.panels}, i64 {depth}, i64 {some}, ptr {copied})")
        return w.either(kept, behind, copied)

    def _ahead(self, part: _Part, block: _Block) -> tuple[str, Int]:
        """Return the arguments of prefetches of the next stripe of A and parts of B, and the turns for B."""
        w, sizes = self.w, self.sizes
        a_size, b_size = STORED[self.a_stored].bytes, STORED[self.b_stored].bytes
        after = block.p + block.units
        more = w.icmp("slt", after, sizes.k)
        next_p, next_j = w.chosen(more, after, 0), w.chosen(more, block.j, block.j + sizes.block)
        place = next_p * sizes.b_row + next_j * sizes.b_column
        by_columns = w.icmp("eq", sizes.how, COLUMNS)
        ways = (block.some, block.units), (block.units, block.some)
        b_lines, b_line = (w.chosen(by_columns, *each) for each in ways)
        b_distance = w.chosen(by_columns, sizes.b_column, sizes.b_row) * b_size
        b_bytes, count = b_line * b_size, w.ceil_div(block.some, self.lanes)
        ends = w.any(block.kept, w.icmp("sge", next_j, part.columns))
        ends = w.any(ends, w.icmp("eq", count, 1))
        a_turn = UNROLLED * (LINE if self.transposed else self.heights[0] * a_size)  # bytes of A for a turn of a panel
        a_panels = w.chosen(ends, count, w.smaller(-(-a_turn // LINE), count - 1))
        turns = w.ceil_div(block.depth, UNROLLED)
        b_turns = w.chosen(ends, 1, count - a_panels) * turns
        b_speed = w.ceil_div(b_bytes * b_lines, w.ceil_div(part.rows, self.heights[0]) * b_turns)
        b = f"ptr {w.unit(part.right, place, self.b_stored)}, i64 {b_distance}, i64 {b_bytes}"
        a = f"i64 {w.ceil_div(w.int_of(a_turn), a_panels)}, i64 {a_panels}"
        return f"{a}, {b}, i64 {w.smaller(b_speed, LINE)}", b_turns

    def _multiply_rows(self, part: _Part, block: _Block, ahead: tuple[str, Int]) -> None:
        """Write the products of a block, stripe by stripe, the highest ones first."""
        w, heights = self.w, self.heights
        number, rest = divmod(part.rows, heights[0])
        pairs = w.int_of(0)  # two stripes of medium height take less time than a high and a low one
        if not self.by_amx:
            few = w.icmp("ult", rest - 1, heights[2])
            pairs = w.smaller(w.int_of(w.assign(f"zext i1 {few} to i64")), number)
        number = number - pairs
        with w.loop(0, number) as s:
            self._multiply_stripe(part, block, ahead, s, s * heights[0], heights[0], heights[0])
        done = number * heights[0]
        with w.loop(0, pairs):
            self._multiply_stripe(part, block, ahead, number, done, heights[1], heights[1])
        number, done = number + pairs, done + pairs * heights[1]
        rest = part.rows - done
        for height, lower in zip(heights, [*heights[1:], 0], strict=True):
            with w.when(f"sle i64 {rest}, {height}"), w.when(f"sgt i64 {rest}, {lower}"):
                self._multiply_stripe(part, block, ahead, number, done, rest, height)

    def _multiply_stripe(
        self, part: _Part, block: _Block, ahead: tuple[str, Int], number: Int, i: Int, count: Int | int, height: int
    ) -> None:
        """Write the product of a stripe of some rows from row ``i`` on, and the program that follows it."""
        w, sizes = self.w, self.sizes
        alone = height < self.heights[0]  # its columns are copied by themselves
        place = number & (0 if alone else self.together - 1)
        tiles = w.int_of(0)  # of A in place: whole ones
        if self.by_amx and not self.transposed:
            whole_rows = w.icmp("eq", count, height)
            tiles = w.chosen(whole_rows, w.int_of(w.assign(f"udiv i64 {block.units}, {self.tile}")), 0)
        copied = w.at(self.memory, place * (STRIPE_BYTES // self.size))
        with w.when(f"eq i64 {place}, 0"):
            most = w.smaller(height if alone else self.together * self.heights[0], part.rows - i)
            self._copy_stripe(block, i, most, height, tiles)

        line, other = w.unit(block.target, i * sizes.n, self.c_stored), block.before
        others = self._next_stripe(block, ahead, number, i, place, height, tiles)
        others += f", ptr {block.shifts}" if self.shifted else ""
        self._call(block, height, copied, count, others, line, w.at(other, i * block.before_row))
        with w.when(f"ne i1 {block.last}, 0"):
            top = part.member * sizes.m + part.i0 + i
            by_rows = w.icmp("ne", sizes.length, 0)
            unit = w.chosen(by_rows, 1, sizes.n)
            beyond, every = (top + count) * unit, w.chosen(by_rows, sizes.length, 1)
            size = w.chosen(by_rows, sizes.n, sizes.m * sizes.n * unit)
            w.write(
                f"call void {self.follows}(ptr {self.arrays}, ptr null, i64 {top * unit}, i64 {beyond}, "
                f"i64 {every}, i64 {size})"
            )

    def _copy_stripe(self, block: _Block, i: Int, most: Int, height: int, tiles: Int) -> None:
        """Write the copies of up to ``most`` rows of A from row ``i`` on, but for tiles that AMX reads in place."""
        w, sizes = self.w, self.sizes
        pieces = [(block.lines, block.units, self.memory)]
        if self.parts > 1:  # the two numbers of a unit are apart in A, unless a chunk has all of a group
            group = sizes.group
            lines = w.unit(block.lines, block.p - block.p % group, self.a_stored)
            whole = w.icmp("sle", group, sizes.chunk)
            length, other_length = (w.chosen(whole, x, block.units) for x in (block.depth, 0))
            other = w.unit(lines, group, self.a_stored)
            pieces = [(lines, length, self.memory), (other, other_length, w.at(self.memory, length))]
        for piece, deep, to in pieces:
            rows = w.unit(piece, i * self.a_row, self.a_stored)
            if self.by_amx:
                rows = w.unit(rows, tiles * self.tile, self.a_stored)
                deep, to = deep - tiles * self.tile, w.at(to, tiles * (TILE * STRIPE_ROWS))
            given = f"i64 {deep}, i64 {most}, i64 {height}, i64 {sizes.a_line}, ptr {to}"
            w.write(f"call void @copy_stripes(ptr {rows}, {given})")

    def _next_stripe(
        self, block: _Block, ahead: tuple[str, Int], number: Int, i: Int, place: Int, height: int, tiles: Int
    ) -> str:
        """Return the arguments for fetching the next stripe while one is multiplied; for AMX also of A in place."""
        w, sizes, lines = self.w, self.sizes, block.lines
        a_distance, rows = sizes.a_line * STORED[self.a_stored].bytes, i + height
        if self.by_amx:
            step = a_distance * self.tile if self.transposed else LINE
            here = w.unit(lines, i * self.a_row, self.a_stored)
            after = w.unit(lines, rows * self.a_row, self.a_stored)
            return f", ptr {here}, i64 {a_distance}, i64 {tiles}, ptr {after}, i64 {step}"
        if self.transposed:  # the columns of the next stripes that are copied together, some by each of these
            rows = i + STRIPES * self.heights[0] + place * 4
        a_bytes = LINE if self.transposed else block.units * STORED[self.a_stored].bytes
        after = w.unit(lines, rows * self.a_row, self.a_stored)
        given, turns = ahead
        return f", ptr {after}, i64 {a_distance}, i64 {a_bytes}, {given}, i64 {number * turns}"

    def _sum_rows(self, part: _Part, block: _Block) -> None:
        """Write the sum of the rows of a block of B, where it is wanted."""
        w, sizes = self.w, self.sizes
        unfollowed, wanted = (w.assign(f"icmp {x}, 0") for x in (f"eq i64 {sizes.code}", f"ne i64 {sizes.length}"))
        wanted = w.both(unfollowed, wanted)
        with w.when(f"ne i1 {wanted}, 0"), w.when(f"eq i64 {part.i0 + part.rows}, {sizes.m}"):
            line = w.unit(self.arrays, part.j0 + block.j, self.c_stored)
            self._call(block, 0, self.memory, 1, "", line, w.either(block.begins, block.before, line))

    def _call(self, block: _Block, height: int, a: str, count: Int | int, others: str, line: str, other: str) -> None:
        """Write the calls of a stripe's function, for columns in place and for others; of 0 rows it sums those of B."""
        w, none = self.w, self.w.int_of(0)

        def call(kind: str, from_column: Int, columns: Int, in_place: Int) -> None:
            panel, place = w.at(block.panels, from_column * block.depth), w.unit(line, from_column, self.c_stored)
            added = w.at(other, from_column * block.before_column)
            w.write(
                f"call void @{kind}_{height}(ptr {a}, ptr {block.source}, i64 {self.sizes.b_row}, i64 {in_place}, "
                f"ptr {panel}, i64 {block.tall}, i64 {block.depth}, ptr {place}, i64 {self.sizes.n}, ptr {added}, "
                f"i64 {block.before_row}, i64 {block.before_column}, i64 {count}, i64 {columns}{others})"
            )

        if not self.narrow:
            call("stripe", none, block.some, block.whole)
            return
        # what is read in place is widened in registers, the panel beside it was when it was copied
        with w.when(f"sgt i64 {block.first}, 0"):
            call("widened", none, block.first, block.whole)
        with w.when(f"slt i64 {block.first}, {block.some}"):
            call("stripe", block.first, block.some - block.first, none)
