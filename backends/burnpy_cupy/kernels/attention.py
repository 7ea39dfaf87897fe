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
from burnpy_cupy.kernels.attention_kernels import ARRAYS, PADDED, SIZES
from burnpy_cupy.kernels.elementwise_kernel import contiguous, in_order_of
from burnpy_cupy.kernels.launch import Launch, launcher
from burnpy_cupy.kernels.matmul import CuPyMatmul
from burnpy_cupy.runtime import empty

_ROW_MULTIPLE = 32
"""The numbers in a row are a multiple of this: zeros fill it."""
KERNELS = ("burnpy_attention", "burnpy_attention_grad_query", "burnpy_attention_grad_key")
"""The result, the gradient of queries, and the gradients of keys and values."""
_RESERVED = 1024
"""The bytes of shared memory that CUDA takes of each block."""


class Tiling(NamedTuple):
    """The constants of a kernel, which tell how its tiles lie: see `attention_tiles`."""

    ROWS: int  #: rows of a thread
    COLUMNS: int  #: of a tile
    STAGES: int = 1  #: the tiles of columns in shared memory: with two, one is copied while the other is computed
    BLOCKS: int = 1  #: the blocks that a multiprocessor has registers and shared memory for
    SLICES: int = 1  #: the blocks among which the gradients of keys and values are divided
    WARPS: int = 4  #: of a block
    TENSOR_CORES: int = 0  #: the number of products that one of their instructions adds; 0 for ordinary cores
    SIZE: int = 0  #: the size of keys in shared memory
    VALUES: int = 0  #: the size of values
    SHARED: int = 0  #: the bytes of shared memory of a block

    @property
    def rows(self) -> int:
        """The number of rows of a tile."""
        return (8 if self.TENSOR_CORES else 4) * self.WARPS * self.ROWS


TILINGS: dict[tuple[str, int], tuple[tuple[Tiling, ...], ...]] = {
    ("16-bit", 64): (
        (Tiling(4, 64, 2, 2), Tiling(4, 64)),
        (Tiling(4, 64, 2, 2), Tiling(4, 32)),
        (Tiling(4, 32, 2, 2), Tiling(4, 32)),
    ),
    ("16-bit", 128): (
        (Tiling(4, 64, 2, 2), Tiling(4, 64)),
        (Tiling(4, 32, 2, 2), Tiling(2, 32)),
        (Tiling(2, 64, 1, 2), Tiling(2, 32)),
    ),
    ("16-bit", 256): ((Tiling(2, 32, 2),), (Tiling(2, 32),), (Tiling(2, 16, SLICES=2),)),
    ("tf32", 64): (
        (Tiling(4, 64, 2, 2), Tiling(4, 32)),
        (Tiling(4, 32, 2, 2), Tiling(2, 32)),
        (Tiling(4, 32, 2, 2), Tiling(2, 32)),
    ),
    ("tf32", 128): (
        (Tiling(4, 32, 1, 2), Tiling(2, 32)),
        (Tiling(2, 32, 1, 2), Tiling(2, 16)),
        (Tiling(2, 32, 1, 2), Tiling(2, 16)),
    ),
    ("float", 64): (
        (Tiling(4, 64, 1, 3), Tiling(4, 64), Tiling(4, 32)),
        (Tiling(4, 64, 1, 2), Tiling(4, 64), Tiling(2, 32)),
        (Tiling(4, 64, 1, 2), Tiling(4, 64), Tiling(2, 32)),
    ),
    ("float", 128): (
        (Tiling(4, 64, WARPS=8), Tiling(4, 32), Tiling(2, 32)),
        (Tiling(4, 32, 1, 2), Tiling(2, 32), Tiling(1, 32)),
        (Tiling(4, 32, 1, 2), Tiling(2, 32), Tiling(1, 32)),
    ),
    ("float", 256): ((Tiling(2, 32), Tiling(1, 32)), (Tiling(2, 16), Tiling(1, 16)), (Tiling(2, 16), Tiling(1, 16))),
}
TILINGS["double", 32] = TILINGS["double", 64] = (TILINGS["float", 128][0][1:], *TILINGS["float", 128][1:])
TILINGS["double", 128] = TILINGS["float", 256]
"""The tiles of `KERNELS` by kind and largest size of a head, the fastest first, and those of GPUs with less memory."""


@lru_cache(maxsize=256)
def tiling(kernel: str, size: int, values: int, kind: str, shared: int) -> Tiling | None:
    """Return how the tiles of a kernel lie; None if they have no place in shared memory.

    Args:
        kernel: one of `KERNELS`.
        size: the size of queries and keys.
        values: the size of values.
        kind: "16-bit" and "tf32" for tensor cores, "float" and "double" for ordinary ones.
        shared: the bytes of shared memory that a block can have, if it is alone on a multiprocessor.
    """
    widths = [-(-max(n, 1) // _ROW_MULTIPLE) * _ROW_MULTIPLE for n in (size, values)]
    sizes = [n for of, n in TILINGS if of == kind and n >= max(widths)]
    itemsize = {"16-bit": 2, "double": 8}.get(kind, 4)
    has_cores = kind in ("16-bit", "tf32")
    for tiles in TILINGS[kind, min(sizes)][KERNELS.index(kernel)] if sizes else ():
        columns, key_bytes, value_bytes = tiles.COLUMNS * tiles.STAGES, *[width * itemsize + 16 for width in widths]
        tiles = tiles._replace(TENSOR_CORES=32 // itemsize if has_cores else 0, SIZE=widths[0], VALUES=widths[1])
        taken = columns * (key_bytes + value_bytes) + tiles.rows * key_bytes
        if kernel != KERNELS[0]:
            taken += tiles.rows * (max(key_bytes, value_bytes) - key_bytes + value_bytes)
        if kernel == KERNELS[2]:
            taken += 3 * columns * max(itemsize, 4)
        if not has_cores:
            taken += tiles.rows * (tiles.COLUMNS + 4) * itemsize
        if tiles.BLOCKS * (taken + _RESERVED) <= shared + _RESERVED:
            return tiles._replace(SHARED=taken)
    return None


class CuPyAttention(CuPyMatmul):
    """Attention in tiles; `burnpy_array` computes it with larger rows than fit into a tile."""

    def attention(self, q: Any, k: Any, v: Any, mask: Any, offset: int | None, scale: float) -> tuple[Any, Any]:
        return self._attention_as(q, k, v, mask, offset, scale, q.dtype)

    def _attention_as(
        self, q: Any, k: Any, v: Any, mask: Any, offset: int | None, scale: float, dtype: DType
    ) -> tuple[Any, Any]:
        wide, tiles = _sums(q.dtype), self._tiles(q, v, KERNELS[:1])
        if tiles is None:
            q, k, v = (self.cast(x, wide) for x in (q, k, v))
            out, total = super().attention(q, k, v, mask, offset, scale)
            return self.cast(out, dtype), self.cast(total, dtype)
        out, total = self._call(_forward, self, tiles, q, k, v, mask, offset, scale, dtype)
        return out, total

    def attention_backward(
        self, grad: Any, q: Any, k: Any, v: Any, out: Any, logsumexp: Any, mask: Any, offset: int | None, scale: float
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
        wide, tiles = _sums(q.dtype), self._tiles(q, v, KERNELS[1:])
        if tiles is None:
            grad, q, k, v, out, logsumexp = (self.cast(x, wide) for x in (grad, q, k, v, out, logsumexp))
            parts = super().attention_backward(grad, q, k, v, out, logsumexp, mask, offset, scale)
            return self.cast(parts[0], dtype), self.cast(parts[1], dtype), self.cast(parts[2], dtype)
        given = [q, k, v, out, grad]
        grad_q, grad_k, grad_v = self._call(_backward, self, tiles, given, mask, offset, scale, dtype)
        return grad_q, grad_k, grad_v

    def _tiles(self, q: Any, v: Any, kernels: tuple[str, ...]) -> tuple[Tiling, ...] | None:
        """Return how the tiles of kernels lie on this GPU, or None if they have no place in its shared memory."""
        kinds = ["double" if q.dtype.itemsize == 8 else "float"]
        if self.multiplies_in_tensor_cores(q.dtype):
            kinds.insert(0, "16-bit" if q.dtype.itemsize == 2 else "tf32")
        for kind in kinds:
            found = [tiling(kernel, q.shape[-1], v.shape[-1], kind, self._limits[1]) for kernel in kernels]
            tiles = tuple([each for each in found if each is not None])
            if len(tiles) == len(kernels):
                return tiles
        return None


def _sums(dtype: DType) -> DType:
    """Return the dtype in which products of a dtype are added up."""
    return float32 if dtype.itemsize == 2 else dtype


def _forward(
    b: CuPyAttention,
    tiles: Sequence[Tiling],
    q: Any,
    k: Any,
    v: Any,
    mask: Any,
    offset: int | None,
    scale: float,
    dtype: DType,
) -> tuple[Any, Any]:
    xp = b.xp
    if not (k.shape[-2] and math.prod(q.shape[:-1])):
        return xp.zeros((*q.shape[:-1], v.shape[-1]), dtype), xp.zeros(q.shape[:-1], dtype)
    inputs, mask = [_with_rows(xp, x) for x in (q, k, v)], _broadcast(xp, mask, q, k)
    out = in_order_of(xp, inputs[0], (*q.shape[:-1], v.shape[-1]), dtype)
    launches = _launches(b, tiles, offset, _layouts([*inputs, out], mask))
    if launches is None:
        q, k, v = (contiguous(xp, x) for x in inputs)
        return _forward(b, tiles, q, k, v, _contiguous(xp, mask), offset, scale, dtype)
    total = empty(xp, q.shape[:-1], dtype)
    launches[0](*_addresses([*inputs, mask, out, total]), scale)
    return out, total


def _backward(
    b: CuPyAttention,
    tiles: Sequence[Tiling],
    given: Sequence[Any],
    mask: Any,
    offset: int | None,
    scale: float,
    dtype: DType,
) -> tuple[Any, ...]:
    q, k, v, *_ = given
    xp = b.xp
    if not (k.shape[-2] and math.prod(q.shape[:-1])):
        return tuple([xp.zeros(x.shape, dtype) for x in (q, k, v)])
    inputs, mask = [_with_rows(xp, x) for x in given], _broadcast(xp, mask, q, k)
    outs = [in_order_of(xp, x, x.shape, dtype) for x in inputs[:3]]
    launches = _launches(b, tiles, offset, _layouts([*inputs, *outs], mask))
    if launches is None:
        inputs = [contiguous(xp, x) for x in inputs]
        return _backward(b, tiles, inputs, _contiguous(xp, mask), offset, scale, dtype)
    statistics = empty(xp, (3, math.prod(q.shape[:-2]), -(-q.shape[-2] // PADDED) * PADDED), _sums(q.dtype))
    grad_q, *others = _addresses(outs)
    rest = statistics.data.ptr, statistics.size // 3, scale
    launches[0](*_addresses([*inputs, mask]), grad_q, *rest)
    launches[1](*_addresses([*inputs[:3], inputs[4], mask]), *others, *rest)
    return tuple(outs)


def _with_rows(xp: Any, x: Any) -> Any:
    """Return an array whose rows are contiguous, as kernels read them and write results of its order of memory."""
    return x if x.strides[-1] == x.itemsize else contiguous(xp, x)


def _broadcast(xp: Any, mask: Any, q: Any, k: Any) -> Any:
    """Return a mask as one of all scores; None if there is none."""
    return None if mask is None else xp.broadcast_to(mask, (*q.shape[:-1], k.shape[-2]))


def _contiguous(xp: Any, mask: Any) -> Any:
    return None if mask is None else contiguous(xp, mask)


def _addresses(arrays: Sequence[Any]) -> list[int]:
    return [0 if x is None else x.data.ptr for x in arrays]


_Layout: TypeAlias = tuple[Shape, Shape, DType]
"""The shape, the strides and the dtype of an array."""


def _layouts(arrays: Sequence[Any], mask: Any) -> tuple[_Layout, ...]:
    return tuple([(x.shape, x.strides, x.dtype) for x in (arrays if mask is None else [*arrays, mask])])


@lru_cache(1024)
def _launches(
    b: CuPyAttention, tiles: Sequence[Tiling], offset: int | None, layouts: Sequence[_Layout]
) -> tuple[Launch, ...] | None:
    """Return the launch of attention, or the two of its gradient; None if a kernel cannot address an array. A kernel
    has a block for each tile of the queries or keys, and for each slice of the sums of a key's numbers. The layouts are
    of q, k, v, the result, for the gradient also of the gradients of the result, q, k and v; and of the mask."""
    count = 4 if len(layouts) < 8 else 8
    names = (*ARRAYS[:count], *ARRAYS[8:])[: len(layouts)]
    (queries, _, dtype), keys, values = layouts[0], layouts[1][0], layouts[2][0]
    sizes = (queries[-2], keys[-2], queries[-1], values[-1])
    steps = tuple([(strides, dtype.itemsize) for _, strides, dtype in layouts])
    geometry = _geometry(queries[:-2], sizes, offset, names, steps)
    if geometry is None:
        return None

    def launch(kind: int, rows: Shape, given: str, **types: DType) -> Launch:
        of = tiles[max(kind - 1, 0)]
        kernel = b._kernels.typed(KERNELS[kind], of._asdict(), of.SHARED, T=dtype, S=_sums(dtype), **types)
        blocks = math.prod(rows[:-2]) * -(-rows[-2] // of.rows)
        return launcher(b.xp, kernel, (blocks, of.SLICES), (32 * of.WARPS, 1), given, geometry, of.SHARED)

    out = layouts[count - 1][2]
    if count == 4:
        return (launch(0, queries, "6Qd", O=out),)
    return launch(1, queries, "8Qqd", O=out), launch(2, keys, "8Qqd", O=out)


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
