"""Attention on the real CuPy: its launches and memory, views, masks, tiles, and 16-bit operands on tensor cores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Generator, IntTensor, Tensor
from burnpy.backend import Backend, CuPy, Mixed, NumPy
from burnpy.backend.dtypes import dtype_of, float32
from burnpy.nn import MultiHeadAttention, RotaryEncoding
from burnpy.nn.functional import scaled_dot_product_attention
from tests.hostcuda import simulator

simulator.require()

FORWARD, BACKWARD = ["burnpy_attention"], ["burnpy_attention_grad_query", "burnpy_attention_grad_key"]
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
    """The results of attention and its gradient are NumPy's; and the launches of each."""
    inner = device.inner or device
    given = [inner.from_numpy(x) for x in floats]
    how = [x if not isinstance(x, np.ndarray) else inner.from_numpy(x) for x in rest]
    with simulator.watched() as forward:
        out, total = device.attention(*given[1:], *how)
    with simulator.watched() as backward:
        parts = device.attention_backward(*given, out, total, *how)
    launches = [[name.split("__")[0] for name in journal.launches] for journal in (forward, backward)]
    return [inner.to_numpy(x) for x in (out, total, *parts)], launches


def compare(floats: list[Any], rest: tuple[Any, ...]) -> list[list[str]]:
    (found, launches), (wanted, _) = computed(CuPy(), floats, rest), computed(NumPy(), floats, rest)
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    return launches


@pytest.mark.parametrize("offset", [None, 0, 30])
@pytest.mark.parametrize("mask", MASKS)
def test_it_takes_one_launch_and_its_gradient_two(mask: str, offset: int | None) -> None:
    assert compare(*arguments(mask, offset)) == [FORWARD, BACKWARD]


SIZES = [  # leading dimensions, queries, keys, sizes of keys and of values: several tiles of all widths
    ((2,), 70, 100, 20, 33),
    ((1,), 40, 70, 100, 128),
    ((1,), 20, 36, 200, 256),
]
EXACT = {"float64": 1e-13, "float32": 2e-6, "tf32": 2e-3, "float16": 2e-3, "bfloat16": 1.6e-2}


@pytest.mark.parametrize("offset", [None, 9])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("dtype", EXACT)
def test_tiles_give_what_all_scores_give(dtype: str, sizes: Any, offset: int | None) -> None:
    """Beside float64's results; cuBLAS multiplies float64 numbers that have no place in shared memory."""
    is_tf32, dtype = dtype == "tf32", dtype.replace("tf", "float")
    lead, queries, keys, size, values = sizes
    shapes = ((queries, values), (queries, size), (keys, size), (keys, values))
    floats = [drawn((*lead, *s), k).astype(dtype_of(dtype)) for k, s in enumerate(shapes)]
    allowed = np.random.default_rng(9).random((*lead, 1, keys)) < 0.6
    with CuPy.tf32(is_tf32):
        found, _ = computed(CuPy(), floats, (allowed, offset, 0.3))
    wanted, _ = computed(NumPy(), [x.astype(np.float64) for x in floats], (allowed, offset, 0.3))
    for got, want in zip(found, wanted, strict=True):
        assert got.dtype == dtype_of(dtype)
        close = EXACT["tf32" if is_tf32 else dtype] * np.abs(want).max()
        np.testing.assert_allclose(got.astype(np.float64), want, rtol=0, atol=close)


@pytest.mark.parametrize("offset", [None, -3, 30, 31, 62, 63])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_diagonal_may_touch_a_corner_of_a_tile(dtype: str, offset: int | None) -> None:
    """Tiles have 32 or 64 keys. A tile whose queries attend to all keys is not looked at key by key."""
    floats = [drawn(shape, k).astype(dtype) for k, shape in enumerate(((130, 8), (130, 8), (140, 8), (140, 8)))]
    found, _ = computed(CuPy(), floats, (None, offset, 0.3))
    wanted, _ = computed(NumPy(), [x.astype(np.float64) for x in floats], (None, offset, 0.3))
    for got, want in zip(found, wanted, strict=True):
        close = EXACT[dtype] * np.abs(want).max()
        np.testing.assert_allclose(got.astype(np.float64), want, rtol=0, atol=close)


def test_tf32_rounds_operands() -> None:
    """For each product of the three kernels: results are those of rounded operands, not those of float32."""
    floats, rest = arguments("of keys", 30)
    exact, _ = computed(CuPy(), floats, rest)
    with CuPy.tf32():
        found, launches = computed(CuPy(), floats, rest)
    assert launches == [FORWARD, BACKWARD]
    for got, want in zip(found, exact, strict=True):
        assert 1e-5 < np.abs(got - want).max() / np.abs(want).max() < 2e-3


@pytest.mark.parametrize("capability", [75, 80])
def test_older_gpus_multiply_16_bit_numbers_as_float32(capability: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CuPy().__dict__, "_limits", (capability, 64 << 10))
    floats, rest = arguments("of keys", 0)
    found, launches = computed(CuPy(), [x.astype(np.float16) for x in floats], rest)
    wanted, _ = computed(NumPy(), floats, rest)
    assert launches == [FORWARD, BACKWARD]
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got.astype(np.float32), want, rtol=0.01, atol=0.01)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_heads_are_read_where_they_lie(dtype: str) -> None:
    """Those of one projection, with shared heads of keys; the results lie in the order of the queries."""
    b: Any = CuPy()
    packed = b.from_numpy(drawn((2, 9, 4 + 2 + 2, 4)).astype(dtype_of(dtype)))  # (batch, length, heads, size)
    q, k, v = (packed[:, :, part].swapaxes(1, 2) for part in (slice(4), slice(4, 6), slice(6, 8)))
    q = q.reshape((2, 2, 2, 9, 4))
    k, v = (b.xp.broadcast_to(x[:, :, None], (2, 2, 2, 9, 4)) for x in (k, v))
    with simulator.watched() as journal:
        out, total = b.attention(q, k, v, None, 0, 0.5)
        parts = b.attention_backward(out, q, k, v, out, total, None, 0, 0.5)
    assert [name.split("__")[0] for name in journal.launches] == FORWARD + BACKWARD
    wide = [b.to_numpy(x).astype(np.float32) for x in (out, q, k, v)]
    wanted, _ = computed(NumPy(), wide, (None, 0, 0.5))
    for got, want in zip((out, total, *parts), wanted, strict=True):
        np.testing.assert_allclose(b.to_numpy(got).astype(np.float32), want, rtol=0.02, atol=0.02)
    assert out.transpose((0, 3, 1, 2, 4)).flags.c_contiguous


def test_other_layouts_are_copied() -> None:
    """Four dimensions of heads that no three strides describe, and vectors whose elements lie apart."""
    b: Any = CuPy()
    x = b.from_numpy(drawn((3, 2, 4, 2, 6, 2, 5)))
    four = x.transpose((3, 0, 5, 1, 2, 4, 6))[:, :, :, :, 0]
    for heads in (four, four.swapaxes(-1, -2)):
        out, _ = b.attention(heads, heads, heads, None, None, 0.5)
        plain = b.to_numpy(heads)
        wanted, _ = NumPy().attention(plain, plain, plain, None, None, 0.5)
        np.testing.assert_allclose(b.to_numpy(out), wanted, rtol=1e-5, atol=1e-5)


def test_memory_grows_with_the_sequence() -> None:
    b: Any = CuPy()
    length = 1 << 14
    with simulator.dry_run():
        q = b.full((1, length, 64), 0.0, float32)
        b.reset_peak_memory()
        before = b.memory().used
        out, total = b.attention(q, q, q, None, 0, 0.5)
        b.attention_backward(out, q, q, q, out, total, None, 0, 0.5)
        peak = b.memory().peak
    assert peak is not None
    assert peak - before < length * 4 * (4 * 64 + 1 + 3) + (1 << 20)  # the results, logsumexps and three statistics


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_tiles_without_a_key_to_attend_to_are_not_read(dtype: str) -> None:
    """By masks, and after the last query's key; else NaN in the values would be in the result, with the weight 0."""
    floats = [drawn(shape).astype(dtype) for shape in ((4, 8), (4, 8), (256, 8), (256, 8))]
    allowed = np.ones((256,), np.bool_)
    allowed[64:128] = False
    for masked in (slice(64, 128), slice(192, 256)):
        floats[2][masked] = floats[3][masked] = np.nan
    found, _ = computed(CuPy(), floats, (allowed, 180, 0.7))
    for got in found[:3]:
        assert np.isfinite(got.astype(np.float32)).all()


@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan])
def test_infinite_and_undefined_scores_give_what_the_default_gives(special: float) -> None:
    floats, rest = arguments("of keys", 30)
    floats[2][0, 0, 4, 1] = special
    floats[1][1, 1, 2, 0] = special
    found, _ = computed(CuPy(), floats, rest)
    with np.errstate(invalid="ignore"):
        wanted, _ = Backend.attention(NumPy(), *floats[1:], *rest)
    np.testing.assert_allclose(found[0], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("operand", range(4))
def test_gradients_of_infinite_and_undefined_numbers_are_undefined_where_numpys_are(
    operand: int, special: float
) -> None:
    floats, rest = arguments()
    floats[operand][0, 0, 2, 1] = special
    with np.errstate(invalid="ignore"):
        (found, _), (wanted, _) = computed(CuPy(), floats, rest), computed(NumPy(), floats, rest)
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(np.isfinite(got), np.isfinite(want))


@pytest.mark.parametrize(("dtype", "large"), [("float32", 1e8), ("float64", 1e30), ("bfloat16", 1e8), ("float16", 6e4)])
def test_weights_sum_to_one_however_large_the_scores(dtype: str, large: float) -> None:
    """Their logsumexp is rounded as a number of their size is, by which quotients of exponentials would be off."""
    shapes = ((3, 1), (3, 1), (4, 1), (4, 1))
    grad, q, k, v = (
        np.full(shape, x).astype(dtype_of(dtype)) for shape, x in zip(shapes, (1, 1, large, 2), strict=True)
    )
    v[:, 0] = 1, 2, 4, 5
    found, _ = computed(CuPy(), [grad, q, k, v], (None, None, 1.0))
    out, _, _, by_k, by_v = (x.astype(np.float64) for x in found)
    np.testing.assert_allclose(out, 3.0)
    np.testing.assert_allclose(by_v, 0.75, rtol=1e-6 if dtype != "bfloat16" else 4e-3)
    np.testing.assert_allclose(by_k.ravel(), 0.75 * (v.astype(np.float64).ravel() - 3), rtol=1e-2)


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
    assert launches[0][:-1] == ["burnpy_each_cast_each"], "of operands; scores and weights are not converted"
    assert launches[1][:-2] == ["burnpy_round_2"], "the gradient and the result; the other operands were rounded before"


def test_mixed_rounds_the_result_once() -> None:
    """For attention's gradient and for the linear layer that follows."""
    device: Any = Autodiff(Mixed(CuPy()))
    x = Tensor.from_data(drawn((2, 5, 3, 8)), device=device).require_grad()
    weight = Tensor.from_data(drawn((24, 4), 1), device=device).require_grad()
    with simulator.watched() as journal:
        heads = (x * 2.0).transpose(1, 2)
        words = scaled_dot_product_attention(heads, heads, heads).transpose(1, 2).reshape((2, 5, 24))
        grads = (words @ weight).sum().backward()
    assert grads[x].dtype == float32
    names = [name.split("__")[0] for name in journal.launches]
    forward, backward = names[: names.index(FORWARD[0])], names[names.index(FORWARD[0]) : names.index(BACKWARD[0])]
    assert forward.count("burnpy_round_1") == 1, "of the queries, which are keys and values, too"
    assert backward.count("burnpy_round_1") == 4, "the result, the weight, and the gradients of two products"


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
