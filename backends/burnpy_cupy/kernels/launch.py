"""Launches of kernels: the threads for the elements of an array, and packed arguments.

`Geometry` tells which elements are the rows and the columns of a program, and how many `Threads` compute them; a
`Batch`, how many elements each reads at a time.

`Lattice` has the elements of arrays of any strides; `transposing` copies transposed `Matrices`.

`launcher` packs arguments itself, which takes a third of the time of a `cupy.RawKernel`. A launch is given the
arguments that change, addresses and numbers, and other arguments follow that stay. Each has 8 bytes, but for the last
one, which may be a struct. So the driver finds them in one block of the host's memory, each after the next 8 bytes, and
the pointers to them are made once.
"""

from __future__ import annotations

import ctypes
import math
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias

from burnpy.backend.dtypes import DTYPES
from burnpy.backend.primitives import Dims, Shape
from burnpy.backend.programs import Extent, Program

WARP = 32
_LONG_ROW = 1 << 16
"""The length of a row up to which one block computes it about as fast as several functions of CuPy by all blocks."""
_SHORT_ROW, _MANY_SHORT_ROWS = 64, 1 << 17
"""The length of rows up to which a thread has a row of its own, where rows are neighbours and so many."""
_MANY_ROWS = 64
"""The least number of longer rows for which as many blocks are enough."""


class Geometry(NamedTuple):
    """Rows and columns in the memory of an array. The element at a row and a column is at ``(row / inner[0]) · steps[0]
    + row % inner[0] · steps[1] + (column / inner[1]) · steps[2] + column % inner[1] · steps[3]``."""

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
        return self.columns <= _LONG_ROW or self.rows >= _MANY_ROWS

    def threads(self, elementwise: bool) -> Threads:
        """Return the threads for a row: a warp, a block, or one lane of many warps where rows are neighbours in memory.

        All blocks compute the one row of an elementwise program.

        It depends on the shape alone, so that sums have the same bits on every GPU.
        """
        if self.rows == 1 and elementwise:
            return Threads("grid", 256, 1)
        if self.steps[1] == 1 and self.steps[3] != 1 and self.rows > 1:
            if self.columns <= _SHORT_ROW and self.rows >= _MANY_SHORT_ROWS:
                return Threads("lanes", 256, 1)
            return Threads("lanes", WARP, 8 if self.columns <= 256 else 16)
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

    @property
    def lanes(self) -> int:
        """The number of threads of a row, where there are several rows."""
        return self.y if self.kind == "lanes" else self.x

    def blocks(self, geometry: Geometry, each: int = 4) -> int:
        """Return the number of blocks; a thread of a grid computes this many elements."""
        if self.kind == "grid":
            return -(-geometry.columns // (each * self.x))
        rows = {"warp": self.y, "block": 1, "lanes": self.x}[self.kind]
        return -(-geometry.rows // rows)


class Batch(NamedTuple):
    """How many elements of a row a thread reads before it uses them."""

    size: int = 4
    whole: bool = False  #: whether they are all that a thread has of a row, and are kept in registers for all passes
    ahead: bool = False  #: whether the next row's are read before a row is computed


FEW = Batch()
_BATCH = 16
"""The most registers of a batch, and `_MOST_OF_BATCH` of its elements."""
_MOST_OF_BATCH = 8
_MAX_REGISTERS = {256: 64, 1024: 32}
"""The most registers of a whole batch, by the number of threads of a block. There are 64 for each of 1024."""


def batch_of(program: Program, columns: int, lanes: int, block: int) -> Batch:
    """Return the batches of a program.

    Args:
        program: the program.
        columns: the length of a row.
        lanes: the number of threads of a row.
        block: the number of threads of a block.
    """
    if program.elementwise:
        return FEW if any(DTYPES[dtype].bits > 16 for _, dtype in program.inputs) else Batch(8)
    words, live = {True: 0, False: 0}, set(program.outputs)
    for k in reversed(range(len(program.instructions))):
        op, args, extent, dtype, _ = program.instructions[k]
        if k in live:
            live.update(args)
            if op == "input" and extent.over_columns:  # intermediate values are as wide
                words[extent is Extent.FULL] += 3 if DTYPES[dtype].bits > 32 else 1
    part, full = max(1, -(-columns // lanes)), max(1, words[True])
    unit = 1 << max(0, (part - 1).bit_length() - 2)  # so that few kernels serve all lengths
    part = -(-part // unit) * unit
    if part * full <= _MAX_REGISTERS[256 if block <= 256 else 1024]:
        return Batch(part, whole=True, ahead=part * full <= _BATCH and lanes >= WARP and block <= 256)
    most = max(2, _BATCH // max(1, sum(words.values())))
    return Batch(min(_MOST_OF_BATCH, 1 << (most.bit_length() - 1)))


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
    None if rows, or columns, are more than two groups of dimensions that can each be joined to one."""
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


@lru_cache(1024)
def order_of(strides: Shape, itemsize: int) -> tuple[Shape, Shape] | None:
    """Return the dimensions in the order of memory, and the permutation that undoes it. None if they are in order, or
    if elements share memory."""
    last = len(strides) - 1
    order = sorted(range(len(strides)), key=lambda d: (d == last and strides[d] == itemsize, -abs(strides[d])))
    if order == [*range(len(strides))] or 0 in strides:
        return None
    return tuple(order), tuple([order.index(d) for d in range(len(strides))])


class Lattice(NamedTuple):
    """The elements that are computed, by their numbers in each dimension, the last one the fastest."""

    sizes: Shape
    steps: dict[str, Shape]  #: the steps in elements of each array, by its name

    @classmethod
    def of(
        cls,
        operands: Mapping[str, Any],
        missing: Sequence[str],
        shape: Shape,
        order: tuple[Shape, Shape] | None,
        *,
        merges: bool,
    ) -> Lattice:
        """Return the lattice of a shape, its dimensions in an order, and neighbours that lie as one merged."""
        dims = range(len(shape)) if order is None else order[0]
        sizes = [shape[d] for d in dims]
        whole = tuple([math.prod(sizes[k + 1 :]) for k in range(len(sizes))])
        steps = {}
        for name, x in operands.items():
            spread = [0 if n == 1 else step // x.itemsize for n, step in zip(x.shape, x.strides, strict=True)]
            spread = [0] * (len(shape) - x.ndim) + spread
            steps[name] = tuple([spread[d] for d in dims])
        steps |= dict.fromkeys(missing, whole)
        return cls(tuple(sizes), steps).merged() if merges else cls(tuple(sizes), steps)

    def merged(self) -> Lattice:
        """Return the lattice with neighbouring dimensions as one where they lie as one in all arrays."""
        groups = list[list[int]]()  # the size of each, and the steps of the arrays
        for size, *steps in zip(self.sizes, *self.steps.values(), strict=True):
            if size == 1:
                continue
            if groups and all(a == b * size for a, b in zip(groups[-1][1:], steps, strict=True)):
                groups[-1] = [groups[-1][0] * size, *steps]
            else:
                groups.append([size, *steps])
        columns = [*zip(*groups, strict=True)] or [()] * (1 + len(self.steps))
        return Lattice(columns[0], dict(zip(self.steps, columns[1:], strict=True)))

    def is_whole(self, name: str) -> bool:
        """Return whether an array's element ``i`` is the one at ``i`` in memory."""
        step = 1
        for size, found in zip(reversed(self.sizes), reversed(self.steps[name]), strict=True):
            if size != 1 and found != step:
                return False
            step *= size
        return True

    def numbers(self) -> list[int]:
        """Return the sizes, each with the factor and the shift by which it divides, and the steps of the arrays."""
        shifts = [(size - 1).bit_length() for size in self.sizes]
        factors = [
            (1 << 32) * ((1 << shift) - size) // size + 1 for size, shift in zip(self.sizes, shifts, strict=True)
        ]
        return [*self.sizes, *factors, *shifts, *[step for steps in self.steps.values() for step in steps]]


_TILE = 32
_WORDS = {1: "char", 2: "short", 4: "int", 8: "long long"}
"""CUDA's ints by their bytes."""
_TRANSPOSE = f"""
extern "C" __global__ __launch_bounds__({_TILE * 8}) void burnpy_transpose(
    const T* x, T* y, long long rows, long long columns, long long column_step, long long step) {{
  __shared__ T tile[{_TILE}][{_TILE} + 1];
  const int across = (columns + {_TILE - 1}) / {_TILE};
  const long long top = (long long)(blockIdx.x / across) * {_TILE}, left = (long long)(blockIdx.x % across) * {_TILE};
  x += blockIdx.y * step, y += blockIdx.y * rows * columns;
  #pragma unroll
  for (int k = threadIdx.y; k < {_TILE}; k += 8) {{
    const long long row = top + threadIdx.x, column = left + k;
    if (row < rows && column < columns) tile[k][threadIdx.x] = x[column * column_step + row];
  }}
  __syncthreads();
  #pragma unroll
  for (int k = threadIdx.y; k < {_TILE}; k += 8) {{
    const long long row = top + k, column = left + threadIdx.x;
    if (row < rows && column < columns) y[row * columns + column] = tile[threadIdx.x][k];
  }}
}}
"""
"""A tile of each matrix goes through shared memory, so that both arrays are read and written by rows of memory."""


class Matrices(NamedTuple):
    """Matrices that lie in memory as their transposes."""

    itemsize: int
    batch: int  #: their number
    rows: int
    columns: int
    column_step: int  #: from one column to the next
    step: int  #: from one matrix to the next

    @classmethod
    @lru_cache(1024)
    def of(cls, shape: Shape, strides: Shape, itemsize: int) -> Matrices | None:
        """Return an array as transposed matrices; None if it lies otherwise, or has few rows or columns."""
        if 0 in shape or itemsize not in _WORDS:
            return None
        sizes, steps = Lattice(shape, {"x": tuple([stride // itemsize for stride in strides])}).merged()
        if len(sizes) not in (2, 3) or min(sizes[-2:]) < _TILE // 2 or steps["x"][-2] != 1:
            return None
        batch, step = (sizes[0], steps["x"][0]) if len(sizes) == 3 else (1, 0)
        rows, columns = sizes[-2:]
        return cls(itemsize, batch, rows, columns, steps["x"][-1], step) if batch < 1 << 16 else None


Launch: TypeAlias = Callable[..., None]
"""Launches a kernel on the current stream, given the arguments that change."""

_WORD = 8
_ARGUMENT_BYTES = 4608
"""The bytes of a block: CUDA takes 4 KB of arguments."""
_ARGUMENTS = 64
"""The most arguments of a kernel."""


def launcher(
    xp: Any,
    kernel: Any,
    grid: Sequence[int],
    block: Sequence[int],
    given: str,
    rest: bytes = b"",
    shared: int = 0,
    cooperative: bool = False,
) -> Launch:
    """Return the launch of a kernel on the GPU that is current.

    Args:
        xp: the module cupy.
        kernel: a `cupy.RawKernel`, which is compiled by the first launch.
        grid: the number of blocks of threads, in two dimensions.
        block: the number of threads of each.
        given: the format of the arguments that change, as in the module ``struct``.
        rest: the bytes of those that stay.
        shared: the bytes of shared memory of a block.
        cooperative: whether all blocks run at the same time, so that they may wait for each other.
    """
    arguments = struct.Struct(f"={given}{len(rest)}s")
    assert arguments.size <= _ARGUMENT_BYTES, "CUDA takes 4 KB of arguments"
    pack, threads = arguments.pack_into, _threads
    launch_kernel = driver().launchCooperativeKernel if cooperative else driver().launchKernel
    stream, options = xp.cuda.get_current_stream, () if cooperative else (0,)
    (width, height), (x, y), device, function = grid, block, xp.cuda.runtime.getDevice(), 0

    def launch(*changing: Any) -> None:
        nonlocal function
        free = (threads.by_gpu.get(device) or launching_thread(xp, device)).free
        if not function:
            function = kernel.kernel.ptr
        held = free.pop() if free else _block()  # so a launch within this one, of a signal's handler, has another
        words, pointers = held
        pack(words, 0, *changing, rest)
        launch_kernel(function, width, height, 1, x, y, 1, shared, stream().ptr, pointers, *options)
        free.append(held)

    return launch


@lru_cache(1024)
def transposing(xp: Any, gpu: int, matrices: Matrices) -> Launch:
    """Return the launch that copies transposed matrices, given both addresses, on a GPU, which is current."""
    itemsize, batch, *numbers = matrices
    tiles = -(-matrices.rows // _TILE) * -(-matrices.columns // _TILE)
    return launcher(xp, _transpose(xp, itemsize), (tiles, batch), (_TILE, 8), "2Q", struct.pack("=4q", *numbers))


@cache
def _transpose(xp: Any, itemsize: int) -> Any:
    """Return the kernel that copies transposed matrices, for elements of this many bytes."""
    return xp.RawKernel(f"typedef unsigned {_WORDS[itemsize]} T;\n{_TRANSPOSE}", "burnpy_transpose")


class LaunchingThread:
    """A thread that launches on a GPU. Compared by identity, it is never one that has ended: the system gives the
    number of `threading.get_ident` to the next thread."""

    __slots__ = ("free",)

    def __init__(self) -> None:
        self.free: list[tuple[Any, int]] = []  #: the blocks that no launch is using


class _Threads(threading.local):
    def __init__(self) -> None:
        self.by_gpu: dict[int, LaunchingThread] = {}


_threads = _Threads()


def launching_thread(xp: Any, gpu: int) -> LaunchingThread:
    """Return the calling thread's `LaunchingThread` of a GPU, which is current."""
    found = _threads.by_gpu.get(gpu)
    if found is None:
        xp.cuda.runtime.memGetInfo()  # makes the GPU's context the thread's, as the driver expects
        found = _threads.by_gpu[gpu] = LaunchingThread()
    return found


def _block() -> tuple[Any, int]:
    """Allocate a block; return it with the address of the pointers, which are at its end."""
    words = (ctypes.c_char * (_ARGUMENT_BYTES + _WORD * _ARGUMENTS))()
    first = ctypes.addressof(words)
    struct.pack_into(f"={_ARGUMENTS}Q", words, _ARGUMENT_BYTES, *range(first, first + _WORD * _ARGUMENTS, _WORD))
    return words, first + _ARGUMENT_BYTES


@cache
def driver() -> Any:
    """Return CuPy's binding of the driver, which takes addresses as ints."""
    return import_module("cupy_backends.cuda.api.driver")
