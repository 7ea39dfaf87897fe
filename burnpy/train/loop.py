"""The training loop: a generator of events, which Ctrl-C and SIGTERM end after a step."""

from __future__ import annotations

import copy
import math
import signal
import threading
import time
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self

from burnpy.backend.errors import ArgumentError, DeviceError, KindError, ModuleError, a
from burnpy.metrics.metric import Metric
from burnpy.metrics.regression import Mean
from burnpy.optim.ema import Ema
from burnpy.optim.gradients.grads_params import GradientsParams
from burnpy.record.record import Record, load
from burnpy.tensor.tensor import Tensor
from burnpy.train.callback import Checkpoints, Save, Steps, Stop, decided, names_of
from burnpy.train.events import BatchEnd, EpochEnd, EpochStart, Event, FitEnd, FitStart, Result, Saved, ValidEnd
from burnpy.train.loggers import values_of
from burnpy.train.run_file import Position, Writer, parts_of, restored
from burnpy.train.strategy import (
    Feed,
    MicroBatches,
    Ranks,
    batches_of,
    check_batches,
    check_device,
    count_of,
    from_leader,
    of_rank,
    random_states,
    set_random_states,
    shared,
    summed,
)
from burnpy.train.train_step import (
    CompiledOptimizer,
    Measured,
    Running,
    added,
    batch_size,
    check_batch,
    checked_step,
    finite_loss,
)
from burnpy.typevars import M

if TYPE_CHECKING:
    from burnpy.train.learner import Learner


class Interrupts:
    """A context manager that counts SIGINT and SIGTERM in the main thread; elsewhere it does nothing.

    The first signal sets `requested`. The earlier handlers are then restored, so that the second acts as it always
    does: Ctrl-C raises KeyboardInterrupt, SIGTERM ends the process.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                before = signal.getsignal(number)
                if before not in (None, signal.SIG_IGN):  # None is a handler that Python did not install
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        self._restore()

    def _restore(self) -> None:
        while self._before:
            number, before = self._before.popitem()
            signal.signal(number, before)


def run(
    learner: Learner[M, Any, Any, Any],
    model: M,
    train: Any,
    valid: Any,
    epochs: int,
    resume: str | Path | None,
    fast_dev_run: bool,
) -> Generator[Event[M], None, None]:
    """Train, and yield the events. The arguments are those of `Learner.events`, checked."""
    check_batches(train, "the training batches", epochs)
    if valid is not None:
        check_batches(valid, "the validation batches", epochs)
    loop = Loop(learner, model, train, valid, min(epochs, 1) if fast_dev_run else epochs, fast_dev_run)
    with ExitStack() as stack:
        stack.callback(loop.close)
        interrupts = stack.enter_context(Interrupts())
        resumed = loop.resume(resume)
        for event in loop.events(interrupts, resumed):
            if not fast_dev_run and learner.strategy.group.rank == 0:
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
        self.strategy = learner.strategy
        begun, averaging = self._begun(model), learner.ema
        ema = None if averaging is None else Ema(begun, averaging.decay, averaging.warm_up)
        self.position = Position(model=begun, optim=copy.copy(learner.optim), scaler=learner.scaler, ema=ema)
        self.steps = learner._steps
        self.compiled: CompiledOptimizer | None = None  # the optimizer, if steps are compiled
        self.writer = Writer()
        self.stopped: str | None = None
        self.following: Any = None  # the model that replaces the present one after the optimizer step
        self.save: list[Save] = []
        self.saving = False  # whether any rank saves

    def _begun(self, model: Any) -> Any:
        """Return rank 0's model, on all ranks, which draw random numbers of their own from now on."""
        if self.strategy.group.size == 1:
            return model
        model, random = self.strategy.run(lambda group: (group.broadcast(model), group.broadcast(random_states(model))))
        set_random_states(model, of_rank(random, self.strategy.group.rank))
        return model

    def close(self) -> None:
        """Wait for the file that is being written, and close the loggers."""
        with ExitStack() as stack:
            for logger in self.learner.loggers:
                stack.callback(logger.close)
            self.writer.close()

    def resume(self, resume: str | Path | None) -> Path | None:
        """Continue from a file, which rank 0 reads; return its path, or None for a new run."""
        if resume is None:
            return None

        def read() -> tuple[Path, Record] | None:
            path = self._latest() if resume == "auto" else Path(resume)
            return None if path is None else (path, load(path))

        loaded = from_leader(self.strategy, read)
        if loaded is None:
            return None
        path, record = loaded
        self.position, self.states = restored(record, self.position, self.states, self.learner, self.train)
        return path

    def _latest(self) -> Path | None:
        folders = [callback for callback in self.callbacks.values() if isinstance(callback, Checkpoints)]
        if not folders and self.limit is None:
            raise ArgumentError('fit() got resume="auto", which needs Checkpoints among the callbacks')
        return next((path for callback in folders if (path := callback.latest())), None)

    def events(self, interrupts: Interrupts, resumed: Path | None) -> Generator[Event[Any], None, None]:
        """Yield all events of the run."""
        position = self.position
        if self.steps is not None:
            self.compiled = CompiledOptimizer(position.optim, self.steps)
        yield self._noted(
            FitStart(
                model=position.model,
                epochs=self.epochs,
                epoch=position.epoch,
                batch=position.batch,
                step=position.step,
                batches=count_of(self.train),
                validates=self.valid is not None,
                resumed=resumed,
            )
        )
        self._agree()
        yield from self._saves()
        if self.valid is not None and position.step == 0 and self.learner.sanity and self.epochs:
            self._validated(self.learner.sanity)
        while position.epoch < self.epochs and self.stopped is None:
            yield from self._epoch(interrupts)
        result = Result(
            model=position.model,
            optim=position.optim if self.compiled is None else self.compiled.settled(position.model),
            scaler=position.scaler,
            ema=position.ema,
            history=tuple(position.history),
            stopped=self.stopped,
            epoch=position.epoch,
            step=position.step,
        )
        self.writer.wait()
        yield self._noted(FitEnd(result=result))

    def _epoch(self, interrupts: Interrupts) -> Generator[Event[Any], None, None]:
        """Train for an epoch, or for the rest of it, unless something stops the run."""
        position, learner = self.position, self.learner
        began = time.perf_counter()
        yield self._noted(EpochStart(model=position.model, epoch=position.epoch, step=position.step))
        feed = Feed(self.strategy.group, self.train, position.epoch, position.batch)
        if not feed.has_next and position.batch == 0:
            raise ArgumentError(f"fit() got no training batch in epoch {position.epoch}; pass a Loader or a list")
        check_device(feed.batch, position.model.device, "training batches", "the model")
        micro = MicroBatches(position.model, learner.accumulate > 1, position.scaler)
        while feed.has_next:
            more = self._measure(feed, micro)
            rate, norm = learner.schedule.at(position.step), None
            complete = len(micro.measured) == learner.accumulate or not more
            if complete:
                micro, norm = self._update(feed, micro, rate)
                for each in micro.measured:
                    last = each is micro.measured[-1]
                    position.running.add(each, {"grad_norm": Mean.of(norm)} if last and norm is not None else {})
            step, size, _ = micro.measured[-1]
            event: BatchEnd[Any] = BatchEnd(
                model=position.model,
                epoch=position.epoch,
                batch=position.batch,
                step=position.step,
                updated=complete,
                lr=rate,
                size=size,
                loss=Tensor.full((), math.nan, device=position.model.device) if step is None else step.loss,
                metrics={} if step is None else step.metrics,
                grad_norm=norm,
            )
            position.batch += 1
            yield self._noted(event)
            if complete:
                if self.valid is not None and more and learner.valid_every.due(event):
                    yield self._noted(self._validated())
                self._agree(interrupts.requested)
                if self.saving and (more or self.stopped == "interrupted"):
                    yield from self._saves()
                if self.stopped is not None and more:
                    return
                micro = MicroBatches(position.model, learner.accumulate > 1, position.scaler)
        yield from self._end_of_epoch(interrupts, began)

    def _end_of_epoch(self, interrupts: Interrupts, began: float) -> Generator[Event[Any], None, None]:
        position, every = self.position, self.learner.valid_every
        own = position.running.metrics
        sums = summed(self.strategy.run(lambda group: group.gather(own)))
        metrics: dict[str, Metric] = {f"train/{name}": metric for name, metric in sums.items()}
        last = position.epoch + 1 == self.epochs or self.stopped is not None
        epoch: EpochEnd[Any] = EpochEnd(
            model=position.model, epoch=position.epoch, step=position.step, metrics={}, values={}, seconds=0.0
        )
        ends_interval = isinstance(every, Steps) and position.step % every.n == 0  # after the last step, too
        if self.valid is not None and (last or ends_interval or every.due(epoch)):
            validated = self._validated()
            yield self._noted(validated)
            metrics |= validated.metrics
        values = {**values_of(metrics), "lr": self.learner.schedule(max(position.step - 1, 0))}
        position.history.append({"epoch": position.epoch, "step": position.step, **values})
        event: EpochEnd[Any] = EpochEnd(
            model=position.model,
            epoch=position.epoch,
            step=position.step,
            metrics=metrics,
            values=values,
            seconds=time.perf_counter() - began,
        )
        position.epoch, position.batch, position.running = position.epoch + 1, 0, Running()
        yield self._noted(event)
        self._agree(interrupts.requested and position.epoch < self.epochs)
        yield from self._saves()

    def _measure(self, feed: Feed, micro: MicroBatches) -> bool:
        """Compute the loss of the next batch, and go on; return whether there is another."""
        position, batch = self.position, feed.batch
        if batch is None:
            micro.add(Measured(None, 0, None))
        else:
            if self.steps is None:
                step, grads = checked_step(self.learner.train_step(position.model, batch), "train_step"), None
            else:
                check_batch(batch)
                step, grads = self.steps.gradients(position.model, batch, position.scaler)
            number = position.batch
            value = finite_loss(step.loss, lambda: f"epoch {position.epoch}, batch {number}, step {position.step}")
            size = batch_size(batch) if step.weight is None else step.weight
            if size == 0:
                raise ArgumentError(f"the batch {position.batch} of epoch {position.epoch} is empty")
            micro.add(Measured(step, size, value), grads)
        (feed.advance if self.limit is None else feed.end)()
        return feed.has_next

    def _update(self, feed: Feed, micro: MicroBatches, rate: float) -> tuple[MicroBatches, Any]:
        """Take an optimizer step; return its micro batches' results, and the norm of the gradients if it is logged. If
        ranks are lost, the remaining ranks divide the same batches among them."""
        position, learner, tried = self.position, self.learner, False

        def mean(group: Ranks) -> GradientsParams[Any]:
            nonlocal micro, tried
            if tried or feed.group is not group:
                count = len(micro.measured)
                micro = MicroBatches(position.model, learner.accumulate > 1, position.scaler)
                feed.begin(group, position.batch + 1 - count)
                for _ in range(count):
                    self._measure(feed, micro)
            tried = True
            return micro.mean(group)

        grads = self.strategy.run(mean)
        if self.compiled is not None:
            norm = self.compiled.step(rate, position, grads)
            position.step += 1
            return micro, norm
        if position.scaler is not None:
            grads, position.scaler = position.scaler.unscale(grads)
        norm = grads.norm() if learner.grad_norm else None
        if learner.clip is not None:
            grads = learner.clip(grads)
        found_inf, held = grads.found_inf, [grads]
        del grads  # and `held` gives them up, so that the new parameters may take their memory
        position.model = position.optim.step(rate, position.model, held.pop())
        if position.ema is not None:
            position.ema = position.ema.update(position.model, skipped=found_inf)
        position.step += 1
        return micro, norm

    def _validated(self, limit: int | None = None) -> ValidEnd[Any]:
        """Return the metrics of the validation batches. Each rank computes its part of them."""
        position, learner = self.position, self.learner
        assert learner.valid_step is not None
        limit = limit if self.limit is None else self.limit
        sums = summed(self.strategy.run(lambda group: group.gather(self._validated_part(group, limit))))
        if not sums:
            raise ArgumentError("fit() got no validation batch; pass a Loader or a list")
        named = {f"valid/{name}": metric for name, metric in sums.items()}
        return ValidEnd(
            model=self._validates(), epoch=position.epoch, step=position.step, metrics=named, values=values_of(named)
        )

    def _validates(self) -> Any:
        """Return the model that is validated: the average, or the one that is trained."""
        averaging, ema = self.learner.ema, self.position.ema
        return ema.model if ema is not None and averaging is not None and averaging.validates else self.position.model

    def _validated_part(self, group: Ranks, limit: int | None) -> dict[str, Metric]:
        model, metrics = self._validates().valid(), dict[str, Metric]()
        valid_step: Any = self.learner.valid_step if self.steps is None else self.steps.validate
        for number, batch in enumerate(batches_of(shared(self.valid, group, "validation batches"), 0, 0)):
            if number == limit:
                break
            if batch is None:
                continue
            if not number:
                check_device(batch, model.device, "validation batches", "the model of the validation step")
            step = checked_step(valid_step(model, batch), "valid_step")
            size = batch_size(batch) if step.weight is None else step.weight
            metrics = added(metrics, {"loss": Mean.of(step.loss, weight=size), **step.metrics})
        return metrics

    def _agree(self, interrupted: bool = False) -> None:
        """Stop where a rank stops. Note the saves of any rank, since all have to contribute their metrics to it."""
        saving = bool(self.save)
        if self.strategy.group.size > 1:
            mine = (self.stopped, interrupted, saving)
            notes = self.strategy.run(lambda group: group.gather(mine))
            self.stopped = next((stopped for stopped, _, _ in notes if stopped is not None), None)
            interrupted = any(interrupted for _, interrupted, _ in notes)
            saving = any(saving for _, _, saving in notes)
        if interrupted:
            self._interrupt()
        self.saving = saving or bool(self.save)

    def _noted(self, event: Event[Any]) -> Event[Any]:
        """Ask the callbacks what an event leads to, and carry out what can be: files are saved by `_saves`. The model
        stays while batches accumulate, whose gradients are of this one."""
        if not self.callbacks:
            return event
        self.states, decisions = decided(self.callbacks, self.states, event)
        for decision in decisions:
            if isinstance(decision, Stop):
                self.stopped = self.stopped or decision.reason
            elif isinstance(decision, Save):
                self.save.append(decision)
            else:
                self.following = self._replacement(decision.model)
        if self.following is not None and not (isinstance(event, BatchEnd) and not event.updated):
            self.position.model, self.following = self.following, None
        return event

    def _replacement(self, model: Any) -> Any:
        """Return the model of a `Replace`, checked to be one that the optimizer and the average know."""
        mine: Any = self.position.model
        if type(model) is not type(mine):
            raise KindError(f"Replace() got {a(type(model).__name__)}; expected {a(type(mine).__name__)}")
        if model.device is not mine.device:
            raise DeviceError(f"Replace() got a model on {model.device}; the run is on {mine.device}")
        if {param.id for param in model.params()} != {param.id for param in mine.params()}:
            raise ModuleError(
                f"Replace() got {a(type(model).__name__)} whose parameters have other ids, by which the optimizer "
                "knows its states; make it from event.model: event.model.map(...) or event.model.with_values(...)"
            )
        return model

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
        if not self.saving:
            return
        position = self.position
        own = (position.running.metrics, random_states(position.model))
        optim = (
            self.compiled or position.optim
        ).into_record()  # by all ranks, which may each have a part of its states
        metrics, random = zip(*self.strategy.run(lambda group: group.gather(own)), strict=True)
        if self.strategy.group.rank:
            return
        parts = parts_of(position, self.states, self.learner, self.train, optim, summed(metrics), random)
        for save in sorted(pending, key=lambda save: not save.first):
            self.writer.write(save.path, save.delete, parts)
            yield Saved(path=save.path, step=position.step)
