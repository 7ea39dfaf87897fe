"""Handling of Ctrl-C and SIGTERM during a run: the first asks it to end after the step, the second ends it at once."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self


class Interrupts:
    """A context manager that counts SIGINT and SIGTERM in the main thread; elsewhere it does nothing.

    The first signal sets `requested`. The earlier handlers are then restored, so that the second does what it always
    does: Ctrl-C raises KeyboardInterrupt, SIGTERM ends the process.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                before = signal.getsignal(number)
                if before not in (None, signal.SIG_IGN):  # None is a handler that Python did not install
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        self._restore()

    def _restore(self) -> None:
        while self._before:
            number, before = self._before.popitem()
            signal.signal(number, before)
