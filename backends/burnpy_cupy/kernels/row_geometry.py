"""`Geometry`: which elements of an array are the rows and the columns of a program, and the threads for them."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

from burnpy.backend.primitives import Dims, Shape

WARP = 32
_LONG = 1 << 16
"""The length of a row up to which one block computes it about as fast as several functions of CuPy by all blocks."""
_MANY = 64
"""The number of longer rows from which as many blocks are enough."""


class Geometry(NamedTuple):
    """Rows and columns in the memory of an array.

    The element at a row and a column is at ``(row / inner[0]) · steps[0] + row % inner[0] · steps[1] + (column /
    inner[1]) · steps[2] + column % inner[1] · steps[3]``.
    """

    rows: int
    columns: int
    inner: tuple[int, int]
    steps: tuple[int, int, int, int]

    @property
    def address(self) -> str:
        """The formula that it needs: "plain", "transposed" or "planes"."""
        if self.steps == (0, self.columns, 0, 1):
            return "plain"
        return "transposed" if self.steps == (0, 1, 0, self.rows) else "planes"

    @property
    def wide(self) -> bool:
        """True if positions need 64 bits."""
        counts = (self.rows // self.inner[0], self.inner[0], self.columns // self.inner[1], self.inner[1])
        reach = sum([(n - 1) * abs(step) for n, step in zip(counts, self.steps, strict=True)])
        return max(self.rows * self.columns, reach) >= 1 << 30

    @property
    def occupies(self) -> bool:
        """True if the rows keep a GPU busy: they are many, or short enough that it does not matter."""
        return self.columns <= _LONG or self.rows >= _MANY

    def threads(self, elementwise: bool) -> Threads:
        """Return the threads for a row: a warp, a block, or one lane of many warps where rows are neighbours in memory.

        All blocks compute the one row of an elementwise program.

        It depends on the shape alone, so that sums have the same bits on every GPU.
        """
        if self.rows == 1 and elementwise:
            return Threads("grid", 256, 1)
        if self.steps[1] == 1 and self.steps[3] != 1 and self.rows > 1:
            return Threads("lanes", WARP, 8 if self.columns <= 256 else WARP)
        if self.columns <= 1024:
            return Threads("warp", WARP, 8)
        return Threads("block", 256 if self.columns <= 8192 else 1024, 1)


class Threads(NamedTuple):
    """The kind of division of rows among threads, and the sizes of a block."""

    kind: str
    x: int
    y: int

    @property
    def block(self) -> int:
        """The number of threads of a block, which a kernel declares: its registers must fit in the multiprocessor's."""
        return self.x * self.y

    def blocks(self, geometry: Geometry) -> int:
        """Return the number of blocks; each thread of a grid computes about four elements."""
        if self.kind == "grid":
            return -(-geometry.columns // (4 * self.x))
        rows = {"warp": self.y, "block": 1, "lanes": self.x}[self.kind]
        return -(-geometry.rows // rows)


@lru_cache(4096)
def flat(size: int) -> Geometry:
    """Return one row of all elements."""
    return matrix(1, size)


@lru_cache(4096)
def matrix(rows: int, columns: int) -> Geometry:
    """Return the rows and the columns of a matrix."""
    return Geometry(rows, columns, (rows, columns), (0, columns, 0, 1))


def transposed(rows: int, columns: int) -> Geometry:
    """Return the columns of a matrix as rows."""
    return Geometry(columns, rows, (columns, rows), (0, 1, 0, columns))


@lru_cache(1024)
def along(shape: Shape, dims: Dims) -> Geometry | None:
    """Return the geometry whose columns are the elements along ``dims``; None if kernels are not for it.

    They are not for empty arrays, for more than two groups of dimensions, and for few long rows (`occupies`).
    """
    if 0 in shape:
        return None
    steps = [math.prod(shape[d + 1 :]) for d in range(len(shape))]
    geometry = of_view(shape, tuple(steps), dims)
    return geometry if geometry is not None and geometry.occupies else None


def of_view(shape: Shape, steps: Shape, dims: Dims) -> Geometry | None:
    """Return the geometry of an array with elements, at given steps, whose columns are the elements along ``dims``.

    None if rows, or columns, are more than two groups of dimensions that can each be joined to one.
    """
    groups: dict[bool, list[tuple[int, int]]] = {True: [], False: []}  # sizes and steps, the innermost first
    for d in reversed(range(len(shape))):
        size, step, group = shape[d], steps[d], groups[d in dims]
        if size == 1:
            continue
        if group and step == group[-1][0] * group[-1][1]:
            group[-1] = group[-1][0] * size, group[-1][1]
        else:
            group.append((size, step))
    if len(groups[False]) > 2 or len(groups[True]) > 2:
        return None
    columns, rows = math.prod([n for n, _ in groups[True]]), math.prod([n for n, _ in groups[False]])
    inner_row, step0, step1 = _axis(groups[False], columns)
    inner_column, step2, step3 = _axis(groups[True], 1)
    return Geometry(rows, columns, (inner_row, inner_column), (step0, step1, step2, step3))


def _axis(groups: list[tuple[int, int]], step: int) -> tuple[int, int, int]:
    """Return the size of the inner group of dimensions, and the steps of the outer and of the inner one."""
    if not groups:
        return 1, 0, step
    inner, step = groups[0]
    return inner, groups[1][1] if len(groups) == 2 else 0, step
