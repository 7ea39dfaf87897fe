"""`TransformerDecoder`, its layers, which attend to an encoder's results as well, and its cache, `DecoderCache`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NamedTuple, overload

from burnpy.backend.errors import KindError, ShapeError, a
from burnpy.nn.layers.key_value_cache import KeyValueCache
from burnpy.nn.layers.transformer import TransformerLayer, TransformerStack
from burnpy.nn.module import rebound
from burnpy.tensor.call_errors import explained
from burnpy.tensor.tensor import IntTensor, Tensor
from burnpy.typevars import B, I

if TYPE_CHECKING:
    from typing import Unpack

    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.nn.layers.attention import AttentionMasks
    from burnpy.nn.layers.dropout import Dropout
    from burnpy.nn.layers.key_value_cache import CacheOptions
    from burnpy.nn.layers.multi_head_attention import MultiHeadAttention
    from burnpy.nn.layers.normalization import LayerNorm
    from burnpy.nn.module import called_as
    from burnpy.tensor.tensor_types import Bools

    class DecoderMasks(AttentionMasks[B], Generic[B], total=False):
        """The masks that a call of a decoder takes as keyword arguments, for type checkers."""

        memory_mask: Bools[B] | Tensor[B] | None
        memory_key_mask: Bools[B] | None


class TransformerDecoderLayer(TransformerLayer[B]):
    """A transformer decoder layer: self-attention, attention to a memory, and a feed-forward network.

    Each has a residual connection and a layer norm. Parameter paths are PyTorch's. The arguments and errors are those
    of `TransformerEncoderLayer`.

    Source: Vaswani et al., Attention Is All You Need, 2017.

    >>> layer = TransformerDecoderLayer(8, 2, feedforward=16, device=NumPy)
    >>> layer(Tensor[NumPy].ones((2, 5, 8)), Tensor[NumPy].ones((2, 3, 8)), causal=True).shape
    (2, 5, 8)
    """

    multihead_attn: MultiHeadAttention[B]
    norm3: LayerNorm[B]
    dropout3: Dropout
    _attentions = ("self_attn", "multihead_attn")

    @overload
    def forward(
        self, x: Tensor[B], memory: Tensor[B], *, cache: None = None, **masks: Unpack[DecoderMasks[B]]
    ) -> Tensor[B]: ...
    @overload
    def forward(
        self, x: Tensor[B], memory: Tensor[B], *, cache: DecoderCache[B], **masks: Unpack[DecoderMasks[B]]
    ) -> tuple[Tensor[B], DecoderCache[B]]: ...
    def forward(
        self,
        x: Tensor[B],
        memory: Tensor[B],
        *,
        mask: Bools[B] | Tensor[B] | None = None,
        key_mask: Bools[B] | None = None,
        memory_mask: Bools[B] | Tensor[B] | None = None,
        memory_key_mask: Bools[B] | None = None,
        causal: bool = False,
        cache: DecoderCache[B] | None = None,
    ) -> Tensor[B] | tuple[Tensor[B], DecoderCache[B]]:
        """Map x (N, T, size), which attends to itself and to a memory (N, S, size), to the shape of x.

        Masks are as in `MultiHeadAttention`, true where attention is allowed; ``causal`` is of the self-attention.
        With a cache, at first `empty_cache`, the result is a pair of the output and the next cache. The memory is
        projected by the first call with a cache, and the same in all later ones.

        Raises:
            ShapeError: the shapes do not match, or the cache is of a memory of another shape.
            KindError: ``cache`` is not a `DecoderCache`.
        """
        memory_keys = memory if cache is None else self._memory_keys(memory, cache)
        own: KeyValueCache[B] | None = None

        def self_attention(x: Tensor[B]) -> Tensor[B]:
            nonlocal own
            if cache is None:
                return self.self_attn(x, mask=mask, key_mask=key_mask, causal=causal)
            out, own = self.self_attn(x, mask=mask, key_mask=key_mask, causal=causal, cache=cache.own)
            return out

        def cross_attention(x: Tensor[B]) -> Tensor[B]:
            return self.multihead_attn(x, memory_keys, mask=memory_mask, key_mask=memory_key_mask)

        x = self._residual(x, self_attention, self.norm1, self.dropout1)
        x = self._residual(x, cross_attention, self.norm2, self.dropout2)
        x = self._residual(x, self._feed_forward, self.norm3, self.dropout3)
        if own is None or isinstance(memory_keys, Tensor):
            return x
        return x, DecoderCache(own, memory_keys)

    if TYPE_CHECKING:

        @called_as(forward)
        def __call__(self, *args: Any, **kwargs: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
            """Return the result of `forward`."""
            ...

    @explained
    def empty_cache(self, batch: int, capacity: int, **options: Unpack[CacheOptions[B]]) -> DecoderCache[B]:
        """Return a cache of no positions, and of no memory yet, with which to begin.

        The arguments are those of `MultiHeadAttention.empty_cache`.
        """
        return DecoderCache(self.self_attn.empty_cache(batch, capacity, **options))

    def _memory_keys(self, memory: Tensor[B], cache: DecoderCache[B]) -> KeyValueCache[B]:
        """Return the projections of the memory: the cache's, or new ones if it has none yet."""
        argument: Any = cache
        if not isinstance(argument, DecoderCache):
            raise KindError(
                f"TransformerDecoderLayer() takes a DecoderCache as cache, got {a(type(argument).__name__)}; begin "
                "with layer.empty_cache(batch, capacity)"
            )
        if cache.memory is None:
            return self.multihead_attn.project(memory)
        known = (cache.memory.shape[0], cache.memory.capacity, self.size)
        if memory.shape != known:
            raise ShapeError(
                f"TransformerDecoderLayer() got a memory with shape {memory.shape} and a cache for a memory with "
                f"shape {known}; begin with layer.empty_cache(batch, capacity) for another memory"
            )
        return cache.memory

    def valid(self: TransformerDecoderLayer[Autodiff[I]]) -> TransformerDecoderLayer[I]:
        """Return the same layer on the inner backend."""
        return rebound(self)


class TransformerDecoder(TransformerStack[B]):
    """A stack of `TransformerDecoderLayer`, followed by a layer norm if ``norm_first``.

    Each layer is initialized independently. Parameter paths are PyTorch's: ``layers.0.self_attn.in_proj_weight``,
    ``norm.weight``. The arguments and errors are those of `TransformerEncoder`.

    >>> model, memory = TransformerDecoder(2, 8, 2, feedforward=16, device=NumPy), Tensor[NumPy].ones((2, 3, 8))
    >>> model(Tensor[NumPy].ones((2, 5, 8)), memory, causal=True).shape
    (2, 5, 8)
    >>> y, cache = model(Tensor[NumPy].ones((2, 1, 8)), memory, causal=True, cache=model.empty_cache(2, 5))
    >>> y.shape, cache[0].length
    ((2, 1, 8), 1)
    """

    layers: tuple[TransformerDecoderLayer[B], ...]
    _layer = TransformerDecoderLayer

    @overload
    def forward(
        self, x: Tensor[B], memory: Tensor[B], *, cache: None = None, **masks: Unpack[DecoderMasks[B]]
    ) -> Tensor[B]: ...
    @overload
    def forward(
        self, x: Tensor[B], memory: Tensor[B], *, cache: tuple[DecoderCache[B], ...], **masks: Unpack[DecoderMasks[B]]
    ) -> tuple[Tensor[B], tuple[DecoderCache[B], ...]]: ...
    def forward(
        self,
        x: Tensor[B],
        memory: Tensor[B],
        *,
        mask: Bools[B] | Tensor[B] | None = None,
        key_mask: Bools[B] | None = None,
        memory_mask: Bools[B] | Tensor[B] | None = None,
        memory_key_mask: Bools[B] | None = None,
        causal: bool = False,
        cache: tuple[DecoderCache[B], ...] | None = None,
    ) -> Tensor[B] | tuple[Tensor[B], tuple[DecoderCache[B], ...]]:
        """Map x (N, T, size), which attends to itself and to a memory (N, S, size), to the shape of x.

        Masks are as in `TransformerDecoderLayer`. With a cache for each layer, at first `empty_cache`, the result is a
        pair of the output and the next cache. The memory is projected once, by the first call with a cache.
        """
        masks: DecoderMasks[B] = {
            "mask": mask,
            "key_mask": key_mask,
            "memory_mask": memory_mask,
            "memory_key_mask": memory_key_mask,
            "causal": causal,
        }
        return self._applied(x, memory, cache=cache, **masks)

    if TYPE_CHECKING:

        @called_as(forward)
        def __call__(self, *args: Any, **kwargs: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
            """Return the result of `forward`."""
            ...

    @explained
    def empty_cache(self, batch: int, capacity: int, **options: Unpack[CacheOptions[B]]) -> tuple[DecoderCache[B], ...]:
        """Return a cache of no positions for each layer, with which to begin: see `MultiHeadAttention.empty_cache`."""
        return tuple([layer.empty_cache(batch, capacity, **options) for layer in self.layers])

    def valid(self: TransformerDecoder[Autodiff[I]]) -> TransformerDecoder[I]:
        """Return the same layers on the inner backend."""
        return rebound(self)


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
    def length(self) -> int | IntTensor[B]:
        """The number of positions that the layer has seen."""
        return self.own.length
