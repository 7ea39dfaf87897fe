"""Examples of the update steps of optimizers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from burnpy.backend.operations.optimizer import Step
from burnpy.testing.cases.samples import Array, Index, Large, Values, x
from burnpy.testing.cases.table import Example, Reference, row


def _down(param: Any, grad: Any, step: Step) -> Any:
    """Return the gradient to descend."""
    return grad * (-1 if step.maximize else 1) + step.weight_decay * param


def _sgd(param: Any, grad: Any, step: Step) -> Any:
    return (param - step.lr * _down(param, grad, step),)


def _momentum(
    param: Any, grad: Any, velocity: Any, step: Step, momentum: float, dampening: float, nesterov: bool
) -> Any:
    grad = _down(param, grad, step)
    velocity = momentum * velocity + (1 - dampening) * grad
    return param - step.lr * (grad + momentum * velocity if nesterov else velocity), velocity


def _amsgrad(
    param: Any, grad: Any, mean: Any, square: Any, largest: Any, step: Step, beta1: float, beta2: float, eps: float,
    decoupled: bool,
) -> Any:  # fmt: skip
    if decoupled:
        param, grad = param * (1 - step.lr * step.weight_decay), grad * (-1 if step.maximize else 1)
    else:
        grad = _down(param, grad, step)
    mean = beta1 * mean + (1 - beta1) * grad
    square = beta2 * square + (1 - beta2) * grad**2
    largest = square if largest is None else np.maximum(largest, square)
    corrected, root = mean / (1 - beta1**step.number), np.sqrt(largest / (1 - beta2**step.number))
    return param - step.lr * corrected / (root + eps), mean, square, largest


def _adam(param: Any, grad: Any, mean: Any, square: Any, *settings: Any) -> Any:
    return _amsgrad(param, grad, mean, square, None, *settings)[:3]


def _rmsprop(param: Any, grad: Any, square: Any, step: Step, alpha: float, eps: float) -> Any:
    return _rmsprop_momentum(param, grad, square, 0, 0, step, alpha, eps, 0, False)[:2]


def _rmsprop_momentum(
    param: Any, grad: Any, square: Any, average: Any, velocity: Any, step: Step, alpha: float, eps: float,
    momentum: float, centered: bool,
) -> Any:  # fmt: skip
    grad = _down(param, grad, step)
    square = alpha * square + (1 - alpha) * grad**2
    average = alpha * average + (1 - alpha) * grad if centered else average
    velocity = momentum * velocity + grad / (np.sqrt(square - average**2 * centered) + eps)
    return param - step.lr * velocity, square, average, velocity


def _adagrad(param: Any, grad: Any, total: Any, step: Step, lr_decay: float, eps: float) -> Any:
    grad = _down(param, grad, step)
    total = total + grad**2
    return param - step.lr / (1 + (step.number - 1) * lr_decay) * grad / (np.sqrt(total) + eps), total


def _over_lists(reference: Reference, states: int) -> Reference:
    """Return the reference of an update of lists of parameters, made from the reference of one update."""

    def updated(*arguments: Any) -> Any:
        lists, settings = arguments[: 2 + states], arguments[2 + states :]
        rows = [reference(*row, *settings) for row in zip(*lists, strict=True)]
        columns = tuple([row[k] for row in rows] for k in range(1 + states))
        return columns if states else columns[0]

    return updated


def _large(*shape: int, low: float = -2.0, high: float = 2.0) -> Array:
    return Large(shape, low, high)


_SHAPES: tuple[tuple[int, ...], ...] = ((2, 3), (), (0, 3), (130, 140))


def _lists(signed: Sequence[bool], shapes: Sequence[tuple[int, ...]] = _SHAPES) -> tuple[list[Array], ...]:
    """Return parameters, gradients and states. Those that are not signed are positive."""
    lists: tuple[list[Array], ...] = ([], [], *([] for _ in signed))
    for shape in shapes:
        kind = _large if len(shape) > 1 and shape[0] > 100 else x
        lists[0].append(kind(*shape))
        lists[1].append(kind(*shape, low=0.2, high=1.5))
        for k, is_signed in enumerate(signed):
            low, high = (-1.0, 1.0 + 0.1 * k) if is_signed else (4.0, 4.5 + k)
            lists[2 + k].append(kind(*shape, low=low, high=high))
    return lists


def _row(name: str, reference: Reference, signed: Sequence[bool], settings: Sequence[Example], loose: float) -> None:
    """Add the cases of an update.

    Args:
        name: the operation.
        reference: the update of one parameter.
        signed: for each state, whether its elements may be negative.
        settings: the `Step` and the other arguments of each example.
        loose: see `row`.
    """
    row(
        name,
        _over_lists(reference, len(signed)),
        [
            *((*_lists(signed, shapes), *settings[0]) for shapes in ((), ((2, 3),), ((260, 140),))),
            *((*_lists(signed), *given) for given in settings),
            *((*_lists(signed), step._replace(owned=True), *rest) for step, *rest in settings if signed),
        ],
        loose=loose,
    )


_PLAIN, _DECAYED, _UP = Step(0.1), Step(0.1, 5, 0.1), Step(0.1, 2, 0.1, True)
_STEPS = (_PLAIN, _DECAYED, _UP, Step(0.1, maximize=True))

_row("sgd_update", _sgd, (), [(step,) for step in _STEPS], loose=2)
_row(
    "momentum_update",
    _momentum,
    (True,),
    [(_PLAIN, 0.9, 0.0, False), (_DECAYED, 0.9, 0.5, False), (_DECAYED, 0.9, 0.0, True), (_UP, 0.9, 0.0, True)],
    loose=4,
)
_ADAM = [(step, 0.9, 0.99, 1e-2, decoupled) for step in _STEPS for decoupled in (False, True)]
_row("adam_update", _adam, (True, False), _ADAM, loose=8)
_row("amsgrad_update", _amsgrad, (True, False, False), _ADAM, loose=8)
_row("rmsprop_update", _rmsprop, (False,), [(step, 0.9, 1e-2) for step in _STEPS], loose=8)
_row(
    "rmsprop_momentum_update",
    _rmsprop_momentum,
    (False, True, True),
    [(step, 0.9, 1e-2, 0.9, centered) for step in _STEPS for centered in (False, True)],
    loose=8,
)
row(
    "average_update",
    lambda averages, totals, share: [
        a * (1 - share) + (t[:-1] / t[-1]).reshape(a.shape) * share for a, t in zip(averages, totals, strict=True)
    ],
    [
        ([], [], 0.1),
        ([x(3), x(), x(2, 3)], [x(4, low=0.5), x(2, low=0.5), x(7, low=0.5)], 0.1),
        ([x(0), x(3)], [x(1, low=0.5), x(4, low=0.5)], 1.0),
        ([_large(3000)], [_large(3001, low=0.5)], 0.25),
    ],
    loose=4,
)
row(
    "count_update",
    lambda count, total: count + np.rint(total[-1]).astype(np.int64),
    [(Index(5), Values((0.5, 2.0))), (Index(0), Values((1.0,))), (Index(3), Values((7.0, 7.0, 0.99)))],
)
_row("adagrad_update", _adagrad, (False,), [(step, 0.01, 1e-2) for step in _STEPS], loose=8)
