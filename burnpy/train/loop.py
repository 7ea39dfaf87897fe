"""The training loop: a generator of events."""

from __future__ import annotations

import copy
import time
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from burnpy.backend.errors import ArgumentError, KindError, a
from burnpy.metrics.mean import Mean
from burnpy.metrics.metric import Metric
from burnpy.nn.module import Module
from burnpy.optim.accumulator import GradientsAccumulator
from burnpy.optim.grads_params import GradientsParams
from burnpy.train.batches import batches_of, check_batches, check_device, count_of
from burnpy.train.callback import Replace, Save, Stop, decided, names_of
from burnpy.train.checkpoints import Checkpoints
from burnpy.train.events import BatchEnd, EpochEnd, EpochStart, Event, FitEnd, FitStart, Saved, ValidEnd
from burnpy.train.interrupts import Interrupts
from burnpy.train.position import Position, parts_of, restored
from burnpy.train.result import Result
from burnpy.train.running import Running, added, finite_loss
from burnpy.train.saving import Writer
from burnpy.train.step import Step, batch_size, checked_step
from burnpy.train.values import values_of

if TYPE_CHECKING:
    from burnpy.train.learner import Learner

M = TypeVar("M", bound=Module[Any])


def run(
    learner: Learner[M, Any, Any, Any],
    model: M,
    train: Any,
    valid: Any,
    epochs: int,
    resume: str | Path | None,
    fast_dev_run: bool,
) -> Generator[Event[M], None, None]:
    """Train, and yield what happens. The arguments are those of `Learner.events`, checked."""
    check_batches(train, "the training batches", epochs)
    if valid is not None:
        check_batches(valid, "the validation batches", epochs)
    loop = Loop(learner, model, train, valid, min(epochs, 1) if fast_dev_run else epochs, fast_dev_run)
    with ExitStack() as stack:
        stack.callback(loop.close)
        interrupts = stack.enter_context(Interrupts())
        resumed = loop.resume(resume)
        for event in loop.all(interrupts, resumed):
            if not fast_dev_run and learner.strategy.leads:
                for logger in learner.loggers:
                    logger.log(event)
            yield event


class Loop:
    """A run in progress."""

    def __init__(
        self, learner: Learner[Any, Any, Any, Any], model: Any, train: Any, valid: Any, epochs: int, trial: bool
    ) -> None:
        self.learner, self.train, self.valid, self.epochs = learner, train, valid, epochs
        self.limit = 1 if trial else None
        callbacks = () if trial else learner.callbacks
        self.callbacks = dict(zip(names_of(callbacks), callbacks, strict=True))
        self.states = {name: callback.initial() for name, callback in self.callbacks.items()}
        self.position = Position(model=model, optim=copy.copy(learner.optim))
        self.writer = Writer()
        self.stopped: str | None = None
        self.save: list[Save] = []

    def close(self) -> None:
        """Wait for the file that is being written, and close the loggers."""
        with ExitStack() as stack:
            for logger in self.learner.loggers:
                stack.callback(logger.close)
            self.writer.close()

    def resume(self, resume: str | Path | None) -> Path | None:
        """Continue from a file; return it, or None for a new run."""
        path = self._latest() if resume == "auto" else None if resume is None else Path(resume)
        if path is not None:
            self.position, self.states = restored(path, self.position, self.states, self.learner, self.train)
        return path

    def _latest(self) -> Path | None:
        folders = [callback for callback in self.callbacks.values() if isinstance(callback, Checkpoints)]
        if not folders and self.limit is None:
            raise ArgumentError('fit() was asked for resume="auto" without Checkpoints among the callbacks to look in')
        return next((path for callback in folders if (path := callback.latest())), None)

    def all(self, interrupts: Interrupts, resumed: Path | None) -> Generator[Event[Any], None, None]:
        """Yield all events of the run."""
        at = self.position
        yield self._noted(
            FitStart(
                model=at.model,
                epochs=self.epochs,
                epoch=at.epoch,
                batch=at.batch,
                step=at.step,
                batches=count_of(self.train),
                validates=self.valid is not None,
                resumed=resumed,
            )
        )
        yield from self._saves()
        if self.valid is not None and at.step == 0 and self.learner.sanity and self.epochs:
            self._validated(self.learner.sanity)
        while at.epoch < self.epochs and self.stopped is None:
            yield from self._epoch(interrupts)
        result = Result(
            model=at.model,
            optim=at.optim,
            history=tuple(at.history),
            stopped=self.stopped,
            epoch=at.epoch,
            step=at.step,
        )
        self.writer.wait()
        yield self._noted(FitEnd(result=result))

    def _epoch(self, interrupts: Interrupts) -> Generator[Event[Any], None, None]:
        """Train for an epoch, or for what remains of it, unless something stops the run."""
        at, learner = self.position, self.learner
        began = time.perf_counter()
        yield self._noted(EpochStart(model=at.model, epoch=at.epoch, step=at.step))
        accumulator = GradientsAccumulator[Any]()
        batches = batches_of(self.train, at.epoch, at.batch)
        following = next(batches, None)
        if following is None and at.batch == 0:
            raise ArgumentError(f"the training batches gave none in epoch {at.epoch}")
        check_device(following, at.model.device, "training batches", "the model")
        while following is not None:
            batch = following
            step, size, value, grads = self._gradients(batch)
            following = None if self.limit is not None else next(batches, None)
            rate, norm = learner.schedule(at.step), None
            if learner.accumulate == 1:
                complete, norm = True, self._update(grads, size, rate)
            else:
                accumulator = accumulator.add(grads, weight=size)
                complete = len(accumulator) == learner.accumulate or following is None
                if complete:
                    norm = self._update(accumulator.mean(), accumulator.weight, rate)
                    accumulator = GradientsAccumulator[Any]()
            at.running.add(step, size, value, {} if norm is None else {"grad_norm": Mean.of(norm)})
            event: BatchEnd[Any] = BatchEnd(
                model=at.model,
                epoch=at.epoch,
                batch=at.batch,
                step=at.step,
                updated=complete,
                lr=rate,
                size=size,
                loss=step.loss,
                metrics=step.metrics,
                grad_norm=norm,
            )
            at.batch += 1
            yield self._noted(event)
            if complete:
                if following is not None and learner.valid_every.due(event) and self.valid is not None:
                    yield self._noted(self._validated())
                if interrupts.requested:
                    self._interrupt()
                if following is not None or self.stopped == "interrupted":
                    yield from self._saves()
                if self.stopped is not None and following is not None:
                    return
        yield from self._end_of_epoch(began)

    def _end_of_epoch(self, began: float) -> Generator[Event[Any], None, None]:
        at = self.position
        metrics: dict[str, Metric] = {
            f"train/{name}": self._combined(metric) for name, metric in at.running.metrics.items()
        }
        last = at.epoch + 1 == self.epochs or self.stopped is not None
        epoch: EpochEnd[Any] = EpochEnd(
            model=at.model, epoch=at.epoch, step=at.step, metrics={}, values={}, seconds=0.0
        )
        if self.valid is not None and (last or self.learner.valid_every.due(epoch)):
            validated = self._validated()
            yield self._noted(validated)
            metrics |= validated.metrics
        values = {**values_of(metrics), "lr": self.learner.schedule(max(at.step - 1, 0))}
        at.history.append({"epoch": at.epoch, "step": at.step, **values})
        event: EpochEnd[Any] = EpochEnd(
            model=at.model,
            epoch=at.epoch,
            step=at.step,
            metrics=metrics,
            values=values,
            seconds=time.perf_counter() - began,
        )
        at.epoch, at.batch, at.running = at.epoch + 1, 0, Running()
        yield self._noted(event)
        yield from self._saves()

    def _gradients(self, batch: Any) -> tuple[Step[Any], float, float | None, GradientsParams[Any]]:
        """Return the step of a batch, the batch's weight, the value of the loss if it was read, and the gradients."""
        at = self.position
        step = checked_step(self.learner.train_step(at.model, batch), "train_step")
        value = finite_loss(step.loss, lambda: f"epoch {at.epoch}, batch {at.batch}, step {at.step}")
        size = batch_size(batch) if step.weight is None else step.weight
        if size == 0:
            raise ArgumentError(f"the batch {at.batch} of epoch {at.epoch} is empty")
        return step, size, value, GradientsParams.from_grads(step.loss.backward(), at.model)

    def _update(self, grads: GradientsParams[Any], weight: float, rate: float) -> Any:
        """Take an optimizer step; return the global norm of the gradients if it was asked for."""
        at, learner = self.position, self.learner
        grads = learner.strategy.gradients(grads, weight)
        norm = grads.norm() if learner.grad_norm else None
        if learner.clip is not None:
            grads = learner.clip(grads)
        at.model = at.optim.step(rate, at.model, grads)
        at.step += 1
        return norm

    def _validated(self, limit: int | None = None) -> ValidEnd[Any]:
        """Return the metrics of the validation batches."""
        at, learner = self.position, self.learner
        assert learner.valid_step is not None
        model, metrics = at.model.valid(), dict[str, Metric]()
        limit = limit if self.limit is None else self.limit
        for number, batch in enumerate(batches_of(self.valid, 0, 0)):
            if number == limit:
                break
            if not number:
                check_device(batch, model.device, "validation batches", "the model of the validation step")
            step = checked_step(learner.valid_step(model, batch), "valid_step")
            size = batch_size(batch) if step.weight is None else step.weight
            metrics = added(metrics, {"loss": Mean.of(step.loss, weight=size), **step.metrics})
        if not metrics:
            raise ArgumentError("the validation batches gave none")
        named = {f"valid/{name}": self._combined(metric) for name, metric in metrics.items()}
        return ValidEnd(model=at.model, epoch=at.epoch, step=at.step, metrics=named, values=values_of(named))

    def _combined(self, metric: Metric) -> Metric:
        return self.learner.strategy.metric(metric)

    def _noted(self, event: Event[Any]) -> Event[Any]:
        """Ask the callbacks what an event leads to, and carry out what can be: files are saved by `_saves`."""
        if not self.callbacks:
            return event
        self.states, decisions = decided(self.callbacks, self.states, event)
        for decision in decisions:
            if isinstance(decision, Stop):
                self.stopped = self.stopped or decision.reason
            elif isinstance(decision, Save):
                self.save.append(decision)
            else:
                self._replace(decision)
        return event

    def _replace(self, decision: Replace) -> None:
        mine: Any = self.position.model
        if type(decision.model) is not type(mine):
            raise KindError(f"Replace() was given {a(type(decision.model).__name__)} for {a(type(mine).__name__)}")
        self.position.model = decision.model

    def _interrupt(self) -> None:
        """Stop, and save by the first `Checkpoints`."""
        self.stopped = "interrupted"
        for name, callback in self.callbacks.items():
            if isinstance(callback, Checkpoints):
                self.states[name], save = callback.saved(self.position.step, self.states[name])
                self.save.append(save)
                return

    def _saves(self) -> Generator[Event[Any], None, None]:
        """Begin to write the files that callbacks decided on."""
        pending, self.save = self.save, []
        if not self.learner.strategy.leads:
            return
        for save in sorted(pending, key=lambda save: not save.first):
            self.writer.write(save.path, save.delete, parts_of(self.position, self.states, self.learner, self.train))
            yield Saved(path=save.path, step=self.position.step)
