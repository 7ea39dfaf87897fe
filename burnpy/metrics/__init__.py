"""Metrics: immutable values that are computed from a batch and combined with ``+``.

A metric is made by its class's ``of``, from predictions and targets, and holds weighted sums on the device; adding two
gives the metric of both together, and `Metric.value` computes the number. The same addition serves micro-batches,
epochs and processes, and batches of different sizes are weighted correctly::

    accuracy = sum(Accuracy.of(model(batch.x), batch.y) for batch in loader)
    print(accuracy.value())

>>> from burnpy.metrics import Accuracy
>>> logits = Tensor[NumPy].from_data([[2.0, 1.0], [0.0, 3.0], [1.0, 0.0]])
>>> first = Accuracy.of(logits, IntTensor[NumPy].from_data([0, 1, 1]))
>>> second = Accuracy.of(logits[:1], IntTensor[NumPy].from_data([0]))
>>> first + second
Accuracy(0.75)
"""

from __future__ import annotations

from burnpy.backend.lazy import attached

_NAMES = {
    "burnpy.metrics.classification": "AUROC Accuracy AveragePrecision Dice F1 FBeta IoU Precision Recall",
    "burnpy.metrics.confusion_matrix": "ConfusionMatrix",
    "burnpy.metrics.regression": "MAE MSE Mean Perplexity R2",
    "burnpy.metrics.metric": "Metric plain total",
}
"""The names of the package by module; ``make generated`` writes them into the stub for type checkers."""

__getattr__, __dir__, __all__ = attached(__name__, _NAMES)
