"""Logs of a run: `Jsonl` writes lines of JSON, `TensorBoard` event files, and `MLflow` logs to its server."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

from burnpy.backend.errors import ArgumentError, RecordFileError, path_shown
from burnpy.backend.lazy import needed
from burnpy.backend.storage import refuse_url
from burnpy.metrics.confusion_matrix import ConfusionMatrix
from burnpy.metrics.metric import Metric
from burnpy.optim.settings import count
from burnpy.record.record import save
from burnpy.tensor.call_errors import Explaining
from burnpy.tensor.tensor_base import describe
from burnpy.train.callback import check_name
from burnpy.train.events import BatchEnd, EpochEnd, Event, FitEnd, FitStart, ValidEnd


def values_of(metrics: Mapping[str, Metric]) -> dict[str, float]:
    """Return the values of the metrics that are single numbers."""
    values = {name: metric.value() for name, metric in metrics.items()}
    return {name: value for name, value in values.items() if isinstance(value, float)}


class Jsonl(metaclass=Explaining):
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
        check_interval("Jsonl", every)
        refuse_url(path, "Jsonl()")
        self.path = Path(path)
        self.every = every
        self.settings = _checked_settings("Jsonl", settings)
        self._file: IO[str] | None = None

    def log(self, event: Event[Any]) -> None:
        """Write the line of an event, if it has one."""
        if isinstance(event, FitStart):
            resumed = None if event.resumed is None else str(event.resumed)
            facts = {"epochs": event.epochs, "batches": event.batches, "resumed": resumed, "settings": self.settings}
            self._write("start", event.epoch, event.step, facts)
        elif isinstance(event, BatchEnd):
            if is_due(event, self.every):
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


class TensorBoard(metaclass=Explaining):
    """Writes scalars by optimizer step: those of batches every few steps, those of epochs and validations always.

    It needs the package ``tensorboardX`` (the extra ``burnpy[train]``). ``tensorboard --logdir`` shows the files.

    Args:
        folder: the folder of this run; runs beside each other are compared.
        every: the number of optimizer steps between two entries of batches, whose losses are read from the device;
            None writes none.

    Raises:
        MissingPackageError: the package is missing.
    """

    def __init__(self, folder: str | Path = "runs/tensorboard", every: int | None = 50) -> None:
        check_interval("TensorBoard", every)
        self.folder = os.fspath(folder)
        self.every = every
        self._writer: Any = None
        self._class: Any = needed("tensorboardX", "TensorBoard()", "tensorboardX", "train").SummaryWriter

    def log(self, event: Event[Any]) -> None:
        """Write the values of an event."""
        step, values = scalars(event, self.every)
        if values and self._writer is None:
            self._writer = self._class(self.folder)
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Write pending values, and close the file; a later run begins another beside it."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


class MLflow(metaclass=Explaining):
    """Logs to MLflow: settings as parameters, the scalars of `TensorBoard` as metrics, and the model as an artifact.

    The trained model is the artifact ``model.safetensors``, which `burnpy.record.load` reads. The tracking server is
    MLflow's: ``MLFLOW_TRACKING_URI`` or ``mlflow.set_tracking_uri``. It needs the package ``mlflow`` (the extra
    ``burnpy[mlflow]``).

    Args:
        experiment: the name of the experiment, which is created; each fit is a new run of it. None logs to the active
            run, as within ``with mlflow.start_run():``, and leaves it open.
        run: the name of the run; None lets MLflow choose one.
        every: the number of optimizer steps between two entries of batches, whose losses are read from the device;
            None writes none.
        settings: facts about the run, its parameters: plain values by name.
        model: whether to log the trained model.

    Raises:
        MissingPackageError: the package is missing.
        ArgumentError: at the start of a fit, there is neither an experiment nor an active run.
    """

    def __init__(
        self,
        experiment: str | None = None,
        run: str | None = None,
        every: int | None = 50,
        settings: Mapping[str, bool | int | float | str | None] | None = None,
        model: bool = True,
    ) -> None:
        check_interval("MLflow", every)
        check_name("MLflow", "experiment", experiment)
        check_name("MLflow", "run", run)
        self.experiment = experiment
        self.run = run
        self.every = every
        self.settings = _checked_settings("MLflow", settings)
        self.model = model
        needed("mlflow", "MLflow()", "mlflow", "mlflow")
        self._client: Any = None  # while a run is open
        self._id = ""  # of the run
        self._status = "FAILED"  # until it has ended

    def log(self, event: Event[Any]) -> None:
        """Log the values of an event, or the trained model."""
        client = self._started() if self._client is None else self._client
        step, values = scalars(event, self.every)
        if values:
            entities, now = import_module("mlflow.entities"), int(1000 * time.time())
            metrics = [entities.Metric(name, value, now, step) for name, value in values.items()]
            client.log_batch(self._id, metrics=metrics)
        elif isinstance(event, FitEnd):
            if self.model:
                with TemporaryDirectory() as folder:
                    path = os.path.join(folder, "model.safetensors")
                    save(path, model=event.result.model)
                    client.log_artifact(self._id, path)
            self._status = "KILLED" if event.result.stopped == "interrupted" else "FINISHED"

    def close(self) -> None:
        """End the run, unless it was active before."""
        if self._client is not None and self.experiment is not None:
            self._client.set_terminated(self._id, self._status)
        self._client, self._status = None, "FAILED"

    def _started(self) -> Any:
        mlflow: Any = import_module("mlflow")
        client = mlflow.MlflowClient()
        if self.experiment is not None:
            found = client.get_experiment_by_name(self.experiment)
            experiment = client.create_experiment(self.experiment) if found is None else found.experiment_id
            self._id = client.create_run(experiment, run_name=self.run).info.run_id
        elif (active := mlflow.active_run()) is not None:
            self._id = active.info.run_id
        else:
            raise ArgumentError(
                'MLflow() has no experiment, and no run is active; write MLflow("digits"), or train in '
                "with mlflow.start_run():"
            )
        self._client = client
        for name, value in self.settings.items():
            client.log_param(self._id, name, value)
        return client


def scalars(event: Event[Any], every: int | None) -> tuple[int, dict[str, float]]:
    """Return the optimizer step of an event and its values by name: of batches every few steps, of others all."""
    if isinstance(event, BatchEnd) and is_due(event, every):
        metrics = {f"batch/{name}": metric for name, metric in event.metrics.items()}
        return event.step, {"batch/loss": event.loss.item(), **values_of(metrics), "lr": event.lr}
    if isinstance(event, ValidEnd):
        return event.step, {**event.values}
    if isinstance(event, EpochEnd):
        train = {name: value for name, value in event.values.items() if not name.startswith("valid/")}
        return event.step, {**train, "epoch": event.epoch}
    return 0, {}


def is_due(event: BatchEnd[Any], every: int | None) -> bool:
    """Return whether a batch completed an optimizer step whose values are logged."""
    return every is not None and event.updated and event.step % every == 0


def check_interval(logger: str, every: int | None) -> None:
    """Check the number of optimizer steps between two entries."""
    if every is not None:
        count(every, f"{logger}(every=)")


def _checked_settings(logger: str, settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the settings of a logger, after checking that a line of JSON can hold them."""
    given: object = {} if settings is None else settings
    if not isinstance(given, Mapping):
        raise ArgumentError(f"{logger}() got settings={describe(given)}; expected a dict or None")
    for name, value in given.items():
        try:
            json.dumps(value)
        except (TypeError, ValueError):
            plain = False
        else:
            plain = isinstance(name, str)
        if not plain:
            shown = f"{{{name!r:.80}: {describe(value)}}}"
            raise ArgumentError(f"{logger}() got settings={shown}; expected plain values, such as numbers, by name")
    return dict(given)
