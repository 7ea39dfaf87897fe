"""Normalizations of rows in plans, joined to their neighbours, and gradients of slices that do not overlap."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Tensor, compiled, func
from burnpy.backend import NumPy
from burnpy.func.pytree import flatten
from burnpy.nn.functional import layer_norm, rms_norm
from burnpy_numpy.kernels.kernel import kernels_enabled
from tests.rows import every_row

Train = Autodiff[NumPy]
rng = np.random.default_rng(0)
joins = pytest.mark.skipif(not kernels_enabled(), reason="kernels join normalizations to their neighbours")


def data(*shape: int, dtype: str = "float32") -> Tensor[NumPy]:
    return Tensor[NumPy].from_data(rng.standard_normal(shape), dtype=dtype)


def agree(got: Any, expected: Any, rtol: float = 2e-5) -> None:
    for x, y in zip(flatten(got)[0], flatten(expected)[0], strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        np.testing.assert_allclose(x.to_numpy(), y.to_numpy(), rtol=rtol, atol=rtol)


def layered(x: Any, weight: Any, bias: Any) -> Any:
    return layer_norm(x, weight.shape, weight, bias)


def root(x: Any, weight: Any, bias: Any) -> Any:
    return rms_norm(x, weight.shape, weight) + bias


NORMS = {"layer_norm": layered, "rms_norm": root}
CASES = [
    ((6, 8), (8,)),
    ((2, 3, 8), (8,)),
    ((2, 3, 4, 5), (4, 5)),
    ((1, 8), (8,)),
    ((200, 33), (33,)),
    ((8,), (8,)),
    ((5, 1), (1,)),
]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("shape", "last"), CASES)
@pytest.mark.parametrize("name", NORMS)
def test_values_and_gradients(name: str, shape: tuple[int, ...], last: tuple[int, ...], dtype: str) -> None:
    norm = NORMS[name]

    def f(x: Any, y: Any, weight: Any, bias: Any) -> Any:
        z = x * 2.0 + y
        return (norm(z, weight, bias).tanh() + z, z) if shape[-1] > 1 else (norm(z, weight, bias), z * 0.0)

    def loss(*given: Any) -> Any:
        out, z = f(*given)
        return (out * z.sin()).sum()

    slopes = func.grad(loss, argnums=(0, 1, 2, 3))
    plan, planned = compiled(f), compiled(slopes)
    for _ in range(2):
        given = [data(*s, dtype=dtype) for s in (shape, shape, last, last)]
        agree(plan(*given), f(*given))
        agree(planned(*given), slopes(*given), 2e-4 if dtype == "float32" else 1e-9)


@joins
def test_a_residual_and_what_follows_are_in_one_kernel() -> None:
    def f(x: Any, y: Any, weight: Any, bias: Any) -> Any:
        return layered(x + y, weight, bias).relu() * 2.0

    plan = compiled(f).explain(data(4, 8), data(4, 8), data(8), data(8))
    assert [part.operations for part in plan.parts if hasattr(part, "operations")] == [
        ("add", "normalize", "relu", "mul")
    ]
    slope = compiled(func.grad(lambda *given: f(*given).sum(), argnums=(0, 2, 3)))
    names = [part.operations for part in slope.explain(data(4, 8), data(4, 8), data(8), data(8)).programs]
    assert any("normalize_backward" in name and len(name) > 1 for name in names)


@joins
def test_gradients_by_weights_are_known_after_the_last_row() -> None:
    def f(x: Any, weight: Any, bias: Any) -> Any:
        by_x, by_weight = func.grad(lambda x, weight: layered(x, weight, bias).sin().sum(), argnums=(0, 1))(x, weight)
        return by_x * by_weight + by_weight, by_weight

    given = data(6, 8), data(8), data(8)
    plan = compiled(f)
    agree(plan(*given), f(*given), 1e-4)
    names = [part.operations for part in plan.plans[0].programs]
    assert names[-1] == ("mul", "add")
    assert names[-2][-1] == "normalize_backward"


def test_norms_of_other_dims_and_weights_stay_operations() -> None:
    def f(x: Any, weight: Any) -> Any:
        device = x.device
        first = device.normalize(x._primitive, weight._primitive, weight._primitive, (0,), 1e-5)[0]
        return x._like(first) + x

    x, weight = data(4, 8), data(4, 1)
    agree(compiled(f)(x, weight), f(x, weight))


def test_squares_that_overflow_give_nan_and_never_zeros() -> None:
    x = Tensor[NumPy].from_data([[1e30, -1e30, 2e30, 3.0], [1.0, 2.0, 3.0, 4.0]])
    weight, bias = data(4), data(4)
    out, expected = (f(x, weight, bias).to_numpy() for f in (compiled(layered), layered))
    np.testing.assert_allclose(out[1], expected[1], rtol=2e-5, atol=2e-5)
    assert np.isnan(out[0]).all() or np.allclose(out[0], expected[0], rtol=2e-5)


PARTS: dict[str, Any] = {
    "all parts": lambda x: [x[:, :2], x[:, 2:5], x[:, 5:]],
    "a gap": lambda x: [x[:, 5:7], x[:, :2]],
    "overlapping": lambda x: [x[:, :4], x[:, 2:]],
    "one twice": lambda x: [x[:, :4], x[:, :4], x[:, 4:]],
    "two dims": lambda x: [x[:2], x[:, 3:5]],
    "an empty one": lambda x: [x[:, 3:3], x[:, 3:]],
    "steps": lambda x: [x[:, ::2], x[:, 1::2]],
    "elements": lambda x: [x[0], x[1], x[-1]],
}


@every_row("name", PARTS)
def test_gradients_of_slices(name: str) -> None:
    """Slices that do not overlap are written, and zeros where there is none; others are added."""

    def step(x: Any) -> Any:
        parts = PARTS[name](x * 1.0)
        total = sum(((part * (k + 1.5)).sin().sum() for k, part in enumerate(parts)), start=x.sum() * 0.0)
        return x.grad(total.backward())

    plan = compiled(step)
    for _ in range(2):
        x = Tensor[Train].from_data(rng.standard_normal((4, 8))).require_grad()
        agree(plan(x), step(x))


@joins
def test_parts_of_one_product_need_no_zeros() -> None:
    def loss(x: Any, w: Any) -> Any:
        q, k, v = (x @ w).chunk(3, dim=-1)
        return ((q @ k.mT).softmax(-1) @ v).sum()

    source = compiled(func.grad(loss, argnums=1)).explain(data(4, 6), data(6, 9)).source
    assert ".fill(" not in source
