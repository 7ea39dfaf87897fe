"""Random numbers beside PyTorch's: gradients of the same numbers, and the points of the Sobol sequence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Generator, Tensor
from burnpy.backend import NumPy

pytestmark = pytest.mark.parity
torch: Any = pytest.importorskip("torch")

Train = Autodiff[NumPy]
A = np.repeat([0.05, 0.4, 1.0, 3.0, 25.0, 300.0], 8)
B = np.tile([0.2, 1.0, 4.0, 60.0], 12)


def leaf(values: Any) -> Tensor[Train]:
    return Tensor[Train].from_data(values, dtype="float64").require_grad()


def test_gradients_of_gamma_numbers() -> None:
    """PyTorch's have three to four digits."""
    a = leaf(A)
    x = Tensor.gamma(a.shape, a, generator=Generator(0))
    expected = torch._standard_gamma_grad(torch.tensor(A), torch.tensor(x.to_numpy()))
    found = x.sum().backward()[a].to_numpy()
    shown = x.to_numpy() > 1e-300  # smaller ones underflow
    np.testing.assert_allclose(found[shown], expected.numpy()[shown], rtol=2e-3)


def test_gradients_of_beta_and_dirichlet_numbers() -> None:
    """Compute the gradients of each concentration of a weighted sum over a row of components."""
    a, b = leaf(A), leaf(B)
    x = Tensor.beta(a.shape, a, b, generator=Generator(1))
    grads = x.sum().backward()
    at, total = torch.tensor(x.to_numpy()), torch.tensor(A + B)
    fine = (x.to_numpy() > 1e-8) & (x.to_numpy() < 1 - 1e-8)
    by_a = torch._dirichlet_grad(at, torch.tensor(A), total) * (1 - at)
    by_b = -torch._dirichlet_grad(1 - at, torch.tensor(B), total) * at
    np.testing.assert_allclose(grads[a].to_numpy()[fine], by_a.numpy()[fine], rtol=5e-3, atol=1e-6)
    np.testing.assert_allclose(grads[b].to_numpy()[fine], by_b.numpy()[fine], rtol=5e-3, atol=1e-6)

    rows, weights = np.array([[0.6, 2.0, 5.0], [1.0, 1.0, 9.0]]), np.array([1.0, -2.0, 0.5])
    c = leaf(rows)
    x = Tensor.dirichlet(c.shape, c, generator=Generator(2))
    found = (x * Tensor[Train].from_data(weights)).sum().backward()[c].to_numpy()
    drawn, concentration = torch.tensor(x.to_numpy()), torch.tensor(rows)
    slope = torch._dirichlet_grad(drawn, concentration, concentration.sum(-1, True).expand_as(concentration))
    grad = torch.tensor(weights).expand_as(drawn)
    expected = slope * (grad - (drawn * grad).sum(-1, True))
    np.testing.assert_allclose(found, expected.numpy(), rtol=5e-3)


def test_sobol_points() -> None:
    for count, dims in ((100, 1), (3000, 40)):
        points = torch.quasirandom.SobolEngine(dims).draw(count, dtype=torch.float64).numpy()
        found = Tensor[NumPy].sobol((count, dims), dtype="float64").to_numpy()
        assert np.abs(found - points).max() < 2.0**-29  # PyTorch's have 30 bits
