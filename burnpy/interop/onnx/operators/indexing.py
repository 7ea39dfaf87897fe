"""Operators at indices."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from burnpy.interop.onnx.operators.table import GraphWriter, Operand, Value, arange, cast, common_dtype, only, operator
from burnpy.tensor.joining import where

REDUCTIONS = {"mul": "prod", "max": "amax", "min": "amin"}


def wrapped(index: Value, size: int) -> Value:
    """Return an index of int64 whose negative elements count from the end."""
    index = cast(index, "int64")
    return where(index < 0, index + size, index)


@operator("Gather")
def gather(x: Value, index: Value, *, axis: int = 0) -> Value:
    """Select slices at an index of any shape."""
    dim = axis % x.ndim
    places = wrapped(index, x.shape[dim])
    return x.index_select(dim, places.reshape(-1)).reshape(*x.shape[:dim], *places.shape, *x.shape[dim + 1 :])


@operator("GatherElements")
def gather_elements(x: Value, index: Value, *, axis: int = 0) -> Value:
    """Select elements along an axis."""
    dim = axis % x.ndim
    return x.gather(dim, wrapped(index, x.shape[dim]))


def flat_index(index: Value, sizes: tuple[int, ...]) -> Value:
    """Return the row-major place of index tuples, which are the last dimension of ``index``."""
    flat: Value = 0
    for k, size in enumerate(sizes):
        places = wrapped(index[..., k], size)
        checked = arange(size, index.device).index_select(0, places.reshape(-1))  # else 3 of 2 would be in the next row
        flat = flat * size + checked.reshape(*places.shape)
    return flat


@operator("GatherND")
def gather_nd(x: Value, index: Value, *, batch_dims: int = 0) -> Value:
    """Select slices at tuples of indices."""
    b, k = batch_dims, index.shape[-1]
    lead, inner = math.prod(x.shape[:b]), x.shape[b : b + k]
    rest, size = x.shape[b + k :], math.prod(inner)
    flat = flat_index(index.reshape(lead, -1, k), inner) + arange(lead, x.device).unsqueeze(1) * size
    picked = x.reshape(lead * size, *rest).index_select(0, flat.reshape(-1))
    return picked.reshape(*index.shape[:-1], *rest)


@operator("ScatterElements", "Scatter")
def scatter_elements(x: Value, index: Value, updates: Value, *, axis: int = 0, reduction: str = "none") -> Value:
    """Write or combine elements along an axis."""
    dim = axis % x.ndim
    places = wrapped(index, x.shape[dim])
    if reduction == "none":
        return x.scatter(dim, places, updates)
    return x.scatter_reduce(dim, places, updates, {"add": "sum", **REDUCTIONS}[reduction])


@operator("ScatterND")
def scatter_nd(x: Value, index: Value, updates: Value, *, reduction: str = "none") -> Value:
    """Write or combine slices at tuples of indices."""
    k = index.shape[-1]
    lead, rest = math.prod(x.shape[:k]), x.shape[k:]
    flat = flat_index(index.reshape(-1, k), x.shape[:k])
    whole, values = x.reshape(lead, *rest), updates.reshape(flat.shape[0], *rest)
    if reduction == "none":
        out = whole.index_copy(0, flat, values)
    elif reduction == "add":
        out = whole.index_add(0, flat, values)
    else:
        out = whole.index_reduce(0, flat, values, REDUCTIONS[reduction])
    return out.reshape(*x.shape)


@operator("TensorScatter")
def tensor_scatter(cache: Value, update: Value, starts: Value = None, *, axis: int = -2, mode: str = "linear") -> Value:
    """Write an update into a cache, at a start for each member of the batch."""
    dim = axis % cache.ndim
    moved, part = cache.movedim(dim, 1), update.movedim(dim, 1)
    steps = arange(part.shape[1], cache.device).unsqueeze(0)
    first = steps * 0 if starts is None else cast(starts, "int64").unsqueeze(1)
    places = (first + steps).remainder(moved.shape[1]) if mode == "circular" else first + steps
    places = places.reshape(*places.shape, *(1,) * (moved.ndim - 2)).expand(*part.shape)
    return moved.scatter(1, places, part).movedim(1, dim)


@operator("Compress")
def compress(x: Value, mask: Value, *, axis: int | None = None) -> Value:
    """Select the slices whose mask is true."""
    flat = x.reshape(-1) if axis is None else x
    dim = 0 if axis is None else axis % x.ndim
    return flat.index_select(dim, mask.nonzero().reshape(-1))


def write_index_select(g: GraphWriter, x: Operand, dim: int, index: Operand) -> Any:
    """Write a Gather."""
    return g.node("Gather", x, index, axis=dim)


def write_embedding(g: GraphWriter, weight: Operand, index: Operand, padding: int | None) -> Any:
    """Write a Gather of rows."""
    return g.node("Gather", weight, index, axis=0)


def write_gather(g: GraphWriter, x: Operand, dim: int, index: Operand) -> Any:
    """Write a GatherElements."""
    return g.node("GatherElements", x, index, axis=dim)


def element_update(reduction: str) -> Callable[..., Any]:
    """Return the rule of an update of elements at an index."""

    def rule(g: GraphWriter, x: Operand, dim: int, index: Operand, src: Operand) -> Any:
        dtype = common_dtype(x, src)
        values = g.node("Slice", g.cast(src, dtype), *_inside(g, index))
        return g.node("ScatterElements", g.cast(x, dtype), index, values, axis=dim, reduction=reduction)

    return rule


def _inside(g: GraphWriter, index: Operand) -> tuple[str, ...]:
    """Return the inputs of a Slice to an index's shape: src may be larger."""
    axes = list(range(len(index.shape)))
    return g.sizes([0] * len(axes)), g.node("Shape", index), g.sizes(axes)


write_scatter, write_scatter_add = element_update("none"), element_update("add")


def index_update(reduction: str) -> Callable[..., Any]:
    """Return the rule of an update of the slices at a 1-d index."""

    def rule(g: GraphWriter, x: Operand, dim: int, index: Operand, src: Operand) -> Any:
        dtype = common_dtype(x, src)
        column = g.node("Unsqueeze", index, g.sizes([k for k in range(len(src.shape)) if k != dim]))
        places = g.node("Expand", column, g.node("Shape", src))
        return g.node("ScatterElements", g.cast(x, dtype), places, g.cast(src, dtype), axis=dim, reduction=reduction)

    return rule


write_index_put, write_index_add = index_update("none"), index_update("add")


@only(when=lambda *args: len(args) == 1 or args[4] is None)
def write_unchecked(g: GraphWriter, index: Operand, *rest: Any) -> Any:
    """Return an index as it is: the operators that use it check it."""
    return index
