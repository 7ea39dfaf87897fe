"""Logs of a run: `Jsonl` writes lines of JSON, `TensorBoard` the event files that TensorBoard shows."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from burnpy.backend.errors import ArgumentError, BackendUnavailableError, RecordFileError, path_shown
from burnpy.metrics.accuracy import ConfusionMatrix
from burnpy.metrics.metric import Metric
from burnpy.train.events import BatchEnd, EpochEnd, Event, FitEnd, FitStart, ValidEnd


def values_of(metrics: Mapping[str, Metric]) -> dict[str, float]:
    """Return the values of the metrics that are single numbers."""
    values = {name: metric.value() for name, metric in metrics.items()}
    return {name: value for name, value in values.items() if isinstance(value, float)}


class Jsonl:
    """Appends a line of JSON to a file for every epoch, every validation, and every few optimizer steps.

    Each line has "event" ("start", "batch", "valid", "epoch", "end"), "time" (seconds since 1970), "epoch", "step" and
    the values by name; confusion matrices are in "matrices". NaN and infinity are null.

    Args:
        path: the file; its folder is created.
        settings: facts about the run, for its first line: plain values by name.
        every: the number of optimizer steps between two lines of batches, whose losses are read from the device; None
            writes none.

    Raises:
        RecordFileError: the file cannot be written.
    """

    def __init__(
        self,
        path: str | Path = "runs/log.jsonl",
        every: int | None = 50,
        settings: Mapping[str, bool | int | float | str | None] | None = None,
    ) -> None:
        if every is not None and every < 1:
            raise ArgumentError(f"Jsonl(every={every!r}) is never; give an int of 1 or more, or None")
        self.path = Path(path)
        self.every = every
        self.settings = dict(settings or {})
        self._file: IO[str] | None = None

    def log(self, event: Event[Any]) -> None:
        """Write the line of an event, if it has one."""
        if isinstance(event, FitStart):
            resumed = None if event.resumed is None else str(event.resumed)
            facts = {"epochs": event.epochs, "batches": event.batches, "resumed": resumed, "settings": self.settings}
            self._write("start", event.epoch, event.step, facts)
        elif isinstance(event, BatchEnd):
            if self.every is not None and event.updated and event.step % self.every == 0:
                metrics = {f"train/{name}": metric for name, metric in event.metrics.items()}
                values = {"train/loss": event.loss.item(), **values_of(metrics), "lr": event.lr}
                self._write("batch", event.epoch, event.step, values)
        elif isinstance(event, ValidEnd):
            self._write("valid", event.epoch, event.step, {**event.values, **_matrices(event.metrics)})
        elif isinstance(event, EpochEnd):
            self._write("epoch", event.epoch, event.step, {**event.values, "seconds": event.seconds})
        elif isinstance(event, FitEnd):
            self._write("end", event.result.epoch, event.result.step, {"stopped": event.result.stopped})

    def close(self) -> None:
        """Close the file; a later run appends to it."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, kind: str, epoch: int, step: int, values: Any) -> None:
        line = {"event": kind, "time": time.time(), "epoch": epoch, "step": step}
        line |= {k: None if isinstance(v, float) and not abs(v) < float("inf") else v for k, v in values.items()}
        try:
            if self._file is None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self.path.open("a", encoding="utf-8")
                if not _ends_a_line(self.path):  # the process before was killed while it wrote
                    self._file.write("\n")
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()
        except OSError as error:
            what = f"the log {path_shown(self.path)} cannot be written: {error.strerror or error}"
            raise RecordFileError(error.errno, what) from error


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        if not file.seek(0, os.SEEK_END):
            return True
        file.seek(-1, os.SEEK_END)
        return file.read() == b"\n"


def _matrices(metrics: Mapping[str, Metric]) -> dict[str, Any]:
    matrices = {
        name: metric.value().tolist() for name, metric in metrics.items() if isinstance(metric, ConfusionMatrix)
    }
    return {"matrices": matrices} if matrices else {}


class TensorBoard:
    """Writes scalars by optimizer step: those of batches every few steps, those of epochs and validations always.

    It needs the package ``tensorboardX`` (the extra ``burnpy[train]``). ``tensorboard --logdir`` shows the files.

    Args:
        folder: the folder of this run; runs beside each other are compared.
        every: the number of optimizer steps between two entries of batches, whose losses are read from the device;
            None writes none.

    Raises:
        BackendUnavailableError: the package is missing.
    """

    def __init__(self, folder: str | Path = "runs/tensorboard", every: int | None = 50) -> None:
        if every is not None and every < 1:
            raise ArgumentError(f"TensorBoard(every={every!r}) is never; give an int of 1 or more, or None")
        self.folder = Path(folder)
        self.every = every
        self._writer: Any = None
        self._class = _writer_class()

    def log(self, event: Event[Any]) -> None:
        """Write the values of an event."""
        if isinstance(event, BatchEnd):
            if self.every is not None and event.updated and event.step % self.every == 0:
                metrics = {f"batch/{name}": metric for name, metric in event.metrics.items()}
                self._write({"batch/loss": event.loss.item(), **values_of(metrics), "lr": event.lr}, event.step)
        elif isinstance(event, ValidEnd):
            self._write(event.values, event.step)
        elif isinstance(event, EpochEnd):
            train = {name: value for name, value in event.values.items() if not name.startswith("valid/")}
            self._write({**train, "epoch": event.epoch}, event.step)

    def close(self) -> None:
        """Write pending values, and close the file; a later run begins another beside it."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _write(self, values: Any, step: int) -> None:
        if self._writer is None:
            self._writer = self._class(str(self.folder))
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)


def _writer_class() -> Any:
    try:
        package: Any = import_module("tensorboardX")  # which has no types
    except ImportError as error:
        raise BackendUnavailableError(
            'TensorBoard() needs the package tensorboardX; install it: pip install "burnpy[train]"'
        ) from error
    return package.SummaryWriter
