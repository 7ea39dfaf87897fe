"""Random numbers of plans: a draw is computed once, also where a backward pass runs a section again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from burnpy import Autodiff, Generator, Tensor, func, manual_seed
from burnpy.autodiff import checkpoint, checkpoint_sequential
from burnpy.backend import NumPy
from burnpy.func import compiled, scan
from burnpy.nn.functional import gumbel_softmax
from tests.rows import every_row


def dropped(x: Any) -> Any:
    """Return a nonlinear function of half of the elements, which are drawn."""
    return (x * 2.0 * (Tensor.uniform(x.shape, dtype=x.dtype, device=x.device) < 0.5).float()).exp()


def steps(x: Any, **options: Any) -> Any:
    """Return a sum over four steps that draw."""
    return scan(lambda c, _: (dropped(c) * 0.1, None), x, None, length=4, **options)[0].sum()


LOSSES: dict[str, Callable[[Any], Any]] = {
    "a checkpoint": lambda x: checkpoint(dropped, x).sum(),
    "checkpoints in a sequence": lambda x: checkpoint_sequential([dropped, lambda x: x.sin(), dropped], 2, x).sum(),
    "a checkpoint in a checkpoint": lambda x: checkpoint(lambda x: checkpoint(dropped, x) * dropped(x.sin()), x).sum(),
    "a scan": steps,
    "a scan in sections": lambda x: steps(x, every=2),
    "a scan in a checkpoint": lambda x: checkpoint(steps, x),
    "a scan in a scan": lambda x: scan(lambda c, _: (c + 0.1 * steps(c), None), x, None, length=2)[0].sum(),
    "gumbel_softmax": lambda x: (checkpoint(lambda x: gumbel_softmax(x.sin()) * x, x) * x).sum(),
    "hard gumbel_softmax": lambda x: (checkpoint(lambda x: gumbel_softmax(x.sin(), hard=True) * x, x) * x).sum(),
}


@every_row("name", LOSSES)
def test_values_and_gradients_are_of_the_same_draws(name: str) -> None:
    """The plan draws what eager mode draws after the same seed, at the first call and later."""
    loss = func.value_and_grad(LOSSES[name])
    plan, value = compiled(loss), compiled(LOSSES[name])
    x = Tensor[NumPy].from_data(np.linspace(-0.5, 0.5, 20))
    for seed in (1, 1, 2):
        manual_seed(seed)
        expected = loss(x)
        manual_seed(seed)
        found = plan(x)
        manual_seed(seed)
        np.testing.assert_allclose(value(x).to_numpy(), expected[0].to_numpy(), rtol=1e-6)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a.to_numpy(), b.to_numpy(), rtol=1e-6, atol=1e-9)


def test_a_generator_that_is_passed() -> None:
    """The section uses its first draws again, which eager mode leaves to the caller: y = x · g / 2."""

    def step(x: Any, generator: Generator) -> Any:
        y = checkpoint(lambda x: x * Tensor.uniform(x.shape, device=x.device, generator=generator).exp() * x, x).sum()
        return y, x.grad(y.backward())

    plan = compiled(step)
    x = Tensor[Autodiff[NumPy]].from_data(np.linspace(0.0, 1.0, 50, dtype="float32")).require_grad()
    for generator in (Generator(0), Generator(0), Generator(3)):
        y, grad = plan(x, generator)
        np.testing.assert_allclose(y.item(), (x.inner() * grad).sum().item() / 2, rtol=1e-5)
