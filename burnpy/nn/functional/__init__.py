"""The computations of layers as functions of tensors, named as in ``torch.nn.functional``.

Functions that are methods of tensors, such as activations (``x.relu()``), are not repeated here. Settings are keyword
arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from burnpy.nn.functional.attention import scaled_dot_product_attention
from burnpy.nn.functional.convolution import conv2d
from burnpy.nn.functional.dropout import dropout
from burnpy.nn.functional.embedding import embedding
from burnpy.nn.functional.linear import linear
from burnpy.nn.functional.normalization import BatchNormed, batch_norm, batch_normed, layer_norm
from burnpy.nn.functional.pooling import adaptive_avg_pool2d, avg_pool2d, max_pool2d
from burnpy.tensor.losses import binary_cross_entropy_with_logits, cross_entropy, mse_loss, nll_loss

__all__ = [
    "BatchNormed",
    "adaptive_avg_pool2d",
    "avg_pool2d",
    "batch_norm",
    "batch_normed",
    "binary_cross_entropy_with_logits",
    "conv2d",
    "cross_entropy",
    "dropout",
    "embedding",
    "layer_norm",
    "linear",
    "max_pool2d",
    "mse_loss",
    "nll_loss",
    "scaled_dot_product_attention",
]

if not TYPE_CHECKING:  # type checkers see only the names above

    def __getattr__(name: str) -> object:
        """Raise an error for an unknown name, with a hint if it is a method of tensors."""
        from burnpy.hints.missing import from_package

        raise from_package(__name__, name)
