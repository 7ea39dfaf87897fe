"""Operations that read or write elements at indices, which are int64, non-negative and in range; embeddings."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from burnpy.backend.dtypes import int64
from burnpy.backend.errors import BatchedError
from burnpy.backend.operations import OperationsBase
from burnpy.backend.operations.scans import others
from burnpy.backend.primitives import Bool, Dim, Float, Inexact, Int, Key, Real, Shape, Value
from burnpy.backend.rules import (
    BATCH_SLICE,
    SHIFTED,
    PartialGrad,
    add_at_index,
    embedding_vjp,
    fold,
    identity,
    indexed_rows,
    unfold,
)
from burnpy.backend.schema import BILINEAR, GENERAL, LINEAR, NONDIFFERENTIABLE, STRUCTURAL, derived, required


def index_put_src_vjp(i: Any, g: Float, dim: int, index: Int, src_shape: Shape) -> Float:
    """Return the gradient of the values that ``index_put`` wrote; of duplicate indices, only the last has one."""
    winners = i.discrete.reshape(
        last_writers(i, index, g.shape[dim]), (index.shape[0], *(1,) * (len(src_shape) - dim - 1))
    )
    return i.where(winners, i.index_select(g, dim, index), 0.0)


def scatter_src_vjp(i: Any, g: Float, dim: int, index: Int) -> Float:
    """Return the gradient of the values that ``scatter`` wrote; of duplicate indices, only the last has one."""
    d = i.discrete
    order = d.reshape(d.arange(0, prod(index.shape), 1, int64), index.shape)
    written = d.scatter(d.full(g.shape, -1, int64), dim, index, order)
    return i.where(d.eq(d.gather(written, dim, index), order), i.gather(g, dim, index), 0.0)


def last_writers(i: Any, index: Int, size: int) -> Bool:
    """For each position of a 1-d index into ``size`` slices, whether no later position has the same index."""
    d = i.discrete
    order = d.arange(0, index.shape[0], 1, int64)
    written = d.index_put(d.full((size,), -1, int64), 0, index, order)
    return d.eq(d.index_select(written, 0, index), order)


def ties(i: Any, dim: int, index: Int, x: Float, src: Float, out: Float) -> tuple[Bool, Bool, Float]:
    """Return the ties of ``index_reduce`` with amax or amin: masks of extremes in x and in src, and their number."""
    d = i.discrete
    mine = is_extreme(i, x, out)
    theirs = is_extreme(i, src, i.index_select(out, dim, index))
    count = d.index_add(d.to_int(mine, int64), dim, index, d.to_int(theirs, int64))  # floats of 16 bits count to 256
    return mine, theirs, i.to_float(count, out.dtype)


def is_extreme(i: Any, x: Float, extreme: Float) -> Bool:
    """Return a mask of the elements of x equal to the extreme; NaN counts as equal to NaN."""
    return i.discrete.bitwise_or(i.eq(x, extreme), i.ne(x, x))


def other_factors_of_src(i: Any, dim: int, index: Int, x: Float, src: Float) -> Float:
    """Return the derivative of ``index_reduce`` with prod by each slice of src: the product of all other factors."""
    d = i.discrete
    order = i.index_order(index, x.shape[dim])
    ordered = d.index_select(index, 0, order)
    rest = i.mul(i.index_select(x, dim, ordered), others(i, i.index_select(src, dim, order), dim, ordered))
    back = d.index_put(order, 0, order, d.arange(0, index.shape[0], 1, int64))
    return i.index_select(rest, dim, back)


def other_factors_of_x(i: Any, dim: int, index: Int, x: Float, src: Float) -> Float:
    """Return the derivative of ``index_reduce`` with prod by x: the product of src's slices."""
    return i.index_reduce(i.full(x.shape, 1.0, x.dtype), dim, index, src, "prod")


def index_reduce_x_vjp(i: Any, g: Float, x: Float, dim: int, index: Int, src: Float, out: Float, reduce: str) -> Float:
    """Return the gradient or the tangent by x: g times the product of the others, or split evenly among the ties."""
    if reduce == "prod":
        return i.mul(g, other_factors_of_x(i, dim, index, x, src))
    mine, _, count = ties(i, dim, index, x, src, out)
    return i.where(mine, i.div(g, count), 0.0)


def index_reduce_src_vjp(
    i: Any, g: Float, x: Float, dim: int, index: Int, src: Float, out: Float, reduce: str
) -> Float:
    """Return the gradient of src: g times the product of the others, or g split evenly among the ties."""
    if reduce == "prod":
        return i.mul(i.index_select(g, dim, index), other_factors_of_src(i, dim, index, x, src))
    _, theirs, count = ties(i, dim, index, x, src, out)
    return i.where(theirs, i.index_select(i.div(g, count), dim, index), 0.0)


def index_reduce_src_jvp(
    i: Any, t: Float, x: Float, dim: int, index: Int, src: Float, out: Float, reduce: str
) -> Float:
    """Return the sum of src's tangents, each times the product of the others, or the mean over the ties."""
    zeros = i.full(x.shape, 0.0, x.dtype)
    if reduce == "prod":
        return i.index_add(zeros, dim, index, i.mul(t, other_factors_of_src(i, dim, index, x, src)))
    _, theirs, count = ties(i, dim, index, x, src, out)
    return i.div(i.index_add(zeros, dim, index, i.where(theirs, t, 0.0)), count)


def index_select_batch(b: Any, x: Any, dim: int, index: Any) -> Any:
    """One look-up for all examples."""
    i, d = b.inner_of(x), b.inner.discrete
    if not index.batched:
        return b.batched(i.index_select(x.value, dim + 1, index.value))
    (rows,) = index.shape
    if x.batched:
        return unfold(b, i, i.index_select(fold(b, x, dim), dim, index_in_fold(b, x.shape[dim], index)), rows, dim)
    return unfold(b, i, i.index_select(x.value, dim, d.reshape(index.value, (b.size * rows,))), rows, dim)


def index_in_fold(b: Any, size: int, index: Any) -> Any:
    """Return the batched 1-d ``index`` of ``size`` slices as one into the folded slices of all examples, 1-d."""
    d, count = b.inner.discrete, b.size
    first = d.reshape(d.arange(0, count * size, size, int64) if size else d.full((count,), 0, int64), (count, 1))
    return d.reshape(d.add(index.value, first), (count * index.shape[0],))


def indexed_update_batch(name: str) -> Any:
    """Return the rule of an operation that writes slices of ``src`` at a 1-d index."""

    def rule(b: Any, x: Any, dim: int, index: Any, src: Any) -> Any:
        i = b.inner_of(x)
        if not index.batched:
            return b.batched(getattr(i, name)(b.spread(x), dim + 1, index.value, b.spread(src)))
        rows = x.shape[dim]
        places = index_in_fold(b, rows, index)
        return unfold(b, i, getattr(i, name)(fold(b, x, dim), dim, places, fold(b, src, dim)), rows, dim)

    return rule


index_put_batch, index_add_batch = indexed_update_batch("index_put"), indexed_update_batch("index_add")


def nonzero_batch(b: Any, x: Any) -> Any:
    """Refuse: each example would have a result of another shape."""
    raise BatchedError(
        "vmap() got a function whose result has a shape that depends on values, as in x[mask] or nonzero(), so that it "
        "may differ between examples; use burnpy.where(mask, x, ...) or x.masked_fill(...)"
    )


def accumulate_batch(b: Any, total: Any, grad: Any) -> Any:
    """Add in the memory of a total that has the batch dimension."""
    if not total.batched:
        return b.add(total, grad)
    return b.batched(b.inner_of(total).accumulate(total.value, b.spread(grad)))


def owned_batch(b: Any, total: Any) -> Any:
    """Return the inner primitive of a total with the batch dimension, in memory that only it has."""
    return total.value if total.batched else b.inner_of(total).add(b.spread(total), 0.0)


def accumulate_slice_batch(b: Any, total: Any, key: Key, grad: Any) -> Any:
    """Add to the slices of all examples."""
    out = b.inner_of(total).accumulate_slice(owned_batch(b, total), (BATCH_SLICE, *key), b.spread(grad))
    return b.batched(out)


def accumulate_index_batch(b: Any, total: Any, dim: int, index: Any, grad: Any) -> Any:
    """Add to the slices of all examples; with an index for each, to the folded ones."""
    if index.batched:
        return b.index_add(total, dim, index, grad)
    i = b.inner_of(total)
    return b.batched(i.accumulate_index(owned_batch(b, total), dim + 1, index.value, b.spread(grad)))


class Indexing(OperationsBase):
    """Indexing of whole slices with a 1-d index (``index_*``), and of single elements (gather, scatter)."""

    @required(
        STRUCTURAL,
        indexed="x",
        vjp=lambda i, g, x_shape, dim, index: PartialGrad(add_at_index, x_shape, dim, index, g),
        batch=index_select_batch,
        onnx="shapes.index_select",
    )
    def index_select(self, x: Value, dim: Dim, index: Int) -> Value:
        """Select slices of x along ``dim`` with a 1-d ``index``."""
        ...

    @required(
        STRUCTURAL,
        like="x",
        vjp=(
            lambda i, g, dim, index, src_shape: i.index_put(g, dim, index, i.full(src_shape, 0.0, g.dtype)),
            index_put_src_vjp,
        ),
        batch=index_put_batch,
        onnx="shapes.index_put",
    )
    def index_put(self, x: Value, dim: Dim, index: Int, src: Value) -> Value:
        """Return a copy of x with the slices at a 1-d ``index`` along ``dim`` set to src; the last duplicate wins."""
        ...

    @required(
        LINEAR,
        like="x",
        flops=lambda src: prod(src),
        vjp=(identity, lambda i, g, dim, index: i.index_select(g, dim, index)),
        batch=index_add_batch,
        onnx="shapes.index_add",
    )
    def index_add(self, x: Value, dim: Dim, index: Int, src: Value) -> Value:
        """Return a copy of x with src added to the slices at a 1-d ``index`` along ``dim``; duplicates accumulate."""
        ...

    @required(NONDIFFERENTIABLE, batch=nonzero_batch, onnx="whole node")
    def nonzero(self, x: Bool) -> Int:
        """Return indices of the true elements in row-major order, int64 of shape (count, ndim)."""
        ...

    @derived(
        STRUCTURAL,
        indexed="x",
        vjp=lambda i, g, x_shape, dim, index: i.scatter_add(i.full(x_shape, 0.0, g.dtype), dim, index, g),
        batch=SHIFTED,
        onnx="shapes.gather",
    )
    def gather(self, x: Value, dim: Dim, index: Int) -> Value:
        """Gather elements along ``dim``: ``out[i][j] = x[index[i][j]][j]`` for a 2-d x and dim 0.

        ``index`` has as many dimensions as x, and is no larger than x in the dimensions other than ``dim``.
        """
        picked = self.index_select(self.reshape(x, (prod(x.shape),)), 0, flat_index(self.discrete, x.shape, dim, index))
        return self.reshape(picked, index.shape)

    @derived(
        STRUCTURAL,
        like="x",
        vjp=(lambda i, g, dim, index: i.scatter(g, dim, index, i.full(index.shape, 0.0, g.dtype)), scatter_src_vjp),
        batch=SHIFTED,
        onnx="shapes.scatter",
    )
    def scatter(self, x: Value, dim: Dim, index: Int, src: Value) -> Value:
        """Return a copy of x with ``x[index[i][j]][j] = src[i][j]`` (2-d x, dim 0); the last duplicate wins."""
        flat, count = self.reshape(x, (prod(x.shape),)), prod(index.shape)
        return self.reshape(
            self.index_put(flat, 0, flat_index(self.discrete, x.shape, dim, index), self.reshape(src, (count,))),
            x.shape,
        )

    @derived(
        LINEAR,
        like="x",
        flops=lambda src: prod(src),
        vjp=(identity, lambda i, g, dim, index: i.gather(g, dim, index)),
        batch=SHIFTED,
        onnx="shapes.scatter_add",
    )
    def scatter_add(self, x: Value, dim: Dim, index: Int, src: Value) -> Value:
        """Return a copy of x with ``x[index[i][j]][j] += src[i][j]`` (2-d x, dim 0); duplicates accumulate.

        ``src`` has the shape of ``index``.
        """
        flat, count = self.reshape(x, (prod(x.shape),)), prod(index.shape)
        return self.reshape(
            self.index_add(flat, 0, flat_index(self.discrete, x.shape, dim, index), self.reshape(src, (count,))),
            x.shape,
        )

    @derived(
        GENERAL,
        like="x",
        flops=lambda src: prod(src),
        vjp=(index_reduce_x_vjp, index_reduce_src_vjp),
        jvp=(index_reduce_x_vjp, index_reduce_src_jvp),
        onnx="shapes.index_reduce",
    )
    def index_reduce(self, x: Real, dim: Dim, index: Int, src: Real, reduce: str) -> Real:
        """Return a copy of x with src reduced ("prod", "amin", "amax") into the slices at a 1-d ``index`` of ``dim``.

        Duplicates are reduced together; NaN propagates. The default sorts by index, and copies no values to the CPU.
        """
        from burnpy.backend.operations.scans import running

        order = self.index_order(index, x.shape[dim])
        ordered = self.discrete.index_select(index, 0, order)
        combine = {"prod": self.mul, "amin": self.minimum, "amax": self.maximum}[reduce]
        neutral = 1 if reduce == "prod" else None
        totals = running(self, combine, neutral, self.index_select(src, dim, order), dim, ordered)
        combined = combine(self.index_select(x, dim, ordered), totals)
        return self.index_put(x, dim, ordered, combined)  # the last duplicate, which holds the whole total, wins

    @derived(NONDIFFERENTIABLE, onnx="reductions.index_order")
    def index_order(self, index: Int, size: int) -> Int:
        """Stable argsort of a 1-d ``index`` with values in [0, size).

        The default is a binary radix sort: a stable partition of the positions by each bit.
        Source: G. E. Blelloch, Prefix Sums and Their Applications, 1990.
        """
        d = self.discrete
        count = index.shape[0]
        positions = order = d.arange(0, count, 1, int64)
        for bit in range(max(size - 1, 0).bit_length() if count else 0):
            digit = d.bitwise_and(d.floor_divide(d.index_select(index, 0, order), 1 << bit), 1)
            ones = d.cumsum(digit, 0)
            zeros = d.sub(d.full((), count, int64), d.slice(ones, (count - 1,)))
            place = d.where(d.eq(digit, 1), d.add(d.sub(ones, 1), zeros), d.sub(positions, ones))
            order = d.index_put(order, 0, place, order)
        return order

    @derived(NONDIFFERENTIABLE, batch=SHIFTED)
    def one_hot(self, index: Int, classes: int) -> Int:
        """One-hot encoding, int64: 1 at ``index`` of a new last dimension of size ``classes``, 0 elsewhere."""
        d = self.discrete
        return d.to_int(d.eq(d.reshape(index, (*index.shape, 1)), d.arange(0, classes, 1, int64)), int64)

    @derived(NONDIFFERENTIABLE, elementwise=True, flops=2, onnx="shapes.unchecked")
    def bounded(self, index: Int, low: int, high: int, error: Callable[[int], Exception], ignored: int | None) -> Int:
        """Clamp an int64 ``index`` to [low, high]; raise ``error(i)`` for an i out of range, as `defer_check` does.

        An index that is ``ignored`` is not an error, and becomes ``low``.
        """
        if 0 in index.shape:
            return index
        if ignored is not None:
            index = self.where(self.ne(index, ignored), index, low)
        dims = tuple(range(len(index.shape)))
        self.defer_check(
            (self.amin(index, dims, False), self.amax(index, dims, False)),
            lambda least, most: out_of_bounds(least, most, low, high, error),
        )
        return self.minimum(self.maximum(index, low), high)

    @derived(LINEAR, like="total", consumes="total", flops=1, batch=accumulate_batch)
    def accumulate(self, total: Inexact, grad: Inexact) -> Inexact:
        """Compute total + grad, of the same shape and dtype; may reuse the memory of ``total``."""
        return self.add(total, grad)

    @derived(
        LINEAR,
        like="total",
        consumes="total",
        indexed="total",
        flops=lambda grad: prod(grad),
        batch=accumulate_slice_batch,
    )
    def accumulate_slice(self, total: Inexact, key: Key, grad: Inexact) -> Inexact:
        """Add grad to ``total[key]`` and return total; may reuse the memory of ``total``."""
        return self.slice_scatter(total, key, self.add(self.slice(total, key), grad))

    @derived(
        LINEAR,
        like="total",
        consumes="total",
        indexed="total",
        flops=lambda grad: prod(grad),
        batch=accumulate_index_batch,
    )
    def accumulate_index(self, total: Inexact, dim: Dim, index: Int, grad: Inexact) -> Inexact:
        """Compute ``index_add(total, dim, index, grad)``; may reuse the memory of ``total``."""
        return self.index_add(total, dim, index, grad)


def out_of_bounds(least: int, most: int, low: int, high: int, error: Callable[[int], Exception]) -> Exception | None:
    """Return the error of `Backend.bounded` for values from ``least`` to ``most``; None if they are within bounds."""
    return error(most if most > high else least) if most > high or least < low else None


def flat_index(d: OperationsBase, shape: Shape, dim: int, index: Int) -> Int:
    """Return the 1-d row-major offsets, in ``shape``, of the elements that ``index`` selects along ``dim``."""
    step = prod(shape[dim + 1 :])
    total = index if step == 1 else d.mul(index, step)
    for other, size in enumerate(index.shape):
        if other != dim:
            offset = d.mul(d.arange(0, size, 1, int64), prod(shape[other + 1 :]))
            total = d.add(total, d.reshape(offset, (size, *(1,) * (len(shape) - other - 1))))
    return d.reshape(total, (prod(index.shape),))


def embedding_jvp(i: Any, t: Float, index: Int, padding: int | None) -> Float:
    """Return the tangent of an embedding: rows of the weight's tangent, which is 0 at ``padding``."""
    out = i.embedding(t, index, None)
    if padding is None:
        return out
    return i.where(i.discrete.reshape(i.discrete.ne(index, padding), (*index.shape, 1)), out, 0.0)


def embedding_batch(b: Any, weight: Any, index: Any, padding: int | None) -> Any:
    """One look-up of all indices, if all examples share the weight."""
    if weight.batched:
        return Embedding.embedding(b, weight, index, padding)
    return b.batched(b.inner.embedding(weight.value, index.value, padding))


class Embedding(OperationsBase):
    """Operations on rows of matrices, with int64 indices, which are in range."""

    @derived(
        GENERAL,
        indexed="weight",
        flops=0,
        vjp=embedding_vjp,
        jvp=embedding_jvp,
        batch=embedding_batch,
        onnx="shapes.embedding",
    )
    def embedding(self, weight: Float, index: Int, padding: int | None) -> Float:
        """Look up rows of weight at an int64 ``index`` of any shape; the row ``padding`` has gradient 0."""
        if padding is not None:
            column = self.discrete.reshape(
                self.discrete.arange(0, weight.shape[0], 1, index.dtype), (weight.shape[0], 1)
            )
            weight = self.where(self.discrete.ne(column, padding), weight, self.detach(weight))
        rows = self.index_select(weight, 0, self.discrete.reshape(index, (prod(index.shape),)))
        return self.reshape(rows, (*index.shape, weight.shape[1]))

    @derived(LINEAR, flops=lambda grad: prod(grad), vjp=embedding_jvp)
    def embedding_backward(self, grad: Float, index: Int, shape: Shape, padding: int | None) -> Float:
        """Gradient of `embedding` with respect to the weight of the given shape: rows of grad summed by index."""
        return self.index_add(self.full(shape, 0.0, grad.dtype), 0, *indexed_rows(self, grad, index, padding))

    @derived(
        BILINEAR,
        flops=lambda x, source: 2 * source[0] * x[1],
        vjp=(
            lambda i, g, source, target, scale, x_shape: i.sum_rows(g, target, source, scale, x_shape[0]),
            lambda i, g, x, source, target: i.dot_rows(x, g, source, target),
        ),
    )
    def sum_rows(self, x: Float, source: Int, target: Int, scale: Float, count: int) -> Float:
        """Return sums of rows, (count, size): row target[j] is the sum of scale[j] · x[source[j]] over all such j."""
        rows = self.mul(self.index_select(x, 0, source), self.reshape(scale, (scale.shape[0], 1)))
        return self.index_add(self.full((count, x.shape[1]), 0.0, x.dtype), 0, target, rows)

    @derived(
        BILINEAR,
        flops=lambda x, source: 2 * source[0] * x[1],
        vjp=(
            lambda i, g, y, source, target, x_shape: i.sum_rows(y, target, source, g, x_shape[0]),
            lambda i, g, x, source, target, y_shape: i.sum_rows(x, source, target, g, y_shape[0]),
        ),
    )
    def dot_rows(self, x: Float, y: Float, source: Int, target: Int) -> Float:
        """Scalar products of rows, one for each index: x[source[j]] · y[target[j]]."""
        products = self.mul(self.index_select(x, 0, source), self.index_select(y, 0, target))
        return self.sum(products, (1,), False)
