"""The examples of vmap learn, and what they say of their own certainty is right."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.slowest
def test_the_ensemble_is_unsure_where_there_are_no_data(example: Callable[..., str], tmp_path: Path) -> None:
    output = example("ensemble", "--steps", "200", "--out", tmp_path / "deep")
    found = re.findall(r"error ([\d.]+), error bars ([\d.]+), (\d+)% within two", output)
    (_, beside, covered), (_, gap, covered_in_gap) = [tuple(map(float, row)) for row in found]
    assert gap > 1.7 * beside
    assert min(covered, covered_in_gap) > 85
    assert (tmp_path / "deep" / "ensemble.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slowest
def test_private_training_learns(example: Callable[..., str], tmp_path: Path) -> None:
    output = example("private_digits", "--steps", "60", "--out", tmp_path / "deep")
    spent = [float(x) for x in re.findall(r"ε = ([\d.]+)", output)]
    right = [float(x) for x in re.findall(r"([\d.]+)% of held-out", output)]
    assert spent == sorted(spent)
    assert spent[-1] < 4
    assert right[-1] > 85
    assert (tmp_path / "deep" / "private_digits.png").read_bytes().startswith(b"\x89PNG")


def test_privacy_is_counted_as_for_the_gaussian_mechanism(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all members in each step Rényi's divergence of order α is α / 2σ²; sampling a fraction costs less."""
    monkeypatch.syspath_prepend(EXAMPLES)
    from private_digits import epsilon

    orders: Any = np.arange(2, 256)
    whole = (10 * orders / (2 * 4.0**2) + np.log(1e5) / (orders - 1)).min()
    assert epsilon(10, 1 - 1e-12, 4.0, 1e-5) == pytest.approx(whole, rel=1e-6)
    assert epsilon(10, 0.1, 4.0, 1e-5) < 0.3 * whole
    assert epsilon(1000, 0.01, 1.0, 1e-5) == pytest.approx(2.1, abs=0.6)
