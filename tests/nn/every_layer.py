"""A table of every layer and loss of `burnpy.nn`: constructor arguments, non-default settings, and inputs."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

import numpy as np

from burnpy import Generator, IntTensor, Tensor, nn
from burnpy.nn.module_base import ModuleBase


class Example(NamedTuple):
    """A layer of the table: ``Layer(*args, **settings, device=device)``, called with ``inputs``."""

    args: tuple[Any, ...]
    settings: dict[str, Any]  #: by name, each other than its default
    inputs: tuple[Any, ...]  #: shapes of floats, or lists of ints


_POOLED = ((2, 4, 9, 9),)
_SEQUENCES = ((2, 4, 9),)
_VOLUMES = ((2, 4, 6, 5, 7),)
_TRANSFORMER = {"feedforward": 12, "dropout": 0.25, "activation": "gelu", "norm_first": True, "eps": 0.125}

EVERY: dict[str, Example] = {
    "AdaptiveAvgPool2d": Example((4,), {}, _POOLED),
    "AdaptiveAvgPool1d": Example((4,), {}, _SEQUENCES),
    "AdaptiveMaxPool1d": Example((4,), {}, _SEQUENCES),
    "AdaptiveMaxPool2d": Example((4,), {}, _POOLED),
    "AdaptiveAvgPool3d": Example(((2, None, 3),), {}, _VOLUMES),
    "AdaptiveMaxPool3d": Example(((2, None, 3),), {}, _VOLUMES),
    "AvgPool1d": Example((3,), {"stride": 2, "padding": 1, "ceil_mode": True, "count_include_pad": False}, _SEQUENCES),
    "ChannelShuffle": Example((2,), {}, _POOLED),
    "Fold": Example(((5, 6), (3, 2)), {"dilation": (1, 2), "padding": 1, "stride": 2}, ((2, 12, 9),)),
    "MaxPool1d": Example((3,), {"stride": 2, "padding": 1, "dilation": 2, "ceil_mode": True}, _SEQUENCES),
    "MaxPool3d": Example((3,), {"stride": 2, "padding": 1, "dilation": 2, "ceil_mode": True}, _VOLUMES),
    "AvgPool3d": Example(
        (3,),
        {"stride": 2, "padding": 1, "ceil_mode": True, "count_include_pad": False, "divisor_override": 5},
        _VOLUMES,
    ),
    "LpPool1d": Example((3.0, 2), {"stride": 1, "ceil_mode": True}, _SEQUENCES),
    "LpPool2d": Example((3.0, 2), {"stride": 1, "ceil_mode": True}, _POOLED),
    "LpPool3d": Example((3.0, 2), {"stride": 1, "ceil_mode": True}, _VOLUMES),
    "MaxUnpool1d": Example((3,), {"stride": 2, "padding": 1}, ((1, 2), [[0, 2]])),
    "MaxUnpool2d": Example((3,), {"stride": 2, "padding": 1}, ((1, 2, 2), [[[1, 2], [3, 5]]])),
    "MaxUnpool3d": Example((3,), {"stride": 2, "padding": 1}, ((1, 2, 1, 2), [[[[1, 2]], [[3, 5]]]])),
    "PixelShuffle": Example((2,), {}, _POOLED),
    "PixelUnshuffle": Example((3,), {}, _POOLED),
    "Unfold": Example(((3, 2),), {"dilation": 2, "padding": (1, 0), "stride": 2}, _POOLED),
    "AvgPool2d": Example(
        (3,), {"stride": 2, "padding": 1, "ceil_mode": True, "count_include_pad": False, "divisor_override": 5}, _POOLED
    ),
    "BatchNorm": Example(
        (4,), {"eps": 0.125, "momentum": None, "affine": False, "track_running_stats": False}, ((3, 4, 5),)
    ),
    "Bilinear": Example((3, 4, 2), {"bias": False}, ((5, 3), (5, 4))),
    "GroupNorm": Example((2, 4), {"eps": 0.125, "affine": False}, _POOLED),
    "InstanceNorm": Example(
        (4,), {"eps": 0.125, "momentum": 0.5, "affine": True, "track_running_stats": True}, _POOLED
    ),
    "RmsNorm": Example(((6, 6),), {"eps": 0.125}, ((2, 6, 6),)),
    "Upsample": Example(
        (None,),
        {"scale_factor": 2.0, "mode": "bilinear", "align_corners": True, "recompute_scale_factor": True},
        _POOLED,
    ),
    "BceLoss": Example((), {"reduction": "sum"}, ((3, 4), (3, 4))),
    "BceWithLogitsLoss": Example((), {"reduction": "sum"}, ((3, 4), (3, 4))),
    "Celu": Example((0.5,), {}, ((3, 4),)),
    "CircularPad": Example(((1, 2, 3, 0),), {"dims": 1}, _POOLED),
    "ConstantPad": Example(((1, -2, 3, 0), 7.0), {"dims": 1}, _POOLED),
    "ReflectionPad": Example((3,), {"dims": 1}, _SEQUENCES),
    "ReplicationPad": Example((2,), {"dims": 1}, _SEQUENCES),
    "ZeroPad": Example((2,), {"dims": 1}, _SEQUENCES),
    "Conv1d": Example(
        (4, 6, 3),
        {"stride": 2, "padding": (1, 0), "dilation": 2, "groups": 2, "bias": False, "padding_mode": "circular"},
        _SEQUENCES,
    ),
    "ConvTranspose1d": Example(
        (4, 6, 3),
        {"stride": 2, "padding": 1, "output_padding": 1, "dilation": 2, "groups": 2, "bias": False},
        _SEQUENCES,
    ),
    "ConvTranspose2d": Example(
        (4, 6, (3, 2)),
        {"stride": 2, "padding": (1, 0), "output_padding": 1, "dilation": 2, "groups": 2, "bias": False},
        _POOLED,
    ),
    "Conv3d": Example(
        (4, 6, (3, 2, 1)),
        {
            "stride": 2,
            "padding": (1, 0, 2),
            "dilation": 2,
            "groups": 2,
            "bias": False,
            "padding_mode": "reflect",
        },
        _VOLUMES,
    ),
    "ConvTranspose3d": Example(
        (4, 6, (3, 2, 1)),
        {"stride": 2, "padding": (1, 0, 1), "output_padding": 1, "dilation": 2, "groups": 2, "bias": False},
        _VOLUMES,
    ),
    "Conv2d": Example(
        (4, 6, (3, 2)),
        {"stride": 2, "padding": (1, 0), "dilation": 2, "groups": 2, "bias": False, "padding_mode": "circular"},
        _POOLED,
    ),
    "CosineEmbeddingLoss": Example((), {"margin": 0.25, "reduction": "sum"}, ((3, 4), (3, 4), [1, -1, 1])),
    "CrossEntropyLoss": Example(
        (), {"ignore_index": 1, "label_smoothing": 0.25, "reduction": "none"}, ((3, 4), [0, 3, 2])
    ),
    "AlphaDropout": Example((0.25,), {"generator": Generator(3)}, ((3, 4),)),
    "Dropout1d": Example((0.25,), {"generator": Generator(3)}, _SEQUENCES),
    "Dropout2d": Example((0.25,), {"generator": Generator(3)}, _POOLED),
    "Dropout3d": Example((0.25,), {"generator": Generator(3)}, _VOLUMES),
    "FeatureAlphaDropout": Example((0.25,), {"generator": Generator(3)}, _POOLED),
    "EmbeddingBag": Example(
        (5, 3), {"mode": "sum", "include_last_offset": True, "padding_idx": 1}, ([0, 4, 1], [0, 2, 3])
    ),
    "FocalLoss": Example((), {"alpha": None, "gamma": 1.5, "reduction": "sum"}, ((3, 4), (3, 4))),
    "LocalResponseNorm": Example((3,), {"alpha": 0.5, "beta": 0.25, "k": 2.0}, _POOLED),
    "MultiLabelMarginLoss": Example((), {"reduction": "sum"}, ((2, 3), [[0, 2, -1], [1, -1, 0]])),
    "MultiLabelSoftMarginLoss": Example((), {"reduction": "sum"}, ((3, 4), (3, 4))),
    "CtcLoss": Example(
        (), {"blank": 2, "reduction": "sum", "zero_infinity": True}, ((4, 2, 3), [[0, 1], [1, 1]], [4, 3], [2, 1])
    ),
    "Dropout": Example((0.25,), {"generator": Generator(3)}, ((3, 4),)),
    "Elu": Example((0.5,), {}, ((3, 4),)),
    "Embedding": Example((5, 3), {"padding_idx": 1}, ([0, 4, 1],)),
    "Flatten": Example((0, 1), {}, ((2, 3, 4),)),
    "GaussianNllLoss": Example((), {"full": True, "eps": 0.125, "reduction": "sum"}, ((3, 4), (3, 4), (3, 4))),
    "Gelu": Example(("tanh",), {}, ((3, 4),)),
    "Gru": Example((3, 4), {"count": 2, "bidirectional": True, "dropout": 0.25, "bias": False}, ((2, 5, 3),)),
    "GruCell": Example((3, 4), {"bias": False}, ((2, 3), (2, 4))),
    "Glu": Example((0,), {}, ((4, 3),)),
    "Hardshrink": Example((0.25,), {}, ((3, 4),)),
    "Hardsigmoid": Example((), {}, ((3, 4),)),
    "Hardswish": Example((), {}, ((3, 4),)),
    "Hardtanh": Example((-2.0, 0.5), {}, ((3, 4),)),
    "HingeEmbeddingLoss": Example((), {"margin": 0.25, "reduction": "sum"}, ((3,), [1, -1, 1])),
    "HuberLoss": Example((), {"delta": 0.25, "reduction": "sum"}, ((3, 4), (3, 4))),
    "Identity": Example((), {}, ((3, 4),)),
    "KlDivLoss": Example((), {"log_target": True, "reduction": "batchmean"}, ((3, 4), (3, 4))),
    "L1Loss": Example((), {"reduction": "sum"}, ((3, 4), (3, 4))),
    "LayerNorm": Example(((6, 6),), {"eps": 0.125, "bias": False}, ((2, 6, 6),)),
    "LeakyRelu": Example((0.25,), {}, ((3, 4),)),
    "Linear": Example((3, 2), {"bias": False}, ((4, 3),)),
    "LogSigmoid": Example((), {}, ((3, 4),)),
    "LogSoftmax": Example((1,), {}, ((3, 4),)),
    "LstmCell": Example((3, 4), {"proj_size": 2, "bias": False}, ((2, 3),)),
    "Rnn": Example(
        (3, 4),
        {"nonlinearity": "relu", "count": 2, "bidirectional": True, "dropout": 0.25, "bias": False},
        ((2, 5, 3),),
    ),
    "RnnCell": Example((3, 4), {"nonlinearity": "relu", "bias": False}, ((2, 3), (2, 4))),
    "Lstm": Example(
        (3, 4), {"proj_size": 2, "count": 2, "bidirectional": True, "dropout": 0.25, "bias": False}, ((2, 5, 3),)
    ),
    "MarginRankingLoss": Example((), {"margin": 0.25, "reduction": "sum"}, ((3,), (3,), [1, -1, 1])),
    "MaxPool2d": Example((3,), {"stride": 2, "padding": 1, "dilation": 2, "ceil_mode": True}, _POOLED),
    "Mish": Example((), {}, ((3, 4),)),
    "MseLoss": Example((), {"reduction": "sum"}, ((3, 4), (3, 4))),
    "MultiHeadAttention": Example(
        (8, 4),
        {
            "key_heads": 2,
            "head_size": 6,
            "scale": 0.5,
            "softcap": 4.0,
            "dropout": 0.25,
            "bias": False,
            "out_bias": False,
        },
        ((2, 5, 8),),
    ),
    "MultiMarginLoss": Example((), {"p": 2, "margin": 0.5, "reduction": "sum"}, ((3, 4), [0, 3, 2])),
    "NllLoss": Example((), {"ignore_index": 1, "reduction": "none"}, ((3, 4), [0, 3, 2])),
    "PRelu": Example((4, 0.5), {}, ((3, 4),)),
    "PoissonNllLoss": Example(
        (), {"log_input": False, "full": True, "eps": 0.125, "reduction": "sum"}, ((3, 4), (3, 4))
    ),
    "Relu": Example((), {}, ((3, 4),)),
    "Relu6": Example((), {}, ((3, 4),)),
    "Selu": Example((), {}, ((3, 4),)),
    "PositionalEncoding": Example((), {"base": 100.0}, ((3, 4),)),
    "RotaryEncoding": Example((), {"base": 100.0, "interleaved": False, "scaling": nn.LinearScaling(2.0)}, ((3, 4),)),
    "Sigmoid": Example((), {}, ((3, 4),)),
    "Silu": Example((), {}, ((3, 4),)),
    "SmoothL1Loss": Example((), {"beta": 0.25, "reduction": "sum"}, ((3, 4), (3, 4))),
    "SoftMarginLoss": Example((), {"reduction": "sum"}, ((3,), [1, -1, 1])),
    "Softmax": Example((1,), {}, ((3, 4),)),
    "Softmin": Example((1,), {}, ((3, 4),)),
    "Softplus": Example((2.0,), {}, ((3, 4),)),
    "Softshrink": Example((0.25,), {}, ((3, 4),)),
    "Softsign": Example((), {}, ((3, 4),)),
    "SwiGlu": Example((0,), {}, ((4, 3),)),
    "Tanh": Example((), {}, ((3, 4),)),
    "Tanhshrink": Example((), {}, ((3, 4),)),
    "Threshold": Example((0.5, 7.0), {}, ((3, 4),)),
    "TransformerDecoder": Example((2, 6, 2), {**_TRANSFORMER, "norm": False}, ((2, 5, 6), (2, 3, 6))),
    "TransformerDecoderLayer": Example((6, 2), _TRANSFORMER, ((2, 5, 6), (2, 3, 6))),
    "TransformerEncoder": Example((2, 6, 2), {**_TRANSFORMER, "norm": False}, ((2, 5, 6),)),
    "TransformerEncoderLayer": Example((6, 2), _TRANSFORMER, ((2, 5, 6),)),
    "TripletMarginLoss": Example(
        (), {"margin": 0.5, "p": 3.0, "eps": 0.125, "swap": True, "reduction": "sum"}, ((3, 4), (3, 4), (3, 4))
    ),
}

OTHERS = ("Lora", "Module", "QuantizedLinear", "Sequential", "SpectralNorm", "Stateless", "WeightNorm")
"""The base classes, and the layers of other layers, which have tests of their own."""


ELSEWHERE = {"MultiHeadAttention(rotary=)", "MultiHeadAttention(q_norm=)", "MultiHeadAttention(k_norm=)"}
"""Settings that are parts, tested with the layer."""
ELSEWHERE |= {"MultiHeadAttention(window=)"}  # of causal calls


def takes_device(name: str) -> bool:
    """Whether the layer ``name`` has a device."""
    return "device" in inspect.signature(getattr(nn, name)).parameters


def made(name: str, device: Any, **settings: Any) -> Any:
    """Create the layer ``name``, with settings in addition to the required arguments."""
    cls = getattr(nn, name)
    if takes_device(name):
        settings["device"] = device
    return cls(*EVERY[name].args, **settings)


def inputs(name: str, device: Any, dtype: str = "float32") -> list[Any]:
    """The inputs of the layer ``name``."""
    rng = np.random.default_rng(0)
    return [
        Tensor.from_data(rng.uniform(size=x), dtype=dtype, device=device)
        if isinstance(x, tuple)
        else IntTensor.from_data(x, device=device)
        for x in EVERY[name].inputs
    ]


def missing() -> list[str]:
    """Return the layers that are not in the table, and the untested settings of those that are."""
    layers = {name: getattr(nn, name) for name in nn.__all__}
    layers = {name: cls for name, cls in layers.items() if isinstance(cls, type) and issubclass(cls, ModuleBase)}
    untested = [name for name in layers if name not in EVERY and name not in OTHERS]
    for name, example in EVERY.items():
        drawn = {"device", "initializer", "generator"} if takes_device(name) else set()
        named = [p.name for p in inspect.signature(layers[name]).parameters.values()][len(example.args) :]
        untested += [f"{name}({key}=)" for key in named if key not in example.settings and key not in drawn]
    return [setting for setting in untested if setting not in ELSEWHERE]
