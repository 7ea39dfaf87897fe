"""Language models: tokens one by one with a cache, in batches with padding, and mistakes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest

from burnpy import Autodiff, BoolTensor, IntTensor, Tensor, models
from burnpy.backend import NumPy
from burnpy.errors import ArgumentError, KindError, ShapeError
from tests.models import small
from tests.rows import every_row

TOKENS = np.array([[3, 1, 4, 1, 5, 9, 2], [6, 5, 3, 5, 8, 9, 7]])
FLOATS: Any = Tensor[NumPy].ones((1, 2))
MASK = BoolTensor[NumPy].ones((2, 2))


def tokens(values: Any) -> IntTensor[NumPy]:
    return IntTensor[NumPy].from_data(values)


@pytest.mark.slow
@pytest.mark.parametrize("name", small.DECODERS)
def test_tokens_one_by_one_have_the_logits_of_all_at_once(name: str) -> None:
    model = small.DECODERS[name]()
    expected = model(tokens(TOKENS)).to_numpy()
    scale = np.abs(expected).max()
    assert scale > 0.01, "a new model has logits that differ"
    cache = model.empty_cache(2, 7)
    logits, cache = model.next_logits(tokens(TOKENS[:, :3]), cache)
    np.testing.assert_allclose(logits.to_numpy(), expected[:, 2], atol=2e-5 * scale)
    for k in range(3, 7):
        logits, cache = model.next_logits(tokens(TOKENS[:, k : k + 1]), cache)
        np.testing.assert_allclose(logits.to_numpy(), expected[:, k], atol=2e-5 * scale)


@pytest.mark.parametrize("name", small.DECODERS)
def test_padding_changes_nothing(name: str) -> None:
    model = small.DECODERS[name]()
    alone = model(tokens(TOKENS[1:, 3:])).to_numpy()[0]
    scale = np.abs(alone).max()
    real = BoolTensor[NumPy].from_data(np.arange(7) >= np.array([[0], [3]]))
    masked = model(tokens(TOKENS), key_mask=real).to_numpy()[1, 3:]
    np.testing.assert_allclose(masked, alone, atol=3e-5 * scale)
    logits, _ = model.next_logits(tokens(TOKENS), model.empty_cache(2, 9, padding=tokens([0, 3])))
    np.testing.assert_allclose(logits.to_numpy()[1], alone[-1], atol=3e-5 * scale)


@pytest.mark.slow
def test_every_parameter_has_a_gradient() -> None:
    for make in small.DECODERS.values():
        model: Any = make(Autodiff[NumPy])
        logits = model.train(False)(IntTensor.from_data(TOKENS, device=model.device))
        grads = logits.square().mean().backward()
        missing = [path for path, param in model.named_params().items() if param.value.grad(grads) is None]
        assert missing == []


Given: TypeAlias = Callable[[models.Decoder[NumPy]], object]
MISTAKES: list[tuple[Given, type[Exception], str]] = [
    (lambda m: m(tokens([1, 2])), ShapeError, r"tokens of shape \(N, T\) with at least one token, got shape \(2,\)"),
    (lambda m: m(tokens(np.zeros((2, 0), int))), ShapeError, r"at least one token, got shape \(2, 0\)"),
    (lambda m: m(FLOATS), KindError, "takes an IntTensor of tokens, got a Tensor"),
    (lambda m: m(tokens(np.zeros((1, 33), int))), ArgumentError, "takes up to 32 tokens, got 33"),
    (lambda m: m(tokens([[1, 2]]), key_mask=MASK), ShapeError, r"a BoolTensor of shape \(1, 2\), got \(2, 2\)"),
    (
        lambda m: m.next_logits(tokens([[1]]), ()),
        KindError,
        "takes a tuple of 2 caches, one for each layer, got a tuple",
    ),
    (
        lambda m: m.next_logits(tokens([[1, 2, 3]]), m.empty_cache(1, 2)),
        ShapeError,
        "a cache of capacity 2 that has 0 positions has no room for 3 more",
    ),
    (
        lambda m: m.next_logits(tokens([[1]]), m.empty_cache(2, 4)),
        ShapeError,
        r"queries of shape \(1, 1, 16\) and a cache",
    ),
]


def test_a_cache_of_another_model_is_refused() -> None:
    cache = small.llama(head_dim=8).empty_cache(1, 4)
    with pytest.raises(ShapeError, match=r"a cache of shape \(1, 2, 4, 8\), expected \(1, 2, 4, 4\)"):
        small.llama().next_logits(tokens([[1]]), cache)


@every_row("given, error, message", MISTAKES)
def test_mistakes_are_explained(given: Given, error: type[Exception], message: str) -> None:
    for name in ("gpt2", "llama"):
        with pytest.raises(error, match=message):
            given(small.DECODERS[name]())
