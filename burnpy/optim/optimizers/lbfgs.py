"""`LBfgs`: steps along a direction that the last changes of parameters and gradients give, by a line search."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias, TypeVar, overload

from burnpy.backend.dtypes import float32
from burnpy.backend.errors import ArgumentError, KindError, ShapeError, a
from burnpy.backend.operations.complex_numbers import unpaired
from burnpy.nn.buffer_updates import stepped
from burnpy.nn.module import Module
from burnpy.optim.gradients.grads_params import GradientsParams
from burnpy.optim.optimizer import Optimizer
from burnpy.optim.optimizer_states import Memory, Use
from burnpy.optim.optimizers.line_search import strong_wolfe
from burnpy.optim.parameter_batch import Pending, joint_batch
from burnpy.optim.pure_functions import in_tree, is_tree
from burnpy.optim.settings import Ranges, at_least_zero, count
from burnpy.optim.step import checked_pending, collect_pending, param_gradients, refuse_mismatch
from burnpy.optim.update_formula import Step
from burnpy.tensor.call_errors import explained
from burnpy.tensor.gradients import Gradients
from burnpy.tensor.levels import levels_of
from burnpy.tensor.tensor import ComplexTensor, Tensor
from burnpy.tensor.tensor_base import describe, tensor_of
from burnpy.typevars import M

if TYPE_CHECKING:
    from burnpy.backend.backend import Backend
    from burnpy.backend.primitives import Float
    from burnpy.optim.optimizer import Floats

    Lists: TypeAlias = tuple[Floats, ...]

T = TypeVar("T", bound=Tensor[Any] | ComplexTensor[Any] | dict[str, Any] | list[Any] | tuple[Any, ...])

CURVED = 1e-10
"""The least product of a step and the change of the gradient along it for which the pair is kept."""


class _Point(NamedTuple):
    """A model that was evaluated, at a distance along a direction."""

    distance: float
    value: float
    slope: float
    loss: Tensor[Any]
    model: Any
    grads: list[Float]
    updates: Mapping[str, Tensor[Any]]


class _Task(NamedTuple):
    """The arguments of `LBfgs.minimize`, and the parameters that it moves on a plain device."""

    model: Any
    loss_and_grads: Callable[[Any], Any]
    pending: list[Pending]
    device: Any


@dataclass(frozen=True, eq=False, kw_only=True)
class LBfgs(Optimizer):
    """The L-BFGS optimizer, a quasi-Newton method for losses without noise, such as those of all data at once.

    It estimates the inverse Hessian from the last steps and the changes of the gradient along them, over all parameters
    together. `minimize` is given a function that returns a model's loss and gradients, evaluates it as often as it
    needs, and searches along each direction for a point that satisfies the strong Wolfe conditions. `step` takes a step
    of the given rate from given gradients, as other optimizers do. The results equal those of `torch.optim.LBFGS`, of
    `minimize` with ``line_search_fn="strong_wolfe"``, of `step` with ``max_iter=1``.

    Source: Liu and Nocedal, On the limited memory BFGS method for large scale optimization, 1989.

    Args:
        max_iter: the number of directions of a call of `minimize`.
        max_eval: the number of evaluations of the loss after which `minimize` ends; ``max_iter · 5 / 4`` by default.
            The search along a direction may need one more.
        tolerance_grad: `minimize` ends where no element of the gradient is larger.
        tolerance_change: it ends where no parameter, or where the loss, changes by more.
        history_size: the number of past steps that the estimate is made of; twice as many copies of the parameters are
            stored.
        maximize: whether to go up the gradient instead of down.

    Raises:
        ArgumentError: a setting is out of range, or there are groups or weight decay, which L-BFGS does not have: all
            parameters take one step together, and a penalty belongs into the loss.

    >>> def loss_and_grads(p):
    ...     loss = (1.0 - p["x"]) ** 2 + 100.0 * (p["y"] - p["x"] ** 2) ** 2
    ...     return loss, loss.backward()
    >>> p = {name: Tensor[Autodiff[NumPy]].from_data(0.0, dtype="float64").require_grad() for name in "xy"}
    >>> p, loss = LBfgs(max_iter=50).minimize(1.0, p, loss_and_grads)
    >>> round(p["x"].item(), 4), round(p["y"].item(), 4), loss.item() < 1e-10
    (1.0, 1.0, True)
    """

    max_iter: int = 20
    max_eval: int | None = None
    tolerance_grad: float = 1e-7
    tolerance_change: float = 1e-9
    history_size: int = 10

    ranges: ClassVar[Ranges] = {
        "max_iter": count,
        "tolerance_grad": at_least_zero,
        "tolerance_change": at_least_zero,
        "history_size": count,
    }
    joint: ClassVar[bool] = True
    impure: ClassVar[str] = "its steps depend on values of its history, which it reads"

    def check(self) -> None:
        """Check that the settings are in range.

        Raises:
            ArgumentError: a setting is out of range.
        """
        super().check()
        if self.max_eval is not None:
            count(self.max_eval, "LBfgs(max_eval=)")
        if self.weight_decay:
            raise ArgumentError(
                f"LBfgs() got weight_decay={self.weight_decay!r:.80}; add 0.5 * weight_decay * p.square().sum() to "
                "the loss, which the search for a step has to know"
            )
        if self.groups:
            raise ArgumentError("LBfgs() got groups; all parameters take one step together")
        if self.master_weights:
            raise ArgumentError("LBfgs() got master_weights=True; it needs losses without noise: use float32")

    @property
    def slots(self) -> tuple[str, ...]:
        """The last gradient and step; and, from the newest, changes of the gradient and the steps that made them."""
        pairs = [name for k in range(self.history_size) for name in (f"change_{k}", f"step_{k}")]
        return ("gradient", "step", *pairs)

    def initial(self, device: Backend, param: Float) -> tuple[Float, ...]:
        """Return zeros, which stand for no past step."""
        return (device.full(param.shape, 0.0, param.dtype),) * len(self.slots)

    def update(
        self, device: Backend, params: Floats, grads: Floats, states: tuple[Floats, ...], step: Step
    ) -> tuple[Floats, ...]:
        """Return the parameters after a step of the given rate, and the new states."""
        d: Any = device
        grads = [step.gradient(d, param, grad) for param, grad in zip(params, grads, strict=True)]
        direction, history = self._direction(d, grads, states, step.number)
        rate = _rate(d, grads, step)
        steps = [d.mul(along, rate) for along in direction]
        return [d.add(param, x) for param, x in zip(params, steps, strict=True)], grads, steps, *history

    @overload
    def minimize(
        self, lr: float, model: M, loss_and_grads: Callable[[M], tuple[Tensor[Any], Any]]
    ) -> tuple[M, Tensor[Any]]: ...
    @overload
    def minimize(
        self, lr: float, model: T, loss_and_grads: Callable[[T], tuple[Tensor[Any], Any]]
    ) -> tuple[T, Tensor[Any]]: ...
    @explained
    def minimize(self, lr: float, model: Any, loss_and_grads: Callable[[Any], Any]) -> Any:
        """Take up to ``max_iter`` steps, each to a point that satisfies the strong Wolfe conditions.

        A further call continues with this call's estimate of the Hessian. If no step reduces the loss, it returns the
        model unchanged.

        Args:
            lr: the distance to try first along a direction, in general 1.
            model: a model; or a float tensor, or dicts, lists and tuples of them.
            loss_and_grads: returns the loss of a model, a 0-d tensor, and its gradients, ``loss.backward()`` or
                `GradientsParams`. It is called several times for each step, and must have no noise: neither dropout
                nor batches.

        Returns:
            The new model, and its loss.

        Raises:
            KindError: ``loss_and_grads`` is not a function, or returns something else.
            ArgumentError: the rate is negative or not finite; a gradient is missing that another evaluation had; the
                gradients contain none of the model's parameters.
            ShapeError: the loss is not 0-d.
            ModuleError, DeviceError, StateError: see `step`.
        """
        given: object = loss_and_grads
        if not callable(given):
            raise KindError(
                f"LBfgs.minimize() takes a function that returns the loss and the gradients of a model, got "
                f"{describe(given)}; step() takes gradients"
            )
        if not isinstance(model, Module) and is_tree(model):
            held, restored = in_tree("LBfgs.minimize()", model)
            after, loss = self.minimize(lr, held, lambda trial: loss_and_grads(restored(trial, tracked=True)))
            return restored(after), loss
        memory, use = self._memory, Use("minimize()", "go on")
        try:
            memory.begin(use)
            new, loss, replaced = self._minimized(memory, lr, model, loss_and_grads)
        finally:
            memory.end(use)
        memory.replaced = replaced
        return new, loss

    def _minimized(
        self, memory: Memory, lr: float, model: Any, loss_and_grads: Callable[[Any], Any]
    ) -> tuple[Any, Tensor[Any], Any]:
        """Return the new model, its loss, and the record of replaced leaves."""
        rate = at_least_zero(lr, "the learning rate of LBfgs.minimize()")
        loss, param_grads = self._evaluated(model, loss_and_grads)
        _, d, pending = checked_pending(self, memory, model, param_grads)
        if not pending:  # as a step without gradients
            return model, loss, memory.replaced
        point = self._point(0.0, model, loss, param_grads, pending, d)
        batch = joint_batch(pending, memory.states, Step(rate))
        values: list[Float] = [item.value for item in pending]
        states: Lists = batch.states(memory.states, self.slots, d, self.initial, values)
        task = _Task(model, loss_and_grads, pending, d)
        point, values, states, step = self._descended(task, point, values, states, batch.step)
        if step.number > batch.step.number:
            last = batch._replace(step=step._replace(number=step.number - 1))
            for ident, _, state in last.updated((values, *states), memory.states, self.slots, d):
                memory.states[ident] = state
            memory.loaded = False
        if point.model is model:
            return model, point.loss, memory.replaced
        new = stepped(point.model, {}, point.updates) if point.updates else point.model
        return new, point.loss, memory.with_replaced([item.param._value for item in pending])

    def _descended(
        self, task: _Task, point: _Point, values: list[Float], states: Lists, step: Step
    ) -> tuple[_Point, list[Float], Lists, Step]:
        """Search along one direction after the other; return the last point, its values and states, and the step."""
        d, begun, evaluations = task.device, point, 1
        most = self.max_eval if self.max_eval is not None else self.max_iter * 5 // 4
        for _ in range(self.max_iter):
            if _largest(d, point.grads) <= self.tolerance_grad or (evaluations >= most and point is not begun):
                break
            direction, history = self._direction(d, point.grads, states, step.number)
            start = point._replace(distance=0.0, slope=_dot(d, point.grads, direction))
            states = (point.grads, [d.mul(along, 0.0) for along in direction], *history)
            first, reach = _rate(d, point.grads, step), _largest(d, direction)
            step = step._replace(number=step.number + 1)
            if start.slope > -self.tolerance_change:
                break
            at, resolution = partial(self._at, task, values, direction), self.tolerance_change / reach
            after, tried = strong_wolfe(at, start, first, resolution=resolution, most=most - evaluations)
            evaluations += tried
            steps = [d.mul(along, after.distance) for along in direction]
            values = [d.add(x, y) for x, y in zip(values, steps, strict=True)]
            states = (point.grads, steps, *history)
            change, gain = after.distance * reach, abs(after.value - point.value)
            point = after
            if change <= self.tolerance_change or gain < self.tolerance_change:
                break
        return point, values, states, step

    def _at(self, task: _Task, origin: Floats, along: Floats, distance: float) -> _Point:
        """Evaluate the model at a distance along a direction."""
        d, moved = task.device, {}
        for item, x, y in zip(task.pending, origin, along, strict=True):
            value = d.add(x, d.mul(y, distance))
            moved[item.param.id] = tensor_of(d, unpaired(d, value) if item.param.kind == "complex" else value)
        trial = task.model.with_values(moved)
        loss, param_grads = self._evaluated(trial, task.loss_and_grads)
        point = self._point(distance, trial, loss, param_grads, task.pending, d)
        return point._replace(slope=_dot(d, point.grads, along))

    def _evaluated(self, model: Any, loss_and_grads: Callable[[Any], Any]) -> tuple[Tensor[Any], GradientsParams[Any]]:
        result = loss_and_grads(model)
        if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[0], Tensor):
            raise KindError(
                f"LBfgs.minimize() got a function that returned {a(type(result).__name__)}; return the loss and "
                "the gradients: return loss, loss.backward()"
            )
        loss, grads = result
        if loss.shape != ():
            raise ShapeError(f"LBfgs.minimize() got a loss of shape {loss.shape}; expected 0-d, as loss.mean() is")
        if not isinstance(grads, (Gradients, GradientsParams)):
            raise KindError(
                f"LBfgs.minimize() got a function that returned {a(type(grads).__name__)} after the loss; return "
                "loss, loss.backward()"
            )
        return loss, param_gradients(self, grads, model)

    def _point(
        self,
        distance: float,
        model: Any,
        loss: Tensor[Any],
        param_grads: GradientsParams[Any],
        pending: Sequence[Pending],
        device: Any,
    ) -> _Point:
        """Return an evaluated model as a point; of the function to minimize, so negated if ``maximize``."""
        sign = -1.0 if self.maximize else 1.0
        given, mismatch = collect_pending(model, param_grads._values, {}, levels_of(model.device))
        if mismatch is not None:
            refuse_mismatch(mismatch, None, self.slot_shape)
        by_id = {item.param.id: item.grad for item in given}
        grads: list[Float] = []
        for item in pending:
            if item.param.id not in by_id:
                raise ArgumentError(
                    f"LBfgs.minimize() got no gradient for {item.path} from a later evaluation of the loss; the loss "
                    "must depend on the same parameters each time"
                )
            grad = by_id[item.param.id]
            grads.append(device.neg(grad) if self.maximize else grad)
        value = sign * loss.item()
        updates = param_grads.buffer_updates
        return _Point(distance, math.inf if math.isnan(value) else value, 0.0, loss, model, grads, updates)

    def _direction(
        self, d: Any, grads: Floats, states: tuple[Floats, ...], number: int
    ) -> tuple[list[Float], list[Floats]]:
        """Return the direction of the next step, and the pairs of the new states: the two-loop recursion."""
        gradient, last, *rest = states
        pairs: list[tuple[Floats, Floats]] = [*zip(rest[::2], rest[1::2], strict=True)]
        direction: list[Float] = [d.neg(grad) for grad in grads]
        if number == 1:
            empty = [d.mul(grad, 0.0) for grad in grads]
            return direction, [empty] * len(rest)
        change: Floats = [d.sub(grad, before) for grad, before in zip(grads, gradient, strict=True)]
        if _dot(d, change, last) > CURVED:
            pairs = [(change, last), *pairs[:-1]]
        known = [(y, s, product) for y, s in pairs if (product := _dot(d, y, s)) > 0.0]
        factors: list[float] = []
        for y, s, product in known:
            factors.append(_dot(d, s, direction) / product)
            direction = _plus(d, direction, y, -factors[-1])
        if known:
            y, _, product = known[0]
            scale = product / _dot(d, y, y)
            direction = [d.mul(x, scale) for x in direction]
        for (y, s, product), factor in zip(reversed(known), reversed(factors), strict=True):
            direction = _plus(d, direction, s, factor - _dot(d, y, direction) / product)
        return direction, [part for pair in pairs for part in pair]


def _rate(d: Any, grads: Floats, step: Step) -> float:
    """Return the first distance to try: the rate; for the first step at most one in the sum of all changes."""
    rate: float = step.lr
    if step.number > 1:
        return rate
    total = sum([_float(d, _sum(d, d.abs(x))) for x in grads])
    return min(1.0, 1.0 / total) * rate if total > 0 else rate


def _plus(d: Any, xs: Floats, ys: Floats, factor: float) -> list[Float]:
    return [d.add(x, d.mul(y, factor)) for x, y in zip(xs, ys, strict=True)]


def _dot(d: Any, xs: Floats, ys: Floats) -> float:
    """Return the inner product of two lists of arrays."""
    return sum([_float(d, _sum(d, d.mul(_wide(d, x), _wide(d, y)))) for x, y in zip(xs, ys, strict=True)])


def _largest(d: Any, xs: Floats) -> float:
    """Return the largest magnitude of all elements."""
    each = [_float(d, d.amax(d.abs(x), tuple(range(len(x.shape))), False)) for x in xs if 0 not in x.shape]
    return max(each, default=0.0)


def _sum(d: Any, x: Float) -> Float:
    return d.sum(_wide(d, x), tuple(range(len(x.shape))), False)


def _wide(d: Any, x: Float) -> Float:
    """Return an array in float32 at least, as sums and products of float16 overflow."""
    return d.cast(x, float32) if x.dtype.itemsize < 4 else x


def _float(d: Any, x: Float) -> float:
    return float(d.to_numpy(x))
