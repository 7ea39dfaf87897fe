"""The frame of transformers, layers of sublayers and stacks of layers, and the encoder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, overload

from burnpy.backend.errors import KindError, a
from burnpy.nn.argument_checks import check_choice, positive
from burnpy.nn.layers.dropout import Dropout
from burnpy.nn.layers.key_value_cache import KeyValueCache
from burnpy.nn.layers.linear import Linear
from burnpy.nn.layers.multi_head_attention import MultiHeadAttention
from burnpy.nn.layers.normalization import LayerNorm
from burnpy.nn.module import Module, rebound
from burnpy.tensor.call_errors import explained
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Unpack

    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.nn.layers.attention import AttentionMasks
    from burnpy.nn.layers.key_value_cache import CacheOptions
    from burnpy.nn.module import called_as
    from burnpy.tensor.generator import Generator
    from burnpy.tensor.tensor import Tensor
    from burnpy.tensor.tensor_types import Bools


class TransformerLayer(Module[B]):
    """The base class of transformer layers: attention sublayers and a feed-forward network.

    Each sublayer has a residual connection, a dropout and a layer norm, ``dropout1`` and ``norm1`` for the first one.
    A subclass names its attention sublayers.
    """

    self_attn: MultiHeadAttention[B]
    norm1: LayerNorm[B]
    norm2: LayerNorm[B]
    dropout1: Dropout
    dropout2: Dropout
    _attentions: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        size: int,
        heads: int,
        *,
        feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Literal["relu", "gelu"] = "relu",
        norm_first: bool = False,
        eps: float = 1e-5,
        device: B | type[B],
        generator: Generator | None = None,
    ) -> None:
        name = type(self).__name__
        positive(name, size=size, feedforward=feedforward)
        check_choice(name, "activation", activation, ("relu", "gelu"))
        self.size, self.heads, self.feedforward = size, heads, feedforward
        self.activation: Literal["relu", "gelu"] = activation
        self.norm_first = norm_first
        self.eps = eps
        for attention in self._attentions:
            sublayer = MultiHeadAttention(size, heads, dropout=dropout, device=device, generator=generator)
            setattr(self, attention, sublayer)
        self.linear1 = Linear(size, feedforward, device=device, generator=generator)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(feedforward, size, device=device, generator=generator)
        sublayers = range(1, len(self._attentions) + 2)
        for number in sublayers:
            setattr(self, f"norm{number}", LayerNorm(size, eps=eps, device=device))
        for number in sublayers:
            setattr(self, f"dropout{number}", Dropout(dropout))

    def _residual(
        self, x: Tensor[B], sublayer: Callable[[Tensor[B]], Tensor[B]], norm: LayerNorm[B], dropout: Dropout
    ) -> Tensor[B]:
        """Return x plus a sublayer's output. The layer norm applies to the sublayer's input if ``norm_first``, else to
        the sum."""
        if self.norm_first:
            return x + dropout(sublayer(norm(x)))
        return norm(x + dropout(sublayer(x)))

    def _feed_forward(self, x: Tensor[B]) -> Tensor[B]:
        x = self.linear1(x)
        return self.linear2(self.dropout(x.relu() if self.activation == "relu" else x.gelu()))


class TransformerStack(Module[B]):
    """The base class of stacks of transformer layers, followed by a layer norm if ``norm_first``.

    A subclass names the class of its layers.
    """

    layers: tuple[Any, ...]
    norm: LayerNorm[B] | None
    _layer: ClassVar[type[TransformerLayer[Any]]]

    def __init__(
        self,
        count: int,
        size: int,
        heads: int,
        *,
        feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Literal["relu", "gelu"] = "relu",
        norm_first: bool = False,
        norm: bool | None = None,
        eps: float = 1e-5,
        device: B | type[B],
        generator: Generator | None = None,
    ) -> None:
        positive(type(self).__name__, count=count)
        self.count, self.size, self.heads, self.feedforward = count, size, heads, feedforward
        self.dropout = dropout
        self.activation: Literal["relu", "gelu"] = activation
        self.norm_first = norm_first
        self.eps = eps
        self.layers = tuple(
            self._layer(
                size,
                heads,
                feedforward=feedforward,
                dropout=dropout,
                activation=activation,
                norm_first=norm_first,
                eps=eps,
                device=device,
                generator=generator,
            )
            for _ in range(count)
        )
        last = norm_first if norm is None else norm
        self.norm = LayerNorm(size, eps=eps, device=device) if last else None

    def _applied(
        self, x: Tensor[B], *memory: Tensor[B], cache: tuple[Any, ...] | None, **masks: Any
    ) -> Tensor[B] | tuple[Tensor[B], tuple[Any, ...]]:
        """Return the output of all layers; with a cache for each, a pair of it and the next caches."""
        next_caches: list[Any] = []
        for layer, layer_cache in zip(self.layers, self._caches(cache), strict=True):
            if layer_cache is None:
                x = layer(x, *memory, **masks)
            else:
                x, next_cache = layer(x, *memory, **masks, cache=layer_cache)
                next_caches.append(next_cache)
        x = x if self.norm is None else self.norm(x)
        return x if cache is None else (x, tuple(next_caches))

    def _caches(self, cache: tuple[Any, ...] | None) -> tuple[Any, ...]:
        """Return a cache, or None, for each layer."""
        if cache is None:
            return (None,) * self.count
        given: Any = cache
        if not isinstance(given, tuple) or len(given) != self.count or hasattr(given, "_fields"):  # a single cache
            raise KindError(
                f"{type(self).__name__}() takes a tuple of {self.count} caches, one for each layer, got "
                f"{a(type(cache).__name__)}; begin with empty_cache(batch, capacity)"
            )
        return cache


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

    >>> layer = TransformerEncoderLayer(8, 2, feedforward=16, device=NumPy)
    >>> layer(Tensor[NumPy].ones((2, 5, 8)), causal=True).shape
    (2, 5, 8)
    """

    _attentions = ("self_attn",)

    @overload
    def forward(self, x: Tensor[B], *, cache: None = None, **masks: Unpack[AttentionMasks[B]]) -> Tensor[B]: ...
    @overload
    def forward(
        self, x: Tensor[B], *, cache: KeyValueCache[B], **masks: Unpack[AttentionMasks[B]]
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

    >>> model = TransformerEncoder(2, 8, 2, feedforward=16, device=NumPy)
    >>> x = Tensor[NumPy].ones((2, 5, 8))
    >>> model(x, causal=True).shape
    (2, 5, 8)

    A decoder of text, which has no memory to attend to, is an encoder with ``causal=True``. To generate, give it one
    position after the other, and the keys and values of the earlier ones as a cache:

    >>> cache = model.empty_cache(2, 5)
    >>> for t in range(5):
    ...     y, cache = model(x[:, t : t + 1], causal=True, cache=cache)
    >>> y.shape, cache[0].length
    ((2, 1, 8), 5)
    """

    layers: tuple[TransformerEncoderLayer[B], ...]
    _layer = TransformerEncoderLayer

    @overload
    def forward(self, x: Tensor[B], *, cache: None = None, **masks: Unpack[AttentionMasks[B]]) -> Tensor[B]: ...
    @overload
    def forward(
        self, x: Tensor[B], *, cache: tuple[KeyValueCache[B], ...], **masks: Unpack[AttentionMasks[B]]
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
        return self._applied(x, cache=cache, mask=mask, key_mask=key_mask, causal=causal)

    if TYPE_CHECKING:

        @called_as(forward)
        def __call__(self, *args: Any, **kwargs: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
            """Return the result of `forward`."""
            ...

    @explained
    def empty_cache(
        self, batch: int, capacity: int, **options: Unpack[CacheOptions[B]]
    ) -> tuple[KeyValueCache[B], ...]:
        """Return a cache of no positions for each layer, with which to begin: see `MultiHeadAttention.empty_cache`."""
        return tuple([layer.self_attn.empty_cache(batch, capacity, **options) for layer in self.layers])

    def valid(self: TransformerEncoder[Autodiff[I]]) -> TransformerEncoder[I]:
        """Return the same layers on the inner backend."""
        return rebound(self)
