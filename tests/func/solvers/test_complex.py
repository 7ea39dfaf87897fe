"""Solvers whose unknowns are complex: as pairs of floats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy import ComplexTensor, Tensor, func, stack
from burnpy.backend import NumPy
from burnpy.backend.errors import KindError
from burnpy.func import odeint
from burnpy.testing import gradcheck

Z = ComplexTensor[NumPy]
START = Z.from_data(np.array([1.0, 1j]))
RATES = Z.from_data(np.array([-0.3 + 2j, 1j]))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["dopri5", "rk4", "rodas4"])
def test_an_equation_of_complex_numbers(method: Any) -> None:
    settings: dict[str, Any] = {"substeps": 16} if method == "rk4" else {"rtol": 1e-9, "atol": 1e-9}

    def end(rates: Any, start: Any = START) -> Any:
        return odeint(lambda t, y: rates * y, start, [0.0, 0.5, 1.0], method=method, **settings).y[-1]

    wanted = START.to_numpy() * np.exp(RATES.to_numpy())
    np.testing.assert_allclose(end(RATES).to_numpy(), wanted, rtol=1e-6)
    slope = func.grad(lambda rates: (end(rates) * 1j).real.sum())(RATES)
    np.testing.assert_allclose(slope.to_numpy(), (1j * wanted).conj(), rtol=1e-5)
    if method == "rk4":
        gradcheck(end, (RATES, START), fast_mode=True)
        many = func.vmap(lambda start: end(RATES, start))(stack([START, START * 2.0]))
        np.testing.assert_allclose(many[1].to_numpy(), 2 * wanted, rtol=1e-6)
        np.testing.assert_allclose(func.compiled(end)(RATES, START).to_numpy(), wanted, rtol=1e-6)


def test_a_tree_of_both_kinds() -> None:
    y0: Any = {"z": START, "x": Tensor[NumPy].from_data(np.array([2.0]))}
    solution = odeint(lambda t, y: {"z": RATES * y["z"], "x": -y["x"]}, y0, [0.0, 1.0])
    assert solution.y["z"].shape == (2, 2)
    np.testing.assert_allclose(solution.y["x"][-1].to_numpy(), 2 * np.exp([-1.0]), rtol=1e-6)
    y0 = START
    with pytest.raises(KindError, match=r"a result of f with Tensor\(2,\) for y0; expected a ComplexTensor"):
        odeint(lambda t, y: y.real, y0, [0.0, 1.0])
