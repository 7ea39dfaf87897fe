"""Plans of random computations against the same computations in eager mode, with poisoned memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, Tensor, func
from burnpy.backend import NumPy
from burnpy.backend.plans.plan import Plan
from burnpy.func import compiled
from tests.interrupting import LONG

UNARY = ("exp", "tanh", "sigmoid", "relu", "abs", "neg", "square", "gelu", "silu", "softplus", "sin")
SHAPES = ((6, 5), (5,), (6, 1), (1, 5), (1,), ())
SQUARE = ((4, 4), (4,), (4, 1), (1, 4), (4, 4, 4), ())
BIG = ((4, 6, 5), (6, 5), (4, 1, 1), (4, 6, 1), (5,), (1, 6, 1), ())


def random_function(seed: int, shapes: tuple[tuple[int, ...], ...]) -> Any:
    """Return a function of tensors of some shapes that calls random operations, the same ones at each call."""

    def f(*xs: Any) -> Any:
        rng = np.random.default_rng(seed)
        values = list(xs)
        for _ in range(int(rng.integers(4, 30))):
            x = values[rng.integers(len(values))]
            kind = rng.integers(12)
            if kind < 4:
                out = getattr(x, UNARY[rng.integers(len(UNARY))])() * 0.5
            elif kind < 7:
                y = values[rng.integers(len(values))]
                try:
                    np.broadcast_shapes(x.shape, y.shape)
                except ValueError:
                    continue
                out = (x + y, x * y, x - y, burnpy.where(x > y, x, y * 0.5), x.maximum(y))[rng.integers(5)]
            elif kind < 9 and x.ndim:
                dim = int(rng.integers(x.ndim))
                keep = bool(rng.integers(2))
                out = (x.sum(dim, keep), x.mean(dim, keep), x.amax(dim, keep), x.mean(), x.softmax(dim))[
                    rng.integers(5)
                ]
            elif kind == 9 and x.ndim >= 2:
                out = x.transpose(-1, -2) if rng.integers(2) else x.reshape(-1)
            elif kind == 10 and x.ndim >= 1 and x.shape[0] > 2:
                out = x[1:-1] if rng.integers(2) else burnpy.cat([x, x * 2.0], dim=0)
            elif kind == 11 and x.ndim >= 2:
                out = x @ x.mT * 0.1
            else:
                out = x * 1.5 + 0.25
            values.append(out)
        picked = [values[k] for k in rng.integers(len(values), size=3)]
        return [*picked, values[-1]]

    return f


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fill the memory of plans with NaN before each replay."""
    from burnpy_numpy.plans.executor import NumPyExecutor

    blocks: list[Any] = []
    original, call = NumPyExecutor.memory, Plan.__call__

    def memory(self: Any, size: int) -> Any:
        blocks.append(original(self, size))
        return blocks[-1]

    def replay(self: Plan, inputs: Any) -> Any:
        for block in blocks:
            block[:] = 255
        return call(self, inputs)

    monkeypatch.setattr(NumPyExecutor, "memory", memory)
    monkeypatch.setattr(Plan, "__call__", replay)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.slowest)])
@pytest.mark.parametrize("seed", range(40))
def test_values(seed: int, dtype: str, poisoned: None) -> None:
    """Three replays with other values agree with eager mode, and earlier results stay."""
    shapes = (BIG, SHAPES, SQUARE)[seed % 3]
    f = random_function(seed, shapes)
    plan = compiled(f)
    rng = np.random.default_rng(seed + 1000)
    before: list[tuple[Any, Any]] = []
    for _ in range(3):
        xs = [Tensor[NumPy].from_data(rng.standard_normal(shape).astype(dtype)) for shape in shapes]
        out, expected = plan(*xs), f(*xs)
        for x, y in zip(out, expected, strict=True):
            assert (x.shape, x.dtype) == (y.shape, y.dtype)
            np.testing.assert_allclose(x.to_numpy(), y.to_numpy(), rtol=2e-4 if dtype == "float32" else 1e-9, atol=1e-4)
            before.append((x, x.to_numpy().copy()))
    for x, values in before:
        np.testing.assert_array_equal(x.to_numpy(), values)


@pytest.mark.slowest
@pytest.mark.parametrize("seed", range(40 if LONG else 25))
def test_gradients(seed: int, poisoned: None) -> None:
    """Gradients by func, and by backward() on a tracked device, agree with eager mode."""
    shapes = (BIG, SHAPES, SQUARE)[seed % 3]
    f = random_function(seed, shapes)

    def loss(*xs: Any) -> Any:
        return sum((y.sigmoid().sum() for y in f(*xs)), start=xs[0].sum() * 0.0)

    gradient = func.grad(loss, argnums=tuple(range(len(shapes))))
    plan = compiled(gradient)
    rng = np.random.default_rng(seed + 1000)
    for _ in range(2):
        xs = [Tensor[NumPy].from_data(rng.standard_normal(shape)) for shape in shapes]
        for x, y in zip(plan(*xs), gradient(*xs), strict=True):
            np.testing.assert_allclose(x.to_numpy(), y.to_numpy(), rtol=1e-8, atol=1e-9)

    def backward(*xs: Any) -> Any:
        grads = loss(*xs).backward()
        return [x.grad(grads) for x in xs]

    leaves = [Tensor[Autodiff[NumPy]].from_data(x.to_numpy()).require_grad() for x in xs]
    for x, y in zip(compiled(backward)(*leaves), gradient(*xs), strict=True):
        if x is None:  # not reached
            continue
        np.testing.assert_allclose(x.to_numpy(), y.to_numpy(), rtol=1e-8, atol=1e-9)
