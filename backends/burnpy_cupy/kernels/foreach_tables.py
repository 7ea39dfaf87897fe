"""The arrays of lists as tables of addresses, by which one kernel finds all of them.

The table is a parameter of the kernel and has at most 4 KB, so nothing is copied to the GPU beforehand and nothing
waits. When the table is full, there are further launches. The arrays are divided into parts of `PART` elements, whose
blocks find their array by bisection.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

PART = 4096
"""The number of elements of a part of an array, which one block computes."""
THREADS = 256
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


class TableBatch(NamedTuple):
    """A launch: the table, and the number of parts."""

    table: Any
    parts: int


def batches(columns: Sequence[Sequence[Any]], positions: Sequence[int]) -> list[TableBatch]:
    """Return the tables of arrays.

    Args:
        columns: lists of arrays, which are C-contiguous. Those that are empty are left out.
        positions: the position of each array in the lists that the operation got.
    """
    sizes = tuple([x.size for x in columns[0]])
    rows = [row for row, size in zip(zip(*columns, strict=True), sizes, strict=True) if size]
    tables = []
    for table, begin, end, parts in _without_addresses(len(columns), sizes, tuple(positions)):
        filled = table.copy()
        filled["arrays"][: (end - begin) * len(columns)] = [x.data.ptr for row in rows[begin:end] for x in row]
        tables.append(TableBatch(filled[()], parts))
    return tables


@lru_cache(256)
def _without_addresses(
    columns: int, sizes: tuple[int, ...], positions: tuple[int, ...]
) -> list[tuple[Any, int, int, int]]:
    """Return the tables of arrays of some sizes, each with the range of its rows and the number of their parts."""
    full = [(k, size) for k, size in zip(positions, sizes, strict=True) if size]
    count, tables = capacity(columns), []
    for begin in range(0, len(full), count):
        rows = full[begin : begin + count]
        table = np.zeros((), _table_dtype(columns))
        _fill(table, [k for k, _ in rows], [size for _, size in rows])
        tables.append((table, begin, begin + len(rows), _parts(table)))
    return tables


class NamedTable(NamedTuple):
    """A table whose addresses are to be filled in."""

    content: bytes
    arrays: dict[int, str]  #: the names of the arrays by the positions of their addresses in bytes
    parts: int


def named_tables(rows: Sequence[Sequence[str]], sizes: Sequence[int]) -> list[NamedTable]:
    """Return the tables of arrays without empty ones, given their names row by row and the sizes of the rows."""
    columns = len(rows[0])
    count = capacity(columns)
    tables = []
    for begin in range(0, len(rows), count):
        table = np.zeros((), _table_dtype(columns))
        _fill(table, [*range(begin, min(begin + count, len(rows)))], sizes[begin : begin + count])
        names = [name for row in rows[begin : begin + count] for name in row]
        tables.append(NamedTable(table.tobytes(), {8 * k: name for k, name in enumerate(names)}, _parts(table)))
    return tables


def _fill(table: Any, positions: Sequence[int], sizes: Sequence[int]) -> None:
    """Write the positions, sizes and first parts of rows into a table."""
    firsts = [0, *accumulate(-(-size // PART) for size in sizes)]
    table["sizes"][: len(sizes)] = sizes
    table["positions"][: len(sizes)] = positions
    table["firsts"][: len(firsts)] = firsts
    table["count"] = len(sizes)


def _parts(table: Any) -> int:
    """Return the number of parts of all rows of a table."""
    return int(table["firsts"][table["count"]])


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


def contiguous(xp: Any, xs: Sequence[Any]) -> list[Any]:
    """Return arrays in row-major order; copies of others."""
    return [x if x.flags.c_contiguous else xp.ascontiguousarray(x) for x in xs]
