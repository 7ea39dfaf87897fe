"""Softmax of few elements on NumPy: the same as the general way, infinities and NaN included."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from burnpy.backend import NumPy
from burnpy_array import ArrayBackend

EDGES = [0.0, 1.0, -1.0, 88.0, -103.0, 3e38, -3e38, np.inf, -np.inf, np.nan]


class Plain(NumPy):
    """The general way."""

    softmax = ArrayBackend.softmax
    log_softmax = ArrayBackend.log_softmax


def arrangements(rows: list[tuple[float, ...]], dtype: str) -> list[tuple[Any, int]]:
    """A vector, and matrices in several layouts, each with the dimension of its rows."""
    x = np.array(rows, dtype)
    return [(x[0], 0), (x, 1), (np.asfortranarray(x), 1), (x[::-1, ::-1], 1), (x, 0), (x[:, None], 2)]


@pytest.mark.parametrize("operation", ["softmax", "log_softmax"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("length", [1, 2, 3])
def test_few_elements_are_like_many(operation: str, dtype: str, length: int) -> None:
    rough = {"float16": 2e-3, "float32": 1e-6, "float64": 1e-14}[dtype]
    for row in itertools.product(EDGES if length < 3 else EDGES[3::2], repeat=length):
        with np.errstate(over="ignore"):
            cases = arrangements([row, (1.0,) * length], dtype)
        for x, dim in cases:
            before = x.copy()
            got, wanted = (getattr(device, operation)(x, dim) for device in (NumPy(), Plain()))
            assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
            np.testing.assert_allclose(got, wanted, rough, rough, err_msg=f"{row}, {x.shape}, {dim}")
            np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3)])
def test_of_nothing_there_is_nothing(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape, np.float32)
    assert NumPy().softmax(x, len(shape) - 1).shape == shape
    assert NumPy().log_softmax(x, len(shape) - 1).shape == shape


def test_while_the_quiet_context_is_in_use() -> None:
    from burnpy_numpy.numpy_calls import run

    x = np.array([1.0, -np.inf], np.float32)
    assert run(NumPy().softmax, x, 0).tolist() == [1.0, 0.0]
    assert run(NumPy().log_softmax, x, 0).tolist() == [0.0, -np.inf]
