"""GELU on the NumPy backend: its precision and the edges of float32; softmax computes few and many elements alike."""

from __future__ import annotations

import itertools
import math
from functools import partial
from typing import Any

import numpy as np
import pytest

from burnpy.backend import NumPy
from burnpy.backend.dtypes import float16, float32, float64
from burnpy_array import ArrayBackend

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


@pytest.mark.parametrize("backward", [D.gelu_backward, partial(ArrayBackend.gelu_backward, D)], ids=["kernel", "NumPy"])
@pytest.mark.parametrize("approximate", [False, True], ids=["exact", "tanh"])
def test_the_slope_is_1_or_0_far_from_zero(approximate: bool, backward: Any) -> None:
    for dtype, huge in ((float16, 6e4), (float32, HUGE), (float64, 1e308)):
        x = np.array([INF, huge, 60.0, -60.0, -huge, -INF, NAN], dtype)
        np.testing.assert_array_equal(backward(np.ones_like(x), x, approximate), [1, 1, 1, 0, 0, 0, NAN])


EXTREMES = [0.0, 1.0, -1.0, 88.0, -103.0, 3e38, -3e38, np.inf, -np.inf, np.nan]


class General(NumPy):
    """Softmax in the general way."""

    softmax = ArrayBackend.softmax
    log_softmax = ArrayBackend.log_softmax


def arrangements(rows: list[tuple[float, ...]], dtype: str) -> list[tuple[Any, int]]:
    """A vector, and matrices in several layouts, each with the dimension of its rows."""
    x = np.array(rows, dtype)
    return [(x[0], 0), (x, 1), (np.asfortranarray(x), 1), (x[::-1, ::-1], 1), (x, 0), (x[:, None], 2)]


@pytest.mark.slow
@pytest.mark.parametrize("operation", ["softmax", "log_softmax"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("length", [1, 2, 3])
def test_softmax_of_few_elements_is_like_that_of_many(operation: str, dtype: str, length: int) -> None:
    rough = {"float16": 2e-3, "float32": 1e-6, "float64": 1e-14}[dtype]
    for row in itertools.product(EXTREMES if length < 3 else EXTREMES[3::2], repeat=length):
        with np.errstate(over="ignore"):
            cases = arrangements([row, (1.0,) * length], dtype)
        for x, dim in cases:
            before = x.copy()
            got, wanted = (getattr(device, operation)(x, dim) for device in (NumPy(), General()))
            assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
            np.testing.assert_allclose(got, wanted, rough, rough, err_msg=f"{row}, {x.shape}, {dim}")
            np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3)])
def test_softmax_of_nothing_is_nothing(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape, np.float32)
    assert NumPy().softmax(x, len(shape) - 1).shape == shape
    assert NumPy().log_softmax(x, len(shape) - 1).shape == shape


def test_softmax_while_the_quiet_context_is_in_use() -> None:
    from burnpy_numpy.numpy_calls import run

    x = np.array([1.0, -np.inf], np.float32)
    assert run(NumPy().softmax, x, 0).tolist() == [1.0, 0.0]
    assert run(NumPy().log_softmax, x, 0).tolist() == [0.0, -np.inf]
