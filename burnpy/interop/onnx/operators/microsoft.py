"""Operators of onnxruntime's domain com.microsoft that join several of ONNX's, as its optimizer writes them.

Source of their definitions: onnxruntime, docs/ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burnpy.interop.onnx.operators.elementwise import gated
from burnpy.interop.onnx.operators.normalization import group_norm, layer_norm, rms_norm
from burnpy.interop.onnx.operators.products import gemm
from burnpy.interop.onnx.operators.table import MICROSOFT, Maybe, Value, arange, cast, like, operator
from burnpy.interop.onnx.operators.windows import conv


@operator("Gelu", "BiasGelu", domain=MICROSOFT)
def gelu(x: Value, bias: Value = None) -> Value:
    """Return gelu, of a sum if there is a bias."""
    return (x if bias is None else x + bias).gelu()


@operator("FastGelu", domain=MICROSOFT)
def fast_gelu(x: Value, bias: Value = None) -> Value:
    """Return gelu by tanh, of a sum if there is a bias."""
    return (x if bias is None else x + bias).gelu(approximate="tanh")


@operator("QuickGelu", domain=MICROSOFT)
def quick_gelu(x: Value, *, alpha: float = 1.702) -> Value:
    """Return x · sigmoid(alpha · x)."""
    return x * (x * alpha).sigmoid()


@operator("FusedMatMul", "TransposeMatMul", domain=MICROSOFT)
def fused_matmul(
    a: Value,
    b: Value,
    *,
    alpha: float = 1.0,
    trans_a: int = 0,
    trans_b: int = 0,
    trans_batch_a: int = 0,
    trans_batch_b: int = 0,
) -> Value:
    """Return alpha · a @ b of operands that may be transposed; rows may be a batch's first dimension."""
    parts = []
    for x, turned, batch in ((a, trans_a, trans_batch_a), (b, trans_b, trans_batch_b)):
        whole = x.movedim(0, -2) if batch else x
        parts.append(whole.mT if turned and whole.ndim > 1 else whole)
    out = parts[0] @ parts[1]
    return out if alpha == 1.0 else out * alpha


def activated(x: Value, activation: str | None, numbers: Sequence[float]) -> Value:
    """Return x, or an activation of it with its numbers."""
    if not activation:
        return x
    if activation == "Clip":
        return x.clamp(*numbers)
    return gated(x, activation, *[*numbers[:2], None, None][:2])


@operator("FusedConv", domain=MICROSOFT)
def fused_conv(
    x: Value,
    weight: Value,
    bias: Value = None,
    z: Value = None,
    *,
    activation: str | None = None,
    activation_params: tuple[float, ...] = (),
    **settings: Any,
) -> Value:
    """Return a convolution, or its sum with z, and an activation of it."""
    out = conv(x, weight, bias, **settings)
    return activated(out if z is None else out + z, activation, activation_params)


@operator("FusedGemm", domain=MICROSOFT)
def fused_gemm(
    a: Value,
    b: Value,
    c: Value = None,
    *,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    activation_gamma: float | None = None,
    **settings: Any,
) -> Value:
    """Return an activation of a Gemm."""
    numbers = [x for x in (activation_alpha, activation_beta) if x is not None]
    return activated(gemm(a, b, c, **settings), activation, numbers)


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
