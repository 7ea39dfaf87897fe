"""Attention in one launch and its gradient in two, with memory that grows with the sequence and not with its square.

Operands are read where they lie: heads of a packed projection, broadcast heads of keys and transposed views are not
copied, and the results lie in memory in the order of their operands. Tensor cores multiply 16-bit operands, and float32
within `CuPy.tf32`; weights are rounded in the same way for the second product. Sums and the softmax are of float32.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from burnpy.backend.dtypes import float32
from burnpy.backend.primitives import DType, Shape
from burnpy_cupy.kernels.attention_kernels import ARRAYS, SIZES
from burnpy_cupy.kernels.elementwise import in_order_of
from burnpy_cupy.kernels.launch import Launch, launcher
from burnpy_cupy.kernels.matmul import CuPyMatmul

_THREADS = 128
_LARGEST_ROW = 1024
"""The bytes of a row of shared memory, from which on attention is computed from all scores of a few heads."""
_STEP = 32
"""The numbers in a row are a multiple of this: zeros fill it."""


class Tiling(NamedTuple):
    """The constants of a kernel, which tell how its tiles lie: see `attention_tiles`."""

    TENSOR_CORES: int  #: the number of products that one of their instructions adds; 0 for ordinary cores
    ROWS: int  #: rows of a thread
    COLUMNS: int  #: of a tile
    SIZE: int  #: the size of keys in shared memory
    VALUES: int  #: the size of values
    SLICES: int  #: the blocks among which the gradients by keys and by values are divided
    STAGES: int  #: the tiles of columns in shared memory: with two, one is copied while the other is computed
    SHARED: int  #: the bytes of shared memory of a block

    @property
    def rows(self) -> int:
        """The number of rows of a tile."""
        return (32 if self.TENSOR_CORES else 16) * self.ROWS


@lru_cache(maxsize=256)
def tiling(size: int, values: int, itemsize: int, has_cores: bool, forward: bool) -> Tiling | None:
    """Return how the tiles of a kernel lie; None if they have no place in shared memory.

    Args:
        size: the size of queries and keys.
        values: the size of values.
        itemsize: the bytes of the numbers that are multiplied.
        has_cores: whether tensor cores multiply.
        forward: False for the kernels of the gradient.
    """
    widths = [-(-max(n, 1) // _STEP) * _STEP for n in (size, values)]
    row = max(widths) * itemsize
    if row > (_LARGEST_ROW // 2 if has_cores else _LARGEST_ROW):
        return None
    wide, slices, stages = row > 256, 1, 1
    if has_cores:  # a thread has two rows
        rows, columns = 2, (32 if wide else 64) if forward else 16 if wide else 32
        slices = 2 if wide and not forward else 1
        stages = 2 if itemsize == 2 and not forward and row <= 128 else 1
    elif forward:
        rows, columns = 1 if row > 512 else 2 if wide else 4, 32
    else:
        rows, columns = 1 if wide else 2, 16 if row > 512 else 32
    tiles = Tiling(32 // itemsize if has_cores else 0, rows, columns, widths[0], widths[1], slices, stages, 0)
    by_key, by_value = (width * itemsize + 16 for width in widths)
    columns *= stages
    shared = (tiles.rows + columns) * by_key + (columns if forward else tiles.rows + columns) * by_value
    weights = 0 if has_cores else tiles.rows * (tiles.COLUMNS + 4) * itemsize
    return tiles._replace(SHARED=shared + weights)


class CuPyAttention(CuPyMatmul):
    """Attention in tiles; `burnpy_array` computes it with larger rows than fit into a tile."""

    def attention(self, q: Any, k: Any, v: Any, mask: Any, offset: int | None, scale: float) -> tuple[Any, Any]:
        return self._attention_as(q, k, v, mask, offset, scale, q.dtype)

    def _attention_as(
        self, q: Any, k: Any, v: Any, mask: Any, offset: int | None, scale: float, dtype: DType
    ) -> tuple[Any, Any]:
        wide, tiles = _sums(q.dtype), self._tiling(q, v, True)
        if tiles is None:
            q, k, v = (self.cast(x, wide) for x in (q, k, v))
            out, total = super().attention(q, k, v, mask, offset, scale)
            return self.cast(out, dtype), self.cast(total, dtype)
        out, total = self._call(_forward, self, tiles, q, k, v, mask, offset, scale, dtype)
        return out, total

    def attention_backward(
        self,
        grad: Any,
        q: Any,
        k: Any,
        v: Any,
        out: Any,
        logsumexp: Any,
        mask: Any,
        offset: int | None,
        scale: float,
    ) -> tuple[Any, Any, Any]:
        return self._attention_backward_as(grad, q, k, v, out, logsumexp, mask, offset, scale, q.dtype)

    def _attention_backward_as(
        self,
        grad: Any,
        q: Any,
        k: Any,
        v: Any,
        out: Any,
        logsumexp: Any,
        mask: Any,
        offset: int | None,
        scale: float,
        dtype: DType,
    ) -> tuple[Any, Any, Any]:
        wide, tiles = _sums(q.dtype), self._tiling(q, v, False)
        if tiles is None:
            grad, q, k, v, out, logsumexp = (self.cast(x, wide) for x in (grad, q, k, v, out, logsumexp))
            parts = super().attention_backward(grad, q, k, v, out, logsumexp, mask, offset, scale)
            return self.cast(parts[0], dtype), self.cast(parts[1], dtype), self.cast(parts[2], dtype)
        given = [q, k, v, out, grad]
        by_q, by_k, by_v = self._call(_backward, self, tiles, given, logsumexp, mask, offset, scale, dtype)
        return by_q, by_k, by_v

    def _tiling(self, q: Any, v: Any, forward: bool) -> Tiling | None:
        """Return how tiles lie on this GPU, or None if they have no place in its shared memory."""
        itemsize, sizes, shared = q.dtype.itemsize, (q.shape[-1], v.shape[-1]), self._limits[1]
        if self.multiplies_in_tensor_cores(q.dtype):
            tiles = tiling(*sizes, itemsize, True, forward)
            if tiles is not None and shared >= tiles.SHARED:
                return tiles
        tiles = tiling(*sizes, max(itemsize, 4), False, forward)
        return tiles if tiles is not None and shared >= tiles.SHARED else None


def _sums(dtype: DType) -> DType:
    """Return the dtype in which products of a dtype are added up."""
    return float32 if dtype.itemsize == 2 else dtype


def _forward(
    b: CuPyAttention, tiles: Tiling, q: Any, k: Any, v: Any, mask: Any, offset: int | None, scale: float, dtype: DType
) -> tuple[Any, Any]:
    xp = b.xp
    if not (k.shape[-2] and math.prod(q.shape[:-1])):
        return xp.zeros((*q.shape[:-1], v.shape[-1]), dtype), xp.zeros(q.shape[:-1], dtype)
    inputs, mask = [_with_rows(xp, x) for x in (q, k, v)], _broadcast(xp, mask, q, k)
    out = in_order_of(xp, inputs[0], (*q.shape[:-1], v.shape[-1]), dtype)
    launches = _launches(b, tiles, offset, _layouts([*inputs, out], mask), dtype)
    if launches is None:
        q, k, v = map(xp.ascontiguousarray, inputs)
        return _forward(b, tiles, q, k, v, _contiguous(xp, mask), offset, scale, dtype)
    total = xp.ndarray(q.shape[:-1], dtype)
    launches[0](*_addresses([*inputs, mask, out, total]), scale)
    return out, total


def _backward(
    b: CuPyAttention,
    tiles: Tiling,
    given: Sequence[Any],
    logsumexp: Any,
    mask: Any,
    offset: int | None,
    scale: float,
    dtype: DType,
) -> tuple[Any, ...]:
    q, k, v, *_ = given
    xp, count = b.xp, math.prod(q.shape[:-1])
    if not (k.shape[-2] and count):
        return tuple([xp.zeros(x.shape, dtype) for x in (q, k, v)])
    inputs, mask = [_with_rows(xp, x) for x in given], _broadcast(xp, mask, q, k)
    outs = [in_order_of(xp, x, x.shape, dtype) for x in inputs[:3]]
    launches = _launches(b, tiles, offset, _layouts([*inputs, *outs], mask), logsumexp.dtype)
    if launches is None:
        inputs = [*map(xp.ascontiguousarray, inputs)]
        return _backward(b, tiles, inputs, logsumexp, _contiguous(xp, mask), offset, scale, dtype)
    statistics, logsumexp = xp.ndarray((3, count), _sums(q.dtype)), xp.ascontiguousarray(logsumexp)
    by_q, *others = _addresses(outs)
    rest = statistics.data.ptr, count, scale
    launches[0](*_addresses([*inputs, mask, logsumexp]), by_q, *rest)
    launches[1](*_addresses([*inputs[:3], inputs[4], mask]), *others, *rest)
    return tuple(outs)


def _with_rows(xp: Any, x: Any) -> Any:
    """Return an array whose rows are contiguous, as kernels read them and write results of its order of memory."""
    return x if x.strides[-1] == x.itemsize else xp.ascontiguousarray(x)


def _broadcast(xp: Any, mask: Any, q: Any, k: Any) -> Any:
    """Return a mask as one of all scores; None if there is none."""
    return None if mask is None else xp.broadcast_to(mask, (*q.shape[:-1], k.shape[-2]))


def _contiguous(xp: Any, mask: Any) -> Any:
    return None if mask is None else xp.ascontiguousarray(mask)


def _addresses(arrays: Sequence[Any]) -> list[int]:
    return [0 if x is None else x.data.ptr for x in arrays]


_Layout: TypeAlias = tuple[Shape, Shape, DType]
"""The shape, the strides and the dtype of an array."""


def _layouts(arrays: Sequence[Any], mask: Any) -> tuple[_Layout, ...]:
    return tuple([(x.shape, x.strides, x.dtype) for x in (arrays if mask is None else [*arrays, mask])])


@lru_cache(1024)
def _launches(
    b: CuPyAttention, tiles: Tiling, offset: int | None, layouts: Sequence[_Layout], logs: DType
) -> tuple[Launch, ...] | None:
    """Return the launch of attention, or the two of its gradient; None if a kernel cannot address an array.

    A kernel has a block for each tile of the queries or keys, and for each slice of the sums of a key's numbers. The
    layouts are of q, k, v, the result, for the gradient also of that by the result and those by q, k and v; and of the
    mask. ``logs`` is the dtype of the logsumexps.
    """
    count = 4 if len(layouts) < 8 else 8
    names = (*ARRAYS[:count], *ARRAYS[8:])[: len(layouts)]
    (queries, _, dtype), keys, values = layouts[0], layouts[1][0], layouts[2][0]
    sizes = (queries[-2], keys[-2], queries[-1], values[-1])
    steps = tuple([(strides, dtype.itemsize) for _, strides, dtype in layouts])
    geometry = _geometry(queries[:-2], sizes, offset, names, steps)
    if geometry is None:
        return None

    def launch(name: str, rows: Shape, slices: int, given: str, **types: DType) -> Launch:
        kernel = b._kernels.typed(name, tiles._asdict(), tiles.SHARED, T=dtype, S=_sums(dtype), **types)
        blocks = math.prod(rows[:-2]) * -(-rows[-2] // tiles.rows)
        return launcher(b.xp, kernel, (blocks, slices), (_THREADS, 1), given, geometry, tiles.SHARED)

    out = layouts[count - 1][2]
    if count == 4:
        return (launch("burnpy_attention", queries, 1, "6Qd", O=out, L=logs),)
    by_query = launch("burnpy_attention_by_query", queries, 1, "9Qqd", O=out, L=logs)
    return by_query, launch("burnpy_attention_by_key", keys, tiles.SLICES, "8Qqd", O=out)


def _geometry(
    lead: Shape, sizes: Shape, offset: int | None, names: tuple[str, ...], layouts: tuple[tuple[Shape, int], ...]
) -> bytes | None:
    """Return the structure `Geometry` of the kernels; None if the heads take more than three dimensions."""
    strides = [[step // itemsize for step in steps] for steps, itemsize in layouts]
    heads: list[tuple[int, list[int]]] = []  # the size of a dimension, and its stride in each array
    for size, *steps in zip(lead, *[each[:-2] for each in strides], strict=True):
        if heads and all(outer == step * size for outer, step in zip(heads[-1][1], steps, strict=True)):
            heads[-1] = heads[-1][0] * size, steps
        elif size > 1:
            heads.append((size, steps))
    if len(heads) > 3:
        return None
    heads = [(1, [0] * len(names))] * (3 - len(heads)) + heads
    found = {name: [*[steps[n] for _, steps in heads], strides[n][-2]] for n, name in enumerate(names)}
    mask_key = strides[names.index("mask")][-1] if "mask" in names else 0
    rest = [heads[1][0], heads[2][0], *sizes, offset is not None, offset or 0, mask_key]
    numbers = [*[step for name in ARRAYS for step in found.get(name, (0, 0, 0, 0))], *rest]
    assert len(rest) == len(SIZES)
    return struct.pack(f"={len(numbers)}q", *numbers)
