"""The transformer encoder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeVar

from burnpy.backend.backend import Backend
from burnpy.backend.errors import ArgumentError
from burnpy.nn.layers.attention import MultiHeadAttention
from burnpy.nn.layers.dropout import Dropout
from burnpy.nn.layers.layer_norm import LayerNorm
from burnpy.nn.layers.linear import Linear
from burnpy.nn.module import Module, rebound
from burnpy.nn.sizes import positive

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.tensor.bool_tensor import BoolTensor
    from burnpy.tensor.generator import Generator
    from burnpy.tensor.tensor import Tensor

B = TypeVar("B", bound=Backend)
I = TypeVar("I", bound=Backend)  # noqa: E741  # the design's name for an inner backend


class TransformerEncoderLayer(Module[B]):
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
        positive("TransformerEncoderLayer", size=size, feedforward=feedforward)
        if activation not in ("relu", "gelu"):
            raise ArgumentError(
                f"TransformerEncoderLayer() was given activation={activation!r}; it is 'relu' or 'gelu'"
            )
        self.size, self.heads, self.feedforward = size, heads, feedforward
        self.activation: Literal["relu", "gelu"] = activation
        self.norm_first = norm_first
        self.eps = eps
        self.self_attn = MultiHeadAttention(size, heads, dropout=dropout, device=device, generator=generator)
        self.linear1 = Linear(size, feedforward, device=device, generator=generator)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(feedforward, size, device=device, generator=generator)
        self.norm1 = LayerNorm(size, eps=eps, device=device)
        self.norm2 = LayerNorm(size, eps=eps, device=device)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)

    def forward(
        self,
        x: Tensor[B],
        *,
        mask: BoolTensor[B] | Tensor[B] | None = None,
        key_mask: BoolTensor[B] | None = None,
        causal: bool = False,
    ) -> Tensor[B]:
        """Map (N, T, size) to the same shape; masks as in `MultiHeadAttention`, true where attention is allowed."""
        if self.norm_first:
            attended = self.self_attn(self.norm1(x), mask=mask, key_mask=key_mask, causal=causal)
            x = x + self.dropout1(attended)
            return x + self._network(self.norm2(x))
        attended = self.self_attn(x, mask=mask, key_mask=key_mask, causal=causal)
        x = self.norm1(x + self.dropout1(attended))
        return self.norm2(x + self._network(x))

    def _network(self, x: Tensor[B]) -> Tensor[B]:
        x = self.linear1(x)
        x = x.relu() if self.activation == "relu" else x.gelu()
        return self.dropout2(self.linear2(self.dropout(x)))

    def valid(self: TransformerEncoderLayer[Autodiff[I]]) -> TransformerEncoderLayer[I]:
        """Return the same layer on the inner backend."""
        return rebound(self)


class TransformerEncoder(Module[B]):
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
    >>> model(Tensor[NumPy].ones((2, 5, 8))).shape
    (2, 5, 8)
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
        positive("TransformerEncoder", count=count)
        self.count, self.size, self.heads, self.feedforward = count, size, heads, feedforward
        self.dropout = dropout
        self.activation: Literal["relu", "gelu"] = activation
        self.norm_first = norm_first
        self.eps = eps
        self.layers = tuple(
            TransformerEncoderLayer(
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
        *,
        mask: BoolTensor[B] | Tensor[B] | None = None,
        key_mask: BoolTensor[B] | None = None,
        causal: bool = False,
    ) -> Tensor[B]:
        """Map (N, T, size) to the same shape; masks as in `MultiHeadAttention`, true where attention is allowed."""
        for layer in self.layers:
            x = layer(x, mask=mask, key_mask=key_mask, causal=causal)
        return x if self.norm is None else self.norm(x)

    def valid(self: TransformerEncoder[Autodiff[I]]) -> TransformerEncoder[I]:
        """Return the same layers on the inner backend."""
        return rebound(self)
