"""The optimizers' updates by kernels give the bits of NumPy's, use the same memory, and take what NumPy takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy.backend import Backend, NumPy
from burnpy.optim import Step
from burnpy_numpy import programs
from burnpy_numpy.programs import NumPyForeachBlocks
from tests.optim.updates import UPDATES

pytest.importorskip("llvmlite")

D: Any = NumPy()


class Blocked(NumPy):
    """Without kernels: parameters are updated block by block."""

    foreach = NumPyForeachBlocks.foreach


class Composed(NumPy):
    """By the operations that the formulas call."""

    foreach = Backend.foreach


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divide the larger parameters into several blocks, the last of another size."""
    monkeypatch.setattr(programs, "_BLOCK_ELEMENTS", 500)


ADAM = UPDATES["adam"]
STEPS = [Step(0.1), Step(0.1, 7, 0.01), Step(0.1, 3, 0.0, True), Step(0.01, 2, 0.1, True)]


def lists(states: int, dtype: str) -> list[list[Any]]:
    generator = np.random.default_rng(5)
    shapes = [(3, 5), (1,), (), (40, 30), (0, 4)]
    drawn = [[generator.uniform(0.1, 1, shape) for shape in shapes] for _ in range(2 + states)]
    return [[*(np.asarray(x).astype(dtype) for x in xs), np.dtype(dtype).type(0.5)] for xs in drawn]


def flat(found: Any) -> list[Any]:
    return [x for column in found for x in column]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", UPDATES)
def test_updates_are_numpys_bit_for_bit(name: str, dtype: str, noted: list[Any]) -> None:
    update = UPDATES[name]
    for step in STEPS:
        given = lists(len(update.signed), dtype)
        before = [x.copy() for column in given for x in column]
        noted.clear()
        found = flat(update(D, given, step))
        assert len(noted) == 1  # for all parameters
        others = [flat(update(device, given, step)) for device in (Blocked(), Composed())]
        for a, b, c in zip(found, *others, strict=True):
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(a, c)
        for x, old in zip([x for column in given for x in column], before, strict=True):
            np.testing.assert_array_equal(x, old)


def test_owned_states_are_updated_in_their_memory(noted: list[Any]) -> None:
    given = lists(2, "float32")
    wanted = flat(ADAM(D, given, Step(0.1)))
    params = [x.copy() for x in given[0]]
    found = ADAM(D, given, Step(0.1, owned=True))
    for a, b in zip(flat(found), wanted, strict=True):
        np.testing.assert_array_equal(a, b)
    for k in range(4):
        assert found[1][k] is given[2][k]
        assert found[2][k] is given[3][k]
    for old, new, before in zip(given[0], found[0], params, strict=True):
        assert not np.shares_memory(old, new)
        np.testing.assert_array_equal(old, before)


def test_a_learning_rate_makes_no_new_kernel(noted: list[Any]) -> None:
    given = lists(2, "float32")
    for number in range(1, 4):
        ADAM(D, given, Step(0.1 / number, number))
    assert len(set(map(id, noted))) == 1


def test_strides_and_other_dtypes(noted: list[Any]) -> None:
    wide = [np.random.default_rng(k).uniform(0.1, 1, (6, 10)).astype("f4")[:, ::2].T for k in range(4)]
    one = flat(ADAM(D, [[x] for x in wide], Step(0.1, owned=True)))
    same = flat(ADAM(D, [[x.copy()] for x in wide], Step(0.1)))
    for a, b in zip(one, same, strict=True):
        np.testing.assert_array_equal(a, b)
    noted.clear()
    mixed = [[x, x.astype(np.float16)] for x in wide]
    (found,) = UPDATES["sgd"](D, mixed[:2], Step(0.1))
    assert [x.dtype for x in found] == [np.float32, np.float16]
    assert len(noted) == 1  # of float32
    assert UPDATES["sgd"](D, [[], []], Step(0.1)) == ([],)
