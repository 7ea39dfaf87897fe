"""Modules: models and their layers as immutable trees of parameters.

>>> from burnpy import Tensor
>>> from burnpy.backend import NumPy
>>> model = Sequential(Linear(4, 8, device=NumPy), Relu(), Linear(8, 2, device=NumPy))
>>> model(Tensor[NumPy].ones((3, 4))).shape, model.num_params
((3, 2), 58)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import burnpy.nn.pytree  # noqa: F401  # pyright: ignore[reportUnusedImport]  # registers modules with `burnpy.func`
from burnpy.nn import functional, init
from burnpy.nn.buffer_updates import BufferUpdate, record_update, stepped
from burnpy.nn.init import Initializer
from burnpy.nn.layers.activations import Gelu, Identity, LogSoftmax, Relu, Sigmoid, Silu, Softmax, Softplus, Tanh
from burnpy.nn.layers.attention import MultiHeadAttention
from burnpy.nn.layers.batch_norm import BatchNorm
from burnpy.nn.layers.conv2d import Conv2d
from burnpy.nn.layers.dropout import Dropout
from burnpy.nn.layers.embedding import Embedding
from burnpy.nn.layers.flatten import Flatten
from burnpy.nn.layers.layer_norm import LayerNorm
from burnpy.nn.layers.linear import Linear
from burnpy.nn.layers.losses import BceWithLogitsLoss, CrossEntropyLoss, MseLoss, NllLoss
from burnpy.nn.layers.lstm import Lstm, LstmState
from burnpy.nn.layers.pooling import AdaptiveAvgPool2d, AvgPool2d, MaxPool2d
from burnpy.nn.layers.sequential import Sequential
from burnpy.nn.layers.transformer import TransformerEncoder, TransformerEncoderLayer
from burnpy.nn.module import Module, Stateless, rebound
from burnpy.nn.select import Where
from burnpy.nn.state import Entry, State, StateReport
from burnpy.nn.variable import BoolBuffer, Buffer, IntBuffer, Param

__all__ = [
    "AdaptiveAvgPool2d",
    "AvgPool2d",
    "BatchNorm",
    "BceWithLogitsLoss",
    "BoolBuffer",
    "Buffer",
    "BufferUpdate",
    "Conv2d",
    "CrossEntropyLoss",
    "Dropout",
    "Embedding",
    "Entry",
    "Flatten",
    "Gelu",
    "Identity",
    "Initializer",
    "IntBuffer",
    "LayerNorm",
    "Linear",
    "LogSoftmax",
    "Lstm",
    "LstmState",
    "MaxPool2d",
    "Module",
    "MseLoss",
    "MultiHeadAttention",
    "NllLoss",
    "Param",
    "Relu",
    "Sequential",
    "Sigmoid",
    "Silu",
    "Softmax",
    "Softplus",
    "State",
    "StateReport",
    "Stateless",
    "Tanh",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "Where",
    "functional",
    "init",
    "rebound",
    "record_update",
    "stepped",
]

if not TYPE_CHECKING:  # type checkers see only the names above

    def __getattr__(name: str) -> object:
        """Raise an error for an unknown name, with a hint if it is one of PyTorch's."""
        from burnpy.hints.missing import from_package

        raise from_package(__name__, name)
