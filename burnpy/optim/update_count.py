"""`UpdateCount`: a number of updates that only the device knows, as it does not count those that a scaler skipped.

What an optimizer computes from the number of an update, such as Adam's bias corrections, is computed on the host for
all numbers that are possible, and the device picks a row of that table. So nothing waits for the device.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from burnpy.backend.dtypes import int64
from burnpy.backend.primitives import Bool, Float, Int

_SHORTEST = 1024  #: tables are of this length or twice as long as the last, so that few are made


class UpdateCount:
    """The number of updates before a step, as a value on the device."""

    __slots__ = ("device", "value")

    def __init__(self, device: Any, value: Int) -> None:
        self.device = device
        self.value = value  #: of shape (1,)

    def read(self) -> int:
        """Return the count, for which the device is synchronized."""
        return int(self.device.discrete.to_numpy(self.value).item())

    def row(self, formula: Callable[..., tuple[float, ...]], settings: tuple[Any, ...], most: int) -> list[Float]:
        """Return ``formula(number, *settings)`` of the update after the count, as 0-d float64 primitives.

        Args:
            formula: a function of a module, so that it is known by identity.
            settings: its other arguments.
            most: the highest number that is possible.
        """
        length = max(_SHORTEST, 1 << (most - 1).bit_length())
        table, width = _table(self.device, formula, settings, length)
        row = self.device.index_select(table, 0, self.value)
        return [self.device.slice(row, (0, k)) for k in range(width)]


class UpdateCounts:
    """The counts of one step. Parameters with equal counts before it share one after it, and so one kernel.

    Args:
        device: the device of the update.
        skipped: 0-d; where it is true, the step does not count.
    """

    def __init__(self, device: Any, skipped: Bool) -> None:
        self._device = device
        self._skipped = skipped
        self._known: dict[int, UpdateCount] = {}
        self._after: dict[UpdateCount, UpdateCount] = {}

    def known(self, number: int) -> UpdateCount:
        """Return the count of a number of updates that the host knows."""
        count = self._known.get(number)
        if count is None:
            value = self._device.discrete.full((1,), number, int64)
            count = self._known[number] = UpdateCount(self._device, value)
        return count

    def after(self, count: UpdateCount) -> UpdateCount:
        """Return the count after the step."""
        new = self._after.get(count)
        if new is None:
            d = self._device.discrete
            value = d.where(self._skipped, count.value, d.add(count.value, 1))
            new = self._after[count] = UpdateCount(self._device, value)
        return new


@lru_cache(maxsize=64)
def _table(
    device: Any, formula: Callable[..., tuple[float, ...]], settings: tuple[Any, ...], length: int
) -> tuple[Float, int]:
    """Return the results of a formula of the numbers from 1 to ``length`` by row, and how many there are in a row."""
    rows = np.array([formula(number, *settings) for number in range(1, length + 1)], np.float64)
    return device.from_numpy(rows), rows.shape[1]
