"""The differential machine: a fixed set of samples agrees, and what disagrees is found and shrunk."""

from __future__ import annotations

import pytest

from burnpy.backend import NumPy
from burnpy.testing.differential import TRANSFORMATIONS, differential
from burnpy.testing.differential.making import Maker
from tests.interrupting import LONG


def test_samples_depend_on_the_seed_alone() -> None:
    assert [Maker(3).sample(k).source() for k in range(5)] == [Maker(3).sample(k).source() for k in range(5)]


def test_names_are_unique() -> None:
    assert len({t.name for t in TRANSFORMATIONS}) == len(TRANSFORMATIONS)


@pytest.mark.slow
def test_elementwise_samples_agree() -> None:
    differential(NumPy, count=20, plans=0.0, entries=["add", "mul", "sin", "sum", "softmax", "mean", "exp"])


@pytest.mark.skipif(not LONG, reason="takes ten minutes: `make test-long` runs it")
def test_new_samples_agree() -> None:
    differential(NumPy, seed=LONG, count=10**6, seconds=600)
