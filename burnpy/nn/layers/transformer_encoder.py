"""The transformer encoder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, overload

from burnpy.nn.layers.transformer_base import TransformerLayer, TransformerStack
from burnpy.nn.module import rebound
from burnpy.tensor.call_errors import explained
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from typing import TypedDict, Unpack

    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.nn.layers.attention_cache import KeyValueCache
    from burnpy.nn.module import called_as
    from burnpy.tensor.tensor import Tensor
    from burnpy.tensor.tensor_types import Bools


if TYPE_CHECKING:

    class Masks(TypedDict, Generic[B], total=False):
        """The masks that a call of an encoder takes as keyword arguments, for type checkers."""

        mask: Bools[B] | Tensor[B] | None
        key_mask: Bools[B] | None
        causal: bool


class TransformerEncoderLayer(TransformerLayer[B]):
    """A transformer encoder layer: self-attention and a feed-forward network, each with residual and layer norm.

    Args:
        size: the size of input and output vectors.
        heads: the number of attention heads; must divide ``size``.
        feedforward: the hidden size of the feed-forward network.
        dropout: the dropout probability in training.
        activation: the activation of the feed-forward network, "relu" or "gelu".
        norm_first: whether to normalize the inputs of attention and feed-forward network instead of the residual sums.
        eps: the eps of the layer norms.
        device: the device of the layer.
        generator: the source of random initial values.

    Raises:
        ArgumentError: a setting is invalid.

    Source: Vaswani et al., Attention Is All You Need, 2017.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> layer = TransformerEncoderLayer(8, 2, feedforward=16, device=NumPy)
    >>> layer(Tensor[NumPy].ones((2, 5, 8)), causal=True).shape
    (2, 5, 8)
    """

    _attentions = ("self_attn",)

    @overload
    def forward(self, x: Tensor[B], *, cache: None = None, **masks: Unpack[Masks[B]]) -> Tensor[B]: ...
    @overload
    def forward(
        self, x: Tensor[B], *, cache: KeyValueCache[B], **masks: Unpack[Masks[B]]
    ) -> tuple[Tensor[B], KeyValueCache[B]]: ...
    def forward(
        self,
        x: Tensor[B],
        *,
        mask: Bools[B] | Tensor[B] | None = None,
        key_mask: Bools[B] | None = None,
        causal: bool = False,
        cache: KeyValueCache[B] | None = None,
    ) -> Tensor[B] | tuple[Tensor[B], KeyValueCache[B]]:
        """Map x (N, T, size) to the same shape.

        Masks are as in `MultiHeadAttention`, true where attention is allowed. With a cache of the keys and values of
        earlier positions, the result is a pair of the output and the next cache.
        """
        next_cache: KeyValueCache[B] | None = None

        def self_attention(x: Tensor[B]) -> Tensor[B]:
            nonlocal next_cache
            if cache is None:
                return self.self_attn(x, mask=mask, key_mask=key_mask, causal=causal)
            out, next_cache = self.self_attn(x, mask=mask, key_mask=key_mask, causal=causal, cache=cache)
            return out

        x = self._residual(x, self_attention, self.norm1, self.dropout1)
        x = self._residual(x, self._feed_forward, self.norm2, self.dropout2)
        return x if next_cache is None else (x, next_cache)

    if TYPE_CHECKING:

        @called_as(forward)
        def __call__(self, *args: Any, **kwargs: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
            """Return the result of `forward`."""
            ...

    def valid(self: TransformerEncoderLayer[Autodiff[I]]) -> TransformerEncoderLayer[I]:
        """Return the same layer on the inner backend."""
        return rebound(self)


class TransformerEncoder(TransformerStack[B]):
    """A stack of `TransformerEncoderLayer`, followed by a layer norm if ``norm_first``.

    Each layer is initialized independently. Parameter paths are PyTorch's: ``layers.0.self_attn.in_proj_weight``,
    ``norm.weight``.

    Args:
        count: the number of layers.
        size: the size of input and output vectors.
        heads: the number of attention heads; must divide ``size``.
        feedforward: the hidden size of the feed-forward networks.
        dropout: the dropout probability in training.
        activation: the activation of the feed-forward networks, "relu" or "gelu".
        norm_first: see `TransformerEncoderLayer`.
        norm: whether there is a layer norm after the last layer; ``norm_first`` by default.
        eps: the eps of the layer norms.
        device: the device of the layers.
        generator: the source of random initial values.

    Raises:
        ArgumentError: a setting is invalid.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> model = TransformerEncoder(2, 8, 2, feedforward=16, device=NumPy)
    >>> x = Tensor[NumPy].ones((2, 5, 8))
    >>> model(x, causal=True).shape
    (2, 5, 8)

    A decoder of text, which has no memory to attend to, is an encoder with ``causal=True``. To generate, give it one
    position after the other, and the keys and values of the earlier ones as a cache:

    >>> cache = model.empty_cache(2)
    >>> for t in range(5):
    ...     y, cache = model(x[:, t : t + 1], causal=True, cache=cache)
    >>> y.shape, cache[0].length
    ((2, 1, 8), 5)
    """

    layers: tuple[TransformerEncoderLayer[B], ...]
    _layer = TransformerEncoderLayer

    @overload
    def forward(self, x: Tensor[B], *, cache: None = None, **masks: Unpack[Masks[B]]) -> Tensor[B]: ...
    @overload
    def forward(
        self, x: Tensor[B], *, cache: tuple[KeyValueCache[B], ...], **masks: Unpack[Masks[B]]
    ) -> tuple[Tensor[B], tuple[KeyValueCache[B], ...]]: ...
    def forward(
        self,
        x: Tensor[B],
        *,
        mask: Bools[B] | Tensor[B] | None = None,
        key_mask: Bools[B] | None = None,
        causal: bool = False,
        cache: tuple[KeyValueCache[B], ...] | None = None,
    ) -> Tensor[B] | tuple[Tensor[B], tuple[KeyValueCache[B], ...]]:
        """Map x (N, T, size) to the same shape.

        Masks are as in `MultiHeadAttention`, true where attention is allowed. With a cache for each layer, at first
        `empty_cache`, the result is a pair of the output and the next cache.
        """
        masks: Masks[B] = {"mask": mask, "key_mask": key_mask, "causal": causal}
        next_caches: list[KeyValueCache[B]] = []
        for layer, layer_cache in zip(self.layers, self._caches(cache), strict=True):
            if layer_cache is None:
                x = layer(x, **masks)
            else:
                x, next_cache = layer(x, **masks, cache=layer_cache)
                next_caches.append(next_cache)
        x = x if self.norm is None else self.norm(x)
        return x if cache is None else (x, tuple(next_caches))

    if TYPE_CHECKING:

        @called_as(forward)
        def __call__(self, *args: Any, **kwargs: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
            """Return the result of `forward`."""
            ...

    @explained
    def empty_cache(self, batch: int) -> tuple[KeyValueCache[B], ...]:
        """Return a cache of no positions for each layer, for ``batch`` sequences, with which to begin."""
        return tuple([layer.self_attn.empty_cache(batch) for layer in self.layers])

    def valid(self: TransformerEncoder[Autodiff[I]]) -> TransformerEncoder[I]:
        """Return the same layers on the inner backend."""
        return rebound(self)
