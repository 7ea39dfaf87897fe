"""The machine that PyTorch's pickles are programs for: a stack, and a memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from burnpy.backend.errors import a
from burnpy.record.torch_values import LONGEST_KEY, Limits


class Machine:
    """The stack and memory of one pickle.

    What was on the stack before a mark waits in ``marks``. So no instruction reaches a mark, or what is beneath one:
    there the stack is empty, and Python raises an IndexError.
    """

    __slots__ = ("data", "limits", "marks", "memory", "stack")

    def __init__(self, data: bytes, source: str) -> None:
        self.data = data
        self.limits = Limits(len(data), source)
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self.memory: list[Any] = []

    def marked(self) -> list[Any]:
        """Take everything after the last mark off the stack, and the mark."""
        values, self.stack = self.stack, self.marks.pop()
        return values

    def top(self, kind: type) -> Any:
        """The last value on the stack, which is to be of a kind."""
        value = self.stack[-1]
        if type(value) is not kind:
            raise TypeError(f"{a(type(value).__name__)} where {a(kind.__name__)} should be")
        return value

    def line(self, at: int, longest: int | None = None) -> tuple[bytes, int]:
        """The bytes up to the end of the line, and where the next one begins."""
        end = self.data.index(b"\n", at, None if longest is None else at + longest)
        return self.data[at:end], end + 1

    def enter(self, values: list[Any]) -> None:
        """Enter keys and values, one after the other, into the dict on top of the stack."""
        target, check = self.top(dict), self.limits.key
        for key, value in zip(values[::2], values[1::2], strict=True):
            if type(key) is not str or len(key) > LONGEST_KEY:
                check(key)
            target[key] = value


Instruction: TypeAlias = Callable[[Machine, int], int]
"""Runs one instruction, whose argument begins at a place, and returns where the next one is.

Whether the argument ends before the file does is not looked at: if not, there is no next instruction."""
