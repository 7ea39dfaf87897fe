"""Attention: masks with different numbers of queries and keys, grouped heads, rotary encoding, and caches of keys."""

from __future__ import annotations

import math
import os
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, BoolTensor, Generator, IntTensor, Tensor, cat, func
from burnpy.backend import NumPy, errors
from burnpy.nn import (
    KeyValueCache,
    LinearScaling,
    Llama3Scaling,
    MultiHeadAttention,
    RotaryEncoding,
    TransformerDecoder,
    TransformerEncoder,
    YarnScaling,
    functional,
)
from burnpy.nn.functional import scaled_dot_product_attention
from burnpy.testing import gradcheck, gradgradcheck
from tests.rows import every_row

Train = Autodiff[NumPy]


def drawn(rng: np.random.Generator, *shape: int) -> Tensor[Any]:
    return Tensor[Train].from_data(rng.normal(size=shape))


@pytest.mark.parametrize("seed", range(int(os.environ.get("BURNPY_LONG_TESTS", "5"))))
def test_a_text_read_in_parts_with_a_cache_is_attended_to_as_a_whole(seed: int) -> None:
    rng = np.random.default_rng(seed)
    length = int(rng.integers(2, 9))
    q, k, v = (drawn(rng, 2, length, 3).require_grad() for _ in range(3))
    mask = [None, BoolTensor[Train].from_data(rng.uniform(size=(length, length)) > 0.3), drawn(rng, length, length)]
    chosen: Any = mask[seed % 3]
    whole = scaled_dot_product_attention(q, k, v, chosen, causal=True)
    cuts = sorted({0, length, *map(int, rng.integers(1, length, 2))})
    parts = [
        scaled_dot_product_attention(
            q[:, start:stop],
            k[:, :stop],
            v[:, :stop],
            None if chosen is None else chosen[start:stop, :stop],
            causal=True,
            offset=start,
        )
        for start, stop in pairwise(cuts)
    ]
    together = cat(parts, 1)
    np.testing.assert_allclose(together.to_numpy(), whole.to_numpy(), rtol=1e-10, atol=1e-12)
    seen = drawn(rng, *whole.shape)
    one, other = (whole * seen).sum().backward(), (together * seen).sum().backward()
    for x in (q, k, v):
        np.testing.assert_allclose(one[x].to_numpy(), other[x].to_numpy(), rtol=1e-9, atol=1e-12)


def test_a_layer_reads_the_last_word_with_a_cache() -> None:
    layer = MultiHeadAttention(6, 2, device=Train).astype("float64")
    words = drawn(np.random.default_rng(0), 2, 5, 6)
    whole = layer(words, causal=True).to_numpy()
    last = layer(words[:, 4:], words, causal=True, offset=4).to_numpy()
    np.testing.assert_allclose(last, whole[:, 4:], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("queries", "keys"), [(1, 5), (4, 5), (0, 1)])
def test_fewer_queries_than_keys_must_say_where_they_stand(queries: int, keys: int) -> None:
    q, k = Tensor[Train].ones((2, queries, 4)), Tensor[Train].ones((2, keys, 4))
    plural = "query" if queries == 1 else "queries"
    message = (
        rf"causal=True with {queries} {plural} and {keys} keys?, .* pass offset={keys - queries} for the last positions"
    )
    with pytest.raises(errors.ArgumentError, match=message):
        scaled_dot_product_attention(q, k, k, causal=True)
    with pytest.raises(errors.ArgumentError, match=message):
        MultiHeadAttention(4, 2, device=Train)(q, k, causal=True)


def test_more_queries_than_keys_stand_at_the_first_places_and_after() -> None:
    q, v = Tensor[Train].zeros((3, 1)), Tensor[Train].from_data([[1.0], [3.0]])
    assert scaled_dot_product_attention(q, v, v, causal=True).tolist() == [[1.0], [2.0], [2.0]]
    assert scaled_dot_product_attention(q, v, v, causal=True, offset=-1).tolist() == [[0.0], [1.0], [2.0]]


def test_where_queries_stand_is_an_int_and_of_what_is_causal() -> None:
    x = Tensor[Train].ones((2, 3))
    wrong: Any = 1.5
    with pytest.raises(errors.ArgumentError, match=r"got offset=1\.5; expected an int"):
        scaled_dot_product_attention(x, x, x, causal=True, offset=wrong)
    with pytest.raises(errors.ArgumentError, match="got offset=1 without causal=True"):
        scaled_dot_product_attention(x, x, x, offset=1)


F: Any = functional
WRONG: Any = (1, 2)
SETTINGS: list[dict[str, Any]] = [{}, {"key_heads": 2}, {"key_heads": 1, "rotary": RotaryEncoding(base=50.0)}]


def random_tensor(*shape: int, device: Any = Train) -> Tensor[Any]:
    return Tensor.normal(shape, generator=Generator(1), dtype="float64", device=device)


def attention(device: Any = Train, **settings: Any) -> Any:
    return MultiHeadAttention(8, 4, generator=Generator(2), device=device, **settings).astype("float64")


@every_row("chunks", [(1, 1, 1, 1, 1), (3, 2), (2, 1, 2)])
@every_row("settings", SETTINGS, ids=str)
def test_with_a_cache_the_positions_may_come_one_after_the_other(
    settings: dict[str, Any], chunks: tuple[int, ...]
) -> None:
    layer, x = attention(**settings), random_tensor(2, 5, 8)
    whole = layer(x, causal=True).to_numpy()
    cache, start = layer.empty_cache(2, 6), 0
    for chunk in chunks:
        y, cache = layer(x[:, start : start + chunk], causal=True, cache=cache)
        np.testing.assert_allclose(y.to_numpy(), whole[:, start : start + chunk], rtol=1e-9, atol=1e-12)
        start += chunk
        assert cache.length == start
    assert cache.key.shape == cache.value.shape == (2, settings.get("key_heads", 4), 5, 2)


def test_a_cache_is_a_value_that_may_be_used_twice_and_differentiated() -> None:
    layer, x = attention(), random_tensor(1, 3, 8).require_grad()
    _, cache = layer(x[:, :2], causal=True, cache=layer.empty_cache(1, 6))
    first, _ = layer(x[:, 2:], causal=True, cache=cache)
    second, _ = layer(x[:, 2:], causal=True, cache=cache)
    assert cache.length == 2
    assert first.tolist() == second.tolist()
    np.testing.assert_allclose(
        first.square().sum().backward()[x].to_numpy(),
        layer(x, causal=True)[:, 2:].square().sum().backward()[x].to_numpy(),
        rtol=1e-9,
        atol=1e-12,
    )


def test_groups_of_heads_read_the_same_keys() -> None:
    grouped, full = attention(key_heads=2), attention()
    weight, bias = grouped.in_proj_weight.value, grouped.in_proj_bias.value
    assert weight.shape == (8, 16)

    def repeated(part: Any) -> Any:
        heads = part.reshape(*part.shape[:-1], 2, 1, 2)
        return heads.broadcast_to((*part.shape[:-1], 2, 2, 2)).reshape(*part.shape[:-1], 8)

    def widened(w: Any) -> Any:
        return burnpy.cat([w[..., :8], repeated(w[..., 8:12]), repeated(w[..., 12:])], -1)

    state = {**grouped.state(), "in_proj_weight": widened(weight).detach(), "in_proj_bias": widened(bias).detach()}
    x = random_tensor(2, 5, 8)
    wide = full.with_state({path: getattr(value, "value", value) for path, value in state.items()})
    np.testing.assert_allclose(grouped(x).to_numpy(), wide(x).to_numpy(), rtol=1e-9, atol=1e-12)
    key = random_tensor(2, 3, 8)
    np.testing.assert_allclose(grouped(x, key).to_numpy(), wide(x, key).to_numpy(), rtol=1e-9, atol=1e-12)


def test_a_decoder_decodes_one_position_after_the_other() -> None:
    model = TransformerDecoder(2, 8, 2, feedforward=12, device=Train).astype("float64").eval()
    x, memory = random_tensor(2, 4, 8), random_tensor(2, 3, 8)
    whole, cache = model(x, memory, causal=True), model.empty_cache(2, 6)
    for t in range(4):
        y, cache = model(x[:, t : t + 1], memory, causal=True, cache=cache)
        np.testing.assert_allclose(y.to_numpy(), whole[:, t : t + 1].to_numpy(), rtol=1e-9, atol=1e-12)
    assert [each.length for each in cache] == [4, 4]
    for wrong in (cache[0], cache[:1], 3):
        wrong_cache: Any = wrong
        with pytest.raises(errors.KindError, match="a tuple of 2 caches, one for each layer"):
            model(x, memory, cache=wrong_cache)


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_decoder_projects_its_memory_once_for_a_sequence(norm_first: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    model = TransformerDecoder(2, 8, 2, feedforward=12, norm_first=norm_first, device=NumPy).astype("float64")
    x, memory = random_tensor(2, 4, 8, device=NumPy), random_tensor(2, 3, 8, device=NumPy)
    products: list[tuple[int, ...]] = []
    linear = NumPy.linear

    def counted(self: Any, x: Any, *rest: Any) -> Any:
        products.append(x.shape)
        return linear(self, x, *rest)

    monkeypatch.setattr(NumPy, "linear", counted)
    valid = burnpy.BoolTensor[NumPy].from_data([[True, True, False], [True, True, True]])
    whole, cache = model(x, memory, causal=True, memory_key_mask=valid), model.empty_cache(2, 6)
    assert products.count((2, 3, 8)) == 2, "once in each layer"
    products.clear()
    for t in range(4):
        y, cache = model(x[:, t : t + 1], memory, causal=True, memory_key_mask=valid, cache=cache)
        np.testing.assert_allclose(y.to_numpy(), whole[:, t : t + 1].to_numpy(), rtol=1e-9, atol=1e-12)
    assert products.count((2, 3, 8)) == 2, "once in each layer, for four positions"
    other = cache[0]
    assert other.memory is not None
    assert (other.length, other.memory.length, other.memory.key.shape) == (4, 3, (2, 2, 3, 4))
    with pytest.raises(
        errors.ShapeError, match=r"memory with shape \(2, 2, 8\) and a cache for a memory with shape \(2, 3, 8\)"
    ):
        model(x, memory[:, :2], cache=cache)
    with pytest.raises(errors.KindError, match=r"takes a DecoderCache as cache, got a KeyValueCache; begin with"):
        model.layers[0](x, memory, cache=model.layers[0].self_attn.empty_cache(2, 6))  # type: ignore[call-overload]  # refused


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_projected_keys_serve_several_calls(settings: dict[str, Any]) -> None:
    layer, x, memory = attention(**settings), random_tensor(2, 2, 8), random_tensor(2, 3, 8).require_grad()
    keys = layer.project(memory)
    found, wanted = layer(x, keys), layer(x, memory)
    np.testing.assert_allclose(found.to_numpy(), wanted.to_numpy(), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        (found + layer(x, keys)).square().sum().backward()[memory].to_numpy(),
        4.0 * wanted.square().sum().backward()[memory].to_numpy(),
        rtol=1e-9,
        atol=1e-12,
    )
    apart = layer(x, layer.project(memory, memory * 2.0))
    np.testing.assert_allclose(apart.to_numpy(), layer(x, memory, memory * 2.0).to_numpy(), rtol=1e-9, atol=1e-12)
    with pytest.raises(errors.ArgumentError, match="values beside projected keys"):
        layer(x, keys, memory)
    with pytest.raises(errors.ShapeError, match=r"queries of shape \(1, 2, 8\) and projected keys of shape \(2, "):
        layer(x[:1], keys)
    with pytest.raises(errors.ArgumentError, match="got a cache together with key"):
        layer(x, keys, cache=layer.empty_cache(2, 6))
    with pytest.raises(errors.ShapeError, match=r"takes key of shape \(N, length, 8\)"):
        layer.project(memory[0])


@pytest.mark.parametrize("chunks", [(1, 1, 1, 1), (3, 1)])
@pytest.mark.parametrize("norm_first", [False, True])
def test_a_causal_encoder_generates_one_position_after_the_other(norm_first: bool, chunks: tuple[int, ...]) -> None:
    model = TransformerEncoder(2, 8, 2, feedforward=12, norm_first=norm_first, device=Train).astype("float64").eval()
    x = random_tensor(2, 4, 8)
    whole, cache, start = model(x, causal=True), model.empty_cache(2, 6), 0
    for chunk in chunks:
        y, cache = model(x[:, start : start + chunk], causal=True, cache=cache)
        np.testing.assert_allclose(y.to_numpy(), whole[:, start : start + chunk].to_numpy(), rtol=1e-9, atol=1e-12)
        start += chunk
    assert [each.length for each in cache] == [4, 4]
    y, one = model.layers[0](x, causal=True, cache=model.empty_cache(2, 6)[0])
    assert (y.tolist(), one.length) == (model.layers[0](x, causal=True).tolist(), 4)
    with pytest.raises(
        errors.KindError, match=r"TransformerEncoder\(\) takes a tuple of 2 caches, .* empty_cache\(batch, capacity\)"
    ):
        model(x, cache=WRONG[:1])


@pytest.mark.parametrize("interleaved", [False, True])
def test_pairs_are_turned_by_their_positions(interleaved: bool) -> None:
    x = random_tensor(3, 4, 6, device=NumPy)
    array = x.to_numpy()
    pairs = (array[..., ::2], array[..., 1::2]) if interleaved else (array[..., :3], array[..., 3:])
    angles = np.arange(7, 11)[:, None] * 20.0 ** (-np.arange(3) / 3)
    turned = (pairs[0] + 1j * pairs[1]) * np.exp(1j * angles)
    found = F.rotary_encoding(x, offset=7, base=20.0, interleaved=interleaved).to_numpy()
    parts = (found[..., ::2], found[..., 1::2]) if interleaved else (found[..., :3], found[..., 3:])
    np.testing.assert_allclose(parts[0] + 1j * parts[1], turned, rtol=1e-12, atol=1e-12)
    layer = RotaryEncoding(base=20.0, interleaved=interleaved)
    assert layer(x, offset=7).tolist() == found.tolist()


def test_products_go_by_the_distance_of_positions() -> None:
    q, k = random_tensor(1, 4), random_tensor(2, 4)[1:]
    near, far = (
        (F.rotary_encoding(q, offset=at + 3) * F.rotary_encoding(k, offset=at)).sum().item() for at in (0, 1000)
    )
    assert near == pytest.approx(far, rel=1e-9)
    assert F.rotary_encoding(random_tensor(2, 0, 4)).shape == (2, 0, 4)
    assert str(F.rotary_encoding(random_tensor(2, 3, 4).to_dtype("float16")).dtype) == "float16"


GROUPED_MASKS: dict[str, Any] = {
    "none": None,
    "of keys": lambda rng, t: BoolTensor[NumPy].from_data(rng.random((2, 1, 1, 6)) < 0.6),
    "of heads": lambda rng, t: BoolTensor[NumPy].from_data(rng.random((4, t, 6)) < 0.6),
    "of pairs": lambda rng, t: BoolTensor[NumPy].from_data(rng.random((t, 6)) < 0.6),
    "of all keys": lambda rng, t: BoolTensor[NumPy].from_data(rng.random((2, 4, t, 1)) < 0.6),
    "to add": lambda rng, t: Tensor[NumPy].from_data(rng.normal(size=(2, 4, t, 6))),
}


@every_row("mask, queries", product(GROUPED_MASKS.values(), [1, 3]))
@pytest.mark.parametrize("causal", [{}, {"causal": True, "offset": 2}, {"causal": True, "offset": -1}], ids=str)
@pytest.mark.parametrize("options", [{}, {"softcap": 0.5}, {"window": 2}], ids=str)
def test_a_group_of_heads_is_as_heads_with_keys_of_their_own(
    mask: Any, queries: int, causal: dict[str, Any], options: dict[str, Any]
) -> None:
    if "window" in options and not causal:
        with pytest.raises(errors.ArgumentError, match="window=2 without causal=True"):
            F.scaled_dot_product_attention(*(random_tensor(2, 2) for _ in range(3)), **options)
        return
    rng = np.random.default_rng(0)
    q, k, v = (Tensor[NumPy].from_data(rng.normal(size=(2, h, n, 4))) for h, n in ((4, queries), (2, 6), (2, 6)))
    given = None if mask is None else mask(rng, queries)
    own = [x.repeat_interleave(2, 1) for x in (k, v)]
    expected = F.scaled_dot_product_attention(q, *own, given, **causal, **options)
    found = F.scaled_dot_product_attention(q, k, v, given, enable_gqa=True, **causal, **options)
    np.testing.assert_allclose(found.to_numpy(), expected.to_numpy(), rtol=1e-9, atol=1e-12)


def test_derivatives_of_windows_and_softcaps() -> None:
    q, k = random_tensor(2, 4, 2).require_grad(), random_tensor(1, 4, 2).require_grad()

    def attend(q: Any, k: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, k, causal=True, enable_gqa=True, window=2, softcap=0.7)

    assert gradcheck(attend, (q, k))
    assert gradgradcheck(attend, (q, k))


@pytest.mark.parametrize("options", [{}, {"softcap": 0.7}, {"causal": True}], ids=str)
def test_a_query_without_keys_has_no_gradient(options: dict[str, Any]) -> None:
    q, allowed = random_tensor(3, 2).require_grad(), np.array([[True, False, False], [False] * 3, [False, True, True]])
    added = Tensor[Train].from_data(np.where(allowed, 0.0, -np.inf)).require_grad()

    def attend(mask: Any) -> Any:
        return F.scaled_dot_product_attention(q, q, q, mask, **options).square().sum()

    grads, expected = attend(added).backward(), attend(BoolTensor[Train].from_data(allowed)).backward()
    np.testing.assert_allclose(grads[q].to_numpy(), expected[q].to_numpy(), rtol=1e-9, atol=1e-12)
    assert (grads[added].to_numpy()[~allowed] == 0.0).all()


@pytest.mark.parametrize("size", [2, 40])
@pytest.mark.parametrize("value", [3e38, math.inf, math.nan])
def test_masked_keys_do_not_matter(size: int, value: float) -> None:
    """Neither does their product with a query, which may be NaN; derivatives take a product with the keys."""
    rng = np.random.default_rng(0)
    q, k, v = (Tensor[NumPy].from_data(rng.normal(size=(size, 2)), dtype="float32") for _ in range(3))
    masked = BoolTensor[NumPy].full((size,), True).at[-1].set(False)
    expected = F.scaled_dot_product_attention(q, k[:-1], v[:-1])
    with np.errstate(invalid="ignore"):
        found = F.scaled_dot_product_attention(q, k.at[-1].set(value), v, masked)
    np.testing.assert_allclose(found.to_numpy(), expected.to_numpy(), rtol=1e-5)
    if value < math.inf:

        def curvature(k: Any, v: Any, mask: Any) -> Any:
            slope: Any = func.grad(lambda q: F.scaled_dot_product_attention(q, k, v, mask).sum())
            return func.grad(lambda q: slope(q).sum())(q).to_numpy()

        given = curvature(k[:-1], v[:-1], None)
        np.testing.assert_allclose(curvature(k.at[-1].set(value), v, masked), given, rtol=1e-4, atol=1e-5)


def test_weights_on_request_are_those_that_sum_the_values() -> None:
    layer, x = attention(NumPy, key_heads=2), random_tensor(2, 5, 8, device=NumPy)
    weights = layer.weights(x, causal=True)
    assert weights.shape == (2, 4, 5, 5)
    values = layer.project(x).value.repeat_interleave(2, 1)
    heads = (weights @ values).transpose(1, 2).reshape(2, 5, 8)
    np.testing.assert_allclose(layer.out_proj(heads).to_numpy(), layer(x, causal=True).to_numpy(), rtol=1e-9)


def test_positions_of_rotary_encoding_may_be_tensors() -> None:
    x = random_tensor(2, 3, 4, 6, device=NumPy)
    for interleaved in (False, True):
        encoding = RotaryEncoding(interleaved=interleaved)
        offsets = IntTensor[NumPy].from_data([2, 5])
        found = encoding(x, offset=offsets, length=9)
        for row, offset in enumerate((2, 5)):
            assert found[row].tolist() == encoding(x[row], offset=offset).tolist()
        assert encoding(x, offset=offsets[0], length=6).tolist() == encoding(x, offset=2).tolist()
        before = encoding(x, offset=IntTensor[NumPy].from_data([-2, 0]), length=4)
        assert before[0, :, 2:].tolist() == encoding(x[0, :, 2:]).tolist()
    with pytest.raises(errors.ArgumentError, match="a tensor of offsets without length="):
        encoding(x, offset=offsets)
    with pytest.raises(errors.ShapeError, match=r"offsets of shape \(3,\) for x of shape \(2, 3, 4, 6\)"):
        encoding(x, offset=IntTensor[NumPy].zeros((3,)), length=9)
    with pytest.raises(errors.KindError, match="takes as scaling a value such as Llama3Scaling"):
        RotaryEncoding(scaling=2.0)  # type: ignore[arg-type]  # refused
    for wrong in (lambda: LinearScaling(0.0), lambda: YarnScaling(2.0, 0), lambda: Llama3Scaling(-1.0, 8)):
        with pytest.raises(errors.ArgumentError):
            wrong()


@pytest.mark.slow
def test_derivatives_of_rotary_encoding_and_grouped_attention() -> None:
    q, k = random_tensor(2, 4, 2).require_grad(), random_tensor(1, 4, 2).require_grad()

    def attend(q: Any, k: Any) -> Any:
        turned = F.rotary_encoding(k, interleaved=False)
        return F.scaled_dot_product_attention(F.rotary_encoding(q), turned, k, causal=True, enable_gqa=True)

    assert gradcheck(attend, (q, k))
    assert gradgradcheck(attend, (q, k))


def test_what_does_not_fit_is_said() -> None:
    layer, x = attention(), random_tensor(2, 3, 8)
    with pytest.raises(errors.KindError, match=r"a KeyValueCache, not a tuple; begin with attention\.empty_cache"):
        layer(x, cache=WRONG)
    with pytest.raises(errors.ArgumentError, match="with a cache, pass the query alone"):
        layer(x, x, cache=layer.empty_cache(2, 6))
    with pytest.raises(errors.ShapeError, match=r"a cache of shape \(3, 4, 6, 2\), expected \(2, 4, 6, 2\)"):
        layer(x, cache=layer.empty_cache(3, 6))
    with pytest.raises(errors.ShapeError, match="queries of shape"):
        layer(x, cache=KeyValueCache.of(random_tensor(2, 4, 1, 3), random_tensor(2, 4, 1, 3)))
    with pytest.raises(errors.ArgumentError, match="key_heads=3 for 4 heads, which they must divide"):
        attention(key_heads=3)
    with pytest.raises(errors.ArgumentError, match="a rotary encoding for heads of size 1; the size must be even"):
        MultiHeadAttention(4, 4, rotary=RotaryEncoding(), device=NumPy)
    with pytest.raises(errors.ShapeError, match=r"\(…, T, E\) with E even, got shape \(2, 3\)"):
        F.rotary_encoding(random_tensor(2, 3))
    with pytest.raises(errors.ArgumentError, match="a number above 0"):
        RotaryEncoding(base=0.0)
    with pytest.raises(errors.ShapeError, match="G divides H"):
        F.scaled_dot_product_attention(
            random_tensor(3, 4, 2), random_tensor(2, 4, 2), random_tensor(2, 4, 2), enable_gqa=True
        )
