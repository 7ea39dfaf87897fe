"""The functions that multiply a stripe of A by a block of B, with vectors or AMX, and that add up the rows of B."""

from __future__ import annotations

from typing import NamedTuple

from burnpy_numpy.kernels.compiler.loops import Int
from burnpy_numpy.kernels.compiler.vectors import Vector
from burnpy_numpy.kernels.products.copies import (
    LINE,
    ROW_BYTES,
    STORED,
    STRIPE,
    STRIPE_BYTES,
    STRIPE_ROWS,
    STRIPES,
    TILE,
    VECTORS,
    ProductLines,
    WordLines,
    Words,
    stripe_vectors,
)

UNROLLED = 4
"""The rows of a panel that are multiplied in a turn."""
_ROWS_AHEAD = 16
"""The number of rows of a panel by which it is fetched ahead."""
MOST_BYTES = 4096
"""The most bytes of a row of A in a chunk for AMX. The sums' bits do not depend on it."""
_AHEAD = 64
"""The number of lines of a panel by which it is fetched ahead for AMX if there are few rows."""
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


def stripe_heights(registers: int, by: str) -> tuple[int, ...]:
    """Return the numbers of rows of tiles, the largest first, for a processor with this many vector registers; those of
    AMX hold tiles."""
    if by == "amx":
        return STRIPE_ROWS, TILE
    heights = (12, 8, 4) if registers >= 32 else (6, 4, 2)
    return (*heights, 1) if by else heights  # a single row is multiplied by words of a kept panel


def copied_bytes(transposed: bool, by: str) -> int:
    """Return the memory of the stripes that are copied together, if the columns of A lie together or its rows do."""
    if by == "amx":
        return STRIPE_ROWS * MOST_BYTES
    return STRIPE_BYTES * (STRIPES if transposed else 1)


class StripeLines(WordLines):
    """The lines of a function that multiplies a stripe."""

    def multiplied(self, x: Vector, y: Vector, total: Vector, words: Words | None) -> Vector:
        """Return a sum plus x · y, numbers of A and B; of words, plus the products of all numbers in them."""
        if words is None or words.by == "pairs":
            return self.fma(x, y, total)
        kind, half = self.type(total.dtype), words.stored == "bfloat16"
        words_kind = f"<{2 * self.width} x bfloat>" if half else f"<{4 * self.width} x i8>"
        name = f"@llvm.x86.{'avx512bf16.dpbf16ps' if half else 'avx512.vpdpbusd'}.{32 * self.width}"
        self.declared.add(f"declare {kind} {name}({kind}, {words_kind}, {words_kind})")
        factors = (y, x) if words.stored == "uint8" else (x, y)  # the one without signs is first
        texts = [self.assign(f"bitcast {self.type('int32')} {each.text} to {words_kind}") for each in factors]
        given = ", ".join([f"{kind} {total.text}", *(f"{words_kind} {text}" for text in texts)])
        return Vector(self.assign(f"call {kind} {name}({given})"), total.dtype)

    def place_in(self, pointer: str, index: str | int, stored: str) -> str:
        """Return the address of an element of C."""
        return self.at(pointer, index) if stored == self.dtype else self.unit(pointer, index, stored)

    def store_row(self, xs: list[Vector], pointer: str, left: Int | None, stored: str) -> None:
        """Store vectors of a row of C, rounded to its dtype; none from ``left`` numbers on."""
        if stored != self.dtype:
            self.store_rounded(xs[0], xs[1], pointer, left)
            return
        for v, x in enumerate(xs):
            mask = None if left is None else self.below(left - v * self.width)
            self.store(x, self.at(pointer, v * self.width), mask)

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


def finish(dtype: str, width: int, c_stored: str) -> ProductLines:
    """Return the function that adds the sums of a tile to what was before, for some of its rows and columns."""
    w = StripeLines(dtype, width)
    columns, rows, c_row, before_row = w.arguments("columns rows c_row before_row")
    masks = [w.below(columns - v * width) for v in range(VECTORS)]
    with w.loop(0, rows) as i:
        line, before = w.place_in("%c", i * c_row, c_stored), w.at("%before", i * before_row)
        sums, found = w.at("%sums", i * (VECTORS * width)), list[Vector]()
        for v, mask in enumerate(masks):
            x = w.load(w.at(sums, v * width), dtype, None)
            found.append(w.add(x, w.load(w.at(before, v * width), dtype, mask)))
        w.store_row(found, line, columns, c_stored)
    return w.named("finish", "ptr %sums, ptr %c, i64 %c_row, ptr %before, i64 %before_row, i64 %rows, i64 %columns")


def stripe(
    dtype: str,
    width: int,
    height: int,
    transposed: bool,
    c_stored: str,
    b_stored: str = "",
    words: Words | None = None,
    shifted: bool = False,
) -> ProductLines:
    """Return the function that multiplies a stripe of up to ``height`` rows of A by a block of B.

    Args:
        dtype: the dtype of the sums.
        width: the number of elements of a vector.
        height: the rows of a tile.
        transposed: whether A was copied as columns.
        c_stored: the dtype of C.
        b_stored: a dtype of 16 bits, if B is read in place in whole panels.
        words: how numbers lie in words, if these are multiplied.
        shifted: whether sums begin with a number for each column, see `Words.shifts`.
    """
    w, lanes = StripeLines(dtype, width), VECTORS * width
    rows, columns, before_column, c_row, before_row = w.arguments("rows columns before_column c_row before_row")
    scratch = w.stack_memory(height * lanes, dtype)
    all_rows = w.icmp("eq", rows, height)
    tile = _Tile(height, transposed, b_stored or dtype, words)
    with w.loop(0, w.ceil_div(columns, lanes)) as panel:
        j, b, b_row = w.panel(panel, b_stored)
        left, c = columns - j, w.place_in("%c", j, c_stored)
        before = w.at("%before", j * before_column)
        for i in range(height):  # what is written comes while the sums are computed
            for v in range(VECTORS if c_stored == dtype else 1):
                w.prefetch(w.place_in(c, c_row * i + v * width, c_stored))
        at = w.at("%shifts", j) if shifted else None
        with w.when(f"sgt i64 {left}, {width}"):
            sums = _multiplied(w, tile, (panel, b, b_row), VECTORS, at)
            full = w.both(all_rows, w.icmp("sge", left, lanes))
            with w.when(f"ne i1 {full}, 0"):
                for i, row in enumerate(sums):
                    line, other = w.place_in(c, c_row * i, c_stored), w.at(before, before_row * i)
                    found = [w.add(x, w.load(w.at(other, v * width), dtype, None)) for v, x in enumerate(row)]
                    w.store_row(found, line, None, c_stored)
            with w.when(f"eq i1 {full}, 0"):
                _finish_some(w, scratch, sums, c, before, left)
        with w.when(f"sle i64 {left}, {width}"):
            sums = _multiplied(w, tile, (panel, b, b_row), 1, at)
            _finish_some(w, scratch, sums, c, before, left)
    shifts = ", ptr %shifts" if shifted else ""
    return w.named(f"{'widened' if b_stored else 'stripe'}_{height}", STRIPE + _FETCHED + shifts)


_FETCHED = (
    ", ptr %a_next, i64 %a_distance, i64 %a_bytes, i64 %a_speed, i64 %a_panels, "
    "ptr %b_next, i64 %b_distance, i64 %b_bytes, i64 %b_speed, i64 %b_turns"
)
"""The parameters of lines that a stripe's product fetches into the second cache: with the first panels the next stripe
of A, with the others a part of the next block of B. Each has the address of its lines, their distance, their bytes, and
the bytes by which a turn goes on; B has the turns before."""


class _Tile(NamedTuple):
    """The factors of a tile of sums: its rows, whether A was copied as columns, the dtype of B, and its words."""

    height: int
    transposed: bool
    stored: str
    words: Words | None


def _finish_some(w: ProductLines, scratch: str, sums: list[list[Vector]], c: str, before: str, left: str) -> None:
    for i, row in enumerate(sums):
        for v, x in enumerate(row):
            w.store(x, w.at(scratch, (i * VECTORS + v) * w.width), None)
    what = f"ptr {scratch}, ptr {c}, i64 %c_row, ptr {before}, i64 %before_row, i64 %rows, i64 {left}"
    w.write(f"call void @finish({what})")


def _multiplied(
    w: StripeLines, tile: _Tile, panel: tuple[Int, str, Int], vectors: int, shifts: str | None
) -> list[list[Vector]]:
    """Write the loop over a chunk, and return the sums of each row. The panel: its number, address and row's length."""
    depth, a_panels, b_turns = w.arguments("depth a_panels b_turns")
    dtype, (number, b, b_row) = w.dtype, panel
    starts = [
        w.constant(0.0, dtype) if shifts is None else w.load(w.at(shifts, v * w.width), dtype, None)
        for v in range(vectors)
    ]
    totals = [[w.variable(start) for start in starts] for _ in range(tile.height)]
    turns, fetches_a = depth // UNROLLED, w.icmp("slt", number, a_panels)
    distance, size, speed = (w.chosen(fetches_a, *w.arguments(f"a_{x} b_{x}")) for x in ("distance", "bytes", "speed"))
    begin = (number - w.chosen(fetches_a, 0, a_panels)) * turns + w.chosen(fetches_a, 0, b_turns)
    lines, first = divmod(begin * speed, size)
    source = w.unit(w.either(fetches_a, "%a_next", "%b_next"), lines * distance, "int8")
    to_line, in_line = w.count(0), w.count(first)
    with w.loop(0, turns) as turn:
        line, at = w.number(to_line, 0), w.number(in_line, 0)
        w.prefetch(w.unit(source, line + at, "int8"), 2)
        further = at + speed
        ends = w.icmp("sge", further, size)
        w.set_number(in_line, w.chosen(ends, 0, further))
        w.set_number(to_line, w.chosen(ends, line + distance, line))
        for k in range(UNROLLED):
            _multiply_row(w, tile, totals, (b, b_row), turn * UNROLLED + k)
    with w.loop(turns * UNROLLED, depth) as p:
        _multiply_row(w, tile, totals, (b, b_row), p)
    return [[w.get(total, dtype) for total in mine] for mine in totals]


def _multiply_row(w: StripeLines, tile: _Tile, totals: list[list[str]], panel: tuple[str, Int], p: Int) -> None:
    """Add the products of a row of a panel to the sums."""
    (b, b_row), (_, transposed, stored, words), vectors = panel, tile, len(totals[0])
    kind = w.dtype if words is None else "int32"
    row, column = (1, stripe_vectors(w.width) * w.width) if transposed else (ROW_BYTES // STORED[kind].bytes, 1)
    line = w.unit(b, p * b_row, stored)
    places = [w.unit(line, v * w.width, stored) for v in range(vectors)]
    ys = [w.widened(at, stored, None) if words is None else w.load(at, kind, None) for at in places]
    ahead = w.unit(line, b_row * _ROWS_AHEAD, stored)
    for v in range(vectors):
        w.prefetch(w.unit(ahead, v * w.width, stored))
    factors = w.at("%a", p * column)
    for i, mine in enumerate(totals):
        x = w.load_one(w.at(factors, i * row), kind)
        for total, y in zip(mine, ys, strict=True):
            w.set(total, w.multiplied(x, y, w.get(total, w.dtype), words))


def stripe_by_amx(dtype: str, width: int, height: int, transposed: bool, stored: tuple[str, str, str]) -> ProductLines:
    """Return the function that multiplies a stripe of up to ``height`` rows of A by a block of B, both of words, by
    AMX; ``stored`` are the dtypes of A, B and C.

    An instruction multiplies 16 rows by 16 columns. Of bfloat16, it adds the products of even places, and those of odd
    places, in order; then both, to what was before. Sums are in registers 0 to 3; A is in 4 and 5, and B in 6 and 7.
    Tiles of A that are in place are read there with the first panel, and copied meanwhile. What a panel gives is
    written while the next one is multiplied.
    """
    w = _AmxStripe(dtype, width, height, stored)
    rows, columns, depth, tall = w.arguments("rows columns depth tall")
    before_row, before_column, in_place, a_distance = w.arguments("before_row before_column in_place a_distance")
    lanes, row, size = w.lanes_of_panel, w.row, STORED[dtype].bytes
    all_rows = w.icmp("eq", rows, height)
    zeros = w.icmp("eq", w.assign("or i64 %before_row, %before_column"), "0")  # the first ones, of no row
    panels = w.ceil_div(columns, lanes)
    with w.loop(0, panels) as panel:
        j = panel * lanes
        b, left, sums = w.at("%panels", j * tall), columns - j, w.sums_of(panel)
        c, before = w.unit("%c", j, w.c_stored), w.at("%before", j * before_column)
        full = w.both(all_rows, w.icmp("sge", left, lanes))
        with w.when(f"ne i1 {zeros}, 0"):
            for t, v in w.tiles:
                w.amx("tilezero", f"i8 {t * VECTORS + v}")
        with w.when(f"eq i1 {zeros}, 0"):
            with w.when(f"ne i1 {full}, 0"):
                w.move_sums("tileloadd64", before, before_row * size)
            with w.when(f"eq i1 {full}, 0"):
                w.copy_some(before, left, sums)
                w.move_sums("tileloadd64", sums, row)
        with w.when(f"sge i64 %depth, {_DEEP}"):  # what is written comes while the sums are computed
            w.fetch_rows(c)
        ahead = w.unit("%a_next", a_distance * ((panel & (STRIPE_ROWS // _A_AHEAD - 1)) * _A_AHEAD), "int8")
        begin = w.int_of(0)
        if not transposed:
            begin = w.chosen(w.icmp("eq", panel, 0), in_place, 0)
            with w.loop(0, begin) as q:
                w.multiply(q, b, ahead, True)
        with w.loop(begin, w.ceil_div(depth, TILE)) as q:
            w.multiply(q, b, ahead, False)
        with w.when(f"sgt i64 {panel}, 0"):
            w.finish(panel - 1, str(lanes))
        w.move_sums("tilestored64", sums, row)
    w.finish(panels - 1, columns - (panels - 1) * lanes)
    return w.named(f"stripe_{height}", STRIPE + _PLACE)


class _AmxStripe(StripeLines):
    """The function of `stripe_by_amx`: its steps for a panel of B, whose sums are in memory for every second panel."""

    def __init__(self, dtype: str, width: int, height: int, stored: tuple[str, str, str]) -> None:
        super().__init__(dtype, width)
        a_stored, b_stored, self.c_stored = stored
        self.height, self.lanes_of_panel, self.tall = height, VECTORS * width, range(height // TILE)
        self.tiles = [(t, v) for t in self.tall for v in range(VECTORS)]
        self.sums = self.stack_memory(2 * height * self.lanes_of_panel, dtype)
        self.row, self.tile_row = (count * STORED[dtype].bytes for count in (self.lanes_of_panel, TILE))
        signs = "".join("s" if each == "int8" else "u" for each in (a_stored, b_stored))
        self.multiplies = f"tdpb{signs}d" if dtype == "int32" else "tdpbf16ps"

    def sums_of(self, panel: Int) -> str:
        """Return the address of the sums of a panel."""
        return self.at(self.sums, (panel & 1) * (self.height * self.lanes_of_panel))

    def move_sums(self, how: str, pointer: str, distance: Int | int) -> None:
        """Load or store the registers of sums, whose rows are this many bytes apart in memory."""
        for t, v in self.tiles:
            at = self.at(self.unit(pointer, distance * (t * TILE), "int8"), v * self.width)
            self.amx(how, f"i8 {t * VECTORS + v}, ptr {at}, i64 {distance}")

    def copy_some(self, before: str, left: Int, sums: str) -> None:
        """Copy what was before to memory of whole tiles; there are no columns from ``left`` on."""
        rows, before_row = self.arguments("rows before_row")
        for v in range(VECTORS):
            mask = self.below(left - v * self.width)
            with self.loop(0, rows) as i:
                found = self.at(before, i * before_row + v * self.width)
                x = self.load(found, self.dtype, mask)
                self.store(x, self.at(sums, i * self.lanes_of_panel + v * self.width), None)

    def fetch_rows(self, c: str) -> None:
        """Fetch the rows of C of a panel."""
        [c_row] = self.arguments("c_row")
        for k in range(self.height):
            for line in range(0, STORED[self.c_stored].bytes * self.lanes_of_panel, LINE):
                self.prefetch(self.unit(self.unit(c, c_row * k, self.c_stored), line, "int8"))

    def multiply(self, q: Int, b: str, ahead: str, in_place: bool) -> None:
        """Add the products of tiles of A; with them, a part of the next stripe of A comes into the second cache."""
        a_step, a_distance = self.arguments("a_step a_distance")
        line, lanes = q * TILE, self.lanes_of_panel
        for k in range(_A_AHEAD):
            step = self.unit(ahead, q * a_step, "int8")
            self.prefetch(self.unit(step, a_distance * k, "int8"), 2)
        for v in range(VECTORS):
            at = self.at(b, line * lanes + v * self.width)
            self.amx("tileloadd64", f"i8 {6 + v}, ptr {at}, i64 {self.row}")
            for k in range(TILE if self.height == TILE else 0):  # few rows: B comes from memory, and is read once
                self.prefetch(self.at(b, (line + (_AHEAD + k)) * lanes + v * self.width))
        for t in self.tall:
            self.load_tile_of_a(t, q, in_place)
        for t, v in self.tiles:
            self.amx(self.multiplies, f"i8 {t * VECTORS + v}, i8 {4 + t}, i8 {6 + v}")

    def load_tile_of_a(self, t: int, q: Int, in_place: bool) -> None:
        """Load a tile of A from the copied stripe, or from its own place, from where it is copied, too."""
        [a_distance] = self.arguments("a_distance")
        copied = self.at("%a", q * TILE * STRIPE_ROWS + t * TILE * TILE)
        if not in_place:
            self.amx("tileloadd64", f"i8 {4 + t}, ptr {copied}, i64 {self.tile_row}")
            return
        rows = self.unit("%a_rows", a_distance * (t * TILE), "int8")
        at = self.unit(rows, q * self.tile_row, "int8")
        self.amx("tileloadd64", f"i8 {4 + t}, ptr {at}, i64 %a_distance")
        self.amx("tilestored64", f"i8 {4 + t}, ptr {copied}, i64 {self.tile_row}")

    def finish(self, panel: Int, left: str) -> None:
        """Write the call of `finish_by_amx`."""
        c = self.unit("%c", panel * self.lanes_of_panel, self.c_stored)
        self.write(f"call void @finish(ptr {self.sums_of(panel)}, ptr {c}, i64 %c_row, i64 %rows, i64 {left})")


_PLACE = ", ptr %a_rows, i64 %a_distance, i64 %in_place, ptr %a_next, i64 %a_step"
"""The parameters of A: the address of its lines and the bytes between them; the tiles that are in place; the lines of
the next stripe; and the bytes from one tile of it to the next."""


def finish_by_amx(dtype: str, width: int, c_stored: str) -> ProductLines:
    """Return the function that writes the sums of a panel, rounded to the dtype of C."""
    w, lanes = StripeLines(dtype, width), VECTORS * width
    rows, c_row, left = w.arguments("rows c_row left")

    def finish(masked: bool) -> None:
        with w.loop(0, rows) as i:
            source, to = w.at("%sums", i * lanes), w.unit("%c", i * c_row, c_stored)
            xs = [w.load(w.at(source, v * width), dtype, None) for v in range(VECTORS)]
            w.store_row(xs, to, left if masked else None, c_stored)

    w.in_two_ways(finish, [(str(lanes), left)])
    return w.named("finish", "ptr %sums, ptr %c, i64 %c_row, i64 %rows, i64 %left")


def sum_of_rows(dtype: str, width: int, words: Words | None, stored: str, c_stored: str) -> ProductLines:
    """Return the function that adds the sum of the rows of a block of B to an earlier sum; see `ProductLines.panel`.
    Every `_CHAINS`-th row is added to the same sum, and then these, as a sum in order loses more digits."""
    w, lanes, each = StripeLines(dtype, width), VECTORS * width, 1 if words is None else words.each
    columns, depth, before_column = w.arguments("columns depth before_column")
    zero = w.constant(0.0, dtype)
    with w.loop(0, w.ceil_div(columns, lanes)) as panel:
        j, b, b_row = w.panel(panel, stored)
        totals = [[w.variable(zero) for _ in range(VECTORS)] for _ in range(_CHAINS)]

        def add(line: Int, chain: int) -> None:
            start = w.unit(b, line * b_row, stored or dtype)
            for v in range(VECTORS):
                at = w.unit(start, v * width, stored or dtype)
                if words is None:
                    xs = [w.widened(at, stored or dtype, None)]
                else:
                    xs = [w.number_in(w.load(at, "int32", None), k, words.stored) for k in range(each)]
                for total, x in zip(totals[chain:], xs, strict=False):
                    w.set(total[v], w.add(w.get(total[v], dtype), x))

        turns = depth // (_CHAINS // each)
        with w.loop(0, turns) as turn:
            for chain in range(0, _CHAINS, each):
                add(turn * (_CHAINS // each) + chain // each, chain)
        with w.loop(turns * (_CHAINS // each), depth) as line:
            add(line, 0)
        found, before, left = [], w.at("%before", j * before_column), columns - j
        masks = [w.below(left - v * width) for v in range(VECTORS)]
        for v, mask in enumerate(masks):
            xs = [w.get(total[v], dtype) for total in totals]
            while len(xs) > 1:
                xs = [w.add(x, y) for x, y in zip(xs[::2], xs[1::2], strict=True)]
            found.append(w.add(xs[0], w.load(w.at(before, v * width), dtype, mask)))
        w.store_row(found, w.unit("%c", j, c_stored), left, c_stored)
    return w.named(f"{'widened' if stored else 'stripe'}_0", STRIPE)


def shifts_of_columns(dtype: str, width: int, words: Words) -> ProductLines:
    """Return the function that writes what is added to each column of a block if A is shifted; see `Words.shifts`."""
    w, lanes = StripeLines(dtype, width), VECTORS * width
    columns, depth = w.arguments("columns depth")
    ones, factor = w.constant(0x01010101, dtype), w.constant(-128 if words.stored == "int8" else 128, dtype)
    with w.loop(0, w.ceil_div(columns, lanes)) as panel:
        j = panel * lanes
        totals, b = [w.variable(w.constant(0, dtype)) for _ in range(VECTORS)], w.at("%panels", j * depth)
        with w.loop(0, depth) as line:
            for v, total in enumerate(totals):
                y = w.load(w.at(b, line * lanes + v * width), dtype, None)
                w.set(total, w.multiplied(ones, y, w.get(total, dtype), words))
        for v, total in enumerate(totals):
            w.store(w.binary("mul", w.get(total, dtype), factor), w.at("%to", j + v * width), None)
    return w.named("shifts_of_columns", "ptr %panels, i64 %depth, i64 %columns, ptr %to")
