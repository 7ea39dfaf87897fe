"""`History`: the values of a run as far as a display shows them."""

from __future__ import annotations

import math
import time
from typing import Any

from burnpy.train.events import BatchEnd, EpochEnd, EpochStart, Event, FitEnd, FitStart, ValidEnd

READ_EVERY = 0.1
"""Seconds between two readings of the loss of a batch, for which a GPU has to be waited for."""


class History:
    """Collects the values that events bring; reads no more than ten losses a second from the device."""

    def __init__(self) -> None:
        self.epoch = self.epochs = self.batch = self.step = 0
        self.batches: int | None = None
        self.lr = math.nan
        self.values: dict[str, list[float]] = {}  #: by name, one for each epoch or validation
        self.better: dict[str, str] = {}  #: "min" or "max", by name
        self.losses: list[float] = []  #: of batches of this epoch, as far as they were read
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
        elif isinstance(event, (ValidEnd, EpochEnd)):
            self._add(event)
        elif isinstance(event, FitEnd):
            self.ended = event.result.stopped or "done"

    def _add(self, event: ValidEnd[Any] | EpochEnd[Any]) -> None:
        validation = isinstance(event, ValidEnd)
        for name, value in event.values.items():
            if name != "lr" and name.startswith("valid/") == validation:
                self.values.setdefault(name, []).append(value)
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
