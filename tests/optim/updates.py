"""Updates of optimizers on lists of primitives, and what they are to give, computed with NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from burnpy.optim import (
    AdaDelta,
    AdaGrad,
    Adam,
    Adamax,
    AdamW,
    Asgd,
    Lion,
    NAdam,
    Optimizer,
    RAdam,
    RmsProp,
    Rprop,
    Sgd,
    Step,
)

STEPS = (Step(0.1), Step(0.1, 5, 0.1), Step(0.1, 2, 0.1, True), Step(0.1, maximize=True))


def _down(param: Any, grad: Any, step: Step, decoupled: bool = False) -> tuple[Any, Any]:
    """The parameter and the gradient to descend."""
    grad = grad * (-1 if step.maximize else 1)
    return (param * (1 - step.lr * step.weight_decay), grad) if decoupled else (param, grad + step.weight_decay * param)


def _sgd(optim: Any, step: Step, param: Any, grad: Any) -> Any:
    param, grad = _down(param, grad, step)
    return (param - step.lr * grad,)


def _momentum(optim: Any, step: Step, param: Any, grad: Any, velocity: Any) -> Any:
    param, grad = _down(param, grad, step)
    velocity = optim.momentum * velocity + (1 - optim.dampening * (step.number > 1)) * grad
    return param - step.lr * (grad + optim.momentum * velocity if optim.nesterov else velocity), velocity


def _adam(optim: Any, step: Step, param: Any, grad: Any, mean: Any, square: Any, *largest: Any) -> Any:
    beta1, beta2 = optim.betas
    param, grad = _down(param, grad, step, optim.decoupled)
    mean = beta1 * mean + (1 - beta1) * grad
    square = beta2 * square + (1 - beta2) * grad**2
    largest = tuple([np.maximum(x, square) for x in largest])
    corrected, root = mean / (1 - beta1**step.number), np.sqrt([*largest, square][0] / (1 - beta2**step.number))
    return param - step.lr * corrected / (root + optim.eps), mean, square, *largest


def _rmsprop(optim: Any, step: Step, param: Any, grad: Any, square: Any, average: Any = 0, velocity: Any = 0) -> Any:
    param, grad = _down(param, grad, step)
    square = optim.alpha * square + (1 - optim.alpha) * grad**2
    average = optim.alpha * average + (1 - optim.alpha) * grad if optim.centered else average
    velocity = optim.momentum * velocity + grad / (np.sqrt(square - average**2 * optim.centered) + optim.eps)
    return (param - step.lr * velocity, square, average, velocity)[: 1 + len(optim.slots)]


def _adagrad(optim: Any, step: Step, param: Any, grad: Any, total: Any) -> Any:
    param, grad = _down(param, grad, step)
    total = total + grad**2
    rate = step.lr / (1 + (step.number - 1) * optim.lr_decay)
    return param - rate * grad / (np.sqrt(total) + optim.eps), total


def _adadelta(optim: Any, step: Step, param: Any, grad: Any, square: Any, changes: Any) -> Any:
    param, grad = _down(param, grad, step)
    square = optim.rho * square + (1 - optim.rho) * grad**2
    change = np.sqrt(changes + optim.eps) / np.sqrt(square + optim.eps) * grad
    return param - step.lr * change, square, optim.rho * changes + (1 - optim.rho) * change**2


def _adamax(optim: Any, step: Step, param: Any, grad: Any, mean: Any, norm: Any) -> Any:
    beta1, beta2 = optim.betas
    param, grad = _down(param, grad, step)
    mean = beta1 * mean + (1 - beta1) * grad
    norm = np.maximum(beta2 * norm, abs(grad) + optim.eps)
    return param - step.lr / (1 - beta1**step.number) * mean / norm, mean, norm


def _lion(optim: Any, step: Step, param: Any, grad: Any, mean: Any) -> Any:
    beta1, beta2 = optim.betas
    param, grad = _down(param, grad, step, decoupled=True)
    change = np.sign(beta1 * mean + (1 - beta1) * grad)
    return param - step.lr * change, beta2 * mean + (1 - beta2) * grad


def _nadam(optim: Any, step: Step, param: Any, grad: Any, mean: Any, square: Any) -> Any:
    beta1, beta2 = optim.betas
    param, grad = _down(param, grad, step, optim.decoupled_weight_decay)
    mean = beta1 * mean + (1 - beta1) * grad
    square = beta2 * square + (1 - beta2) * grad**2
    momenta = [beta1 * (1 - 0.5 * 0.96 ** (t * optim.momentum_decay)) for t in range(1, step.number + 2)]
    change = (1 - momenta[-2]) / (1 - math.prod(momenta[:-1])) * grad + momenta[-1] / (1 - math.prod(momenta)) * mean
    return param - step.lr * change / (np.sqrt(square / (1 - beta2**step.number)) + optim.eps), mean, square


def _radam(optim: Any, step: Step, param: Any, grad: Any, mean: Any, square: Any) -> Any:
    (beta1, beta2), t = optim.betas, step.number
    param, grad = _down(param, grad, step, optim.decoupled_weight_decay)
    mean = beta1 * mean + (1 - beta1) * grad
    square = beta2 * square + (1 - beta2) * grad**2
    most = 2 / (1 - beta2) - 1
    rho = most - 2 * t * beta2**t / (1 - beta2**t)
    change = step.lr * mean / (1 - beta1**t)
    if rho > 5:
        r = math.sqrt((rho - 4) * (rho - 2) * most / ((most - 4) * (most - 2) * rho))
        change = change * r * math.sqrt(1 - beta2**t) / (np.sqrt(square) + optim.eps)
    return param - change, mean, square


def _asgd(optim: Any, step: Step, param: Any, grad: Any, average: Any) -> Any:
    param, grad = _down(param, grad, step)
    rate = step.lr / (1 + optim.lambd * step.lr * (step.number - 1)) ** optim.alpha
    param = param * (1 - optim.lambd * rate) - rate * grad
    return param, average + (param - average) / max(1, step.number - 1 - optim.t0)


def _rprop(optim: Any, step: Step, param: Any, grad: Any, previous: Any, size: Any) -> Any:
    param, grad = _down(param, grad, step)
    size = size + (step.lr if step.number == 1 else 0)
    turn = np.sign(grad * previous)
    size = np.clip(size * np.where(turn > 0, optim.etas[1], np.where(turn < 0, optim.etas[0], 1.0)), *optim.step_sizes)
    grad = np.where(turn < 0, 0.0, grad)
    return param - size * np.sign(grad), grad, size


class Update(NamedTuple):
    """An optimizer with settings, and its update of one parameter with NumPy."""

    optim: Optimizer
    reference: Callable[..., Any]
    signed: tuple[bool, ...]  #: for each state, whether its elements may be negative

    def __call__(self, device: Any, lists: Sequence[Sequence[Any]], step: Step) -> tuple[Sequence[Any], ...]:
        """Return the new parameters and states, from parameters, gradients and states."""
        return self.optim.update(device, lists[0], lists[1], tuple(lists[2:]), step)

    def expected(self, row: Sequence[Any], step: Step) -> Any:
        """Return the new parameter and states of one parameter, in float64 rounded to its dtype."""
        given = [np.asarray(x).astype(np.float64) for x in row]
        return [np.asarray(x).astype(row[0].dtype) for x in self.reference(self.optim, step, *given)]


_ADAM: Any = {"betas": (0.9, 0.99), "eps": 1e-2}
UPDATES: dict[str, Update] = {
    "sgd": Update(Sgd(), _sgd, ()),
    "momentum": Update(Sgd(momentum=0.9, dampening=0.5), _momentum, (True,)),
    "nesterov": Update(Sgd(momentum=0.9, nesterov=True), _momentum, (True,)),
    "adam": Update(Adam(**_ADAM), _adam, (True, False)),
    "adamw": Update(AdamW(**_ADAM), _adam, (True, False)),
    "amsgrad": Update(AdamW(amsgrad=True, **_ADAM), _adam, (True, False, False)),
    "rmsprop": Update(RmsProp(alpha=0.9, eps=1e-2), _rmsprop, (False,)),
    "rmsprop_momentum": Update(RmsProp(alpha=0.9, eps=1e-2, momentum=0.9), _rmsprop, (False, True, True)),
    "centered": Update(RmsProp(alpha=0.9, eps=1e-2, momentum=0.9, centered=True), _rmsprop, (False, True, True)),
    "adagrad": Update(AdaGrad(lr_decay=0.01, eps=1e-2), _adagrad, (False,)),
    "adadelta": Update(AdaDelta(eps=1e-2), _adadelta, (False, False)),
    "adamax": Update(Adamax(**_ADAM), _adamax, (True, False)),
    "lion": Update(Lion(), _lion, (True,)),
    "asgd": Update(Asgd(lambd=0.1, alpha=0.5, t0=1), _asgd, (True,)),
    "rprop": Update(Rprop(step_sizes=(1e-3, 4.6)), _rprop, (True, False)),
    "nadam": Update(NAdam(decoupled_weight_decay=True, **_ADAM), _nadam, (True, False)),
    "radam": Update(RAdam(betas=(0.9, 0.8), eps=1e-2), _radam, (True, False)),
}
"""All optimizers whose update is a formula, by a name of their settings."""


def lists_of(update: Update, shapes: Sequence[tuple[int, ...]], dtype: Any, seed: int = 0) -> list[list[Any]]:
    """Return parameters, gradients and states as NumPy arrays. Those of squares are positive."""
    return [[x.astype(dtype) for x in xs] for xs in _drawn(update.signed, tuple(shapes), seed)]


@lru_cache(64)
def _drawn(signed: tuple[bool, ...], shapes: tuple[tuple[int, ...], ...], seed: int) -> list[list[Any]]:
    rng = np.random.default_rng(seed)
    bounds = [(-2.0, 2.0), (0.2, 1.5), *[(-1.0, 1.0) if is_signed else (4.0, 4.5) for is_signed in signed]]
    return [[np.asarray(rng.uniform(*bound, shape)) for shape in shapes] for bound in bounds]
