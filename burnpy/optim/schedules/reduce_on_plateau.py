"""`ReduceOnPlateau`: a learning rate that falls when a metric stops improving."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Literal, Self, SupportsFloat

from burnpy.backend.errors import ArgumentError
from burnpy.nn.module_errors import Explaining
from burnpy.optim.settings import at_least_zero, count, fraction


@dataclass(frozen=True, kw_only=True)
class ReduceOnPlateau(metaclass=Explaining):
    """A learning rate that is reduced when a metric has not improved for more than ``patience`` observations.

    It is immutable: `observe` takes a new value of the metric, such as the validation loss of an epoch, and returns the
    next `ReduceOnPlateau`, whose ``lr`` is the rate from then on. `burnpy.record.save` saves its fields, and
    ``ReduceOnPlateau(**record.plateau)`` restores it. The rates equal those of
    `torch.optim.lr_scheduler.ReduceLROnPlateau`::

        plateau = ReduceOnPlateau(lr=0.1)
        for epoch in range(epochs):
            ...                                   # model = optim.step(plateau.lr, model, grads), for each batch
            plateau = plateau.observe(validation_loss)

    Args:
        lr: the learning rate.
        mode: "min" if a smaller metric is better, "max" if a larger one is.
        factor: the factor by which the rate is multiplied, in [0, 1).
        patience: the number of observations without improvement that are tolerated.
        threshold: the least improvement that counts.
        threshold_mode: "rel" if the threshold is relative to the best metric, "abs" if it is a difference.
        cooldown: the number of observations after a reduction that are not counted as being without improvement.
        min_lr: the smallest rate.
        eps: the rate is not reduced if it would change by no more than this.
        best: the best metric observed; None if there was none.
        bad: the number of observations without improvement since the best, or since the last reduction.
        cooling: the number of observations left of the cooldown.

    Raises:
        ArgumentError: a number is out of range, or a mode is unknown.

    >>> plateau, rates = ReduceOnPlateau(lr=1.0, factor=0.5, patience=1), []
    >>> for loss in (3.0, 2.0, 2.0, 2.1, 1.9):
    ...     plateau = plateau.observe(loss)
    ...     rates.append(plateau.lr)
    >>> rates
    [1.0, 1.0, 1.0, 0.5, 0.5]
    """

    lr: float
    mode: Literal["min", "max"] = "min"
    factor: float = 0.1
    patience: int = 10
    threshold: float = 1e-4
    threshold_mode: Literal["rel", "abs"] = "rel"
    cooldown: int = 0
    min_lr: float = 0.0
    eps: float = 1e-8
    best: float | None = None
    bad: int = 0
    cooling: int = 0

    def __post_init__(self) -> None:
        for name in ("lr", "threshold", "min_lr", "eps"):
            at_least_zero(getattr(self, name), f"ReduceOnPlateau({name}=)")
        fraction(self.factor, "ReduceOnPlateau(factor=)")
        for name in ("patience", "cooldown", "bad", "cooling"):
            count(getattr(self, name), f"ReduceOnPlateau({name}=)", least=0)
        for name, known in (("mode", ("min", "max")), ("threshold_mode", ("rel", "abs"))):
            if getattr(self, name) not in known:
                raise ArgumentError(
                    f'ReduceOnPlateau({name}=) is {getattr(self, name)!r}; expected "{known[0]}" or "{known[1]}"'
                )

    def observe(self, metric: SupportsFloat) -> Self:
        """Return the next value, after one more observation of the metric: a number or a tensor of one element.

        NaN is no improvement.
        """
        current = float(metric)
        best, bad, cooling, lr = self.best, self.bad, self.cooling, self.lr
        if self._improves(current):
            best, bad = current, 0
        else:
            bad += 1
        if cooling:
            cooling, bad = cooling - 1, 0
        if bad > self.patience:
            cooling, bad = self.cooldown, 0
            reduced = max(lr * self.factor, self.min_lr)
            if lr - reduced > self.eps:
                lr = reduced
        return replace(self, lr=lr, best=best, bad=bad, cooling=cooling)

    def into_record(self) -> dict[str, float | int | str | None]:
        """Return all fields by name, for `burnpy.record.save`."""
        return asdict(self)

    def _improves(self, metric: float) -> bool:
        sign = 1.0 if self.mode == "max" else -1.0
        best = sign * -math.inf if self.best is None else self.best
        margin = sign * self.threshold
        bound = best + margin if self.threshold_mode == "abs" else best * (1.0 + margin)
        return metric > bound if self.mode == "max" else metric < bound
