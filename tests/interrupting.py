"""Interrupting a call at every place where Python may run the handler of a signal, and at all others too."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from threading import get_ident
from types import CodeType, FrameType, ModuleType
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
    is called: as for a signal, but more often than signals are looked for.

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
        opcodes = Opcodes(files.__contains__, at, handler)
        outcome = _outcome(opcodes, call)
        if opcodes.count < at:
            return
        yield outcome
        at += every


def _outcome(opcodes: Opcodes, call: Callable[[], Any]) -> Any:
    """What a call returned or raised, without the traceback, whose frames would keep their variables alive."""
    try:
        return opcodes.run(call)
    except BaseException as error:
        error.__context__ = None
        return error.with_traceback(None)


class Opcodes:
    """Counts the opcodes that a call executes in some files, and calls a handler before one of them.

    Python 3.11 reports opcodes to a trace function. From 3.12 on that depends on what was traced before, and
    `sys.monitoring` reports them.

    Args:
        inside: whether opcodes of a file, given by its path, count.
        at: before which of them the handler is called, from 1; 0 for none.
        handler: called once; what it raises is raised in the midst of the call.
    """

    def __init__(self, inside: Callable[[str], bool], at: int = 0, handler: Callable[[], object] = int) -> None:
        self.inside, self.at, self.handler = inside, at, handler
        self.count = 0

    def _reached(self) -> None:
        self.count += 1
        if self.count == self.at:
            self.handler()

    if sys.version_info >= (3, 12):

        def run(self, call: Callable[[], Any]) -> Any:
            """Make the call, and return what it returns."""
            monitoring, thread = sys.monitoring, get_ident()

            def executed(code: CodeType, offset: int) -> Any:
                if not self.inside(code.co_filename):
                    return monitoring.DISABLE
                if get_ident() == thread:
                    self._reached()
                return None

            tool = monitoring.DEBUGGER_ID
            monitoring.use_tool_id(tool, "interrupting")
            monitoring.register_callback(tool, monitoring.events.INSTRUCTION, executed)
            monitoring.set_events(tool, monitoring.events.INSTRUCTION)
            monitoring.restart_events()
            try:
                return call()
            finally:
                monitoring.set_events(tool, monitoring.events.NO_EVENTS)
                monitoring.free_tool_id(tool)

    else:

        def run(self, call: Callable[[], Any]) -> Any:
            """Make the call, and return what it returns."""
            before = sys.gettrace()
            sys.settrace(self._entered)
            try:
                return call()
            finally:
                sys.settrace(before)

        def _entered(self, frame: FrameType, event: str, argument: object) -> Any:
            if not self.inside(frame.f_code.co_filename):
                return None
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            return self._opcode

        def _opcode(self, frame: FrameType, event: str, argument: object) -> Any:
            if event == "opcode":
                self._reached()
            return self._opcode
