"""The computations of layers as functions of tensors, named as in ``torch.nn.functional``.

A function is defined beside its layer, in ``burnpy/nn/layers``. Functions that are methods of tensors,
such as activations (``x.relu()``), are not repeated here. Settings are keyword arguments.
"""

from __future__ import annotations

from burnpy.backend.lazy import attached

_NAMES = {
    "burnpy.tensor.distances": "cosine_similarity pairwise_distance pdist",
    "burnpy.nn.layers.activation": "celu elu glu gumbel_softmax logsigmoid mish selu softmin softsign swiglu",
    "burnpy.nn.layers.hard_activation": (
        "hardsigmoid hardswish hardtanh leaky_relu relu6 softshrink tanhshrink threshold"
    ),
    "burnpy.nn.layers.ctc_loss": "ctc_loss",
    "burnpy.nn.layers.attention": "scaled_dot_product_attention",
    "burnpy.nn.layers.positional_encoding": "positional_encoding rotary_encoding",
    "burnpy.nn.layers.convolution": "conv1d conv2d conv3d",
    "burnpy.nn.layers.transposed_convolution": "conv_transpose1d conv_transpose2d conv_transpose3d",
    "burnpy.nn.layers.linear": "bilinear linear",
    "burnpy.nn.layers.embedding": "embedding embedding_bag",
    "burnpy.nn.layers.dropout": "alpha_dropout dropout dropout1d dropout2d dropout3d feature_alpha_dropout",
    "burnpy.nn.layers.classification_losses": (
        "binary_cross_entropy multilabel_margin_loss multilabel_soft_margin_loss sigmoid_focal_loss"
    ),
    "burnpy.nn.layers.batch_normalization": "BatchNormed batch_norm batch_normed instance_norm",
    "burnpy.nn.layers.normalization": "group_norm layer_norm local_response_norm normalize rms_norm",
    "burnpy.nn.layers.losses": "gaussian_nll_loss huber_loss kl_div l1_loss poisson_nll_loss smooth_l1_loss",
    "burnpy.nn.layers.margin_losses": (
        "cosine_embedding_loss hinge_embedding_loss margin_ranking_loss multi_margin_loss soft_margin_loss "
        "triplet_margin_loss"
    ),
    "burnpy.nn.layers.padding": "pad",
    "burnpy.nn.layers.average_pooling": "avg_pool1d avg_pool2d avg_pool3d lp_pool1d lp_pool2d lp_pool3d",
    "burnpy.nn.layers.max_pooling": "max_pool1d max_pool2d max_pool3d",
    "burnpy.nn.layers.adaptive_pooling": (
        "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d "
        "adaptive_max_pool3d"
    ),
    "burnpy.nn.layers.unpooling": "max_unpool1d max_unpool2d max_unpool3d",
    "burnpy.nn.argument_checks": "QuantizedDType",
    "burnpy.nn.layers.quantization": "dequantize integer_matmul quantize quantized_linear",
    "burnpy.nn.layers.resampling": "affine_grid grid_sample interpolate",
    "burnpy.nn.layers.unfold_and_shuffle": "channel_shuffle fold pixel_shuffle pixel_unshuffle unfold",
    "burnpy.tensor.losses": "binary_cross_entropy_with_logits cross_entropy mse_loss nll_loss",
}
"""The names of the package by module; ``make generated`` writes them into the stub for type checkers."""

__getattr__, __dir__, __all__ = attached(__name__, _NAMES)
