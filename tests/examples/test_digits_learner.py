"""The example with a learner trains, goes on where it was, and writes what the board reads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from burnpy.train.board.runs import runs_in

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits_learner.py"


def run(folder: Path, epochs: int) -> str:
    command = [sys.executable, "-W", "error", str(EXAMPLE), "--epochs", str(epochs), "--out", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_it_learns_and_goes_on(tmp_path: Path) -> None:
    first = run(tmp_path, 3)
    accuracy = float(first.splitlines()[-1].split()[1].rstrip("%"))
    assert accuracy > 95
    again = run(tmp_path, 3)
    assert "resumed from" in again
    assert again.splitlines()[-1] == first.splitlines()[-1]
    (shown,) = runs_in(tmp_path)
    assert len(shown.curves["valid/accuracy"]) == 3
    assert sum(map(sum, shown.matrices["valid/confusion"])) > 300
