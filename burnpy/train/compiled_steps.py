"""`CompiledSteps`: the steps of a learner as compiled functions, and the optimizer's state as a value between them.

A batch takes two plans: one from the model and the batch to the `Step` and the gradients, and one from the gradients to
the next model. Between them gradients are accumulated, and exchanged with other processes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from burnpy.backend.errors import ArgumentError, KindError, a
from burnpy.backend.plans.explain import PlanExplanation
from burnpy.func.compiling.compilation import compiled
from burnpy.func.pytree import flatten
from burnpy.optim.gradients.grads_params import GradientsParams
from burnpy.optim.memory import OptimizerRecord
from burnpy.optim.optimizer import Optimizer
from burnpy.optim.pure import OptimizerState
from burnpy.tensor.tensor_base import TensorBase
from burnpy.train.train_step import Step, checked_step

if TYPE_CHECKING:
    from burnpy.train.learner import Learner


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

        def update(rate: Any, model: Any, grads: Any, state: Any, scaler: Any) -> tuple[Any, ...]:
            if scaler is not None:
                grads, scaler = scaler.unscale(grads)
            norm = grads.norm() if logs_norm else None
            model, state = optim.pure_step(rate, model, grads if clip is None else clip(grads), state)
            return model, state, scaler, norm

        self.gradients = compiled(gradients)
        """From a model, a batch and a scaler to the step, whose loss is detached, and the gradients."""
        self.update = compiled(update, donate=("grads", "state"))
        """From rate, model, gradients, state and scaler to the next model, state and scaler, and the norm."""
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

    def step(self, rate: float, model: Any, grads: Any, scaler: Any) -> tuple[Any, Any, Any]:
        """Return the next model and scaler, and the norm of the gradients if it is logged."""
        if self._state is None:
            record = self._optim.into_record()
            self._state = self._optim.init(model, record if record.states else None)
        model, self._state, scaler, norm = self._steps.update(rate, model, grads, self._state, scaler)
        return model, scaler, norm

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
