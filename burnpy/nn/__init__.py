"""Modules: models and their layers as immutable trees of parameters.

>>> from burnpy.nn import Linear, Relu, Sequential
>>> model = Sequential(Linear(4, 8, device=NumPy), Relu(), Linear(8, 2, device=NumPy))
>>> model(Tensor[NumPy].ones((3, 4))).shape, model.num_params
((3, 2), 58)
"""

from __future__ import annotations

import burnpy.nn.module_state  # noqa: F401  # pyright: ignore[reportUnusedImport]  # registers modules with `burnpy.func`
from burnpy.backend.lazy import attached

_NAMES = {
    "burnpy.nn": "functional init",
    "burnpy.nn.init": "Initializer init_empty_weights",
    "burnpy.nn.buffer_updates": "BufferUpdate record_update stepped",
    "burnpy.nn.layers.activation": (
        "Celu Elu Gelu Glu LogSigmoid LogSoftmax Mish Selu Sigmoid Silu Softmax Softmin Softplus Softsign SwiGlu Tanh"
    ),
    "burnpy.nn.layers.hard_activation": (
        "Hardshrink Hardsigmoid Hardswish Hardtanh LeakyRelu PRelu Relu Relu6 Softshrink Tanhshrink Threshold"
    ),
    "burnpy.nn.layers.ctc_loss": "CtcLoss",
    "burnpy.nn.layers.key_value_cache": "KeyValueCache",
    "burnpy.nn.layers.multi_head_attention": "MultiHeadAttention",
    "burnpy.nn.layers.positional_encoding": (
        "DynamicScaling LinearScaling Llama3Scaling PositionalEncoding RotaryEncoding RotaryScaling YarnScaling"
    ),
    "burnpy.nn.layers.batch_normalization": "BatchNorm InstanceNorm",
    "burnpy.nn.layers.normalization": "GroupNorm LayerNorm LocalResponseNorm RmsNorm",
    "burnpy.nn.layers.convolution": "Conv1d Conv2d Conv3d",
    "burnpy.nn.layers.transposed_convolution": "ConvTranspose1d ConvTranspose2d ConvTranspose3d",
    "burnpy.nn.layers.linear": "Bilinear Linear",
    "burnpy.nn.layers.embedding": "Embedding EmbeddingBag",
    "burnpy.nn.layers.dropout": "AlphaDropout Dropout Dropout1d Dropout2d Dropout3d FeatureAlphaDropout",
    "burnpy.nn.layers.classification_losses": (
        "BceLoss BceWithLogitsLoss CrossEntropyLoss FocalLoss MultiLabelMarginLoss MultiLabelSoftMarginLoss NllLoss"
    ),
    "burnpy.nn.layers.sequential": "Flatten Identity Sequential",
    "burnpy.nn.layers.parametrizations": "Lora SpectralNorm WeightNorm add_lora merge_lora",
    "burnpy.nn.layers.resampling": "Upsample",
    "burnpy.nn.layers.quantization": "QuantizationError QuantizedLinear quantization_error",
    "burnpy.nn.layers.lstm": "Lstm LstmCell LstmState",
    "burnpy.nn.layers.recurrent": "Gru GruCell Rnn RnnCell",
    "burnpy.nn.layers.losses": "GaussianNllLoss HuberLoss KlDivLoss L1Loss MseLoss PoissonNllLoss SmoothL1Loss",
    "burnpy.nn.layers.margin_losses": (
        "CosineEmbeddingLoss HingeEmbeddingLoss MarginRankingLoss MultiMarginLoss SoftMarginLoss TripletMarginLoss"
    ),
    "burnpy.nn.layers.padding": "CircularPad ConstantPad ReflectionPad ReplicationPad ZeroPad",
    "burnpy.nn.layers.average_pooling": "AvgPool1d AvgPool2d AvgPool3d LpPool1d LpPool2d LpPool3d",
    "burnpy.nn.layers.max_pooling": "MaxPool1d MaxPool2d MaxPool3d",
    "burnpy.nn.layers.adaptive_pooling": (
        "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d"
    ),
    "burnpy.nn.layers.unpooling": "MaxUnpool1d MaxUnpool2d MaxUnpool3d",
    "burnpy.nn.layers.unfold_and_shuffle": "ChannelShuffle Fold PixelShuffle PixelUnshuffle Unfold",
    "burnpy.nn.layers.transformer": "TransformerEncoder TransformerEncoderLayer",
    "burnpy.nn.layers.transformer_decoder": "DecoderCache TransformerDecoder TransformerDecoderLayer",
    "burnpy.nn.module": "Module Stateless rebound",
    "burnpy.nn.transform": "Where",
    "burnpy.nn.module_state": "Entry State StateReport",
    "burnpy.nn.param": "BoolBuffer Buffer ComplexBuffer ComplexParam IntBuffer Param",
}
"""The names of the package by module; ``make generated`` writes them into the stub for type checkers."""

__getattr__, __dir__, __all__ = attached(__name__, _NAMES)
