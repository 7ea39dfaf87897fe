"""The mean cross entropy on the real CuPy: one launch forward and one backward, with NumPy's numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy.backend import CuPy, NumPy
from burnpy.backend.dtypes import dtype_of
from burnpy_cupy.kernels import losses
from tests.hostcuda import simulator

simulator.require()

SHAPES = [(1, 1), (3, 7), (3, 2100), (5, 2100), (2, 17_000), (40, 3)]
"""Rows and classes: of one block, of rows that take a block, a warp or a large block each, longer than a batch, and of
blocks that compute several rows."""


@pytest.fixture(autouse=True)
def _few_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "_BLOCKS", 3)
    monkeypatch.setattr(losses, "_MANY_ROWS", 4)


def drawn(rows: int, classes: int, dtype: str, ignored: bool = True) -> tuple[Any, ...]:
    """The gradient of the mean, logits, targets and a mask of those that count, on the CPU."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, classes)).astype(np.float32).astype(dtype_of(dtype))
    counted = rng.uniform(size=rows) < 0.7 if ignored else None
    if counted is not None:
        counted[0] = True
    return np.array(0.5, x.dtype), x, rng.integers(0, classes, rows), counted


def computed(device: Any, *given: Any) -> list[Any]:
    """The mean, the logsumexps and the gradient of the logits of classes along dimension 1, on the CPU."""
    grad, x, index, counted = (None if a is None else device.from_numpy(a) for a in given)
    mean, logsumexp = device.mean_cross_entropy(x, index, counted, 1)
    by_x = device.mean_cross_entropy_backward(grad, x, logsumexp, index, counted, 1)
    return [device.to_numpy(a) for a in (mean, logsumexp, by_x)]


def check(given: tuple[Any, ...], launches: int) -> None:
    """Compare with NumPy, and count the launches."""
    with simulator.watched() as journal:
        found = computed(CuPy(), *given)
    launched = [name for name in journal.launches if name.startswith("burnpy_")]
    assert len(launched) == launches, launched
    wide = [None if a is None else a.astype(np.float64) if a.dtype.itemsize == 2 else a for a in given]
    close = 2e-2 if given[0].dtype.itemsize == 2 else 1e-5
    for got, want in zip(found, computed(NumPy(), *wide), strict=True):
        assert got.dtype == given[1].dtype
        np.testing.assert_allclose(got.astype(np.float64), want, rtol=close, atol=close)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("ignored", [False, True])
def test_two_launches(shape: tuple[int, int], ignored: bool) -> None:
    check(drawn(*shape, "float32", ignored), 2)


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_dtypes(dtype: str) -> None:
    check(drawn(40, 30, dtype), 2)


def test_the_mean_of_no_targets_is_nan() -> None:
    grad, x, index, counted = drawn(3, 4, "float32")
    mean, _, by_x = computed(CuPy(), grad, x, index, np.zeros_like(counted))
    assert np.isnan(mean)
    np.testing.assert_array_equal(by_x, computed(NumPy(), grad, x, index, np.zeros_like(counted))[2])


def test_sums_have_the_same_bits_again() -> None:
    """The counter of finished blocks is 0 again after each launch."""
    given = drawn(40, 3, "float32")
    first, second = computed(CuPy(), *given), computed(CuPy(), *given)
    assert all((a == b).all() for a, b in zip(first, second, strict=True))


def test_classes_along_another_dimension_take_more_launches() -> None:
    grad, x, index, counted = drawn(6, 4, "float32")
    check((grad, x.reshape(3, 2, 4).swapaxes(1, 2), index.reshape(3, 2), counted.reshape(3, 2)), 4)
