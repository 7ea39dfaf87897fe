"""The GPT example reads real text, sees no characters that are to come, learns from it, and writes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import burnpy
from burnpy import IntTensor
from burnpy.backend import NumPy

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def _on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)


def test_the_text_is_that_of_the_standard_library() -> None:
    from char_gpt import decoded, encoded, standard_library

    text = standard_library()
    assert len(text) > 1_000_000
    assert "class ArgumentParser(" in text
    code = "class A:\n    def f(self):\n        ...\n"
    assert decoded(encoded(code).tolist()) == code
    assert len(encoded(code)) < len(code)


def test_no_place_sees_what_is_to_come() -> None:
    from char_gpt import ALPHABET, CONTEXT, Gpt

    burnpy.manual_seed(0)
    model = Gpt(NumPy)
    text = np.random.default_rng(0).integers(0, len(ALPHABET), (2, CONTEXT))
    changed = text.copy()
    changed[:, 40:] = (changed[:, 40:] + 1) % len(ALPHABET)
    a, b = (model(IntTensor[NumPy].from_data(x)).to_numpy() for x in (text, changed))
    np.testing.assert_allclose(a[:, :40], b[:, :40], atol=1e-5)
    assert np.abs(a[:, 40:] - b[:, 40:]).max() > 1e-2


def entropy_of_characters() -> float:
    """The least loss on the text held out that needs no context. Each version of Python has its own text."""
    from char_gpt import HELD_OUT, encoded, standard_library

    text = encoded(standard_library())
    counts = np.bincount(text[: int(HELD_OUT * len(text))])
    shares = counts[counts > 0] / counts.sum()
    return -float(shares @ np.log(shares))


@pytest.mark.slowest
@pytest.mark.parametrize(("steps", "less"), [(80, 0.25), pytest.param(120, 0.4, marks=pytest.mark.long)])
def test_it_learns_and_writes(steps: int, less: float, example: Callable[..., str]) -> None:
    output = example("char_gpt", "--steps", steps, "--length", 10)
    losses = [float(x) for x in re.findall(r"loss ([\d.]+) on the text held out", output)]
    assert len(losses) == 5
    assert losses == sorted(losses, reverse=True)
    assert losses[0] > 4
    assert losses[-1] < entropy_of_characters() - less
    assert output.count("|    def ") == 5
