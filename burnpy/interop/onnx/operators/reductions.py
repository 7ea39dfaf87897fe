"""Reductions, scans, orders, softmax and normalizations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from burnpy.backend.dtypes import float32, int32, int64
from burnpy.interop.onnx.operators.table import (
    MICROSOFT,
    GraphWriter,
    Ints,
    Kept,
    Maybe,
    Operand,
    Scalar,
    Value,
    arange,
    cast,
    is_float,
    like,
    only,
    operator,
    rule,
    tensor,
)
from burnpy.nn import functional
from burnpy.tensor.joining import cat, stack, where
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
def reduce(x: Value, axes: Ints = (), *, kind: str, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Value:
    """Reduce over axes; over all if there are none."""
    chosen = axes or (() if noop_with_empty_axes else range(x.ndim))
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
def topk(x: Value, k: Scalar = None, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> Any:
    """Return the largest or smallest elements and their indices."""
    return tuple(x.topk(k, dim=axis, largest=bool(largest)))


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
def nonzero(x: Kept, device_like: Value = None) -> Value:
    """Return the indices of the elements that are not zero, by dimension, or those of all on a tensor's device."""
    kept = x if isinstance(x, BoolTensor) else x != 0
    if device_like is None or not x.shape or not kept.all().item():
        return kept.nonzero().T
    axes = [arange(n, device_like.device).reshape(-1, *(1,) * (x.ndim - k)) for k, n in enumerate(x.shape, 1)]
    return stack([axis.expand(*x.shape) for axis in axes], dim=0).reshape(x.ndim, x.numel())


@operator("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def nll_loss(
    x: Value,
    target: Value,
    weight: Value = None,
    *,
    kind: str,
    ignore_index: int | None = None,
    reduction: Literal["mean", "sum", "none"] = "mean",
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


def _channels(x: Value, value: Value) -> Value:
    return value.reshape(1, -1, *(1,) * (x.ndim - 2))


@operator("BatchNormalization")
def batch_norm(
    x: Value,
    scale: Value,
    bias: Value,
    mean: Value,
    var: Value,
    *,
    epsilon: float = 1e-5,
    is_test: int = 1,
    momentum: float = 0.9,
    training_mode: int = 0,
    spatial: int = 1,
    outputs: int = 1,
) -> Any:
    """Normalize by given statistics; in training mode by those of the batch, with the running averages."""
    own, spread = mean, var
    if training_mode:
        dims = tuple(k for k in range(x.ndim) if k != 1)
        own, spread = x.mean(dim=dims), x.var(dim=dims, correction=0)
    factor = scale * (spread + epsilon).rsqrt()
    out = (x - _channels(x, own)) * _channels(x, factor) + _channels(x, bias)
    if outputs == 1:
        return out
    averages = [old * momentum + new * (1.0 - momentum) for old, new in ((mean, own), (var, spread))]
    return (out, *averages)[:outputs]


@operator("InstanceNormalization")
def instance_norm(x: Value, scale: Value, bias: Value, *, epsilon: float = 1e-5) -> Value:
    """Normalize each channel of each example."""
    return functional.group_norm(x, x.shape[1], scale, bias, eps=epsilon)


@operator("GroupNormalization")
def group_norm(
    x: Value, scale: Value, bias: Value, *, epsilon: float = 1e-5, num_groups: int, stash_type: int = 1, opset: int
) -> Value:
    """Normalize groups of channels; before opset 21 scale and bias are of groups."""
    if opset < 21:
        each = x.shape[1] // num_groups
        scale, bias = scale.repeat_interleave(each, dim=0), bias.repeat_interleave(each, dim=0)
    return functional.group_norm(x, num_groups, scale, bias, eps=epsilon)


def _expanded(x: Value, shape: tuple[int, ...]) -> Value:
    return x if x is None or x.shape == shape else x.expand(*shape)


@operator("LayerNormalization")
def layer_norm(
    x: Value,
    scale: Value,
    bias: Value = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
    outputs: int = 1,
) -> Any:
    """Normalize the last dimensions, from an axis on; the mean and the inverse deviation are further results."""
    first = axis % x.ndim
    shape = x.shape[first:]
    if outputs == 1:
        return functional.layer_norm(x, shape, _expanded(scale, shape), _expanded(bias, shape), eps=epsilon)
    dims = tuple(range(first, x.ndim))
    wide = cast(x, "float32") if x.dtype.itemsize == 2 and stash_type == 1 else x
    mean = wide.mean(dim=dims, keepdim=True)
    inverse = (wide.var(dim=dims, correction=0, keepdim=True) + epsilon).rsqrt()
    out = cast((wide - mean) * inverse, x.dtype) * scale
    return (out if bias is None else out + bias, mean, inverse)[:outputs]


@operator("RMSNormalization", "SimplifiedLayerNormalization")
def rms_norm(
    x: Value, scale: Value, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1, outputs: int = 1
) -> Any:
    """Divide by the root mean square of the last dimensions, from an axis on; its inverse is a further result.

    onnxruntime has the second name in ONNX's domain.
    """
    shape = x.shape[axis % x.ndim :]
    out = functional.rms_norm(x, shape, _expanded(scale, shape), eps=epsilon)
    if outputs == 1:
        return out
    return out, ((x * x).mean(dim=tuple(range(axis % x.ndim, x.ndim)), keepdim=True) + epsilon).rsqrt()


@operator("MeanVarianceNormalization")
def mean_variance_norm(x: Value, *, axes: tuple[int, ...] = (0, 2, 3)) -> Value:
    """Normalize over axes."""
    centred = x - x.mean(dim=axes, keepdim=True)
    return centred / ((centred * centred).mean(dim=axes, keepdim=True).sqrt() + 1e-9)


@operator("LpNormalization")
def lp_norm(x: Value, *, axis: int = -1, p: int = 2) -> Value:
    """Divide by the p-norm along an axis; zeros stay."""
    norm = (x.abs() ** p).sum(dim=axis, keepdim=True) ** (1.0 / p)
    return x / norm.masked_fill(norm == 0, 1.0)


@operator("LRN")
def local_response_norm(x: Value, *, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0, size: int) -> Value:
    """Normalize across neighbouring channels."""
    low, high = (size - 1) // 2, math.ceil((size - 1) / 2)
    squares = functional.pad(x * x, [*(0, 0) * (x.ndim - 2), low, high])
    sums = squares[:, 0 : x.shape[1]]
    for k in range(1, size):
        sums = sums + squares[:, k : k + x.shape[1]]
    return x / (bias + alpha / size * sums) ** beta


@operator("SkipLayerNormalization", domain=MICROSOFT)
def skip_layer_norm(
    x: Value,
    skip: Value,
    scale: Value,
    shift: Value = None,
    bias: Value = None,
    *,
    epsilon: float = 1e-12,
    outputs: int = 1,
) -> Any:
    """Normalize x + skip + bias; the mean, the inverse deviation and the sum are further results."""
    total = x + skip if bias is None else x + bias + skip
    if outputs == 1:
        return layer_norm(total, scale, shift, epsilon=epsilon)
    return (*layer_norm(total, scale, shift, epsilon=epsilon, outputs=3), total)[:outputs]


@operator("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_rms_norm(
    x: Value, skip: Value, scale: Value, bias: Value = None, *, epsilon: float = 1e-12, outputs: int = 1
) -> Any:
    """Divide x + skip + bias by its root mean square; the mean, the inverse root and the sum are further results."""
    total = x + skip if bias is None else x + bias + skip
    if outputs == 1:
        return rms_norm(total, scale, epsilon=epsilon)
    out, inverse = rms_norm(total, scale, epsilon=epsilon, outputs=2)
    return (out, total.mean(dim=-1, keepdim=True), inverse, total)[:outputs]


@operator("EmbedLayerNormalization", domain=MICROSOFT)
def embed_layer_norm(
    ids: Value,
    segments: Maybe,
    words: Value,
    places: Value,
    kinds: Maybe,
    scale: Value,
    shift: Value,
    mask: Value = None,
    positions: Value = None,
    *,
    epsilon: float = 1e-12,
    mask_index_type: int = 0,
    outputs: int = 1,
) -> Any:
    """Normalize the sum of embeddings of words, places and segments; the lengths and the sum are further results."""
    rows = arange(ids.shape[1], ids.device) if positions is None else cast(positions, "int64")
    total = words[cast(ids, "int64")] + places[rows]
    if kinds is not None and segments is not None:
        total = total + kinds[cast(segments, "int64")]
    out = layer_norm(total, scale, shift, epsilon=epsilon)
    if outputs == 1:
        return out
    ones = like(cast(ids, "int32"), ids.shape, 0) if mask is None else mask
    return (out, cast(ones.sum(dim=1), "int32"), total)[:outputs]


@operator("GroupNorm", domain=MICROSOFT)
def image_group_norm(
    x: Value, scale: Value, bias: Value, *, activation: int, channels_last: int = 1, epsilon: float = 1e-5, groups: int
) -> Value:
    """Normalize groups of channels, which are last, with SiLU if ``activation`` is 1."""
    first = x.movedim(-1, 1) if channels_last else x
    out = group_norm(first, scale, bias, epsilon=epsilon, num_groups=groups, opset=21)
    out = out.silu() if activation else out
    return out.movedim(1, -1) if channels_last else out


def reduction(kind: str) -> Callable[..., Any]:
    """Return the rule of a reduction over dims, with ``keepdim``; sums and products of ints are int64."""

    def write(g: GraphWriter, x: Operand, dims: Any, keepdim: bool) -> Any:
        adds = kind in ("ReduceSum", "ReduceProd")
        value = g.cast(x, int64) if adds and not is_float(x.dtype) else x
        return g.node(kind, value, g.sizes(dims), keepdims=int(keepdim), noop_with_empty_axes=1)

    return write


write_reduce_sum, write_reduce_prod = reduction("ReduceSum"), reduction("ReduceProd")
write_reduce_mean, write_reduce_logsumexp = reduction("ReduceMean"), reduction("ReduceLogSumExp")
write_reduce_max, write_reduce_min = reduction("ReduceMax"), reduction("ReduceMin")


def truth(kind: str) -> Callable[..., Any]:
    """Return the rule of a reduction of bools."""

    def write(g: GraphWriter, x: Operand, dims: Any, keepdim: bool) -> Any:
        number = g.node(kind, g.cast(x, int32), g.sizes(dims), keepdims=int(keepdim), noop_with_empty_axes=1)
        return g.node("Greater", number, g.constant(0, int32))  # the extreme of none is the dtype's last number

    return write


write_reduce_any, write_reduce_all = truth("ReduceMax"), truth("ReduceMin")


def along(kind: str) -> Callable[..., Any]:
    """Return the rule of a function along one dim, counted from the end, as readers look for it."""
    return lambda g, x, dim: g.node(kind, x, axis=dim - len(x.shape))


def write_cumsum(g: GraphWriter, x: Operand, dim: int) -> Any:
    """Write a cumulative sum; of ints it is int64."""
    return g.node("CumSum", g.cast(x, int64) if not is_float(x.dtype) else x, g.constant(dim, int64))


def write_topk(g: GraphWriter, x: Operand, dim: int, k: Any, largest: bool) -> Any:
    """Write the largest or smallest elements and their indices; the operator has no bfloat16."""
    wide = float32 if x.dtype.name == "bfloat16" else x.dtype
    values, index = g.node("TopK", g.cast(x, wide), g.sizes((k,)), axis=dim, largest=int(largest), sorted=1, results=2)
    return g.cast(Operand(values, (), wide), x.dtype), index


write_argsort = rule(lambda g, x, dim, descending: write_topk(g, x, dim, x.shape[dim], descending)[1])
write_index_order = rule(lambda g, index, size: write_argsort(g, index, 0, False))
write_argmax = rule(lambda g, x, dim, keepdim: g.node("ArgMax", x, axis=dim, keepdims=int(keepdim)))
write_argmin = rule(lambda g, x, dim, keepdim: g.node("ArgMin", x, axis=dim, keepdims=int(keepdim)))
write_softmax, write_log_softmax = along("Softmax"), along("LogSoftmax")


def is_trailing(x: Any, weight: Any, dims: Any) -> bool:
    """Return whether ``dims`` are the last ones of x, and a weight has their shape."""
    return tuple(dims) == tuple(range(len(x.shape) - len(dims), len(x.shape))) and weight.shape == x.shape[-len(dims) :]


@only(when=lambda x, weight, bias, dims, eps: is_trailing(x, weight, dims))
def write_layer_norm(g: GraphWriter, x: Operand, weight: Operand, bias: Operand, dims: Any, eps: float) -> Any:
    """Write a LayerNormalization, which does not give the variance."""
    out, mean = g.node("LayerNormalization", x, weight, bias, axis=-len(dims), epsilon=eps, results=2)
    return out, mean, None


@only(since=23, when=lambda x, weight, dims, eps: is_trailing(x, weight, dims))
def write_rms_norm(g: GraphWriter, x: Operand, weight: Operand, dims: Any, eps: float) -> Any:
    """Write an RMSNormalization."""
    return g.node("RMSNormalization", x, weight, axis=-len(dims), epsilon=eps)
