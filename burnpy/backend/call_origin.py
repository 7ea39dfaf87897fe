"""The origin of a call: the user's source lines, and the pass and rule that an operation belongs to.

Only the code and line number of a frame are stored, never its variables, so that no object is kept alive.

`Autodiff` sets `op_context` while its inner device requests it (`Backend.wants_rule_context`); error messages and
profiles read it.
"""

from __future__ import annotations

import linecache
import os
import sys
from contextvars import ContextVar
from dataclasses import dataclass
from opcode import opmap
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from burnpy.backend.decorators.profile import Profile

Stack: TypeAlias = tuple[tuple[CodeType, int], ...]
"""Code and line number of each of the user's frames, the innermost last; `lines_of` formats it."""

_OWN = (os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep, "<Autodiff.", "<replay>")
"""Prefixes of the file names of burnpy's own code: its folder, and the functions that are compiled at run time."""

_OWN_BACKENDS = frozenset(("burnpy_array", "burnpy_numpy", "burnpy_cupy"))
"""The folders of the backends that ship with burnpy."""

_CACHE, _POP_TOP = opmap["CACHE"], opmap["POP_TOP"]

_known: dict[str, bool] = {}  # a cache: for each file name, whether it is burnpy's own


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the user's source."""

    file: str
    number: int
    function: str

    @property
    def code(self) -> str:
        """The text of the line; empty if the file cannot be read."""
        return linecache.getline(self.file, self.number).strip()

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.number}"


def user_stack(limit: int | None = None) -> Stack:
    """Return the user's frames of the current call stack, at most the ``limit`` innermost.

    >>> def step():
    ...     return user_stack(1)
    >>> lines_of(step())[0].function
    'step'
    """
    frames: list[tuple[CodeType, int]] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and len(frames) != limit:
        code = frame.f_code
        if not _is_own(code):
            frames.append((code, frame.f_lineno or code.co_firstlineno))
        frame = frame.f_back
    frames.reverse()
    return tuple(frames)


def _is_own(code: CodeType) -> bool:
    own = _known.get(code.co_filename)
    if own is None:
        folders = code.co_filename.split(os.sep)[-3:-1]  # a backend has files, and folders of files
        own = code.co_filename.startswith(_OWN) or not _OWN_BACKENDS.isdisjoint(folders)
        _known[code.co_filename] = own
    return own


def warn_if_dropped(caller: FrameType, message: Callable[[], str]) -> None:
    """Warn if a statement of the user's calls a function and drops its result.

    Args:
        caller: the frame that called the function. burnpy's own code is not meant.
        message: makes the text of the warning.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     exec("kept = warn_if_dropped(sys._getframe(), lambda: 'lost')")
    ...     exec("warn_if_dropped(sys._getframe(), lambda: 'lost')")
    >>> [str(warning.message) for warning in caught]
    ['lost']
    """
    code = caller.f_code
    if _is_own(code):
        return
    instructions, following = code.co_code, caller.f_lasti + 2
    while instructions[following] == _CACHE:
        following += 2
    if instructions[following] == _POP_TOP:
        import warnings

        module = caller.f_globals.get("__name__", "<unknown>")  # Python shows no warning of None
        seen = caller.f_globals.setdefault("__warningregistry__", {})
        warnings.warn_explicit(message(), RuntimeWarning, code.co_filename, caller.f_lineno or 0, module, seen)


def lines_of(stack: Stack) -> tuple[Line, ...]:
    """Convert a stack to lines, the innermost last."""
    return tuple(Line(code.co_filename, number, code.co_qualname) for code, number in stack)


def format_lines(lines: tuple[Line, ...]) -> str:
    """Format lines like a Python traceback."""
    return "\n".join(
        f'  File "{line.file}"{f", line {line.number}" * (line.number > 0)}, in {line.function}'
        + (f"\n    {line.code}" if line.code else "")
        for line in lines
    )


Direction: TypeAlias = Literal["forward", "backward"]


class OpContext(NamedTuple):
    """The pass, and in a backward pass the rule, in which an operation runs."""

    direction: Direction = "forward"
    rule: str = ""  #: in a backward pass, the operation whose vjp is computed or accumulated; "" before the first
    stack: Stack = ()  #: where the forward pass recorded that operation, if within `track_lines`


FORWARD = OpContext()
op_context: ContextVar[OpContext] = ContextVar("burnpy_place", default=FORWARD)
"""The current `OpContext`. Sums of gradients belong to the rule that computed the last addend."""
recorders: ContextVar[tuple[Profile, ...]] = ContextVar("burnpy_profiles", default=())
"""The profiles being recorded in this context, the outermost first."""


def capture_context() -> Callable[[], None]:
    """Return a function that copies the `OpContext` and the profiles of this context to the one it is called in."""
    context, profiles = op_context.get(), recorders.get()

    def restore() -> None:
        op_context.set(context)
        recorders.set(profiles)

    return restore
