"""`Decoder`: the base class of models that predict the next token, which `burnpy.models.generate` continues."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, TypeAlias

from burnpy.backend.errors import ArgumentError, KindError, ShapeError, a
from burnpy.models.pretrained import Pretrained
from burnpy.nn.layers.key_value_cache import KeyValueCache
from burnpy.nn.layers.linear import linear
from burnpy.tensor.call_errors import explained
from burnpy.tensor.tensor import BoolTensor, IntTensor, Tensor
from burnpy.tensor.tensor_base import describe
from burnpy.typevars import B

if TYPE_CHECKING:
    from collections.abc import Sequence

    from burnpy.nn.layers.embedding import Embedding
    from burnpy.nn.layers.linear import Linear
    from burnpy.nn.layers.multi_head_attention import MultiHeadAttention
    from burnpy.tensor.host_data import DTypeLike
    from burnpy.tensor.tensor_types import Bools, Ints

Caches: TypeAlias = tuple[KeyValueCache[B], ...]
"""The keys and values of all earlier tokens, one cache for each layer."""


class Decoder(Pretrained[B]):
    """The base class of causal language models.

    A subclass computes hidden states. It has embeddings ``tokens``, and a ``head`` unless logits are products with
    those.
    """

    tokens: Embedding[B]
    head: Linear[B] | None

    @property
    def vocabulary(self) -> int:
        """The number of tokens that the model knows."""
        return self.tokens.count

    @property
    @abstractmethod
    def capacity(self) -> int | None:
        """The largest number of tokens in a sequence; None if there is no limit."""

    @abstractmethod
    def hidden(
        self, tokens: Ints[B], *, key_mask: Bools[B] | None = None, cache: Caches[B] | None = None
    ) -> tuple[Tensor[B], Caches[B]]:
        """Return the hidden states after the last layer, (N, T, size), and the next cache: without one, ()."""

    def logits(self, hidden: Tensor[B]) -> Tensor[B]:
        """Map hidden states (…, size) to the logits of the tokens that follow, (…, vocabulary)."""
        return linear(hidden, self.tokens.weight.value.mT) if self.head is None else self.head(hidden)

    @abstractmethod
    def attentions(self) -> tuple[MultiHeadAttention[B], ...]:
        """Return the attention of each layer."""

    def forward(self, tokens: Ints[B], *, key_mask: Bools[B] | None = None) -> Tensor[B]:
        """Return the logits of the token after each position.

        Args:
            tokens: shape (N, T).
            key_mask: shape (N, T), false for padding, which no token attends to and which has no position.

        Returns:
            Shape (N, T, vocabulary).

        Raises:
            ShapeError: the shapes do not match, or there is no token.
            ArgumentError: there are more tokens than the `capacity` of the model.
        """
        self._check(tokens, 0)
        ids: Any = tokens
        mask: Any = key_mask
        if mask is not None and (not isinstance(mask, BoolTensor) or mask.shape != ids.shape):
            got = mask.shape if isinstance(mask, BoolTensor) else a(type(mask).__name__)
            raise ShapeError(f"{type(self).__name__} takes as key_mask a BoolTensor of shape {ids.shape}, got {got}")
        return self.logits(self.hidden(tokens, key_mask=key_mask)[0])

    @explained
    def next_logits(self, tokens: Ints[B], cache: Caches[B]) -> tuple[Tensor[B], Caches[B]]:
        """Return the logits of the token after the last position, and the cache of all tokens so far.

        Args:
            tokens: shape (N, T), the tokens that follow those in the cache.
            cache: what the call before returned; `empty_cache` for the first.

        Returns:
            Logits of shape (N, vocabulary), and the cache.

        Raises:
            KindError: the cache is of another kind of model, or of another number of layers.
            ShapeError: the shapes do not match, or the cache has no room.
            ArgumentError: there are more tokens than the `capacity` of the model.
        """
        self._check(tokens, self._length(cache))
        hidden, longer = self.hidden(tokens, cache=cache)
        return self.logits(hidden[:, -1]), longer

    @explained
    def empty_cache(
        self, batch: int, capacity: int, *, padding: IntTensor[B] | None = None, dtype: DTypeLike | None = None
    ) -> Caches[B]:
        """Return a cache of no tokens, with which to begin.

        Args:
            batch: the number of texts.
            capacity: the largest number of tokens, prompt included.
            padding: shape (batch,): the number of tokens before the first of each text, which none attends to.
            dtype: the dtype in which keys and values are stored, such as "bfloat16"; the model's by default.
        """
        return tuple([each.empty_cache(batch, capacity, padding=padding, dtype=dtype) for each in self.attentions()])

    def _through(
        self, layers: Sequence[Any], x: Tensor[B], key_mask: Bools[B] | None, cache: Caches[B] | None
    ) -> tuple[Tensor[B], Caches[B]]:
        """Return the output of all layers for x (N, T, size), and the next cache: without one, ()."""
        longer: list[KeyValueCache[B]] = []
        for layer, layer_cache in zip(layers, cache or [None] * len(layers), strict=True):
            x, next_cache = layer(x, key_mask, layer_cache)
            if next_cache is not None:
                longer.append(next_cache)
        return x, tuple(longer)

    def _length(self, cache: Caches[B]) -> int:
        """Return the number of tokens in a cache, checked to be of this model; 0 if only the device knows it."""
        layers = len(self.attentions())
        given: Any = cache
        if not isinstance(given, tuple) or len(given) != layers or not isinstance(given[0], KeyValueCache):
            raise KindError(
                f"{type(self).__name__} takes a tuple of {layers} caches, one for each layer, got "
                f"{a(type(cache).__name__)}; begin with model.empty_cache(batch, capacity)"
            )
        length = cache[0].length
        return length if isinstance(length, int) else 0

    def _check(self, tokens: Any, past: int) -> None:
        """Check the arguments of a call before anything is computed."""
        name = type(self).__name__
        if not isinstance(tokens, IntTensor):
            raise KindError(f"{name} takes an IntTensor of tokens, got {a(type(tokens).__name__)}")
        if tokens.ndim != 2 or not tokens.shape[1]:
            raise ShapeError(f"{name} takes tokens of shape (N, T) with at least one token, got shape {tokens.shape}")
        length = past + tokens.shape[1]
        if self.capacity is not None and length > self.capacity:
            raise ArgumentError(f"{name} takes up to {self.capacity} tokens, got {length}")


def attended(
    attention: MultiHeadAttention[B], x: Tensor[B], key_mask: Bools[B] | None, cache: KeyValueCache[B] | None
) -> tuple[Tensor[B], KeyValueCache[B] | None]:
    """Return what each token of x (N, T, size) attends to, itself and those before it, and the next cache if any."""
    if cache is None:
        return attention(x, causal=True, key_mask=key_mask), None
    return attention(x, causal=True, cache=cache)


def positions(tokens: Ints[B], key_mask: Bools[B] | None, cache: Caches[B] | None) -> IntTensor[B]:
    """Return the position of each token, (N, T) or (T,): the number of tokens before it that are no padding."""
    ids: Any = tokens
    steps: IntTensor[B] = IntTensor.arange(0, ids.shape[1], device=ids.device)
    if key_mask is not None:
        real: Any = key_mask
        return (real.int().cumsum(dim=1) - 1).clamp(min=0)  # type: ignore[no-any-return]  # an IntTensor
    first = 0 if cache is None else cache[0].offset()
    if isinstance(first, int):
        return steps + first
    return (first.unsqueeze(-1) + steps).clamp(min=0)


def refuse_non_functions(operation: str, *given: object) -> None:
    """Check arguments that are functions, before generation calls them.

    Raises:
        ArgumentError: one is not a function.
    """
    for each in given:
        if not callable(each):
            raise ArgumentError(f"{operation}() got {describe(each)}; expected a function of logits, such as greedy")
