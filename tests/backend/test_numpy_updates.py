"""Updates of optimizers on NumPy: which states are written in place, and that the numbers are the same."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import numpy as np
import pytest

from burnpy.backend import Backend, NumPy
from burnpy.optim import Step
from burnpy_numpy import programs
from burnpy_numpy.programs import NumPyForeachBlocks
from tests.optim.updates import UPDATES, lists_of
from tests.rows import every_row


class InBlocks(NumPy):
    """Without kernels of lists."""

    foreach = NumPyForeachBlocks.foreach


D = NumPy()
STEP = Step(0.1, 3, 0.1)
WITH_STATES = [name for name, update in UPDATES.items() if update.signed]
on_both = pytest.mark.parametrize("device", [NumPy(), InBlocks()], ids=["kernels", "blocks"])


def given(name: str, shape: tuple[int, ...], dtype: str = "float32") -> list[list[Any]]:
    """Lists of a parameter, its gradient and its states."""
    return lists_of(UPDATES[name], [shape], dtype)


def update(device: Any, name: str, lists: list[list[Any]], owned: bool) -> list[Any]:
    """The new parameter and states of one parameter."""
    return [x for (x,) in UPDATES[name](device, lists, STEP._replace(owned=owned))]


def copied(lists: list[list[Any]]) -> list[list[Any]]:
    return [[x.copy()] for (x,) in lists]


@pytest.mark.slow
@on_both
@pytest.mark.parametrize("name", WITH_STATES)
@every_row(
    ("shape", "dtype"),
    [
        *product([(3, 4), (70, 1000)], ["float32", "float64"]),
        *(((), "float64"), ((0, 2), "float32"), ((520, 520), "float32")),
    ],
)
def test_owned_states_become_the_next(name: str, shape: tuple[int, ...], dtype: str, device: Any) -> None:
    lists = given(name, shape, dtype)
    copies = copied(lists)
    wanted = update(device, name, copies, False)
    for (copy,), (x,) in zip(copies, lists, strict=True):
        np.testing.assert_array_equal(copy, x)
        assert not any(np.shares_memory(copy, result) for result in wanted)
    new, *found = update(device, name, lists, True)
    # Rprop chooses by comparisons, which are not computed in blocks.
    in_place = type(device) is NumPy or (new.size > programs._BLOCK_ELEMENTS and name != "rprop")
    assert all((x is state) is in_place for x, (state,) in zip(found, lists[2:], strict=True))
    assert not any(np.shares_memory(new, x) for (x,) in lists)
    for result, want in zip((new, *found), wanted, strict=True):
        assert (result.shape, result.dtype, result.tobytes()) == (want.shape, want.dtype, want.tobytes())
    for (x,), (copy,) in zip(lists[:2], copies, strict=False):
        np.testing.assert_array_equal(x, copy)


def _read_only(x: Any) -> Any:
    x = x.copy()
    x.flags.writeable = False
    return x


@pytest.mark.slow
@on_both
@pytest.mark.parametrize("name", WITH_STATES)
@every_row(
    "other",
    [_read_only, np.asfortranarray, lambda x: np.repeat(x, 2, 1)[:, ::2], lambda x: x.astype("float16")],
    ids=["read-only", "column by column", "strided", "half"],
)
def test_states_that_cannot_be_written_in_place_stay(name: str, other: Any, device: Any) -> None:
    lists = [[other(x)] for (x,) in given(name, (200, 300))]
    copies = copied(lists)
    found = update(device, name, lists, True)
    for (x,), (copy,) in zip(lists, copies, strict=True):
        np.testing.assert_array_equal(x, copy)
        assert not any(np.shares_memory(x, result) for result in found)
    for result, want in zip(found, update(device, name, copies, False), strict=True):
        np.testing.assert_array_equal(result, want)


@pytest.mark.slow
@on_both
@pytest.mark.parametrize("name", UPDATES)
def test_parameters_in_one_list_are_updated_as_each_alone(name: str, device: Any) -> None:
    shapes = (((3, 4), "float32"), ((), "float64"), ((70, 1000), "float32"), ((0, 2), "float16"), ((5,), "float16"))
    alone = [given(name, shape, dtype) for shape, dtype in shapes]
    together = [[x for (x,) in column] for column in zip(*alone, strict=True)]
    found = UPDATES[name](device, together, STEP)
    for k, lists in enumerate(alone):
        for column, want in zip(found, UPDATES[name](device, lists, STEP), strict=True):
            assert (column[k].dtype, column[k].tobytes()) == (want[0].dtype, want[0].tobytes())


@on_both
def test_each_state_is_written_in_place_that_can_be(device: Any) -> None:
    param, grad, mean, (square,) = given("adam", (200, 300))
    before = square.copy()
    found = UPDATES["adam"](device, [param, grad, mean, [_read_only(square)]], Step(0.1, owned=True))
    assert found[1][0] is mean[0]
    assert found[2][0] is not square
    np.testing.assert_array_equal(square, before)


@on_both
def test_scalars_have_no_memory(device: Any) -> None:
    lists = [[np.float32(0.5)], [np.float32(0.25)], [np.float32(0.125)]]
    found = update(device, "momentum", lists, True)
    assert [x.item() for (x,) in lists] == [0.5, 0.25, 0.125]
    assert found == update(device, "momentum", lists, False)


def random_formula(seed: int) -> Any:
    """A formula of three arrays and two numbers, some of whose results may be read again, equal, or arguments."""
    draw = random.Random(seed)
    steps = [(draw.choice(OPERATIONS), draw.randrange(3 + k), draw.randrange(5 + k)) for k in range(draw.randint(2, 9))]
    results = [draw.randrange(2 if draw.random() < 0.1 else 3, 3 + len(steps)) for _ in range(draw.randint(1, 4))]

    def formula(b: Any, x: Any, y: Any, z: Any, n: Any, m: Any) -> tuple[Any, ...]:
        values = [x, y, z]
        for name, left, right in steps:
            other = [n, m, *values][right]
            values.append(getattr(b, name)(*([values[left], other] if name in OPERATIONS[:4] else [values[left]])))
        return tuple([values[k] for k in results])

    return formula


OPERATIONS = ("add", "sub", "mul", "maximum", "neg", "abs")


@pytest.mark.slow
@pytest.mark.parametrize("owned", [False, True])
def test_any_formula_in_blocks_has_the_values_of_whole_arrays(owned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever memory results and temporary values share with states that are read later."""
    monkeypatch.setattr(programs, "_BLOCK_ELEMENTS", 8)
    in_blocks = 0
    for seed in range(400):
        formula, rng = random_formula(seed), np.random.default_rng(seed)
        lists = [[rng.uniform(-1.0, 1.0, 21)] for _ in range(3)]
        wanted = Backend.foreach(D, formula, [[xs[0].copy()] for xs in lists], (0.5, 1.5))
        copies = copied(lists)
        found = InBlocks().foreach(formula, lists, (0.5, 1.5), (), owned)
        for (x,), (want,) in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(x, want)
        for (x,), (copy,) in zip(lists[: 2 if owned else 3], copies, strict=False):
            np.testing.assert_array_equal(x, copy)
        in_blocks += programs._calls(formula, 3, 2, ()) is not None
    assert in_blocks > 100
