"""L-BFGS beside PyTorch's, call by call: with the strong Wolfe search, and with steps of a given rate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy import Autodiff, Tensor
from burnpy.backend import NumPy
from burnpy.nn import Linear
from burnpy.optim import LBfgs

torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")

Train = Autodiff[NumPy]


def rosenbrock(x: Any) -> Any:
    return ((1.0 - x[:-1]) ** 2 + 100.0 * (x[1:] - x[:-1] ** 2) ** 2).sum()


@pytest.mark.parametrize("search", [True, False])
@pytest.mark.parametrize(
    "settings", [{}, {"history_size": 3}, {"max_iter": 7, "max_eval": 5}, {"tolerance_grad": 1e-2}]
)
def test_rosenbrock(search: bool, settings: dict[str, Any]) -> None:
    start = [-1.2, 1.0, -0.5, 0.8]
    settings = {"history_size": 10, **settings} if search else {"history_size": settings.get("history_size", 10)}
    rate = 1.0 if search else 1e-3
    x = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    theirs: Any = torch.optim.LBFGS(
        [x], lr=rate, **({"line_search_fn": "strong_wolfe"} if search else {"max_iter": 1}), **settings
    )
    p, ours = Tensor[Train].from_data(start, dtype="float64").require_grad(), LBfgs(**settings)
    evaluations: list[float] = []

    def closure() -> Any:
        theirs.zero_grad()
        loss = rosenbrock(x)
        loss.backward()
        return loss

    def loss_and_grads(p: Tensor[Any]) -> Any:
        loss = rosenbrock(p)
        evaluations.append(loss.item())
        return loss, loss.backward()

    for _ in range(4 if search else 25):
        theirs.step(closure)
        if search:
            p, loss = ours.minimize(rate, p, loss_and_grads)
            assert loss.item() == rosenbrock(p).item()
        else:
            p = ours.step(rate, p, rosenbrock(p).backward())
        np.testing.assert_allclose(p.to_numpy(), x.detach().numpy(), rtol=1e-6, atol=1e-9)
        state = theirs.state[x]
        if search:
            assert len(evaluations) == state["func_evals"]
        assert next(iter(ours.state().values())).step == state["n_iter"]


def test_least_squares_of_a_layer() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 6)), rng.normal(size=(40, 2))
    layer = torch.nn.Linear(6, 2).double()
    model = Linear(6, 2, device=Train).astype("float64")
    values = {
        param.id: Tensor[NumPy].from_data(value.detach().numpy().T.copy())
        for param, value in ((model.weight, layer.weight), (model.bias, layer.bias))
        if param is not None
    }
    model = model.with_values(values)
    theirs: Any = torch.optim.LBFGS(layer.parameters(), line_search_fn="strong_wolfe", max_iter=6, history_size=10)
    ours, data = LBfgs(max_iter=6), [Tensor[Train].from_data(z) for z in (x, y)]

    def closure() -> Any:
        theirs.zero_grad()
        loss = (layer(torch.from_numpy(x)) - torch.from_numpy(y)).square().mean()
        loss.backward()
        return loss

    def loss_and_grads(model: Linear[Any]) -> Any:
        loss = (model(data[0]) - data[1]).square().mean()
        return loss, loss.backward()

    for _ in range(3):
        theirs.step(closure)
        model, loss = ours.minimize(1.0, model, loss_and_grads)
        np.testing.assert_allclose(model.weight.value.to_numpy(), layer.weight.detach().numpy().T, rtol=1e-7, atol=1e-9)
    whole = np.column_stack([x, np.ones(40)])
    residual = np.linalg.lstsq(whole, y, rcond=None)[1].sum() / y.size
    assert loss.item() == pytest.approx(residual, rel=1e-9)
