"""`scaled_dot_product_attention`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

from burnpy.backend.backend import Backend
from burnpy.backend.errors import ArgumentError, ShapeError, a
from burnpy.nn.functional.checks import dims_at_least, floats
from burnpy.nn.functional.dropout import dropout
from burnpy.nn.sizes import whole
from burnpy.tensor.base import TensorBase
from burnpy.tensor.bool_tensor import BoolTensor
from burnpy.tensor.call_errors import explained
from burnpy.tensor.float_width import refuse_wider
from burnpy.tensor.operands import broadcast_shape, together
from burnpy.tensor.tensor import Tensor

if TYPE_CHECKING:
    from burnpy.tensor.generator import Generator

B = TypeVar("B", bound=Backend)


@explained
def scaled_dot_product_attention(
    query: Tensor[B],
    key: Tensor[B],
    value: Tensor[B],
    mask: BoolTensor[B] | Tensor[B] | None = None,
    *,
    causal: bool = False,
    offset: int | None = None,
    scale: float | None = None,
    dropout_p: float = 0.0,
    generator: Generator | None = None,
) -> Tensor[B]:
    """``softmax(query @ key.mT · scale + mask) @ value``: for each query the values, by how well their keys fit.

    A query that may attend to nothing gets zeros, and gives no gradient.

    Args:
        query: shape (…, T, E).
        key: shape (…, S, E).
        value: shape (…, S, F).
        mask: broadcasts to (…, T, S). Of bools, true where a query may attend to a key; of floats, what is added.
        causal: whether query t attends to the keys 0 … offset + t only.
        offset: where the first query stands among the keys; 0, unless given. Fewer queries than keys need it: with a
            cache of keys, whose last are those of the queries, it is ``S - T``. Queries that stand after the last key
            attend to all of them, and those before the first, where it is negative, to none.
        scale: 1 / √E, unless given.
        dropout_p: how likely a weight is dropped; 0 in use.
        generator: what that draws from.

    Returns:
        Shape (…, T, F).

    Raises:
        ShapeError: the shapes do not belong together.
        DTypeError: keys, values or a mask to add are wider than the queries.
        ArgumentError: ``dropout_p`` is no probability; or ``causal`` leaves open where fewer queries than keys stand.

    Source: Vaswani et al., Attention Is All You Need, 2017.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> q, v = Tensor[NumPy].zeros((2, 4)), Tensor[NumPy].from_data([[1.0], [3.0]])
    >>> scaled_dot_product_attention(q, q, v).tolist(), scaled_dot_product_attention(q, q, v, causal=True).tolist()
    ([[2.0], [2.0]], [[1.0], [2.0]])
    >>> scaled_dot_product_attention(q[1:], q, v, causal=True, offset=1).tolist()
    [[2.0]]
    """
    name = "scaled_dot_product_attention"
    query, key, value = floats(name, query=query, key=key, value=value)
    for word, x, form in (("query", query, "(…, T, E)"), ("key", key, "(…, S, E)"), ("value", value, "(…, S, F)")):
        dims_at_least(name, word, x, 2, form)
    batch = broadcast_shape(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    if batch is None or query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise ShapeError(
            f"{name}() was given query of shape {query.shape}, key of shape {key.shape} and value of shape "
            f"{value.shape}; they must be (…, T, E), (…, S, E) and (…, S, F), and … broadcast"
        )
    first = _first_query(name, query.shape[-2], key.shape[-2], causal, offset)
    query, key, value = (x.broadcast_to((*batch, *x.shape[-2:])) for x in (query, key, value))
    factor = 1.0 / math.sqrt(query.shape[-1] or 1) if scale is None else float(scale)
    scores_shape = (*batch, query.shape[-2], key.shape[-2])
    if mask is not None:
        query, key, value, mask = together(name, query, key, value, mask)
        _check_mask(name, mask, scores_shape)
        refuse_wider(name, "queries", query.dtype, mask=mask)
    if not dropout_p and not isinstance(mask, Tensor):
        device: Any = query.device
        primitives = (query._primitive, key._primitive, value._primitive)
        kept = None if mask is None else mask._primitive
        return query._like(device.attention(*primitives, kept, first, factor)[0])
    return _composed(query, key, value, mask, first, factor, dropout_p, generator)


def _composed(
    query: Tensor[B],
    key: Tensor[B],
    value: Tensor[B],
    mask: BoolTensor[B] | Tensor[B] | None,
    first: int | None,
    scale: float,
    dropout_p: float,
    generator: Generator | None,
) -> Tensor[B]:
    """What the backend has no operation for: a mask that is added, and dropout."""
    scores = query * scale @ key.mT
    if isinstance(mask, Tensor):
        scores = scores + mask
        allowed = mask.detach() != -math.inf
    else:
        allowed = mask if mask is not None else BoolTensor.ones((1, 1), device=query.device)
    if first is not None:
        allowed = allowed & BoolTensor.ones(scores.shape[-2:], device=query.device).tril(first)
    some = allowed.any(dim=-1, keepdim=True)
    weights = scores.masked_fill(~(allowed | ~some), -math.inf).softmax(-1).masked_fill(~some, 0.0)
    return dropout(weights, dropout_p, generator=generator) @ value


def _first_query(name: str, queries: int, keys: int, causal: bool, offset: int | None) -> int | None:
    """Where the first query stands among the keys; None where that does not matter.

    Raises:
        ArgumentError: it is not known, or said of what is not causal.
    """
    if not causal:
        if offset is not None:
            raise ArgumentError(
                f"{name}() was given offset={offset!r} without causal=True, for which it says where the queries stand"
            )
        return None
    if offset is not None:
        return whole(name, "offset", offset)
    if queries < keys:
        asked = f"{queries} quer{'y' if queries == 1 else 'ies'} and {keys} key{'s' * (keys != 1)}"
        raise ArgumentError(
            f"{name}() was asked for causal=True with {asked}, and not where the queries stand among the keys; say so: "
            f"offset={keys - queries} for the last places, as with a cache of keys, offset=0 for the first"
        )
    return 0


def _check_mask(name: str, mask: Any, shape: tuple[int, ...]) -> None:
    if not isinstance(mask, TensorBase) or mask.kind == "int":
        raise ArgumentError(f"{name}() takes as mask a BoolTensor, or a Tensor to add, not {a(type(mask).__name__)}")
    if broadcast_shape(mask.shape, shape) != shape:
        raise ShapeError(f"{name}() was given a mask of shape {mask.shape}, which does not broadcast to {shape}")
