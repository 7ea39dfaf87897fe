"""Rules of reductions, scans and orders along dimensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burnpy.backend.dtypes import bool_, int32, int64
from burnpy.interop.onnx.rules.rule import GraphWriter, Operand, is_float


def reduction(kind: str) -> Callable[..., Any]:
    """Return the rule of a reduction over dims, with ``keepdim``; sums and products of ints are int64."""

    def rule(g: GraphWriter, x: Operand, dims: Any, keepdim: bool) -> Any:
        adds = kind in ("ReduceSum", "ReduceProd")
        value = g.cast(x, int64) if adds and not is_float(x.dtype) else x
        return g.node(kind, value, g.sizes(dims), keepdims=int(keepdim), noop_with_empty_axes=1)

    return rule


reduce_sum, reduce_prod, reduce_mean = reduction("ReduceSum"), reduction("ReduceProd"), reduction("ReduceMean")
reduce_max, reduce_min, reduce_logsumexp = reduction("ReduceMax"), reduction("ReduceMin"), reduction("ReduceLogSumExp")


def truth(kind: str) -> Callable[..., Any]:
    """Return the rule of a reduction of bools."""

    def rule(g: GraphWriter, x: Operand, dims: Any, keepdim: bool) -> Any:
        number = g.node(kind, g.cast(x, int32), g.sizes(dims), keepdims=int(keepdim), noop_with_empty_axes=1)
        return g.node("Cast", number, to=bool_)

    return rule


reduce_any, reduce_all = truth("ReduceMax"), truth("ReduceMin")


def arg_reduction(kind: str) -> Callable[..., Any]:
    """Return the rule of the index of an extreme."""

    def rule(g: GraphWriter, x: Operand, dim: int, keepdim: bool) -> Any:
        return g.node(kind, x, axis=dim, keepdims=int(keepdim))

    return rule


argmax, argmin = arg_reduction("ArgMax"), arg_reduction("ArgMin")


def along(kind: str) -> Callable[..., Any]:
    """Return the rule of a function along one dim."""

    def rule(g: GraphWriter, x: Operand, dim: int) -> Any:
        return g.node(kind, x, axis=dim - len(x.shape))  # from the end, as readers look for it

    return rule


softmax, log_softmax = along("Softmax"), along("LogSoftmax")


def cumsum(g: GraphWriter, x: Operand, dim: int) -> Any:
    """Write a cumulative sum; of ints it is int64."""
    return g.node("CumSum", g.cast(x, int64) if not is_float(x.dtype) else x, g.constant(dim, int64))


def argsort(g: GraphWriter, x: Operand, dim: int, descending: bool) -> Any:
    """Write the indices of all elements in order."""
    return topk(g, x, dim, x.shape[dim], descending)[1]


def topk(g: GraphWriter, x: Operand, dim: int, k: Any, largest: bool) -> Any:
    """Write the largest or smallest elements and their indices."""
    return g.node("TopK", x, g.sizes((k,)), axis=dim, largest=int(largest), sorted=1, results=2)
