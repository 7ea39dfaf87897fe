"""For shapes and layouts drawn at random: gradients agree with differences, share no memory, and nothing is changed."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from burnpy import Autodiff, IntTensor, Tensor, cat, where
from burnpy.backend import NumPy
from burnpy.testing import gradcheck, gradgradcheck

Train = Autodiff[NumPy]
FEW = settings(max_examples=40)

VIEWS: dict[str, Callable[[Any], Any]] = {
    "whole": lambda x: x,
    "transposed": lambda x: x.permute(tuple(range(x.ndim))[::-1]),
    "expanded": lambda x: x.unsqueeze(0).expand((2, *x.shape)),
    "sliced": lambda x: x[..., ::2] if x.ndim else x,
    "reversed": lambda x: x.flip(tuple(range(x.ndim))) if x.ndim else x,
    "flat": lambda x: x.reshape(-1) if 0 not in x.shape else x,
}
UNARY: dict[str, Callable[[Any], Any]] = {
    "sin": lambda x: x.sin(),
    "gelu": lambda x: x.gelu(),
    "sum": lambda x: x.sum(),
    "mean": lambda x: x.mean(-1) if x.ndim and x.shape[-1] else x,
    "softmax": lambda x: x.softmax(-1) if x.ndim else x,
    "logsumexp": lambda x: x.logsumexp(0) if x.ndim and x.shape[0] else x,
    "cumsum": lambda x: x.cumsum(0) if x.ndim else x,
    "prod": lambda x: x.prod(),
    "clamp": lambda x: x.clamp(-0.501, 0.493),
    "twice": lambda x: cat([x, x * 2.0], 0) if x.ndim else x + x,
    "picked": lambda x: x.index_select(0, IntTensor.from_data([0, 0], device=x.device)) if x.ndim and x.shape[0] else x,
    "set": lambda x: x.at[0].set(x[0] * 2.0) if x.ndim and x.shape[0] else x,
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / (y * y + 1.0),
    "pow": lambda x, y: (x * x + 0.5) ** y,
    "maximum": lambda x, y: x.maximum(y),
    "where": lambda x, y: where(x > 0.0, x, y),
}
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)


def sample(shape: tuple[int, ...], seed: int) -> Tensor[NumPy]:
    return Tensor[NumPy].from_data(np.random.default_rng(seed).uniform(-1, 1, shape), dtype="float64")


def tracked(x: Tensor[NumPy]) -> Tensor[Autodiff[NumPy]]:
    return Tensor.from_inner(x).require_grad()


def check_apart(f: Callable[..., Any], *inputs: Tensor[NumPy]) -> None:
    """Inputs and results stay as they were, and no two gradients share memory that is written to."""
    before = [x.to_numpy().copy() for x in inputs]
    leaves = [tracked(x) for x in inputs]
    out = f(*leaves)
    values = out.to_numpy().copy()
    seed = Tensor[NumPy].ones(out.shape, dtype="float64")
    first, second = (out.backward(seed, retain_graph=True) for _ in range(2))
    assert np.array_equal(out.to_numpy(), values, equal_nan=True), "the pass changed the result"
    assert seed.to_numpy().all(), "the pass changed the gradient that it started from"
    for x, old, leaf in zip(inputs, before, leaves, strict=True):
        assert np.array_equal(x.to_numpy(), old), "the pass changed an input"
        assert leaf.to_numpy() is not None
        one, two = leaf.grad(first), leaf.grad(second)
        if one is not None and two is not None:
            assert one.shape == x.shape
            assert np.array_equal(one.to_numpy(), two.to_numpy()), "the second pass gave another gradient"
    sums = first + second  # must not change either
    for leaf in sums:
        assert np.array_equal(first[leaf].to_numpy(), second[leaf].to_numpy()), "adding gradients changed one"
    for array in (g.to_numpy() for g in itertools.chain(first.values(), sums.values())):
        assert not array.flags.writeable


@FEW
@given(SHAPES, st.sampled_from(list(VIEWS)), st.sampled_from(list(UNARY)), st.integers(0, 99))
def test_functions_of_one_view(shape: tuple[int, ...], view: str, name: str, seed: int) -> None:
    def f(x: Any) -> Any:
        return UNARY[name](VIEWS[view](x))

    x = sample(shape, seed)
    check_apart(f, x)
    assert gradcheck(f, x)
    assert gradgradcheck(f, x)


@pytest.mark.slow
@FEW
@given(
    hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, min_side=0, max_side=3),
    st.sampled_from(list(BINARY)),
    st.sampled_from(["whole", "reversed"]),
    st.integers(0, 99),
)
def test_functions_of_two_that_broadcast(shapes: Any, name: str, view: str, seed: int) -> None:
    def f(x: Any, y: Any) -> Any:
        return BINARY[name](VIEWS[view](x), y)

    x, y = (sample(shape, seed + k) for k, shape in enumerate(shapes.input_shapes))
    check_apart(f, x, y)
    assert gradcheck(f, (x, y))
    assert gradgradcheck(f, (x, y))


@pytest.mark.slow
@FEW
@given(SHAPES, st.lists(st.sampled_from(list(VIEWS)), min_size=2, max_size=5), st.integers(0, 99))
def test_many_views_of_one_leaf_add_up(shape: tuple[int, ...], views: list[str], seed: int) -> None:
    """Gradients of several views, which place themselves into one sum, in any order."""

    def f(x: Any) -> Any:
        total = (x * x).sum()
        for k, view in enumerate(views):
            part = VIEWS[view](x)
            total = total + (part * part * float(k + 1)).sum() + part.sum()
        return total

    x = sample(shape, seed)
    check_apart(f, x)
    assert gradcheck(f, x)


@pytest.mark.slow
@FEW
@given(st.data(), st.integers(0, 99))
def test_slices_of_one_leaf_add_up(data: st.DataObject, seed: int) -> None:
    x = sample((3, 4), seed)
    index = hnp.basic_indices((3, 4), allow_newaxis=True)
    keys = data.draw(st.lists(index, min_size=1, max_size=4))

    def f(x: Any) -> Any:
        total = x[0, 0] * 1.0
        for key in keys:
            total = total + x[key].square().sum()
        return total

    check_apart(f, x)
    assert gradcheck(f, x)
