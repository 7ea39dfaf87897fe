"""Updates of optimizers on NumPy: which states are written where they lie, and that the numbers are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy.backend import NumPy
from burnpy.backend.operations.optimizer import Step
from burnpy.testing.cases import ROWS
from tests.rows import every_row

D = NumPy()
RNG = np.random.default_rng(0)
STEP = Step(0.1, 3, 0.1)
UPDATES = [
    (name, len(row.consumes), tuple(list(row.examples.values())[-1][3 + len(row.consumes) :]))
    for name, row in ROWS.items()
    if name.endswith("_update") and any(argument.name == "step" for argument in row.operation.arguments)
]
"""Updates of optimizers: operation, number of states, and what follows the `Step`."""
IN_PLACE = [update for update in UPDATES if update[0] not in ("sgd_update", "rmsprop_momentum_update")]


def given(states: int, shape: tuple[int, ...], dtype: str = "float32") -> list[list[Any]]:
    """Lists of a parameter, its gradient and its states."""
    return [[np.asarray(RNG.uniform(0.5, 1.0, shape)).astype(dtype)] for _ in range(2 + states)]


def update(name: str, lists: list[list[Any]], how: tuple[Any, ...], owned: bool) -> list[Any]:
    """The new parameter and states of one parameter."""
    return [x for (x,) in getattr(D, name)(*lists, STEP._replace(owned=owned), *how)]


def copied(lists: list[list[Any]]) -> list[list[Any]]:
    return [[x.copy()] for (x,) in lists]


@every_row(("name", "states", "how"), IN_PLACE)
@every_row("shape", [(3, 4), (), (0, 2), (70, 1000), (520, 520)])
@every_row("dtype", ["float32", "float64"])
def test_owned_states_become_the_next(
    name: str, states: int, how: tuple[Any, ...], shape: tuple[int, ...], dtype: str
) -> None:
    lists = given(states, shape, dtype)
    copies = copied(lists)
    wanted = update(name, copies, how, False)
    for (copy,), (x,) in zip(copies, lists, strict=True):
        np.testing.assert_array_equal(copy, x)
        assert not any(np.shares_memory(copy, result) for result in wanted)
    new, *found = update(name, lists, how, True)
    assert all(x is state for x, (state,) in zip(found, lists[2:], strict=True))
    assert not any(np.shares_memory(new, x) for (x,) in lists)
    for result, want in zip((new, *found), wanted, strict=True):
        assert (result.shape, result.dtype, result.tobytes()) == (want.shape, want.dtype, want.tobytes())
    for (x,), (copy,) in zip(lists[:2], copies, strict=False):
        np.testing.assert_array_equal(x, copy)


def _read_only(x: Any) -> Any:
    x = x.copy()
    x.flags.writeable = False
    return x


@pytest.mark.parametrize(("name", "states", "how"), IN_PLACE)
@pytest.mark.parametrize(
    "other",
    [_read_only, np.asfortranarray, lambda x: np.repeat(x, 2, 1)[:, ::2], lambda x: x.astype("float16")],
    ids=["read-only", "column by column", "strided", "half"],
)
def test_states_that_cannot_be_written_in_place_stay(name: str, states: int, how: tuple[Any, ...], other: Any) -> None:
    lists = [[other(x)] for (x,) in given(states, (3, 4))]
    copies = copied(lists)
    found = update(name, lists, how, True)
    for (x,), (copy,) in zip(lists, copies, strict=True):
        np.testing.assert_array_equal(x, copy)
        assert not any(np.shares_memory(x, result) for result in found)
    for result, want in zip(found, update(name, copies, how, False), strict=True):
        np.testing.assert_array_equal(result, want)


@pytest.mark.parametrize(("name", "states", "how"), UPDATES)
def test_parameters_in_one_list_are_updated_as_each_alone(name: str, states: int, how: tuple[Any, ...]) -> None:
    shapes = (((3, 4), "float32"), ((), "float64"), ((70, 1000), "float32"), ((0, 2), "float16"), ((5,), "float16"))
    alone = [given(states, shape, dtype) for shape, dtype in shapes]
    together = [[x for (x,) in column] for column in zip(*alone, strict=True)]
    found = getattr(D, name)(*together, STEP, *how)
    for k, lists in enumerate(alone):
        wanted = getattr(D, name)(*lists, STEP, *how)
        for column, want in zip(*([c] if name == "sgd_update" else c for c in (found, wanted)), strict=True):
            assert (column[k].dtype, column[k].tobytes()) == (want[0].dtype, want[0].tobytes())


def test_each_state_is_written_in_place_that_can_be() -> None:
    (param,), (grad,), (mean,), (square,) = given(2, (3, 4))
    before = square.copy()
    found = D.adam_update([param], [grad], [mean], [_read_only(square)], Step(0.1, owned=True), 0.9, 0.99, 1e-8, False)
    assert found[1][0] is mean
    assert found[2][0] is not square
    np.testing.assert_array_equal(square, before)


def test_scalars_have_no_memory() -> None:
    lists = [[np.float32(0.5)], [np.float32(0.25)], [np.float32(0.125)]]
    found = update("momentum_update", lists, (0.9, 0.0, False), True)
    assert [x.item() for (x,) in lists] == [0.5, 0.25, 0.125]
    assert found == update("momentum_update", lists, (0.9, 0.0, False), False)
