"""Two forks on two threads give, merged, what one model gives for the whole batch."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import burnpy
from burnpy import Autodiff, IntTensor, Tensor
from burnpy.backend import NumPy

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def _on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)


@pytest.mark.parametrize("rows", [64, 65])  # halves of one size, and of two
def test_merged_gradients_are_those_of_the_whole_batch(rows: int) -> None:
    from two_threads import CLASSES, SIZE, Mlp, gradients, merged

    burnpy.manual_seed(0)
    model = Mlp(Autodiff[NumPy], hidden=32).astype("float64")
    x = Tensor[Autodiff[NumPy]].normal((rows, SIZE), dtype="float64")
    y = IntTensor[Autodiff[NumPy]].randint(0, CLASSES, (rows,))
    with ThreadPoolExecutor(2) as pool:
        loss, grads = merged(pool, model, x, y)
    expected_loss, expected = gradients(model, x, y)
    assert loss == pytest.approx(expected_loss, rel=1e-12)
    assert set(grads) == set(expected) == {param.id for param in model.params()}
    for key in expected:
        assert (grads[key] - expected[key]).abs().max().item() <= 1e-12 * expected[key].abs().max().item()


@pytest.mark.slowest
def test_both_models_end_alike(example: Callable[..., str]) -> None:
    output = example("two_threads", "--steps", 40)
    apart = [float(x) for x in re.findall(r"(\S+) apart", output)]
    assert len(apart) == 5
    assert max(apart) <= 1e-12
    losses = [float(x) for x in re.findall(r"loss ([\d.]+),", output)]
    assert losses[-1] < losses[0]
