"""The values of metrics that are single numbers, as logs and callbacks see them."""

from __future__ import annotations

from collections.abc import Mapping

from burnpy.metrics.metric import Metric


def values_of(metrics: Mapping[str, Metric]) -> dict[str, float]:
    """Return the values of the metrics that are single numbers."""
    values = {name: metric.value() for name, metric in metrics.items()}
    return {name: value for name, value in values.items() if isinstance(value, float)}
