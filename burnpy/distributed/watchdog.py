"""A limit for calls of MPI that cannot be asked whether they are done: at it, all ranks end."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Watchdog:
    """Calls a function if a block takes longer than a limit. It looks at least four times within the limit.

    MPI's blocking calls are faster than those that can be polled, and do not return to Python before they are done. No
    exception can be raised in them, so the function ends the program.

    Args:
        limit: in seconds.
        end: called with a description of the block, by another thread.
    """

    def __init__(self, limit: float, end: Callable[[str], None]) -> None:
        self.limit = limit
        self._end = end
        self._block: tuple[float, str] | None = None
        self._thread: threading.Thread | None = None

    @contextmanager
    def limited(self, description: str) -> Iterator[None]:
        """Limit the time of a block. Blocks are not nested."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="burnpy watchdog", daemon=True)
            self._thread.start()
        self._block = time.monotonic() + self.limit, description
        try:
            yield
        finally:
            self._block = None

    def _watch(self) -> None:
        pause = min(1.0, self.limit / 4)
        while True:
            time.sleep(pause)
            block = self._block
            if block is not None and time.monotonic() > block[0]:
                self._end(block[1])
                return


def ending(abort: Callable[[], object]) -> Callable[[str], None]:
    """Return a function that prints a message and ends all ranks."""

    def end(message: str) -> None:
        print(f"burnpy: {message}; all ranks end", file=sys.stderr, flush=True)  # noqa: T201  # the last words
        abort()

    return end
