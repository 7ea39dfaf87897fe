"""The names of `burnpy.nn.functional`, made from its table by ``python -m burnpy.docs.exports``."""

from burnpy.nn.functional.activations import (
    celu,
    elu,
    hardsigmoid,
    hardswish,
    hardtanh,
    leaky_relu,
    logsigmoid,
    mish,
    relu6,
    selu,
    softshrink,
    softsign,
    tanhshrink,
    threshold,
)
from burnpy.nn.functional.activations_along_dims import glu, gumbel_softmax, normalize, softmin, swiglu
from burnpy.nn.functional.attention import scaled_dot_product_attention
from burnpy.nn.functional.convolution import conv2d
from burnpy.nn.functional.dense import linear
from burnpy.nn.functional.embeddings import embedding
from burnpy.nn.functional.normalization import BatchNormed, batch_norm, batch_normed, layer_norm
from burnpy.nn.functional.padding import pad
from burnpy.nn.functional.pooling import adaptive_avg_pool2d, avg_pool2d, max_pool2d
from burnpy.nn.functional.regularization import dropout
from burnpy.tensor.losses import binary_cross_entropy_with_logits, cross_entropy, mse_loss, nll_loss

__all__ = [
    "BatchNormed",
    "adaptive_avg_pool2d",
    "avg_pool2d",
    "batch_norm",
    "batch_normed",
    "binary_cross_entropy_with_logits",
    "celu",
    "conv2d",
    "cross_entropy",
    "dropout",
    "elu",
    "embedding",
    "glu",
    "gumbel_softmax",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "layer_norm",
    "leaky_relu",
    "linear",
    "logsigmoid",
    "max_pool2d",
    "mish",
    "mse_loss",
    "nll_loss",
    "normalize",
    "pad",
    "relu6",
    "scaled_dot_product_attention",
    "selu",
    "softmin",
    "softshrink",
    "softsign",
    "swiglu",
    "tanhshrink",
    "threshold",
]
