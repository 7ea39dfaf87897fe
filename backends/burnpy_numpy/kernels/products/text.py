"""The text of the kernel of matrix products: tiles of sums in registers, and the copies that they read.

A product C = A · B is computed in blocks: some columns of B, by a chunk of the inner dimension, are copied to panels as
wide as a tile, unless they are read in place; then stripes of a few rows of A are copied and multiplied by all panels.
Each element is a sum of chunks, and each chunk a sum in order: its bits depend on the inner dimension alone.
"""

from __future__ import annotations

from burnpy_numpy.kernels.compiler.vectors import Vector
from burnpy_numpy.kernels.products.copies import (
    COLUMNS,
    IN_PLACE,
    LINE,
    PACKED,
    ROW_BYTES,
    STORED,
    STRIPE,
    STRIPE_BYTES,
    STRIPES,
    VECTORS,
    ProductLines,
    copy_columns,
    copy_columns_of_stripes,
    copy_rows,
    copy_rows_of_stripe,
    copy_widened_columns,
    stripe_vectors,
)
from burnpy_numpy.kernels.products.words import (
    CONFIGURATION,
    MOST_BYTES,
    STRIPE_ROWS,
    TILE,
    WordLines,
    copy_columns_of_words,
    copy_rows_of_words,
    copy_stripe_of_words,
    finish_by_amx,
    stripe_by_amx,
    sum_of_rows,
    words_of,
)

_AHEAD = 16
"""The number of rows of a panel by which it is fetched ahead."""
_UNROLLED = 4
"""The rows of a panel that are multiplied in a turn."""
_ALIGNED_ROWS = 3
"""The number of stripes from which B is copied if its vectors are not aligned, as each is two loads then."""


def stripe_heights(registers: int) -> tuple[int, ...]:
    """Return the numbers of rows of tiles, the largest first, for a processor with so many vector registers; 0 is AMX,
    whose registers hold tiles."""
    if not registers:
        return STRIPE_ROWS, TILE
    return (12, 8, 4) if registers >= 32 else (6, 4, 2)


def copied_bytes(transposed: bool, by_amx: bool) -> int:
    """Return the memory of the stripes that are copied together, if the columns of A lie together or its rows do."""
    if by_amx:
        return STRIPE_ROWS * MOST_BYTES
    return STRIPE_BYTES * (STRIPES if transposed else 1)


def product(
    dtype: str, width: int, registers: int, transposed: bool, a_stored: str, b_stored: str, c_stored: str
) -> str:
    """Return the text of the kernel of matrix products.

    The table: A, B, C, the row of numbers to which sums are added first, memory for copies, int64: the places of A, B
    and C of each member of a batch, and the table of a program that follows. The sizes: rows, columns and inner
    dimension; the distance of rows or columns of A; those of rows and columns of B; the length of a chunk; the columns
    of a block; rows and columns of a part; parts along rows and columns; the way in which B is read; 1 if there is a
    number to add for each column, 0 if the first ones serve all tiles, -1 if C holds the sums to which products are
    added; the address of the kernel of the program that follows, or 0; and the rows of all members, or 0 if that
    program is elementwise. It computes rows as soon as they are complete, in parts of whole rows. ``begin`` and ``end``
    are parts, those of a member one after the other.

    If no program follows, its table is not read, unless the last size is 1: memory for the sum of the rows of B, a
    single matrix, replaces it then.

    If B consists of ints, no program follows: its table is replaced by the scales, a row for each column of B. Before
    the last three sizes are then the units of a group; the number of groups; and the units that are divided into chunks
    together. The inner dimension and the length of a chunk are units, too; see `Stored`.

    Args:
        dtype: float32 or float64; int32 for products of ints of 8 bits.
        width: the number of elements of a vector.
        registers: the number of vector registers; 0 to multiply bfloat16 or ints by AMX.
        transposed: whether the columns of A lie together, not its rows. Ints that AMX does not multiply lie in rows.
        a_stored: the dtype of A: ``dtype``, or a float of 16 bits; int8 or uint8 for int32.
        b_stored: the same for B, which may consist of the ints of a quantized matrix: int8 or uint8. Its columns lie
            together then.
        c_stored: the dtype of C: ``dtype``, or bfloat16 for sums of a single chunk by AMX.
    """
    heights, by_amx = stripe_heights(registers), not registers
    words = words_of(dtype, registers, b_stored)
    widens = b_stored != dtype and words is None
    lanes, size = VECTORS * width, STORED[dtype].bytes
    _, parts, grouped = STORED[b_stored] if words is None else STORED[dtype]
    w = WordLines(dtype, width, 9, 19 if grouped else 16)
    a, b, c, start, memory, a_places, b_places, c_places, arrays = w.table
    m, n, k, a_line, b_row, b_column, chunk, block, high, wide, down, across, how, *grouping, spread, code, length = (
        w.sizes
    )
    group, groups, span = grouping if grouped else (k, "0", k)
    follows = w.assign(f"inttoptr i64 {code} to ptr")
    sums = dtype != "int32" and not grouped
    tile = TILE * (1 if words is None else words.each)
    a_row, a_column = ("1", a_line) if transposed else (a_line, "1")
    narrow = widens and not grouped
    if words is not None:
        copies = [copy_columns_of_words(dtype, width, words), copy_rows_of_words(dtype, width, words)]
        copies.append(copy_stripe_of_words(dtype, width, words._replace(stored=a_stored), by_amx, transposed))
    else:
        copies = [copy_widened_columns(dtype, width, b_stored) if widens else copy_columns(dtype, width)]
        if not grouped:
            copies.append(copy_rows(dtype, width, b_stored))
        copies.append(
            copy_columns_of_stripes(dtype, width, heights[0], a_stored)
            if transposed
            else copy_rows_of_stripe(dtype, width, a_stored)
        )
    if by_amx:
        helpers = [*copies, finish_by_amx(dtype, width, c_stored)]
        stored = a_stored, b_stored, c_stored
        helpers += [stripe_by_amx(dtype, width, height, transposed, stored) for height in heights]
        w.declared.add(CONFIGURATION)
        w.amx("ldtilecfg", "ptr @configuration")
    else:
        helpers = [*copies, _finish(dtype, width)]
        helpers += [_stripe(dtype, width, height, transposed) for height in heights]
        if narrow:
            helpers += [_stripe(dtype, width, height, transposed, b_stored) for height in heights]
            helpers.append(sum_of_rows(dtype, width, words, b_stored, c_stored))
    if sums:
        helpers.append(sum_of_rows(dtype, width, words, "", c_stored))
    together = STRIPES if transposed and not by_amx else 1
    panels = w.at(memory, str(copied_bytes(transposed, by_amx) // size))
    with w.loop("%begin", "%end") as part:
        member, rest = w.divided(part, w.times(down, across))
        row_part, column_part = w.divided(rest, across)
        i0, j0 = w.times(row_part, high), w.times(column_part, wide)
        rows, columns = w.minus(w.smaller(w.plus(i0, high), m), i0), w.minus(w.smaller(w.plus(j0, wide), n), j0)
        left = w.unit(a, w.plus(w.number(a_places, member), w.times(i0, a_row)), a_stored)
        right = w.unit(b, w.plus(w.number(b_places, member), w.times(j0, b_column)), b_stored)
        in_place = _in_place(w, how, right, b_row, rows, _ALIGNED_ROWS * heights[0])
        out = w.unit(c, w.plus(w.number(c_places, member), w.plus(w.times(i0, n), j0)), c_stored)
        chunks = w.upper(span, chunk)
        with w.loop("0", w.upper(columns, block)) as jb, w.loop("0", w.times(w.upper(k, span), chunks)) as pb:
            spans, at = w.divided(pb, chunks)
            j, begin = w.times(jb, block), w.times(spans, span)
            p, beyond = w.plus(begin, w.times(at, chunk)), w.smaller(k, w.plus(begin, span))
            some, units = w.smaller(block, w.minus(columns, j)), w.smaller(chunk, w.minus(beyond, p))
            depth, whole_depth = (w.times(units, parts) if parts > 1 else units), k
            if words is not None:
                depth, whole_depth = w.lines_of(words, units), w.lines_of(words, k)
            source = w.unit(right, w.plus(w.times(p, b_row), w.times(j, b_column)), b_stored)
            whole = w.either(in_place, w.assign(f"sdiv i64 {some}, {lanes}"), "0", "i64")
            first = w.times(whole, lanes)
            if not grouped:
                with w.when(f"slt i64 {how}, {COLUMNS}"):
                    given = f"ptr {w.unit(source, first, b_stored)}, i64 {units}, i64 {w.minus(some, first)}"
                    w.write(f"call void @copy_rows({given}, i64 {b_row}, ptr {w.at(panels, w.times(first, depth))})")
            with w.when(f"eq i64 {how}, {COLUMNS}"), w.loop("0", w.upper(some, lanes)) as panel:
                column = w.times(panel, lanes)
                given = f"ptr {w.unit(source, w.times(column, b_column), b_stored)}, i64 {units}"
                place = w.at(panels, w.times(column, depth))
                given += f", i64 {w.minus(some, column)}, i64 {b_column}, ptr {place}"
                if widens:
                    row = w.times(w.plus(j0, w.plus(j, column)), groups)
                    scale = w.at(arrays, w.plus(row, w.assign(f"sdiv i64 {p}, {group}")))
                    given += f", ptr {scale}, i64 {groups}, i64 {group}"
                w.write(f"call void @copy_columns({given})")
            kept = w.assign(f"icmp eq i64 {how}, {PACKED}")
            read, tall = w.either(kept, source, panels), w.either(kept, whole_depth, depth, "i64")
            target = w.unit(out, j, c_stored)
            begins = w.assign(f"and i1 {w.assign(f'icmp eq i64 {p}, 0')}, {w.assign(f'icmp sge i64 {spread}, 0')}")
            before = w.either(begins, w.at(start, w.times(spread, w.plus(j0, j))), target)
            before_row, before_column = w.either(begins, "0", n, "i64"), w.either(begins, spread, "1", "i64")
            lines = w.unit(left, w.times(p, a_column), a_stored)
            pieces = [(lines, units, memory)]
            if parts > 1:  # the two numbers of a unit are apart in A, unless a chunk has all of a group
                lines = w.unit(lines, w.minus(p, w.divided(p, group)[1]), a_stored)
                whole_groups = w.assign(f"icmp sle i64 {group}, {chunk}")
                first_length, other_length = (w.either(whole_groups, x, units, "i64") for x in (depth, "0"))
                other = w.unit(lines, group, a_stored)
                pieces = [(lines, first_length, memory), (other, other_length, w.at(memory, first_length))]

            ended = w.assign(f"icmp sge i64 {w.plus(j, block)}, {columns}")
            ended = w.assign(f"and i1 {ended}, {w.assign(f'icmp sge i64 {w.plus(p, chunk)}, {k}')}")
            last = w.assign(f"and i1 {ended}, {w.assign(f'icmp ne i64 {code}, 0')}")

            # while a block of B is multiplied, the next one comes into the second cache
            a_size, b_size = STORED[a_stored].bytes, STORED[b_stored].bytes
            more = w.assign(f"icmp slt i64 {w.plus(p, units)}, {k}")
            next_p, next_j = w.either(more, w.plus(p, units), "0", "i64"), w.either(more, j, w.plus(j, block), "i64")
            next_block = w.unit(right, w.plus(w.times(next_p, b_row), w.times(next_j, b_column)), b_stored)
            by_columns = w.assign(f"icmp eq i64 {how}, {COLUMNS}")
            b_lines, b_line = (w.either(by_columns, *x, "i64") for x in ((some, units), (units, some)))
            b_distance = w.times(w.either(by_columns, b_column, b_row, "i64"), b_size)
            b_bytes, count = w.times(b_line, b_size), w.upper(some, lanes)
            ends = w.assign(f"or i1 {kept}, {w.assign(f'icmp sge i64 {next_j}, {columns}')}")
            ends = w.assign(f"or i1 {ends}, {w.assign(f'icmp eq i64 {count}, 1')}")
            a_turn = _UNROLLED * (LINE if transposed else heights[0] * a_size)  # the bytes of A for a turn of a panel
            a_panels = w.either(ends, count, w.smaller(str(-(-a_turn // LINE)), w.plus(count, -1)), "i64")
            b_turns = w.times(w.either(ends, "1", w.minus(count, a_panels), "i64"), w.upper(depth, _UNROLLED))
            b_speed = w.upper(w.times(b_bytes, b_lines), w.times(w.upper(rows, heights[0]), b_turns))
            next_b = f"ptr {next_block}, i64 {b_distance}, i64 {b_bytes}, i64 {w.smaller(b_speed, str(LINE))}"

            def calls(height: int, a: str, count: str, others: str, line: str, other: str) -> None:
                """Write the calls of a stripe's function, for columns in place and for others; 0 sums the rows of B."""

                def call(kind: str, from_column: str, columns: str, in_place: str = whole) -> None:
                    panel, place = w.at(read, w.times(from_column, depth)), w.unit(line, from_column, c_stored)
                    added = w.at(other, w.times(from_column, before_column))
                    w.write(
                        f"call void @{kind}_{height}(ptr {a}, ptr {source}, i64 {b_row}, i64 {in_place}, "
                        f"ptr {panel}, i64 {tall}, i64 {depth}, ptr {place}, i64 {n}, ptr {added}, i64 {before_row}, "
                        f"i64 {before_column}, i64 {count}, i64 {columns}{others})"
                    )

                if narrow:  # what is read in place is widened in registers, the panel beside it was when it was copied
                    with w.when(f"sgt i64 {first}, 0"):
                        call("widened", "0", first)
                    with w.when(f"slt i64 {first}, {some}"):
                        call("stripe", first, w.minus(some, first), "0")
                else:
                    call("stripe", "0", some)

            def stripe(number: str, i: str, count: str, height: int) -> None:
                """Write the product of a stripe of rows, and the program that follows it."""
                alone = height < heights[0]  # its columns are copied by themselves
                place = w.assign(f"and i64 {number}, {0 if alone else together - 1}")
                tiles = "0"  # of A in place: whole ones
                if by_amx and not transposed:
                    whole_rows = w.assign(f"icmp eq i64 {count}, {height}")
                    tiles = w.either(whole_rows, w.assign(f"udiv i64 {units}, {tile}"), "0", "i64")
                copied = w.at(memory, w.times(place, STRIPE_BYTES // size))
                with w.when(f"eq i64 {place}, 0"):
                    most = w.smaller(str(height if alone else together * heights[0]), w.minus(rows, i))
                    for piece, deep, to in pieces:
                        rows_of_a, beside = w.unit(piece, w.times(i, a_row), a_stored), (deep, to)
                        if by_amx:
                            rows_of_a = w.unit(rows_of_a, w.times(tiles, tile), a_stored)
                            beside = w.minus(deep, w.times(tiles, tile)), w.at(to, w.times(tiles, TILE * STRIPE_ROWS))
                        w.write(
                            f"call void @copy_stripes(ptr {rows_of_a}, i64 {beside[0]}, i64 {most}, i64 {height}, "
                            f"i64 {a_line}, ptr {beside[1]})"
                        )
                a_distance = w.times(a_line, a_size)
                if by_amx:
                    ahead, step = w.plus(i, height), w.times(a_distance, tile) if transposed else str(LINE)
                    others = f"ptr {w.unit(lines, w.times(i, a_row), a_stored)}, i64 {a_distance}, i64 {tiles}, "
                    others += f"ptr {w.unit(lines, w.times(ahead, a_row), a_stored)}, i64 {step}"
                else:
                    if transposed:  # the columns of the next stripes that are copied together, some by each of these
                        ahead = w.plus(w.plus(i, STRIPES * heights[0]), w.times(place, 4))
                    else:
                        ahead = w.plus(i, height)
                    a_bytes = str(LINE) if transposed else w.times(units, a_size)
                    others = f"ptr {w.unit(lines, w.times(ahead, a_row), a_stored)}, i64 {a_distance}, i64 {a_bytes}, "
                    others += f"i64 {w.upper(str(a_turn), a_panels)}, i64 {a_panels}, {next_b}, "
                    others += f"i64 {w.times(number, b_turns)}"
                line, other = w.unit(target, w.times(i, n), c_stored), w.at(before, w.times(i, before_row))
                calls(height, copied, count, f", {others}", line, other)
                with w.when(f"ne i1 {last}, 0"):
                    top = w.plus(w.plus(w.times(member, m), i0), i)
                    by_rows = w.assign(f"icmp ne i64 {length}, 0")
                    unit = w.either(by_rows, "1", n, "i64")
                    beyond, every = w.times(w.plus(top, count), unit), w.either(by_rows, length, "1", "i64")
                    w.write(
                        f"call void {follows}(ptr {arrays}, ptr null, i64 {w.times(top, unit)}, i64 {beyond}, "
                        f"i64 {every}, i64 {w.either(by_rows, n, w.times(w.times(m, n), unit), 'i64')})"
                    )

            number, rest = w.divided(rows, str(heights[0]))
            pairs = "0"  # two stripes of medium height take less time than a high and a low one
            if not by_amx:
                few = w.assign(f"icmp ult i64 {w.plus(rest, -1)}, {heights[2]}")
                pairs = w.smaller(w.assign(f"zext i1 {few} to i64"), number)
            number = w.minus(number, pairs)
            with w.loop("0", number) as s:
                stripe(s, w.times(s, heights[0]), str(heights[0]), heights[0])
            done = w.times(number, heights[0])
            with w.loop("0", pairs):
                stripe(number, done, str(heights[1]), heights[1])
            number, done = w.plus(number, pairs), w.plus(done, w.times(pairs, heights[1]))
            rest = w.minus(rows, done)
            for height, lower in zip(heights, [*heights[1:], 0], strict=True):
                with w.when(f"sle i64 {rest}, {height}"), w.when(f"sgt i64 {rest}, {lower}"):
                    stripe(number, done, rest, height)
            if sums:
                unfollowed, wanted = (w.assign(f"icmp {x}, 0") for x in (f"eq i64 {code}", f"ne i64 {length}"))
                wanted = w.assign(f"and i1 {unfollowed}, {wanted}")
                with w.when(f"ne i1 {wanted}, 0"), w.when(f"eq i64 {w.plus(i0, rows)}, {m}"):
                    line = w.unit(arrays, w.plus(j0, j), c_stored)
                    calls(0, memory, "1", "", line, w.either(begins, before, line))
    if by_amx:
        w.amx("tilerelease")
    w.declared.update(*(helper.declared for helper in helpers))
    return w.function(*[helper.text for helper in helpers])


def _in_place(w: ProductLines, how: str, source: str, row: str, rows: str, few: int) -> str:
    """Return whether a part reads B in place: as ``how`` says, if its vectors are aligned or there are few rows."""
    size = STORED[w.dtype].bytes
    places = w.assign(f"or i64 {w.assign(f'ptrtoint ptr {source} to i64')}, {w.times(row, size)}")
    aligned = w.assign(f"icmp eq i64 {w.assign(f'and i64 {places}, {w.width * size - 1}')}, 0")
    either = w.assign(f"or i1 {aligned}, {w.assign(f'icmp slt i64 {rows}, {few}')}")
    return w.assign(f"and i1 {either}, {w.assign(f'icmp eq i64 {how}, {IN_PLACE}')}")


def _finish(dtype: str, width: int) -> ProductLines:
    """Return the function that adds the sums of a tile to what was before, for some of its rows and columns."""
    w = ProductLines(dtype, width)
    masks = [w.below(w.plus("%columns", -v * width)) for v in range(VECTORS)]
    with w.loop("0", "%rows") as i:
        line, before = w.at("%c", w.times(i, "%c_row")), w.at("%before", w.times(i, "%before_row"))
        sums = w.at("%sums", w.times(i, VECTORS * width))
        for v, mask in enumerate(masks):
            x = w.load(w.at(sums, v * width), dtype, None)
            w.store(w.add(x, w.load(w.at(before, v * width), dtype, mask)), w.at(line, v * width), mask)
    return w.named("finish", "ptr %sums, ptr %c, i64 %c_row, ptr %before, i64 %before_row, i64 %rows, i64 %columns")


def _stripe(dtype: str, width: int, height: int, transposed: bool, stored: str = "") -> ProductLines:
    """Return the function that multiplies a stripe of up to ``height`` rows of A by a block of B.

    With ``stored``, a dtype of 16 bits, B is read in place in whole panels.
    """
    w, lanes = ProductLines(dtype, width), VECTORS * width
    room = w.room(height * lanes, dtype)
    all_rows = w.assign(f"icmp eq i64 %rows, {height}")
    with w.loop("0", w.upper("%columns", lanes)) as panel:
        j, b, b_row = w.panel(panel, stored)
        left, c, before = w.minus("%columns", j), w.at("%c", j), w.at("%before", w.times(j, "%before_column"))
        for i in range(height):  # what is written comes while the sums are computed
            for v in range(VECTORS):
                w.prefetch(w.at(c, w.plus(w.times("%c_row", i), v * width)))
        with w.when(f"sgt i64 {left}, {width}"):
            sums = _multiplied(w, height, (panel, b, b_row), VECTORS, transposed, stored or dtype)
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
            sums = _multiplied(w, height, (panel, b, b_row), 1, transposed, stored or dtype)
            _finish_some(w, room, sums, c, before, left)
    return w.named(f"{'widened' if stored else 'stripe'}_{height}", STRIPE + _FETCHED)


_FETCHED = (
    ", ptr %a_next, i64 %a_distance, i64 %a_bytes, i64 %a_speed, i64 %a_panels, "
    "ptr %b_next, i64 %b_distance, i64 %b_bytes, i64 %b_speed, i64 %b_turns"
)
"""The parameters of lines that a stripe's product fetches into the second cache: with the first panels the next stripe
of A, with the others a part of the next block of B. Each has the address of its lines, their distance, their bytes, and
the bytes by which a turn goes on; B has the turns before."""


def _finish_some(w: ProductLines, room: str, sums: list[list[Vector]], c: str, before: str, left: str) -> None:
    """Write the call of `_finish`."""
    for i, row in enumerate(sums):
        for v, x in enumerate(row):
            w.store(x, w.at(room, (i * VECTORS + v) * w.width), None)
    w.write(f"call void @finish(ptr {room}, ptr {c}, i64 %c_row, ptr {before}, i64 %before_row, i64 %rows, i64 {left})")


def _multiplied(
    w: ProductLines, height: int, panel: tuple[str, str, str], vectors: int, transposed: bool, stored: str
) -> list[list[Vector]]:
    """Write the loop over a chunk, and return the sums of each row. The panel: its number, address and row's length."""
    zero, dtype, (number, b, b_row) = w.constant(0.0, w.dtype), w.dtype, panel
    row, column = (1, stripe_vectors(w.width) * w.width) if transposed else (ROW_BYTES // STORED[dtype].bytes, 1)
    totals = [[w.variable(zero) for _ in range(vectors)] for _ in range(height)]
    turns, fetches_a = w.divided("%depth", str(_UNROLLED))[0], w.assign(f"icmp slt i64 {number}, %a_panels")
    distance, size, speed = (w.either(fetches_a, f"%a_{x}", f"%b_{x}", "i64") for x in ("distance", "bytes", "speed"))
    begin = w.times(w.minus(number, w.either(fetches_a, "0", "%a_panels", "i64")), turns)
    begin = w.plus(begin, w.either(fetches_a, "0", "%b_turns", "i64"))
    lines, first = w.divided(w.times(begin, speed), size)
    source = w.unit(w.either(fetches_a, "%a_next", "%b_next"), w.times(lines, distance), "int8")
    to_line, in_line = w.count("0"), w.count(first)
    with w.loop("0", turns) as turn:
        line, at = w.number(to_line, 0), w.number(in_line, 0)
        w.prefetch(w.unit(source, w.plus(line, at), "int8"), 2)
        further = w.plus(at, speed)
        ends = w.assign(f"icmp sge i64 {further}, {size}")
        w.set_number(in_line, w.either(ends, "0", further, "i64"))
        w.set_number(to_line, w.either(ends, w.plus(line, distance), line, "i64"))
        for k in range(_UNROLLED):
            _multiply_row(w, totals, (b, b_row), w.plus(w.times(turn, _UNROLLED), k), (row, column), stored)
    with w.loop(w.times(turns, _UNROLLED), "%depth") as p:
        _multiply_row(w, totals, (b, b_row), p, (row, column), stored)
    return [[w.get(total, dtype) for total in mine] for mine in totals]


def _multiply_row(
    w: ProductLines, totals: list[list[str]], panel: tuple[str, str], p: str, steps: tuple[int, int], stored: str
) -> None:
    """Add the products of a row of a panel to the sums. The steps: the distances of rows and of columns of A."""
    (b, b_row), (row, column), vectors, dtype = panel, steps, len(totals[0]), w.dtype
    line = w.unit(b, w.times(p, b_row), stored)
    ys = [w.widened(w.unit(line, v * w.width, stored), stored, None) for v in range(vectors)]
    ahead = w.unit(line, w.times(b_row, _AHEAD), stored)
    for v in range(vectors):
        w.prefetch(w.unit(ahead, v * w.width, stored))
    factors = w.at("%a", w.times(p, column))
    for i, mine in enumerate(totals):
        x = w.load_one(w.at(factors, i * row), dtype)
        for total, y in zip(mine, ys, strict=True):
            w.set(total, w.fma(x, y, w.get(total, dtype)))
