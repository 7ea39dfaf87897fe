"""``x[key]`` and ``x.at[key]`` with random keys, against NumPy: values, gradients, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnpy import Autodiff, BoolTensor, IntTensor, Tensor
from burnpy.backend import NumPy
from burnpy.backend.errors import BurnpyError
from tests.tensor.index_keys import ints_first, shapes_and_keys

Train = Autodiff[NumPy]
KINDS: list[Any] = [Tensor, IntTensor, BoolTensor]
MANY = settings(max_examples=150)


def ours(key: Any) -> Any:
    """A key with tensors in place of arrays."""
    if isinstance(key, tuple):
        return tuple(ours(item) for item in key)
    if isinstance(key, np.ndarray):
        return (BoolTensor if key.dtype == bool else IntTensor)[Train].from_data(key)
    return key


def places(shape: tuple[int, ...], key: Any) -> Any:
    """The places of the elements that a key picks, in row-major order; None where NumPy refuses it."""
    first, second = ints_first(key, len(shape))
    try:
        return np.arange(int(np.prod(shape))).reshape(shape)[first][second]
    except IndexError:
        return None


@pytest.mark.slow
@MANY
@given(shapes_and_keys(), st.sampled_from(KINDS))
def test_reading(drawn: tuple[tuple[int, ...], Any], kind: Any) -> None:
    shape, key = drawn
    wanted = places(shape, key)
    a = np.arange(int(np.prod(shape))).reshape(shape)
    x = kind[Train].from_data({"float": a * 1.5, "int": a, "bool": a % 2 == 0}[kind.kind])
    x = x.require_grad() if kind is Tensor else x
    if wanted is None:
        with pytest.raises(BurnpyError, match=r"x\[\.\.\.\] (got|cannot)"):
            x[ours(key)]
        return
    found = x[ours(key)]
    assert found.shape == wanted.shape
    assert np.array_equal(found.to_numpy(), x.to_numpy().ravel()[wanted])
    if kind is Tensor:
        weights = np.random.default_rng(0).standard_normal(wanted.shape)
        grads = (found * Tensor[Train].from_data(weights)).sum().backward()
        gradient = np.zeros(a.size)
        np.add.at(gradient, wanted.ravel(), weights.ravel())
        np.testing.assert_allclose(grads[x].to_numpy(), gradient.reshape(shape), 1e-12)


@pytest.mark.slow
@MANY
@given(shapes_and_keys(), st.sampled_from(["set", "add", "mul", "max"]))
def test_writing(drawn: tuple[tuple[int, ...], Any], method: str) -> None:
    """The last writer of a place gets the gradient of ``set``; all writers get it in the other methods."""
    shape, key = drawn
    at = places(shape, key)
    x = Tensor[Train].from_data(np.arange(1.0, 1.0 + np.prod(shape)).reshape(shape)).require_grad()
    if at is None:
        with pytest.raises(BurnpyError):
            x.at[ours(key)].set(1.0)
        return
    rng = np.random.default_rng(1)
    v = Tensor[Train].from_data(rng.uniform(0.6, 40.4, at.shape)).require_grad()
    out = getattr(x.at[ours(key)], method)(v)
    grads = out.sum().backward()
    combine: Any = {"set": lambda _, new: new, "add": np.add, "mul": np.multiply, "max": np.maximum}[method]
    flat, slope_x, slope_v = x.to_numpy().ravel().copy(), np.ones(int(np.prod(shape))), np.zeros(at.size)
    members: dict[int, list[int]] = {}
    for k, (place, value) in enumerate(zip(at.ravel(), v.to_numpy().ravel(), strict=True)):
        flat[place] = combine(flat[place], value)
        members.setdefault(int(place), []).append(k)
    values = v.to_numpy().ravel()
    for place, writers in members.items():
        before = x.to_numpy().ravel()[place]
        if method == "set":
            slope_x[place], slope_v[writers[-1]] = 0.0, 1.0
        elif method == "add":
            slope_v[writers] = 1.0
        elif method == "mul":
            slope_x[place] = values[writers].prod()
            slope_v[writers] = [before * np.delete(values[writers], k).prod() for k in range(len(writers))]
        else:
            slope_x[place] = float(before == flat[place])
            slope_v[writers] = values[writers] == flat[place]
    np.testing.assert_allclose(out.to_numpy().ravel(), flat, 1e-12)
    np.testing.assert_allclose(grads[x].to_numpy().ravel(), slope_x, 1e-9)
    if at.size:
        np.testing.assert_allclose(grads[v].to_numpy().ravel(), slope_v, 1e-9)


@pytest.mark.slow
@MANY
@given(shapes_and_keys(out_of_range=True))
def test_what_is_out_of_range_is_refused(drawn: tuple[tuple[int, ...], Any]) -> None:
    shape, key = drawn
    x = Tensor[NumPy].zeros(shape)
    try:
        wanted = np.zeros(shape)[key]
    except IndexError:
        with pytest.raises(BurnpyError, match=r"x\[\.\.\.\] (got|cannot)"):
            x[key]
        return
    try:
        assert x[key].to_numpy().size == wanted.size
    except BurnpyError:
        assert wanted.size == 0  # NumPy does not look at indices that pick nothing
