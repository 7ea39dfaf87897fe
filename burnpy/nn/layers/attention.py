"""Scaled dot product attention, its masks, and the projections of queries, keys and values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from burnpy.backend.errors import ArgumentError, KindError, ShapeError, a
from burnpy.backend.primitives import DType, Shape
from burnpy.nn.argument_checks import above_zero, dims_at_least, floats, positive, whole
from burnpy.nn.layers.dropout import dropout
from burnpy.nn.layers.linear import linear, linear_of
from burnpy.nn.module import Module
from burnpy.nn.module_tree import new_module
from burnpy.nn.param import Param
from burnpy.tensor.call_errors import explained, need_flag
from burnpy.tensor.joining import cat
from burnpy.tensor.operand_checks import broadcast_shape, number, refuse_wider, together
from burnpy.tensor.tensor import BoolTensor, Tensor
from burnpy.tensor.tensor_base import TensorBase, describe
from burnpy.typevars import B

if TYPE_CHECKING:
    from typing import TypedDict

    from burnpy.tensor.generator import Generator
    from burnpy.tensor.tensor_types import Bools

    class AttentionMasks(TypedDict, Generic[B], total=False):
        """The masks that a call of an attention takes as keyword arguments, for type checkers."""

        mask: Bools[B] | Tensor[B] | None
        key_mask: Bools[B] | None
        causal: bool


@explained
def scaled_dot_product_attention(
    query: Tensor[B],
    key: Tensor[B],
    value: Tensor[B],
    mask: Bools[B] | Tensor[B] | None = None,
    *,
    causal: bool = False,
    offset: int | None = None,
    scale: float | None = None,
    dropout_p: float = 0.0,
    enable_gqa: bool = False,
    window: int | None = None,
    softcap: float | None = None,
    generator: Generator | None = None,
) -> Tensor[B]:
    """Compute scaled dot-product attention, ``softmax(query @ key.mT · scale + mask) @ value``.

    A query that may attend to no key gets zeros, and has no gradient.

    Args:
        query: shape (…, T, E).
        key: shape (…, S, E).
        value: shape (…, S, F).
        mask: broadcasts to (…, T, S). A bool mask is true where a query may attend to a key; a float mask is added to
            the scores.
        causal: whether query t attends only to the keys 0 … offset + t.
        offset: the position of the first query among the keys; 0 by default. It is required with fewer queries than
            keys: with a cache of keys, where the queries are the last positions, it is ``S - T``. Queries after the
            last key attend to all keys; queries before the first key (a negative offset) attend to none.
        scale: the factor of the scores; 1 / √E by default.
        dropout_p: the probability that an attention weight is dropped; 0 outside training.
        enable_gqa: whether several heads of queries share one of keys and values ("grouped queries"): query is then
            (…, H, T, E), key (…, G, S, E) and value (…, G, S, F), and G divides H.
        window: with ``causal``, the number of keys that a query attends to, itself included: the last ones ("sliding
            window"); all by default.
        softcap: a bound of the scores s before masks, ``softcap · tanh(s / softcap)``; none by default.
        generator: the source of random numbers for dropout.

    Returns:
        Shape (…, T, F).

    Raises:
        ShapeError: the shapes do not match.
        DTypeError: keys, values or a mask to add are wider than the queries.
        ArgumentError: ``dropout_p`` is not a probability; ``causal`` with fewer queries than keys and no offset; a
            window without ``causal``; or a window or softcap that is not above 0.

    Source: Vaswani et al., Attention Is All You Need, 2017.

    >>> q, v = Tensor[NumPy].zeros((2, 4)), Tensor[NumPy].from_data([[1.0], [3.0]])
    >>> scaled_dot_product_attention(q, q, v).tolist(), scaled_dot_product_attention(q, q, v, causal=True).tolist()
    ([[2.0], [2.0]], [[1.0], [2.0]])
    >>> scaled_dot_product_attention(q[1:], q, v, causal=True, offset=1).tolist()
    [[2.0]]
    """
    name = "scaled_dot_product_attention"
    query, key, value = floats(name, 3, query=query, key=key, value=value)
    q, k, v = query.shape, key.shape, value.shape
    if window is not None:
        positive(name, window=window)
        if not causal:
            raise ArgumentError(
                f"{name}() got window={window} without causal=True; a window is the last keys up to each query"
            )
    for word, shape, form in (("query", q, "(…, T, E)"), ("key", k, "(…, S, E)"), ("value", v, "(…, S, F)")):
        dims_at_least(name, word, shape, 2, form)
    if enable_gqa and q[:-2] != k[:-2]:
        settings: dict[str, Any] = {"causal": causal, "offset": offset, "scale": scale}
        settings |= {"dropout_p": dropout_p, "window": window, "softcap": softcap, "generator": generator}
        return _grouped(name, query, key, value, mask, settings)
    same_batch = q[:-2] == k[:-2] == v[:-2]
    batch = q[:-2] if same_batch else broadcast_shape(q[:-2], k[:-2], v[:-2])
    if batch is None or q[-1] != k[-1] or k[-2] != v[-2]:
        raise ShapeError(
            f"{name}() got query {q}, key {k} and value {v}; expected the shapes (…, T, E), "
            "(…, S, E) and (…, S, F), where the … broadcast"
        )
    first = _first_query(name, q[-2], k[-2], causal, offset)
    if not same_batch:
        query, key, value = (x.broadcast_to((*batch, *x.shape[-2:])) for x in (query, key, value))
    factor = 1.0 / math.sqrt(q[-1] or 1) if scale is None else float(number(query, scale, name))
    scores_shape = (*batch, q[-2], k[-2])
    placed: Any = mask
    if mask is not None:
        query, key, value, placed = together(name, query, key, value, mask)
        _check_mask(name, placed, scores_shape)
        refuse_wider(name, "queries", query.dtype, mask=placed)
    if window is not None and first is not None:
        key, value, placed, first = _within(window, key, value, placed, first, q[-2])
    if not dropout_p and softcap is None and not isinstance(placed, Tensor):
        device: Any = query.device
        primitives = (query._primitive, key._primitive, value._primitive)
        mask_primitive = None if placed is None else placed._primitive
        return query._like(device.attention(*primitives, mask_primitive, first, factor)[0])
    if softcap is not None:
        above_zero(name, softcap=softcap)
    weights = _weights(query * factor @ key.mT, placed, first, softcap)
    return dropout(weights, dropout_p, generator=generator) @ value


def _grouped(
    name: str, query: Tensor[B], key: Tensor[B], value: Tensor[B], mask: Any, settings: dict[str, Any]
) -> Tensor[B]:
    """Compute attention with shared heads of keys and values, which are expanded without a copy.

    Source: Ainslie et al., GQA: Training Generalized Multi-Query Transformer Models, 2023.
    """
    q, k, v = query.shape, key.shape, value.shape
    if min(len(q), len(k), len(v)) < 3 or k[-3] != v[-3] or not k[-3] or q[-3] % k[-3]:
        raise ShapeError(
            f"{name}() with enable_gqa=True got query {q}, key {k} and value {v}; expected the shapes "
            "(…, H, T, E), (…, G, S, E) and (…, G, S, F), where G divides H"
        )
    heads, shared = q[-3], k[-3]
    group = heads // shared
    if isinstance(mask, (BoolTensor, Tensor)) and mask.ndim > 2:
        if mask.shape[-3] not in (1, heads):
            raise ShapeError(f"{name}() got a mask of shape {mask.shape}, which does not fit {heads} heads of queries")
        split = (1, 1) if mask.shape[-3] == 1 else (shared, group)
        mask = mask.reshape((*mask.shape[:-3], *split, *mask.shape[-2:]))
    groups = query.reshape((*q[:-3], shared, group, *q[-2:]))
    if q[-2] == 1:  # the heads of a group are as many queries, and no key is read twice
        first = _first_query(name, 1, k[-2], settings.pop("causal"), settings.pop("offset"))
        window = settings.pop("window")
        if first is not None:
            seen = slice(0 if window is None else max(first - window + 1, 0), max(first + 1, 0))
            key, value = key[..., seen, :], value[..., seen, :]
            mask = mask[..., seen] if isinstance(mask, (BoolTensor, Tensor)) and mask.shape[-1] > 1 else mask
        if isinstance(mask, (BoolTensor, Tensor)) and mask.ndim > 2:
            mask = mask.squeeze(-2)
        out = scaled_dot_product_attention(groups.squeeze(-2), key, value, mask, **settings)
        return out.reshape((*q[:-1], v[-1]))
    out = scaled_dot_product_attention(groups, key.unsqueeze(-3), value.unsqueeze(-3), mask, **settings)
    return out.flatten(-4, -3)


def _within(
    window: int, key: Tensor[B], value: Tensor[B], mask: Any, first: int, queries: int
) -> tuple[Tensor[B], Tensor[B], Any, int]:
    """Return the keys and values that windows of the last keys have, their mask, and the offset of the queries."""
    begin = min(max(0, first - window + 1), key.shape[-2])  # before it no query attends to a key
    if begin:
        key, value, first = key[..., begin:, :], value[..., begin:, :], first - begin
        mask = mask if mask is None or mask.shape[-1] == 1 else mask[..., begin:]
    if first + queries <= window:
        return key, value, mask, first
    near = BoolTensor.ones((queries, key.shape[-2]), device=key.device).triu(first - window + 1)
    if mask is None:
        mask = near
    else:
        mask = mask & near if isinstance(mask, BoolTensor) else mask.masked_fill(~near, -math.inf)
    return key, value, mask, first


def _weights(
    scores: Tensor[B], mask: BoolTensor[B] | Tensor[B] | None, first: int | None, softcap: float | None
) -> Tensor[B]:
    """Compute attention weights by tensor operations: with a float mask or softcap, which the backend's one lacks."""
    if softcap is not None:
        scores = (scores / softcap).tanh() * softcap
    if isinstance(mask, Tensor):
        allowed = mask.detach() != -math.inf
        scores = scores + mask.masked_fill(~allowed, 0.0)  # finite also in rows without a key, as NaN · 0 is NaN
    else:
        allowed = mask if mask is not None else BoolTensor.ones((1, 1), device=scores.device)
    if first is not None:
        allowed = allowed & BoolTensor.ones(scores.shape[-2:], device=scores.device).tril(first)
    some = allowed.any(dim=-1, keepdim=True)
    return scores.masked_fill(~(allowed | ~some), -math.inf).softmax(-1).masked_fill(~some, 0.0)


def _first_query(name: str, queries: int, keys: int, causal: bool, offset: int | None) -> int | None:
    """Return the position of the first query among the keys, or None without causal masking."""
    if not need_flag(causal, "causal", name):
        if offset is not None:
            raise ArgumentError(
                f"{name}() got offset={offset!r:.80} without causal=True; it is the position of "
                "the first query, for causal attention only"
            )
        return None
    if offset is not None:
        return whole(name, "offset", offset)
    if queries < keys:
        sizes = f"{queries} quer{'y' if queries == 1 else 'ies'} and {keys} key{'s' * (keys != 1)}"
        raise ArgumentError(
            f"{name}() got causal=True with {sizes}, but no offset of the queries among the keys; pass "
            f"offset={keys - queries} for the last positions, as with a cache of keys, or offset=0 for the first"
        )
    return 0


def _check_mask(name: str, mask: Any, shape: tuple[int, ...]) -> None:
    """Check that a mask is a bool or float tensor that broadcasts to ``shape``."""
    if not isinstance(mask, TensorBase) or mask.kind in ("int", "complex"):
        raise ArgumentError(f"{name}() takes as mask a BoolTensor, or a Tensor to add, not {a(type(mask).__name__)}")
    if broadcast_shape(mask.shape, shape) != shape:
        raise ShapeError(f"{name}() got a mask of shape {mask.shape}, which does not broadcast to {shape}")


def joined_masks(mask: Any, key_mask: Any, scores: Shape) -> Any:
    """Combine a mask, (T, S) or (N, heads, T, S), and a ``key_mask``, (N, S), into one mask; either may be None.
    ``scores`` is the shape (N, T, S) of the scores of a head."""
    if mask is not None and mask.ndim == 3:
        raise ShapeError(
            f"MultiHeadAttention() got a mask of shape {mask.shape}, which may be one for each example or "
            "for each head; say which: mask[:, None] or mask[None]"
        )
    if key_mask is None:
        return mask
    if not isinstance(key_mask, BoolTensor) or key_mask.ndim != 2:
        error = ShapeError if isinstance(key_mask, BoolTensor) else KindError
        raise error(f"MultiHeadAttention() takes a BoolTensor of shape (N, S) as key_mask, got {describe(key_mask)}")
    if any(size not in (1, wanted) for size, wanted in zip(key_mask.shape, (scores[0], scores[2]), strict=True)):
        raise ShapeError(
            f"MultiHeadAttention() got a key_mask of shape {key_mask.shape} for {scores[0]} examples of {scores[2]} "
            f"keys; expected ({scores[0]}, {scores[2]}), true for valid keys"
        )
    return both_allow(mask, key_mask[:, None, None, :])


def both_allow(mask: BoolTensor[B] | Tensor[B] | None, other: BoolTensor[B] | None) -> BoolTensor[B] | Tensor[B] | None:
    """Return the mask, of bools or of floats to add, that allows the pairs which both masks allow; None allows all."""
    if mask is None or other is None:
        return other if mask is None else mask
    if isinstance(mask, BoolTensor):
        return mask & other
    zeros = Tensor.zeros(other.shape, dtype=mask.dtype, device=mask.device)
    return mask + zeros.masked_fill(~other, -float("inf"))


Projection: TypeAlias = Any
"""A `Linear` layer, or the `QuantizedLinear` or `Lora` in its place."""
_PARTS = ("q_proj", "k_proj", "v_proj")


class AttentionProjections(Module[B]):
    """The base class of attention: ``in_proj_weight`` for queries, keys and values in turn, as in PyTorch.

    Where they are quantized or adapted, ``q_proj``, ``k_proj`` and ``v_proj`` are layers in its place.
    """

    heads: int
    key_heads: int | None
    head_size: int | None
    in_proj_weight: Param[B]  #: (size, (heads + 2 · key_heads) · head_size); missing where the parts are layers
    in_proj_bias: Param[B] | None
    q_proj: Projection
    k_proj: Projection
    v_proj: Projection

    def _join(self, weight: Param[B], bias: Param[B] | None) -> None:
        """Set the parameters of one matrix, in ``__init__``."""
        self.in_proj_weight, self.in_proj_bias = weight, bias
        self.q_proj = self.k_proj = self.v_proj = None

    def _in_parts(self) -> Any:
        """Return the same attention with a linear layer for each part; None if it has these already."""
        if self.q_proj is not None:
            return None
        weight, bias = self.in_proj_weight, self.in_proj_bias
        layers: dict[str, Any] = {}
        for name, (start, stop) in zip(_PARTS, self._ranges(), strict=True):
            columns = Param(weight.value.detach()[:, start:stop], frozen=weight.frozen)
            of_bias = None if bias is None else Param(bias.value.detach()[start:stop], frozen=bias.frozen)
            layers[name] = linear_of(columns, of_bias)
        fields = {name: x for name, x in vars(self).items() if not name.startswith("in_proj")}
        parts = (*(name for name in self._parts if name in fields), *_PARTS)
        return new_module(type(self), {**fields, **layers}, parts, self._override)

    def _ranges(self) -> list[tuple[int, int]]:
        """Return the columns of queries, keys and values."""
        wide, narrow = self.heads * self._head_size, self._key_heads * self._head_size
        return [(0, wide), (wide, wide + narrow), (wide + narrow, wide + 2 * narrow)]

    def _projected(self, x: Tensor[B], start: int = 0, end: int | None = None) -> Tensor[B]:
        """Project x by the columns of the weight from ``start`` to ``end``: for queries, keys and values in turn."""
        if self.q_proj is not None:
            inside = [start <= a and (end is None or b <= end) for a, b in self._ranges()]
            layers = [self.q_proj, self.k_proj, self.v_proj]
            parts: list[Tensor[B]] = [layer(x) for layer, wanted in zip(layers, inside, strict=True) if wanted]
            return parts[0] if len(parts) == 1 else cat(parts, dim=-1)
        weight = self.in_proj_weight.value
        bias = None if self.in_proj_bias is None else self.in_proj_bias.value
        if start or end is not None:
            part = slice(start, end)
            weight, bias = weight[:, part], None if bias is None else bias[part]
        return linear(x, weight, bias)

    def _keys_and_values(self, key: Tensor[B], value: Tensor[B]) -> tuple[Tensor[B], Tensor[B]]:
        """Project keys and values; a single product if both are the same tensor."""
        wide, narrow = self.heads * self._head_size, self._key_heads * self._head_size
        if key is value:
            both, count = self._heads(self._projected(key, wide)), self._key_heads
            return both[:, :count], both[:, count:]
        k, v = self._projected(key, wide, wide + narrow), self._projected(value, wide + narrow)
        return self._heads(k), self._heads(v)

    def _heads(self, x: Tensor[B]) -> Tensor[B]:
        """Reshape (N, length, heads · head_size) to (N, heads, length, head_size)."""
        (n, length, size), each = x.shape, self._head_size
        return x.reshape(n, length, size // each, each).transpose(1, 2)

    @property
    def _key_heads(self) -> int:
        return self.heads if self.key_heads is None else self.key_heads

    @property
    def _head_size(self) -> int:
        return self.size // self.heads if self.head_size is None else self.head_size

    @property
    def _dtype(self) -> DType:
        """The dtype of keys and values."""
        return next(x.dtype for x in self._variables().values() if x.kind == "float")

    @property
    def size(self) -> int:
        """The size of input and output vectors."""
        return self.in_proj_weight.shape[0] if self.q_proj is None else int(self.q_proj.in_features)

    @property
    def bias(self) -> bool:
        """True if the projections have a bias."""
        if self.q_proj is None:
            return self.in_proj_bias is not None
        return any(path.endswith("bias") for path in self.q_proj._variables())
