"""Layers compute in their weights' dtype, and losses in the prediction's; wider inputs are errors."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, IntTensor, Tensor, nn
from burnpy.backend import NumPy
from burnpy.backend.errors import DTypeError
from burnpy.nn import functional as F  # noqa: N812  # PyTorch's name for it
from tests.nn.every_layer import EVERY, inputs, made, missing
from tests.rows import every_row

Train = Autodiff[NumPy]
WEIGHTED = [
    name
    for name in EVERY
    if name not in ("Embedding", "EmbeddingBag") and made(name, Train).named_params()  # their input is ints
]
LOSSES = [name for name in EVERY if name.endswith("Loss")]
WIDE = r"of dtype float64 for .* of dtype float32, and would compute in float64.*write .*\.to_dtype\(\"float32\"\)"


def of(dtype: str, *shape: int) -> Tensor[Any]:
    return Tensor[Train].from_data(np.random.default_rng(0).uniform(size=shape), dtype=dtype)


def test_every_layer_is_known() -> None:
    assert not missing(), f"{missing()} have no example: give them rows in tests/nn/every_layer.py"
    assert {"Linear", "Conv2d", "BatchNorm", "LayerNorm", "Lstm", "MultiHeadAttention"} <= {*WEIGHTED}


@every_row("name", WEIGHTED)
def test_a_layer_refuses_what_is_wider_than_its_weights(name: str) -> None:
    layer = made(name, Train)
    for model in (layer, layer.eval(), layer.valid()):
        given = inputs(name, model.device, "float64")
        with pytest.raises(DTypeError, match=WIDE):
            model(*given)
        first = model(*[x.to_dtype("float32") for x in given])
        assert (first[0] if isinstance(first, tuple) else first).dtype == "float32"
    wide = layer.astype("float64")(*inputs(name, Train, "float64"))
    assert (wide[0] if isinstance(wide, tuple) else wide).dtype == "float64"


@every_row("name", WEIGHTED)
def test_a_layer_promotes_what_is_narrower(name: str) -> None:
    result = made(name, Train)(*inputs(name, Train, "float16"))
    assert (result[0] if isinstance(result, tuple) else result).dtype == "float32"


@every_row("name", LOSSES)
def test_a_loss_refuses_what_is_wider_than_the_prediction(name: str) -> None:
    prediction, target, *rest = inputs(name, Train)
    if name == "CrossEntropyLoss":
        target = of("float64", *prediction.shape)
    if target.kind == "float":
        with pytest.raises(DTypeError, match=WIDE):
            made(name, Train)(prediction, target.to_dtype("float64"), *rest)
        assert made(name, Train)(prediction.to_dtype("float64"), target, *rest).dtype == "float64"
    elif "weight" in inspect.signature(made(name, Train).forward).parameters:
        with pytest.raises(DTypeError, match=WIDE):
            made(name, Train)(prediction, target, weight=of("float64", 4))


def test_weights_of_a_loss_are_no_wider_either() -> None:
    x = of("float32", 3, 4)
    classes = IntTensor[Train].from_data([0, 1, 2])
    calls: list[Callable[[], object]] = [
        lambda: F.cross_entropy(x, classes, weight=of("float64", 4)),
        lambda: F.cross_entropy(x, x, weight=of("float64", 4)),
        lambda: F.binary_cross_entropy_with_logits(x, x, weight=of("float64", 4)),
        lambda: F.binary_cross_entropy_with_logits(x, x, pos_weight=of("float64", 1)),
    ]
    for call in calls:
        with pytest.raises(DTypeError, match=WIDE):
            call()
    assert F.binary_cross_entropy_with_logits(x, x, pos_weight=of("float64")).dtype == "float32"
    assert F.mse_loss(of("float32"), of("float64")).ndim == 0


def test_attention_computes_in_the_dtype_of_its_queries() -> None:
    q, wide = of("float32", 2, 3, 4), of("float64", 2, 3, 4)
    mask = of("float64", 3, 3)
    calls: list[Callable[[], object]] = [
        lambda: F.scaled_dot_product_attention(q, wide, q),
        lambda: F.scaled_dot_product_attention(q, q, wide),
        lambda: F.scaled_dot_product_attention(q, q, q, mask),
        lambda: nn.MultiHeadAttention(4, 2, device=Train)(q, mask=mask),
    ]
    for call in calls:
        with pytest.raises(DTypeError, match=WIDE):
            call()
    kept = F.scaled_dot_product_attention(q, q.to_dtype("float16"), q.to_dtype("float16"))
    assert kept.dtype == "float32"


def test_a_state_is_no_wider_than_an_lstm() -> None:
    lstm, x, state = nn.Lstm(3, 4, device=Train), of("float32", 2, 5, 3), of("float64", 1, 2, 4)
    with pytest.raises(DTypeError, match=r"Lstm\(\) got hidden " + WIDE):
        lstm(x, (state, state))


def test_a_norm_without_weights_goes_by_its_statistics() -> None:
    norm, x = nn.BatchNorm(4, affine=False, device=Train), of("float64", 3, 4)
    for model in (norm, norm.eval()):
        with pytest.raises(DTypeError, match=WIDE):
            model(x)
    assert nn.BatchNorm(4, affine=False, track_running_stats=False, device=Train)(x).dtype == "float64"


def test_of_two_16_bit_dtypes_neither_holds_the_other() -> None:
    layer = nn.Linear(3, 2, device=Train).astype("bfloat16")
    with pytest.raises(DTypeError, match=r"x of dtype float16 for weights of dtype bfloat16, .* compute in float32"):
        layer(of("float16", 2, 3))
