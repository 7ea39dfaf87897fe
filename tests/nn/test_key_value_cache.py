"""Caches of keys and values: values of a fixed capacity, written in place where only a loop holds them."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Generator, IntTensor, Tensor, compiled
from burnpy.backend import NumPy, errors
from burnpy.nn import DynamicScaling, KeyValueCache, MultiHeadAttention, RmsNorm, RotaryEncoding, TransformerEncoder
from tests.kernels import needs_kernels
from tests.rows import every_row

LAYERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "rotary, groups": {"key_heads": 2, "head_size": 6, "rotary": RotaryEncoding(interleaved=False)},
    "window": {"window": 3},
    "softcap, norms": {"softcap": 2.0, "q_norm": RmsNorm(4, device=NumPy), "k_norm": RmsNorm(4, device=NumPy)},
}


def layer(**settings: Any) -> MultiHeadAttention[NumPy]:
    return MultiHeadAttention(16, 4, generator=Generator(1), device=NumPy, **settings)


def text(*shape: int) -> Tensor[NumPy]:
    return Tensor.normal((*shape, 16), generator=Generator(0), device=NumPy)


def address(cache: KeyValueCache[Any]) -> int:
    keys: Any = cache._keys._primitive
    return keys.ctypes.data  # type: ignore[no-any-return]  # an int


@every_row("settings", LAYERS.values(), ids=LAYERS)
@every_row("on_tensor", [False, True])
@every_row("chunks", [(1,) * 9, (4, 1, 4), (9,)], ids=str)
def test_a_text_in_parts_is_attended_to_as_a_whole(
    settings: dict[str, Any], on_tensor: bool, chunks: tuple[int, ...]
) -> None:
    attention, x = layer(**settings), text(2, 9)
    cache, outs, start = attention.empty_cache(2, 12, compiled=on_tensor), list[Any](), 0
    for chunk in chunks:
        out, cache = attention(x[:, start : start + chunk], causal=True, cache=cache)
        outs.append(out.to_numpy())
        start += chunk
    np.testing.assert_allclose(np.concatenate(outs, 1), attention(x, causal=True).to_numpy(), atol=1e-6)
    assert int(cache.length) == 9


def test_the_first_continuation_is_written_behind_and_others_copy() -> None:
    attention, x = layer(), text(1, 5)
    _, prompt = attention(x[:, :2], causal=True, cache=attention.empty_cache(1, 6))
    seen = prompt.key.tolist()
    first, longer = attention(x[:, 2:3], causal=True, cache=prompt)
    second, other = attention(x[:, 3:4], causal=True, cache=prompt)
    again, same = attention(x[:, 2:3], causal=True, cache=prompt)
    assert address(longer) == address(prompt) != address(other)
    assert first.tolist() == again.tolist() != second.tolist()
    assert longer.key.tolist() == same.key.tolist()
    assert prompt.key.tolist() == seen
    assert attention(x[:, 3:], causal=True, cache=longer)[1].length == 5


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda cache: pickle.loads(pickle.dumps(cache))])
def test_a_copy_is_a_value_of_its_own(copied: Any) -> None:
    attention, x = layer(), text(1, 3)
    _, cache = attention(x[:, :1], causal=True, cache=attention.empty_cache(1, 4))
    other = copied(cache)
    expected = attention(x[:, :2], causal=True)[:, 1:]
    for each in (other, cache, other):
        out, longer = attention(x[:, 1:2], causal=True, cache=each)
        np.testing.assert_allclose(out.to_numpy(), expected.to_numpy(), atol=1e-6)
        assert longer.length == 2


def test_threads_that_continue_one_cache_get_memory_of_their_own() -> None:
    attention, x = layer(), text(1, 9)
    _, cache = attention(x[:, :1], causal=True, cache=attention.empty_cache(1, 4))
    with ThreadPoolExecutor(8) as pool:
        longer = [*pool.map(lambda t: attention(x[:, t : t + 1], causal=True, cache=cache)[1], range(1, 9))]
    assert len({address(each) for each in longer}) == 8
    for t, each in enumerate(longer, 1):
        assert each.key[:, :, 1:].tolist() == attention.project(x[:, t : t + 1]).key.tolist()


@needs_kernels
def test_one_plan_serves_all_lengths_in_donated_memory() -> None:
    model = TransformerEncoder(2, 16, 4, feedforward=32, dropout=0.0, generator=Generator(1), device=NumPy)

    def forward(model: TransformerEncoder[NumPy], x: Tensor[NumPy], cache: tuple[KeyValueCache[NumPy], ...]) -> Any:
        return model(x, causal=True, cache=cache)

    step = compiled(forward, donate=("cache",))
    x, cache, outs, places = text(2, 8), model.empty_cache(2, 8, compiled=True), list[Any](), set[int]()
    for t in range(8):
        out, cache = step(model, x[:, t : t + 1], cache)
        outs.append(out.to_numpy())
        places.add(address(cache[1]))
    np.testing.assert_allclose(np.concatenate(outs, 1), model(x, causal=True).to_numpy(), atol=1e-5)
    assert len(step.plans) == len(places) == 1
    with pytest.raises(errors.ShapeError, match="capacity 8 has no room for a position 8"):
        step(model, x[:, :1], cache)


def test_a_dynamic_scaling_goes_by_the_positions_so_far() -> None:
    rotary = RotaryEncoding(scaling=DynamicScaling(2.0, 4))
    attention, x = layer(rotary=rotary), text(2, 6)
    padded = attention.empty_cache(2, 64, padding=IntTensor[NumPy].zeros((2,)))
    for cache in (attention.empty_cache(2, 64), padded):
        found, _ = attention(x, causal=True, cache=cache)
        np.testing.assert_allclose(found.to_numpy(), attention(x, causal=True).to_numpy(), atol=1e-6)


@every_row("on_tensor", [False, True])
@every_row("name", ["plain", "rotary, groups", "window"])
def test_prompts_of_different_lengths(name: str, on_tensor: bool) -> None:
    attention, x = layer(**LAYERS[name]), text(2, 6)
    cache = attention.empty_cache(2, 8, padding=IntTensor[NumPy].from_data([0, 2]), compiled=on_tensor)
    prompt, cache = attention(x[:, :5], causal=True, cache=cache)
    cache = cache.reordered(IntTensor[NumPy].from_data([1, 0]))
    last, cache = attention(x[:, 5:], causal=True, cache=cache)
    short, long = attention(x[1:, 2:], causal=True), attention(x[:1], causal=True)
    np.testing.assert_allclose(prompt[1:, 2:].to_numpy(), short[:, :3].to_numpy(), atol=1e-6)
    assert prompt[1, :2].tolist() == [[0.0] * 16] * 2  # the queries of padding attend to nothing
    np.testing.assert_allclose(prompt[:1].to_numpy(), long[:, :5].to_numpy(), atol=1e-6)
    assert last.shape == (2, 1, 16)


def test_beams_continue_the_rows_that_they_name() -> None:
    attention, x = layer(), text(2, 4)
    _, cache = attention(x[:, :3], causal=True, cache=attention.empty_cache(2, 4))
    beams = cache.reordered(IntTensor[NumPy].from_data([1, 1, 0]))
    rows = x.index_select(0, IntTensor[NumPy].from_data([1, 1, 0]))
    out, _ = attention(rows[:, 3:], causal=True, cache=beams)
    np.testing.assert_allclose(out.to_numpy(), attention(rows, causal=True)[:, 3:].to_numpy(), atol=1e-6)


def test_keys_in_16_bits() -> None:
    attention, x = layer(), text(1, 4)
    _, cache = attention(x[:, :3], causal=True, cache=attention.empty_cache(1, 4, dtype="bfloat16"))
    out, cache = attention(x[:, 3:], causal=True, cache=cache)
    assert (str(cache.dtype), str(out.dtype)) == ("bfloat16", "float32")
    np.testing.assert_allclose(out.to_numpy(), attention(x, causal=True)[:, 3:].to_numpy(), atol=2e-2)


def test_gradients_flow_through_a_cache() -> None:
    attention = MultiHeadAttention(16, 4, generator=Generator(1), device=Autodiff[NumPy])
    x = Tensor[Autodiff[NumPy]].from_inner(text(1, 3)).require_grad()
    _, cache = attention(x[:, :2], causal=True, cache=attention.empty_cache(1, 3))
    out, _ = attention(x[:, 2:], causal=True, cache=cache)
    expected = attention(x, causal=True)[:, 2:]
    gradients = [x.grad(y.square().sum().backward(retain_graph=True)) for y in (out, expected)]
    found, wanted = [g.to_numpy() for g in gradients if g is not None]
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_mistakes() -> None:
    attention, x = layer(), text(2, 3)
    cache = attention.empty_cache(2, 4)
    with pytest.raises(errors.ShapeError, match=r"capacity 4 that has 3 positions has no room for 3 more"):
        attention(x, cache=attention(x, cache=cache)[1])
    with pytest.raises(errors.ShapeError, match=r"cache of shape \(2, 4, 4, 4\), expected \(2, 2, 4, 4\)"):
        layer(key_heads=2)(x, cache=cache)
    with pytest.raises(errors.ShapeError, match=r"padding of shape \(3,\) for 2 texts"):
        attention.empty_cache(2, 4, padding=IntTensor[NumPy].zeros((3,)))
    with pytest.raises(errors.ArgumentError, match="capacity=0"):
        attention.empty_cache(2, 0)
    with pytest.raises(errors.ArgumentError, match=r"compiled=True\) leaves .* a DynamicScaling depends on it"):
        layer(rotary=RotaryEncoding(scaling=DynamicScaling(2.0, 8))).empty_cache(2, 4, compiled=True)
    with pytest.raises(errors.ArgumentError, match="window=3 attends to earlier keys; pass causal=True"):
        layer(window=3)(x)


@every_row("on_tensor", [False, True])
@every_row("key, value", [((1, 2, 1, 3),) * 2, ((2, 1, 1, 3),) * 2, ((2, 2, 1, 3), (2, 2, 2, 3)), ((2, 3), (2, 3))])
def test_keys_and_values_of_other_shapes_are_not_broadcast(
    on_tensor: bool, key: tuple[int, ...], value: tuple[int, ...]
) -> None:
    make: Any = KeyValueCache
    cache = make.empty((2, 2, 5, 3), dtype="float32", device=NumPy, compiled=on_tensor)
    keys, values = (Tensor[NumPy].ones(shape) for shape in (key, value))
    with pytest.raises(errors.ShapeError, match=r"extended\(\) got keys of shape .* expected \(2, 2, T, 3\) for both"):
        cache.extended(keys, values)
    if key != value or len(key) != 4:
        with pytest.raises(errors.ShapeError, match=r"KeyValueCache.of\(\) got keys of shape"):
            make.of(keys, values)
