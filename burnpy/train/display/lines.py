"""Plain lines about a run, for logs and wherever there is no terminal."""

from __future__ import annotations

from typing import Any, TextIO

from burnpy.train.display.history import History
from burnpy.train.events import EpochEnd, Event, FitEnd, FitStart


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
            self._write(f"{event.epochs} epochs{batches}{resumed}")
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
