"""Rules of what picks and places elements by indices."""

from __future__ import annotations

import math
from typing import Any

from burnpy.autodiff.graph import Placed, identity
from burnpy.autodiff.rules.algebra import linear, structural
from burnpy.backend.backend import Backend
from burnpy.backend.dtypes import int64
from burnpy.backend.primitives import Bool, Float, Int, Shape


def add_index(i: Any, total: Float | None, shape: Shape, dim: int, index: Int, g: Float) -> Float:
    """``total``, or zeros, with g's slices added at ``index``."""
    return i.accumulate_index(i.full(shape, 0.0, g.dtype) if total is None else total, dim, index, g)


def put_over(i: Any, g: Float, dim: int, index: Int, src_shape: Shape) -> Float:
    """What is left of the gradient where ``index_put`` wrote nothing."""
    return i.index_put(g, dim, index, i.full(src_shape, 0.0, g.dtype))


def put(i: Any, g: Float, dim: int, index: Int, src_shape: Shape) -> Float:
    """The gradient of what ``index_put`` wrote; of duplicates only the last has one."""
    winners = i.discrete.reshape(
        last_writers(i, index, g.shape[dim]), (index.shape[0], *(1,) * (len(src_shape) - dim - 1))
    )
    return i.where(winners, i.index_select(g, dim, index), 0.0)


def scatter_over(i: Any, g: Float, dim: int, index: Int) -> Float:
    """What is left of the gradient where ``scatter`` wrote nothing."""
    return i.scatter(g, dim, index, i.full(index.shape, 0.0, g.dtype))


def scattered(i: Any, g: Float, dim: int, index: Int) -> Float:
    """The gradient of what ``scatter`` wrote; of duplicates only the last has one."""
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
    """g added up where it was gathered from."""
    return i.scatter_add(i.full(x_shape, 0.0, g.dtype), dim, index, g)


structural(Backend.index_select, lambda i, g, x_shape, dim, index: Placed(add_index, x_shape, dim, index, g))
structural(Backend.index_put, put_over, put)
linear(Backend.index_add, identity, lambda i, g, dim, index: i.index_select(g, dim, index))
structural(Backend.gather, gathered)
structural(Backend.scatter, scatter_over, scattered)
linear(Backend.scatter_add, identity, lambda i, g, dim, index: i.gather(g, dim, index))
