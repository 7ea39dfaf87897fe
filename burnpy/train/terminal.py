"""A live view of a run on a terminal, drawn by rich."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from burnpy.train.events import BatchEnd, EpochStart, Event, FitEnd, FitStart
from burnpy.train.history import History, resident_megabytes, sparkline

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


class Terminal:
    """Draws bars of epochs and batches and a table of the values, ten times a second; prints appear above it."""

    def __init__(self, console: Console) -> None:
        self.history = History()
        columns = (
            TextColumn("{task.description:<6}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(compact=True),
        )
        self._bars = Progress(*columns, console=console, expand=True)
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
        now = self.history
        values = Table(box=None, pad_edge=False, expand=False)
        values.add_column("", style="bold")
        for name in ("last", "best"):
            values.add_column(name, justify="right")
        values.add_column("")
        if now.losses:
            values.add_row("batch loss", f"{now.losses[-1]:.4g}", "", sparkline(now.losses))
        for name, series in list(now.values.items()):
            values.add_row(name, f"{series[-1]:.4g}", f"{now.best(name):.4g}", sparkline(series))
        memory = resident_megabytes()
        facts = [f"step {now.step}"]
        facts += [] if math.isnan(now.lr) else [f"lr {now.lr:.3g}"]
        facts += [f"{now.throughput():,.0f} samples/s"] if now.samples else []
        facts += [f"{memory:,.0f} MB"] if memory is not None else []
        facts += [now.ended] if now.ended else []
        return Group(self._bars, Text(" · ".join(facts), style="dim", overflow="ellipsis", no_wrap=True), values)
