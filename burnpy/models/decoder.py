"""`Decoder`: the base class of models that predict the next token, which `burnpy.models.generate` continues."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, TypeAlias

from burnpy.backend.errors import ArgumentError, IndexRangeError, KindError, ShapeError, a
from burnpy.models.pretrained import Pretrained
from burnpy.nn.layers.attention import KeyValueCache, MultiHeadAttention
from burnpy.tensor.call_errors import explained
from burnpy.tensor.tensor import BoolTensor, IntTensor, Tensor
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor_types import Bools, Ints

Caches: TypeAlias = tuple[KeyValueCache[B], ...]
"""The keys and values of all earlier tokens, one cache for each layer."""


class Decoder(Pretrained[B]):
    """The base class of causal language models.

    A subclass computes hidden states, and logits of them.
    """

    @property
    @abstractmethod
    def vocabulary(self) -> int:
        """The number of tokens that the model knows."""

    @property
    @abstractmethod
    def capacity(self) -> int:
        """The largest number of tokens in a sequence."""

    @abstractmethod
    def hidden(
        self, tokens: Ints[B], *, key_mask: Bools[B] | None = None, cache: Caches[B] | None = None
    ) -> tuple[Tensor[B], Caches[B] | None]:
        """Compute the hidden state after the last layer, (N, T, size), and the next cache."""

    @abstractmethod
    def logits(self, hidden: Tensor[B]) -> Tensor[B]:
        """Map hidden states (…, size) to the logits of the tokens that follow, (…, vocabulary)."""

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
            ShapeError: the shapes do not match.
            ArgumentError: there are more than `capacity` tokens.
        """
        self._check(tokens, key_mask, 0)
        return self.logits(self.hidden(tokens, key_mask=key_mask)[0])

    @explained
    def next_logits(
        self, tokens: Ints[B], cache: Caches[B], *, key_mask: Bools[B] | None = None
    ) -> tuple[Tensor[B], Caches[B]]:
        """Return the logits of the token after the last position, and the cache of all tokens so far.

        Args:
            tokens: shape (N, T), the tokens that follow those in the cache.
            cache: what the call before returned; `empty_cache` for the first.
            key_mask: shape (N, S), false for padding, for the tokens in the cache and these.

        Returns:
            Logits of shape (N, vocabulary), and the cache.
        """
        self._check(tokens, key_mask, self._length(cache))
        hidden, longer = self.hidden(tokens, key_mask=key_mask, cache=cache)
        assert longer is not None
        return self.logits(hidden[:, -1]), longer

    def empty_cache(self, batch: int, capacity: int) -> Caches[B]:
        """Return a cache for ``batch`` sequences of up to ``capacity`` tokens."""
        return tuple([attention.empty_cache(batch) for attention in self.attentions()])

    def _length(self, cache: Caches[B]) -> int:
        """Return the number of tokens in a cache, checked to be of this model."""
        layers = len(self.attentions())
        given: Any = cache
        if not isinstance(given, tuple) or len(given) != layers or not isinstance(given[0], KeyValueCache):
            raise KindError(
                f"{type(self).__name__} takes a tuple of {layers} caches, one for each layer, got "
                f"{a(type(cache).__name__)}; begin with model.empty_cache(batch, capacity)"
            )
        return cache[0].length

    def _check(self, tokens: Any, key_mask: Any, past: int) -> None:
        """Check the arguments of a call before anything is computed."""
        name = type(self).__name__
        if not isinstance(tokens, IntTensor):
            raise KindError(f"{name} takes an IntTensor of tokens, got {a(type(tokens).__name__)}")
        if tokens.ndim != 2 or not tokens.shape[1]:
            raise ShapeError(f"{name} takes tokens of shape (N, T) with at least one token, got shape {tokens.shape}")
        length = past + tokens.shape[1]
        if length > self.capacity:
            raise ArgumentError(f"{name} takes up to {self.capacity} tokens, got {length}")
        if key_mask is not None and (not isinstance(key_mask, BoolTensor) or key_mask.shape != (tokens.shape[0], length)):
            got = key_mask.shape if isinstance(key_mask, BoolTensor) else a(type(key_mask).__name__)
            raise ShapeError(f"{name} takes as key_mask a BoolTensor of shape {(tokens.shape[0], length)}, got {got}")


def positions(tokens: Ints[B], key_mask: Bools[B] | None, past: int) -> IntTensor[B]:
    """Return the position of each token, (N, T) or (T,): the number of tokens before it that are no padding."""
    length = tokens.shape[1]
    if key_mask is None:
        return IntTensor.arange(past, past + length, device=tokens.device)
    return (key_mask.int().cumsum(dim=1) - 1).clamp(min=0)[:, past:]
