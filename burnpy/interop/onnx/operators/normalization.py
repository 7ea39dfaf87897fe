"""Normalizations."""

from __future__ import annotations

import math
from typing import Any

from burnpy.interop.onnx.operators.table import (
    MICROSOFT,
    GraphWriter,
    Maybe,
    Operand,
    Value,
    arange,
    cast,
    like,
    only,
    operator,
)
from burnpy.nn import functional


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
    if not training_mode:
        factor = scale * (var + epsilon).rsqrt()
        return x * _channels(x, factor) + _channels(x, bias - mean * factor)
    dims = tuple(k for k in range(x.ndim) if k != 1)
    own, spread = x.mean(dim=dims), x.var(dim=dims, correction=0)
    factor = scale * (spread + epsilon).rsqrt()
    out = x * _channels(x, factor) + _channels(x, bias - own * factor)
    averages = [old * momentum + new * (1.0 - momentum) for old, new in ((mean, own), (var, spread))]
    return (out, *averages)[:outputs] if outputs > 1 else out


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


def _wide(x: Value, shape: tuple[int, ...]) -> Value:
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
        return functional.layer_norm(
            x, shape, scale.expand(*shape), None if bias is None else bias.expand(*shape), eps=epsilon
        )
    dims = tuple(range(first, x.ndim))
    wide = cast(x, "float32") if x.dtype.itemsize == 2 and stash_type == 1 else x
    mean = wide.mean(dim=dims, keepdim=True)
    inverse = (wide.var(dim=dims, correction=0, keepdim=True) + epsilon).rsqrt()
    out = cast((wide - mean) * inverse, x.dtype) * scale
    return (out if bias is None else out + bias), mean, inverse


@operator("RMSNormalization")
def rms_norm(x: Value, scale: Value, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> Value:
    """Divide by the root mean square of the last dimensions, from an axis on."""
    shape = x.shape[axis % x.ndim :]
    return functional.rms_norm(x, shape, _wide(scale, shape), eps=epsilon)


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
    out = rms_norm(total, scale, epsilon=epsilon)
    if outputs == 1:
        return out
    inverse = ((total * total).mean(dim=-1, keepdim=True) + epsilon).rsqrt()
    return (out, total.mean(dim=-1, keepdim=True), inverse, total)[:outputs]


@operator("SimplifiedLayerNormalization")
def simplified_layer_norm(
    x: Value, scale: Value, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1, outputs: int = 1
) -> Any:
    """Divide by the root mean square of the last dimensions, from an axis on; onnxruntime has it in ONNX's domain."""
    out = rms_norm(x, scale, axis=axis, epsilon=epsilon)
    if outputs == 1:
        return out
    return out, ((x * x).mean(dim=tuple(range(axis % x.ndim, x.ndim)), keepdim=True) + epsilon).rsqrt()


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
