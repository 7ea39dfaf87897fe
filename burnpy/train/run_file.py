"""The file of a run: the position and all that it continues from, written by a thread while training goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from burnpy.backend.errors import ArgumentError, BurnpyError, RecordError, RecordFileError, path_shown
from burnpy.metrics.metric import Metric
from burnpy.nn.module import Module
from burnpy.optim.ema import Ema
from burnpy.optim.gradients.grad_scaler import GradScaler
from burnpy.optim.optimizer import Optimizer
from burnpy.optim.optimizer_states import OptimizerRecord
from burnpy.record.record import Record, save
from burnpy.train.strategy import devices_of, of_rank, set_random_states, settings_of
from burnpy.train.train_step import Running

if TYPE_CHECKING:
    from burnpy.train.learner import Learner


class Writer:
    """Writes one checkpoint at a time on a thread of its own.

    The saved values are immutable (models, records of optimizers, plain values), so that nothing is copied and training
    goes on meanwhile. An error is raised by the next `write` or by `close`.
    """

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._pending: Future[None] | None = None

    def write(self, path: Path, delete: tuple[Path, ...], parts: Mapping[str, Any]) -> None:
        """Begin to write a file, after the one before is complete; then delete the files of earlier checkpoints.

        Raises:
            RecordFileError: the folder cannot be made, or the file before could not be written.
        """
        self.wait()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RecordFileError(
                error.errno,
                f"the folder {path_shown(path.parent)} for checkpoints cannot be made: {error.strerror or error}",
            ) from error
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="burnpy-checkpoints")
        self._pending = self._pool.submit(_write, path, delete, dict(parts))

    def wait(self) -> None:
        """Wait until the file is complete, and raise the error of its writing."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def close(self) -> None:
        """Wait as `wait` does, and end the thread."""
        try:
            self.wait()
        finally:
            if self._pool is not None:
                self._pool.shutdown()
                self._pool = None


def _write(path: Path, delete: tuple[Path, ...], parts: dict[str, Any]) -> None:
    save(path, **parts)
    for old in delete:
        old.unlink(missing_ok=True)


def settings_differ(saved: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Return how the settings of a saved run and of this one differ, as text; None if they do not.

    >>> settings_differ({"batches": 10, "accumulate": 1}, {"batches": 12, "accumulate": 1})
    'batches was 10 and is 12'
    """
    differences = [
        f"{name} was {saved.get(name)!r} and is {now.get(name)!r}"
        for name in {**saved, **now}
        if saved.get(name) != now.get(name)
    ]
    return ", ".join(differences) or None


def part(record: Any, name: str, kind: type[Any]) -> Any:
    """Return a part of a file of a run.

    Raises:
        RecordError: the file is a record, but not one of a run.
    """
    try:
        return record.part(name, kind)
    except BurnpyError as error:
        raise RecordError(
            f"{record.path} is not a checkpoint of a training run, from which one could resume: {error}"
        ) from error


@dataclass
class Position:
    """The state of a run, which changes from one optimizer step to the next."""

    model: Module[Any]
    optim: Optimizer
    scaler: GradScaler[Any] | None = None
    ema: Ema[Any] | None = None
    epoch: int = 0  #: the number of completed epochs
    batch: int = 0  #: the number of batches of this epoch that were trained on
    step: int = 0  #: the number of optimizer steps
    running: Running = field(default_factory=Running)  #: the metrics of this epoch so far
    history: list[dict[str, float]] = field(default_factory=list)  #: the values of completed epochs


def parts_of(
    position: Position,
    states: Mapping[str, Any],
    learner: Learner[Any, Any, Any, Any],
    train: Any,
    optim: OptimizerRecord,
    metrics: Mapping[str, Metric],
    random: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the parts of the file of a run: plain values, and tensors that later steps do not change.

    Args:
        position: the position.
        states: the states of the callbacks.
        learner: the learner.
        train: the batches to train on, of all ranks.
        optim: the record of the optimizer.
        metrics: those of this epoch so far, of all ranks.
        random: the states of generators, of each rank.
    """
    return {
        "model": position.model,
        "optim": optim,
        "random": dict(random[0]),
        "random_of_ranks": [dict(states) for states in random],
        "run": {"epoch": position.epoch, "batch": position.batch, "step": position.step},
        "metrics": dict(metrics),
        "history": list(position.history),
        "callbacks": dict(states),
        "settings": _settings(learner, train),
        **({} if position.scaler is None else {"scaler": position.scaler.into_record()}),
        **({} if position.ema is None else {"ema": position.ema.model, "ema_updates": int(position.ema.updates)}),
    }


def restored(
    record: Record, fresh: Position, states: Mapping[str, Any], learner: Learner[Any, Any, Any, Any], train: Any
) -> tuple[Position, dict[str, Any]]:
    """Return the position and the callbacks' states of a file; nothing is changed if it does not fit.

    A run may be resumed by another number of ranks, as its batches are those of all together.

    Args:
        record: the contents of the file.
        fresh: the position at the beginning of the run.
        states: the initial states of the callbacks.
        learner: the learner.
        train: the batches to train on.
    """
    rank = learner.strategy.group.rank
    saved = part(record, "settings", dict)
    differ = settings_differ(saved, _settings(learner, train))
    if differ:
        raise ArgumentError(f"{record.path} cannot be resumed exactly, as the run differs: {differ}")
    counts = part(record, "run", dict)
    model = record.apply_to(fresh.model)
    random = part(record, "random", dict)
    own = {name: state for name, state in part(record, "callbacks", dict).items() if name in states}
    plain = devices_of(model)[-1]
    metrics = {name: Metric.from_record(value, plain) for name, value in part(record, "metrics", dict).items()}
    fresh.optim.load_record(part(record, "optim", OptimizerRecord), model)
    ranks = record.parts.get("random_of_ranks", [random])
    set_random_states(model, ranks[rank] if rank < len(ranks) else of_rank(random, rank))
    position = Position(
        model,
        fresh.optim,
        None if fresh.scaler is None else fresh.scaler.load_record(part(record, "scaler", dict)),
        ema=None if fresh.ema is None else _averaged(record, fresh.ema),
        **counts,
        running=Running(metrics if rank == 0 else {}),
        history=list(part(record, "history", list)),
    )
    return position, {**states, **own}


def _averaged(record: Record, fresh: Ema[Any]) -> Ema[Any]:
    model = record.apply_to(fresh.model, part="ema")
    return replace(fresh, model=model, updates=part(record, "ema_updates", int))


def _settings(learner: Learner[Any, Any, Any, Any], train: Any) -> dict[str, Any]:
    """Return the settings that must be the same in a run that resumes."""
    scaler = None if learner.scaler is None else type(learner.scaler).__name__
    ema = None if learner.ema is None else [learner.ema.decay, learner.ema.warm_up]
    return {"accumulate": learner.accumulate, "scaler": scaler, "ema": ema, **settings_of(train)}
