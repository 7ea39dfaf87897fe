"""The kernels of attention agree with its default in float64, for every mask and layout."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from burnpy.backend import NumPy
from burnpy_array import ArrayBackend
from burnpy_numpy import cpu_threads as threads

pytest.importorskip("llvmlite")

D: Any = NumPy()
SHAPES = {
    "heads within positions": ((4, 3), 20, 20, 32, 32),
    "an odd number of queries": ((3,), 70, 65, 8, 24),
    "no leading dimensions, few queries": ((), 50, 83, 16, 4),
    "one query": ((2, 4), 1, 300, 4, 20),
    "queries in several blocks": ((1,), 261, 140, 4, 8),
}


def drawn(shape: tuple[Any, ...], dtype: str) -> list[Any]:
    """Queries, keys, values, and a gradient of the result; of "heads within positions" from one array."""
    rng = np.random.default_rng(0)
    lead, queries, keys, size, values = shape
    if len(lead) == 2 and queries == keys:
        whole = rng.normal(size=(lead[0], queries, 3, lead[1], size)).astype(dtype)
        q, k, v = (whole[:, :, n].swapaxes(1, 2) for n in range(3))
    else:
        q, k, v = (rng.normal(size=(*lead, *s)) for s in ((queries, size), (keys, size), (keys, values)))
    return [x.astype(dtype, copy=False) for x in (q, k, v, rng.normal(size=(*lead, queries, values)))]


def masks(shape: tuple[Any, ...]) -> list[Any]:
    lead, queries, keys, *_ = shape
    rng = np.random.default_rng(1)
    shapes: list[Any] = [(queries, keys), (1, keys), (queries, 1), (*lead, queries, keys), (*(1,) * len(lead), 1, keys)]
    return [None, *(rng.random(s) < 0.7 for s in shapes)]


def both(d: Any, args: tuple[Any, ...], grad: Any) -> list[Any]:
    """The result, the logsumexps and the gradients."""
    out, total = d.attention(*args)
    return [out, total, *d.attention_backward(grad, *args[:3], out, total, *args[3:])]


class Default:
    """Attention without these kernels."""

    def attention(self, *args: Any) -> Any:
        return ArrayBackend.attention(D, *args)

    def attention_backward(self, *args: Any) -> Any:
        return ArrayBackend.attention_backward(D, *args)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.slowest)])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_kernels_agree_with_the_default(shape: tuple[Any, ...], dtype: str, noted: list[Any]) -> None:
    *inputs, grad = drawn(shape, dtype)
    wide = [x.astype("float64") for x in (*inputs, grad)]
    bound = 1e-5 if dtype == "float32" else 1e-12
    for mask in masks(shape):
        for offset in (None, 0, -5, 40):
            noted.clear()
            found = both(D, (*inputs, mask, offset, 0.3), grad)
            assert [k.program.name for k in noted] == ["attention", "attention_backward"]
            wanted = both(Default(), (*wide[:3], mask, offset, 0.3), wide[3])
            for x, y in zip(found, wanted, strict=True):
                assert x.dtype == np.dtype(dtype)
                np.testing.assert_allclose(x, y, rtol=bound, atol=bound * max(1.0, float(np.abs(y).max())))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e38])
def test_special_values_stay_among_the_queries_that_attend_to_them(value: float) -> None:
    *inputs, _ = drawn(((2,), 40, 40, 8, 8), "float32")
    for n, place in product(range(3), (20, 21, 27)):
        xs = [x.copy() for x in inputs]
        xs[n][0, place, 3] = value
        found, wanted = D.attention(*xs, None, 0, 0.3), Default().attention(*xs, None, 0, 0.3)
        for x, y in zip(found, wanted, strict=True):
            assert np.isfinite(x[:, :place]).all()
            assert np.isfinite(x[1]).all()
            np.testing.assert_array_equal(np.isnan(x[:, place:]), np.isnan(y[:, place:]))


def test_bits_depend_neither_on_layout_nor_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    *inputs, grad = drawn(((8, 4), 64, 64, 32, 32), "float32")
    wanted = both(D, (*inputs, None, 0, 0.3), grad)
    assert wanted[0].swapaxes(1, 2).flags.c_contiguous  # as q lies
    other = [np.repeat(np.ascontiguousarray(x), 2, -1)[..., ::2] for x in (*inputs, grad)]
    monkeypatch.setattr(threads, "COUNT", 3)
    found = both(D, (*other[:3], None, 0, 0.3), other[3])
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(x, y)
    with np.errstate(all="raise"):
        shared = np.broadcast_to(inputs[1][:, :1], inputs[1].shape)  # as for grouped queries
        expanded = both(D, (inputs[0], shared, inputs[2], None, None, 0.3), grad)
    copied = both(D, (inputs[0], shared.copy(), inputs[2], None, None, 0.3), grad)
    for x, y in zip(expanded, copied, strict=True):
        np.testing.assert_array_equal(x, y)


def test_a_query_without_keys_gets_zeros() -> None:
    *inputs, grad = drawn(((2,), 40, 40, 8, 8), "float32")
    mask = np.ones((40, 40), np.bool_)
    mask[3] = False
    out, total, by_q, *_ = both(D, (*inputs, mask, None, 0.3), grad)
    for x in (out, total, by_q):
        assert not x[:, 3].any()
        assert x[:, 4].all()


@pytest.mark.parametrize(("size", "keys"), [(5, 64), (128, 300)])
def test_other_sizes_have_kernels_on_rows(size: int, keys: int, noted: list[Any]) -> None:
    *inputs, _ = drawn(((2,), 64, keys, size, size), "float32")
    D.attention(*inputs, None, None, 0.3)
    assert [k.program.name for k in noted] == ["attention_weights"] * len(noted) != []


def test_gradients_by_heads_of_one_array_are_joined_without_a_copy() -> None:
    x = np.random.default_rng(0).standard_normal((2, 16, 8, 16)).astype(np.float32).swapaxes(1, 2)
    beside, apart = (x[:, :2], x[:, 2:4], x[:, 4:6]), (x[:, 2:4], x[:, :2], x[:, 4:6])
    for heads in (beside, apart):
        out, logs = D.attention(*heads, None, 0, 0.3)
        found = D.attention_backward(out, *heads, out, logs, None, 0, 0.3)
        copies = [y.copy() for y in heads]
        for a, b in zip(found, D.attention_backward(out, *copies, out, logs, None, 0, 0.3), strict=True):
            np.testing.assert_array_equal(a, b)
        joined = D.cat(found, 1)
        np.testing.assert_array_equal(joined, np.concatenate(found, 1))
        assert np.shares_memory(joined, found[0]) == (heads is beside)
