"""Displays of a run: plain lines, a live view on a terminal, drawn by rich, or in a notebook, and `Progress` bars."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from html import escape
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TextIO

from burnpy.backend import html
from burnpy.backend.errors import counted
from burnpy.tensor.call_errors import Explaining
from burnpy.tensor.dim_checks import checked_count
from burnpy.train.board import charts
from burnpy.train.events import BatchEnd, EpochEnd, EpochStart, Event, FitEnd, FitStart, ValidEnd
from burnpy.typevars import T

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

READ_EVERY = 0.1
"""Seconds between two readings of the loss of a batch, for which a GPU has to be waited for."""
MOST_READ = 2000
"""The losses of batches that are kept of a run; when there are more, every other one is dropped."""


class History:
    """Collects the values that events bring; reads no more than ten losses a second from the device."""

    def __init__(self) -> None:
        self.epoch = self.epochs = self.batch = self.step = 0
        self.batches: int | None = None
        self.lr = math.nan
        self.values: dict[str, list[float]] = {}  #: by name, one for each epoch or validation
        self.better: dict[str, str] = {}  #: "min" or "max", by name
        self.steps: dict[str, list[int]] = {}  #: of these values
        self.losses: list[float] = []  #: of batches of this epoch, as far as they were read
        self.read: list[tuple[float, float]] = []  #: losses of batches of the whole run, with their steps
        self.samples = 0.0  #: trained on in this epoch
        self.began = time.perf_counter()  #: of this epoch
        self.ended: str | None = None
        self._read = 0.0

    def note(self, event: Event[Any]) -> None:
        """Take the values of an event."""
        if isinstance(event, FitStart):
            self.epoch, self.epochs, self.batch, self.step = event.epoch, event.epochs, event.batch, event.step
            self.batches = event.batches
        elif isinstance(event, EpochStart):
            self.epoch, self.losses, self.samples, self.began = event.epoch, [], 0.0, time.perf_counter()
        elif isinstance(event, BatchEnd):
            self.batch, self.step, self.lr = event.batch + 1, event.step, event.lr
            self.samples += event.size
            now = time.perf_counter()
            if now - self._read >= READ_EVERY:
                self._read = now
                self.losses.append(event.loss.item())
                self.read.append((event.step, self.losses[-1]))
                if len(self.read) > MOST_READ:
                    del self.read[1::2]
        elif isinstance(event, (ValidEnd, EpochEnd)):
            self._add(event)
        elif isinstance(event, FitEnd):
            self.ended = event.result.stopped or "done"

    def _add(self, event: ValidEnd[Any] | EpochEnd[Any]) -> None:
        validation = isinstance(event, ValidEnd)
        for name, value in event.values.items():
            if name != "lr" and name.startswith("valid/") == validation:
                self.values.setdefault(name, []).append(value)
                self.steps.setdefault(name, []).append(event.step)
                self.better[name] = event.metrics[name].better
        if not validation:
            self.epoch, self.batch = event.epoch + 1, 0

    def best(self, name: str) -> float:
        """Return the best value so far; NaN if there is none."""
        finite = [v for v in self.values.get(name, ()) if math.isfinite(v)]
        if not finite:
            return math.nan
        return min(finite) if self.better[name] == "min" else max(finite)

    def throughput(self) -> float:
        """Return the samples per second of this epoch."""
        return self.samples / max(time.perf_counter() - self.began, 1e-9)

    def facts(self) -> list[str]:
        """Return the step, the learning rate, the throughput, the memory and how the run ended, as texts."""
        memory = resident_megabytes()
        facts = [f"step {self.step}"]
        facts += [] if math.isnan(self.lr) else [f"lr {self.lr:.3g}"]
        facts += [f"{self.throughput():,.0f} samples/s"] if self.samples else []
        facts += [f"{memory:,.0f} MB"] if memory is not None else []
        return [*facts, self.ended] if self.ended else facts

    def rows(self) -> list[tuple[str, str, str]]:
        """Return the name of each value, the last one and the best."""
        return [(name, f"{series[-1]:.4g}", f"{self.best(name):.4g}") for name, series in list(self.values.items())]


_BLOCKS, _WIDTH = "▁▂▃▄▅▆▇█", 24


def sparkline(values: Sequence[float]) -> str:
    """Return a curve of 24 characters at most; more values are averaged, values that are not finite are blanks.

    >>> sparkline([1.0, 2.0, 3.0, 8.0]), sparkline([5.0, float("nan"), 5.0]), sparkline([])
    ('▁▂▃█', '▁ ▁', '')
    """
    if len(values) > _WIDTH:
        bounds = [round(k * len(values) / _WIDTH) for k in range(_WIDTH + 1)]
        values = [_mean(values[a:b]) for a, b in pairwise(bounds)]
    finite = [v for v in values if math.isfinite(v)]
    if not finite:
        return " " * len(values)
    low, high = min(finite), max(finite)
    scale = (len(_BLOCKS) - 1) / (high - low) if high > low else 0.0
    return "".join(_BLOCKS[round((v - low) * scale)] if math.isfinite(v) else " " for v in values)


def _mean(values: Sequence[float]) -> float:
    finite = [v for v in values if math.isfinite(v)]
    return sum(finite) / len(finite) if finite else math.nan


def resident_megabytes() -> float | None:
    """Return the memory that the process occupies, in MB; its peak where the system does not tell; None if neither.

    >>> (resident_megabytes() or 1.0) > 0
    True
    """
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            pages = int(file.read().split()[1])
        from resource import getpagesize

        return pages * getpagesize() / 1e6
    except (OSError, ImportError):
        pass
    try:
        from resource import RUSAGE_SELF, getrusage
    except ImportError:  # Windows
        return None
    return getrusage(RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


class Lines:
    """Writes a line at the start, one for each epoch and one at the end."""

    def __init__(self, file: TextIO) -> None:
        self.file = file
        self.history = History()

    def log(self, event: Event[Any]) -> None:
        """Write the line of an event, if it has one."""
        rate = self.history.throughput()
        self.history.note(event)
        if isinstance(event, FitStart):
            resumed = f", resumed from {event.resumed} at step {event.step}" if event.resumed else ""
            batches = f" of {event.batches} batches" if event.batches else ""
            self._write(f"{counted(event.epochs, 'epoch')}{batches}{resumed}")
        elif isinstance(event, EpochEnd):
            shown = ", ".join(f"{name} {value:.4g}" for name, value in event.values.items())
            count = f"epoch {event.epoch + 1}/{self.history.epochs}, step {event.step}"
            self._write(f"{count}: {shown} ({event.seconds:.1f} s, {rate:,.0f} samples/s)")
        elif isinstance(event, FitEnd):
            self._write(f"stopped: {event.result.stopped}" if event.result.stopped else "done")

    def close(self) -> None:
        """Nothing is left open."""

    def _write(self, text: str) -> None:
        print(text, file=self.file, flush=True)


class Terminal:
    """Draws bars of epochs and batches and a table of the values by rich, ten times a second; prints appear above."""

    def __init__(self, console: Console) -> None:
        from rich import progress  # here and below, as the package is an extra
        from rich.live import Live

        self.history = History()
        columns = (
            progress.TextColumn("{task.description:<6}"),
            progress.BarColumn(bar_width=None),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            progress.TimeRemainingColumn(compact=True),
        )
        self._bars = progress.Progress(*columns, console=console, expand=True)
        self._epochs = self._bars.add_task("epochs", total=None)
        self._batches = self._bars.add_task("batch", total=None)
        self._live = Live(console=console, refresh_per_second=10, get_renderable=self._drawn, transient=False)

    def log(self, event: Event[Any]) -> None:
        """Take note of an event; the first starts the drawing, the last ends it."""
        self.history.note(event)
        now = self.history
        if isinstance(event, FitStart):
            self._bars.update(self._epochs, total=event.epochs, completed=event.epoch)
            self._bars.update(self._batches, total=event.batches, completed=event.batch)
            self._live.start(refresh=True)
        elif isinstance(event, EpochStart):
            self._bars.reset(self._batches, total=now.batches, completed=now.batch)
        elif isinstance(event, BatchEnd):
            total = now.batches or now.batch
            self._bars.update(self._batches, completed=now.batch)
            self._bars.update(self._epochs, completed=now.epoch + now.batch / max(total, 1) * (now.batches is not None))
        elif isinstance(event, FitEnd):
            self._bars.update(self._epochs, completed=event.result.epoch)
            self.close()

    def close(self) -> None:
        """Draw once more, and give the terminal back."""
        if self._live.is_started:
            self._live.stop()

    def _drawn(self) -> RenderableType:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        now = self.history
        values = Table(box=None, pad_edge=False, expand=False)
        values.add_column("", style="bold")
        for name in ("last", "best"):
            values.add_column(name, justify="right")
        values.add_column("")
        if now.losses:
            values.add_row("batch loss", f"{now.losses[-1]:.4g}", "", sparkline(now.losses))
        for name, last, best in now.rows():
            values.add_row(name, last, best, sparkline(now.values[name]))
        facts = Text(" · ".join(now.facts()), style="dim", overflow="ellipsis", no_wrap=True)
        return Group(self._bars, facts, values)


DRAW_EVERY = 0.5
"""Seconds between two drawings."""


class Output:
    """A display below the cell, whose content is replaced at most twice a second."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._drawn = -DRAW_EVERY

    def show(self, content: Callable[[], tuple[str, str]], at_once: bool = False) -> None:
        """Show the content, HTML and its equivalent as text, unless some was shown a moment ago and it can wait."""
        now = time.perf_counter()
        if not at_once and now - self._drawn < DRAW_EVERY:
            return
        self._drawn = now
        shown, text = content()
        bundle = {"text/html": shown, "text/plain": text}
        if self._handle is None:
            self._handle = import_module("IPython.display").display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)


def bar(title: str, done: int, total: int | None, note: str = "") -> str:
    """Return a progress bar as HTML; without a total, a number."""
    drawn = f'<progress value="{done}" max="{total}" style="flex:1;max-width:30em"></progress>' if total else ""
    count = f"{done}/{total}" if total else f"{done}"
    return (
        f'<div style="display:flex;gap:.6em;align-items:center"><span style="min-width:4em">{escape(title)}</span>'
        f'{drawn}<span style="{html.FAINT}">{escape(", ".join(filter(None, (count, note))))}</span></div>'
    )


class Notebook:
    """Draws bars of epochs and batches, a table of the last and best values, and their curves."""

    def __init__(self) -> None:
        self.history = History()
        self._output = Output()

    def log(self, event: Event[Any]) -> None:
        """Take note of an event, and draw; the last one is drawn in any case."""
        self.history.note(event)
        self._output.show(self._content, at_once=isinstance(event, FitEnd))

    def close(self) -> None:
        """Draw what is known of a run that an error ended."""
        if self.history.ended is None:
            self._output.show(self._content, at_once=True)

    def _content(self) -> tuple[str, str]:
        now = self.history
        facts, rows = now.facts(), now.rows()
        curves = {name: [*zip(now.steps[name], series, strict=True)] for name, series in now.values.items()}
        drawn = html.block(
            bar("epochs", now.epoch, now.epochs),
            "" if now.ended else bar("batch", now.batch, now.batches),
            f'<div style="{html.FAINT}">{escape(" · ".join(facts))}</div>',
            html.table(["", "last", "best"], rows) if rows else "",
            charts({"batch loss": now.read, **curves}),
        )
        values = ", ".join(f"{name} {last}" for name, last, _ in rows)
        return drawn, f"epochs {now.epoch}/{now.epochs} · {' · '.join(facts)}: {values}".removesuffix(": ")


class Dashboard(metaclass=Explaining):
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
            return Notebook()
        if self._console is None and not interactive():
            return Lines(sys.stdout)
        from rich.console import Console

        console = self._console or Console()
        if not console.is_terminal:
            return Lines(console.file)  # type: ignore[arg-type]  # which prints text
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


class Progress(metaclass=Explaining):
    """A progress bar with values beside it, on a terminal or in a notebook; elsewhere, a line after each tenth.

    Args:
        total: the number of steps, or None if it is not known.
        title: the text in front of the bar.

    Raises:
        ArgumentError: ``total`` is not an int, or is negative.

    >>> with Progress(3, "fit") as progress:
    ...     for step in range(3):
    ...         progress.advance(loss=1.0 / (step + 1))
    fit 1/3, loss 1
    fit 2/3, loss 0.5
    fit 3/3, loss 0.3333
    """

    def __init__(self, total: int | None = None, title: str = "") -> None:
        self.total = None if total is None else checked_count(total, "total", 0, "Progress()")
        self.title, self.done = title, 0
        self._bar: Any = None
        self._output: Output | None = None
        self._values = ""
        self._shown = -1
        self._began = time.perf_counter()

    def __enter__(self) -> Self:
        if in_notebook():
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
        return bar(self.title, self.done, self.total, self._values), self._line()

    def over(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the items, and advance after each; by default the total is their number."""
        if self.total is None and isinstance(items, Sized):
            self.total = len(items)
        with self:
            for item in items:
                yield item
                self.advance()
