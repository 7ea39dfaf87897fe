"""The names of `burnpy.nn`, made from its table by ``make generated``."""

from burnpy.nn import functional, init
from burnpy.nn.buffer_updates import BufferUpdate, record_update, stepped
from burnpy.nn.init import Initializer, init_empty_weights
from burnpy.nn.layers.activation import (
    Celu,
    Elu,
    Gelu,
    Glu,
    LogSigmoid,
    LogSoftmax,
    Mish,
    Selu,
    Sigmoid,
    Silu,
    Softmax,
    Softmin,
    Softplus,
    Softsign,
    SwiGlu,
    Tanh,
)
from burnpy.nn.layers.adaptive_pooling import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AdaptiveAvgPool3d,
    AdaptiveMaxPool1d,
    AdaptiveMaxPool2d,
    AdaptiveMaxPool3d,
)
from burnpy.nn.layers.average_pooling import AvgPool1d, AvgPool2d, AvgPool3d, LpPool1d, LpPool2d, LpPool3d
from burnpy.nn.layers.batch_normalization import BatchNorm, InstanceNorm
from burnpy.nn.layers.classification_losses import (
    BceLoss,
    BceWithLogitsLoss,
    CrossEntropyLoss,
    FocalLoss,
    MultiLabelMarginLoss,
    MultiLabelSoftMarginLoss,
    NllLoss,
)
from burnpy.nn.layers.convolution import Conv1d, Conv2d, Conv3d
from burnpy.nn.layers.ctc_loss import CtcLoss
from burnpy.nn.layers.dropout import AlphaDropout, Dropout, Dropout1d, Dropout2d, Dropout3d, FeatureAlphaDropout
from burnpy.nn.layers.embedding import Embedding, EmbeddingBag
from burnpy.nn.layers.hard_activation import (
    Hardshrink,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    LeakyRelu,
    PRelu,
    Relu,
    Relu6,
    Softshrink,
    Tanhshrink,
    Threshold,
)
from burnpy.nn.layers.key_value_cache import KeyValueCache
from burnpy.nn.layers.linear import Bilinear, Linear
from burnpy.nn.layers.losses import GaussianNllLoss, HuberLoss, KlDivLoss, L1Loss, MseLoss, PoissonNllLoss, SmoothL1Loss
from burnpy.nn.layers.lstm import Lstm, LstmCell, LstmState
from burnpy.nn.layers.margin_losses import (
    CosineEmbeddingLoss,
    HingeEmbeddingLoss,
    MarginRankingLoss,
    MultiMarginLoss,
    SoftMarginLoss,
    TripletMarginLoss,
)
from burnpy.nn.layers.max_pooling import MaxPool1d, MaxPool2d, MaxPool3d
from burnpy.nn.layers.multi_head_attention import MultiHeadAttention
from burnpy.nn.layers.normalization import GroupNorm, LayerNorm, LocalResponseNorm, RmsNorm
from burnpy.nn.layers.padding import CircularPad, ConstantPad, ReflectionPad, ReplicationPad, ZeroPad
from burnpy.nn.layers.parametrizations import Lora, SpectralNorm, WeightNorm, add_lora, merge_lora
from burnpy.nn.layers.positional_encoding import (
    DynamicScaling,
    LinearScaling,
    Llama3Scaling,
    PositionalEncoding,
    RotaryEncoding,
    RotaryScaling,
    YarnScaling,
)
from burnpy.nn.layers.quantization import QuantizationError, QuantizedLinear, quantization_error
from burnpy.nn.layers.recurrent import Gru, GruCell, Rnn, RnnCell
from burnpy.nn.layers.resampling import Upsample
from burnpy.nn.layers.sequential import Flatten, Identity, Sequential
from burnpy.nn.layers.transformer import TransformerEncoder, TransformerEncoderLayer
from burnpy.nn.layers.transformer_decoder import DecoderCache, TransformerDecoder, TransformerDecoderLayer
from burnpy.nn.layers.transposed_convolution import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from burnpy.nn.layers.unfold_and_shuffle import ChannelShuffle, Fold, PixelShuffle, PixelUnshuffle, Unfold
from burnpy.nn.layers.unpooling import MaxUnpool1d, MaxUnpool2d, MaxUnpool3d
from burnpy.nn.module import Module, Stateless, rebound
from burnpy.nn.module_state import Entry, State, StateReport
from burnpy.nn.param import BoolBuffer, Buffer, ComplexBuffer, ComplexParam, IntBuffer, Param
from burnpy.nn.transform import Where

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d", "AlphaDropout", "AvgPool1d", "AvgPool2d", "AvgPool3d", "BatchNorm", "BceLoss",
    "BceWithLogitsLoss", "Bilinear", "BoolBuffer", "Buffer", "BufferUpdate", "Celu", "ChannelShuffle", "CircularPad",
    "ComplexBuffer", "ComplexParam", "ConstantPad", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d",
    "ConvTranspose3d", "CosineEmbeddingLoss", "CrossEntropyLoss", "CtcLoss", "DecoderCache", "Dropout", "Dropout1d",
    "Dropout2d", "Dropout3d", "DynamicScaling", "Elu", "Embedding", "EmbeddingBag", "Entry", "FeatureAlphaDropout",
    "Flatten", "FocalLoss", "Fold", "GaussianNllLoss", "Gelu", "Glu", "GroupNorm", "Gru", "GruCell", "Hardshrink",
    "Hardsigmoid", "Hardswish", "Hardtanh", "HingeEmbeddingLoss", "HuberLoss", "Identity", "Initializer",
    "InstanceNorm", "IntBuffer", "KeyValueCache", "KlDivLoss", "L1Loss", "LayerNorm", "LeakyRelu", "Linear",
    "LinearScaling", "Llama3Scaling", "LocalResponseNorm", "LogSigmoid", "LogSoftmax", "Lora", "LpPool1d", "LpPool2d",
    "LpPool3d", "Lstm", "LstmCell", "LstmState", "MarginRankingLoss", "MaxPool1d", "MaxPool2d", "MaxPool3d",
    "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d", "Mish", "Module", "MseLoss", "MultiHeadAttention",
    "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss", "NllLoss", "PRelu", "Param", "PixelShuffle",
    "PixelUnshuffle", "PoissonNllLoss", "PositionalEncoding", "QuantizationError", "QuantizedLinear", "ReflectionPad",
    "Relu", "Relu6", "ReplicationPad", "RmsNorm", "Rnn", "RnnCell", "RotaryEncoding", "RotaryScaling", "Selu",
    "Sequential", "Sigmoid", "Silu", "SmoothL1Loss", "SoftMarginLoss", "Softmax", "Softmin", "Softplus", "Softshrink",
    "Softsign", "SpectralNorm", "State", "StateReport", "Stateless", "SwiGlu", "Tanh", "Tanhshrink", "Threshold",
    "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder", "TransformerEncoderLayer",
    "TripletMarginLoss", "Unfold", "Upsample", "WeightNorm", "Where", "YarnScaling", "ZeroPad", "add_lora",
    "functional", "init", "init_empty_weights", "merge_lora", "quantization_error", "rebound", "record_update",
    "stepped",
]  # fmt: skip
