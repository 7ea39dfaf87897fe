"""The first steps of training on the real CuPy: losses and gradients as NumPy's, no waiting, so many launches.

And models of `burnpy.models`: folders, logits and generated tokens as on NumPy.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burnpy
from burnpy import Autodiff, IntTensor, Tensor, models
from burnpy.backend import CuPy, Mixed, NumPy
from burnpy.backend.dtypes import dtype_of
from burnpy.nn import Linear, Module
from burnpy.optim import Adam, AdamW, GradientsParams, clip_by_global_norm
from tests.hostcuda import simulator
from tests.models import small

simulator.require()

EXAMPLES = Path(__file__).parents[2] / "examples"
Training = tuple[Any, Any, Callable[[Any], Any]]
"""A model, its optimizer, and its loss on one batch."""


def drawn(device: Any, shape: tuple[int, ...], classes: int = 10) -> tuple[Any, Any]:
    """A batch of numbers of a shape, and of classes."""
    generator = np.random.default_rng(0)
    x = Tensor.from_data(generator.normal(size=shape).astype(np.float32), device=device)
    return x, IntTensor.from_data(generator.integers(0, classes, shape[0]), device=device)


class Mlp(Module[Any]):
    def __init__(self, device: Any) -> None:
        self.a, self.b, self.c = (Linear(n, m, device=device) for n, m in ((48, 32), (32, 32), (32, 10)))

    def forward(self, x: Any) -> Any:
        return self.c(self.b(self.a(x).relu()).relu())


def mlp(device: Any) -> Training:
    x, y = drawn(device, (16, 48))
    return Mlp(NumPy).to_device(device), Adam(), lambda model: burnpy.cross_entropy(model(x), y)


def digits(device: Any) -> Training:
    """The convolutional network of examples/digits.py, without dropout, which CuPy draws in its own way."""
    from digits import Cnn

    x, y = drawn(device, (8, 1, 8, 8))
    loss = lambda model: burnpy.cross_entropy(model.logits(model.features(x)), y)  # noqa: E731
    return Cnn(NumPy).to_device(device), AdamW(weight_decay=0.01), loss


def char_gpt(device: Any) -> Training:
    from char_gpt import Gpt, mean_loss

    text = IntTensor.from_data(np.random.default_rng(0).integers(0, 90, (2, 17)), device=device)
    return Gpt(NumPy).to_device(device), AdamW(betas=(0.9, 0.98)), lambda model: mean_loss(model, text)


LAUNCHES: dict[Callable[[Any], Training], tuple[int, int]] = {mlp: (20, 26), digits: (47, 54), char_gpt: (85, 112)}
"""At most, of a step: forward, backward, clipping by the norm, and the optimizer; and of one of mixed precision."""


@pytest.fixture(autouse=True)
def _examples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those can be imported, but for what shows their results."""
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.setitem(sys.modules, "digits_report", types.SimpleNamespace())


def steps(make: Callable[[Any], Training], inner: Any) -> tuple[list[Any], simulator.Journal]:
    """The losses of two steps and the gradients of the first, on the CPU; and the second's calls of the device."""
    burnpy.manual_seed(0)
    model, optim, loss = make(Autodiff[inner])
    found: list[Any] = []
    for step in range(2):
        inner.device().synchronize()
        with simulator.watched() as journal:
            value = loss(model)
            grads = GradientsParams.from_grads(value.backward(), model)
            model = optim.step(1e-3, model, clip_by_global_norm(grads, 1.0))
        found.append(value.item())
        if step == 0:
            found += [grad.to_numpy() for _, grad in sorted(grads.named().items())]
    return found, journal


@pytest.mark.parametrize("make", LAUNCHES)
def test_the_first_steps_are_those_of_numpy(make: Callable[[Any], Training]) -> None:
    (found, journal), (wanted, _) = steps(make, CuPy), steps(make, NumPy)
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-5)
    assert journal.counts["waits"] == journal.counts["to_host"] == 0, journal.lines
    assert len(journal.launches) <= LAUNCHES[make][0], journal.launches


@pytest.mark.parametrize("make", LAUNCHES)
def test_mixed_steps_multiply_in_16_bits(make: Callable[[Any], Training]) -> None:
    """Each weight and activation is rounded once; attention rounds its weights, too, which NumPy does not."""
    (found, journal), (wanted, _) = steps(make, Mixed[CuPy]), steps(make, Mixed[NumPy])
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-2, atol=1e-2)
    assert journal.counts["waits"] == journal.counts["to_host"] == journal.counts["to_device"] == 0, journal.lines
    assert "burnpy_cast" not in journal.launches, "an operand was widened"
    assert len(journal.launches) <= LAUNCHES[make][1], journal.launches


@pytest.mark.parametrize("inner", [CuPy, Mixed[CuPy]])
def test_the_seed_of_a_backward_pass_is_filled_once(inner: Any) -> None:
    x = Tensor.from_data([3.0], device=Autodiff[inner]).require_grad()
    with CuPy().stream():
        first = (x * x).sum().backward()
    with simulator.watched() as journal:
        again = (x * x).sum().backward()
    assert first[x].tolist() == again[x].tolist() == [6.0]
    assert "burnpy_fill_float" not in journal.launches


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_running_statistics_and_their_count_are_one_launch(dtype: str) -> None:
    averages, totals = np.linspace(-1.0, 1.0, 6).reshape(2, 3), np.array([[0.5, 2.0, 3.0, 2.0], [7.0, 1.0, 5.0, 7.0]])

    def updated(device: Any) -> Any:
        lists = [[device.cast(device.from_numpy(row), dtype_of(dtype)) for row in rows] for rows in (averages, totals)]
        return device.statistics_update(device.from_numpy(np.array(1 << 40)), *lists, 0.25)

    count, moved = updated(CuPy())
    wanted, means = updated(NumPy())
    assert CuPy().to_numpy(count) == wanted == (1 << 40) + 2
    assert (count.dtype, count.shape) == (np.int64, ())
    for got, want in zip(moved, means, strict=True):
        np.testing.assert_array_equal(CuPy().to_numpy(got), want)
    with simulator.watched() as journal:
        updated(CuPy())
    assert journal.launches.count("burnpy_statistics_2") == 1
    assert "burnpy_count" not in journal.launches


@pytest.mark.parametrize("name", ["gpt2", "gemma3"])
def test_generated_tokens_are_those_of_numpy(name: str, tmp_path: Path) -> None:
    plain: Any = small.DECODERS[name]()
    plain.save_pretrained(tmp_path)
    model = plain.__class__.from_pretrained(tmp_path, device=CuPy)
    tokens = [[3, 1, 4], [7]]
    expected = plain(IntTensor.from_data(tokens[:1], device=plain.device)).to_numpy()
    found = model(IntTensor[CuPy].from_data(tokens[:1])).to_numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
    steps = list(models.generate(plain, tokens, max_new=4))
    assert list(models.generate(model, tokens, max_new=4)) == steps
    beams = models.beam_search(plain, tokens[0], max_new=3, beams=2)
    assert [beam.tokens for beam in models.beam_search(model, tokens[0], max_new=3, beams=2)] == [
        b.tokens for b in beams
    ]
