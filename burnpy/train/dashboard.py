"""`Dashboard`, a live view of a run, and `Progress`, a progress bar for hand-written loops."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sized
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from burnpy.train.display import Lines
from burnpy.typevars import T

if TYPE_CHECKING:
    from rich.console import Console

    from burnpy.train.display import Notebook, Output, Terminal
    from burnpy.train.events import Event


class Dashboard:
    """A logger that draws progress bars, losses and metrics as curves, best and last, memory and samples per second.

    It draws in notebooks, and on a terminal, where it needs the package ``rich`` (the extra ``burnpy[train]``).
    Elsewhere, as in a file or CI, it writes a line for each epoch. It reads at most ten losses a second from devices.

    Args:
        console: a `rich.console.Console` to draw on; None for standard output.

    >>> loggers = [Dashboard()]
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console
        self._view: Lines | Terminal | Notebook | None = None

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

    def _opened(self) -> Lines | Terminal | Notebook:
        if self._console is None and in_notebook():
            from burnpy.train.display import Notebook

            return Notebook()
        if self._console is None and not interactive():
            return Lines(sys.stdout)
        from rich.console import Console

        console = self._console or Console()
        if not console.is_terminal:
            return Lines(console.file)  # type: ignore[arg-type]  # which prints text
        from burnpy.train.display import Terminal

        return Terminal(console)


def interactive() -> bool:
    """Return whether a live view can be drawn: standard output is a terminal, outside of CI, and rich is installed."""
    dumb = os.environ.get("TERM") == "dumb" or bool(os.environ.get("CI"))
    return sys.stdout.isatty() and not dumb and find_spec("rich") is not None


def in_notebook() -> bool:
    """Return whether the program runs in a notebook: in IPython with a kernel, as in Jupyter, VS Code and Colab."""
    package: Any = sys.modules.get("IPython")
    shell = None if package is None else package.get_ipython()
    return getattr(shell, "kernel", None) is not None


class Progress:
    """A progress bar with values beside it, on a terminal or in a notebook; elsewhere, a line after each tenth.

    Args:
        total: the number of steps, or None if it is not known.
        title: the text in front of the bar.

    >>> with Progress(3, "fit") as progress:
    ...     for step in range(3):
    ...         progress.advance(loss=1.0 / (step + 1))
    fit 1/3, loss 1
    fit 2/3, loss 0.5
    fit 3/3, loss 0.3333
    """

    def __init__(self, total: int | None = None, title: str = "") -> None:
        self.total, self.title, self.done = total, title, 0
        self._bar: Any = None
        self._output: Output | None = None
        self._values = ""
        self._shown = -1
        self._began = time.perf_counter()

    def __enter__(self) -> Self:
        if in_notebook():
            from burnpy.train.display import Output

            self._output = Output()
        elif interactive():
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(bar_width=None),
                MofNCompleteColumn(),
                TimeRemainingColumn(compact=True),
                TextColumn("{task.fields[values]}"),
                expand=True,
            )
            self._task = self._bar.add_task(self.title, total=self.total, values="")
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        if self._output is not None:
            self._output.show(self._content, at_once=True)

    def advance(self, n: int = 1, **values: float) -> None:
        """Move on by ``n`` steps, and show values, which are numbers."""
        self.done += n
        self._values = ", ".join(f"{name} {value:.4g}" for name, value in values.items())
        if self._bar is not None:
            self._bar.update(self._task, advance=n, values=self._values)
            return
        if self._output is not None:
            self._output.show(self._content)
            return
        tenth = self.done * 10 // self.total if self.total else self.done // 100
        if tenth != self._shown:
            self._shown = tenth
            sys.stdout.write(self._line() + "\n")
            sys.stdout.flush()

    def _line(self) -> str:
        count = f"{self.done}/{self.total}" if self.total else f"{self.done}"
        return f"{self.title} {count}{', ' if self._values else ''}{self._values}".strip()

    def _content(self) -> tuple[str, str]:
        from burnpy.train.display import bar

        return bar(self.title, self.done, self.total, self._values), self._line()

    def over(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the items, and advance after each; by default the total is their number."""
        if self.total is None and isinstance(items, Sized):
            self.total = len(items)
        with self:
            for item in items:
                yield item
                self.advance()
