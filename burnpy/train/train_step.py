"""`Step`, the result of a step, the metrics of an epoch so far, and `CompiledSteps`: steps as compiled functions.

A batch takes two plans: one from the model and the batch to the `Step` and the gradients, and one from the gradients to
the next model. Between them gradients are accumulated, and exchanged with other processes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import fields, is_dataclass
from functools import partial, wraps
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

from burnpy.backend.devices import innermost
from burnpy.backend.errors import ArgumentError, KindError, NonFiniteError, ShapeError, a
from burnpy.backend.plans.plan import PlanExplanation
from burnpy.func.compiling.compilation import compiled
from burnpy.func.pytree import flatten, register_tree
from burnpy.metrics.metric import Metric
from burnpy.metrics.regression import Mean
from burnpy.optim.gradients.grads_params import GradientsParams
from burnpy.optim.optimizer import Optimizer
from burnpy.optim.optimizer_states import OptimizerRecord
from burnpy.optim.pure_functions import OptimizerState
from burnpy.tensor.call_errors import Explaining
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import TensorBase, describe
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.train.learner import Learner
    from burnpy.train.run_file import Position


class Step(Generic[B], metaclass=Explaining):
    """The result of one step: the mean loss of a batch, and metrics of it.

    Args:
        loss: a 0-d tensor, the mean over the batch.
        weight: the weight of the batch among others, in the mean loss and in accumulated gradients; by default the
            number of its samples.
        metrics: metrics of the batch, by the name under which they are reported.

    Raises:
        KindError: the loss is not a `Tensor`, or a metric not a `burnpy.metrics.Metric`.
        ShapeError: the loss is not 0-d.
        ArgumentError: the weight is not positive and finite, or a metric is called "loss" or "lr".

    >>> from burnpy import cross_entropy
    >>> from burnpy.metrics import Accuracy
    >>> logits, y = Tensor[NumPy].from_data([[2.0, 0.0]]), IntTensor[NumPy].from_data([0])
    >>> Step(cross_entropy(logits, y), accuracy=Accuracy.of(logits, y))
    Step(0.126928, accuracy=1)
    """

    __slots__ = ("loss", "metrics", "weight")

    def __init__(self, loss: Tensor[B], *, weight: float | None = None, **metrics: Metric) -> None:
        given: object = loss
        if not isinstance(given, Tensor):
            raise KindError(f"Step() takes the loss as a Tensor, got {describe(given)}")
        if loss.shape != ():
            raise ShapeError(f"Step() takes a 0-d loss, got one of shape {loss.shape}; write loss.mean()")
        if weight is not None and not 0 < weight < math.inf:
            raise ArgumentError(f"Step() got weight={weight!r:.80}; expected a positive finite number")
        for name, metric in metrics.items():
            value: object = metric
            if not isinstance(value, Metric):
                what = describe(value) if isinstance(value, TensorBase) else a(type(value).__name__)
                raise KindError(f"Step() got {name} as {what}; give a metric, as {name}=Mean.of(x)")
            if name in ("loss", "lr"):
                raise ArgumentError(f"Step() got a metric called {name}, which is the name of another value; rename it")
        self.loss = loss
        self.weight = weight
        self.metrics: Mapping[str, Metric] = MappingProxyType(metrics)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Step, self.loss, weight=self.weight, **self.metrics), ()

    def __repr__(self) -> str:
        parts = [f"{self.loss.item():.6g}"]
        parts += [] if self.weight is None else [f"weight={self.weight:g}"]
        for name, metric in self.metrics.items():
            value = metric.value()
            parts.append(f"{name}={f'{value:.6g}' if isinstance(value, float) else value}")
        return f"Step({', '.join(parts)})"


def _flatten(step: Step[Any]) -> tuple[list[Any], tuple[Any, ...]]:
    return [step.loss, *step.metrics.values()], (step.weight, tuple(step.metrics))


def _unflatten(children: Sequence[Any], rest: tuple[Any, ...]) -> Step[Any]:
    step: Step[Any] = object.__new__(Step)
    (step.loss, *metrics), (step.weight, names) = children, rest
    step.metrics = MappingProxyType(dict(zip(names, metrics, strict=True)))
    return step


register_tree(Step, _flatten, _unflatten)


def batch_size(batch: object) -> int:
    """Return the number of samples in a batch: the length of its first tensor or array.

    A batch is a tensor, an array, an object with a length of its own, or a tuple, list, dict or dataclass of these.

    >>> batch_size((Tensor[NumPy].zeros((5, 2)), Tensor[NumPy].zeros((5,))))
    5
    """
    parts: list[Any] = []
    if isinstance(batch, (tuple, list)) and batch and isinstance(batch[0], TensorBase):  # the common case
        batch = batch[0]
    if isinstance(batch, TensorBase) or hasattr(batch, "__array__"):
        shape = getattr(batch, "shape", ())
        if shape:
            return int(shape[0])
    elif isinstance(batch, (tuple, list)):
        parts = list(batch)
    elif isinstance(batch, Mapping):
        parts = list(batch.values())
    elif isinstance(batch, Sized):
        return len(batch)
    elif is_dataclass(batch):
        parts = [getattr(batch, field.name) for field in fields(batch)]
    for part in parts:
        if isinstance(part, (TensorBase, Mapping, tuple, list)) or hasattr(part, "__array__") or is_dataclass(part):
            return batch_size(part)
    raise ArgumentError(
        f"the number of samples in a batch, {a(type(batch).__name__)}, is not known; let the step say it: "
        "Step(loss, weight=...)"
    )


def checked_step(step: object, function: str) -> Step[Any]:
    """Return the result of a step function, checked."""
    if not isinstance(step, Step):
        kind = type(step)  # perhaps burnpy.optim.Step
        shown = f"{kind.__module__}.Step" if kind.__name__ == "Step" else a(kind.__name__)
        raise KindError(f"{function} returned {shown}; write return burnpy.train.Step(loss, ...)")
    return step


class Measured(NamedTuple):
    """The measurements of a batch."""

    step: Step[Any] | None  #: None if this rank has no samples of the batch
    size: float  #: the weight of the batch
    loss: float | None  #: the value of the loss, if it was read


class Running:
    """The sums of the metrics of batches, the mean loss among them as "loss".

    A loss that was read, to see that it is finite, is added up as a Python float, which has the same bits and takes no
    time; others on the device.
    """

    def __init__(self, metrics: Mapping[str, Metric] | None = None) -> None:
        self._metrics = dict(metrics or {})
        self._loss: tuple[float, float] | None = None  # sum and weight, in place of the metric
        self._device: Any = None

    def add(self, measured: Measured, more: Mapping[str, Metric]) -> None:
        """Add the measurements of a batch, and metrics that are not its step's own."""
        step, size, value = measured
        if step is None:
            self._metrics = added(self._metrics, more)
            return
        if value is None:
            self._metrics = added(self.metrics, {"loss": Mean.of(step.loss, weight=size), **step.metrics, **more})
            self._loss = None
            return
        if self._loss is None:
            self._loss, self._device = self._read(), step.loss.device
        self._loss = (self._loss[0] + value * size, self._loss[1] + size)
        if step.metrics or more:
            self._metrics = added(self._metrics, {**step.metrics, **more})

    def _read(self) -> tuple[float, float]:
        mean = self._metrics.pop("loss", None)
        return (mean.sum.item(), mean.weight.item()) if isinstance(mean, Mean) else (0.0, 0.0)

    @property
    def metrics(self) -> dict[str, Metric]:
        """The metrics by name."""
        if self._loss is None:
            return dict(self._metrics)
        device = innermost(self._device)
        total, weight = (Tensor.full((), x, dtype="float64", device=device) for x in self._loss)
        return {"loss": Mean(sum=total, weight=weight), **self._metrics}


def added(metrics: Mapping[str, Metric], new: Mapping[str, Metric]) -> dict[str, Metric]:
    """Return the sums of metrics by name; a name that only one of them has is kept."""
    return {**metrics, **{name: metrics[name] + metric if name in metrics else metric for name, metric in new.items()}}


def finite_loss(loss: Tensor[Any], where: Callable[[], str]) -> float | None:
    """Check that a loss is finite, and return it if it is on the CPU; on a GPU, check at the next synchronization.

    Args:
        loss: the loss, 0-d.
        where: called for the place that the message names.
    """
    device: Any = loss._device
    if device.discrete.eager_checks:
        value = float(device.to_numpy(loss._primitive))  # 0-d, as `Step` has checked
        if not math.isfinite(value):
            raise _error(value, where())
        return value
    bad, place = (~loss.detach().isfinite()).int(), where()
    device.discrete.defer_check((bad._primitive,), lambda bad: _error(math.nan, place) if bad else None)
    return None


def _error(value: float, where: str) -> NonFiniteError:
    return NonFiniteError(
        f"the loss is {value} in {where}; detect_anomaly() of burnpy.autodiff tells which operation made it so"
    )


class CompiledSteps:
    """The compiled functions of a learner, which keep their plans from run to run.

    Raises:
        ArgumentError: the optimizer has no pure step.
    """

    def __init__(self, learner: Learner[Any, Any, Any, Any]) -> None:
        optim, clip, logs_norm = learner.optim, learner.clip, learner.grad_norm
        if optim.impure:
            raise ArgumentError(
                f"Learner(compiled=True) got {a(type(optim).__name__)}, which has no pure step: {optim.impure}"
            )
        train_step: Any = learner.train_step

        @wraps(train_step)
        def gradients(model: Any, batch: Any, scaler: Any) -> tuple[Step[Any], GradientsParams[Any]]:
            step = checked_step(train_step(model, batch), "train_step")
            loss = step.loss if scaler is None else scaler.scale(step.loss)
            grads = GradientsParams.from_grads(loss.backward(), model)
            return Step(step.loss.detach(), weight=step.weight, **step.metrics), grads

        def update(rate: Any, model: Any, grads: Any, state: Any, scaler: Any, ema: Any) -> tuple[Any, ...]:
            if scaler is not None:
                grads, scaler = scaler.unscale(grads)
            norm = grads.norm() if logs_norm else None
            model, state = optim.pure_step(rate, model, grads if clip is None else clip(grads), state)
            if ema is not None:
                ema = ema.update(model, skipped=grads.found_inf)
            return model, state, scaler, ema, norm

        self.gradients = compiled(gradients)
        """From a model, a batch and a scaler to the step, whose loss is detached, and the gradients."""
        self.update = compiled(update, donate=("grads", "state"))
        """From rate, model, gradients, state, scaler and average to the next of all but the rate and gradients, and the
        norm."""
        self.validate: Callable[..., Any] | None = None
        """The validation step."""
        if learner.valid_step is not None:
            self.validate = compiled(_checked(learner.valid_step))

    @property
    def plans(self) -> tuple[PlanExplanation, ...]:
        """The explanations of all plans."""
        functions: list[Any] = [self.gradients, self.update, *([] if self.validate is None else [self.validate])]
        return tuple([plan for function in functions for plan in function.plans])


def _checked(valid_step: Callable[..., Any]) -> Callable[..., Step[Any]]:
    @wraps(valid_step)
    def checked(model: Any, batch: Any) -> Step[Any]:
        return checked_step(valid_step(model, batch), "valid_step")

    return checked


class CompiledOptimizer:
    """The optimizer of a run with compiled steps: its state as a value, which begins as the optimizer's own."""

    def __init__(self, optim: Optimizer, steps: CompiledSteps) -> None:
        self._optim, self._steps = optim, steps
        self._state: OptimizerState | None = None

    def step(self, rate: float, at: Position, grads: Any) -> Any:
        """Advance the model, the scaler and the average; return the norm of the gradients if it is logged."""
        if self._state is None:
            record = self._optim.into_record()
            self._state = self._optim.init(at.model, record if record.states else None)
        at.model, self._state, at.scaler, at.ema, norm = self._steps.update(
            rate, at.model, grads, self._state, at.scaler, at.ema
        )
        return norm

    def into_record(self) -> OptimizerRecord:
        """Return the record of the state."""
        return self._optim.into_record() if self._state is None else self._state.into_record()

    def settled(self, model: Any) -> Optimizer:
        """Return the optimizer with the state, to continue with its own steps."""
        if self._state is not None:
            self._optim.load_record(self._state.into_record(), model)
        return self._optim


def check_batch(batch: Any) -> None:
    """Check that a batch is a tree of tensors and constants."""
    for leaf in flatten(batch, whole=True)[0]:
        if not isinstance(leaf, (TensorBase, int, float, str, bytes)):
            raise KindError(
                f"Learner(compiled=True) got {a(type(leaf).__name__)} in a batch, which is no tree of tensors; let the "
                "loader make tensors, in tuples, lists and dicts, or register its class with func.register_tree"
            )
