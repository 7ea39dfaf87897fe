"""Rules of operations that select and place elements by indices."""

from __future__ import annotations

import math
from typing import Any

from burnpy.autodiff.graph import PartialGrad, identity
from burnpy.autodiff.rules.algebra import general, linear, structural
from burnpy.backend.backend import Backend
from burnpy.backend.dtypes import int64
from burnpy.backend.operations.segments import others
from burnpy.backend.primitives import Bool, Float, Int, Shape


def add_index(i: Any, total: Float | None, shape: Shape, dim: int, index: Int, g: Float) -> Float:
    """``total``, or zeros, with g's slices added at ``index``."""
    return i.accumulate_index(i.full(shape, 0.0, g.dtype) if total is None else total, dim, index, g)


def put_over(i: Any, g: Float, dim: int, index: Int, src_shape: Shape) -> Float:
    """The gradient by x: g where ``index_put`` wrote nothing, else 0."""
    return i.index_put(g, dim, index, i.full(src_shape, 0.0, g.dtype))


def put(i: Any, g: Float, dim: int, index: Int, src_shape: Shape) -> Float:
    """The gradient by the values that ``index_put`` wrote; for duplicate indices only the last one has a gradient."""
    winners = i.discrete.reshape(
        last_writers(i, index, g.shape[dim]), (index.shape[0], *(1,) * (len(src_shape) - dim - 1))
    )
    return i.where(winners, i.index_select(g, dim, index), 0.0)


def scatter_over(i: Any, g: Float, dim: int, index: Int) -> Float:
    """The gradient by x: g where ``scatter`` wrote nothing, else 0."""
    return i.scatter(g, dim, index, i.full(index.shape, 0.0, g.dtype))


def scattered(i: Any, g: Float, dim: int, index: Int) -> Float:
    """The gradient by the values that ``scatter`` wrote; for duplicate indices only the last one has a gradient."""
    d = i.discrete
    order = d.reshape(d.arange(0, math.prod(index.shape), 1, int64), index.shape)
    written = d.scatter(d.full(g.shape, -1, int64), dim, index, order)
    return i.where(d.eq(d.gather(written, dim, index), order), i.gather(g, dim, index), 0.0)


def last_writers(i: Any, index: Int, size: int) -> Bool:
    """For each position of a 1-d index into ``size`` slices, whether no later position has the same index."""
    d = i.discrete
    order = d.arange(0, index.shape[0], 1, int64)
    written = d.index_put(d.full((size,), -1, int64), 0, index, order)
    return d.eq(d.index_select(written, 0, index), order)


def gathered(i: Any, g: Float, x_shape: Shape, dim: int, index: Int) -> Float:
    """The gradient of ``gather``: g accumulated at the indices."""
    return i.scatter_add(i.full(x_shape, 0.0, g.dtype), dim, index, g)


def ties(i: Any, dim: int, index: Int, x: Float, src: Float, out: Float) -> tuple[Bool, Bool, Float]:
    """The ties of ``index_reduce`` with amax or amin: masks of x and src where they are extreme, and their number."""
    d = i.discrete
    mine = is_extreme(i, x, out)
    theirs = is_extreme(i, src, i.index_select(out, dim, index))
    count = d.index_add(d.to_int(mine, int64), dim, index, d.to_int(theirs, int64))  # floats of 16 bits count to 256
    return mine, theirs, i.to_float(count, out.dtype)


def is_extreme(i: Any, x: Float, extreme: Float) -> Bool:
    """A mask of the elements of x equal to the extreme; NaN counts as equal to NaN."""
    return i.discrete.bitwise_or(i.eq(x, extreme), i.ne(x, x))


def rest_of_src(i: Any, dim: int, index: Int, x: Float, src: Float) -> Float:
    """The derivative of ``index_reduce`` with prod by each slice of src: the product of all other factors."""
    d = i.discrete
    order = i.index_order(index, x.shape[dim])
    ordered = d.index_select(index, 0, order)
    rest = i.mul(i.index_select(x, dim, ordered), others(i, i.index_select(src, dim, order), dim, ordered))
    back = d.index_put(order, 0, order, d.arange(0, index.shape[0], 1, int64))
    return i.index_select(rest, dim, back)


def rest_of_x(i: Any, dim: int, index: Int, x: Float, src: Float) -> Float:
    """The derivative of ``index_reduce`` with prod by x: the product of src's slices."""
    return i.index_reduce(i.full(x.shape, 1.0, x.dtype), dim, index, src, "prod")


def reduced_x(i: Any, g: Float, x: Float, dim: int, index: Int, src: Float, out: Float, reduce: str) -> Float:
    """The gradient by x: g times the product of the others, or g split evenly among the ties; also the jvp by x."""
    if reduce == "prod":
        return i.mul(g, rest_of_x(i, dim, index, x, src))
    mine, _, count = ties(i, dim, index, x, src, out)
    return i.where(mine, i.div(g, count), 0.0)


def reduced_src(i: Any, g: Float, x: Float, dim: int, index: Int, src: Float, out: Float, reduce: str) -> Float:
    """The gradient by src: g times the product of the others, or g split evenly among the ties."""
    if reduce == "prod":
        return i.mul(i.index_select(g, dim, index), rest_of_src(i, dim, index, x, src))
    _, theirs, count = ties(i, dim, index, x, src, out)
    return i.where(theirs, i.index_select(i.div(g, count), dim, index), 0.0)


def reduced_src_jvp(i: Any, t: Float, x: Float, dim: int, index: Int, src: Float, out: Float, reduce: str) -> Float:
    """The sum of src's tangents, each times the product of the others, or the share of the ties in their mean."""
    zeros = i.full(x.shape, 0.0, x.dtype)
    if reduce == "prod":
        return i.index_add(zeros, dim, index, i.mul(t, rest_of_src(i, dim, index, x, src)))
    _, theirs, count = ties(i, dim, index, x, src, out)
    return i.div(i.index_add(zeros, dim, index, i.where(theirs, t, 0.0)), count)


structural(Backend.index_select, lambda i, g, x_shape, dim, index: PartialGrad(add_index, x_shape, dim, index, g))
structural(Backend.index_put, put_over, put)
linear(Backend.index_add, identity, lambda i, g, dim, index: i.index_select(g, dim, index))
structural(Backend.gather, gathered)
structural(Backend.scatter, scatter_over, scattered)
general(Backend.index_reduce, vjps=(reduced_x, reduced_src), jvps=(reduced_x, reduced_src_jvp))
linear(Backend.scatter_add, identity, lambda i, g, dim, index: i.gather(g, dim, index))
