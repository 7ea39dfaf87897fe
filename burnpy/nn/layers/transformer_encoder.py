"""The transformer encoder."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from burnpy.backend.backend import Backend
from burnpy.nn.layers.transformer_base import TransformerLayer, TransformerStack
from burnpy.nn.module import rebound

if TYPE_CHECKING:
    from burnpy.autodiff.autodiff import Autodiff
    from burnpy.tensor.bool_tensor import BoolTensor
    from burnpy.tensor.tensor import Tensor

B = TypeVar("B", bound=Backend)
I = TypeVar("I", bound=Backend)  # noqa: E741  # the design's name for an inner backend


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

    def forward(
        self,
        x: Tensor[B],
        *,
        mask: BoolTensor[B] | Tensor[B] | None = None,
        key_mask: BoolTensor[B] | None = None,
        causal: bool = False,
    ) -> Tensor[B]:
        """Map (N, T, size) to the same shape; masks as in `MultiHeadAttention`, true where attention is allowed."""

        def self_attention(x: Tensor[B]) -> Tensor[B]:
            return self.self_attn(x, mask=mask, key_mask=key_mask, causal=causal)

        x = self._residual(x, self_attention, self.norm1, self.dropout1)
        return self._residual(x, self._feed_forward, self.norm2, self.dropout2)

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
    >>> model(Tensor[NumPy].ones((2, 5, 8))).shape
    (2, 5, 8)
    """

    layers: tuple[TransformerEncoderLayer[B], ...]
    _layer = TransformerEncoderLayer

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
