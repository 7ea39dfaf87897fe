"""Values for each row and for each column of square shapes in one plan: each is read as what it is.

The results are compared with eager mode, which has no groups.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, Tensor, func
from burnpy.backend import NumPy
from burnpy.func import compiled
from burnpy.nn.functional import gumbel_softmax, layer_norm
from tests.kernels import needs_kernels
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


def _permuted(seed: int, shape: tuple[int, ...], order: tuple[int, ...]) -> Any:
    """Return a tensor whose dims lie in another order in memory."""
    array = np.random.default_rng(seed).standard_normal(shape)
    return Tensor[NumPy].from_data(array.transpose(np.argsort(order)).copy()).permute(*order)


PERMUTED: dict[str, Callable[..., Any]] = {
    "sums and numbers": lambda x, y, b: (x + y) * 2.0 - b[0, 0, 0],
    "one value for each column, for each row and for each matrix": lambda x, y, b: (x * b[0, 0] + b[0] * y).relu() / b,
    "a value that is filled, or expanded": lambda x, y, b: (x + x.ones_like()) * b[:, :1].expand(2, 3, 4) + b.mean(),
    "bools and casts": lambda x, y, b: (x.where(x > y, y), (x > 0.0).any(1), (x * y).prod(2)),
    "sums over each dim": lambda x, y, b: [
        (x * y).sum(dims, keepdim) for dims in (0, 1, (0, 2)) for keepdim in (True, False)
    ],
    "a mean and what follows it": lambda x, y, b: (x - x.mean(1, keepdim=True)) / (y - y.amin(1, keepdim=True) + 1.0),
    "the order of memory again": lambda x, y, b: ((x + y).permute(1, 2, 0).softmax(-1), x.mT + y.mT),
    "what needs another order": lambda x, y, b: ((x + y).softmax(-1), (x * y).cumsum(2) + x, (x - y) @ y.mT),
    "the order of memory and the usual one": lambda x, y, b: (
        (z := (x + y).relu()).permute(1, 2, 0).cumsum(0),
        z,
        z @ b[0].T,
    ),
    "permutations that are undone": lambda x, y, b: (
        x.permute(1, 2, 0),
        (x * y).permute(1, 2, 0),
        (x > y).permute(1, 2, 0),
    ),
    "permutations that are undone before a group joins another": lambda x, y, b: (
        x.permute(1, 2, 0).exp().permute(2, 0, 1) * 2.0 + b.sin(),
        b.permute(1, 2, 0).exp().permute(2, 0, 1) * 2.0 + b.sin(),
    ),
    "parts": lambda x, y, b: (
        burnpy.cat([x * y, x], 2)[:, :, 1:8:2].permute(1, 2, 0).cumsum(0),
        burnpy.cat([x * y, b], 1)[1, :5] + burnpy.cat([x, x], 0)[2:, :1].sum((0, 1)),
    ),
    "matrices": lambda x, y, b: ((x[0] + y[0]) @ b[0].T, b[0, 0] @ (x * y)[1].T, x[1] @ b[1, 0]),
}
"""Functions of two values whose dims lie in one order, and a value whose dims lie in the usual one."""


@pytest.mark.slow
@every_row("name", PERMUTED)
def test_permuted_values(name: str) -> None:
    """Permuted arguments, arguments that the function permutes, and others for the same plan."""
    f, order = PERMUTED[name], (2, 0, 1)
    x, y = (_permuted(seed, (2, 3, 4), order) for seed in (0, 1))
    b = Tensor[NumPy].from_data(np.random.default_rng(2).standard_normal((2, 3, 4)))
    wanted, one = _leaves(f(x, y, b)), compiled(f)
    inside = compiled(lambda x, y, b: f(x.permute(*order), y.permute(*order), b))
    usual = [Tensor[NumPy].from_data(each.to_numpy().copy()) for each in (x, y)]
    back = [each.permute(*np.argsort(order).tolist()) for each in (x, y)]
    for given in (one(x, y, b), one(*usual, b), inside(*back, b)):
        for mine, its in zip(_leaves(given), wanted, strict=True):
            np.testing.assert_allclose(mine.to_numpy(), its.to_numpy(), rtol=1e-12)


@needs_kernels
def test_permuted_values_are_read_where_they_lie() -> None:
    """Kernels have the shape of the arrays in memory, and of the result where a row is needed."""
    x, y = (_permuted(seed, (3, 4), (1, 0)) for seed in (0, 1))
    shapes = {
        (4, 3): (lambda x, y: (x * y).exp(), lambda x, y: (x + y).sum(1)),
        (3, 4): (lambda x, y: (x * y).softmax(1), lambda x, y: x.softmax(1) * x.sum(1, keepdim=True)),
    }
    for shape, functions in shapes.items():
        for f in functions:
            assert {part.shape for part in compiled(f).explain(x, y).programs} == {shape}


def _leaves(results: Any) -> list[Any]:
    return [*results] if isinstance(results, (tuple, list)) else [results]


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


@needs_kernels
@every_row("name", ["sum", "mean"])
def test_a_mean_of_a_value_for_each_row_is_in_its_kernel(name: str) -> None:
    x = Tensor[NumPy].from_data(np.random.default_rng(0).standard_normal((300, 7)))
    loss = compiled(lambda x: getattr(x.square(), name)(1).mean())
    np.testing.assert_allclose(loss(x).item(), getattr(x.square(), name)(1).mean().item(), rtol=1e-12)
    assert str(loss.explain(x)).startswith("3 operations recorded: 1 kernel of 3 operations")
