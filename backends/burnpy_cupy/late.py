"""Errors that a GPU finds: raised when it is waited for anyway, with the line that they come from."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from burnpy.backend.primitives import Value
from burnpy.backend.source_lines import Stack, lines_of, shown, user_stack

_MOST = 1024
"""So many checks are left unanswered. A GPU's queue holds no more launches, so the first of them are done by then."""


class Check(NamedTuple):
    """Values to come, and what will be wrong with them."""

    values: tuple[Value, ...]
    error: Callable[..., Exception | None]
    stack: Stack  #: the user's line


class LateErrors:
    """The checks of one device that are not answered yet, of all threads; whoever waits for it hears of the first."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._waiting: deque[Check] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, values: tuple[Value, ...], error: Callable[..., Exception | None]) -> bool:
        """Note a check; whether there are so many that they should be answered."""
        self._waiting.append(Check(values, error, user_stack(1)))
        return len(self._waiting) >= _MOST

    def answer(self, read: Callable[[list[Value]], list[int]]) -> None:
        """Raise what is wrong with the first check that has an error, and forget it and those before it.

        Args:
            read: brings 0-d primitives to the CPU, which waits for the GPU.
        """
        checks: list[Check] = []
        while self._waiting:
            try:
                checks.append(self._waiting.popleft())
            except IndexError:  # another thread took the last
                break
        numbers = iter(read([value for check in checks for value in check.values])) if checks else iter(())
        for k, check in enumerate(checks):
            error = check.error(*[next(numbers) for _ in check.values])
            if error is not None:
                self._waiting.extendleft(reversed(checks[k + 1 :]))  # whoever goes on hears of the next
                raise self._told(error, check.stack)

    def _told(self, error: Exception, stack: Stack) -> Exception:
        """The same error, saying too why it comes late and where it was made."""
        where = f". It was asked for here:\n{shown(lines_of(stack))}" if stack else ""
        return type(error)(
            f"{error}. {self._name} is not waited for at each operation, and told only now; on Checked[CuPy] the "
            f"operation itself does{where}"
        )
