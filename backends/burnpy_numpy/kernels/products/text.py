"""The text of the kernel of matrix products: tiles of sums in registers, and the copies that they read.

A product C = A · B is computed in blocks: some columns of B, by a chunk of the inner dimension, are copied to panels as
wide as a tile, unless they are read in place; then stripes of a few rows of A are copied and multiplied by all panels.
Each element is a sum of chunks, and each chunk a sum in order: its bits depend on the inner dimension alone.
"""

from __future__ import annotations

from burnpy_numpy.kernels.compiler.loops import Loops
from burnpy_numpy.kernels.compiler.vectors import Vector

VECTORS = 2
"""The number of vectors of columns of a tile."""
CHUNK_BYTES = 1600
"""The most bytes of a row of A in a chunk, so that a stripe of them stays in the first cache."""
_ROW_BYTES = CHUNK_BYTES + 64
"""The distance of copied rows, no power of 2."""
_STRIPE_BYTES = 1 << 15
"""The memory of a copied stripe."""
_STRIPES = 4
"""The number of stripes whose columns are copied together, as they share cache lines."""
_AHEAD = 16
"""The number of rows of a panel by which it is fetched ahead."""
_ROWS_AHEAD = 4
"""The number of rows of B by which it is fetched ahead when it is copied."""
_ALIGNED_ROWS = 3
"""The number of stripes from which B is copied if its vectors are not aligned, as each is two loads then."""
IN_PLACE, ROWS, COLUMNS, PACKED = range(4)
"""How a block of B is read: in place; in panels, copied from rows or from columns that lie together; or in panels that
B consists of, each of whole columns."""


def stripe_heights(registers: int) -> tuple[int, ...]:
    """Return the numbers of rows of tiles, the largest first, for a processor with so many vector registers."""
    return (12, 8, 4) if registers >= 32 else (6, 4, 2)


def copied_bytes(transposed: bool) -> int:
    """Return the memory of the stripes that are copied together, if the columns of A lie together or its rows do."""
    return _STRIPE_BYTES * (_STRIPES if transposed else 1)


def product(dtype: str, width: int, registers: int, transposed: bool) -> str:
    """Return the text of the kernel of matrix products.

    The table: A, B, C, the row of numbers to which sums are added first, memory for copies, int64: the places of A, B
    and C of each member of a batch, and the table of a program that follows. The sizes: rows, columns and inner
    dimension; the distance of rows or columns of A; those of rows and columns of B; the length of a chunk; the columns
    of a block; rows and columns of a part; parts along rows and columns; the way in which B is read; 1 if there is a
    number to add for each column, 0 if the first ones serve all tiles; the address of the kernel of the program that
    follows, or 0; and the rows of all members, or 0 if that program is elementwise. It computes rows as soon as they
    are complete, in parts of whole rows. ``begin`` and ``end`` are parts, those of a member one after the other.

    Args:
        dtype: float32 or float64.
        width: the number of elements of a vector.
        registers: the number of vector registers.
        transposed: whether the columns of A lie together, not its rows.
    """
    heights, lanes, size = stripe_heights(registers), VECTORS * width, _size(dtype)
    w = _Lines(dtype, width, 9, 16)
    a, b, c, start, memory, a_places, b_places, c_places, arrays = w.table
    m, n, k, a_line, b_row, b_column, chunk, block, high, wide, down, across, how, spread, code, length = w.sizes
    follows = w.assign(f"inttoptr i64 {code} to ptr")
    a_row, a_column = ("1", a_line) if transposed else (a_line, "1")
    copies = [_copy_rows(dtype, width), _copy_columns(dtype, width)]
    copies.append(
        _copy_columns_of_stripes(dtype, width, heights[0]) if transposed else _copy_rows_of_stripe(dtype, width)
    )
    stripes = [_stripe(dtype, width, height, transposed) for height in heights]
    panels, together = w.at(memory, str(copied_bytes(transposed) // size)), _STRIPES if transposed else 1
    with w.loop("%begin", "%end") as part:
        member, rest = w.divided(part, w.times(down, across))
        row_part, column_part = w.divided(rest, across)
        i0, j0 = w.times(row_part, high), w.times(column_part, wide)
        rows, columns = w.minus(w.smaller(w.plus(i0, high), m), i0), w.minus(w.smaller(w.plus(j0, wide), n), j0)
        left = w.at(a, w.plus(w.number(a_places, member), w.times(i0, a_row)))
        right = w.at(b, w.plus(w.number(b_places, member), w.times(j0, b_column)))
        in_place = w.in_place(how, right, b_row, rows, _ALIGNED_ROWS * heights[0])
        out = w.at(c, w.plus(w.number(c_places, member), w.plus(w.times(i0, n), j0)))
        with w.loop("0", w.upper(columns, block)) as jb, w.loop("0", w.upper(k, chunk)) as pb:
            j, p = w.times(jb, block), w.times(pb, chunk)
            some, depth = w.smaller(block, w.minus(columns, j)), w.smaller(chunk, w.minus(k, p))
            source = w.at(right, w.plus(w.times(p, b_row), w.times(j, b_column)))
            whole = w.either(in_place, w.assign(f"sdiv i64 {some}, {lanes}"), "0", "i64")
            first = w.times(whole, lanes)
            with w.when(f"slt i64 {how}, {COLUMNS}"):
                given = f"ptr {w.at(source, first)}, i64 {depth}, i64 {w.minus(some, first)}"
                w.write(f"call void @copy_rows({given}, i64 {b_row}, ptr {w.at(panels, w.times(first, depth))})")
            with w.when(f"eq i64 {how}, {COLUMNS}"), w.loop("0", w.upper(some, lanes)) as panel:
                column = w.times(panel, lanes)
                given = f"ptr {w.at(source, w.times(column, b_column))}, i64 {depth}, i64 {w.minus(some, column)}"
                w.write(f"call void @copy_columns({given}, i64 {b_column}, ptr {w.at(panels, w.times(column, depth))})")
            kept = w.assign(f"icmp eq i64 {how}, {PACKED}")
            read, tall = w.either(kept, source, panels), w.either(kept, k, depth, "i64")
            target = w.at(out, j)
            begins = w.assign(f"icmp eq i64 {p}, 0")
            before = w.either(begins, w.at(start, w.times(spread, w.plus(j0, j))), target)
            before_row, before_column = w.either(begins, "0", n, "i64"), w.either(begins, spread, "1", "i64")
            lines = w.at(left, w.times(p, a_column))

            ended = w.assign(f"icmp sge i64 {w.plus(j, block)}, {columns}")
            ended = w.assign(f"and i1 {ended}, {w.assign(f'icmp sge i64 {w.plus(p, chunk)}, {k}')}")
            last = w.assign(f"and i1 {ended}, {w.assign(f'icmp ne i64 {code}, 0')}")

            def stripe(number: str, i: str, count: str, height: int) -> None:
                """Write the product of a stripe of rows, and the program that follows it."""
                place = w.assign(f"and i64 {number}, {together - 1}")
                copied = w.at(memory, w.times(place, _STRIPE_BYTES // size))
                with w.when(f"eq i64 {place}, 0"):
                    line, most = w.at(lines, w.times(i, a_row)), str(together * heights[0])
                    w.write(
                        f"call void @copy_stripes(ptr {line}, i64 {depth}, i64 {w.smaller(most, w.minus(rows, i))}, "
                        f"i64 {height}, i64 {a_line}, ptr {memory})"
                    )
                w.write(
                    f"call void @stripe_{height}(ptr {copied}, ptr {source}, i64 {b_row}, i64 {whole}, ptr {read}, "
                    f"i64 {tall}, i64 {depth}, ptr {w.at(target, w.times(i, n))}, i64 {n}, "
                    f"ptr {w.at(before, w.times(i, before_row))}, i64 {before_row}, "
                    f"i64 {before_column}, i64 {count}, i64 {some})"
                )
                with w.when(f"ne i1 {last}, 0"):
                    first = w.plus(w.plus(w.times(member, m), i0), i)
                    by_rows = w.assign(f"icmp ne i64 {length}, 0")
                    unit = w.either(by_rows, "1", n, "i64")
                    beyond, every = w.times(w.plus(first, count), unit), w.either(by_rows, length, "1", "i64")
                    w.write(
                        f"call void {follows}(ptr {arrays}, ptr null, i64 {w.times(first, unit)}, i64 {beyond}, "
                        f"i64 {every}, i64 {w.either(by_rows, n, w.times(w.times(m, n), unit), 'i64')})"
                    )

            high_ones, rest = w.divided(rows, str(heights[0]))
            with w.loop("0", high_ones) as s:
                stripe(s, w.times(s, heights[0]), str(heights[0]), heights[0])
            done = w.times(high_ones, heights[0])
            for height, lower in zip(heights, [*heights[1:], 0], strict=True):
                fits = w.assign(f"icmp sle i64 {rest}, {height}")
                taller = w.assign(f"icmp sgt i64 {rest}, {lower}")
                with w.when(f"ne i1 {w.assign(f'and i1 {fits}, {taller}')}, 0"):
                    stripe(high_ones, done, rest, height)
    for helper in (*copies, *stripes):
        w.declared |= helper.declared
    finish = _finish(dtype, width)
    w.declared |= finish.declared
    return w.function(*[helper.text for helper in (*copies, finish, *stripes)])


def _size(dtype: str) -> int:
    """Return the size of an element in bytes."""
    return 4 if dtype == "float32" else 8


class _Lines(Loops):
    """The lines of a function of this kernel, on elements of one dtype."""

    text: str = ""

    def __init__(self, dtype: str, width: int, table: int = 0, sizes: int = 0) -> None:
        super().__init__(width, table, sizes)
        self.dtype = dtype

    def at(self, pointer: str, index: str | int) -> str:
        """Return the address of an element."""
        return self.element(pointer, str(index), self.dtype)

    def divided(self, x: str, y: str) -> tuple[str, str]:
        """Return quotient and remainder of 64-bit ints."""
        quotient = self.assign(f"sdiv i64 {x}, {y}")
        return quotient, self.minus(x, self.times(quotient, y))

    def upper(self, x: str, y: str | int) -> str:
        """Return the quotient of 64-bit ints, rounded up."""
        return self.assign(f"sdiv i64 {self.plus(x, self.plus(str(y), -1))}, {y}")

    def in_place(self, how: str, source: str, row: str, rows: str, few: int) -> str:
        """Return whether a part reads B in place: as ``how`` says, if its vectors are aligned or there are few rows."""
        size = _size(self.dtype)
        places = self.assign(f"or i64 {self.assign(f'ptrtoint ptr {source} to i64')}, {self.times(row, size)}")
        rest = self.assign(f"and i64 {places}, {self.width * size - 1}")
        aligned = self.assign(f"icmp eq i64 {rest}, 0")
        either = self.assign(f"or i1 {aligned}, {self.assign(f'icmp slt i64 {rows}, {few}')}")
        return self.assign(f"and i1 {either}, {self.assign(f'icmp eq i64 {how}, {IN_PLACE}')}")

    def below(self, count: str) -> str:
        """Return the mask of the elements before a count."""
        lanes = ", ".join(f"i64 {k}" for k in range(self.width))
        limit = self.splat(count, "int64")
        return self.assign(f"icmp slt <{self.width} x i64> <{lanes}>, {limit.text}")

    def room(self, count: int) -> str:
        """Return the address of memory on the stack for so many elements."""
        name = self.name()
        self._variables.append(f"  {name} = alloca [{count} x {self.scalar(self.dtype)}], align 64")
        return name

    def named(self, name: str, arguments: str) -> _Lines:
        """End the lines as a function of this name."""
        self.text = self.body(f"internal void @{name}({arguments}) noinline")
        return self


def _copy_rows(dtype: str, width: int) -> _Lines:
    """Return the function that copies rows to panels, one after the other; columns beyond the last are zeros."""
    w, lanes = _Lines(dtype, width), VECTORS * width
    whole, rest = w.divided("%columns", str(lanes))
    begin = w.times(whole, lanes)
    masks = [w.below(w.plus(rest, -v * width)) for v in range(VECTORS)]
    panel, end = w.times("%depth", lanes), w.at("%to", w.times(begin, "%depth"))
    some = w.smaller(rest, "1")
    with w.loop("0", "%depth") as p:
        source, to = w.at("%source", w.times(p, "%distance")), w.times(p, lanes)
        ahead = w.at(source, w.times("%distance", _ROWS_AHEAD))
        with w.loop("0", whole) as q:
            column, place = w.times(q, lanes), w.at("%to", w.plus(w.times(q, panel), to))
            for v in range(VECTORS):
                w.prefetch(w.at(w.at(ahead, column), v * width))
                w.store(w.load(w.at(w.at(source, column), v * width), dtype, None), w.at(place, v * width), None)
        with w.loop("0", some):
            for v, mask in enumerate(masks):
                x = w.load(w.at(w.at(source, begin), v * width), dtype, mask)
                w.store(x, w.at(w.at(end, to), v * width), None)
    return w.named("copy_rows", "ptr %source, i64 %depth, i64 %columns, i64 %distance, ptr %to")


def _copy_columns(dtype: str, width: int) -> _Lines:
    """Return the function that copies a panel whose columns lie together; columns beyond the last repeat the last."""
    w = _Lines(dtype, width)
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


def _copy_rows_of_stripe(dtype: str, width: int) -> _Lines:
    """Return the function that copies rows of A; rows beyond the last repeat the last."""
    w = _Lines(dtype, width)
    last, (whole, rest) = w.plus("%rows", -1), w.divided("%depth", str(width))
    done, mask = w.times(whole, width), w.below(rest)
    with w.loop("0", "%height") as i:
        line = w.at("%source", w.times(w.smaller(i, last), "%distance"))
        to = w.at("%to", w.times(i, _ROW_BYTES // _size(dtype)))
        with w.loop("0", whole) as q:
            p = w.times(q, width)
            w.store(w.load(w.at(line, p), dtype, None), w.at(to, p), None)
        w.store(w.load(w.at(line, done), dtype, mask), w.at(to, done), None)
    return w.named("copy_stripes", _COPY)


def _copy_columns_of_stripes(dtype: str, width: int, high: int) -> _Lines:
    """Return the function that copies parts of the columns of A, of stripes of so many rows one after the other; rows
    beyond the last are zeros."""
    w, vectors = _Lines(dtype, width), _stripe_vectors(width)
    starts = [
        (t * high + v * width, t * (_STRIPE_BYTES // _size(dtype)) + v * width)
        for t in range(_STRIPES)
        for v in range(vectors)
    ]
    masks = [w.below(w.plus("%rows", -row)) for row, _ in starts]

    def copy(count: int) -> None:
        with w.loop("0", "%depth") as p:
            line, to = w.at("%source", w.times(p, "%distance")), w.at("%to", w.times(p, vectors * width))
            for (row, place), mask in zip(starts[:count], masks, strict=False):
                w.store(w.load(w.at(line, row), dtype, mask), w.at(to, place), None)

    with w.when(f"sle i64 %rows, {high}"):
        copy(vectors)
    with w.when(f"sgt i64 %rows, {high}"):
        copy(len(starts))
    return w.named("copy_stripes", _COPY)


_COPY = "ptr %source, i64 %depth, i64 %rows, i64 %height, i64 %distance, ptr %to"


def _stripe_vectors(width: int) -> int:
    """Return the number of vectors that hold a column of the highest stripe."""
    return -(-12 // width)


def _finish(dtype: str, width: int) -> _Lines:
    """Return the function that adds the sums of a tile to what was before, for some of its rows and columns."""
    w = _Lines(dtype, width)
    masks = [w.below(w.plus("%columns", -v * width)) for v in range(VECTORS)]
    with w.loop("0", "%rows") as i:
        line, before = w.at("%c", w.times(i, "%c_row")), w.at("%before", w.times(i, "%before_row"))
        sums = w.at("%sums", w.times(i, VECTORS * width))
        for v, mask in enumerate(masks):
            x = w.load(w.at(sums, v * width), dtype, None)
            w.store(w.add(x, w.load(w.at(before, v * width), dtype, mask)), w.at(line, v * width), mask)
    return w.named("finish", "ptr %sums, ptr %c, i64 %c_row, ptr %before, i64 %before_row, i64 %rows, i64 %columns")


def _stripe(dtype: str, width: int, height: int, transposed: bool) -> _Lines:
    """Return the function that multiplies a stripe of up to ``height`` rows of A by a block of B."""
    w, lanes = _Lines(dtype, width), VECTORS * width
    room = w.room(height * lanes)
    all_rows = w.assign(f"icmp eq i64 %rows, {height}")
    with w.loop("0", w.upper("%columns", lanes)) as panel:
        in_place, j = w.assign(f"icmp slt i64 {panel}, %whole"), w.times(panel, lanes)
        b = w.either(in_place, w.at("%b", j), w.at("%panels", w.times(j, "%tall")))
        b_row = w.either(in_place, "%b_row", str(lanes), "i64")
        left, c, before = w.minus("%columns", j), w.at("%c", j), w.at("%before", w.times(j, "%before_column"))
        for i in range(height):  # what is written comes while the sums are computed
            for v in range(VECTORS):
                w.prefetch(w.at(c, w.plus(w.times("%c_row", i), v * width)))
        with w.when(f"sgt i64 {left}, {width}"):
            sums = _multiplied(w, height, b, b_row, VECTORS, transposed)
            full = w.assign(f"and i1 {all_rows}, {w.assign(f'icmp sge i64 {left}, {lanes}')}")
            with w.when(f"ne i1 {full}, 0"):
                for i, row in enumerate(sums):
                    line, other = w.at(c, w.times("%c_row", i)), w.at(before, w.times("%before_row", i))
                    for v, x in enumerate(row):
                        y = w.load(w.at(other, v * width), dtype, None)
                        w.store(w.add(x, y), w.at(line, v * width), None)
            with w.when(f"eq i1 {full}, 0"):
                _finish_some(w, room, sums, c, before, left)
        with w.when(f"sle i64 {left}, {width}"):
            _finish_some(w, room, _multiplied(w, height, b, b_row, 1, transposed), c, before, left)
    return w.named(
        f"stripe_{height}",
        "ptr %a, ptr %b, i64 %b_row, i64 %whole, ptr %panels, i64 %tall, i64 %depth, ptr %c, i64 %c_row, ptr %before, "
        "i64 %before_row, i64 %before_column, i64 %rows, i64 %columns",
    )


def _finish_some(w: _Lines, room: str, sums: list[list[Vector]], c: str, before: str, left: str) -> None:
    """Write the call of `_finish`."""
    for i, row in enumerate(sums):
        for v, x in enumerate(row):
            w.store(x, w.at(room, (i * VECTORS + v) * w.width), None)
    w.write(f"call void @finish(ptr {room}, ptr {c}, i64 %c_row, ptr {before}, i64 %before_row, i64 %rows, i64 {left})")


def _multiplied(w: _Lines, height: int, b: str, b_row: str, vectors: int, transposed: bool) -> list[list[Vector]]:
    """Write the loop over a chunk, and return the sums of each row."""
    zero, dtype = w.constant(0.0, w.dtype), w.dtype
    row, column = (1, _stripe_vectors(w.width) * w.width) if transposed else (_ROW_BYTES // _size(dtype), 1)
    totals = [[w.variable(zero) for _ in range(vectors)] for _ in range(height)]
    with w.loop("0", "%depth") as p:
        line = w.at(b, w.times(p, b_row))
        ys = [w.load(w.at(line, v * w.width), dtype, None) for v in range(vectors)]
        ahead = w.at(line, w.times(b_row, _AHEAD))
        for v in range(vectors):
            w.prefetch(w.at(ahead, v * w.width))
        factors = w.at("%a", w.times(p, column))
        for i, mine in enumerate(totals):
            x = w.load_one(w.at(factors, i * row), dtype)
            for total, y in zip(mine, ys, strict=True):
                w.set(total, w.fma(x, y, w.get(total, dtype)))
    return [[w.get(total, dtype) for total in mine] for mine in totals]
