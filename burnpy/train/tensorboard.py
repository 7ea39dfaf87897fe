"""`TensorBoard`: the values of a run as event files, which TensorBoard shows."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from burnpy.backend.errors import ArgumentError, BackendUnavailableError
from burnpy.train.events import BatchEnd, EpochEnd, Event, ValidEnd
from burnpy.train.values import values_of


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
