"""Gathering, accumulating at indices, and sums of rows, by kernels that add one element or row after the other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32, float64, int64
from burnpy_numpy.indexing import adds_many
from burnpy_numpy.kernels.compiler.loops import Loops
from burnpy_numpy.kernels.kernel import template_kernel
from burnpy_numpy.kernels.launch import TemplateKernel, block_width
from burnpy_numpy.shape import copied

_RUN_BYTES = 32
"""The size of the vectors by which runs are accumulated."""
_COPIES_PER_INDEX = 8
"""How many elements of an array that is not contiguous take as long to copy as one at an index by NumPy."""
_CHECKED = 8
"""The number of indices that are compared with the size at a time."""
_DTYPES = frozenset({float32, float64, int64})
"""The dtypes whose elements kernels combine; those of int64 they add only."""
_MOVED = {1: "int8", 2: "float16", 4: "float32", 8: "float64"}
"""The dtypes as which kernels copy elements, whatever their own dtype, by size in bytes."""
_COMBINE = {"add": "add", "prod": "mul", "amin": "min", "amax": "max"}
"""The combinations of templates by those of operations."""
COMBINE = {"add": "fadd", "mul": "fmul", "max": "maximum", "min": "minimum"}


def gathered(x: Any, dim: int, index: Any) -> Any:
    """Return the elements of x at indices; None without a kernel for it, or where copying x would take longer."""
    if x.itemsize not in _MOVED or not _suits(x, index, dim):
        return None
    if not x.flags.c_contiguous and _COPIES_PER_INDEX * index.size < x.size:
        return None
    kernel, out = template_kernel(gather, _MOVED[x.itemsize], _inner(x, dim) > 1), np.empty(index.shape, x.dtype)
    return out if kernel is not None and _ran(kernel, x, out, dim, index, x.shape) else None


def selected(x: Any, index: Any) -> Any:
    """Return the elements of the rows of a C-contiguous array at a 1-d index; None without a kernel for it."""
    if x.itemsize not in _MOVED or index.dtype is not int64:
        return None
    kernel, out = template_kernel(gather, _MOVED[x.itemsize], False), np.empty((*x.shape[:-1], index.size), x.dtype)
    return out if kernel is not None and _ran(kernel, x, out, x.ndim - 1, index, x.shape) else None


def scattered(x: Any, dim: int, index: Any, src: Any, combine: str) -> Any:
    """Return a copy of x with src added ("add") or written ("set") at indices; None without a kernel for it."""
    dtype = _MOVED.get(x.itemsize) if combine == "set" else x.dtype.name if x.dtype in _DTYPES else None
    if dtype is None or not _suits(x, index, dim) or src.dtype is not x.dtype or src.shape != index.shape:
        return None
    wide = combine == "add" and adds_many(x, dim, index)
    kernel = template_kernel(scatter, dtype, "add_wide" if wide else combine, _inner(x, dim) > 1)
    out = x.astype(float64, order="C") if wide else copied(x)
    if kernel is None or not _ran(kernel, src, out, dim, index, x.shape):
        return None
    return out.astype(float32) if wide else out


def combined(reduce: str, out: Any, dim: int, index: Any, src: Any) -> bool:
    """Combine slices of src in place with those of ``out`` at a 1-d index; return whether there is a kernel for it."""
    dtype, combine = out.dtype, _COMBINE[reduce]
    if (
        not (dtype in _DTYPES and (dtype is not int64 or combine == "add"))
        or src.dtype is not dtype
        or index.dtype is not int64
        or not out.flags.c_contiguous
        or src.shape != (*out.shape[:dim], len(index), *out.shape[dim + 1 :])
    ):
        return False
    inner, wide = _inner(out, dim), combine == "add" and adds_many(out, dim, index)
    total, combine = (out.astype(float64), "add_wide") if wide else (out, combine)
    if inner == 1:
        kernel = template_kernel(scatter, dtype, combine, False)
    else:
        width = block_width(inner, _RUN_BYTES // total.dtype.itemsize)
        kernel = template_kernel(scatter_runs, dtype, combine, width)
    if kernel is None:
        return False
    if not _ran(kernel, src, total, dim, index, out.shape):
        raise IndexError(f"an index into {out.shape[dim]} slices is out of range")
    if wide:
        out[...] = total
    return True


def _inner(x: Any, dim: int) -> int:
    """Return the number of elements of a run along the dimensions after ``dim``."""
    return math.prod(x.shape[dim + 1 :])


def _suits(x: Any, index: Any, dim: int) -> bool:
    """Return whether there is an index for each element of whole slices of x."""
    return index.dtype is int64 and all(
        n == m or d == dim for d, (n, m) in enumerate(zip(index.shape, x.shape, strict=True))
    )


def _ran(kernel: TemplateKernel, x: Any, out: Any, dim: int, index: Any, shape: Any) -> bool:
    """Run a kernel for an indexed array of the given shape; return whether all indices are in range."""
    outer, size, inner = math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])
    count, wrong = index.size if index.ndim == 1 else index.shape[dim], np.zeros(1, int64)
    sizes = (size, count, inner, 0 if index.ndim == 1 else count * inner)
    kernel.run((np.ascontiguousarray(x), out, np.ascontiguousarray(index), wrong), sizes, outer, count * inner)
    return not wrong[0]


def gather(dtype: str, nested: bool) -> str:
    """Return the text of the kernel of ``out[o][j][i] = x[o][index[o][j][i]][i]``, of a dtype in `_MOVED`.

    See `scatter`.
    """
    return _by_index(dtype, "", nested)


def scatter(dtype: str, combine: str, nested: bool) -> str:
    """Return the text of the kernel of ``out[o][index[o][j][i]][i] += x[o][j][i]``, or of another combination.

    The table: x, out, index (int64), and an int64 that is set to 1 if an index is out of range. The sizes: the size of
    the dimension that is indexed, the number of indices, ``inner``, and the distance of the indices of an outer element
    and the next. ``begin`` and ``end`` are outer elements.

    Args:
        dtype: the dtype of x: float32, float64, or int64, which is only added; to write, one of `_MOVED`.
        combine: "add", "mul", "max" or "min"; "add_wide" to add float32 to float64; "set" to write the last of the
            elements with one index.
        nested: whether ``inner`` is not 1.
    """
    return _by_index(dtype, combine, nested)


def scatter_runs(dtype: str, combine: str, width: int) -> str:
    """Return the text of the kernel of ``out[o][index[j]][i] += x[o][j][i]``; see `scatter`.

    Args:
        dtype: the dtype of x: float32, float64, or int64, which is only added.
        combine: "add", "mul", "max" or "min"; "add_wide" to add float32 to float64.
        width: the number of elements of a vector.
    """
    w = Loops(width, 4, 4)
    x, out, index, note = w.table
    wrong = w.count(0)
    size, count, inner, _ = w.sizes
    whole = inner // width
    mask = w.below(inner % width)
    tiles = w.ceil_div(inner, width)
    with w.loop(w.begin, w.end) as o:
        here, there = o * count * inner, o * size * inner
        with w.loop(0, count) as j:
            place = _in_range(w, w.number(index, j), size, wrong)
            row, target = here + j * inner, there + place * inner
            for first, last, where in ((0, whole, None), (whole, tiles, mask)):
                with w.loop(first, last) as t:
                    at = t * width
                    _combine(w, dtype, combine, x, out, row + at, target + at, where)
    w.assign(f"atomicrmw or ptr {note}, i64 {w.number(wrong, 0)} monotonic")
    return w.function()


def _by_index(dtype: str, combine: str, nested: bool) -> str:
    """Return the text of a kernel that combines, or gathers, elements at an index for each. The indices of `_CHECKED`
    neighbours are compared with the size at a time. If one is out of range, none is followed."""
    w = Loops(1, 4, 4)
    x, out, index, note = w.table
    size, count, inner, far = w.sizes
    wrong = w.count(0)
    row = inner if nested else count
    blocks = row // _CHECKED
    with w.loop(w.begin, w.end) as o, w.loop(0, count if nested else "1") as j:
        indices = o * far + j * inner
        here, there = o * count * inner + j * inner, o * size * inner
        for first, last, step in ((0, blocks, _CHECKED), (blocks * _CHECKED, row, 1)):
            with w.loop(first, last) as t:
                i = t * step
                below = _below(w, w.element(index, indices + i, "int64"), size, step)
                w.set_number(wrong, w.chosen(below, w.number(wrong, 0), 1))
                with w.loop(0, w.assign(f"zext i1 {below} to i64")):
                    for k in range(step):
                        at = i + k
                        place = w.number(index, indices + at)
                        place = place * inner + at if nested else place
                        _moved(w, dtype, combine, x, out, here + at, there + place)
    w.assign(f"atomicrmw or ptr {note}, i64 {w.number(wrong, 0)} monotonic")
    return w.function()


def _below(w: Loops, index: str, size: str, count: int) -> str:
    """Return a bit that says whether as many indices from an address on are in range."""
    with w.of_width(count):
        function, bits = f"@llvm.vector.reduce.and.v{count}i1", w.type("bool")
        w.declared.add(f"declare i1 {function}({bits})")
        indices, sizes = w.load(index, "int64"), w.splat(size, "int64")
        below = w.assign(f"icmp ult {w.type('int64')} {indices.text}, {sizes.text}")
        return w.assign(f"call i1 {function}({bits} {below})")


def _in_range(w: Loops, index: str, size: str, wrong: str) -> str:
    """Return an index, or 0 in place of one that is out of range, after setting the flag ``wrong``."""
    outside = w.icmp("uge", index, size)
    w.set_number(wrong, w.assign(f"select i1 {outside}, i64 1, i64 {w.number(wrong, 0)}"))
    return w.assign(f"select i1 {outside}, i64 0, i64 {index}")


def _moved(w: Loops, dtype: str, combine: str, x: str, out: str, here: str, there: str) -> None:
    """Combine one element, or, of a kernel that gathers, copy it the other way."""
    if combine:
        _combine(w, dtype, combine, x, out, here, there, None)
    else:
        w.store_at(w.load_at(x, there, dtype), out, here)


def _combine(w: Loops, dtype: str, combine: str, x: str, out: str, here: str, there: str, mask: str | None) -> None:
    target, new = w.element(out, there, dtype), w.load(w.element(x, here, dtype), dtype, mask)
    if combine == "set":
        w.store(new, target, mask)
        return
    if combine == "add_wide":
        target, new, dtype = w.element(out, there, "float64"), w.convert("fpext", new, "float64"), "float64"
        w.store(w.add(w.load(target, dtype, mask), new), target, mask)
        return
    old = w.load(target, dtype, mask)
    op = "add" if dtype == "int64" else COMBINE[combine]
    w.store(w.extreme(op, old, new) if op.endswith("imum") else w.binary(op, old, new), target, mask)


_ROW_BYTES = 64
"""The size of the vectors in bytes."""
_AHEAD = 24
"""The rows that are fetched before they are added: random rows are seldom in a cache."""


def rows_summed(x: Any, source: Any, target: Any, scale: Any, count: int) -> Any:
    """Return the sums of rows; None without a kernel for it. The indices are in range."""
    if (x.dtype is not float32 and x.dtype is not float64) or scale.dtype is not x.dtype:
        return None
    if source.dtype is not int64 or target.dtype is not int64:
        return None
    inner = x.shape[1]
    width = block_width(inner, _ROW_BYTES // x.dtype.itemsize)
    kernel = template_kernel(sum_rows, x.dtype, width)
    if kernel is None:
        return None
    out = np.zeros((count, inner), x.dtype)
    arrays = [np.ascontiguousarray(a) for a in (x, source, target, scale)]
    tiles = -(-inner // width)
    kernel.run((arrays[0], out, *arrays[1:]), (len(source), inner), tiles, len(source) * width)
    return out


def sum_rows(dtype: str, width: int) -> str:
    """Return the text of the kernel of ``out[target[j]] += scale[j] * x[source[j]]``. The table: x, out, source and
    target (int64), scale. The sizes: the numbers of indices, and of elements of a row. ``begin`` and ``end`` are
    vectors of a row, so that no two threads add to one place."""
    w = Loops(width, 5, 2)
    x, out, source, target, scale = w.table
    count, inner = w.sizes
    whole = inner // width
    mask = w.below(inner % width)
    most = w.smaller(whole, w.end)
    final = count - 1
    with w.loop(0, count) as j:
        next_row = w.number(source, w.smaller(j + _AHEAD, final)) * inner
        row = w.number(source, j) * inner
        place = w.number(target, j) * inner
        factor = w.load_one_at(scale, j, dtype)
        for first, last, where in ((w.begin, most, None), (most, w.end, mask)):
            with w.loop(first, last) as t:
                at = t * width
                w.prefetch(w.element(x, next_row + at, dtype))
                value = w.load(w.element(x, row + at, dtype), dtype, where)
                goal = w.element(out, place + at, dtype)
                total = w.binary("fadd", w.load(goal, dtype, where), w.binary("fmul", factor, value))
                w.store(total, goal, where)
    return w.function()
