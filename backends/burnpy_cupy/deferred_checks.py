"""Errors that a GPU finds: raised when it is waited for anyway, with the line that they come from."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from burnpy.backend.source_lines import Stack, format_lines, lines_of, user_stack

_MOST = 1024
"""So many checks are left unanswered. A GPU's queue holds no more launches, so the first of them are done by then."""
_SLOTS = 4 * _MOST
"""Slots are taken in turn; the one that is taken again was read long ago."""
Slot = tuple[int, int, int]
"""What a slot holds: a note, the least of what was too small, and the largest of what was too large."""
_UNTOUCHED: Slot = (0, (1 << 63) - 1, -(1 << 63))


class Check(NamedTuple):
    """Where the GPU writes what it finds, and what is wrong with it."""

    slots: list[int]
    error: Callable[[list[Slot]], Exception | None]  #: of what the slots hold
    stack: Stack  #: the user's line


class LateErrors:
    """The checks of one device that are not answered yet, of all threads; whoever waits for it hears of the first.

    Checks write to one piece of the GPU's memory, so that to ask a thousand of them takes one copy and no launch.

    Args:
        name: the device's.
        call: calls a function as the device must, on its GPU.
        xp: the module cupy.
    """

    def __init__(self, name: str, call: Callable[..., Any], xp: Any) -> None:
        self._name, self._call, self._xp = name, call, xp
        self._waiting: deque[Check] = deque()
        self._next = itertools.count()
        self._memory: Any = None
        self._making = Lock()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def memory(self) -> Any:
        """On the GPU: for each slot the numbers of `Slot`. Made when it is first asked for."""
        if self._memory is None:
            with self._making:
                if self._memory is None:
                    self._memory = self._call(self._xp.array, np.tile(np.array(_UNTOUCHED), _SLOTS))
        return self._memory

    def slot(self) -> int:
        """Where the next check writes: of three numbers in `memory`, the first."""
        return len(_UNTOUCHED) * (next(self._next) % _SLOTS)

    def add(self, slots: list[int], error: Callable[[list[Slot]], Exception | None]) -> None:
        """Note a check; where there are many that are unanswered, answer them."""
        self._waiting.append(Check(slots, error, user_stack(1)))
        if len(self._waiting) >= _MOST:
            self.answer()

    def answer(self) -> None:
        """Raise what is wrong with the first check that has an error, and forget it and those before it."""
        checks: list[Check] = []
        while self._waiting:
            try:
                checks.append(self._waiting.popleft())
            except IndexError:  # another thread took the last
                break
        held = self._read([slot for check in checks for slot in check.slots]) if checks else {}
        for k, check in enumerate(checks):
            error = check.error([held[slot] for slot in check.slots])
            if error is not None:
                self._call(self._clear, check.slots)
                self._waiting.extendleft(reversed(checks[k + 1 :]))  # whoever goes on hears of the next
                raise self._told(error, check.stack)

    def _read(self, slots: list[int]) -> dict[int, Slot]:
        """What slots hold, which waits for the GPU."""
        first, stop = min(slots), max(slots) + 3
        numbers = self._call(self.memory[first:stop].get).tolist()
        return {slot: tuple(numbers[slot - first : slot - first + 3]) for slot in slots}

    def _clear(self, slots: list[int]) -> None:
        untouched = self._xp.array(np.array(_UNTOUCHED))
        for slot in slots:
            self.memory[slot : slot + 3] = untouched

    def _told(self, error: Exception, stack: Stack) -> Exception:
        """The same error, saying too why it comes late and where it was made."""
        where = f". It was asked for here:\n{format_lines(lines_of(stack))}" if stack else ""
        return type(error)(
            f"{error}. {self._name} is not waited for at each operation, and told only now; on Checked[CuPy] the "
            f"operation itself does{where}"
        )
