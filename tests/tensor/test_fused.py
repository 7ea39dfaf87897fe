"""Composed elementwise functions give the same numbers as one program and step by step, and so do their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Tensor, compiled, func
from burnpy.autodiff import Balanced
from burnpy.backend import NumPy, Profiled
from burnpy.nn import functional
from tests.rows import every_row

Train = Autodiff[NumPy]
FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "lerp from the start": lambda x, y: x.lerp(y, 0.3),
    "lerp from the end": lambda x, y: x.lerp(y, 0.7),
    "lerp by a tensor": lambda x, y: x.lerp(y, x),
    "smooth_l1_loss": lambda x, y: functional.smooth_l1_loss(x, y, reduction="none"),
    "smooth_l1_loss, beta": lambda x, y: functional.smooth_l1_loss(x, y, beta=0.3, reduction="none"),
    "binary_cross_entropy_with_logits": lambda x, y: functional.binary_cross_entropy_with_logits(
        x, y, reduction="none"
    ),
    "huber_loss": lambda x, y: functional.huber_loss(x, y, delta=0.7, reduction="none"),
}


def pair(dtype: str) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(40, 70)).astype(dtype) for _ in range(2))
    x[3, 5:9] = np.nan, np.inf, -np.inf, -0.0
    return x, y


@every_row("dtype", ["float32", "float64"])
@every_row("name", FUNCTIONS)
def test_large_tensors_agree_with_their_rows_and_with_tracked_ones(name: str, dtype: str) -> None:
    f, arrays = FUNCTIONS[name], pair(dtype)
    x, y = (Tensor[NumPy].from_data(a) for a in arrays)
    found = f(x, y).to_numpy()
    rows = [f(x[k : k + 1], y[k : k + 1]).to_numpy() for k in range(len(arrays[0]))]
    tracked = f(*(Tensor[Train].from_data(a).require_grad() for a in arrays)).to_numpy()
    bound = 1e-6 if dtype == "float32" else 1e-14
    for wanted in (np.concatenate(rows), tracked):
        np.testing.assert_allclose(found, wanted, rtol=bound, atol=10 * bound)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_they_run_as_programs(name: str) -> None:
    if not NumPy().fuses(pair("float32")):
        pytest.skip("without llvmlite, formulas are computed operation by operation")
    with Profiled.record() as profile:
        FUNCTIONS[name](*(Tensor[Profiled[NumPy]].from_data(a) for a in pair("float32")))
    assert "run" in {row.operation for row in profile.by_operation()}
    with Profiled.record() as profile:
        x, y = (Tensor[Autodiff[Profiled[NumPy]]].from_data(a).require_grad() for a in pair("float32"))
        FUNCTIONS[name](x, y).sum().backward()
    calls = sum(row.calls for row in profile.by_operation() if row.operation == "run")
    assert calls == 2


@every_row("dtype", ["float32", "float64"])
@every_row("name", FUNCTIONS)
def test_gradients_of_large_tensors_agree_with_those_of_operations(name: str, dtype: str) -> None:
    f, arrays = FUNCTIONS[name], pair(dtype)
    devices: tuple[Any, ...] = (Train, Autodiff[Balanced[NumPy]])
    found, wanted = (_gradients(f, [Tensor.from_data(a, device=device) for a in arrays]) for device in devices)
    bound = 1e-6 if dtype == "float32" else 1e-14
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=bound, atol=10 * bound)


def _gradients(f: Callable[[Any, Any], Any], xs: list[Any]) -> list[Any]:
    x, y = leaves = [a.require_grad() for a in xs]
    out = f(x, y)
    grads = (out * out).sum().backward()
    return [grads[a].to_numpy() for a in leaves]


def test_second_derivatives_of_large_tensors() -> None:
    def loss(x: Any) -> Any:
        return functional.huber_loss(x, x * 0.5, delta=0.4, reduction="sum")

    rng = np.random.default_rng(0)
    x, direction = (Tensor[NumPy].from_data(rng.normal(size=(40, 60))) for _ in range(2))
    found = func.hvp(loss, x, direction)[1]
    wanted = np.where(np.abs(x.to_numpy()) < 0.8, 0.25 * direction.to_numpy(), 0.0)
    np.testing.assert_allclose(found.to_numpy(), wanted)


def test_a_gradient_that_a_function_does_not_have_is_zero() -> None:
    x = Tensor[Train].from_data(np.full((40, 70), np.inf)).require_grad()
    (out,) = x._backend.fused(_first, (x._primitive, x._primitive))
    grads = x._like(out).sum().backward()
    assert grads[x].tolist() == np.ones((40, 70)).tolist()


def _first(b: Any, x: Any, y: Any) -> tuple[Any]:
    return (b.where(b.eq(y, y), x, 0.0),)


def test_small_tensors_and_different_dtypes_do_without() -> None:
    x, y = (Tensor[Profiled[NumPy]].from_data(a) for a in pair("float32"))
    with Profiled.record() as profile:
        x[0, 0].lerp(y[0, 0], 0.3)
        x.lerp(y.to_dtype("float64"), 0.3)
        x.lerp(y[0], 0.3)
    assert "run" not in {row.operation for row in profile.by_operation()}


def _scaled_difference(b: Any, x: Any, loc: Any, scale: Any) -> tuple[Any]:
    z = b.div(b.sub(x, loc), b.exp(scale))
    return (b.add(b.mul(b.mul(z, z), b.exp(b.neg(z))), scale),)


def _fused(x: Any, loc: Any, scale: Any) -> Any:
    return x._like(x.device.fused(_scaled_difference, [value._primitive for value in (x, loc, scale)])[0])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_single_elements_beside_large_tensors(dtype: str) -> None:
    """They agree with expanded ones: values, gradients, which are sums, second derivatives, plans and batches."""
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(40, 70)).astype(dtype), np.array(0.3, dtype), np.array(-0.2, dtype)]
    x, loc, scale = (Tensor[NumPy].from_data(a) for a in arrays)

    def expanded(x: Any, loc: Any, scale: Any) -> Any:
        return _fused(x, loc.expand(x.shape), scale.expand(x.shape))

    bound = 2e-5 if dtype == "float32" else 1e-12
    profiled = [Tensor[Profiled[NumPy]].from_data(a) for a in arrays]
    for found in (_fused(x, loc, scale), compiled(_fused)(x, loc, scale), _fused(*profiled)):
        np.testing.assert_allclose(found.to_numpy(), expanded(x, loc, scale).to_numpy(), rtol=bound, atol=bound)
    rows = func.vmap(_fused, in_dims=(0, None, None))(x, loc, scale)
    np.testing.assert_allclose(rows.to_numpy(), expanded(x, loc, scale).to_numpy(), rtol=bound, atol=bound)

    def loss(f: Any) -> Any:
        return lambda *xs: f(*xs).square().mean()

    def slopes(f: Any) -> Any:
        return func.grad(loss(f), argnums=(0, 1, 2))

    def curvature(f: Any) -> Any:
        return func.grad(lambda *xs: slopes(f)(*xs)[1] * slopes(f)(*xs)[2], argnums=(0, 1, 2))

    for derivative in (slopes, curvature):
        wanted = derivative(expanded)(x, loc, scale)
        for function in (derivative(_fused), compiled(derivative(_fused))):
            for one, other in zip(function(x, loc, scale), wanted, strict=True):
                assert one.shape == other.shape
                size = float(np.abs(other.to_numpy()).max())
                np.testing.assert_allclose(one.to_numpy(), other.to_numpy(), rtol=10 * bound, atol=10 * bound * size)
