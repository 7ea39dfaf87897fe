"""Modules: models and their layers as immutable trees of parameters.

>>> from burnpy import Tensor
>>> from burnpy.backend import NumPy
>>> from burnpy.nn import Linear, Relu, Sequential
>>> model = Sequential(Linear(4, 8, device=NumPy), Relu(), Linear(8, 2, device=NumPy))
>>> model(Tensor[NumPy].ones((3, 4))).shape, model.num_params
((3, 2), 58)
"""

from __future__ import annotations

import burnpy.nn.pytree  # noqa: F401  # pyright: ignore[reportUnusedImport]  # registers modules with `burnpy.func`
from burnpy.backend.lazy import attached

_LATER = {
    "burnpy.nn": ("functional", "init"),
    "burnpy.nn.init": ("Initializer",),
    "burnpy.nn.buffer_updates": (
        "BufferUpdate",
        "record_update",
        "stepped",
    ),
    "burnpy.nn.layers.activations": (
        "Gelu",
        "LogSoftmax",
        "Relu",
        "Sigmoid",
        "Silu",
        "Softmax",
        "Softplus",
        "Tanh",
    ),
    "burnpy.nn.layers.attention": ("MultiHeadAttention",),
    "burnpy.nn.layers.attention_cache": ("DecoderCache", "KeyValueCache"),
    "burnpy.nn.layers.batch_norm": ("BatchNorm",),
    "burnpy.nn.layers.convolution": ("Conv1d", "Conv2d"),
    "burnpy.nn.layers.transposed_convolution": ("ConvTranspose1d", "ConvTranspose2d"),
    "burnpy.nn.layers.dropout": ("Dropout",),
    "burnpy.nn.layers.embedding": ("Embedding",),
    "burnpy.nn.layers.flatten": ("Flatten",),
    "burnpy.nn.layers.bilinear": ("Bilinear",),
    "burnpy.nn.layers.group_norm": ("GroupNorm",),
    "burnpy.nn.layers.instance_norm": ("InstanceNorm",),
    "burnpy.nn.layers.layer_norm": ("LayerNorm",),
    "burnpy.nn.layers.rms_norm": ("RmsNorm",),
    "burnpy.nn.layers.upsample": ("Upsample",),
    "burnpy.nn.layers.gru": (
        "Gru",
        "GruCell",
    ),
    "burnpy.nn.layers.likelihood_losses": (
        "BceLoss",
        "BceWithLogitsLoss",
        "CrossEntropyLoss",
        "GaussianNllLoss",
        "KlDivLoss",
        "NllLoss",
        "PoissonNllLoss",
    ),
    "burnpy.nn.layers.linear": ("Linear",),
    "burnpy.nn.layers.lstm": (
        "Lstm",
        "LstmCell",
        "LstmState",
    ),
    "burnpy.nn.layers.margin_losses": (
        "CosineEmbeddingLoss",
        "HingeEmbeddingLoss",
        "MarginRankingLoss",
        "MultiMarginLoss",
        "SoftMarginLoss",
        "TripletMarginLoss",
    ),
    "burnpy.nn.layers.padding": (
        "CircularPad",
        "ConstantPad",
        "ReflectionPad",
        "ReplicationPad",
        "ZeroPad",
    ),
    "burnpy.nn.layers.piecewise_activations": (
        "Hardshrink",
        "Hardsigmoid",
        "Hardswish",
        "Hardtanh",
        "LeakyRelu",
        "PRelu",
        "Relu6",
        "Softshrink",
        "Threshold",
    ),
    "burnpy.nn.layers.adaptive_pooling": (
        "AdaptiveAvgPool1d",
        "AdaptiveAvgPool2d",
        "AdaptiveMaxPool1d",
        "AdaptiveMaxPool2d",
    ),
    "burnpy.nn.layers.pixels": (
        "ChannelShuffle",
        "PixelShuffle",
        "PixelUnshuffle",
    ),
    "burnpy.nn.layers.unfolding": (
        "Fold",
        "Unfold",
    ),
    "burnpy.nn.layers.pooling": (
        "AvgPool1d",
        "AvgPool2d",
        "MaxPool1d",
        "MaxPool2d",
    ),
    "burnpy.nn.layers.regression_losses": (
        "HuberLoss",
        "L1Loss",
        "MseLoss",
        "SmoothL1Loss",
    ),
    "burnpy.nn.layers.rnn": (
        "Rnn",
        "RnnCell",
    ),
    "burnpy.nn.layers.rotary": ("RotaryEncoding",),
    "burnpy.nn.layers.sequential": ("Identity", "Sequential"),
    "burnpy.nn.layers.smooth_activations": (
        "Celu",
        "Elu",
        "Glu",
        "LogSigmoid",
        "Mish",
        "Selu",
        "Softmin",
        "Softsign",
        "SwiGlu",
        "Tanhshrink",
    ),
    "burnpy.nn.layers.transformer_encoder": (
        "TransformerEncoder",
        "TransformerEncoderLayer",
    ),
    "burnpy.nn.layers.transformer_decoder": (
        "TransformerDecoder",
        "TransformerDecoderLayer",
    ),
    "burnpy.nn.module": (
        "Module",
        "Stateless",
        "rebound",
    ),
    "burnpy.nn.select": ("Where",),
    "burnpy.nn.state": (
        "Entry",
        "State",
        "StateReport",
    ),
    "burnpy.nn.variable": (
        "BoolBuffer",
        "Buffer",
        "IntBuffer",
        "Param",
    ),
}
"""The names of the package by module; ``python -m burnpy.docs.exports`` writes them into the stub for type checkers."""

__getattr__, __dir__, __all__ = attached(__name__, _LATER)
