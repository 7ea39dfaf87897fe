"""Matrix products by a kernel of burnpy: which products it computes, in which parts, and the calls."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from threading import local
from typing import Any, Literal, NamedTuple

import numpy as np

import burnpy_numpy.cpu_threads as threads
from burnpy.backend.dtypes import float32, int32
from burnpy.backend.primitives import Shape
from burnpy.backend.runtime import executed
from burnpy_numpy.kernels.compiler.entry import code_of
from burnpy_numpy.kernels.compiler.target import has_amx, has_dot_products, target
from burnpy_numpy.kernels.kernel import template_kernel
from burnpy_numpy.kernels.launch import Kernel, TemplateKernel, share
from burnpy_numpy.kernels.packed_weights import with_kept_panels
from burnpy_numpy.kernels.products.copies import (
    CHUNK_BYTES,
    COLUMNS,
    IN_PLACE,
    ROWS,
    STORED,
    TILE,
    VECTORS,
    Words,
    words_of,
)
from burnpy_numpy.kernels.products.product_kernel import product
from burnpy_numpy.kernels.products.stripes import MOST_BYTES, copied_bytes, stripe_heights
from burnpy_numpy.matmul import LEAST, MULTIPLICATIONS_PER_ELEMENT

_MOST_DOUBLE = 1 << 21
"""The bytes of a matrix B of float64 beyond which OpenBLAS takes less time, as it comes from memory."""
_MAX_FEW_COLUMNS = 1 << 13
"""The number of multiplications up to which there may be few columns, if a bias is added."""
_MAX_ROW_BYTES = 1 << 18
"""The bytes of a matrix B up to which one row is multiplied by it, with a bias."""
_MANY_ROWS = 256
"""The least number of rows for which blocks of B are copied although they could be read in place."""
_SOME_ROWS, _APART = 16, 1 << 13
"""The same where the rows of B are so many bytes apart that each is in a page of memory of its own."""
_FEW_ROWS, _FAR = 32, 1 << 21
"""The number of rows up to which panels of a matrix B of this many bytes are kept: they come from memory in order."""
_FEW_PANELS = 4
"""The panels of a block that is copied from rows for few rows of A."""
_IN_FIRST_CACHE = 1 << 15
"""The bytes of a matrix B that is read in place, however many rows there are."""
_WORTH_WIDENING = 1 << 14
"""The least number of multiplications of floats of 16 bits for which the kernel widens them in less time than NumPy."""
_WORTH_SUMMING, _MOST_SUMMED = 1 << 9, 1 << 16
"""The least number of elements of a matrix B whose rows are added up with a product; and the most bytes of a column, as
a sum of more chunks loses more digits than NumPy's."""
_WORTH_KEEPING = 1 << 12
"""The least number of elements of a matrix B for which its panels of words are kept; of ints for any number of rows."""
_INTS, _SQUARE = 192, 16
"""The most ints in a chunk, so that a widened panel stays in the first cache; and those that are widened together."""
_AMX_RATE = 8
"""How many times as many multiplications AMX computes in the same time; others as many as a word has numbers."""
_WAKING, _MOST_AHEAD = 1 << 20, 1.5
"""The multiplications of a thread before another one wakes up, and the most that a part is larger than half."""
_SECOND_CACHE = 1 << 20, 1 << 19
"""The most memory of a block of B for all threads' caches, and the size of the second cache if it is unknown."""


def serves(rows: int, inner: int, columns: int, itemsize: int, biased: bool = False, sums: bool = False) -> bool:
    """Return whether the kernel computes products of matrices of these sizes; NumPy takes less time for others. With
    ``sums`` it also adds up the rows of B, for any number of rows of A or for none."""
    width = target().vector // itemsize
    if not (_enabled() and target().fuses):
        return False
    if itemsize == 8 and inner * columns * itemsize > _MOST_DOUBLE:
        return False
    if sums:
        wide = 2 * columns >= 3 * width and inner * columns >= _WORTH_SUMMING
        return wide and 1 < inner <= _MOST_SUMMED // itemsize
    if biased:
        wide = 2 * columns >= width or rows * inner * columns <= _MAX_FEW_COLUMNS
        return wide and (rows > 1 or inner * columns * itemsize <= _MAX_ROW_BYTES) and rows * inner > 0
    return 2 * columns >= 3 * width and rows > 1 and rows * inner * columns >= LEAST


@cache
def _enabled() -> bool:
    """Return whether products are computed here and not by OpenBLAS, which ``BURNPY_PRODUCTS=blas`` selects."""
    return os.environ.get("BURNPY_PRODUCTS") != "blas"


class Product(NamedTuple):
    """The description of products of matrices A and B for the kernel."""

    kernel: TemplateKernel
    shape: Shape  #: of the result
    places: tuple[Any, Any, Any]  #: the first elements of A, B and C of each member of a batch
    sizes: tuple[int, ...]
    parts: int
    each: float  #: the number of elements of a part, for `burnpy_numpy.cpu_threads.shared`
    scratch: int  #: the bytes of memory for copies that a thread needs
    keeps: bool  #: whether the panels of B may be kept
    words: Words | None  #: of B, if words are multiplied
    result: Any  #: the dtype of the result

    @property
    def is_one_sum(self) -> bool:
        """True if each element is the sum of a single chunk."""
        return self.sizes[2] <= self.sizes[6]

    def call(
        self, a: Any, b: Any, c: Any, bias: Any, memory: Any, following: Following | None = None, arrays: Any = 0
    ) -> tuple[tuple[Any, ...], tuple[int, ...]]:
        """Return the table and the sizes with which the kernel computes the products, in parts.

        Args:
            a: A.
            b: B.
            c: C-contiguous memory for the products.
            bias: a row that is added to each, or None.
            memory: memory for copies, of at least `scratch` bytes.
            following: a program that is computed of rows of C as soon as they are complete.
            arrays: the addresses of the program's arrays, as objects: C among them.
        """
        start, spread = (_ZEROS, 0) if bias is None else (bias, 1)
        return (a, b, c, start, memory, *self.places, arrays), (*self.sizes, spread, *(following or (0, 0)))

    def run(
        self,
        a: Any,
        b: Any,
        c: Any,
        bias: Any = None,
        following: Following | None = None,
        arrays: Any = 0,
        adds: bool = False,
    ) -> None:
        """Write the products into memory, or add them to it, on several threads if there is much to do; see `call`."""
        if self.keeps:
            self, b = with_kept_panels(self, b)  # the same product of other memory
        start, spread = (_ZEROS, -1 if adds else 0) if bias is None else (bias, 1)
        kernel, after = self.kernel, following or _ALONE
        if self.parts > 1:
            memory = workspace(threads.COUNT)
            table, sizes = (a, b, c, start, memory, *self.places, arrays), (*self.sizes, spread, *after)
            share(kernel.function, table, sizes, self.parts, self.each, 4, memory.strides[0])
        else:  # without a tuple more
            kernel.function(0, 1, 9, a, b, c, start, workspace(), *self.places, arrays, *self.sizes, spread, *after)
        if executed:
            kernel.note()

    def run_with_sum(self, a: Any, b: Any, c: Any, total: Any) -> None:
        """Write the product of two matrices into memory, and the sum of B's rows into ``total``."""
        self.run(a, b, c, following=_SUMMED, arrays=total)


class Following(NamedTuple):
    """A program's kernel that follows a product."""

    code: int  #: its address
    length: int  #: the rows of all products; 0 if the program is elementwise


_ALONE, _SUMMED = Following(0, 0), Following(0, 1)
"""No program; and the sum of B's rows instead of one."""


def following(kernel: Kernel, rows: int) -> Following | None:
    """Return a program's kernel as one that follows products of this many rows; None if it needs memory of its own."""
    layout = kernel.layout
    if layout.sums or layout.scratch:
        return None
    return Following(code_of(kernel.function), 0 if layout.flat else rows)


_ZEROS = np.zeros(64)
_ZEROS.flags.writeable = False

_own = local()


def workspace(team: int = 1) -> Any:
    """Return this thread's memory for copies, which has a row of `workspace_size` bytes for each thread of a team."""
    try:
        memory = _own.memory
        if len(memory) >= team:
            return memory
    except AttributeError:
        pass
    size = workspace_size()
    whole = np.empty(team * size + 64, np.uint8)
    _own.memory = whole[-whole.ctypes.data % 64 :][: team * size].reshape((team, size))
    return _own.memory


def workspace_size() -> int:
    """Return the bytes of memory for copies that one thread needs, which fill whole lines of the cache."""
    size = max(copied_bytes(True, by) for by in ("amx", "numbers")) + max(_block_bytes(), VECTORS * TILE * MOST_BYTES)
    return -(-size // 64) * 64


@cache
def _block_bytes() -> int:
    """Return the memory of a block of B: seven eighths of the processor's second cache."""
    most, usual = _SECOND_CACHE
    try:
        text = Path("/sys/devices/system/cpu/cpu0/cache/index2/size").read_text().strip()
        size = int(text[:-1]) << {"K": 10, "M": 20}[text[-1]]
    except (OSError, ValueError, KeyError, IndexError):
        size = usual
    return min(size, most) // 8 * 7


def product_of(
    a: Any, b: Any, biased: bool = False, rows: bool = False, result: Any = None, sums: bool = False
) -> Product | Literal["copy"] | None:
    """Return the description of the product of arrays of one dtype, of floats of 16 bits, or of ints of 8 bits, whose
    product is of int32; None if none is computed. With ``rows``, the parts are whole rows. See `_planned` for the
    others.

    It is "copy", to multiply C-contiguous copies, where no lines of an array lie together, or where they must be rows.
    """
    (m, k), n = a.shape[-2:], b.shape[-1]
    if 0 in (*a.shape, *b.shape) or k != b.shape[-2]:
        return None
    if a.itemsize < 4:
        dtype = float32 if a.itemsize == 2 else int32
        served = target().fuses and m * k * n >= _WORTH_WIDENING
    else:
        dtype, served = a.dtype, serves(m, k, n, a.itemsize, biased)
    if sums:
        served = serves(m, k, n, dtype.itemsize, False, True)
    if not served:
        return None
    a_steps, b_steps = ([stride / x.itemsize for stride in x.strides] for x in (a, b))
    a_line, b_line = _line(a.shape, a_steps), _line(b.shape, b_steps)
    if a_line is None or b_line is None or not all(map(float.is_integer, (*a_steps, *b_steps))):
        return "copy"
    if a_line[1] and multiplied_by((a.dtype.name, b.dtype.name)) == "pairs":
        return "copy"
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    places = _places(batch, a.shape, a_steps), _places(batch, b.shape, b_steps), np.arange(math.prod(batch)) * (m * n)
    stored = a.dtype.name, b.dtype.name
    return _planned(dtype, (*batch, m, n), k, a_line, b_line, places, rows, stored, 0, result, sums)


def quantized_product_of(x: Any, weight: Any, scale: Any) -> Product | None:
    """Return the description of `Backend.quantized_matmul` for C-contiguous matrices; None if the kernel does not
    compute it."""
    rows, (columns, k), groups = len(x), weight.shape, scale.shape[1]
    if 0 in (*x.shape, *scale.shape) or not target().fuses:
        return None
    place = np.zeros(1, np.int64)
    lines, stored = ((x.shape[1], False), (k, True)), (x.dtype.name, weight.dtype.name)
    return _planned(x.dtype, (rows, columns), k, *lines, (place, place, place), stored=stored, groups=groups)


def contiguous_product(
    dtype: Any, sizes: tuple[int, int, int], transposed: tuple[bool, bool], biased: bool = False, rows: bool = False
) -> Product | None:
    """Return the description of the product of two C-contiguous matrices, either of them stored transposed.

    Args:
        dtype: float32 or float64.
        sizes: rows, inner dimension and columns.
        transposed: whether A and B are stored transposed.
        biased: whether a row is added.
        rows: whether the parts are whole rows.
    """
    m, k, n = sizes
    if not serves(m, k, n, dtype.itemsize, biased):
        return None
    left, right = transposed
    place = np.zeros(1, np.int64)
    return _planned(dtype, (m, n), k, (m if left else k, left), (k if right else n, right), (place, place, place), rows)


def _line(shape: Shape, steps: Sequence[float]) -> tuple[int, bool] | None:
    """Return the distance of lines that lie together, and whether they are columns; None if no lines do."""
    (rows, columns), (row, column) = shape[-2:], steps[-2:]
    if column == 1 or columns == 1:
        return int(row), False
    return (int(column), True) if row == 1 or rows == 1 else None


def _places(batch: Shape, shape: Shape, steps: Sequence[float]) -> Any:
    """Return the place of the first element of each matrix of a batch to which an array is broadcast."""
    places = np.zeros(batch, np.int64)
    own = zip(shape[-3::-1], steps[-3::-1], strict=True) if len(shape) > 2 else ()
    for dim, (length, step) in enumerate(own):
        if length > 1:
            places += (np.arange(length) * int(step)).reshape((-1,) + (1,) * dim)
    return np.ascontiguousarray(places.reshape(-1))


def _planned(
    dtype: Any,
    shape: Shape,
    k: int,
    a_line: tuple[int, bool],
    b_line: tuple[int, bool],
    places: tuple[Any, Any, Any],
    rows: bool = False,
    stored: tuple[str, str] | None = None,
    groups: int = 0,
    result: Any = None,
    sums: bool = False,
) -> Product | None:
    """Return the description of products whose lines have these distances; see `_line`.

    Args:
        dtype: float32 or float64.
        shape: the shape of the products.
        k: the units of a column of B.
        a_line: the lines of A.
        b_line: the lines of B.
        places: the first elements of A, B and C of each member of a batch.
        rows: whether the parts are whole rows.
        stored: the names of the dtypes of A and B, if they are others.
        groups: the groups of a column of B, if it consists of ints.
        result: the dtype of the products; ``dtype`` replaces any but bfloat16 of sums of a single chunk of words.
        sums: whether B's rows are added up. It is not a weight then, whose panels would be kept.
    """
    (m, n), count, stored = shape[-2:], len(places[2]), stored or (dtype.name, dtype.name)
    sizes, widens, how = (m, n, k), stored[1] != dtype.name, _arithmetic_of(dtype, stored, k, groups)
    result = dtype if result is None or how.words is None or dtype is int32 or how.chunk < k else result
    width, registers = target().vector // dtype.itemsize, target().registers
    kernel = template_kernel(product, dtype, width, registers, how.by, a_line[1], *stored, result)
    if kernel is None:
        return None
    reads, block = _blocks_of(how, sizes, b_line, widens)
    products = how.multiplications(m, n, k)
    work = products / MULTIPLICATIONS_PER_ELEMENT
    team = -(-min(threads.COUNT, int(count * work) // threads.LEAST) // count)
    ahead = _WAKING / products if team == 2 and count == 1 else 0.0
    rows = rows or k < m >= 2 * team * how.height  # as kernels of elements divide C, so that it is in threads' caches
    high, wide = _part(m, n, team, how.height, how.lanes, rows, ahead)
    parts = count, -(-m // high), -(-n // wide)
    b_steps = (1, b_line[0]) if b_line[1] else (b_line[0], 1)
    grouping = (k // groups, groups, how.span) if groups else ()
    numbers = (*sizes, a_line[0], *b_steps, how.chunk, block, high, wide, *parts[1:], reads, *grouping)
    scratch = copied_bytes(a_line[1], how.by) + block * how.column
    large = k * n >= _WORTH_KEEPING if how.words is not None else not widens and k * n * how.size >= _FAR
    keeps = large and (m <= _FEW_ROWS or dtype is int32) and not sums and len(shape) == 2
    pieces = math.prod(parts)
    return Product(kernel, shape, places, numbers, pieces, count * work / pieces, scratch, keeps, how.words, result)


class _Arithmetic(NamedTuple):
    """How numbers of some dtypes are multiplied, and the chunks in which the products are added up."""

    by: str  #: the instructions; see `multiplied_by`
    words: Words | None  #: of B, if words are multiplied
    size: int  #: the bytes of a unit of B
    parts: int  #: the numbers in a unit of B
    chunk: int  #: the units of a chunk of a sum
    span: int  #: the units that are divided into chunks together
    lanes: int  #: the columns of a panel of B
    height: int  #: the most rows of a stripe of A
    column: int  #: the bytes of a column of a panel

    def multiplications(self, m: int, n: int, k: int) -> float:
        """Return the multiplications of a product, by the time that they take."""
        rate = 1 if self.words is None else _AMX_RATE if self.by == "amx" else self.words.each
        return m * n * k * self.parts / rate


def _arithmetic_of(dtype: Any, stored: tuple[str, str], k: int, groups: int) -> _Arithmetic:
    """Return how numbers are multiplied, for sums of ``k`` units; see `_planned`."""
    by, size = multiplied_by(stored), dtype.itemsize
    words, parts = words_of(by, stored[1]), STORED[stored[1]].parts if groups else 1
    chunk, span = _chunk_of_groups(k // groups, k, parts) if groups else (chunk_of(k, size), k)
    if words is not None:
        size = words.bits // 8
        most = MOST_BYTES if by == "amx" else CHUNK_BYTES
        chunk = words.lines(-(-k // -(-k * size // most))) * words.each
    lanes, height = VECTORS * (target().vector // dtype.itemsize), stripe_heights(target().registers, by)[0]
    column = chunk * parts * size + (dtype.itemsize if by == "dots" else 0)
    return _Arithmetic(by, words, size, parts, chunk, span, lanes, height, column)


def _blocks_of(how: _Arithmetic, sizes: Shape, b_line: tuple[int, bool], widens: bool) -> tuple[int, int]:
    """Return how the kernel reads B, and the columns of B that it reads at a time: blocks of about one size."""
    m, n, k = sizes
    copies = m >= (_SOME_ROWS if b_line[0] * how.size >= _APART else _MANY_ROWS) and k * n * how.size > _IN_FIRST_CACHE
    if widens:
        copies = m > how.height or how.words is not None
    reads = COLUMNS if b_line[1] else ROWS if copies else IN_PLACE
    most = max(1, _block_bytes() // (how.column * how.lanes)) * how.lanes
    block = -(-n // (-(-n // most) * how.lanes)) * how.lanes
    if m <= how.height and widens and reads != IN_PLACE:  # each panel is used once
        block = how.lanes if reads == COLUMNS else min(block, _FEW_PANELS * how.lanes)
    return reads, block


def multiplied_by(stored: tuple[str, str]) -> str:
    """Return the instructions that multiply operands of these dtypes; see `words_of`."""
    ints = {"int8", "uint8"}.issuperset(stored)
    if not ints and stored != ("bfloat16", "bfloat16"):
        return "numbers"
    if has_amx():
        return "amx"
    return "dots" if has_dot_products(stored[0]) else "pairs" if ints else "numbers"


def _chunk_of_groups(group: int, k: int, parts: int) -> tuple[int, int]:
    """Return the units of a chunk of a sum, each of one or two ints, and the units that are divided together. A chunk
    is several groups, or a part of one. It depends on these alone, as `chunk_of`."""
    most = _INTS // parts
    if group <= most:
        return most // group * group, k
    count = -(-group // most)
    return -(-group // (count * _SQUARE)) * _SQUARE, group


def chunk_of(k: int, size: int) -> int:
    """Return the length of the chunks of a sum of ``k`` products: for equal bits, by ``k`` and the size alone."""
    count = -(-k * size // CHUNK_BYTES)
    return -(-k // max(count, 1))


def _part(m: int, n: int, team: int, height: int, lanes: int, rows: bool, ahead: float) -> tuple[int, int]:
    """Return the rows and columns of the part that each of a team of threads computes; all columns if ``rows``. The
    first of two parts is larger, as it begins before another thread wakes up: ``ahead`` is the share of the whole
    product that is computed until then."""
    if team <= 1:
        return m, n
    choices, larger = [], min(1 + ahead, _MOST_AHEAD)

    def length(size: int, unit: int, count: int) -> int:
        units = -(-size // unit)
        each = round(units * larger / 2) if count == 2 else -(-units // count)
        return max(min(each, units - count + 1), 1) * unit  # there is something left for the others

    for down in range(team if rows else 1, team + 1):
        high, wide = length(m, height, down), length(n, lanes, team // down)
        copied = lanes // 4 if down == team else 7 * lanes // 4  # and lines of C that are fetched beyond a part
        few = -(-m // high) * -(-n // wide) < team // down * down
        choices.append((few, (high + height) * (wide + copied), high, wide))
    return min(choices)[2:]
