"""Attention on the real CuPy: how many launches it takes, in blocks of heads and of queries, with all masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy import Generator, IntTensor, Tensor
from burnpy.backend import CuPy, Mixed, NumPy
from burnpy.backend.dtypes import float32
from burnpy.nn import MultiHeadAttention, RotaryEncoding
from tests.hostcuda import simulator

simulator.require()

BATCHED = "cublasGemmStridedBatchedEx"
LEAD, QUERIES, KEYS, SIZE, VALUES = (2, 3), 5, 37, 4, 3
MASKS: dict[str, tuple[int, ...] | None] = {
    "none": None,
    "of every head": (2, 3, QUERIES, KEYS),
    "of keys": (2, 1, 1, KEYS),
    "of queries and keys": (QUERIES, KEYS),
    "of inner heads": (3, 1, KEYS),
}


def drawn(shape: tuple[int, ...], seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def arguments(mask: str = "none", offset: int | None = None) -> tuple[list[Any], tuple[Any, ...]]:
    """The gradient of the result, queries, keys and values; and the rest."""
    shapes = ((QUERIES, VALUES), (QUERIES, SIZE), (KEYS, SIZE), (KEYS, VALUES))
    shape = MASKS[mask]
    allowed = None if shape is None else np.random.default_rng(9).random(shape) < 0.6
    return [drawn((*LEAD, *s), k) for k, s in enumerate(shapes)], (allowed, offset, 0.7)


def computed(device: Any, floats: list[Any], rest: tuple[Any, ...]) -> tuple[list[Any], list[list[str]]]:
    """The results of attention and its gradient, as of NumPy; and the launches of each."""
    inner = device.inner or device
    given = [inner.from_numpy(x) for x in floats]
    how = [x if not isinstance(x, np.ndarray) else inner.from_numpy(x) for x in rest]
    with simulator.watched() as forward:
        out, total = device.attention(*given[1:], *how)
    with simulator.watched() as backward:
        parts = device.attention_backward(*given, total, *how)
    launches = [[name.split("__")[0] for name in journal.launches] for journal in (forward, backward)]
    return [inner.to_numpy(x) for x in (out, total, *parts)], launches


def compare(floats: list[Any], rest: tuple[Any, ...]) -> list[list[str]]:
    (found, launches), (wanted, _) = computed(CuPy(), floats, rest), computed(NumPy(), floats, rest)
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    return launches


@pytest.mark.parametrize("offset", [None, 0, 30])
@pytest.mark.parametrize("mask", MASKS)
def test_it_takes_three_launches_and_its_gradient_six(mask: str, offset: int | None) -> None:
    forward, backward = compare(*arguments(mask, offset))
    assert forward == [BATCHED, "burnpy_attention_weights", BATCHED]
    assert backward == [BATCHED, BATCHED, "burnpy_attention_gradient", *[BATCHED] * 3]


@pytest.mark.parametrize(
    ("limit", "blocks"), [(2 * QUERIES * KEYS * 4, 3), (QUERIES * KEYS * 4, 6), (2 * KEYS * 4, 18)]
)
@pytest.mark.parametrize("mask", ["none", "of keys", "of every head"])
def test_scores_take_no_more_memory_than_the_limit(
    mask: str, limit: int, blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several heads at once, one, or two queries of one."""
    monkeypatch.setattr(CuPy, "_scores_bytes", limit)
    forward, backward = compare(*arguments(mask, 20))
    assert forward.count("burnpy_attention_weights") == backward.count("burnpy_attention_gradient") == blocks


def test_a_query_without_keys_attends_to_nothing() -> None:
    floats, (_, offset, scale) = arguments()
    allowed = np.ones((QUERIES, KEYS), np.bool_)
    allowed[2] = False
    (out, total, by_q, by_k, by_v), _ = computed(CuPy(), floats, (allowed, offset, scale))
    assert not out[:, :, 2].any()
    assert not total[:, :, 2].any()
    assert not by_q[:, :, 2].any()
    assert np.isfinite(by_k).all()
    assert np.isfinite(by_v).all()


def test_what_masked_keys_hold_has_no_weight() -> None:
    """Not even an infinite or undefined score."""
    floats, _ = arguments()
    floats[2][:, :, 3], floats[2][:, :, 4] = np.inf, np.nan
    allowed = np.ones((KEYS,), np.bool_)
    allowed[3:5] = False
    found, _ = computed(CuPy(), floats, (allowed, None, 0.7))
    assert np.isfinite(found[0]).all()
    assert np.isfinite(found[4]).all()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_mixed_attention_has_results_of_float32(dtype: str) -> None:
    floats, rest = arguments("of keys", 0)
    (found, launches), (wanted, _) = computed(Mixed(CuPy(), dtype), floats, rest), computed(NumPy(), floats, rest)
    for got, want in zip(found, wanted, strict=True):
        assert got.dtype == float32
        np.testing.assert_allclose(got, want, rtol=0.05, atol=0.05)
    assert launches[0].count("cupy_copy") == 3, "of operands; scores and weights are not converted"
    assert launches[1].count("cupy_copy") == 1, "the gradient; the other operands were rounded before"


@pytest.mark.parametrize("on_tensor", [False, True])
def test_a_cache_of_keys_is_written_in_place(on_tensor: bool) -> None:
    settings: dict[str, Any] = {"key_heads": 1, "rotary": RotaryEncoding(interleaved=False), "window": 3}
    layer = MultiHeadAttention(16, 2, generator=Generator(1), device=NumPy, **settings)
    x = Tensor.normal((2, 5, 16), generator=Generator(0), device=NumPy)
    outs = []
    for device in (NumPy, CuPy):
        moved: Any = layer.to_device(device)
        words: Any = x.to_device(device)
        padding = IntTensor.from_data([0, 2], device=device)
        cache = moved.empty_cache(2, 8, padding=padding, dtype="float16", compiled=on_tensor)
        _, cache = moved(words[:, :4], causal=True, cache=cache)
        out, cache = moved(words[:, 4:], causal=True, cache=cache.reordered(padding.clamp(max=1)))
        outs.append(out.to_numpy())
    np.testing.assert_allclose(outs[1], outs[0], atol=1e-3)
