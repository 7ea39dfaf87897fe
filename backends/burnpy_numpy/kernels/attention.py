"""`CompiledAttention`: attention and its gradients by kernels, which read and write arrays where they lie.

Of sizes that have no such kernel, the softmax of the scores and its gradient are kernels on rows.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.dtypes import float32, float64, int64
from burnpy.backend.primitives import Shape
from burnpy_array import ArrayBackend
from burnpy_numpy.kernels.operations import LEAST, LONGEST, kernel_of, kernels_enabled, template_kernel
from burnpy_numpy.threads import shared

if TYPE_CHECKING:
    from burnpy_numpy.kernels.kernel import NamedKernel

ROWS = 4
"""The number of queries, or of keys, whose products are summed up at once; every vector is a multiple of it long."""
_PRODUCTS = 8
"""The number of products that take as long as an operation of one element elsewhere."""
_KEPT = 1 << 16
"""The size in bytes of the weights that are kept at a time for the gradients."""
_LONG, _WIDE = 256, 64
"""The number of keys and the size of keys or values above which products of matrices take less time, if no key can be
left out because of a causal mask."""


class CompiledAttention(ArrayBackend):
    """Attention and its gradients, where the sizes of keys and values are multiples of 4."""

    def attention(self, q: Any, k: Any, v: Any, mask: Any, offset: int | None, scale: float) -> tuple[Any, Any]:
        chosen = _kernel("attention", (q, k, v), mask, offset)
        if chosen is None:
            return super().attention(q, k, v, mask, offset, scale)
        out, totals = _empty_like(q, (*q.shape[:-1], v.shape[-1])), np.empty(q.shape[:-1], q.dtype)
        _run(*chosen, ([q, k, v], [out], totals), (mask, offset, scale), k.shape[-1] + ROWS, ROWS)
        return out, totals

    def attention_backward(
        self,
        grad: Any,
        q: Any,
        k: Any,
        v: Any,
        logsumexp: Any,
        mask: Any,
        offset: int | None,
        scale: float,
    ) -> tuple[Any, Any, Any]:
        chosen = _kernel("attention_backward", (q, k, v, grad, logsumexp), mask, offset)
        if chosen is None:
            return super().attention_backward(grad, q, k, v, logsumexp, mask, offset, scale)
        out = [_empty_like(x, x.shape) for x in (q, k, v)]
        for x in out[1:]:
            x.fill(0.0)
        most = max(ROWS, _KEPT // (k.shape[-2] * q.itemsize) // ROWS * ROWS)
        block = min(q.shape[-2], most)
        rows = k.shape[-1] + v.shape[-1] + 2 * block
        given = ([q, k, v, grad], out, np.ascontiguousarray(logsumexp))
        _run(*chosen, given, (mask, offset, scale), rows, block)
        return out[0], out[1], out[2]

    def _attention_weights(self, scores: Any) -> tuple[Any, Any, Any]:
        kernel = _rowwise("attention_weights", ("full",), scores)
        if kernel is None:
            return super()._attention_weights(scores)
        heads, queries, keys = scores.shape
        weights, sums, logs = kernel([scores], (), heads * queries, keys)
        small = (heads, queries, 1)
        return weights.reshape(scores.shape), sums.reshape(small), logs.reshape(small)

    def _attention_weights_again(self, scores: Any, logsumexp: Any) -> tuple[Any, Any]:
        kernel = _rowwise("attention_weights_again", ("full", "column"), scores, logsumexp)
        if kernel is None:
            return super()._attention_weights_again(scores, logsumexp)
        heads, queries, keys = scores.shape
        weights, sums = kernel([scores, logsumexp], (), heads * queries, keys)
        return weights.reshape(scores.shape), sums.reshape((heads, queries, 1))

    def _attention_scores_gradient(self, grad: Any, weights: Any, sums: Any) -> Any:
        kernel = _rowwise("attention_scores_gradient", ("full", "full", "column"), grad, weights, sums)
        if kernel is None:
            return super()._attention_scores_gradient(grad, weights, sums)
        heads, queries, keys = grad.shape
        (out,) = kernel([grad, weights, sums], (), heads * queries, keys)
        return out.reshape(grad.shape)


def _kernel(name: str, arrays: tuple[Any, ...], mask: Any, offset: int | None) -> tuple[NamedKernel, int] | None:
    """Return the kernel for q, k, v and other arrays, and the number of elements of its vectors; None without one."""
    q, k, v, *_ = arrays
    dtype = q.dtype
    if (
        (dtype is not float32 and dtype is not float64)
        or q.size * k.shape[-2] < LEAST * q.shape[-1]
        or k.shape[-1] % ROWS
        or v.shape[-1] % ROWS
        or not v.size
        or any(x.dtype is not dtype for x in arrays)
        or (offset is None and k.shape[-2] > _LONG and max(k.shape[-1], v.shape[-1]) > _WIDE)
        or not kernels_enabled()
    ):
        return None
    from burnpy_numpy.kernels.compiler import vector_bytes

    width = math.gcd(k.shape[-1], v.shape[-1], vector_bytes() // q.itemsize)
    kernel = template_kernel(
        "attention_kernels", name, "float32" if dtype is float32 else "float64", width, mask is not None
    )
    return None if kernel is None else (kernel, width)


def _rowwise(name: str, extents: tuple[str, ...], scores: Any, *others: Any) -> Any:
    """Return a kernel on the rows of scores, which are (heads, queries, keys), if large and of a usual dtype."""
    dtype = scores.dtype
    if scores.size < LEAST or scores.shape[2] > LONGEST or (dtype is not float32 and dtype is not float64):
        return None
    if any(x.dtype is not dtype for x in others):
        return None
    return kernel_of(name, extents, scores.dtype, ())


def _run(
    kernel: NamedKernel,
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
    tables = (*arrays, totals, places, np.array(scale, q.dtype), allowed, places if masks is None else masks)
    steps = [x.strides[-2] // item for x in arrays]
    first = keys if offset is None else min(max(offset, -queries), keys)
    sizes = (queries, keys, size, values, line, first, mask_row, block, *steps)

    def work(begin: int, end: int) -> None:
        scratch = np.empty(rows * line, q.dtype)
        kernel([scratch, *tables], sizes, begin, end)

    shared(work, math.prod(lead), queries * keys * (size + values) / _PRODUCTS)
    kernel.note()


def _readable(x: Any) -> Any:
    """Return an array whose rows lie together, and at distances of whole elements."""
    *steps, last = x.strides
    if last != x.itemsize or any(step % last for step in steps):
        return np.ascontiguousarray(x)
    return x


def _empty_like(x: Any, shape: Shape) -> Any:
    """Return memory for an array, in which heads lie within positions if they do so in ``x``."""
    if x.ndim > 2 and x.strides[-3] < x.strides[-2]:
        *lead, heads, count, size = shape
        return np.empty((*lead, count, heads, size), x.dtype).swapaxes(-3, -2)
    return np.empty(shape, x.dtype)


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
