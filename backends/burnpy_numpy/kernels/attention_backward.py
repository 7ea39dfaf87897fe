"""The gradients of attention, by kernels that compute the weights of some queries again from their logsumexps."""

from __future__ import annotations

from typing import Any

import numpy as np

from burnpy_numpy.kernels.attention import ROWS, HeadWriter, attention_kernel, empty_like, rounds_of, run_heads

_KEPT = 1 << 16
"""The size in bytes of the weights that are kept at a time for the gradients."""


def run_attention_backward(
    grad: Any, q: Any, k: Any, v: Any, logsumexp: Any, mask: Any, offset: int | None, scale: float
) -> tuple[Any, Any, Any] | None:
    """Return the results of `Backend.attention_backward`; None without a kernel for these sizes."""
    chosen = attention_kernel(attention_backward, (q, k, v, grad, logsumexp), mask, offset)
    if chosen is None:
        return None
    out = [empty_like(x, x.shape) for x in (q, k, v)]
    for x in out[1:]:
        x.fill(0.0)
    most = max(ROWS, _KEPT // (k.shape[-2] * q.itemsize) // ROWS * ROWS)
    block = min(q.shape[-2], most)
    rows = k.shape[-1] + v.shape[-1] + 2 * block
    given = ([q, k, v, grad], out, np.ascontiguousarray(logsumexp))
    run_heads(*chosen, given, (mask, offset, scale), rows, block)
    return out[0], out[1], out[2]


def attention_backward(dtype: str, width: int, masked: bool) -> str:
    """Return the text of the kernel of the gradients of attention by q, k and v, for the arguments of `HeadWriter`.

    The arrays: q, k, v, the gradient, and the gradients by q, k and v; the last two are zeros. Scratch memory has
    ``key size + value size + 2 · block`` rows.
    """
    w = HeadWriter(dtype, width, 7, masked)
    scratch, (q_row, k_row, v_row, grad_row, by_q_row, by_k_row, by_v_row) = w.scratch, w.steps
    values = w.at(scratch, w.times(w.key_size, w.line))
    weights = w.at(values, w.times(w.value_size, w.line))
    by_scores = w.at(weights, w.times(w.block, w.line))
    with w.loop("%begin", "%end") as head:
        q, k, v, grad, by_q, by_k, by_v = w.begins(head)
        w.write_tiles(k, k_row, w.key_size, scratch)
        w.write_tiles(v, v_row, w.value_size, values)
        rounds = w.assign(f"sdiv i64 {w.plus(w.queries, w.plus(w.block, -1))}, {w.block}")
        with w.loop("0", rounds) as number:
            base = w.times(number, w.block)
            count = w.smaller(w.minus(w.queries, base), w.block)
            grads, lines = w.at(grad, w.times(base, grad_row)), w.at(q, w.times(base, q_row))
            for rows, first, end in rounds_of(w, count):
                with w.loop(first, end) as part:
                    queries = [w.plus(w.times(part, rows), r) for r in range(rows)]
                    _gradient_of_scores(w, head, base, queries, (grads, lines, weights, by_scores))
                    keys = w.reach(w.plus(base, queries[-1]))
                    kept = [w.at(by_scores, w.times(t, w.line)) for t in queries]
                    with w.loop("0", w.vectors(w.key_size)) as c:
                        column = w.times(c, width)
                        sums = w.products(kept, 1, w.at(k, column), k_row, "0", keys)
                        for t, x in zip(queries, sums, strict=True):
                            place = w.plus(w.times(w.plus(base, t), by_q_row), column)
                            w.store(w.mul(x, w.scale), w.at(by_q, place), None)
            for rows, first, end in rounds_of(w, w.keys):
                with w.loop(first, end) as part:
                    s = w.times(part, rows)
                    begin = w.minus(w.minus(s, w.offset), base)  # the first query that attends to the first key
                    begin = w.either(w.assign(f"icmp slt i64 {begin}, 0"), "0", begin, "i64")
                    for left, right, row, out, out_row, size in (
                        (weights, grads, grad_row, by_v, by_v_row, w.value_size),
                        (by_scores, lines, q_row, by_k, by_k_row, w.key_size),
                    ):
                        factors = [w.at(left, w.plus(s, r)) for r in range(rows)]
                        with w.loop("0", w.vectors(size)) as c:
                            column = w.times(c, width)
                            sums = w.products(factors, w.line, w.at(right, column), row, begin, count)
                            for r, x in enumerate(sums):
                                place = w.at(out, w.plus(w.times(w.plus(s, r), out_row), column))
                                x = w.mul(x, w.scale) if left is by_scores else x
                                w.store(w.add(w.load(place, dtype, None), x), place, None)
    return w.function()


def _gradient_of_scores(w: HeadWriter, head: str, base: str, queries: list[str], arrays: tuple[str, ...]) -> None:
    """Write the weights of some queries, and the gradients by their scores, to scratch memory.

    Args:
        w: the writer.
        head: the number of the head.
        base: the number of the first query that is kept.
        queries: the numbers of the queries, counted from it.
        arrays: the gradient and q from this query on, and memory for the weights and gradients.
    """
    dtype, (grads, lines, weights, by_scores) = w.dtype, arrays
    q_row, grad_row = w.steps[0], w.steps[3]
    values = w.at(w.scratch, w.times(w.key_size, w.line))
    every = [w.plus(base, t) for t in queries]
    logs = [w.load_one(w.at(w.totals, w.plus(w.times(head, w.queries), t)), dtype) for t in every]
    left = [w.at(lines, w.times(t, q_row)) for t in queries], [w.at(grads, w.times(t, grad_row)) for t in queries]
    kept = [(w.at(weights, w.times(t, w.line)), w.at(by_scores, w.times(t, w.line))) for t in queries]
    sums, levels = ([w.variable(w.constant(0.0, dtype)) for _ in queries] for _ in range(2))
    vectors = w.vectors(w.reach(every[-1]))
    with w.loop("0", vectors) as c:
        column = w.times(c, w.width)
        scores = w.scores(left[0], w.scratch, c, w.key_size)
        for t, log, x, total, (line, _) in zip(every, logs, scores, sums, kept, strict=True):
            weight = w.function_of("exp", w.sub(w.limited(x, head, t, column), log))
            w.set(total, w.add(w.get(total, dtype), weight))
            w.store(weight, w.at(line, column), None)
        by_weights = w.scores(left[1], values, c, w.value_size)
        for x, level, (line, other) in zip(by_weights, levels, kept, strict=True):
            w.set(level, w.fma(x, w.load(w.at(line, column), dtype, None), w.get(level, dtype)))
            w.store(x, w.at(other, column), None)
    divisors = [w.nonzero(w.total(w.get(total, dtype))) for total in sums]
    means = [w.div(w.total(w.get(level, dtype)), divisor) for level, divisor in zip(levels, divisors, strict=True)]
    factors = [w.div(w.constant(1.0, dtype), divisor) for divisor in divisors]
    with w.loop("0", vectors) as c:
        column = w.times(c, w.width)
        for mean, factor, places in zip(means, factors, kept, strict=True):
            line, other = (w.at(place, column) for place in places)
            weight = w.mul(w.load(line, dtype, None), factor)
            w.store(weight, line, None)
            w.store(w.mul(weight, w.sub(w.load(other, dtype, None), mean)), other, None)
