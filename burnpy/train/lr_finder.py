"""`find_lr`: the loss over a range of learning rates, to choose one."""

from __future__ import annotations

import copy
import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from burnpy.backend.errors import ArgumentError
from burnpy.optim.gradients.grads_params import GradientsParams
from burnpy.train.strategy import batches_of
from burnpy.train.train_step import checked_step

if TYPE_CHECKING:
    from burnpy.nn.module import Module
    from burnpy.train.learner import Learner


@dataclass(frozen=True)
class LrRange:
    """The result of `find_lr`."""

    rates: tuple[float, ...]  #: increasing by a constant factor
    losses: tuple[float, ...]  #: at each rate, smoothed
    suggestion: float  #: the rate at which the loss falls most steeply


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

    Model and learner are not changed. The learner's accumulation and callbacks do not take part.

    Args:
        learner: the learner. Its train step, optimizer and clipping are used.
        model: the model to begin with.
        train: the batches, which are repeated if they are fewer than ``steps``.
        start: the first learning rate.
        end: the last learning rate.
        steps: the number of optimizer steps.
        smoothing: the weight of earlier losses in the exponential average.
        diverged: stop when the loss exceeds the smallest by this factor.

    Raises:
        ArgumentError: the range is empty, or the loss diverged at once.

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
    if not 0 < start < end < math.inf or steps < 3:
        raise ArgumentError(f"find_lr() got {steps} steps from {start} to {end}; give 3 or more, upwards from above 0")
    optim, scaler, factor = copy.copy(learner.optim), learner.scaler, (end / start) ** (1 / (steps - 1))
    batches = itertools.chain.from_iterable(batches_of(train, epoch, 0) for epoch in itertools.count())
    rates, losses = list[float](), list[float]()
    average = 0.0
    for number, batch in enumerate(itertools.islice(batches, steps)):
        step = checked_step(learner.train_step(model, batch), "train_step")
        average = smoothing * average + (1 - smoothing) * step.loss.item()
        smooth = average / (1 - smoothing ** (number + 1))
        if not math.isfinite(smooth) or (losses and smooth > diverged * min(losses)):
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
