"""`Strategy`: the combination of gradients and metrics among the processes that train together."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from burnpy.metrics.metric import Metric
from burnpy.optim.grads_params import GradientsParams

M = TypeVar("M", bound=Metric)


class Strategy(Protocol):
    """The communication between the processes of a run, of which one, the leader, writes files."""

    @property
    def leads(self) -> bool:
        """True if this process writes files and logs."""
        ...

    def gradients(self, grads: GradientsParams[Any], weight: float) -> GradientsParams[Any]:
        """Return the mean of the gradients of all processes, weighted by ``weight``."""
        ...

    def metric(self, metric: M) -> M:
        """Return the sum of the metrics of all processes."""
        ...


class OneDevice:
    """The strategy of a single process: gradients and metrics are its own."""

    leads = True

    def gradients(self, grads: GradientsParams[Any], weight: float) -> GradientsParams[Any]:
        """Return the gradients unchanged."""
        return grads

    def metric(self, metric: M) -> M:
        """Return the metric unchanged."""
        return metric
