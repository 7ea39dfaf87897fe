"""The state of the pickle interpreter: a stack and a memo."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from burnpy.backend.errors import a
from burnpy.record.torch_values import LONGEST_KEY, Limits


class Machine:
    """The stack and memo of one pickle.

    A mark moves the values on the stack to ``marks`` and starts an empty stack. So no instruction can reach a mark or
    the values beneath it: popping from the empty stack raises IndexError.
    """

    __slots__ = ("data", "limits", "marks", "memory", "stack")

    def __init__(self, data: bytes, source: str) -> None:
        self.data = data
        self.limits = Limits(len(data), source)
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self.memory: list[Any] = []

    def marked(self) -> list[Any]:
        """Pop the last mark and return the values that were pushed after it."""
        values, self.stack = self.stack, self.marks.pop()
        return values

    def top(self, kind: type) -> Any:
        """Return the value on top of the stack, which must be exactly of type ``kind``."""
        value = self.stack[-1]
        if type(value) is not kind:
            raise TypeError(f"{a(type(value).__name__)} where {a(kind.__name__)} should be")
        return value

    def line(self, at: int, longest: int | None = None) -> tuple[bytes, int]:
        """Return the bytes from ``at`` to the end of the line, and the position of the next line."""
        end = self.data.index(b"\n", at, None if longest is None else at + longest)
        return self.data[at:end], end + 1

    def enter(self, values: list[Any]) -> None:
        """Add alternating keys and values to the dict on top of the stack."""
        target, check = self.top(dict), self.limits.key
        for key, value in zip(values[::2], values[1::2], strict=True):
            if type(key) is not str or len(key) > LONGEST_KEY:
                check(key)
            target[key] = value


Instruction: TypeAlias = Callable[[Machine, int], int]
"""A function that runs one instruction: it takes its argument's position and returns the next instruction's.

It does not check that the argument ends before the file does: if it does not, there is no next instruction to run."""
