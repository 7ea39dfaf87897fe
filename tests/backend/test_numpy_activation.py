"""GELU on the NumPy backend: its precision, the edges of float32, blocks and memory."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy.backend import NumPy
from burnpy.backend.dtypes import dtype_of, float16, float32, float64
from burnpy_numpy import activation

D = NumPy()
INF, NAN, TINY, HUGE = math.inf, math.nan, 1e-45, 3e38
EDGES = np.array([0.0, -0.0, INF, -INF, NAN, TINY, -TINY, HUGE, -HUGE, 60.0, -60.0], float32)


def phi(v: float) -> float:
    return math.erfc(-v / math.sqrt(2)) / 2


def gelu(v: float, approximate: bool) -> float:
    if approximate:
        return v / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)))
    return v * phi(v)


def slope(v: float, approximate: bool) -> float:
    if not approximate:
        return phi(v) + v * math.exp(-v * v / 2) / math.sqrt(2 * math.pi)
    t = math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))
    return (1 + t) / 2 + v / 2 * (1 - t * t) * math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * v * v)


@pytest.mark.parametrize("approximate", [False, True], ids=["exact", "tanh"])
def test_the_error_is_that_of_the_dtype(approximate: bool) -> None:
    x = np.linspace(-12, 12, 48001).astype(float32)
    out, back = D.gelu(x, approximate), D.gelu_backward(np.ones_like(x), x, approximate)
    assert out.dtype == back.dtype == float32
    wanted = [gelu(v, approximate) for v in x.tolist()]
    near = np.abs(x) <= 1
    error = np.abs(out - np.array(wanted))
    assert error[near].max() < 2e-7
    assert (error / np.maximum(np.abs(x), 1)).max() < 3e-7
    limit = 2e-6 if approximate else 3e-7  # 1 - tanh², as it is rounded, is multiplied by a cubic
    assert np.abs(back - [slope(v, approximate) for v in x.tolist()]).max() < limit


def test_erf_is_relatively_exact_next_to_zero() -> None:
    x = np.geomspace(1e-30, 8, 20001).astype(float32)
    exact = np.array([math.erf(v) for v in x.tolist()])
    assert np.abs(D.erf(x) / exact - 1).max() < 4e-7
    np.testing.assert_array_equal(D.erf(-x), -D.erf(x))
    np.testing.assert_array_equal(D.erf(EDGES), [0, -0.0, 1, -1, NAN, EDGES[5], EDGES[6], 1, -1, 1, -1])


@pytest.mark.parametrize("approximate", [False, True], ids=["exact", "tanh"])
def test_edges(approximate: bool) -> None:
    out, back = D.gelu(EDGES, approximate), D.gelu_backward(np.ones_like(EDGES), EDGES, approximate)
    wanted = [0, -0.0, INF, NAN, NAN, 0, -0.0, HUGE, -0.0, 60, -0.0]
    np.testing.assert_array_equal(out, np.array(wanted, float32))
    kept = ~np.isnan(out)
    np.testing.assert_array_equal(np.signbit(out)[kept], np.signbit(EDGES)[kept])
    np.testing.assert_array_equal(back[[0, 1, 4, 5, 6, 9, 10]], [0.5, 0.5, NAN, 0.5, 0.5, 1, 0])
    if not approximate:
        np.testing.assert_array_equal(back[[7, 8]], [1, 0])


@pytest.mark.parametrize("dtype", [float16, dtype_of("bfloat16"), float32, float64], ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (3, 40), (7, 1, 11)], ids=str)
def test_blocks_leave_no_trace(dtype: Any, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    pair: Any = rng.standard_normal((2, *shape)).astype(dtype)
    for x, g in (pair, (pair[0].T, pair[1].T), pair[:, ::2] if shape else pair):
        monkeypatch.setattr(activation, "BLOCK", 1 << 15)
        whole = D.gelu(x, False), D.gelu_backward(g, x, False)
        monkeypatch.setattr(activation, "BLOCK", 16)
        parts = D.gelu(x, False), D.gelu_backward(g, x, False)
        for one, other in zip(whole, parts, strict=True):
            assert (one.shape, one.dtype) == (x.shape, dtype)
            np.testing.assert_array_equal(one.astype(float64), other.astype(float64))


def test_only_the_result_is_as_large_as_the_argument() -> None:
    x = np.ones((1 << 20,), float32)
    done: list[Callable[[], Any]] = [lambda: D.gelu(x, False), lambda: D.gelu_backward(x, x, True)]
    for f in done:
        f()
        tracemalloc.start()
        try:
            f()
            assert tracemalloc.get_traced_memory()[1] < 1.6 * x.nbytes  # and some blocks for each thread
        finally:
            tracemalloc.stop()
