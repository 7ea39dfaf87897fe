"""Tests draw the same numbers in any order: `tests/generators.py`."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pytest

from burnpy import Generator, Tensor, manual_seed
from burnpy.backend import NumPy
from tests.generators import Generators

rng = np.random.default_rng(0)
own = Generator(0)
FIRST = np.random.default_rng(0).random()


def drawn(generator: Generator | None = None) -> list[float]:
    return list(Tensor[NumPy].uniform((2,), generator=generator).tolist())


def test_both_draws_differ() -> None:
    assert rng.random() != rng.random()
    assert drawn(own) != drawn(own)


@pytest.mark.parametrize("time", ["the first", "a second"])
def test_a_test_draws_the_same_numbers_each_time(time: str) -> None:
    assert rng.random() == FIRST
    assert drawn(own) == drawn(Generator(0))
    assert drawn() == drawn(Generator(0))


def test_generators_of_imported_helpers_are_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    helper, module = ModuleType("tests.a_helper"), ModuleType("tests.a_test")
    helper.numbers = np.random.default_rng(3)  # type: ignore[attr-defined]  # as a module assigns it
    exec("def draw(): return numbers.random()", vars(helper))
    module.draw = helper.draw  # type: ignore[attr-defined]  # as a module imports it
    monkeypatch.setitem(sys.modules, "tests.a_helper", helper)
    generators = Generators([module])
    first = module.draw()
    assert module.draw() != first
    manual_seed(5)
    generators.restore(module)
    assert module.draw() == first
    assert drawn() == drawn(Generator(0))
