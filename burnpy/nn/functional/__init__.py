"""The computations of layers as functions of tensors, named as in ``torch.nn.functional``.

Functions that are methods of tensors, such as activations (``x.relu()``), are not repeated here. Settings are keyword
arguments.
"""

from __future__ import annotations

from burnpy.backend.lazy import attached

_NAMES = {
    "burnpy.tensor.functions.distances": "cosine_similarity pairwise_distance pdist",
    "burnpy.nn.functional.activation": (
        "celu elu glu gumbel_softmax hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu6 selu softmin "
        "softshrink softsign swiglu tanhshrink threshold"
    ),
    "burnpy.nn.functional.alignment": "ctc_loss",
    "burnpy.nn.functional.attention": "scaled_dot_product_attention",
    "burnpy.nn.functional.rotary": "positional_encoding rotary_encoding",
    "burnpy.nn.functional.convolution": "conv1d conv2d conv3d",
    "burnpy.nn.functional.transposed_convolution": "conv_transpose1d conv_transpose2d conv_transpose3d",
    "burnpy.nn.functional.dense": "bilinear embedding linear",
    "burnpy.nn.functional.dropping": "alpha_dropout dropout dropout1d dropout2d dropout3d feature_alpha_dropout",
    "burnpy.nn.functional.bags": "embedding_bag",
    "burnpy.nn.functional.multilabel_losses": "multilabel_margin_loss multilabel_soft_margin_loss sigmoid_focal_loss",
    "burnpy.nn.functional.batch_normalization": "BatchNormed batch_norm batch_normed instance_norm",
    "burnpy.nn.functional.normalization": "group_norm layer_norm local_response_norm normalize rms_norm",
    "burnpy.nn.functional.losses": (
        "binary_cross_entropy gaussian_nll_loss huber_loss kl_div l1_loss poisson_nll_loss smooth_l1_loss"
    ),
    "burnpy.nn.functional.margin_losses": (
        "cosine_embedding_loss hinge_embedding_loss margin_ranking_loss multi_margin_loss soft_margin_loss "
        "triplet_margin_loss"
    ),
    "burnpy.nn.functional.padding": "pad",
    "burnpy.nn.functional.pooling": "avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool2d max_pool3d",
    "burnpy.nn.functional.adaptive_pooling": (
        "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d "
        "adaptive_max_pool3d"
    ),
    "burnpy.nn.functional.lp_pooling": "lp_pool1d lp_pool2d lp_pool3d",
    "burnpy.nn.functional.unpooling": "max_unpool1d max_unpool2d max_unpool3d",
    "burnpy.nn.functional.quantization": "QuantizedDType dequantize quantize quantized_linear",
    "burnpy.nn.functional.resampling": "affine_grid grid_sample interpolate",
    "burnpy.nn.functional.shuffling": "channel_shuffle pixel_shuffle pixel_unshuffle",
    "burnpy.nn.functional.windows": "fold unfold",
    "burnpy.tensor.functions.losses": "binary_cross_entropy_with_logits cross_entropy mse_loss nll_loss",
}
"""The names of the package by module; ``python -m burnpy.docs.stubs`` writes them into the stub for type checkers."""

__getattr__, __dir__, __all__ = attached(__name__, _NAMES)
