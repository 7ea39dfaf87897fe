"""The pinn example: its reference is the exact solution, its residual the equation's, and it learns and draws."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import burnpy
from burnpy import Autodiff, Tensor
from burnpy.backend import NumPy

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def _on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)


def exact(viscosity: float, t: float, x: npt.NDArray[np.float64]) -> Any:
    """The solution by the Cole-Hopf transform, a quotient of two Gaussian integrals (Basdevant et al. 1986)."""
    nodes, weights = np.polynomial.hermite.hermgauss(120)
    y = x[:, None] - nodes * math.sqrt(4 * viscosity * t)
    density = weights * np.exp(-(np.cos(np.pi * y) + 1) / (2 * np.pi * viscosity))
    return -(density * np.sin(np.pi * y)).sum(1) / density.sum(1)


@pytest.mark.slowest
def test_finite_differences_are_the_exact_solution() -> None:
    from pinn import VISCOSITY
    from pinn_report import finite_differences

    times, places, found = finite_differences(VISCOSITY)
    for moment in (0.1, 0.5, 1.0):
        row = int(np.argmin(np.abs(times - moment)))
        difference = np.abs(found[row] - exact(VISCOSITY, float(times[row]), places)).max()
        assert difference < 5e-4, f"at {moment}: far below the network's error"


def test_the_residual_is_that_of_differences() -> None:
    from pinn import VISCOSITY, random_network, residual

    burnpy.manual_seed(0)
    network = random_network(NumPy)
    network = type(network)(tuple(p.double() for p in network.parameters))
    rng = np.random.default_rng(0)
    t, x = (Tensor[NumPy].from_data(rng.uniform(low, 1, (7, 1))) for low in (0, -1))
    h = 1e-4
    u, before, after = network.forward(t, x), network.forward(t, x - h), network.forward(t, x + h)
    u_t = (network.forward(t + h, x) - network.forward(t - h, x)) / (2 * h)
    expected = u_t + u * (after - before) / (2 * h) - VISCOSITY * (after - 2 * u + before) / h**2
    np.testing.assert_allclose(residual(network, t, x).to_numpy(), expected.to_numpy(), atol=1e-6)


def test_the_weights_get_the_gradient_of_the_residual() -> None:
    from pinn import Network, random_network, residual

    burnpy.manual_seed(1)
    network = random_network(Autodiff[NumPy])
    network = Network(tuple(p.detach().double().require_grad() for p in network.parameters))
    rng = np.random.default_rng(0)
    t, x = (Tensor[Autodiff[NumPy]].from_data(rng.uniform(low, 1, (5, 1))) for low in (0, -1))
    grads = residual(network, t, x).square().mean().backward()
    assert len(grads) == len(network.parameters), "every weight matters to the equation, the last bias too"

    directions = [Tensor[NumPy].from_data(rng.normal(size=p.shape)) for p in network.parameters]
    found = sum((grads[p] * d).sum().item() for p, d in zip(network.parameters, directions, strict=True))

    def moved(step: float) -> float:
        weights = (p.inner() + step * d for p, d in zip(network.parameters, directions, strict=True))
        return residual(Network(tuple(weights)), t.inner(), x.inner()).square().mean().item()

    assert found == pytest.approx((moved(1e-6) - moved(-1e-6)) / 2e-6, rel=1e-6)


def test_the_conditions_hold_by_construction() -> None:
    from pinn import random_network

    network = random_network(NumPy)
    place = Tensor[NumPy].linspace(-1.0, 1.0, 9).unsqueeze(1)
    start = network.forward(place.zeros_like(), place)
    np.testing.assert_allclose(start.to_numpy(), -np.sin(np.pi * place.to_numpy()), atol=1e-6)
    for side in (-1.0, 1.0):
        assert network.forward(place.abs(), place * 0 + side).abs().max().item() < 1e-6


@pytest.mark.slowest
def test_a_few_epochs_learn_and_draw(example: Callable[..., str], tmp_path: Path) -> None:
    output = example("pinn", "--epochs", 3, "--out", tmp_path / "deep" / "out")
    losses = [float(found) for found in re.findall(r"loss ([\d.]+)", output)]
    assert len(losses) == 3
    assert losses[-1] < 0.7 * losses[0]
    error = re.search(r"relative L2 error against finite differences: ([\d.]+)%", output)
    assert error, output
    assert float(error.group(1)) < 40, "-sin(πx) for ever, about what an untrained network says, has 59 %"
    assert (tmp_path / "deep" / "out" / "pinn.png").read_bytes().startswith(b"\x89PNG")
