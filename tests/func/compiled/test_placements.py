"""Values for each row and for each column of square shapes in one plan: each is read as what it is.

The results are compared with eager mode, which has no groups.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Tensor, func
from burnpy.backend import NumPy
from burnpy.func import compiled
from burnpy.nn.functional import gumbel_softmax, layer_norm
from tests.rows import every_row

SQUARE, ROW, CUBE = (3, 3), (3,), (3, 3, 3)

FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "softmax and a sum of rows": (lambda x: x.softmax(1) * x.sum(1), (SQUARE,)),
    "one vector beside rows, then beside columns": (lambda x, y: (x + y).sum(1) * y, (SQUARE, ROW)),
    "the same, with more after it": (lambda x, y: (x + y).sum(1) * y + x.sin(), (SQUARE, ROW)),
    "a mean of rows": (lambda x: (x * x.mean(1)).sin(), (SQUARE,)),
    "the largest of rows": (lambda x: (x / x.amax(1)).sin(), (SQUARE,)),
    "sums of rows and columns": (lambda x: x * x.sum(0) - x.sum(1) * x.sum(1, keepdim=True), (SQUARE,)),
    "a normalization by a sum of rows": (lambda x: layer_norm(x, (3,), x.sum(1), x.sum(0)), (SQUARE,)),
    "a normalization by one number": (lambda x, w: layer_norm(x, (3,), w.expand((3,))), (SQUARE, ())),
    "a normalization of equal rows": (lambda x, w: layer_norm(x * 0.0, (3,), w.expand((3,))) * x, (SQUARE, ())),
    "matrices of sums": (lambda x: x.sum(2) * x + x.softmax(2).sum(2) * x.sum(0), (CUBE,)),
    "rows and columns": (lambda x, y: (x * y).softmax(1) * y.unsqueeze(1) + (x * y).sum(1) * y, (SQUARE, ROW)),
    "a sum of a number that is repeated": (lambda x: x.sin() * x.amax(0)[0].expand((2, 3)).sum(), (SQUARE,)),
    "a mean of a sum that is repeated": (lambda x: x.sin() + x.sum().expand((2, 3)).mean(), (SQUARE,)),
    "a sum of repeated sums of rows": (lambda x: x.sum(1).unsqueeze(1).expand((3, 4)).sum() * x, (SQUARE,)),
    "a row of the same product": (lambda x: ((x @ x) + (x @ x)[0]).sin() @ x, (SQUARE,)),
    "a flat part of the same product": (lambda x: ((x @ x) * (x @ x).reshape(-1)[:3]) @ x, (SQUARE,)),
    "a column of the same product": (lambda x: ((x @ x) * (x @ x)[:, 1:2]) @ x, (SQUARE,)),
}  # fmt: skip


TWICE = ("softmax and a sum of rows", "one vector beside rows, then beside columns", "a normalization by one number")
"""Those whose second derivatives are compared as well, as compiling takes a while."""


@pytest.mark.slowest
@every_row("name", FUNCTIONS)
def test_values_and_gradients(name: str) -> None:
    f, shapes = FUNCTIONS[name]
    rng = np.random.default_rng(0)
    xs = [Tensor[NumPy].from_data(rng.standard_normal(shape)) for shape in shapes]
    slope = func.grad(lambda *xs: f(*xs).sigmoid().sum(), argnums=tuple(range(len(xs))))
    twice = func.grad(lambda *xs: sum(g.sin().sum() for g in slope(*xs)), argnums=0)
    for function in (f, slope, *[twice] * (name in TWICE)):
        for x, y in zip(_leaves(compiled(function)(*xs)), _leaves(function(*xs)), strict=True):
            np.testing.assert_allclose(x.to_numpy(), y.to_numpy(), rtol=1e-9, atol=1e-11)


def _leaves(results: Any) -> list[Any]:
    return [*results] if isinstance(results, tuple) else [results]


def test_right_values() -> None:
    """As computed by hand: a sum of rows multiplies columns."""
    x = Tensor[NumPy].from_data([[1.0, 2.0], [3.0, 4.0]])
    found = compiled(lambda x: x.softmax(1) * x.sum(1))(x)
    low = 3 / (1 + np.e)
    np.testing.assert_allclose(found.to_numpy(), [[low, 7 - 7 / (1 + np.e)]] * 2, rtol=1e-6)


@pytest.mark.parametrize(
    "f",
    [
        lambda y, x: (x * y).sum(1),
        lambda y, x: (x * y.unsqueeze(1)).sum(1),
        lambda y, x: ((x * y).sum(1), (x - y).amax(1)),
        lambda y, x: (x + y, x.sum(0) * y),
    ],
)
def test_a_donated_vector_is_read_before_it_is_overwritten(f: Any) -> None:
    """The result of the first rows has the shape of a donated row, which later rows read."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((6, 6)), rng.standard_normal(6)
    plan = compiled(f, donate=("y", "x"))
    expected = f(Tensor[NumPy].from_data(y), Tensor[NumPy].from_data(x))
    for _ in range(3):
        found = plan(Tensor[NumPy].from_data(y), Tensor[NumPy].from_data(x))
        for a, b in zip(_leaves(found), _leaves(expected), strict=True):
            np.testing.assert_allclose(a.to_numpy(), b.to_numpy(), rtol=1e-10)


def test_effects_keep_their_order_without_a_circle() -> None:
    """Two draws with a check between them, whose noise could be one group: their kernels are in an order."""

    def f(x: Any) -> Any:
        return (gumbel_softmax(x.sin(), hard=True) * x * (gumbel_softmax(x.cos(), hard=True) + x)).sum()

    x = Tensor[NumPy].from_data(np.arange(4.0))
    assert compiled(func.grad(f))(x).shape == (4,)
    leaf = Tensor[Autodiff[NumPy]].from_data(np.arange(4.0)).require_grad()
    assert compiled(lambda x: x.grad(f(x).backward()))(leaf).shape == (4,)
