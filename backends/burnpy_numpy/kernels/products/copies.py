"""The copies of operands that the kernel of matrix products reads: panels of B and stripes of A, widened on the way.

B may be stored in floats of 16 bits, or in ints of 8 or 4 bits with a scale for each group of a column; A may be
stored in floats of 16 bits. The copies have the dtype in which products are computed, or they consist of words: see
`Words`.
"""

from __future__ import annotations

from typing import NamedTuple, Self

from burnpy.backend.dtypes import DTYPES, FLOATS, is_upper_half
from burnpy_numpy.kernels.compiler.loops import WORDS, Loops
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
_WORD_BYTES = 4
"""The bytes of a word; some neighbouring ones are transposed together."""


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
        return self.element(pointer, str(index), self.dtype)

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

    def panel(self, number: str, stored: str) -> tuple[str, str, str]:
        """Return the first column of a panel of B for a stripe, its address and the distance of its rows. With
        ``stored``, a dtype of 16 bits, B is read in place."""
        in_place, lanes = self.assign(f"icmp slt i64 {number}, %whole"), VECTORS * self.width
        first = self.times(number, lanes)
        if stored:
            return first, self.unit("%b", first, stored), "%b_row"
        b = self.either(in_place, self.at("%b", first), self.at("%panels", self.times(first, "%tall")))
        return first, b, self.either(in_place, "%b_row", str(lanes), "i64")

    def below(self, count: str) -> str:
        """Return the mask of the elements before a count."""
        lanes = ", ".join(f"i64 {k}" for k in range(self.width))
        limit = self.splat(count, "int64")
        return self.assign(f"icmp slt <{self.width} x i64> <{lanes}>, {limit.text}")

    def named(self, name: str, arguments: str) -> Self:
        """End the lines as a function of this name."""
        self.text = self.body(f"internal void @{name}({arguments}) noinline")
        return self


def copy_rows(dtype: str, width: int, stored: str) -> ProductLines:
    """Return the function that copies rows to panels, one after the other; columns beyond the last are zeros."""
    w, lanes = ProductLines(dtype, width), VECTORS * width
    whole, rest = w.divided("%columns", str(lanes))
    begin = w.times(whole, lanes)
    masks = [w.below(w.plus(rest, -v * width)) for v in range(VECTORS)]
    panel, end = w.times("%depth", lanes), w.at("%to", w.times(begin, "%depth"))
    some = w.smaller(rest, "1")
    with w.loop("0", "%depth") as p:
        source, to = w.unit("%source", w.times(p, "%distance"), stored), w.times(p, lanes)
        ahead = w.unit(source, w.times("%distance", ROWS_AHEAD), stored)
        with w.loop("0", whole) as q:
            column, place = w.times(q, lanes), w.at("%to", w.plus(w.times(q, panel), to))
            for v in range(VECTORS):
                w.prefetch(w.unit(w.unit(ahead, column, stored), v * width, stored))
                x = w.widened(w.unit(w.unit(source, column, stored), v * width, stored), stored, None)
                w.store(x, w.at(place, v * width), None)
        with w.loop("0", some):
            for v, mask in enumerate(masks):
                x = w.widened(w.unit(w.unit(source, begin, stored), v * width, stored), stored, mask)
                w.store(x, w.at(w.at(end, to), v * width), None)
    return w.named("copy_rows", "ptr %source, i64 %depth, i64 %columns, i64 %distance, ptr %to")


def copy_columns(dtype: str, width: int) -> ProductLines:
    """Return the function that copies a panel whose columns lie together; columns beyond the last repeat the last."""
    w = ProductLines(dtype, width)
    last, (whole, rest) = w.plus("%columns", -1), w.divided("%depth", str(width))
    with w.loop("0", w.smaller(str(VECTORS), w.upper("%columns", width))) as v:
        first = w.times(v, width)
        lanes = [w.at("%source", w.times(w.smaller(w.plus(first, t), last), "%distance")) for t in range(width)]
        to = w.at("%to", first)

        def square(p: str, mask: str | None, left: str | None) -> None:
            xs = [w.load(w.at(lane, p), dtype, mask) for lane in lanes]
            place = w.at(to, w.times(p, VECTORS * width))
            for t, x in enumerate(w.transposed(xs)):
                with w.inside(t, left):
                    w.store(x, w.at(place, t * VECTORS * width), None)

        with w.loop("0", whole) as q:
            square(w.times(q, width), None, None)
        with w.when(f"sgt i64 {rest}, 0"):
            square(w.times(whole, width), w.below(rest), rest)
    return w.named("copy_columns", "ptr %source, i64 %depth, i64 %columns, i64 %distance, ptr %to")


def copy_widened_columns(dtype: str, width: int, stored: str) -> ProductLines:
    """Return the function that widens a panel whose columns lie together; columns beyond the last repeat the last.

    Words of some neighbours of as many columns as a vector has elements are taken together. A group ends with units
    that make no such square, which are taken one at a time.
    """
    w, (size, parts, grouped) = ProductLines(dtype, width), STORED[stored]
    last, per_word = w.plus("%columns", -1), _WORD_BYTES // size
    square = WORDS * per_word
    group = "%group" if grouped else "%depth"
    with w.loop("0", w.smaller(str(VECTORS), w.upper("%columns", width))) as v:
        first = w.times(v, width)
        numbers = [w.smaller(w.plus(first, t), last) for t in range(width)]
        columns = [w.unit("%source", w.times(number, "%distance"), stored) for number in numbers]
        scales = [w.at("%scale", w.times(number, "%groups")) for number in numbers] if grouped else []
        with w.loop("0", w.upper("%depth", group)) as g:
            begin = w.times(g, group)
            units = w.smaller(group, w.minus("%depth", begin))
            whole, _ = w.divided(units, str(square))
            scale = w.load_lanes(scales, g, dtype) if grouped else None
            to = w.at(w.at("%to", first), w.times(begin, parts * VECTORS * width))

            def keep(words: Vector, unit: str, k: int) -> None:
                """Store the numbers of a unit of each word."""
                signed = w.binary("xor", words, w.constant(_EIGHTS, "int32")) if parts > 1 else words
                for part in range(parts):
                    x = w.number_in(signed, k * parts + part, stored)
                    row = w.plus(unit, w.times(units, part)) if part else unit
                    place = w.at(to, w.times(row, VECTORS * width))
                    w.store(w.mul(x, scale) if scale else x, place, None)

            with w.loop("0", whole) as q:
                unit = w.times(q, square)
                at = [w.unit(column, w.plus(begin, unit), stored) for column in columns]
                for lane in at:
                    w.prefetch(w.assign(f"getelementptr i8, ptr {lane}, i64 {BYTES_AHEAD}"))
                for t, words in enumerate(w.neighbouring_words(at)):
                    for k in range(per_word):
                        keep(words, w.plus(unit, t * per_word + k), k)
            with w.loop(w.times(whole, square), units) as unit:
                at = [w.unit(column, w.plus(begin, unit), stored) for column in columns]
                keep(w.one_by_one(at, size), unit, 0)
    scaled = ", ptr %scale, i64 %groups, i64 %group"
    return w.named("copy_columns", f"ptr %source, i64 %depth, i64 %columns, i64 %distance, ptr %to{scaled}")


_EIGHTS = 0x88888888 - (1 << 32)
"""Ints of 4 bits that are stored plus 8 become signed ones by exclusive or with this."""


def copy_rows_of_stripe(dtype: str, width: int, stored: str) -> ProductLines:
    """Return the function that copies rows of A; rows beyond the last repeat the last."""
    w = ProductLines(dtype, width)
    last, (whole, rest) = w.plus("%rows", -1), w.divided("%depth", str(width))
    done, mask = w.times(whole, width), w.below(rest)
    with w.loop("0", "%height") as i:
        line = w.unit("%source", w.times(w.smaller(i, last), "%distance"), stored)
        to = w.at("%to", w.times(i, ROW_BYTES // STORED[dtype].bytes))
        with w.loop("0", whole) as q:
            p = w.times(q, width)
            w.store(w.widened(w.unit(line, p, stored), stored, None), w.at(to, p), None)
        w.store(w.widened(w.unit(line, done, stored), stored, mask), w.at(to, done), None)
    return w.named("copy_stripes", COPY)


def copy_columns_of_stripes(dtype: str, width: int, high: int, stored: str) -> ProductLines:
    """Return the function that copies parts of the columns of A, of stripes of so many rows one after the other; rows
    beyond the last are zeros."""
    w, vectors = ProductLines(dtype, width), stripe_vectors(width)
    starts = [
        (t * high + v * width, t * (STRIPE_BYTES // STORED[dtype].bytes) + v * width)
        for t in range(STRIPES)
        for v in range(vectors)
    ]
    masks = [w.below(w.plus("%rows", -row)) for row, _ in starts]

    def copy(count: int, masked: bool) -> None:
        with w.loop("0", "%depth") as p:
            line = w.unit("%source", w.times(p, "%distance"), stored)
            to = w.at("%to", w.times(p, vectors * width))
            for (row, place), mask in zip(starts[:count], masks, strict=False):
                w.store(w.widened(w.unit(line, row, stored), stored, mask if masked else None), w.at(to, place), None)

    with w.when(f"sle i64 %rows, {high}"):
        copy(vectors, True)
    with w.when(f"sgt i64 %rows, {high}"):
        copy(len(starts), True)
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
