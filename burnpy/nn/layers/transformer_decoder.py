"""The transformer decoder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from burnpy.backend.backend import Backend
from burnpy.backend.errors import ArgumentError, KindError, a
from burnpy.nn.layers.attention import KeyValueCache, MultiHeadAttention
from burnpy.nn.layers.dropout import Dropout
from burnpy.nn.layers.layer_norm import LayerNorm
from burnpy.nn.layers.linear import Linear
from burnpy.nn.module import Module, rebound
from burnpy.nn.sizes import positive
from burnpy.tensor.call_errors import explained

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.tensor.bool_tensor import BoolTensor
    from burnpy.tensor.generator import Generator
    from burnpy.tensor.tensor import Tensor

B = TypeVar("B", bound=Backend)
I = TypeVar("I", bound=Backend)  # noqa: E741  # the design's name for an inner backend


class TransformerDecoderLayer(Module[B]):
    """A transformer decoder layer: self-attention, attention to a memory, and a feed-forward network.

    Each has a residual connection and a layer norm. Parameter paths are PyTorch's.

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
    >>> layer = TransformerDecoderLayer(8, 2, feedforward=16, device=NumPy)
    >>> layer(Tensor[NumPy].ones((2, 5, 8)), Tensor[NumPy].ones((2, 3, 8)), causal=True).shape
    (2, 5, 8)
    """

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
        positive("TransformerDecoderLayer", size=size, feedforward=feedforward)
        if activation not in ("relu", "gelu"):
            raise ArgumentError(
                f"TransformerDecoderLayer() was given activation={activation!r}; it is 'relu' or 'gelu'"
            )
        self.size, self.heads, self.feedforward = size, heads, feedforward
        self.activation: Literal["relu", "gelu"] = activation
        self.norm_first = norm_first
        self.eps = eps
        self.self_attn = MultiHeadAttention(size, heads, dropout=dropout, device=device, generator=generator)
        self.multihead_attn = MultiHeadAttention(size, heads, dropout=dropout, device=device, generator=generator)
        self.linear1 = Linear(size, feedforward, device=device, generator=generator)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(feedforward, size, device=device, generator=generator)
        self.norm1 = LayerNorm(size, eps=eps, device=device)
        self.norm2 = LayerNorm(size, eps=eps, device=device)
        self.norm3 = LayerNorm(size, eps=eps, device=device)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.dropout3 = Dropout(dropout)

    def forward(
        self,
        x: Tensor[B],
        memory: Tensor[B],
        *,
        mask: BoolTensor[B] | Tensor[B] | None = None,
        key_mask: BoolTensor[B] | None = None,
        memory_mask: BoolTensor[B] | Tensor[B] | None = None,
        memory_key_mask: BoolTensor[B] | None = None,
        causal: bool = False,
        cache: KeyValueCache[B] | None = None,
    ) -> Any:
        """Map x (N, T, size), which attends to itself and to a memory (N, S, size), to the shape of x.

        Masks are as in `MultiHeadAttention`, true where attention is allowed; ``causal`` is of the self-attention.
        With a cache of its keys and values, the result is a pair of the output and the next cache.
        """
        first = self.norm1(x) if self.norm_first else x
        own: dict[str, Any] = {"mask": mask, "key_mask": key_mask, "causal": causal}
        kept: KeyValueCache[B] | None = None
        if cache is None:
            attended = self.self_attn(first, **own)
        else:
            attended, kept = self.self_attn(first, **own, cache=cache)
        x = x + self.dropout1(attended)
        x = x if self.norm_first else self.norm1(x)
        second = self.norm2(x) if self.norm_first else x
        read = self.multihead_attn(second, memory, mask=memory_mask, key_mask=memory_key_mask)
        x = x + self.dropout2(read)
        x = x if self.norm_first else self.norm2(x)
        x = x + self._network(self.norm3(x) if self.norm_first else x)
        x = x if self.norm_first else self.norm3(x)
        return x if kept is None else (x, kept)

    if TYPE_CHECKING:

        @overload  # type: ignore[override]  # what is returned goes by whether there is a cache
        def __call__(  # pyright: ignore[reportIncompatibleMethodOverride]
            self,
            x: Tensor[B],
            memory: Tensor[B],
            *,
            mask: BoolTensor[B] | Tensor[B] | None = None,
            key_mask: BoolTensor[B] | None = None,
            memory_mask: BoolTensor[B] | Tensor[B] | None = None,
            memory_key_mask: BoolTensor[B] | None = None,
            causal: bool = False,
            cache: None = None,
        ) -> Tensor[B]: ...
        @overload
        def __call__(
            self,
            x: Tensor[B],
            memory: Tensor[B],
            *,
            mask: BoolTensor[B] | Tensor[B] | None = None,
            key_mask: BoolTensor[B] | None = None,
            memory_mask: BoolTensor[B] | Tensor[B] | None = None,
            memory_key_mask: BoolTensor[B] | None = None,
            causal: bool = False,
            cache: KeyValueCache[B],
        ) -> tuple[Tensor[B], KeyValueCache[B]]: ...
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            """Return the result of `forward`."""
            ...

    def _network(self, x: Tensor[B]) -> Tensor[B]:
        x = self.linear1(x)
        x = x.relu() if self.activation == "relu" else x.gelu()
        return self.dropout3(self.linear2(self.dropout(x)))

    def valid(self: TransformerDecoderLayer[Autodiff[I]]) -> TransformerDecoderLayer[I]:
        """Return the same layer on the inner backend."""
        return rebound(self)


class TransformerDecoder(Module[B]):
    """A stack of `TransformerDecoderLayer`, followed by a layer norm if ``norm_first``.

    Each layer is initialized independently. Parameter paths are PyTorch's: ``layers.0.self_attn.in_proj_weight``,
    ``norm.weight``.

    Args:
        count: the number of layers.
        size: the size of input and output vectors.
        heads: the number of attention heads; must divide ``size``.
        feedforward: the hidden size of the feed-forward networks.
        dropout: the dropout probability in training.
        activation: the activation of the feed-forward networks, "relu" or "gelu".
        norm_first: see `TransformerDecoderLayer`.
        norm: whether there is a layer norm after the last layer; ``norm_first`` by default.
        eps: the eps of the layer norms.
        device: the device of the layers.
        generator: the source of random initial values.

    Raises:
        ArgumentError: a setting is invalid.

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
    >>> model, memory = TransformerDecoder(2, 8, 2, feedforward=16, device=NumPy), Tensor[NumPy].ones((2, 3, 8))
    >>> model(Tensor[NumPy].ones((2, 5, 8)), memory, causal=True).shape
    (2, 5, 8)
    >>> y, cache = model(Tensor[NumPy].ones((2, 1, 8)), memory, causal=True, cache=model.empty_cache(2))
    >>> y.shape, cache[0].length
    ((2, 1, 8), 1)
    """

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
        positive("TransformerDecoder", count=count)
        self.count, self.size, self.heads, self.feedforward = count, size, heads, feedforward
        self.dropout = dropout
        self.activation: Literal["relu", "gelu"] = activation
        self.norm_first = norm_first
        self.eps = eps
        self.layers = tuple(
            TransformerDecoderLayer(
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

    def forward(
        self,
        x: Tensor[B],
        memory: Tensor[B],
        *,
        mask: BoolTensor[B] | Tensor[B] | None = None,
        key_mask: BoolTensor[B] | None = None,
        memory_mask: BoolTensor[B] | Tensor[B] | None = None,
        memory_key_mask: BoolTensor[B] | None = None,
        causal: bool = False,
        cache: tuple[KeyValueCache[B], ...] | None = None,
    ) -> Any:
        """Map x (N, T, size), which attends to itself and to a memory (N, S, size), to the shape of x.

        Masks are as in `TransformerDecoderLayer`. With a cache for each layer, at first `empty_cache`, the result is a
        pair of the output and the next cache.
        """
        masks: dict[str, Any] = {
            "mask": mask,
            "key_mask": key_mask,
            "memory_mask": memory_mask,
            "memory_key_mask": memory_key_mask,
            "causal": causal,
        }
        kept: list[KeyValueCache[B]] = []
        for layer, known in zip(self.layers, self._caches(cache), strict=True):
            if known is None:
                x = layer(x, memory, **masks)
            else:
                x, after = layer(x, memory, **masks, cache=known)
                kept.append(after)
        x = x if self.norm is None else self.norm(x)
        return x if cache is None else (x, tuple(kept))

    if TYPE_CHECKING:

        @overload  # type: ignore[override]  # what is returned goes by whether there is a cache
        def __call__(  # pyright: ignore[reportIncompatibleMethodOverride]
            self,
            x: Tensor[B],
            memory: Tensor[B],
            *,
            mask: BoolTensor[B] | Tensor[B] | None = None,
            key_mask: BoolTensor[B] | None = None,
            memory_mask: BoolTensor[B] | Tensor[B] | None = None,
            memory_key_mask: BoolTensor[B] | None = None,
            causal: bool = False,
            cache: None = None,
        ) -> Tensor[B]: ...
        @overload
        def __call__(
            self,
            x: Tensor[B],
            memory: Tensor[B],
            *,
            mask: BoolTensor[B] | Tensor[B] | None = None,
            key_mask: BoolTensor[B] | None = None,
            memory_mask: BoolTensor[B] | Tensor[B] | None = None,
            memory_key_mask: BoolTensor[B] | None = None,
            causal: bool = False,
            cache: tuple[KeyValueCache[B], ...],
        ) -> tuple[Tensor[B], tuple[KeyValueCache[B], ...]]: ...
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            """Return the result of `forward`."""
            ...

    @explained
    def empty_cache(self, batch: int) -> tuple[KeyValueCache[B], ...]:
        """Return a cache of no positions for each layer, for ``batch`` sequences, with which to begin."""
        return tuple(layer.self_attn.empty_cache(batch) for layer in self.layers)

    def _caches(self, cache: Any) -> tuple[KeyValueCache[B] | None, ...]:
        """Return a cache, or None, for each layer."""
        if cache is None:
            return (None,) * self.count
        if not isinstance(cache, tuple) or len(cache) != self.count or isinstance(cache, KeyValueCache):
            raise KindError(
                f"TransformerDecoder() takes a tuple of {self.count} caches, one for each layer, and was given "
                f"{a(type(cache).__name__)}; begin with decoder.empty_cache(batch)"
            )
        return cache

    def valid(self: TransformerDecoder[Autodiff[I]]) -> TransformerDecoder[I]:
        """Return the same layers on the inner backend."""
        return rebound(self)
