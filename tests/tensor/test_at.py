"""``x.at[key]``: what NumPy's assignments do, as new tensors, with gradients in both the tensor and the value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, BoolTensor, IntTensor, Tensor
from burnpy.backend import NumPy

Train = Autodiff[NumPy]
A = np.arange(1.0, 13.0).reshape(3, 4)
KEYS: list[Any] = [
    *(0, -1, slice(1, None), (), ..., (slice(None), 1), (1, 2), (None, 0), (slice(None, None, -2), slice(1, 3))),
    *(
        [0, 2],
        [1, 1, 0],
        (slice(None), [3, 0]),
        ([0, 0, 1], [1, 1, 3]),
        ([[0, 1], [1, 0]], slice(1, 3)),
        ([0, 1], None, [2, 2]),
    ),
    *(A > 6, A < 0, A[:, 0] > 1, True, False, ([], 0)),
]
COMBINE: dict[str, Callable[..., Any]] = {
    "set": lambda old, v: v,
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


def assigned(name: str, key: Any, values: np.ndarray[Any, Any], a: np.ndarray[Any, Any] = A) -> np.ndarray[Any, Any]:
    """One element after the other."""
    key = tuple(np.array(k, np.int64) if k == [] else k for k in key) if isinstance(key, tuple) else key
    places = np.arange(a.size).reshape(a.shape)[key]
    out = a.ravel().copy()
    for place, value in zip(places.ravel(), np.broadcast_to(values, places.shape).ravel(), strict=True):
        out[place] = COMBINE[name](out[place], value)
    return out.reshape(a.shape)


@pytest.mark.parametrize("name", COMBINE)
@pytest.mark.parametrize("key", KEYS, ids=range(len(KEYS)))
def test_values_and_gradients(key: Any, name: str) -> None:
    x = Tensor[Train].from_data(A).require_grad()
    values = np.random.default_rng(6).uniform(3.1, 8.9, x[key].shape)  # no ties with x
    v = Tensor[Train].from_data(values).require_grad()
    out = getattr(x.at[key], name)(v)
    np.testing.assert_allclose(out.to_numpy(), assigned(name, key, values), 1e-12)
    np.testing.assert_allclose(getattr(x.at[key], name)(2.5).to_numpy(), assigned(name, key, np.array(2.5)), 1e-12)
    assert x.tolist() == A.tolist()

    weights = np.random.default_rng(7).standard_normal(A.shape)
    grads = (out * Tensor[Train].from_data(weights)).sum().backward()
    for leaf, of in ((x, A), (v, values)):
        for at in np.ndindex(of.shape):
            moved, step = of.copy(), 1e-6
            moved[at] += step
            changed = assigned(name, key, values, moved) if leaf is x else assigned(name, key, moved)
            slope = (weights * (changed - out.to_numpy())).sum() / step
            assert (grads[leaf][at].item() if leaf in grads else 0.0) == pytest.approx(slope, abs=1e-5)


def test_values_broadcast_and_are_cast() -> None:
    x = Tensor[NumPy].from_data(A, dtype="float32")
    column = Tensor[NumPy].from_data([[1.0], [2.0]], dtype="float64")
    assert x.at[1:, :2].set(column).tolist() == [[1, 2, 3, 4], [1, 1, 7, 8], [2, 2, 11, 12]]
    assert x.at[[1, 2]].add(column).dtype == np.float32
    assert x.at[0].set(column[0, 0]).tolist()[0] == [1.0] * 4


def test_ints_and_bools() -> None:
    i = IntTensor[NumPy].from_data([1, 2, 3])
    assert i.at[[0, 0]].add(5).tolist() == [11, 2, 3]
    assert i.at[i > 1].mul(10).tolist() == [1, 20, 30]
    b = BoolTensor[NumPy].from_data([False, False, True])
    assert b.at[:2].set(True).tolist() == [True, True, True]
    assert b.at[[2]].set(b[:1]).tolist() == [False, False, False]


def test_a_long_list_of_repetitions() -> None:
    index = np.random.default_rng(8).integers(0, 5, 300)
    values = np.random.default_rng(9).uniform(0.9, 1.1, 300)
    x = Tensor[NumPy].ones((5,), dtype="float64")
    v = Tensor[NumPy].from_data(values)
    for name in ("add", "mul", "max"):
        found = getattr(x.at[IntTensor[NumPy].from_data(index)], name)(v)
        np.testing.assert_allclose(found.to_numpy(), assigned(name, index, values, np.ones(5)), 1e-9)


def test_a_product_with_zero_keeps_the_gradients_of_the_others() -> None:
    x = Tensor[Train].from_data([2.0]).require_grad()
    v = Tensor[Train].from_data([0.0, 3.0]).require_grad()
    grads = x.at[[0, 0]].mul(v).sum().backward()
    assert grads[x].tolist() == [0.0]
    assert grads[v].tolist() == [6.0, 0.0]
