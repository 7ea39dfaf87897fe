"""The tour of autodiff runs, which checks each of its claims, and says what it does."""

from __future__ import annotations

from collections.abc import Callable
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
def test_the_tour_runs_from_end_to_end(example: Callable[..., str]) -> None:
    output = example("autodiff_tour")
    positions = [output.find(section) for section in SECTIONS]
    assert -1 not in positions
    assert positions == sorted(positions)


def test_the_tour_claims_what_it_shows() -> None:
    assert TOUR.read_text(encoding="utf-8").count("    assert ") >= 20
