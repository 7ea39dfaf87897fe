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
from burnpy.nn.functional.activations_along_dims import glu, softmin, swiglu
from burnpy.nn.functional.adaptive_pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
)
from burnpy.nn.functional.attention import scaled_dot_product_attention
from burnpy.nn.functional.convolution import conv1d, conv2d
from burnpy.nn.functional.dense import bilinear, linear
from burnpy.nn.functional.embeddings import embedding
from burnpy.nn.functional.grid_sampling import affine_grid, grid_sample
from burnpy.nn.functional.group_normalization import group_norm, instance_norm, normalize, rms_norm
from burnpy.nn.functional.interpolation import interpolate
from burnpy.nn.functional.likelihood_losses import binary_cross_entropy, gaussian_nll_loss, kl_div, poisson_nll_loss
from burnpy.nn.functional.margin_losses import (
    cosine_embedding_loss,
    hinge_embedding_loss,
    margin_ranking_loss,
    multi_margin_loss,
    soft_margin_loss,
    triplet_margin_loss,
)
from burnpy.nn.functional.normalization import BatchNormed, batch_norm, batch_normed, layer_norm
from burnpy.nn.functional.padding import pad
from burnpy.nn.functional.pixels import channel_shuffle, pixel_shuffle, pixel_unshuffle
from burnpy.nn.functional.pooling import avg_pool1d, avg_pool2d, max_pool1d, max_pool2d
from burnpy.nn.functional.regression_losses import huber_loss, l1_loss, smooth_l1_loss
from burnpy.nn.functional.regularization import dropout, gumbel_softmax
from burnpy.nn.functional.rotary import rotary_encoding
from burnpy.nn.functional.transposed_convolution import conv_transpose1d, conv_transpose2d
from burnpy.nn.functional.unfolding import fold, unfold
from burnpy.tensor.distances import cosine_similarity, pairwise_distance, pdist
from burnpy.tensor.losses import binary_cross_entropy_with_logits, cross_entropy, mse_loss, nll_loss

__all__ = [
    "BatchNormed",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "affine_grid",
    "avg_pool1d",
    "avg_pool2d",
    "batch_norm",
    "batch_normed",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv_transpose1d",
    "conv_transpose2d",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "dropout",
    "elu",
    "embedding",
    "fold",
    "gaussian_nll_loss",
    "glu",
    "grid_sample",
    "group_norm",
    "gumbel_softmax",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hinge_embedding_loss",
    "huber_loss",
    "instance_norm",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "logsigmoid",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool2d",
    "mish",
    "mse_loss",
    "multi_margin_loss",
    "nll_loss",
    "normalize",
    "pad",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "relu6",
    "rms_norm",
    "rotary_encoding",
    "scaled_dot_product_attention",
    "selu",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmin",
    "softshrink",
    "softsign",
    "swiglu",
    "tanhshrink",
    "threshold",
    "triplet_margin_loss",
    "unfold",
]
