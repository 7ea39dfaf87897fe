"""The example with a learner trains, goes on where it was, and writes what the board reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from burnpy.train.board import runs_in

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("epochs", "least"), [(2, 93), pytest.param(3, 95, marks=pytest.mark.long)])
def test_it_learns_and_goes_on(epochs: int, least: float, example: Callable[..., str], tmp_path: Path) -> None:
    first = example("digits_learner", "--epochs", epochs, "--out", tmp_path)
    accuracy = float(first.splitlines()[-1].split()[1].rstrip("%"))
    assert accuracy > least
    again = example("digits_learner", "--epochs", epochs, "--out", tmp_path)
    assert "resumed from" in again
    assert again.splitlines()[-1] == first.splitlines()[-1]
    (shown,) = runs_in(tmp_path)
    assert len(shown.curves["valid/accuracy"]) == epochs
    assert sum(map(sum, shown.matrices["valid/confusion"])) > 300
