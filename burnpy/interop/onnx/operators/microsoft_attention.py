"""Attention and rotary encoding of onnxruntime's domain com.microsoft.

Source of their definitions: onnxruntime, docs/ContribOperators.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from burnpy.backend.errors import LoadingError
from burnpy.interop.onnx.operators.attention import heads_first, rotary_embedding
from burnpy.interop.onnx.operators.table import MICROSOFT, Value, arange, cast, like, operator
from burnpy.tensor.joining import cat, stack, where


def _padding(mask: Value, x: Value, keys: int, filtered: float) -> Value:
    """Return what is added to scores (N, heads, T, keys), given a mask of raw 0 and 1, lengths, or ends and starts."""
    if mask.ndim == 1:
        column, count = arange(keys, mask.device), x.shape[0]
        if mask.shape[0] not in (count, 2 * count):
            raise LoadingError(f"an attention mask of shape {mask.shape} for {count} sequences is not supported")
        wide = cast(mask, "int64")
        kept = column < wide[:count].unsqueeze(1)
        kept = kept if mask.shape[0] == count else kept & (column >= wide[count:].unsqueeze(1))
    else:
        kept = cast(mask, "bool")
    if kept.ndim == 4:  # of the longest sequences: the last rows and columns count
        kept = kept[:, :, keys - x.shape[1] : keys, :keys]
    kept = kept.reshape(kept.shape[0], 1, -1, kept.shape[-1]) if kept.ndim < 4 else kept
    return where(kept, like(x, (), 0.0), like(x, (), filtered))


def attend(
    q: Value, k: Value, v: Value, added: Sequence[Value], causal: bool, scale: float | None
) -> tuple[Value, Value]:
    """Return the packed results of attention of queries (N, heads, T, E), and the scores."""
    scores = (q @ k.mT) * (1.0 / math.sqrt(q.shape[-1]) if scale is None else scale)
    for part in added:
        scores = scores + part
    if causal:
        ahead = arange(k.shape[2], q.device) > arange(q.shape[2], q.device).unsqueeze(1) + (k.shape[2] - q.shape[2])
        scores = scores.masked_fill(ahead, -math.inf)
    out = scores.softmax(dim=-1) @ v
    return out.transpose(1, 2).reshape(out.shape[0], out.shape[2], -1), scores


def self_attention(
    x: Value,
    projected: Value,
    mask: Value,
    past: Value,
    bias: Value,
    sizes: tuple[int, ...] | None,
    num_heads: int,
    causal: int,
    filtered: float,
    scale: float | None,
    outputs: int,
) -> Any:
    """Return attention of packed queries, keys and values, and the keys and values with those of the past."""
    sizes = sizes or (projected.shape[-1] // 3,) * 3
    q, k, v = (heads_first(part, num_heads) for part in projected.split(list(sizes), dim=-1))
    if past is not None:
        k, v = cat([past[0], k], dim=2), cat([past[1], v], dim=2)
    added = [] if mask is None else [_padding(mask, x, k.shape[2], filtered)]
    out, _ = attend(q, k, v, [*added, *([] if bias is None else [bias])], bool(causal), scale)
    return (out, stack([k, v], dim=0)) if outputs > 1 else out


def refuse(kind: str, **settings: Any) -> None:
    """Raise an error for inputs or attributes that are not supported."""
    found = [name for name, value in settings.items() if value is not None and value is not False and value != 0]
    if found:
        raise LoadingError(f"{kind} of {MICROSOFT} with {', '.join(found)} is not supported")


@operator("Attention", domain=MICROSOFT)
def attention(
    x: Value,
    weights: Value,
    bias: Value = None,
    mask: Value = None,
    past: Value = None,
    attention_bias: Value = None,
    past_length: Value = None,
    *,
    do_rotary: int = 0,
    mask_filter_value: float = -10000.0,
    num_heads: int,
    past_present_share_buffer: int = 0,
    qkv_hidden_sizes: tuple[int, ...] | None = None,
    rotary_embedding_dim: int = 0,
    scale: float | None = None,
    unidirectional: int = 0,
    outputs: int = 1,
) -> Any:
    """Attend to x, by one matrix of queries, keys and values."""
    refuse("Attention", do_rotary=do_rotary, past_present_share_buffer=past_present_share_buffer)
    product = x @ weights
    projected = product if bias is None else product + bias
    given = (mask, past, attention_bias, qkv_hidden_sizes, num_heads, unidirectional, mask_filter_value, scale)
    return self_attention(x, projected, *given, outputs)


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
    mask_filter_value: float = -10000.0,
    num_heads: int,
    scale: float | None = None,
    unidirectional: int = 0,
    outputs: int = 1,
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
    packed = q.transpose(1, 2)  # (N, T, …), for the sizes of masks
    added = [] if mask is None else [_padding(mask, packed, k.shape[2], mask_filter_value)]
    added += [] if attention_bias is None else [attention_bias]
    out, scores = attend(q, k, v, added, bool(unidirectional), scale)
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
