"""The kernel of the gradient of max pooling as LLVM's intermediate representation, one window after the other."""

from __future__ import annotations

from burnpy_numpy.compiled.loops import Loops

_KINDS = {"float32": "float", "float64": "double"}


def max_pool_backward(dtype: str, rows: int, columns: int, padded: bool) -> str:
    """Return the text of the kernel, which adds the gradient of each window at its first NaN or else first maximum.

    The table: the gradients and the maxima by window, x, and the gradient by x, which is 0 at first. The sizes: height
    and width of x, numbers of windows in a column and in a row; stride, padding and dilation, each for both. ``begin``
    and ``end`` are planes.

    Where no element of a window is as large as its maximum, none has the gradient.

    Args:
        dtype: float32 or float64.
        rows: the number of rows of a window.
        columns: the number of columns of a window.
        padded: whether windows may reach beyond x.
    """
    w = Loops(1, 4, 10)
    grads, maxima, x, out = w.table
    height, width, high, wide, down, across, above, before, row_step, column_step = w.sizes
    kind = _KINDS[dtype]

    def places(start: str, step: str, count: int, size: str) -> list[tuple[str, str]]:
        """The rows or columns of a window, within x, and bits that say whether they are that without a change."""
        positions = []
        for k in range(count):
            place = w.plus(start, w.times(step, k))
            inside = "true"
            if padded:
                inside = w.assign(f"icmp ult i64 {place}, {size}")  # negative ones are large without a sign
                place = w.either(inside, place, "0", "i64")
            positions.append((place, inside))
        return positions

    with w.loop("%begin", "%end") as plane, w.loop("0", high) as i:
        first = w.times(plane, w.times(height, width))
        lines = [
            (w.plus(first, w.times(row, width)), inside)
            for row, inside in places(w.minus(w.times(i, down), above), row_step, rows, height)
        ]
        window_row = w.times(w.plus(w.times(plane, high), i), wide)
        with w.loop("0", wide) as j:
            window = w.plus(window_row, j)
            top = w.assign(f"load {kind}, ptr {w.element(maxima, window, dtype)}")
            chosen, some = lines[0][0], "false"
            across_places = places(w.minus(w.times(j, across), before), column_step, columns, width)
            for line, row_inside in reversed(lines):
                for column, inside in reversed(across_places):
                    place = w.plus(line, column)
                    value = w.assign(f"load {kind}, ptr {w.element(x, place, dtype)}")
                    nan = w.assign(f"fcmp uno {kind} {value}, {value}")
                    fits = w.assign(f"or i1 {nan}, {w.assign(f'fcmp oge {kind} {value}, {top}')}")
                    if padded:
                        fits = w.assign(f"and i1 {fits}, {w.assign(f'and i1 {row_inside}, {inside}')}")
                    chosen, some = w.either(fits, place, chosen, "i64"), w.assign(f"or i1 {some}, {fits}")
            grad = w.load_one(w.element(grads, window, dtype), dtype)
            grad = w.select(w.splat(some, "bool"), grad, w.constant(0.0, dtype))
            target = w.element(out, chosen, dtype)
            w.store_one(w.add(w.load_one(target, dtype), grad), target)
    return w.function()
