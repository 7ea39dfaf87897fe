"""`CompileTimes`: the seconds that this process spends on compiling kernels, and a line for the user who waits."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

PATIENCE = 2.0
"""The seconds of compiling after which the user is told."""


class CompileTimes:
    """The seconds of each kernel that this process compiled, as the disk did not have it.

    Args:
        message: the line that says, once, why the process waits; ``BURNPY_PROGRESS=0`` hides it.
    """

    def __init__(self, message: str) -> None:
        self.seconds: list[float] = []
        self._untold = [message]

    def note(self, seconds: float) -> None:
        """Count a compiled kernel."""
        self.seconds.append(seconds)
        if sum(self.seconds) < PATIENCE or not self._untold or os.environ.get("BURNPY_PROGRESS", "1") == "0":
            return
        with suppress(IndexError):  # another thread has told it
            message = self._untold.pop()
            if sys.stderr is not None:  # as where there is no console
                sys.stderr.write(f"{message}\n")
