"""Metrics: immutable values that are computed from a batch and combined with ``+``.

A metric is made by its class's ``of``, from predictions and targets, and holds weighted sums on the device; adding two
gives the metric of both together, and `Metric.value` computes the number. The same addition serves micro-batches,
epochs and processes, and batches of different sizes are weighted correctly::

    accuracy = sum(Accuracy.of(model(batch.x), batch.y) for batch in loader)
    print(accuracy.value())

>>> from burnpy import IntTensor, Tensor
>>> from burnpy.backend import NumPy
>>> from burnpy.metrics import Accuracy
>>> logits = Tensor[NumPy].from_data([[2.0, 1.0], [0.0, 3.0], [1.0, 0.0]])
>>> first = Accuracy.of(logits, IntTensor[NumPy].from_data([0, 1, 1]))
>>> second = Accuracy.of(logits[:1], IntTensor[NumPy].from_data([0]))
>>> first + second
Accuracy(0.75)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from burnpy.backend.lazy import missing
from burnpy.metrics.accuracy import Accuracy, ConfusionMatrix
from burnpy.metrics.class_counts import F1, Dice, FBeta, IoU, Precision, Recall
from burnpy.metrics.mean import Mean, Perplexity
from burnpy.metrics.metric import Metric, plain, total
from burnpy.metrics.ranking import AUROC, AveragePrecision
from burnpy.metrics.regression import MAE, MSE, R2

__all__ = [
    "AUROC",
    "F1",
    "MAE",
    "MSE",
    "R2",
    "Accuracy",
    "AveragePrecision",
    "ConfusionMatrix",
    "Dice",
    "FBeta",
    "IoU",
    "Mean",
    "Metric",
    "Perplexity",
    "Precision",
    "Recall",
    "plain",
    "total",
]

if not TYPE_CHECKING:  # type checkers see only the names above

    def __getattr__(name: str) -> object:
        """Raise an error for an unknown name, with what to write instead."""
        return missing(__name__, name)
