"""Updates of optimizers on NumPy: which states are written where they lie, and that the numbers are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnpy.backend import NumPy
from burnpy.testing.cases import ROWS
from burnpy.testing.cases.samples import Sample

D = NumPy()
RNG = np.random.default_rng(0)
IN_PLACE = [
    (name, len(row.consumes), tuple(a for a in example if not isinstance(a, Sample))[:-1])
    for name, row in ROWS.items()
    if name.endswith("_update") and row.consumes and name != "rmsprop_momentum_update"
    for example in list(row.examples.values())[-1:]
]
"""Updates that NumPy computes in place: name, number of states, settings."""


def given(states: int, shape: tuple[int, ...], dtype: str = "float32") -> list[Any]:
    return [np.asarray(RNG.uniform(0.5, 1.0, shape)).astype(dtype) for _ in range(2 + states)]


@pytest.mark.parametrize(("name", "states", "how"), IN_PLACE)
@pytest.mark.parametrize("shape", [(3, 4), (), (0, 2), (70, 1000), (520, 520)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_owned_states_become_the_next(
    name: str, states: int, how: tuple[Any, ...], shape: tuple[int, ...], dtype: str
) -> None:
    args = given(states, shape, dtype)
    copies = [x.copy() for x in args]
    wanted = getattr(D, name)(*copies, *how, False)
    for copied, x in zip(copies, args, strict=True):
        np.testing.assert_array_equal(copied, x)
        assert not any(np.shares_memory(copied, result) for result in wanted)
    new, *found = getattr(D, name)(*args, *how, True)
    assert all(x is state for x, state in zip(found, args[2:], strict=True))
    assert not any(np.shares_memory(new, x) for x in args)
    for result, want in zip((new, *found), wanted, strict=True):
        assert (result.shape, result.dtype, result.tobytes()) == (want.shape, want.dtype, want.tobytes())
    for x, copied in zip(args[:2], copies, strict=False):
        np.testing.assert_array_equal(x, copied)


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
    args = [other(x) for x in given(states, (3, 4))]
    copies = [x.copy() for x in args]
    found = getattr(D, name)(*args, *how, True)
    for x, copied in zip(args, copies, strict=True):
        np.testing.assert_array_equal(x, copied)
        assert not any(np.shares_memory(x, result) for result in found)
    for result, want in zip(found, getattr(D, name)(*copies, *how, False), strict=True):
        np.testing.assert_array_equal(result, want)


def test_each_state_is_written_in_place_that_can_be() -> None:
    param, grad, mean, square = given(2, (3, 4))
    before = square.copy()
    found = D.adam_update(param, grad, mean, _read_only(square), 0.1, 0.9, 0.99, 1e-8, 0.0, False, 1, True)
    assert found[1] is mean
    assert found[2] is not square
    np.testing.assert_array_equal(square, before)


def test_scalars_have_no_memory() -> None:
    param, grad, velocity = np.float32(0.5), np.float32(0.25), np.float32(0.125)
    found = D.momentum_update(param, grad, velocity, 0.1, 0.9, 0.0, False, 0.0, True)
    assert (param.item(), grad.item(), velocity.item()) == (0.5, 0.25, 0.125)
    assert found == D.momentum_update(param, grad, velocity, 0.1, 0.9, 0.0, False, 0.0, False)
