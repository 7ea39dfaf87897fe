"""Examples of the update steps of optimizers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from burnpy.testing.cases.samples import Array, Large, x
from burnpy.testing.cases.table import Example, Reference, row


def _momentum(
    param: Any, grad: Any, velocity: Any, lr: float, momentum: float, dampening: float, nesterov: bool, decay: float
) -> Any:
    grad = grad + decay * param
    velocity = momentum * velocity + (1 - dampening) * grad
    return param - lr * (grad + momentum * velocity if nesterov else velocity), velocity


def _amsgrad(
    param: Any, grad: Any, mean: Any, square: Any, largest: Any, lr: float, beta1: float, beta2: float, eps: float,
    decay: float, decoupled: bool, step: int,
) -> Any:  # fmt: skip
    param, grad = (param * (1 - lr * decay), grad) if decoupled else (param, grad + decay * param)
    mean = beta1 * mean + (1 - beta1) * grad
    square = beta2 * square + (1 - beta2) * grad**2
    largest = square if largest is None else np.maximum(largest, square)
    corrected, root = mean / (1 - beta1**step), np.sqrt(largest / (1 - beta2**step))
    return param - lr * corrected / (root + eps), mean, square, largest


def _rmsprop(
    param: Any, grad: Any, square: Any, average: Any, velocity: Any, lr: float, alpha: float, eps: float, decay: float,
    momentum: float, centered: bool,
) -> Any:  # fmt: skip
    grad = grad + decay * param
    square = alpha * square + (1 - alpha) * grad**2
    average = alpha * average + (1 - alpha) * grad if centered else average
    velocity = momentum * velocity + grad / (np.sqrt(square - average**2 * centered) + eps)
    return param - lr * velocity, square, average, velocity


def _adagrad(param: Any, grad: Any, total: Any, lr: float, lr_decay: float, eps: float, decay: float, step: int) -> Any:
    grad = grad + decay * param
    total = total + grad**2
    return param - lr / (1 + (step - 1) * lr_decay) * grad / (np.sqrt(total) + eps), total


def _large(*shape: int, low: float = -2.0, high: float = 2.0) -> Array:
    return Large(shape, low, high)


def _states(squares: int, others: int) -> list[tuple[Array, ...]]:
    """Return examples of a parameter, a gradient, ``squares`` positive states and ``others`` other states."""
    examples: list[tuple[Array, ...]] = []
    for kind, shape in ((x, (2, 3)), (x, ()), (x, (0, 3)), (_large, (130, 140))):
        squared = [kind(*shape, low=4.0, high=4.5 + k) for k in range(squares)]
        rest = [kind(*shape, low=-1.0, high=1.0 + 0.1 * k) for k in range(others)]
        examples.append((kind(*shape), kind(*shape, low=0.2, high=1.5), *squared, *rest))
    return examples


def _row(name: str, reference: Reference, states: int, examples: Sequence[Example], loose: float) -> None:
    """Add the cases of an update with a number of states, whose memory may be reused if they are owned."""
    row(
        name,
        lambda *arguments: reference(*arguments[:-1]),
        [(*example, owned) for example in examples for owned in (False, True)],
        consumes=range(2, 2 + states),
        loose=loose,
    )


_DECAYS = (0.0, 0.1)

row(
    "sgd_update",
    lambda param, grad, lr, decay: param - lr * (grad + decay * param),
    [(*s, 0.1, decay) for s in _states(0, 0) for decay in _DECAYS],
    loose=2,
)
_row(
    "momentum_update",
    _momentum,
    1,
    [
        (*s, 0.1, 0.9, dampening, nesterov, decay)
        for s in _states(0, 1)
        for dampening, nesterov, decay in ((0.0, False, 0.0), (0.5, False, 0.1), (0.0, True, 0.1))
    ],
    loose=4,
)
_ADAM = [(0.1, 0.9, 0.99, 1e-2, decay, decoupled, step) for decay, decoupled, step in
         ((0.0, False, 1), (0.1, False, 2), (0.1, True, 100), (0.0, True, 3))]  # fmt: skip
_row(
    "adam_update",
    lambda param, grad, mean, square, *how: _amsgrad(param, grad, mean, square, None, *how)[:3],
    2,
    [(p, g, mean, square, *how) for p, g, square, mean in _states(1, 1) for how in _ADAM],
    loose=8,
)
_row(
    "amsgrad_update",
    _amsgrad,
    3,
    [(p, g, mean, square, largest, *how) for p, g, square, largest, mean in _states(2, 1) for how in _ADAM],
    loose=8,
)
_row(
    "rmsprop_update",
    lambda param, grad, square, lr, alpha, eps, decay: _rmsprop(
        param, grad, square, 0, 0, lr, alpha, eps, decay, 0, False
    )[:2],
    1,
    [(*s, 0.1, 0.9, 1e-2, decay) for s in _states(1, 0) for decay in _DECAYS],
    loose=8,
)
_row(
    "rmsprop_momentum_update",
    _rmsprop,
    3,
    [(*s, 0.1, 0.9, 1e-2, 0.1, 0.9, centered) for s in _states(1, 2) for centered in (False, True)],
    loose=8,
)
_row(
    "adagrad_update",
    _adagrad,
    1,
    [(*s, 0.1, 0.01, 1e-2, decay, step) for s in _states(1, 0) for decay, step in ((0.0, 1), (0.1, 5))],
    loose=8,
)
