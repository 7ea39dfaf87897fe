"""The random generators of NumPy and Python continue from a file with the same numbers."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np

from burnpy import record
from tests.rows import every_row

BITS = (np.random.PCG64, np.random.PCG64DXSM, np.random.Philox, np.random.SFC64, np.random.MT19937)


def saved(value: Any, folder: Path) -> Any:
    record.save(folder / "run.safetensors", state=value)
    return record.load(folder / "run.safetensors").parts["state"]


@every_row("bits", BITS)
def test_generators_of_numpy(bits: Any, tmp_path: Path) -> None:
    generator, other = np.random.Generator(bits(1)), np.random.Generator(bits(2))
    generator.normal(size=3)
    states = saved([generator, generator.bit_generator.state], tmp_path)
    expected = generator.normal(size=5)
    for state in states:
        other.bit_generator.state = state
        np.testing.assert_array_equal(other.normal(size=5), expected)


def test_older_generators_of_numpy_and_those_of_python(tmp_path: Path) -> None:
    older, python = np.random.RandomState(1), random.Random(1)
    older.normal(), python.gauss(0.0, 1.0)
    kept = saved((older, older.get_state(), python, python.getstate()), tmp_path)
    numbers = older.normal(), python.gauss(0.0, 1.0), python.random()
    for first, second in ((0, 2), (1, 3)):
        other, another = np.random.RandomState(2), random.Random(2)
        other.set_state(kept[first])
        another.setstate(kept[second])
        assert (other.normal(), another.gauss(0.0, 1.0), another.random()) == numbers
