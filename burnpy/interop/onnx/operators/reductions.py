"""Reductions, scans, orders and softmax."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from burnpy.backend.dtypes import int32, int64
from burnpy.interop.onnx.operators.table import (
    GraphWriter,
    Ints,
    Operand,
    Value,
    cast,
    is_float,
    like,
    operator,
    tensor,
)
from burnpy.tensor.joining import cat, where
from burnpy.tensor.tensor import BoolTensor, Tensor

Reduce = Callable[[Value, tuple[int, ...], bool], Value]


def _sum(x: Value, dims: tuple[int, ...], keepdim: bool) -> Value:
    return cast(x.sum(dim=dims, keepdim=keepdim), x.dtype) if dims else x


def _extreme(name: str) -> Reduce:
    def reduce(x: Value, dims: tuple[int, ...], keepdim: bool) -> Value:
        if not dims:
            return x
        if isinstance(x, BoolTensor):
            return x.any(dim=dims, keepdim=keepdim) if name == "amax" else x.all(dim=dims, keepdim=keepdim)
        if any(x.shape[d] == 0 for d in dims):
            kept = [1 if k in dims else n for k, n in enumerate(x.shape) if keepdim or k not in dims]
            limits = (-math.inf, math.inf) if isinstance(x, Tensor) else (np.iinfo(x.dtype).min, np.iinfo(x.dtype).max)
            return like(x, kept, limits[name == "amin"])
        return getattr(x, name)(dims, keepdim)

    return reduce


def _prod(x: Value, dims: tuple[int, ...], keepdim: bool) -> Value:
    for d in sorted(dims, reverse=True):
        x = cast(x.prod(dim=d, keepdim=keepdim), x.dtype)
    return x


def _l2(x: Value, dims: tuple[int, ...], keepdim: bool) -> Value:
    wide = x if isinstance(x, Tensor) else cast(x, "float64")
    return cast(_sum(wide * wide, dims, keepdim).sqrt(), x.dtype)


def _through_floats(f: Reduce) -> Reduce:
    """Return a reduction that computes ints in float64."""
    return lambda x, dims, keepdim: cast(f(x if isinstance(x, Tensor) else cast(x, "float64"), dims, keepdim), x.dtype)


REDUCTIONS: dict[str, Reduce] = {
    "ReduceSum": _sum,
    "ReduceMean": _through_floats(lambda x, dims, keepdim: x.mean(dim=dims, keepdim=keepdim) if dims else x),
    "ReduceMax": _extreme("amax"),
    "ReduceMin": _extreme("amin"),
    "ReduceProd": _prod,
    "ReduceSumSquare": lambda x, dims, keepdim: _sum(x * x, dims, keepdim),
    "ReduceL1": lambda x, dims, keepdim: _sum(x.abs(), dims, keepdim),
    "ReduceL2": _l2,
    "ReduceLogSum": _through_floats(lambda x, dims, keepdim: _sum(x, dims, keepdim).log()),
    "ReduceLogSumExp": _through_floats(lambda x, dims, keepdim: x.logsumexp(dim=dims, keepdim=keepdim) if dims else x),
}


@operator(*REDUCTIONS)
def reduce(
    x: Value,
    axes_: Ints | None = None,
    *,
    kind: str,
    axes: tuple[int, ...] | None = None,
    keepdims: int = 1,
    noop_with_empty_axes: int = 0,
) -> Value:
    """Reduce over axes, which older opsets have as an attribute; over all if there are none."""
    chosen = axes_ or axes or ()
    if not chosen and not noop_with_empty_axes:
        chosen = tuple(range(x.ndim))
    dims = tuple(sorted({d % max(x.ndim, 1) for d in chosen})) if x.ndim else ()
    return REDUCTIONS[kind](x, dims, bool(keepdims))


@operator("ArgMax", "ArgMin")
def arg_extreme(x: Value, *, kind: str, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Value:
    """Return the index of an extreme, the first or the last one of equal elements."""
    name = kind.lower()
    if select_last_index:
        return (x.shape[axis] - 1) - getattr(x.flip(axis), name)(dim=axis, keepdim=bool(keepdims))
    return getattr(x, name)(dim=axis, keepdim=bool(keepdims))


@operator("CumSum", "CumProd")
def scan(x: Value, axis: Ints, *, kind: str, exclusive: int = 0, reverse: int = 0) -> Value:
    """Return cumulative sums or products."""
    d = axis[0] % x.ndim
    x = x.flip(d) if reverse else x
    y = cast(getattr(x, kind.lower())(dim=d), x.dtype)
    if exclusive:
        first = like(x, [1 if k == d else n for k, n in enumerate(x.shape)], 0 if kind == "CumSum" else 1)
        y = cat([first, y.narrow(d, 0, x.shape[d] - 1)], dim=d)
    return y.flip(d) if reverse else y


@operator("TopK")
def topk(x: Value, k: Ints = (), *, k_: int | None = None, axis: int = -1, largest: int = 1, sorted: int = 1) -> Any:
    """Return the largest or smallest elements and their indices."""
    return tuple(x.topk(k[0] if k else k_, dim=axis, largest=bool(largest)))


@operator("Softmax", "LogSoftmax", "Hardmax")
def softmax(x: Value, *, kind: str, opset: int, axis: int | None = None) -> Value:
    """Return the softmax along an axis; before opset 13 along all from it on."""
    if opset < 13:
        first = (1 if axis is None else axis) % max(x.ndim, 1)
        flat = x.reshape(math.prod(x.shape[:first]), math.prod(x.shape[first:]))
        return _softmax(flat, kind, 1).reshape(*x.shape)
    return _softmax(x, kind, -1 if axis is None else axis)


def _softmax(x: Value, kind: str, dim: int) -> Value:
    if kind == "Hardmax":
        return cast(x.argmax(dim=dim).one_hot(x.shape[dim]), x.dtype).movedim(-1, dim)
    return x.softmax(dim=dim) if kind == "Softmax" else x.log_softmax(dim=dim)


@operator("Unique")
def unique(x: Value, *, axis: int | None = None, sorted: int = 1) -> Any:
    """Return the unique elements or slices, their first indices, the inverse and the counts."""
    values, *rest = np.unique(x.to_numpy(), return_index=True, return_inverse=True, return_counts=True, axis=axis)
    first, inverse, counts = [part.reshape(-1).astype(np.int64) for part in rest]
    if not sorted:
        order = np.argsort(first)
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        values = np.take(values, order, axis=0 if axis is None else axis)
        first, counts, inverse = first[order], counts[order], place[inverse]
    return tuple([tensor(np.ascontiguousarray(part), x.device) for part in (values, first, inverse, counts)])


@operator("NonZero")
def nonzero(x: Value) -> Value:
    """Return the indices of the elements that are not zero, by dimension."""
    return (x if isinstance(x, BoolTensor) else x != 0).nonzero().T


@operator("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def nll_loss(
    x: Value,
    target: Value,
    weight: Value = None,
    *,
    kind: str,
    ignore_index: int | None = None,
    reduction: str = "mean",
    outputs: int = 1,
) -> Any:
    """Return the weighted negative log probability of the targets, and the log probabilities too."""
    target = cast(target, "int64")
    log_p = x.log_softmax(dim=1) if kind.startswith("Softmax") else x
    safe = target if ignore_index is None else where(target == ignore_index, 0, target)
    loss = -log_p.gather(1, safe.unsqueeze(1)).squeeze(1)
    shares = (
        like(x, target.shape, 1.0)
        if weight is None
        else weight.index_select(0, safe.reshape(-1)).reshape(*target.shape)
    )
    if ignore_index is not None:
        shares = shares.masked_fill(target == ignore_index, 0.0)
    loss = loss * shares
    if reduction == "mean":
        loss = loss.sum() / shares.sum()
    elif reduction == "sum":
        loss = loss.sum()
    return (loss, log_p) if outputs > 1 else loss


def reduction(kind: str) -> Callable[..., Any]:
    """Return the rule of a reduction over dims, with ``keepdim``; sums and products of ints are int64."""

    def rule(g: GraphWriter, x: Operand, dims: Any, keepdim: bool) -> Any:
        adds = kind in ("ReduceSum", "ReduceProd")
        value = g.cast(x, int64) if adds and not is_float(x.dtype) else x
        return g.node(kind, value, g.sizes(dims), keepdims=int(keepdim), noop_with_empty_axes=1)

    return rule


write_reduce_sum, write_reduce_prod = reduction("ReduceSum"), reduction("ReduceProd")
write_reduce_mean, write_reduce_logsumexp = reduction("ReduceMean"), reduction("ReduceLogSumExp")
write_reduce_max, write_reduce_min = reduction("ReduceMax"), reduction("ReduceMin")


def truth(kind: str) -> Callable[..., Any]:
    """Return the rule of a reduction of bools."""

    def rule(g: GraphWriter, x: Operand, dims: Any, keepdim: bool) -> Any:
        number = g.node(kind, g.cast(x, int32), g.sizes(dims), keepdims=int(keepdim), noop_with_empty_axes=1)
        return g.node("Greater", number, g.constant(0, int32))  # the extreme of none is the dtype's last number

    return rule


write_reduce_any, write_reduce_all = truth("ReduceMax"), truth("ReduceMin")


def arg_reduction(kind: str) -> Callable[..., Any]:
    """Return the rule of the index of an extreme."""

    def rule(g: GraphWriter, x: Operand, dim: int, keepdim: bool) -> Any:
        return g.node(kind, x, axis=dim, keepdims=int(keepdim))

    return rule


write_argmax, write_argmin = arg_reduction("ArgMax"), arg_reduction("ArgMin")


def along(kind: str) -> Callable[..., Any]:
    """Return the rule of a function along one dim."""

    def rule(g: GraphWriter, x: Operand, dim: int) -> Any:
        return g.node(kind, x, axis=dim - len(x.shape))  # from the end, as readers look for it

    return rule


write_softmax, write_log_softmax = along("Softmax"), along("LogSoftmax")


def write_cumsum(g: GraphWriter, x: Operand, dim: int) -> Any:
    """Write a cumulative sum; of ints it is int64."""
    return g.node("CumSum", g.cast(x, int64) if not is_float(x.dtype) else x, g.constant(dim, int64))


def write_argsort(g: GraphWriter, x: Operand, dim: int, descending: bool) -> Any:
    """Write the indices of all elements in order."""
    return write_topk(g, x, dim, x.shape[dim], descending)[1]


def write_topk(g: GraphWriter, x: Operand, dim: int, k: Any, largest: bool) -> Any:
    """Write the largest or smallest elements and their indices."""
    return g.node("TopK", x, g.sizes((k,)), axis=dim, largest=int(largest), sorted=1, results=2)
