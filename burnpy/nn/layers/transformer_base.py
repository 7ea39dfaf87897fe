"""The base classes of transformer encoders and decoders: layers of sublayers, and stacks of layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from burnpy.backend.errors import ArgumentError, KindError, a
from burnpy.nn.layers.attention import MultiHeadAttention
from burnpy.nn.layers.attention_cache import DecoderCache, KeyValueCache
from burnpy.nn.layers.dropout import Dropout
from burnpy.nn.layers.layer_norm import LayerNorm
from burnpy.nn.layers.linear import Linear
from burnpy.nn.module import Module
from burnpy.nn.sizes import positive
from burnpy.typevars import B

if TYPE_CHECKING:
    from collections.abc import Callable

    from burnpy.tensor.generator import Generator
    from burnpy.tensor.tensor import Tensor

C = TypeVar("C", bound=tuple[Any, ...])


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
        if activation not in ("relu", "gelu"):
            raise ArgumentError(f"{name}() got activation={activation!r:.80}; expected 'relu' or 'gelu'")
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
        """Return x plus a sublayer's output.

        The layer norm applies to the sublayer's input if ``norm_first``, else to the sum.
        """
        if self.norm_first:
            return x + dropout(sublayer(norm(x)))
        return norm(x + dropout(sublayer(x)))

    def _feed_forward(self, x: Tensor[B]) -> Tensor[B]:
        """Return the output of the feed-forward network."""
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

    def _caches(self, cache: C | None) -> C | tuple[None, ...]:
        """Return a cache, or None, for each layer.

        Raises:
            KindError: it is not a tuple of as many caches as there are layers.
        """
        if cache is None:
            return (None,) * self.count
        given: Any = cache
        if not isinstance(given, tuple) or len(given) != self.count or isinstance(given, (KeyValueCache, DecoderCache)):
            raise KindError(
                f"{type(self).__name__}() takes a tuple of {self.count} caches, one for each layer, got "
                f"{a(type(cache).__name__)}; begin with empty_cache(batch)"
            )
        return cache
