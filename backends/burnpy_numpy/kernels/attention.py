"""Attention by kernels, one head after the other, which read and write arrays where they lie; scores are never whole.

The keys of a head are transposed once. Then the scores of a few queries with a vector of keys, the sums of weighted
values and all products of the gradients are summed up in registers. Keys that the causal mask hides from all of these
queries are left out. Arrays are read and written where they lie, as in one matrix of queries, keys and values.

Source: Dao et al., FlashAttention, 2022; of the blocks in registers: Goto and van de Geijn, Anatomy of High-Performance
Matrix Multiplication, 2008."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from burnpy.backend.dtypes import float32, float64, int64
from burnpy.backend.primitives import Shape
from burnpy_numpy.attention_and_recurrent import empty_like, gradients_like
from burnpy_numpy.kernels.compiler.llvm import vector_bytes
from burnpy_numpy.kernels.compiler.loops import Int, Loops
from burnpy_numpy.kernels.compiler.target import target
from burnpy_numpy.kernels.compiler.vectors import INTS, Vector, bytes_of
from burnpy_numpy.kernels.kernel import template_kernel
from burnpy_numpy.kernels.launch import Scratch, TemplateKernel

ROWS = 4
"""The least number of queries, or of keys, whose products are summed up at once; every vector is a multiple of it
long."""
_PRODUCTS = 8
"""The number of products that take as long as an operation of one element elsewhere."""
_MANY_KEYS, _WIDE_HEADS = 256, 64
"""The number of keys and the size of keys or values above which products of matrices take less time, if no key can be
left out because of a causal mask."""


def run_attention(q: Any, k: Any, v: Any, mask: Any, offset: int | None, scale: float) -> tuple[Any, Any] | None:
    """Return the results of `Backend.attention`; None without a kernel for these sizes."""
    chosen = attention_kernel(attention, (q, k, v), mask, offset)
    if chosen is None:
        return None
    out, totals = empty_like(q, (*q.shape[:-1], v.shape[-1])), np.empty(q.shape[:-1], q.dtype)
    rows = rows_at_once(chosen[1])
    run_heads(*chosen, ([q, k, v], [out], totals), (mask, offset, scale), k.shape[-1] + rows, rows)
    return out, totals


def attention_kernel(
    template: Callable[..., str], arrays: tuple[Any, ...], mask: Any, offset: int | None
) -> tuple[TemplateKernel, int] | None:
    """Return the kernel for q, k, v and other arrays, and the number of elements of its vectors; None without one."""
    q, k, v, *_ = arrays
    dtype = q.dtype
    if (
        (dtype is not float32 and dtype is not float64)
        or k.shape[-1] % ROWS
        or v.shape[-1] % ROWS
        or not v.size
        or any(x.dtype is not dtype for x in arrays)
        or (offset is None and k.shape[-2] > _MANY_KEYS and max(k.shape[-1], v.shape[-1]) > _WIDE_HEADS)
    ):
        return None
    width = math.gcd(k.shape[-1], v.shape[-1], vector_bytes() // q.itemsize)
    kernel = template_kernel(template, "float32" if dtype is float32 else "float64", width, mask is not None)
    return None if kernel is None else (kernel, width)


def run_heads(
    kernel: TemplateKernel,
    width: int,
    given: tuple[list[Any], list[Any], Any],
    settings: tuple[Any, int | None, float],
    rows: int,
    block: int,
) -> None:
    """Run a kernel.

    Args:
        kernel: the kernel.
        width: the number of elements of its vectors.
        given: q, k, v and other inputs; memory for the results; and the logsumexps.
        settings: the mask, the offset and the factor of the scores.
        rows: the number of rows of scratch memory.
        block: the number of queries whose weights are kept.
    """
    (mask, offset, scale), (xs, out, totals) = settings, given
    arrays = [*map(_readable, xs), *out]
    q, _, v = arrays[:3]
    lead, (queries, size), (keys, values), item = q.shape[:-2], q.shape[-2:], v.shape[-2:], q.itemsize
    line = (-(-keys // width) + 1) * width  # rows at a distance of a power of 2 would share places in the cache
    allowed, masks, mask_row = q, None, 0  # which a kernel without a mask does not read
    if mask is not None:
        allowed = np.zeros((*mask.shape[:-1], line), np.bool_)
        allowed[..., :keys] = mask
        strides = np.broadcast_to(allowed, (*lead, queries, line)).strides
        masks, mask_row = _places(lead, 1, strides[:-2]), strides[-2]
    places = _places(lead, item, *[x.strides[:-2] for x in arrays])
    table = (*arrays, totals, places, np.array(scale, q.dtype), allowed, places if masks is None else masks)
    steps = [x.strides[-2] // item for x in arrays]
    first = keys if offset is None else min(max(offset, -queries), keys)
    sizes = (queries, keys, size, values, line, first, mask_row, block, *steps)
    each = queries * keys * (size + values) / _PRODUCTS
    kernel.run(table, sizes, math.prod(lead), each, Scratch(0, rows * line * item))


def _readable(x: Any) -> Any:
    """Return an array whose rows lie together, and at distances of whole elements."""
    *steps, last = x.strides
    if last != x.itemsize or any(step % last for step in steps):
        return np.ascontiguousarray(x)
    return x


@lru_cache(256)
def _places(lead: Shape, item: int, *strides: tuple[int, ...]) -> Any:
    """Return where each head of arrays with these strides begins, in elements, as (heads, arrays)."""
    columns: list[Any] = []
    for steps in strides:
        total: Any = np.zeros((), int64)
        for count, step in zip(lead, steps, strict=True):
            total = np.add.outer(total, np.arange(count, dtype=int64) * (step // item))
        columns.append(total.reshape(-1))
    return np.ascontiguousarray(np.stack(columns, 1))


class HeadWriter(Loops):
    """A kernel on heads.

    The sizes: the numbers of queries and of keys, the sizes of keys and of values; the length of a row of scratch
    memory, which is longer than the vectors of the keys; the offset of the causal mask; the distance of rows of the
    mask; the number of queries whose scores are kept; and the distance of rows of each array. The table: scratch
    memory; the arrays; the logsumexps; int64, where each array begins for each head; the factor of the scores; the mask
    as bools, whose rows are as long as those of scratch memory, and int64, where it begins for each head. ``begin`` and
    ``end`` are heads. All places and distances count elements.

    Args:
        dtype: float32 or float64.
        width: the number of elements of a vector, which divides the sizes of keys and values.
        arrays: the number of arrays.
        masked: whether there is a mask.
    """

    def __init__(self, dtype: str, width: int, arrays: int, masked: bool) -> None:
        super().__init__(width, arrays + 6, 8 + arrays)
        self.dtype, self.masked = dtype, masked
        self.queries, self.keys, self.key_size, self.value_size, self.line, self.offset = self.sizes[:6]
        self.mask_row, self.block, *self.steps = self.sizes[6:]
        self.scratch, *self.arrays = self.table[:-5]
        self.totals, self.places, factor, self.mask, self.mask_places = self.table[-5:]
        self.scale = self.load_one(factor, dtype)
        self.ints = INTS[dtype]
        kind = self.scalar(self.ints)
        self.counts = Vector(f"<{', '.join(f'{kind} {k}' for k in range(width))}>", self.ints)

    def at(self, pointer: str, index: str | int) -> str:
        """Return the address of a number."""
        return self.element(pointer, index, self.dtype)

    def begins(self, head: Int) -> list[str]:
        """Return the address of each array for a head."""
        count = len(self.arrays)
        places = [self.number(self.places, head * count + k) for k in range(count)]
        return [self.at(x, place) for x, place in zip(self.arrays, places, strict=True)]

    def write_tiles(self, x: str, step: str, size: Int, out: str) -> None:
        """Write the rows of keys or values as columns of tiles (size, width), with zeros beyond them. So what is read
        for a vector of scores lies together."""
        width = self.width
        zero, part = self.constant(0.0, self.dtype), min(width, target().vector // bytes_of(self.dtype))
        tile, last = size * width, self.keys - 1
        with self.loop(0, self.vectors(self.keys) * (width // part)) as number:
            first = number * part
            whole, rest = divmod(first, width)
            place = self.at(out, whole * tile + rest)
            keys = [first + k for k in range(part)]
            rows = [self.at(x, self.smaller(key, last) * step) for key in keys]
            with self.of_width(part):
                inside = [self.splat(self.icmp("sle", key, last), "bool") for key in keys]
                with self.loop(0, size // part) as v:
                    column = v * part
                    parts = [self.load_at(row, column, self.dtype) for row in rows]
                    parts = [self.select(some, each, zero) for some, each in zip(inside, parts, strict=True)]
                    for k, numbers in enumerate(self.transposed(parts)):
                        self.store_at(numbers, place, (column + k) * width)

    def scores(self, rows: list[str], tiles: str, number: Int, size: Int) -> list[Vector]:
        """Return the products of rows and a vector of keys or values, whose tiles are given."""
        tile = self.at(tiles, number * (size * self.width))
        return self.products(rows, 1, tile, self.width, 0, size)

    def vectors(self, size: Int) -> Int:
        """Return the number of vectors in which this many numbers lie."""
        return self.ceil_div(size, self.width)

    def products(
        self, left: list[str], step: Int | int, right: str, row: Int | int, begin: Int | int, *ends: Int
    ) -> list[Vector]:
        """Return the sums of the products of numbers of several rows and of vectors, one below the other. The numbers
        end at the same place, or for each row at one of its own, in rising order."""
        totals = [self.variable(self.constant(0.0, self.dtype)) for _ in left]

        def add(k: Int, own: tuple[Int, ...]) -> None:
            vector = self.load_at(right, k * row, self.dtype)
            for r, (total, start) in enumerate(zip(totals, left, strict=True)):
                factor = self.load_one_at(start, k * step, self.dtype)
                before = self.get(total, self.dtype)
                after = self.fma(factor, vector, before)
                if own:  # 0 times infinity would be NaN
                    after = self.select(self.splat(self.icmp("slt", k, own[r]), "bool"), after, before)
                self.set(total, after)

        with self.loop(begin, ends[0]) as k:
            add(k, ())
        if len(ends) > 1:
            with self.loop(ends[0], ends[-1]) as k:
                add(k, ends)
        return [self.get(total, self.dtype) for total in totals]

    def reach(self, query: Int) -> Int:
        """Return the number of keys up to the last one that a query attends to."""
        reach = self.smaller(self.keys, self.offset + query + 1)
        return self.larger(reach, 0)

    def limited(self, scores: Vector, head: Int, query: Int, column: Int) -> Vector:
        """Return the scores of a query times the factor, minus infinity for keys that it does not attend to."""
        number: str = self.reach(query) - column
        if self.ints == "int32":
            number = self.assign(f"trunc i64 {number} to i32")
        limit, kind = self.splat(number, self.ints), self.type(self.ints)
        allowed = Vector(self.assign(f"icmp slt {kind} {self.counts.text}, {limit.text}"), "bool")
        if self.masked:
            place = self.number(self.mask_places, head) + query * self.mask_row + column
            read = self.load_at(self.mask, place, "bool")
            allowed = self.binary("and", allowed, read)
        return self.select(allowed, self.mul(scores, self.scale), self.constant(-math.inf, self.dtype))

    def first_elements(self, xs: list[Vector]) -> Vector:
        """Return the first elements of up to ``width`` vectors as one vector, which repeats the first beyond them."""
        kind, text = self.type(self.dtype), xs[0].text
        for k, x in enumerate(xs[1:], 1):
            text = self.assign(f"insertelement {kind} {text}, {self.scalar(self.dtype)} {self.first(x)}, i32 {k}")
        return Vector(text, self.dtype)

    def nonzero(self, sums: Vector) -> Vector:
        """Return the sums; 1 for a query that attends to nothing."""
        one = self.constant(1.0, self.dtype)
        return self.select(self.compare("une", sums, self.constant(0.0, self.dtype)), sums, one)


def rows_at_once(width: int) -> int:
    """Return the number of rows whose products with vectors of a width, of two registers, are summed up at once."""
    return min(width, 2 * ROWS if target().registers >= 32 else ROWS)


def rounds_of(w: Loops, count: Int) -> list[tuple[int, Int | int, Int]]:
    """Return the number of rows that are computed at once, and the first and the end of such rounds, of ``count``."""
    rows = rows_at_once(w.width)
    whole = count // rows
    return [(rows, 0, whole), (1, whole * rows, count)]


def attention(dtype: str, width: int, masked: bool) -> str:
    """Return the text of the kernel of attention, for the arguments of `HeadWriter`. The arrays: q, k, v and out.
    Scratch memory has ``key size`` rows, and `rows_at_once`."""
    w = HeadWriter(dtype, width, 4, masked)
    _, k_row, v_row, out_row = w.steps
    weights = w.at(w.scratch, w.key_size * w.line)
    with w.loop(w.begin, w.end) as head:
        q, k, v, out = w.begins(head)
        w.write_tiles(k, k_row, w.key_size, w.scratch)
        for rows, first, end in rounds_of(w, w.queries):
            with w.loop(first, end) as number:
                queries = [number * rows + r for r in range(rows)]
                kept = [w.at(weights, w.line * r) for r in range(rows)]
                shifts, divisors = _write_weights(w, head, q, queries, kept)
                logs = w.add(w.function_of("log", w.first_elements(divisors)), w.first_elements(shifts))
                mask = f"<{', '.join(f'i1 {int(k < rows)}' for k in range(width))}>"
                w.store(logs, w.at(w.totals, head * w.queries + queries[0]), mask)
                with w.loop(0, w.vectors(w.value_size)) as c:
                    column = c * width
                    parts = w.products(kept, 1, w.at(v, column), v_row, 0, *map(w.reach, queries))
                    for t, part, divisor in zip(queries, parts, divisors, strict=True):
                        w.store_at(w.div(part, divisor), out, t * out_row + column)
    return w.function()


def _write_weights(
    w: HeadWriter, head: Int, q: str, queries: list[Int], kept: list[str]
) -> tuple[list[Vector], list[Vector]]:
    """Write exp(score - largest) of some queries to memory; return what was subtracted from each query's, and sums."""
    dtype, lines = w.dtype, [w.at(q, t * w.steps[0]) for t in queries]
    keys = w.reach(queries[-1])
    largest = [w.variable(w.constant(-math.inf, dtype)) for _ in queries]
    with w.loop(0, w.vectors(keys)) as c:
        column = c * w.width
        scores = w.scores(lines, w.scratch, c, w.key_size)
        for t, x, top, line in zip(queries, scores, largest, kept, strict=True):
            limited = w.limited(x, head, t, column)
            w.set(top, w.extreme("maximum", w.get(top, dtype), limited))
            w.store_at(limited, line, column)
    tops = [w.largest(w.get(top, dtype)) for top in largest]
    infinity, zero = w.constant(math.inf, dtype), w.constant(0.0, dtype)
    shifts = [w.select(w.compare("olt", w.call("fabs", x), infinity), x, zero) for x in tops]
    sums = [w.variable(zero) for _ in queries]
    with w.loop(0, w.vectors(keys)) as c:
        for shift, total, line in zip(shifts, sums, kept, strict=True):
            place = w.at(line, c * w.width)
            x = w.function_of("exp", w.sub(w.load(place, dtype), shift))
            w.set(total, w.add(w.get(total, dtype), x))
            w.store(x, place)
    return shifts, [w.nonzero(w.total(w.get(total, dtype))) for total in sums]


_KEPT_BYTES = 1 << 16
"""The size in bytes of the weights that are kept at a time for the gradients."""


def run_attention_backward(
    grad: Any, q: Any, k: Any, v: Any, logsumexp: Any, mask: Any, offset: int | None, scale: float,
    out: Sequence[Any] | None = None,
) -> tuple[Any, Any, Any] | None:  # fmt: skip
    """Return the results of `Backend.attention_backward`, in the memory ``out`` if it is given; None without a kernel
    for these sizes."""
    chosen = attention_kernel(attention_backward, (q, k, v, grad, logsumexp), mask, offset)
    if chosen is None:
        return None
    grad_q, grad_k, grad_v = gradients_like(q, k, v) if out is None else out
    together = rows_at_once(chosen[1])
    most = max(together, _KEPT_BYTES // (k.shape[-2] * q.itemsize) // together * together)
    block = min(q.shape[-2], most)
    rows = k.shape[-1] + v.shape[-1] + 2 * block
    given = ([q, k, v, grad], [grad_q, grad_k, grad_v], np.ascontiguousarray(logsumexp))
    run_heads(*chosen, given, (mask, offset, scale), rows, block)
    if out is None and grad_q.base is grad_k.base is not None:
        for x in (grad_q.base, grad_q, grad_k, grad_v):  # so that `cat` may return the memory
            x.flags.writeable = False
    return grad_q, grad_k, grad_v


def attention_backward(dtype: str, width: int, masked: bool) -> str:
    """Return the text of the kernel of the gradients of q, k and v, for the arguments of `HeadWriter`.

    The arrays: q, k, v, the gradient, and the gradients of q, k and v. Scratch memory has ``key size + value size +
    2 · block`` rows.
    """
    w = HeadWriter(dtype, width, 7, masked)
    q_row, k_row, v_row, grad_row, *_ = w.steps
    values = w.at(w.scratch, w.key_size * w.line)
    weights = w.at(values, w.value_size * w.line)
    grad_scores = w.at(weights, w.block * w.line)
    with w.loop(w.begin, w.end) as head:
        q, k, v, grad, grad_q, grad_k, grad_v = w.begins(head)
        w.write_tiles(k, k_row, w.key_size, w.scratch)
        w.write_tiles(v, v_row, w.value_size, values)
        rounds = w.ceil_div(w.queries, w.block)
        with w.loop(0, rounds) as number:
            base = number * w.block
            count = w.smaller(w.queries - base, w.block)
            block = weights, grad_scores, w.at(grad, base * grad_row), w.at(q, base * q_row)
            for rows, first, end in rounds_of(w, count):
                with w.loop(first, end) as part:
                    queries = [part * rows + r for r in range(rows)]
                    _gradient_of_scores(w, head, base, queries, block)
                    _gradient_of_queries(w, base, queries, (grad_scores, k, grad_q))
            for rows, first, end in rounds_of(w, w.keys):
                with w.loop(first, end) as part:
                    keys = [part * rows + r for r in range(rows)]
                    _gradients_of_values_and_keys(w, base, count, keys, (*block, grad_v, grad_k))
    return w.function()


def _gradient_of_queries(w: HeadWriter, base: Int, queries: list[Int], arrays: tuple[str, ...]) -> None:
    """Write the products of the gradients of the queries' scores and the keys, times the factor of the scores."""
    grad_scores, k, grad_q = arrays
    ends = [w.reach(base + t) for t in queries]
    kept = [w.at(grad_scores, t * w.line) for t in queries]
    with w.loop(0, w.vectors(w.key_size)) as c:
        column = c * w.width
        sums = w.products(kept, 1, w.at(k, column), w.steps[1], 0, *ends)
        for t, x in zip(queries, sums, strict=True):
            place = (base + t) * w.steps[4] + column
            w.store_at(w.mul(x, w.scale), grad_q, place)


def _gradients_of_values_and_keys(
    w: HeadWriter, base: Int, count: Int, keys: list[Int], arrays: tuple[str, ...]
) -> None:
    """Add the products of the scratch memory of ``count`` queries from ``base`` on, and of their gradient and q."""
    weights, grad_scores, grads, lines, grad_v, grad_k = arrays
    begins = w.splat(w.icmp("eq", base, 0), "bool")  # the memory has no sums yet
    begin = keys[0] - w.offset - base  # the first query that attends to the first key
    begin = w.larger(begin, 0)
    for left, right, row, out, out_row, size in (
        (weights, grads, w.steps[3], grad_v, w.steps[6], w.value_size),
        (grad_scores, lines, w.steps[0], grad_k, w.steps[5], w.key_size),
    ):
        factors = [w.at(left, key) for key in keys]
        with w.loop(0, w.vectors(size)) as c:
            column = c * w.width
            sums = w.products(factors, w.line, w.at(right, column), row, begin, count)
            for key, x in zip(keys, sums, strict=True):
                place = w.at(out, key * out_row + column)
                x = w.mul(x, w.scale) if left is grad_scores else x
                before = w.select(begins, w.constant(0.0, w.dtype), w.load(place, w.dtype))
                w.store(w.add(before, x), place)


def _gradient_of_scores(w: HeadWriter, head: Int, base: Int, queries: list[Int], arrays: tuple[str, ...]) -> None:
    """Write the weights of some queries, and the gradients of their scores, to scratch memory. The queries are counted
    from ``base``. The arrays are the scratch memory, and the gradient and q from ``base`` on."""
    dtype, (weights, grad_scores, grads, lines) = w.dtype, arrays
    q_row, grad_row = w.steps[0], w.steps[3]
    values = w.at(w.scratch, w.key_size * w.line)
    every = [base + t for t in queries]
    logs = [w.load_one_at(w.totals, head * w.queries + t, dtype) for t in every]
    left = [w.at(lines, t * q_row) for t in queries], [w.at(grads, t * grad_row) for t in queries]
    kept = [(w.at(weights, t * w.line), w.at(grad_scores, t * w.line)) for t in queries]
    sums, levels = ([w.variable(w.constant(0.0, dtype)) for _ in queries] for _ in range(2))
    vectors = w.vectors(w.reach(every[-1]))
    with w.loop(0, vectors) as c:
        column = c * w.width
        scores = w.scores(left[0], w.scratch, c, w.key_size)
        for t, log, x, total, (line, _) in zip(every, logs, scores, sums, kept, strict=True):
            weight = w.function_of("exp", w.sub(w.limited(x, head, t, column), log))
            w.set(total, w.add(w.get(total, dtype), weight))
            w.store_at(weight, line, column)
        grad_weights = w.scores(left[1], values, c, w.value_size)
        for x, level, (line, other) in zip(grad_weights, levels, kept, strict=True):
            w.set(level, w.fma(x, w.load_at(line, column, dtype), w.get(level, dtype)))
            w.store_at(x, other, column)
    divisors = [w.nonzero(w.total(w.get(total, dtype))) for total in sums]
    means = [w.div(w.total(w.get(level, dtype)), divisor) for level, divisor in zip(levels, divisors, strict=True)]
    factors = [w.div(w.constant(1.0, dtype), divisor) for divisor in divisors]
    with w.loop(0, vectors) as c:
        column = c * w.width
        for mean, factor, places in zip(means, factors, kept, strict=True):
            line, other = (w.at(place, column) for place in places)
            weight = w.mul(w.load(line, dtype), factor)
            w.store(weight, line)
            w.store(w.mul(weight, w.sub(w.load(other, dtype), mean)), other)
