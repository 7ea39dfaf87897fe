"""The keys and values that attention keeps between calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple

from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import Tensor


class KeyValueCache(NamedTuple, Generic[B]):
    """The keys and values of the S positions that a `MultiHeadAttention` has seen, for the positions that follow.

    `MultiHeadAttention.empty_cache` is the first one, and each call with ``cache=`` returns the next beside its output.
    A cache never changes, so that several continuations can begin from one.

    Attributes:
        key: shape (N, heads of keys, S, size / heads).
        value: of the same shape.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> from burnpy.nn import MultiHeadAttention
    >>> attention, x = MultiHeadAttention(8, 2, device=NumPy), Tensor[NumPy].ones((1, 3, 8))
    >>> prompt, cache = attention(x, causal=True, cache=attention.empty_cache(1))
    >>> y, longer = attention(x[:, :1], causal=True, cache=cache)
    >>> cache.length, longer.length, longer.key.shape
    (3, 4, (1, 2, 4, 4))
    """

    key: Tensor[B]  #: shape (N, heads of keys, S, size / heads)
    value: Tensor[B]  #: of the same shape

    @property
    def length(self) -> int:
        """The number of positions, S."""
        return self.key.shape[-2]


class DecoderCache(NamedTuple, Generic[B]):
    """The keys and values that both attentions of a `TransformerDecoderLayer` keep between calls.

    The first call projects the memory; later calls use the result.

    Attributes:
        own: the keys and values of the positions that the layer has seen.
        memory: the keys and values of the memory; None before the first call.
    """

    own: KeyValueCache[B]  #: of the positions that the layer has seen
    memory: KeyValueCache[B] | None = None  #: of the memory; None before the first call

    @property
    def length(self) -> int:
        """The number of positions that the layer has seen."""
        return self.own.length
