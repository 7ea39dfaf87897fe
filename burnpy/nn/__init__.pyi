"""The names of `burnpy.nn`, made from its table by ``python -m burnpy.docs.exports``."""

from burnpy.nn import functional, init
from burnpy.nn.buffer_updates import BufferUpdate, record_update, stepped
from burnpy.nn.init import Initializer
from burnpy.nn.layers.activations import Gelu, LogSoftmax, Relu, Sigmoid, Silu, Softmax, Softplus, Tanh
from burnpy.nn.layers.adaptive_pooling import AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveMaxPool1d, AdaptiveMaxPool2d
from burnpy.nn.layers.attention import MultiHeadAttention
from burnpy.nn.layers.attention_cache import DecoderCache, KeyValueCache
from burnpy.nn.layers.batch_norm import BatchNorm
from burnpy.nn.layers.bilinear import Bilinear
from burnpy.nn.layers.convolution import Conv1d, Conv2d
from burnpy.nn.layers.dropout import Dropout
from burnpy.nn.layers.embedding import Embedding
from burnpy.nn.layers.flatten import Flatten
from burnpy.nn.layers.group_norm import GroupNorm
from burnpy.nn.layers.gru import Gru, GruCell
from burnpy.nn.layers.instance_norm import InstanceNorm
from burnpy.nn.layers.layer_norm import LayerNorm
from burnpy.nn.layers.likelihood_losses import (
    BceLoss,
    BceWithLogitsLoss,
    CrossEntropyLoss,
    GaussianNllLoss,
    KlDivLoss,
    NllLoss,
    PoissonNllLoss,
)
from burnpy.nn.layers.linear import Linear
from burnpy.nn.layers.lstm import Lstm, LstmCell, LstmState
from burnpy.nn.layers.margin_losses import (
    CosineEmbeddingLoss,
    HingeEmbeddingLoss,
    MarginRankingLoss,
    MultiMarginLoss,
    SoftMarginLoss,
    TripletMarginLoss,
)
from burnpy.nn.layers.padding import CircularPad, ConstantPad, ReflectionPad, ReplicationPad, ZeroPad
from burnpy.nn.layers.piecewise_activations import (
    Hardshrink,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    LeakyRelu,
    PRelu,
    Relu6,
    Softshrink,
    Threshold,
)
from burnpy.nn.layers.pixels import ChannelShuffle, PixelShuffle, PixelUnshuffle
from burnpy.nn.layers.pooling import AvgPool1d, AvgPool2d, MaxPool1d, MaxPool2d
from burnpy.nn.layers.regression_losses import HuberLoss, L1Loss, MseLoss, SmoothL1Loss
from burnpy.nn.layers.rms_norm import RmsNorm
from burnpy.nn.layers.rnn import Rnn, RnnCell
from burnpy.nn.layers.rotary import RotaryEncoding
from burnpy.nn.layers.sequential import Identity, Sequential
from burnpy.nn.layers.smooth_activations import (
    Celu,
    Elu,
    Glu,
    LogSigmoid,
    Mish,
    Selu,
    Softmin,
    Softsign,
    SwiGlu,
    Tanhshrink,
)
from burnpy.nn.layers.transformer_decoder import TransformerDecoder, TransformerDecoderLayer
from burnpy.nn.layers.transformer_encoder import TransformerEncoder, TransformerEncoderLayer
from burnpy.nn.layers.transposed_convolution import ConvTranspose1d, ConvTranspose2d
from burnpy.nn.layers.unfolding import Fold, Unfold
from burnpy.nn.layers.upsample import Upsample
from burnpy.nn.module import Module, Stateless, rebound
from burnpy.nn.select import Where
from burnpy.nn.state import Entry, State, StateReport
from burnpy.nn.variable import BoolBuffer, Buffer, IntBuffer, Param

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AvgPool1d",
    "AvgPool2d",
    "BatchNorm",
    "BceLoss",
    "BceWithLogitsLoss",
    "Bilinear",
    "BoolBuffer",
    "Buffer",
    "BufferUpdate",
    "Celu",
    "ChannelShuffle",
    "CircularPad",
    "ConstantPad",
    "Conv1d",
    "Conv2d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "CosineEmbeddingLoss",
    "CrossEntropyLoss",
    "DecoderCache",
    "Dropout",
    "Elu",
    "Embedding",
    "Entry",
    "Flatten",
    "Fold",
    "GaussianNllLoss",
    "Gelu",
    "Glu",
    "GroupNorm",
    "Gru",
    "GruCell",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "Identity",
    "Initializer",
    "InstanceNorm",
    "IntBuffer",
    "KeyValueCache",
    "KlDivLoss",
    "L1Loss",
    "LayerNorm",
    "LeakyRelu",
    "Linear",
    "LogSigmoid",
    "LogSoftmax",
    "Lstm",
    "LstmCell",
    "LstmState",
    "MarginRankingLoss",
    "MaxPool1d",
    "MaxPool2d",
    "Mish",
    "Module",
    "MseLoss",
    "MultiHeadAttention",
    "MultiMarginLoss",
    "NllLoss",
    "PRelu",
    "Param",
    "PixelShuffle",
    "PixelUnshuffle",
    "PoissonNllLoss",
    "ReflectionPad",
    "Relu",
    "Relu6",
    "ReplicationPad",
    "RmsNorm",
    "Rnn",
    "RnnCell",
    "RotaryEncoding",
    "Selu",
    "Sequential",
    "Sigmoid",
    "Silu",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "Softmax",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "State",
    "StateReport",
    "Stateless",
    "SwiGlu",
    "Tanh",
    "Tanhshrink",
    "Threshold",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "TripletMarginLoss",
    "Unfold",
    "Upsample",
    "Where",
    "ZeroPad",
    "functional",
    "init",
    "rebound",
    "record_update",
    "stepped",
]
