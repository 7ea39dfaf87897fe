"""Interrupting a call at every place where Python may run the handler of a signal, and at all others too."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from types import FrameType, ModuleType
from typing import Any

LONG = int(os.environ.get("BURNPY_LONG_TESTS", "0"))
"""How many examples the long form of a test has; 0 where it is not wanted."""


class Interruption(BaseException):
    """What the handler of a signal raises, as Ctrl-C raises KeyboardInterrupt."""


def interrupt() -> None:
    """The handler of a signal that raises."""
    raise Interruption


def every_opcode(
    call: Callable[[], Any], modules: tuple[ModuleType, ...], handler: Callable[[], object], *, every: int = 1
) -> Iterator[Any]:
    """Make a call anew for each of the opcodes that it executes in functions of some modules, before which ``handler``
    is called: as of a signal, but more often than signals are looked for.

    Args:
        call: made so often.
        modules: where it is interrupted.
        handler: called once in each call.
        every: how many opcodes are gone on by from one call to the next.

    Yields:
        What was raised, or what was returned where nothing was.
    """
    files = {str(module.__file__) for module in modules}
    at = every
    while True:
        once = _Once(files, at, handler)
        outcome = once.traced(call)
        if once.left > 0:
            return
        yield outcome
        at += every


class _Once:
    """A trace function that calls a handler before one opcode."""

    def __init__(self, files: set[str], at: int, handler: Callable[[], object]) -> None:
        self.files, self.left, self.handler = files, at, handler

    def traced(self, call: Callable[[], Any]) -> Any:
        before = sys.gettrace()
        sys.settrace(self._entered)
        try:
            return call()
        except BaseException as error:
            error.__context__ = None
            return error.with_traceback(None)  # of which frames would keep their variables alive
        finally:
            sys.settrace(before)

    def _entered(self, frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code.co_filename not in self.files:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._opcode

    def _opcode(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "opcode":
            self.left -= 1
            if not self.left:
                self.handler()
        return self._opcode
