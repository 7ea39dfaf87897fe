"""`Learner`: training as a generator of events made of the parts that a hand-written loop uses; and `find_lr`."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

from burnpy.backend.errors import ArgumentError, KindError, NotTrackedError, a
from burnpy.backend.plans.plan import PlanExplanation
from burnpy.nn.module import Module
from burnpy.optim.ema import check_decay
from burnpy.optim.gradients.clipping import clip_by_global_norm, clip_by_norm, clip_by_value
from burnpy.optim.gradients.grad_scaler import GradScaler
from burnpy.optim.gradients.grads_params import GradientsParams
from burnpy.optim.lr_schedule_base import ConstantLr, LrSchedule, ReduceOnPlateau
from burnpy.optim.optimizer import Optimizer
from burnpy.optim.settings import fraction
from burnpy.tensor.call_errors import Explaining, explained
from burnpy.tensor.dim_checks import checked_count
from burnpy.train.callback import EACH_EPOCH, Callback, Every, callbacks_of, check_every
from burnpy.train.events import Event, FitEnd, Result
from burnpy.train.loop import run
from burnpy.train.strategy import Batches, OneDevice, Strategy, batches_of, check_batches, checked_strategy
from burnpy.train.train_step import CompiledSteps, Step, checked_step
from burnpy.typevars import M, T

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault  # to type checkers always there

    V = TypeVarWithDefault("V", default=Any)  # without a validation step
    W = TypeVarWithDefault("W", default=Any)
else:
    V, W = TypeVar("V"), TypeVar("W")

M_co = TypeVar("M_co", covariant=True)
V_co = TypeVar("V_co", covariant=True)


class Trainable(Protocol[M_co, V_co]):
    """A module of class ``M`` whose `Module.valid` is a ``V``, which a learner of steps on these can train."""

    def valid(self) -> V_co:
        """Return the model on the inner backend."""
        ...

    def with_new_ids(self) -> M_co:
        """Return a model of the same class."""
        ...


class Logger(Protocol):
    """The interface of loggers, which receive every event: `Jsonl`, `TensorBoard`, `MLflow`, or one of your own."""

    def log(self, event: Event[Any]) -> None:
        """Take note of an event."""

    def close(self) -> None:
        """Write pending values; called once, when the run is over."""


@dataclass(frozen=True)
class ByGlobalNorm(metaclass=Explaining):
    """Clipping of the global norm of all gradients, `burnpy.optim.clip_by_global_norm`. For ``Learner(clip=)``.

    Args:
        max_norm: the norm that all gradients together have at most.
    """

    max_norm: float

    def __call__(self, grads: GradientsParams[Any]) -> GradientsParams[Any]:
        """Return the clipped gradients."""
        return clip_by_global_norm(grads, self.max_norm)


@dataclass(frozen=True)
class ByNorm(metaclass=Explaining):
    """Clipping of the norm of each gradient, `burnpy.optim.clip_by_norm`. For ``Learner(clip=)``.

    Args:
        max_norm: the norm that each gradient has at most.
    """

    max_norm: float

    def __call__(self, grads: GradientsParams[Any]) -> GradientsParams[Any]:
        """Return the clipped gradients."""
        return clip_by_norm(grads, self.max_norm)


@dataclass(frozen=True)
class ByValue(metaclass=Explaining):
    """Clipping of every element, `burnpy.optim.clip_by_value`. For ``Learner(clip=)``.

    Args:
        limit: the magnitude that each element has at most.
    """

    limit: float

    def __call__(self, grads: GradientsParams[Any]) -> GradientsParams[Any]:
        """Return the clipped gradients."""
        return clip_by_value(grads, self.limit)


@dataclass(frozen=True)
class Averaging(metaclass=Explaining):
    """The exponential moving average of a learner's model, `burnpy.optim.Ema`. For ``Learner(ema=)``.

    Args:
        decay: how much of the average stays at an optimizer step, from 0 to 1.
        warm_up: whether to begin with less, as `burnpy.optim.Ema` says.
        validates: whether validation runs on the average, so that "valid/loss" and other values, by which
            `burnpy.train.EarlyStopping` and `burnpy.train.Checkpoints` decide, are those of the average; otherwise on
            the model that is trained.

    Raises:
        ArgumentError: ``decay`` is not from 0 to 1.

    >>> from burnpy.nn import Linear
    >>> from burnpy.optim import Sgd
    >>> from burnpy.train import Learner, Step
    >>> x = Tensor[Autodiff[NumPy]].ones((4, 1))
    >>> learner = Learner(lambda model, x: Step(model(x).sum()), optim=Sgd(), lr=1.0, ema=Averaging(0.5))
    >>> result = learner.fit(Linear(1, 1, device=x.device).map(lambda w: w * 0.0), [x], epochs=2)
    >>> result.model.bias.value.tolist(), result.ema.model.bias.value.tolist(), result.ema.updates
    ([-8.0], [-5.0], 2)
    """

    decay: float = 0.999
    warm_up: bool = False
    validates: bool = True

    def __post_init__(self) -> None:
        check_decay("Averaging", self.decay)


def _loggers_of(given: Any) -> tuple[Logger, ...]:
    if not isinstance(given, (list, tuple)):
        raise KindError(f"loggers= takes a list, got {a(type(given).__name__)}; write loggers=[...]")
    for logger in given:
        if isinstance(logger, type):
            raise KindError(f"loggers= got the class {logger.__name__}; make an instance: {logger.__name__}(...)")
        if not (hasattr(logger, "log") and hasattr(logger, "close")):
            raise KindError(f"loggers= got {a(type(logger).__name__)}, which has no log() and close()")
    return tuple(given)


def _check_class(name: str, value: object, classes: type | tuple[type, ...], words: str) -> None:
    """Check that a setting of a learner is an object of a class."""
    if not isinstance(value, classes):
        raise KindError(f"Learner({name}=) takes {words}, got {value!r:.80}")


def _trainable(model: object) -> Module[Any]:
    if not isinstance(model, Module):
        hint = "; make one of the class" if isinstance(model, type) else ""
        raise KindError(f"fit() takes a model, got {model!r:.80}{hint}")
    if not model.device.differentiates:
        raise NotTrackedError(
            f"fit() got {a(type(model).__name__)} on {model.device}, which records no graph; make the model on "
            f"Autodiff[{model.device}] to train it"
        )
    return model


class Learner(Generic[M, T, V, W]):
    """Trains models by a step function, and yields the events of the run.

    Args:
        train_step: from a model and a batch to a `Step` with the loss of the batch.
        valid_step: the same for validation; its model is ``model.valid()``, on the inner backend, which cannot record
            a graph.
        optim: the optimizer.
        lr: the learning rate, or a schedule of it by optimizer steps.
        accumulate: the number of batches whose gradients make an optimizer step, weighted by their sizes. What is left
            at the end of an epoch makes a step as well.
        clip: `ByGlobalNorm`, `ByNorm`, `ByValue` or a function of gradients, applied before each optimizer step.
        callbacks: callbacks, or functions from an event to decisions, called in this order.
        loggers: objects that receive every event: `Jsonl`, `TensorBoard`, `MLflow`, a `Dashboard`.
        valid_every: when to validate, `Epochs` (1) or `Steps` (500); at the end of the run always.
        sanity: the number of batches on which validation is tried before the first step, so that its mistakes show
            before an epoch is spent.
        grad_norm: whether to compute the global norm of the gradients before clipping, as ``BatchEnd.grad_norm`` and
            the value "train/grad_norm".
        scaler: the scale of the loss in float16 training. Gradients are unscaled before they are clipped; a step whose
            gradients are infinite or NaN changes nothing. The scale is part of checkpoints.
        strategy: `burnpy.distributed.DataParallel` or `burnpy.distributed.Elastic`, by which several processes train
            together: each on its part of every batch, of loaders that are the same on all.
        ema: `Averaging` (0.999) to average the model over optimizer steps, except for those that the scaler skips. The
            average validates, is part of checkpoints, as "ema", and of the result.
        compiled: whether the steps are recorded and planned, as `burnpy.compiled` does: the training step with its
            gradients, the update, and the validation step. They must be functions of model and batch, so that a
            value that they read, or change outside, is refused; batches are trees of tensors.

    Raises:
        ArgumentError, KindError: a setting is invalid.

    >>> from burnpy.nn import Linear
    >>> from burnpy.optim import Adam
    >>> def train_step(model, batch):
    ...     x, y = batch
    ...     return Step((model(x) - y).square().mean())
    >>> x = Tensor[Autodiff[NumPy]].from_data([[0.0], [1.0], [2.0]])
    >>> learner = Learner(train_step, optim=Adam(), lr=0.3)
    >>> result = learner.fit(Linear(1, 1, device=Autodiff[NumPy]), [(x, 2.0 * x + 1.0)], epochs=100)
    >>> result.epoch, result.history[-1]["train/loss"] < 0.01
    (100, True)
    """

    @explained
    def __init__(
        self,
        train_step: Callable[[M, T], Step[Any]],
        valid_step: Callable[[V, W], Step[Any]] | None = None,
        *,
        optim: Optimizer,
        lr: LrSchedule | float,
        accumulate: int = 1,
        clip: Callable[[GradientsParams[Any]], GradientsParams[Any]] | None = None,
        callbacks: Sequence[Callback | Callable[[Any], Any]] = (),
        loggers: Sequence[Logger] = (),
        valid_every: Every = EACH_EPOCH,
        sanity: int = 2,
        grad_norm: bool = False,
        scaler: GradScaler[Any] | None = None,
        strategy: Strategy | None = None,
        ema: Averaging | None = None,
        compiled: bool = False,
    ) -> None:
        functions: dict[str, object] = {"train_step": train_step, "valid_step": valid_step, "clip": clip}
        for name, function in functions.items():
            if function is not None and not callable(function):
                hint = "; ByGlobalNorm(1.0) is one" if name == "clip" else ""
                raise KindError(f"Learner({name}=) takes a function, got {a(type(function).__name__)}{hint}")
        _check_class("optim", optim, Optimizer, "an optimizer, as AdamW()")
        _check_class("scaler", scaler, (GradScaler, NoneType), "GradScaler(device)")
        _check_class("ema", ema, (Averaging, NoneType), "Averaging(decay=0.999)")
        checked_count(accumulate, "accumulate", 1, "Learner()")
        checked_count(sanity, "sanity", 0, "Learner()")
        check_every("Learner", "valid_every", valid_every)
        self.train_step = train_step
        self.valid_step = valid_step
        self.optim = optim
        rate: object = lr
        if isinstance(rate, ReduceOnPlateau) or (callable(rate) and not isinstance(rate, LrSchedule)):
            hint = "; plateaus are for loops by hand" if isinstance(rate, ReduceOnPlateau) else ""
            raise KindError(
                f"Learner(lr=) takes a number or a schedule, got {a(type(rate).__name__)}{hint}; one of your own "
                "is a subclass of burnpy.optim.LrSchedule with a method at(step)"
            )
        self.schedule = lr if isinstance(lr, LrSchedule) else ConstantLr(lr)
        self.accumulate = accumulate
        self.clip = clip
        self.callbacks = callbacks_of(callbacks)
        self.loggers = _loggers_of(loggers)
        self.valid_every = valid_every
        self.sanity = sanity
        self.grad_norm = grad_norm
        self.scaler = scaler
        self.ema = ema
        self.strategy: Strategy = checked_strategy(OneDevice() if strategy is None else strategy, optim)
        self._steps: CompiledSteps | None = CompiledSteps(self) if compiled else None

    @property
    def plans(self) -> tuple[PlanExplanation, ...]:
        """The explanations of the plans of compiled steps: training, then updates, then validation."""
        return () if self._steps is None else self._steps.plans

    @explained
    def fit(
        self,
        model: Trainable[M, V],
        train: Batches[T],
        valid: Batches[W] | None = None,
        *,
        epochs: int,
        resume: Literal["auto"] | str | Path | None = None,
        fast_dev_run: bool = False,
    ) -> Result[M]:
        """Train a model, and return the trained one with the history of the run.

        The first Ctrl-C or SIGTERM completes the optimizer step, saves if there is a `Checkpoints`, and returns with
        ``stopped="interrupted"``; the second ends the run at once.

        Args:
            model: the model, on ``Autodiff[...]``.
            train: batches to train on: a `burnpy.data.Loader`, or a list or another iterable of batches.
            valid: batches to validate on.
            epochs: the number of epochs at which the run ends, those before a resumption included.
            resume: a file to continue from, or "auto" for the latest of `Checkpoints`, if there is one. The model then
                gives the structure, and the file the values.
            fast_dev_run: train on one batch, validate on one, and write nothing: to try the code.

        Raises:
            ArgumentError: there are no batches, the gradients do not fit, or the resumed run differs from this one.
            NonFiniteError: the loss is NaN or infinite; the message names epoch, batch and step.
            NotTrackedError: the model is on a plain backend, which records no graph.
            RecordError: ``resume`` is not a checkpoint of a run.
        """
        for event in self.events(model, train, valid, epochs=epochs, resume=resume, fast_dev_run=fast_dev_run):
            if isinstance(event, FitEnd):
                return event.result
        raise AssertionError("a run ends with FitEnd")

    @explained
    def events(
        self,
        model: Trainable[M, V],
        train: Batches[T],
        valid: Batches[W] | None = None,
        *,
        epochs: int,
        resume: Literal["auto"] | str | Path | None = None,
        fast_dev_run: bool = False,
    ) -> Iterator[Event[M]]:
        """Train as `fit` does, one event at a time.

        Nothing happens between two events, so that whoever asks for the next one drives the loop. Leaving it (with
        ``break``, and when the iterator is dropped) waits for the file that is being written.

        The arguments and errors are those of `fit`.
        """
        checked_count(epochs, "epochs", 0, "fit()")
        if (valid is None) != (self.valid_step is None):
            missing, given = (
                ("valid_step", "validation batches") if valid is not None else ("validation batches", "valid_step")
            )
            raise ArgumentError(f"fit() got {given} and no {missing}; give both or neither")
        mine: Any = _trainable(model)
        return run(self, mine, train, valid, epochs, resume, fast_dev_run)


@dataclass(frozen=True)
class LrRange(metaclass=Explaining):
    """The result of `find_lr`."""

    rates: tuple[float, ...]  #: increasing by a constant factor
    losses: tuple[float, ...]  #: at each rate, smoothed
    suggestion: float  #: the rate at which the loss falls most steeply


@explained
def find_lr(
    learner: Learner[Any, Any, Any, Any],
    model: Module[Any],
    train: Any,
    *,
    start: float = 1e-6,
    end: float = 1.0,
    steps: int = 100,
    smoothing: float = 0.9,
    diverged: float = 4.0,
) -> LrRange:
    """Train a copy with increasing learning rates, and return the losses.

    Model and learner are not changed. The learner's accumulation and callbacks are not used.

    Args:
        learner: the learner. Its train step, optimizer and clipping are used.
        model: the model to begin with.
        train: the batches, which are repeated if they are fewer than ``steps``.
        start: the first learning rate.
        end: the last learning rate.
        steps: the number of optimizer steps.
        smoothing: the weight of earlier losses in the exponential average.
        diverged: stop when the loss exceeds the smallest by ``diverged - 1`` times the magnitude of that.

    Raises:
        ArgumentError: the range is empty, the loss diverged at once, or there are no batches.

    >>> from burnpy.nn import Linear
    >>> from burnpy.optim import Sgd
    >>> from burnpy.train import Learner, Step
    >>> x = Tensor[Autodiff[NumPy]].ones((4, 1))
    >>> learner = Learner(lambda model, x: Step((model(x) - 3.0).square().mean()), optim=Sgd(), lr=0.1)
    >>> found = find_lr(learner, Linear(1, 1, device=x.device), [x], steps=20)
    >>> len(found.rates) == len(found.losses) <= 20
    True

    Source: Smith, Cyclical learning rates for training neural networks, 2017.
    """
    given: object = learner
    if not isinstance(given, Learner):
        raise KindError(f"find_lr() takes a Learner, got {a(type(given).__name__)}; make one: Learner(train_step, ...)")
    check_batches(train, "the training batches", 1, "find_lr()")
    checked_count(steps, "steps", 3, "find_lr()")
    fraction(smoothing, "find_lr(smoothing=)")
    if not 0 < start < end < math.inf:
        raise ArgumentError(f"find_lr() got rates from {start} to {end}; give them upwards from above 0")
    optim, scaler, factor = copy.copy(learner.optim), learner.scaler, (end / start) ** (1 / (steps - 1))
    batches = itertools.chain.from_iterable(_some(train, epoch) for epoch in itertools.count())
    rates, losses = list[float](), list[float]()
    average = 0.0
    for number, batch in enumerate(itertools.islice(batches, steps)):
        step = checked_step(learner.train_step(model, batch), "train_step")
        average = smoothing * average + (1 - smoothing) * step.loss.item()
        smooth = average / (1 - smoothing ** (number + 1))
        lowest = min(losses, default=smooth)
        if not math.isfinite(smooth) or smooth - lowest > (diverged - 1.0) * abs(lowest):
            break
        rate = start * factor**number
        rates.append(rate)
        losses.append(smooth)
        loss = step.loss if scaler is None else scaler.scale(step.loss)
        grads = GradientsParams.from_grads(loss.backward(), model)
        if scaler is not None:
            grads, scaler = scaler.unscale(grads)
        model = optim.step(rate, model, grads if learner.clip is None else learner.clip(grads))
    if len(rates) < 3:
        raise ArgumentError(f"find_lr() saw the loss diverge after {len(rates)} steps; begin below start={start}")
    slopes = [b - a for a, b in itertools.pairwise(losses)]
    return LrRange(tuple(rates), tuple(losses), rates[slopes.index(min(slopes))])


def _some(train: Any, epoch: int) -> Iterator[Any]:
    """Yield the batches of an epoch; there is one at least."""
    batch = None
    for batch in batches_of(train, epoch, 0):
        yield batch
    if batch is None:
        raise ArgumentError(
            f"find_lr() got batches that gave none in epoch {epoch}; an iterator gives each batch once: give a list, "
            "a Loader, or an object whose __iter__ begins anew"
        )
