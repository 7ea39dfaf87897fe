"""The tour of autodiff runs, which checks each of its claims, and says what it does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOUR = Path(__file__).parents[2] / "examples" / "autodiff_tour.py"
SECTIONS = (
    "A simple example",
    "Autograd in training",
    "Turning recording off and on",
    "Autograd and operations in place",
    "The profiler",
    "Advanced topic: vector-Jacobian products",
    "The high-level API",
    "Higher orders",
)


@pytest.mark.slow
def test_the_tour_runs_from_end_to_end() -> None:
    command = [sys.executable, "-W", "error", str(TOUR)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    positions = [done.stdout.find(section) for section in SECTIONS]
    assert -1 not in positions
    assert positions == sorted(positions)


def test_the_tour_claims_what_it_shows() -> None:
    assert TOUR.read_text(encoding="utf-8").count("    assert ") >= 20
