"""Checks of `Backend.foreach`: values, memory and skipped calls of a formula with states, such as an update."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend.dtypes import bool_, float64
from burnpy.testing.checks import difference

if TYPE_CHECKING:
    from burnpy.backend.primitives import DType

SHAPES = ((2, 3), (), (0, 2), (260, 140))
NUMBERS: tuple[Any, ...] = (0.5, np.array(0.5), np.array([0.5, 0.25, 1.5, 0.75]))
"""A number, one as a primitive, and one for each of the `SHAPES`."""


def descended(b: Any, x: Any, grad: Any, velocity: Any, rate: Any, momentum: Any, up: bool) -> tuple[Any, Any]:
    """Return x and a velocity after a step of gradient descent with momentum, or of ascent."""
    velocity = b.add(b.mul(velocity, momentum), grad)
    return (b.add if up else b.sub)(x, b.mul(velocity, rate)), velocity


def check_formulas(device: Any, dtype: DType) -> None:
    """Check formulas in a dtype, with all kinds of numbers, with a flag, owned and not, skipped and not."""
    assert device.foreach(descended, ([], [], []), (0.5, 0.9), (False,)) == ([], [])
    for number, up, owned, skipped in product(NUMBERS, (False, True), (False, True), (None, False, True)):
        rng = np.random.default_rng(0)
        given = [[np.asarray(rng.uniform(0.5, 1.5, shape)).astype(dtype) for shape in SHAPES] for _ in range(3)]
        lists = tuple([[device.from_numpy(x) for x in xs] for xs in given])
        rate = number if isinstance(number, float) else device.from_numpy(number)
        flag = None if skipped is None else device.full((), skipped, bool_)
        found = device.foreach(descended, lists, (rate, 0.9), (up,), owned, flag)
        where = f"foreach in {dtype.name}, the number {number!r}, up={up}, owned={owned}, skipped={skipped}"
        assert len(found) == 2, f"{where}: there are {len(found)} lists of results"
        for k, row in enumerate(zip(*given, strict=True)):
            rates = np.broadcast_to(number, (len(SHAPES),))
            x, grad, velocity = [np.asarray(value).astype(float64) for value in row]
            expected = (x, velocity) if skipped else _expected(x, grad, velocity, float(rates[k]), up)
            for column, want in zip(found, expected, strict=True):
                values = device.to_numpy(column[k])
                assert (values.shape, values.dtype) == (x.shape, dtype), f"{where}: {values.shape}, {values.dtype}"
                wrong = difference(values, np.asarray(want).astype(dtype), 4)
                assert wrong is None, f"{where}: {wrong}"
        for xs, before in zip(lists[: 2 if owned else 3], given, strict=False):
            for x, same in zip(xs, before, strict=True):
                assert np.array_equal(device.to_numpy(x), same), f"{where}: an argument was changed"


def _expected(x: Any, grad: Any, velocity: Any, rate: float, up: bool) -> tuple[Any, Any]:
    velocity = 0.9 * velocity + grad
    return (x + rate * velocity if up else x - rate * velocity), velocity
