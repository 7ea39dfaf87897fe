"""Ranges, copies to another shape, concatenation and triangles; selecting and adding by index, in one launch each.

A thread writes one element of the result, but for ``burnpy_scatter_add``, where several may add to one place: they do
so by atomic additions, in any order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from burnpy.backend.dtypes import float32, float64, int32, int64, kind_of, uint8, uint16, uint32, uint64
from burnpy.backend.primitives import DType, Key, Scalar, Shape
from burnpy_array import ArrayBackend
from burnpy_cupy.kernels.elementwise_kernel import INDEX, Elementwise, contiguous, copied
from burnpy_cupy.kernels.kernel import Kernels
from burnpy_cupy.kernels.launch import Lattice
from burnpy_cupy.runtime import empty

_RUNS = """
const long long chunk = i / width, column = i % width, start = chunk * length, count = order.size();
const long long stop = min(start + length, count);
#define SORTED(p) indices[order[p]]
"""
"""A thread has one column of a chunk of the sorted indices, in which equal ones follow each other as runs."""

_RUN_SUMS = f"""{_RUNS}
F total = F(0);
bool begins = chunk == 0 || SORTED(start - 1) != SORTED(start);  // whether the run began in this chunk
for (long long p = start; p < stop; p++) {{
  const long long index = SORTED(p);
  total += static_cast<F>(rows[order[p] * width + column]);
  const bool ends = p + 1 == count || SORTED(p + 1) != index;
  if (!ends && p + 1 < stop) continue;
  if (begins && ends) {{
    if (index != padding) out[index * width + column] = static_cast<T>(total);
  }} else parts[(chunk * 2 + (begins ? 1 : 0)) * width + column] = total;
  total = F(0);
  begins = true;
}}
"""
"""A run within the chunk is added up and written. If a run reaches beyond the chunk, the sum of its part is kept: in
the first place if the run began before, else in the second. So one thread a column writes a row of the result."""

_JOINED_RUNS = f"""{_RUNS}
const long long index = SORTED(stop - 1);
const bool goes_on = stop < count && SORTED(stop) == index;
const bool began_before = chunk > 0 && SORTED(start) == index && SORTED(start - 1) == index;
if (goes_on && !began_before && index != padding) {{
  F total = parts[(chunk * 2 + 1) * width + column];
  for (long long c = chunk + 1; c * length < count && SORTED(c * length) == index; c++)
    total += parts[c * 2 * width + column];
  out[index * width + column] = static_cast<T>(total);
}}
"""
"""The chunk in which a run began adds up its parts, from left to right."""

_COMBINED = {
    "prod": "current * value",
    "amin": "value < current || value != value ? value : current",
    "amax": "value > current || value != value ? value : current",
}
"""The C expressions that replace ``current``; a NaN stays, as comparisons with it are false."""

_REDUCE = """
_at[dim] = index[_at[dim]];
{bits}* const target = reinterpret_cast<{bits}*>(&out[_at]);
{bits} seen = *target, before;
do {{
    before = seen;
    const T current = reinterpret_cast<const T&>(before);
    const T combined = {combined};
    const {bits} after = reinterpret_cast<const {bits}&>(combined);
    if (after == before) break;
    seen = atomicCAS(target, before, after);
}} while (seen != before);
"""
"""The kernel: compare and swap, repeated until no other thread has changed the element in between. Source: NVIDIA,
CUDA C++ Programming Guide, atomic functions."""

_BITS = {4: "unsigned int", 8: "unsigned long long"}
"""The types that CUDA compares and swaps, by their size in bytes."""

INDEXING = {
    "burnpy_run_sums": Elementwise(
        "raw int64 indices, raw int64 order, raw T rows, int64 width, int64 length, int64 padding",
        "raw T out, raw F parts",
        _RUN_SUMS,
    ),
    "burnpy_joined_runs": Elementwise(
        "raw int64 indices, raw int64 order, raw F parts, int64 width, int64 length, int64 padding",
        "raw T out",
        _JOINED_RUNS,
    ),
    **{
        f"burnpy_reduce_{name}_{size}": Elementwise(
            "T value, raw int64 index, const int32 dim", "raw T out", _REDUCE.format(bits=bits, combined=combined)
        )
        for name, combined in _COMBINED.items()
        for size, bits in _BITS.items()
    },
    "burnpy_select": Elementwise(
        "raw T x, raw int64 indices, const int32 dim", "T out", "_at[dim] = indices[_at[dim]]; out = x[_at]"
    ),
    "burnpy_add_to": Elementwise("T before, T x", "T total", "total = before + x"),
    "burnpy_gather": Elementwise("raw T x, int64 index, const int32 dim", "T out", "_at[dim] = index; out = x[_at];"),
    "burnpy_scatter_add": Elementwise(
        "T src, int64 index, const int32 dim", "raw T out", "_at[dim] = index; atomicAdd(&out[_at], src);"
    ),
    "burnpy_index_add": Elementwise(
        "T src, raw int64 indices, const int32 dim",
        "raw T out",
        "_at[dim] = indices[_at[dim]]; atomicAdd(&out[_at], src);",
    ),
}
_ATOMIC = {dtype: uint64 if dtype is int64 else dtype for dtype in (float32, float64, int32, int64)}
"""The dtypes with atomic additions of CUDA, and the dtype that has the same sums."""
_ADDED = (float32, float64)
"""The dtypes of sums in place, which others round to from float32."""
_INDICES_OF_THREAD = 32
"""The number of sorted indices whose rows one thread adds up."""


class CuPyIndexing(ArrayBackend):
    """Operations by index; indices are int64, in range and not negative."""

    _kernels: Kernels

    def index_select(self, x: Any, dim: int, index: Any) -> Any:
        out = self._call(empty, self.xp, (*x.shape[:dim], index.size, *x.shape[dim + 1 :]), x.dtype)
        return self._call(self._kernels["burnpy_select"], x, index, (dim,), out)

    def gather(self, x: Any, dim: int, index: Any) -> Any:
        if not index.ndim:
            return super().gather(x, dim, index)
        out = self._call(empty, self.xp, index.shape, x.dtype)
        self._call(self._kernels["burnpy_gather"], x, index, (dim,), out)
        return out

    def scatter_add(self, x: Any, dim: int, index: Any, src: Any) -> Any:
        if not index.ndim or x.dtype not in _ATOMIC:
            return super().scatter_add(x, dim, index, src)
        out = self._call(copied, self.xp, x)
        wrapped = _ATOMIC[x.dtype]
        self._call(self._kernels["burnpy_scatter_add"], src.view(wrapped), index, (dim,), out.view(wrapped))
        return out

    def embedding_backward(self, grad: Any, index: Any, shape: Shape, padding: int | None) -> Any:
        return self._call(_embedding_backward, self, grad, index, shape, -1 if padding is None else padding)

    def embedding(self, weight: Any, index: Any, padding: int | None) -> Any:
        width = weight.shape[1]
        rows = self.index_select(weight, 0, index.reshape((index.size,)))
        return rows.reshape((*index.shape, width))

    def accumulate(self, total: Any, grad: Any) -> Any:
        if _is_added_to(total, grad) and total.shape == grad.shape:
            return self._call(self._kernels["burnpy_add_to"], total, grad, total)
        return super().accumulate(total, grad)

    def accumulate_slice(self, total: Any, key: Key, grad: Any) -> Any:
        if not _is_added_to(total, grad):
            return super().accumulate_slice(total, key, grad)
        part = total[key]
        self._call(self._kernels["burnpy_add_to"], part, grad, part)
        return total

    def _last_writer(self, src: Any, dim: int, index: Any, size: int) -> Any:
        """Give every duplicate of an index the slice of its last occurrence, as CuPy writes duplicates in any order."""
        return self._call(_last_slices, self.xp, src, dim, index, size)

    def _add_at(self, out: Any, dim: int, index: Any, src: Any) -> None:
        if src.dtype is out.dtype and out.dtype in _ATOMIC:
            wrapped = _ATOMIC[out.dtype]
            self._call(self._kernels["burnpy_index_add"], src.view(wrapped), index, (dim,), out.view(wrapped))
            return
        self._call(_add_at, self.xp, out, (*(slice(None),) * dim, index), src)

    def _reduce_at(self, out: Any, dim: int, index: Any, src: Any, reduce: str) -> None:
        self._call(_reduce_at, self, out, dim, index, src, reduce)


def _is_added_to(total: Any, grad: Any) -> bool:
    """Return whether a kernel adds a gradient to a total in place: in one dtype, and not to a view by `expand`."""
    return total.dtype in _ADDED and total.dtype is grad.dtype and 0 not in total.strides and total.ndim > 0


def _embedding_backward(b: CuPyIndexing, grad: Any, index: Any, shape: Shape, padding: int) -> Any:
    """Add up the rows of each index in the order in which they come, so that the bits are the same in every run."""
    xp, width = b.xp, shape[1]
    out = xp.zeros(shape, grad.dtype)
    if not grad.size:
        return out
    order = index.reshape(-1).argsort()
    chunks = -(-order.size // _INDICES_OF_THREAD)
    parts = empty(xp, (chunks, 2, width), float64 if grad.dtype is float64 else float32)
    rows, numbers, size = grad.reshape((order.size, width)), (width, _INDICES_OF_THREAD, padding), chunks * width
    b._kernels["burnpy_run_sums"](index, order, rows, *numbers, out, parts, size=size)
    if chunks > 1:
        b._kernels["burnpy_joined_runs"](index, order, parts, *numbers, out, size=size)
    return out


def _last_slices(xp: Any, src: Any, dim: int, index: Any, size: int) -> Any:
    last = xp.zeros((size,), uint64)
    xp.maximum.at(last, index, xp.arange(0, index.shape[0], 1, uint64))
    return src.take(last.take(index, 0).astype(int64), dim)


def _add_at(xp: Any, out: Any, key: tuple[Any, ...], src: Any) -> None:
    if out.dtype.kind == "c":
        parts = xp.stack([out.real, out.imag])
        xp.add.at(parts, (slice(None), *key), xp.stack([src.real, src.imag]))
        out.real, out.imag = parts
    elif out.dtype.itemsize < 4:  # CuPy's `add.at` does not support these, or rounds at each addition
        wide = out.astype({"i": int32, "u": uint32}.get(out.dtype.kind, float32))
        xp.add.at(wide, key, src.astype(wide.dtype))
        out[...] = wide
    else:
        xp.add.at(out, key, src)


def _reduce_at(b: CuPyIndexing, out: Any, dim: int, index: Any, src: Any, reduce: str) -> None:
    """Reduce the slices of src along ``dim`` into the slices of ``out`` at ``index``, in place."""
    size = out.dtype.itemsize
    if size in _BITS:
        b._kernels[f"burnpy_reduce_{reduce}_{size}"](src, index, (dim,), out)
    else:
        wide = out.astype(_reducible(out.dtype))
        _reduce_at(b, wide, dim, index, src.astype(wide.dtype), reduce)
        out[...] = wide


def _reducible(dtype: Any) -> Any:
    if kind_of(dtype) == "float":
        return float32
    return int32 if dtype.kind == "i" else uint32


_UNSIGNED = {1: uint8, 2: uint16, 4: uint32, 8: uint64}
"""The unsigned dtype by size in bytes, in which int ranges are computed modulo 2ⁿ."""


def _cat(count: int) -> Elementwise:
    """Return the kernel that concatenates arrays whose dimensions are (outer, sizes of the arrays, inner)."""
    names = range(count)
    picks = "".join(f"if (at < n{k}) y = x{k}[outer * n{k} + at]; else {{ at -= n{k}; " for k in names[:-1])
    return Elementwise(
        ", ".join([*(f"raw T x{k}" for k in names), *(f"int32 n{k}" for k in names), "int32 row"]),
        "T y",
        f"const index_t outer = i / row; index_t at = i - outer * row; {picks} "
        f"y = x{count - 1}[outer * n{count - 1} + at];" + " }" * (count - 1),
        INDEX,
    )


CATS = range(1, 9)
"""The numbers of arrays for which there is a kernel that concatenates them."""
SHAPE = {
    **{f"burnpy_cat_{count}": _cat(count) for count in CATS},
    "burnpy_arange": Elementwise("T start, T step", "T x", "x = start + static_cast<T>(i) * step"),
}


@lru_cache(1024)
def _is_view(shape: Shape, strides: Shape, new: Shape) -> bool:
    """Return whether an array of a shape and strides can be reshaped without a copy."""
    rest = [n for n in reversed(new) if n != 1]
    for size in Lattice(shape, {"x": strides}).merged().sizes:
        while size > 1:
            if not rest or size % rest[-1]:
                return False
            size //= rest.pop()
    return True


def _beside(shape: Shape, dim: int) -> Shape:
    """Return the sizes of the other dimensions."""
    return (*shape[:dim], *shape[dim + 1 :])


class CuPyShape(ArrayBackend):
    """Ranges, copies, concatenation in one launch, and triangles of bfloat16."""

    _kernels: Kernels

    def reshape(self, x: Any, shape: Shape) -> Any:
        if not x._c_contiguous and not _is_view(x.shape, x.strides, shape):
            x = self._call(contiguous, self.xp, x)
        return self._call(x.reshape, shape)

    def arange(self, start: Scalar, stop: Scalar, step: Scalar, dtype: DType) -> Any:
        if kind_of(dtype) != "int":
            return super().arange(start, stop, step, dtype)
        bits, count = _UNSIGNED[dtype.itemsize], len(range(int(start), int(stop), int(step)))
        first, by = (bits.type(int(n) % (1 << 8 * dtype.itemsize)) for n in (start, step))
        out = self._call(empty, self.xp, (count,), bits)
        return self._call(self._kernels["burnpy_arange"], first, by, out).view(dtype)

    def cat(self, xs: Sequence[Any], dim: int) -> Any:
        shape, dtype = xs[0].shape, xs[0].dtype
        if len(xs) == 1 or any(not x.size or _beside(x.shape, dim) != _beside(shape, dim) for x in xs):
            return super().cat(xs, dim)  # which refuses other sizes beside the dimension
        if dtype.kind == "V":
            return self.cat([x.view(uint16) for x in xs], dim).view(dtype)
        lengths = [x.shape[dim] for x in xs]
        out = self._call(empty, self.xp, (*shape[:dim], sum(lengths), *shape[dim + 1 :]), dtype)
        inner, most, begin = math.prod(shape[dim + 1 :]), CATS[-1], 0
        for start in range(0, len(xs), most):
            some, sizes = xs[start : start + most], lengths[start : start + most]
            end = begin + sum(sizes)
            part = out if len(xs) <= most else out[(*(slice(None),) * dim, slice(begin, end))]
            numbers = [*[n * inner for n in sizes], sum(sizes) * inner]
            self._call(self._kernels[f"burnpy_cat_{len(some)}"], *some, *numbers, part)
            begin = end
        return out

    def tril(self, x: Any, diagonal: int) -> Any:
        return self._moved(super().tril, x, diagonal)

    def triu(self, x: Any, diagonal: int) -> Any:
        return self._moved(super().triu, x, diagonal)

    def _moved(self, f: Callable[[Any, int], Any], x: Any, diagonal: int) -> Any:
        """f(x, diagonal), for a function that only selects elements; on the bits of bfloat16, which CuPy would cast."""
        return f(x.view(uint16), diagonal).view(x.dtype) if x.dtype.kind == "V" else f(x, diagonal)
