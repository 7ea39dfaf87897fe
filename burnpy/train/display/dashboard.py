"""`Dashboard`: a live view of a run."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from burnpy.train.display.lines import Lines

if TYPE_CHECKING:
    from rich.console import Console

    from burnpy.train.display.terminal import Terminal
    from burnpy.train.events import Event


class Dashboard:
    """A logger that draws progress bars, losses and metrics as curves, best and last, memory and samples per second.

    It draws on a terminal, where it needs the package ``rich`` (the extra ``burnpy[train]``). Elsewhere, as in a file,
    a notebook or CI, it writes a line for each epoch. It reads at most ten losses a second from the device.

    Args:
        console: a `rich.console.Console` to draw on; None for standard output.

    >>> from burnpy.train import Dashboard
    >>> loggers = [Dashboard()]
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console
        self._view: Lines | Terminal | None = None

    def log(self, event: Event[Any]) -> None:
        """Show an event."""
        if self._view is None:
            self._view = self._opened()
        self._view.log(event)

    def close(self) -> None:
        """Give the terminal back; a later run draws anew."""
        if self._view is not None:
            self._view.close()
            self._view = None

    def _opened(self) -> Lines | Terminal:
        if self._console is None and not interactive():
            return Lines(sys.stdout)
        from rich.console import Console

        console = self._console or Console()
        if not console.is_terminal:
            return Lines(console.file)  # type: ignore[arg-type]  # which prints text
        from burnpy.train.display.terminal import Terminal

        return Terminal(console)


def interactive() -> bool:
    """Return whether a live view can be drawn: standard output is a terminal, outside of CI, and rich is installed."""
    dumb = os.environ.get("TERM") == "dumb" or bool(os.environ.get("CI"))
    return sys.stdout.isatty() and not dumb and find_spec("rich") is not None
