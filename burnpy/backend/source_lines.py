"""The user's lines that an operation was asked from: a call stack without burnpy's own frames.

What is kept of a frame is its code and line number, never its variables, so that nothing is kept alive by looking.
"""

from __future__ import annotations

import linecache
import os
import sys
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import TypeAlias

Stack: TypeAlias = tuple[tuple[CodeType, int], ...]
"""Code and line number of each of the user's frames, the innermost last; `lines_of` makes it readable."""

_OWN = (os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep, "<Autodiff.")
"""How the file names of burnpy's own code begin: its folder, and the methods that are compiled while it runs."""

_OWN_BACKENDS = ("burnpy_array", "burnpy_numpy", "burnpy_cupy")
"""The folders of the backends that burnpy brings along."""

_known: dict[str, bool] = {}  # for each file name that was met, whether it is burnpy's own


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the user's source."""

    file: str
    number: int
    function: str

    @property
    def code(self) -> str:
        """The text of the line; empty where its file cannot be read."""
        return linecache.getline(self.file, self.number).strip()

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.number}"


def user_stack(limit: int | None = None) -> Stack:
    """The user's frames from which this was called, at most the ``limit`` innermost.

    >>> def step():
    ...     return user_stack(1)
    >>> lines_of(step())[0].function
    'step'
    """
    found: list[tuple[CodeType, int]] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and len(found) != limit:
        code = frame.f_code
        own = _known.get(code.co_filename)
        if own is None:
            folder = os.path.basename(os.path.dirname(code.co_filename))
            own = _known[code.co_filename] = code.co_filename.startswith(_OWN) or folder in _OWN_BACKENDS
        if not own:
            found.append((code, frame.f_lineno or code.co_firstlineno))
        frame = frame.f_back
    found.reverse()
    return tuple(found)


def lines_of(stack: Stack) -> tuple[Line, ...]:
    """The stack as lines, the innermost last."""
    return tuple(Line(code.co_filename, number, code.co_qualname) for code, number in stack)


def format_lines(lines: tuple[Line, ...]) -> str:
    """Lines as Python shows a traceback."""
    return "\n".join(
        f'  File "{line.file}", line {line.number}, in {line.function}' + (f"\n    {line.code}" if line.code else "")
        for line in lines
    )
