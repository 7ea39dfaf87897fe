"""`Running`: the metrics of an epoch so far; and the check that losses are finite."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from burnpy.backend.errors import NonFiniteError
from burnpy.metrics.mean import Mean
from burnpy.metrics.metric import Metric
from burnpy.tensor.tensor import Tensor
from burnpy.train.step import Step


class Measured(NamedTuple):
    """The measurements of a batch."""

    step: Step[Any] | None  #: None if this rank has no samples of the batch
    size: float  #: the weight of the batch
    loss: float | None  #: the value of the loss, if it was read


class Running:
    """The sums of the metrics of batches, the mean loss among them as "loss".

    A loss whose value is at hand, as it was read to see that it is finite, is added up as a Python float, which is the
    same float64 and takes no time; others on the device.
    """

    def __init__(self, metrics: Mapping[str, Metric] | None = None) -> None:
        self._metrics = dict(metrics or {})
        self._loss: tuple[float, float] | None = None  # sum and weight, in place of the metric
        self._device: Any = None

    def add(self, measured: Measured, more: Mapping[str, Metric]) -> None:
        """Add what a batch measured, and metrics that are not its step's own."""
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
        device = self._device
        while device.inner is not None:
            device = device.inner
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

    Raises:
        NonFiniteError: it is not finite.
    """
    device: Any = loss.device.discrete
    if device.eager_checks:
        value = loss.item()
        if not math.isfinite(value):
            raise _error(value, where())
        return value
    bad, place = (~loss.detach().isfinite()).int(), where()
    device.defer_check((bad._primitive,), lambda bad: _error(math.nan, place) if bad else None)
    return None


def _error(value: float, where: str) -> NonFiniteError:
    return NonFiniteError(
        f"the loss is {value} in {where}; detect_anomaly() of burnpy.autodiff tells which operation made it so"
    )
