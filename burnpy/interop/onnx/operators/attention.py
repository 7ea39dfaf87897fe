"""Attention, rotary encoding, linear attention and causal convolution with a state."""

from __future__ import annotations

import math
from typing import Any

from burnpy.backend.dtypes import bool_, int32, int64
from burnpy.interop.onnx.operators.table import (
    GraphWriter,
    Operand,
    Value,
    arange,
    cast,
    like,
    only,
    onnx_dtype,
    operator,
)
from burnpy.nn import functional
from burnpy.tensor.joining import cat, stack, where
from burnpy.tensor.tensor import BoolTensor


def heads_first(x: Value, heads: int) -> Value:
    """Return (N, T, heads · E) as (N, heads, T, E)."""
    return x.reshape(x.shape[0], x.shape[1], heads, x.shape[2] // heads).transpose(1, 2)


def _allowed(q: Value, k: Value, offset: Value, causal: bool, left: int, right: int, nonpad: Value) -> Value | None:
    """Return where queries may attend to keys by their places; None for everywhere."""
    row, column = arange(q.shape[2], q.device).unsqueeze(1), arange(k.shape[2], q.device)
    allowed = None
    ahead = column - (row + offset)
    for chosen, mask in (
        (causal, ahead <= 0),
        (left >= 0, -ahead <= left),
        (right >= 0, ahead <= right),
        (nonpad is not None, column < (0 if nonpad is None else nonpad)),
    ):
        if chosen:
            allowed = mask if allowed is None else allowed & mask
    return allowed


@operator("Attention")
def attention(
    q: Value,
    k: Value,
    v: Value,
    mask: Value = None,
    past_key: Value = None,
    past_value: Value = None,
    nonpad: Value = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int = 0,
    left_window_size: int = -1,
    q_num_heads: int = 0,
    qk_matmul_output_mode: int = 0,
    right_window_size: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int = 0,
    outputs: int = 1,
) -> Any:
    """Attend; the keys and values with those of the past, and the scores are further results."""
    packed = q.ndim == 3
    if packed:
        q, k, v = heads_first(q, q_num_heads), heads_first(k, kv_num_heads), heads_first(v, kv_num_heads)
    past = 0 if past_key is None else past_key.shape[2]
    if past_key is not None:
        k, v = cat([past_key, k], dim=2), cat([past_value, v], dim=2)
    keys, values = k, v
    groups = q.shape[1] // k.shape[1]
    if groups > 1:
        k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
    factor = 1.0 / math.sqrt(q.shape[-1]) if scale is None else scale
    ends = None if nonpad is None else cast(nonpad, "int64").reshape(-1, 1, 1, 1)
    offset: Any = past if ends is None or past_key is not None else ends - q.shape[2]
    allowed = _allowed(q, k, offset, bool(is_causal), left_window_size, right_window_size, ends)
    if mask is not None and mask.shape[-1] < k.shape[2]:
        rest = (*mask.shape[:-1], k.shape[2] - mask.shape[-1])
        mask = cat([mask, like(mask, rest, False if isinstance(mask, BoolTensor) else -math.inf)], dim=-1)
    if isinstance(mask, BoolTensor):
        allowed, mask = (mask if allowed is None else allowed & mask), None
    if outputs < 4:
        if mask is not None and allowed is not None:
            mask = mask.masked_fill(~allowed, -math.inf)
        both = allowed if mask is None else cast(mask, q.dtype)
        out = functional.scaled_dot_product_attention(q, k, v, both, scale=factor, softcap=softcap or None)
        scores = None
    else:
        out, scores = _with_scores(q, k, v, mask, allowed, factor, softcap, qk_matmul_output_mode)
    if packed:
        out = out.transpose(1, 2).reshape(out.shape[0], out.shape[2], -1)
    return (out, keys, values, scores)[:outputs] if outputs > 1 else out


@operator("FlexAttention")
def flex_attention(
    q: Value,
    k: Value,
    v: Value,
    *,
    scale: float | None = None,
    score_mod: Any = None,
    prob_mod: Any = None,
    softmax_precision: int = 0,
) -> Value:
    """Attend with graphs that change the scores, before and after their softmax."""
    groups = q.shape[1] // k.shape[1]
    if groups > 1:
        k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
    scores = (q * (1.0 / math.sqrt(q.shape[-1]) if scale is None else scale)) @ k.mT
    scores = scores if score_mod is None else score_mod(scores)[0]
    shares = (scores if not softmax_precision else cast(scores, onnx_dtype(softmax_precision))).softmax(dim=-1)
    shares = cast(shares, q.dtype)
    return (shares if prob_mod is None else prob_mod(shares)[0]) @ v


@operator("Attend")
def attend(q: Value, k: Value, v: Value, mask: Value = None) -> Value:
    """Return softmax(q @ k + mask) @ v: no operator of ONNX, but how `burnpy.interop.onnx.graph` joins several.

    A row whose scores are all -∞ gives zeros, where the operators alone would give NaN.
    """
    if q.ndim < 2 or not q.shape[:-2] == k.shape[:-2] == v.shape[:-2]:
        scores = q @ k
        return (scores if mask is None else scores + mask).softmax(dim=-1) @ v
    return functional.scaled_dot_product_attention(q, k.mT, v, mask, scale=1.0)


def _with_scores(
    q: Value, k: Value, v: Value, mask: Value, allowed: Value, scale: float, softcap: float, mode: int
) -> tuple[Value, Value]:
    """Attend, and return the scores too: of products, with a bound, with masks, or their softmax, by the mode."""
    root = math.sqrt(scale)
    products = (q * root) @ (k * root).mT
    bounded = (products / softcap).tanh() * softcap if softcap else products
    masked = bounded if mask is None else bounded + cast(mask, q.dtype)
    if allowed is not None:
        masked = where(allowed, masked, -math.inf)
    dead = (masked == -math.inf).all(dim=-1, keepdim=True)
    weights = masked.masked_fill(dead, 0.0).softmax(dim=-1).masked_fill(dead, 0.0)
    return weights @ v, (products, bounded, masked, weights)[mode]


@operator("RotaryEmbedding")
def rotary_embedding(
    x: Value,
    cosines: Value,
    sines: Value,
    positions: Value = None,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> Value:
    """Rotate pairs of elements by the angles of positions."""
    packed = x.shape if x.ndim == 3 else None
    heads_last = x.reshape(x.shape[0], x.shape[1], num_heads, -1) if packed else x.transpose(1, 2)
    size = rotary_embedding_dim or heads_last.shape[-1]
    if positions is not None:
        flat = cast(positions, "int64").reshape(-1)
        cosines, sines = [t.index_select(0, flat).reshape(*positions.shape, -1) for t in (cosines, sines)]
    cosines, sines = cosines.unsqueeze(2), sines.unsqueeze(2)
    part, rest = heads_last[..., :size], heads_last[..., size:]
    one, two = (part[..., 0::2], part[..., 1::2]) if interleaved else part.chunk(2, -1)
    pair = [one * cosines - two * sines, one * sines + two * cosines]
    out = stack(pair, dim=-1).reshape(*part.shape) if interleaved else cat(pair, dim=-1)
    out = cat([out, rest], dim=-1) if rest.shape[-1] else out
    return out.reshape(*packed) if packed else out.transpose(1, 2)


@operator("LinearAttention")
def linear_attention(
    q: Value,
    k: Value,
    v: Value,
    past: Value = None,
    decay: Value = None,
    beta: Value = None,
    *,
    chunk_size: int = 64,
    kv_num_heads: int,
    q_num_heads: int,
    scale: float = 0.0,
    update_rule: str = "gated_delta",
) -> Any:
    """Attend by a state that each token updates, and return the last state as well."""
    dtype, kept = q.dtype, q.dtype if past is None else past.dtype
    n, steps, _ = q.shape
    wide = [cast(heads_first(x, h), "float32") for x, h in ((q, q_num_heads), (k, kv_num_heads), (v, kv_num_heads))]
    queries, keys, values = wide
    size = queries.shape[-1]
    gates = None
    if decay is not None:
        gates = cast(decay, "float32").reshape(n, steps, kv_num_heads, -1).transpose(1, 2).exp()
    rates = None if beta is None else cast(beta, "float32").transpose(1, 2).unsqueeze(-1)
    state = like(keys, (n, kv_num_heads, size, values.shape[-1]), 0.0) if past is None else cast(past, "float32")
    factor = scale or 1.0 / math.sqrt(size)
    outs: list[Value] = []
    for t in range(steps):
        key, value = keys[:, :, t], values[:, :, t]
        if gates is not None:
            state = state * gates[:, :, t].unsqueeze(-1)
        if rates is not None:
            value = rates[:, :, t] * (value - (state * key.unsqueeze(-1)).sum(dim=2))
        state = state + key.unsqueeze(-1) * value.unsqueeze(2)
        read = state.repeat_interleave(q_num_heads // kv_num_heads, dim=1)
        outs.append((queries[:, :, t].unsqueeze(2) @ read).squeeze(2) * factor)
    out = stack(outs, dim=1).reshape(n, steps, -1)
    return cast(out, dtype), cast(state, kept)


@operator("CausalConvWithState")
def causal_conv(x: Value, weight: Value, bias: Value = None, past: Value = None, *, activation: str = "none") -> Any:
    """Convolve each channel with its last elements, and return those for the next call as well."""
    size = weight.shape[2] - 1
    before = like(x, (x.shape[0], x.shape[1], size), 0.0) if past is None else past
    whole = cat([before, x], dim=2)
    out = functional.conv1d(whole, weight, bias, groups=x.shape[1])
    out = out if activation == "none" else cast(cast(out, "float32").silu(), x.dtype)
    return out, whole.narrow(2, whole.shape[2] - size, size)


def has_heads(q: Any, k: Any, v: Any, mask: Any, offset: int | None, scale: float) -> bool:
    """Return whether the leading dimensions are those of `attention`'s operator, or there is no mask that has them."""
    return len(q.shape) == 4 or mask is None


@only(since=23, when=has_heads)
def write_attention(
    g: GraphWriter, q: Operand, k: Operand, v: Operand, mask: Any, offset: int | None, scale: float
) -> Any:
    """Write an Attention, which does not give the logsumexp; rows without a key are 0."""
    lead = q.shape[:-2]
    causal = offset == 0
    if offset is not None and not causal:
        ones = g.node("Expand", g.constant(True, bool_), g.sizes((q.shape[-2], k.shape[-2])))
        allowed = g.node("Trilu", ones, g.constant(offset, int64), upper=0)
        mask = allowed if mask is None else g.node("And", mask, allowed)
    if len(lead) != 2:  # the operator has a batch and heads
        q, k, v = [x._replace(name=g.node("Reshape", x, g.sizes(_of_heads(g, x.shape)))) for x in (q, k, v)]
    spread = mask
    if isinstance(mask, Operand) and mask.shape[-2:] != (q.shape[-2], k.shape[-2]):  # runtimes broadcast the lead alone
        spread = g.node("Expand", mask, g.sizes((*mask.shape[:-2], q.shape[-2], k.shape[-2])))
    out = g.node("Attention", q, k, v, spread, scale=scale, is_causal=int(causal))
    if mask is not None:
        number = g.node("Cast", mask, to=int32)
        some = g.node("Cast", g.node("ReduceMax", number, g.sizes((-1,)), keepdims=1), to=bool_)
        out = g.node("Where", some, out, g.constant(0.0, q.dtype))
    return (out if len(lead) == 2 else g.node("Reshape", out, g.sizes((*lead, q.shape[-2], v.shape[-1])))), None


def _of_heads(g: GraphWriter, shape: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a shape with two leading dimensions and as many elements."""
    *lead, length, size = shape
    heads = g.each(lambda *sizes: math.prod(sizes), *lead[1:]) if len(lead) > 1 else 1
    return (lead[0] if lead else 1), heads, length, size
