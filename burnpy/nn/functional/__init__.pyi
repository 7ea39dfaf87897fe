"""The names of `burnpy.nn.functional`, made from its table by ``make generated``."""

from burnpy.nn.argument_checks import QuantizedDType
from burnpy.nn.layers.activation import (
    celu,
    elu,
    glu,
    gumbel_softmax,
    logsigmoid,
    mish,
    selu,
    softmin,
    softsign,
    swiglu,
)
from burnpy.nn.layers.adaptive_pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
)
from burnpy.nn.layers.attention import scaled_dot_product_attention
from burnpy.nn.layers.average_pooling import avg_pool1d, avg_pool2d, avg_pool3d, lp_pool1d, lp_pool2d, lp_pool3d
from burnpy.nn.layers.batch_normalization import BatchNormed, batch_norm, batch_normed, instance_norm
from burnpy.nn.layers.classification_losses import (
    binary_cross_entropy,
    multilabel_margin_loss,
    multilabel_soft_margin_loss,
    sigmoid_focal_loss,
)
from burnpy.nn.layers.convolution import conv1d, conv2d, conv3d
from burnpy.nn.layers.ctc_loss import ctc_loss
from burnpy.nn.layers.dropout import alpha_dropout, dropout, dropout1d, dropout2d, dropout3d, feature_alpha_dropout
from burnpy.nn.layers.embedding import embedding, embedding_bag
from burnpy.nn.layers.hard_activation import (
    hardsigmoid,
    hardswish,
    hardtanh,
    leaky_relu,
    relu6,
    softshrink,
    tanhshrink,
    threshold,
)
from burnpy.nn.layers.linear import bilinear, linear
from burnpy.nn.layers.losses import gaussian_nll_loss, huber_loss, kl_div, l1_loss, poisson_nll_loss, smooth_l1_loss
from burnpy.nn.layers.margin_losses import (
    cosine_embedding_loss,
    hinge_embedding_loss,
    margin_ranking_loss,
    multi_margin_loss,
    soft_margin_loss,
    triplet_margin_loss,
)
from burnpy.nn.layers.max_pooling import max_pool1d, max_pool2d, max_pool3d
from burnpy.nn.layers.normalization import group_norm, layer_norm, local_response_norm, normalize, rms_norm
from burnpy.nn.layers.padding import pad
from burnpy.nn.layers.positional_encoding import positional_encoding, rotary_encoding
from burnpy.nn.layers.quantization import dequantize, integer_matmul, quantize, quantized_linear
from burnpy.nn.layers.resampling import affine_grid, grid_sample, interpolate
from burnpy.nn.layers.transposed_convolution import conv_transpose1d, conv_transpose2d, conv_transpose3d
from burnpy.nn.layers.unfold_and_shuffle import channel_shuffle, fold, pixel_shuffle, pixel_unshuffle, unfold
from burnpy.nn.layers.unpooling import max_unpool1d, max_unpool2d, max_unpool3d
from burnpy.tensor.distances import cosine_similarity, pairwise_distance, pdist
from burnpy.tensor.losses import binary_cross_entropy_with_logits, cross_entropy, mse_loss, nll_loss

__all__ = [
    "BatchNormed", "QuantizedDType", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d",
    "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d", "affine_grid", "alpha_dropout", "avg_pool1d",
    "avg_pool2d", "avg_pool3d", "batch_norm", "batch_normed", "bilinear", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "celu", "channel_shuffle", "conv1d", "conv2d", "conv3d", "conv_transpose1d",
    "conv_transpose2d", "conv_transpose3d", "cosine_embedding_loss", "cosine_similarity", "cross_entropy", "ctc_loss",
    "dequantize", "dropout", "dropout1d", "dropout2d", "dropout3d", "elu", "embedding", "embedding_bag",
    "feature_alpha_dropout", "fold", "gaussian_nll_loss", "glu", "grid_sample", "group_norm", "gumbel_softmax",
    "hardsigmoid", "hardswish", "hardtanh", "hinge_embedding_loss", "huber_loss", "instance_norm", "integer_matmul",
    "interpolate", "kl_div", "l1_loss", "layer_norm", "leaky_relu", "linear", "local_response_norm", "logsigmoid",
    "lp_pool1d", "lp_pool2d", "lp_pool3d", "margin_ranking_loss", "max_pool1d", "max_pool2d", "max_pool3d",
    "max_unpool1d", "max_unpool2d", "max_unpool3d", "mish", "mse_loss", "multi_margin_loss", "multilabel_margin_loss",
    "multilabel_soft_margin_loss", "nll_loss", "normalize", "pad", "pairwise_distance", "pdist", "pixel_shuffle",
    "pixel_unshuffle", "poisson_nll_loss", "positional_encoding", "quantize", "quantized_linear", "relu6", "rms_norm",
    "rotary_encoding", "scaled_dot_product_attention", "selu", "sigmoid_focal_loss", "smooth_l1_loss",
    "soft_margin_loss", "softmin", "softshrink", "softsign", "swiglu", "tanhshrink", "threshold", "triplet_margin_loss",
    "unfold",
]  # fmt: skip
