"""Attention and rotary encoding; those of com.microsoft as onnxruntime's docs/ContribOperators.md defines them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any, TypedDict, Unpack

from burnpy.backend.dtypes import bool_, int32, int64
from burnpy.backend.errors import LoadingError
from burnpy.interop.onnx.operators.table import (
    MICROSOFT,
    GraphWriter,
    Ints,
    Maybe,
    Operand,
    Value,
    arange,
    cast,
    like,
    only,
    onnx_dtype,
    operator,
    refuse,
)
from burnpy.nn import functional
from burnpy.tensor.joining import cat, stack, where
from burnpy.tensor.tensor import BoolTensor


def heads_first(x: Value, heads: int) -> Value:
    """Return (N, T, heads · E) as (N, heads, T, E)."""
    return x.reshape(x.shape[0], x.shape[1], heads, x.shape[2] // heads).transpose(1, 2)


def heads_last(x: Value) -> Value:
    """Return (N, heads, T, E) as (N, T, heads · E)."""
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1)


def _for_queries(q: Value, *parts: Value) -> list[Value]:
    """Return keys and values (N, heads, T, E) repeated, so that they have as many heads as the queries."""
    groups = q.shape[1] // parts[0].shape[1]
    return [part.repeat_interleave(groups, dim=1) if groups > 1 else part for part in parts]


def _allowed(q: Value, k: Value, offset: Value, causal: bool, left: int, right: int, nonpad: Value) -> Value | None:
    """Return where queries may attend to keys by their places; None for everywhere."""
    row, column = arange(q.shape[2], q.device).unsqueeze(1), arange(k.shape[2], q.device)
    ahead = column - (row + offset)
    limits = [ahead <= 0] if causal else []
    limits += [-ahead <= left] if left >= 0 else []
    limits += [ahead <= right] if right >= 0 else []
    limits += [] if nonpad is None else [column < nonpad]
    return reduce(lambda one, other: one & other, limits) if limits else None


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
    k, v = _for_queries(q, k, v)
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
        out, scores = _with_scores(
            q, k, v, [] if mask is None else [mask], allowed, factor, softcap, qk_matmul_output_mode
        )
    out = heads_last(out) if packed else out
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
    k, v = _for_queries(q, k, v)
    scores = (q * (1.0 / math.sqrt(q.shape[-1]) if scale is None else scale)) @ k.mT
    scores = scores if score_mod is None else score_mod(scores)[0]
    shares = (scores if not softmax_precision else cast(scores, onnx_dtype(softmax_precision))).softmax(dim=-1)
    shares = cast(shares, q.dtype)
    return (shares if prob_mod is None else prob_mod(shares)[0]) @ v


@operator("Attend")
def attend(q: Value, k: Value, v: Value, mask: Value = None) -> Value:
    """Return softmax(q @ k + mask) @ v: no operator of ONNX, but how `burnpy.interop.onnx.patterns` joins several.

    A row whose scores are all -∞ gives zeros, where the operators alone would give NaN.
    """
    if q.ndim < 2 or not q.shape[:-2] == k.shape[:-2] == v.shape[:-2]:
        scores = q @ k
        return (scores if mask is None else scores + mask).softmax(dim=-1) @ v
    return functional.scaled_dot_product_attention(q, k.mT, v, mask, scale=1.0)


def _with_scores(
    q: Value, k: Value, v: Value, added: Sequence[Value], allowed: Value, scale: float, softcap: float, mode: int
) -> tuple[Value, Value]:
    """Attend, and return the scores too: of products, with a bound, with masks, or their softmax, by the mode."""
    root = math.sqrt(scale)
    products = (q * root) @ (k * root).mT
    bounded = (products / softcap).tanh() * softcap if softcap else products
    masked = bounded
    for part in added:
        masked = masked + cast(part, q.dtype)
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


def _padding(mask: Value, q: Value, keys: int, filtered: float) -> Value:
    """Return what is added to scores (N, heads, T, keys), given a mask of raw 0 and 1, lengths, or ends and starts."""
    if mask.ndim == 1:
        column, count = arange(keys, mask.device), q.shape[0]
        if mask.shape[0] not in (count, 2 * count):
            raise LoadingError(f"an attention mask of shape {mask.shape} for {count} sequences is not supported")
        wide = cast(mask, "int64")
        kept = column < wide[:count].unsqueeze(1)
        kept = kept if mask.shape[0] == count else kept & (column >= wide[count:].unsqueeze(1))
    else:
        kept = cast(mask, "bool")
    if kept.ndim == 4:  # of the longest sequences: the last rows and columns count
        kept = kept[:, :, keys - q.shape[2] : keys, :keys]
    kept = kept.reshape(kept.shape[0], 1, -1, kept.shape[-1]) if kept.ndim < 4 else kept
    return where(kept, like(q, (), 0.0), like(q, (), filtered))


class ScoreSettings(TypedDict, total=False):
    """The attributes of scores."""

    mask_filter_value: float
    scale: float
    unidirectional: int


class SelfAttentionSettings(ScoreSettings, total=False):
    """The attributes of attention to one tensor."""

    do_rotary: int
    past_present_share_buffer: int


def _attend_packed(
    q: Value, k: Value, v: Value, mask: Value, bias: Value, settings: ScoreSettings
) -> tuple[Value, Value]:
    """Return the packed results of attention of queries (N, heads, T, E), and the scores."""
    added = [] if mask is None else [_padding(mask, q, k.shape[2], settings.get("mask_filter_value", -10000.0))]
    added += [] if bias is None else [bias]
    allowed = _allowed(q, k, k.shape[2] - q.shape[2], bool(settings.get("unidirectional")), -1, -1, None)
    factor = settings.get("scale", 1.0 / math.sqrt(q.shape[-1]))
    out, scores = _with_scores(q, k, v, added, allowed, factor, 0.0, 2)
    return heads_last(out), scores


def self_attention(
    projected: Value,
    num_heads: int,
    settings: SelfAttentionSettings,
    outputs: int,
    mask: Value = None,
    past: Value = None,
    bias: Value = None,
    sizes: Sequence[int] = (),
) -> Any:
    """Return attention of packed queries, keys and values, and the keys and values with those of the past."""
    refuse("Attention", **{key: settings.get(key) for key in ("do_rotary", "past_present_share_buffer")})
    parts = projected.split(list(sizes or (projected.shape[-1] // 3,) * 3), dim=-1)
    q, k, v = (heads_first(part, num_heads) for part in parts)
    if past is not None:
        k, v = cat([past[0], k], dim=2), cat([past[1], v], dim=2)
    out, _ = _attend_packed(q, k, v, mask, bias, settings)
    return (out, stack([k, v], dim=0)) if outputs > 1 else out


@operator("Attention", domain=MICROSOFT)
def packed_attention(
    x: Value,
    weights: Value,
    bias: Value = None,
    mask: Value = None,
    past: Value = None,
    attention_bias: Value = None,
    past_length: Value = None,
    *,
    num_heads: int,
    qkv_hidden_sizes: tuple[int, ...] = (),
    rotary_embedding_dim: int = 0,
    outputs: int = 1,
    **settings: Unpack[SelfAttentionSettings],
) -> Any:
    """Attend to x, by one matrix of queries, keys and values."""
    product = x @ weights
    projected = product if bias is None else product + bias
    return self_attention(projected, num_heads, settings, outputs, mask, past, attention_bias, qkv_hidden_sizes)


@operator("MultiHeadAttention", domain=MICROSOFT)
def multi_head_attention(
    query: Value,
    key: Value = None,
    value: Value = None,
    bias: Value = None,
    mask: Value = None,
    attention_bias: Value = None,
    past_key: Value = None,
    past_value: Value = None,
    past_length: Value = None,
    cache: Value = None,
    *,
    num_heads: int,
    outputs: int = 1,
    **settings: Unpack[ScoreSettings],
) -> Any:
    """Attend; keys and values may be packed with queries or each other, or be those of heads."""
    refuse("MultiHeadAttention", past_sequence_length=past_length, cache_indirection=cache)
    if key is None:
        q, k, v = (query[:, :, :, j].transpose(1, 2) for j in range(3))  # (N, T, heads, 3, E)
    else:
        q = heads_first(query, num_heads)
        if value is None:
            k, v = (key[:, :, :, j].transpose(1, 2) for j in range(2))
        else:
            k, v = (part if part.ndim == 4 else heads_first(part, num_heads) for part in (key, value))
    if bias is not None:
        sizes = [num_heads * part.shape[-1] for part in (q, k, v)]
        parts = [part.reshape(num_heads, 1, -1) for part in bias.split(sizes, dim=0)]
        q = q + parts[0]
        if value is None or len(value.shape) == 3:
            k, v = k + parts[1], v + parts[2]
    if past_key is not None:
        k, v = cat([past_key, k], dim=2), cat([past_value, v], dim=2)
    out, scores = _attend_packed(q, k, v, mask, attention_bias, settings)
    return (out, k, v, scores)[:outputs] if outputs > 1 else out


@operator("RotaryEmbedding", domain=MICROSOFT)
def rotary(
    x: Value,
    positions: Value,
    cosines: Value,
    sines: Value,
    *,
    interleaved: int = 0,
    is_packed_batching: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    scale: float = 1.0,
) -> Value:
    """Rotate pairs of elements by the angles of positions, which may be the first one alone."""
    refuse("RotaryEmbedding", is_packed_batching=is_packed_batching)
    length = x.shape[1 if x.ndim == 3 else 2]
    if positions.ndim == 1:
        positions = (arange(length, positions.device) + cast(positions, "int64")).expand(x.shape[0], length)
    size = rotary_embedding_dim or 2 * cosines.shape[-1]
    heads = num_heads or (x.shape[-1] // size if x.ndim == 3 else 0)
    return rotary_embedding(
        x, cosines, sines, positions, interleaved=interleaved, num_heads=heads, rotary_embedding_dim=size
    )


@operator("GroupQueryAttention", domain=MICROSOFT)
def group_query_attention(
    query: Value,
    key: Maybe,
    value: Maybe,
    past_key: Maybe,
    past_value: Maybe,
    lasts: Value,
    total: Ints,
    cosines: Value = None,
    sines: Value = None,
    positions: Value = None,
    attention_bias: Value = None,
    sinks: Value = None,
    k_scale: Value = None,
    v_scale: Value = None,
    *,
    do_rotary: int = 0,
    k_quant_type: str = "NONE",
    kv_cache_bit_width: int = 0,
    kv_num_heads: int,
    local_window_size: int = -1,
    num_heads: int,
    qk_output: int = 0,
    rotary_interleaved: int = 0,
    scale: float = 0.0,
    smooth_softmax: int = 0,
    softcap: float = 0.0,
    v_quant_type: str = "NONE",
    outputs: int = 1,
) -> Any:
    """Attend with fewer heads of keys than of queries, and return keys and values with those of the past.

    The new ones are written behind the valid ones of each sequence, whose last place ``lasts`` has.
    """
    refuse("GroupQueryAttention", k_scale=k_scale, v_scale=v_scale, qk_output=qk_output)
    if key is None:
        size = query.shape[-1] // (num_heads + 2 * kv_num_heads)
        query, key, value = query.split([size * num_heads, *[size * kv_num_heads] * 2], dim=-1)
    q, k, v = heads_first(query, num_heads), heads_first(key, kv_num_heads), heads_first(value, kv_num_heads)
    count, steps, whole = q.shape[0], q.shape[2], total[0]
    ends = cast(lasts, "int64").reshape(-1, 1) + 1
    places = (ends * 0 if steps == whole else ends - steps) + arange(steps, ends.device)
    if do_rotary:
        at = places if positions is None else positions.reshape(count, steps)
        size = 2 * cosines.shape[-1]
        settings = {"interleaved": rotary_interleaved, "rotary_embedding_dim": size}
        q, k = (rotary_embedding(x, cosines, sines, at, **settings) for x in (q, k))
    keys, values = (_behind(past, new, places, whole) for past, new in ((past_key, k), (past_value, v)))
    column, row = arange(whole, q.device), places.reshape(count, 1, steps, 1)
    allowed = (column <= row) & (column < ends.reshape(count, 1, 1, 1))
    if local_window_size >= 0:
        allowed = allowed & (column > row - local_window_size)
    bias = None if attention_bias is None else attention_bias.masked_fill(~allowed, -math.inf)
    k, v = _for_queries(q, keys.narrow(2, 0, whole), values.narrow(2, 0, whole))
    factor = scale or 1.0 / math.sqrt(q.shape[-1])
    if sinks is None and not smooth_softmax:
        out = functional.scaled_dot_product_attention(
            q, k, v, allowed if bias is None else bias, scale=factor, softcap=softcap or None
        )
    else:
        scores = (q @ k.mT) * factor
        scores = (scores / softcap).tanh() * softcap if softcap else scores
        scores = scores.masked_fill(~allowed, -math.inf) if bias is None else scores + bias
        sink = like(q, (num_heads,), 0.0) if sinks is None else sinks
        sink = sink.reshape(1, num_heads, 1, 1).expand(count, num_heads, steps, 1)
        out = cat([scores, sink], dim=-1).softmax(dim=-1)[..., :whole] @ v
    out = heads_last(out)
    return (out, keys, values)[:outputs] if outputs > 1 else out


def _behind(past: Value, new: Value, places: Value, whole: int) -> Value:
    """Return keys or values of the past with new ones at their places, with room for all."""
    count, heads, steps, size = new.shape
    if past is None or past.shape[2] == 0:
        past = like(new, (count, heads, 0, size), 0.0)
    if steps == whole >= past.shape[2]:
        return new
    more = max(whole - past.shape[2], 0)
    room = cat([past, like(new, (count, heads, more, size), 0.0)], dim=2) if more else past
    kept = arange(room.shape[2], new.device).unsqueeze(1) < places[:, :1].reshape(count, 1, 1, 1)
    return where(kept, room, 0.0).scatter(2, places.reshape(count, 1, steps, 1).expand(count, heads, steps, size), new)


@only(since=23, when=lambda q, k, v, mask, *rest: (len(q.shape) == 4 or mask is None) and k.shape[-2] != 0)
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
