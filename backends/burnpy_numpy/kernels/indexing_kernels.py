"""The kernels of gathering and of accumulating at indices, as LLVM's intermediate representation.

Arrays are (outer, size, inner), and indices select along ``size``: one for each run of ``inner`` elements, as in
``index_add``, or one for each element, as in ``gather`` and ``scatter_add``. An index that is out of range is not
followed; a kernel tells that there is one.
"""

from __future__ import annotations

from burnpy_numpy.kernels.loops import Loops

COMBINE = {"add": "fadd", "mul": "fmul", "max": "maximum", "min": "minimum"}


def gather(dtype: str, nested: bool) -> str:
    """Return the text of the kernel of ``out[o][j][i] = x[o][index[o][j][i]][i]``; see `scatter`."""
    return _by_index(dtype, "", False, nested, 1)


def scatter(dtype: str, combine: str, runs: bool, nested: bool, width: int) -> str:
    """Return the text of the kernel of ``out[o][index[o][j][i]][i] += x[o][j][i]``, or of another combination.

    The table: x, out, index (int64), and an int64 that is set to 1 if an index is out of range. The sizes: the size of
    the dimension that is indexed, the number of indices, ``inner``, and the distance of the indices of an outer element
    and the next. ``begin`` and ``end`` are outer elements.

    Args:
        dtype: the dtype of x: float32, float64, or int64, which is only added.
        combine: "add", "mul", "max" or "min".
        runs: whether there is an index for each run of ``inner`` elements, the same for all outer elements.
        nested: whether ``inner`` is not 1.
        width: the number of elements of a vector, of runs; otherwise 1.
    """
    return _by_index(dtype, combine, runs, nested, width)


def _by_index(dtype: str, combine: str, runs: bool, nested: bool, width: int) -> str:
    w = Loops(width, 4, 4)
    x, out, index, note = w.table
    wrong = w.count("0")
    size, count, inner, far = w.sizes
    whole = w.assign(f"sdiv i64 {inner}, {width}")
    lanes = ", ".join(f"i64 {k}" for k in range(width))
    left = w.splat(w.assign(f"srem i64 {inner}, {width}"), "int64")
    mask = w.assign(f"icmp ult <{width} x i64> <{lanes}>, {left.text}")
    tiles = w.assign(f"sdiv i64 {w.plus(inner, width - 1)}, {width}")
    with w.loop("%begin", "%end") as o:
        here, there = w.times(w.times(o, count), inner), w.times(w.times(o, size), inner)
        indices = w.element(index, w.times(o, far), "int64")
        with w.loop("0", count) as j:
            if runs:
                place = _in_range(w, w.number(indices, j), size, wrong)
                row, target = w.plus(here, w.times(j, inner)), w.plus(there, w.times(place, inner))
                for first, last, where in (("0", whole, None), (whole, tiles, mask)):
                    with w.loop(first, last) as t:
                        at = w.times(t, width)
                        _combine(w, dtype, combine, x, out, w.plus(row, at), w.plus(target, at), where)
            elif nested:
                row = w.times(j, inner)
                with w.loop("0", inner) as i:
                    at = w.plus(row, i)
                    place = w.times(_in_range(w, w.number(indices, at), size, wrong), inner)
                    _moved(w, dtype, combine, x, out, w.plus(here, at), w.plus(there, w.plus(place, i)))
            else:
                place = _in_range(w, w.number(indices, j), size, wrong)
                _moved(w, dtype, combine, x, out, w.plus(here, j), w.plus(there, place))
    w.assign(f"atomicrmw or ptr {note}, i64 {w.number(wrong, '0')} monotonic")
    return w.function()


def _in_range(w: Loops, index: str, size: str, wrong: str) -> str:
    """Return an index, or 0 in place of one that is out of range, after setting the flag ``wrong``."""
    outside = w.assign(f"icmp uge i64 {index}, {size}")
    w.set_number(wrong, w.assign(f"select i1 {outside}, i64 1, i64 {w.number(wrong, '0')}"))
    return w.assign(f"select i1 {outside}, i64 0, i64 {index}")


def _moved(w: Loops, dtype: str, combine: str, x: str, out: str, here: str, there: str) -> None:
    """Combine one element, or, of a kernel that gathers, copy it the other way."""
    if combine:
        _combine(w, dtype, combine, x, out, here, there, None)
    else:
        w.store(w.load(w.element(x, there, dtype), dtype, None), w.element(out, here, dtype), None)


def _combine(w: Loops, dtype: str, combine: str, x: str, out: str, here: str, there: str, mask: str | None) -> None:
    target = w.element(out, there, dtype)
    old, new = w.load(target, dtype, mask), w.load(w.element(x, here, dtype), dtype, mask)
    op = "add" if dtype == "int64" else COMBINE[combine]
    w.store(w.call(op, old, new) if op.endswith("imum") else w.binary(op, old, new), target, mask)
