"""The arrays of lists as tables of addresses, by which one kernel finds all of them.

The table is the last parameter of a kernel and has at most 4 KB, so nothing is copied to the GPU beforehand and nothing
waits. When the table is full, there are further launches. The arrays are divided into parts of `PART` elements, whose
blocks find their array by bisection.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import accumulate, chain
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from burnpy_cupy.kernels.launcher import Launch, launcher

PART = 4096
"""The number of elements of a part of an array, which one block computes."""
THREADS = 256
_SIZE, _ADDRESS, _IS_CONTIGUOUS = attrgetter("size"), attrgetter("data.ptr"), attrgetter("_c_contiguous")
_PARAMETERS = 4000
"""The bytes that a table may take; a kernel has a few numbers besides."""
_TABLE = """
struct burnpy_table {
  unsigned long long arrays[COUNT * COLUMNS];
  long long sizes[COUNT];
  int positions[COUNT];
  int firsts[COUNT + 1];
  int count;
};
#define BURNPY_FIND \\
  const int part = blockIdx.x; \\
  int row = 0; \\
  for (int last = table.count - 1; row < last;) { \\
    const int middle = (row + last + 1) / 2; \\
    if (table.firsts[middle] <= part) row = middle; else last = middle - 1; \\
  } \\
  const unsigned long long* const arrays = table.arrays + row * COLUMNS; \\
  const long long start = (long long)(part - table.firsts[row]) * PART; \\
  const long long left = table.sizes[row] - start, end = start + (left < PART ? left : PART);
"""
"""The addresses of ``count`` arrays, their sizes, positions in the lists, and first parts."""


class TableLayout(NamedTuple):
    """A table without the addresses that it begins with."""

    rows: slice  #: of the arrays that are not empty
    parts: int  #: the number of parts of all its arrays
    rest: bytes  #: what follows the addresses


@lru_cache(256)
def table_layouts(columns: int, sizes: tuple[int, ...], positions: tuple[int, ...]) -> list[TableLayout]:
    """Return the tables of lists of arrays of some sizes.

    Args:
        columns: the number of lists.
        sizes: the number of elements of each array of a list. Those that are empty are left out.
        positions: the position of each array in the lists that the operation got.
    """
    full = [(k, size) for k, size in zip(positions, sizes, strict=True) if size]
    count, tables = capacity(columns), []
    for begin in range(0, len(full), count):
        rows = full[begin : begin + count]
        firsts = [0, *accumulate([-(-size // PART) for _, size in rows])]
        table = np.zeros((), _table_dtype(columns))
        table["positions"][: len(rows)], table["sizes"][: len(rows)] = zip(*rows, strict=True)
        table["firsts"][: len(firsts)] = firsts
        table["count"] = len(rows)
        rest = table.tobytes()[8 * columns * len(rows) :]
        tables.append(TableLayout(slice(begin, begin + len(rows)), firsts[-1], rest))
    return tables


def table_launches(
    xp: Any,
    kernel: Any,
    given: str,
    columns: Sequence[Sequence[Any]],
    positions: tuple[int, ...],
    *,
    by_rows: bool = False,
) -> Iterator[tuple[TableLayout, Launch, list[int]]]:
    """Yield the tables of arrays, each with the launch of a kernel and with the addresses, its last arguments.

    Args:
        xp: the module cupy.
        kernel: a `cupy.RawKernel`.
        given: the format of the kernel's other parameters.
        columns: lists of arrays, which are C-contiguous.
        positions: the position of each array in the lists that the operation got.
        by_rows: whether the kernel has a block for each array, not for each part.
    """
    sizes = tuple(map(_SIZE, columns[0]))
    rows = [*zip(*[map(_ADDRESS, column) for column in columns], strict=True)]
    if 0 in sizes:
        rows = [row for row, size in zip(rows, sizes, strict=True) if size]
    device = xp.cuda.runtime.getDevice()
    for layout, launch in _launches(xp, device, kernel, given, len(columns), sizes, positions, by_rows):
        yield layout, launch, [*chain.from_iterable(rows[layout.rows])]


@lru_cache(256)
def _launches(
    xp: Any,
    device: int,
    kernel: Any,
    given: str,
    columns: int,
    sizes: tuple[int, ...],
    positions: tuple[int, ...],
    by_rows: bool,
) -> list[tuple[TableLayout, Launch]]:
    """Return the launches of a kernel, one for each table, on a device, which is the current one."""
    launches = []
    for layout in table_layouts(columns, sizes, positions):
        count = layout.rows.stop - layout.rows.start
        grid = count if by_rows else layout.parts, 1
        launches.append((layout, launcher(xp, kernel, grid, (THREADS, 1), f"{given}{columns * count}Q", layout.rest)))
    return launches


class NamedTable(NamedTuple):
    """A table whose addresses are to be filled in."""

    content: bytes
    arrays: dict[int, str]  #: the names of the arrays by the positions of their addresses in bytes
    parts: int


def named_tables(rows: Sequence[Sequence[str]], sizes: Sequence[int]) -> list[NamedTable]:
    """Return the tables of arrays without empty ones, given their names row by row and the sizes of the rows."""
    tables = []
    for layout in table_layouts(len(rows[0]), tuple(sizes), tuple(range(len(sizes)))):
        names = [name for row in rows[layout.rows] for name in row]
        content = bytes(8 * len(names)) + layout.rest
        tables.append(NamedTable(content, {8 * k: name for k, name in enumerate(names)}, layout.parts))
    return tables


def capacity(columns: int) -> int:
    """Return how many arrays of each of so many lists a table has."""
    return (_PARAMETERS - 8) // (8 * columns + 16)


@cache
def _table_dtype(columns: int) -> np.dtype[Any]:
    count = capacity(columns)
    fields: list[Any] = [("arrays", np.uint64, (count * columns,)), ("sizes", np.int64, (count,))]
    fields += [("positions", np.int32, (count,)), ("firsts", np.int32, (count + 1,)), ("count", np.int32)]
    return np.dtype(fields, align=True)


def table_source(columns: int) -> str:
    """Return the source of a table of so many lists, and of how a block finds its array."""
    return _TABLE.replace("COUNT", str(capacity(columns))).replace("COLUMNS", str(columns)).replace("PART", str(PART))


def contiguous(xp: Any, xs: Sequence[Any]) -> Sequence[Any]:
    """Return arrays in row-major order; copies of others."""
    return xs if all(map(_IS_CONTIGUOUS, xs)) else [*map(xp.ascontiguousarray, xs)]
