"""`ClassCounts`: the counts by class that precision, recall, F-scores and overlaps are computed from."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from burnpy.backend.errors import ArgumentError
from burnpy.metrics.decisions import Classes, bincount, decisions
from burnpy.metrics.metric import Metric, doubles
from burnpy.tensor.tensor import BoolTensor, IntTensor, Tensor

Average: TypeAlias = Literal["macro", "micro", "weighted"]


class ClassCounts(Metric):
    """Weighted counts by class: true positives, predictions and occurrences, each of shape (C,).

    Binary classification has one class, the positive one. A subclass defines `_score`.
    """

    hits: Tensor[Any]  #: elements of the class that were predicted to be of it
    predicted: Tensor[Any]
    actual: Tensor[Any]
    average: Average

    @classmethod
    def of(
        cls,
        prediction: Tensor[Any] | IntTensor[Any] | BoolTensor[Any],
        target: IntTensor[Any] | BoolTensor[Any],
        *,
        average: Average = "macro",
        classes: int | None = None,
        threshold: float = 0.0,
        weight: Tensor[Any] | None = None,
        ignore_index: int | None = None,
    ) -> Self:
        """Return the metric of the predictions.

        Args:
            prediction: scores of classes, shape (N, C, ...), or of labels, shape (N,) or (N, L); or decisions: classes
                or labels of the targets' shape.
            target: the true classes, shape (N, ...), or labels, of the predictions' shape.
            average: "macro" is the mean over the classes that occur among the targets or predictions; "weighted"
                weights it by their frequency among the targets; "micro" counts all classes together.
            classes: the number of classes, if the predictions are classes.
            threshold: the score above which a label is predicted: 0 for logits, 0.5 for probabilities.
            weight: the weight of each sample, shape (N,), or of each element.
            ignore_index: a class of ``target`` whose elements are not counted.

        Raises:
            ShapeError: the shapes do not match.
            IndexRangeError: a class is out of range.
            ArgumentError: ``average`` is unknown, or ``classes`` is missing.
        """
        return cls(
            average=average,
            **counts(cls.__name__, prediction, target, average, classes, threshold, weight, ignore_index),
        )

    def value(self) -> float:
        """Return the average over the classes; NaN if nothing was counted."""
        hits, predicted, actual = (x.to_numpy() for x in (self.hits, self.predicted, self.actual))
        if self.average == "micro":
            hits, predicted, actual = hits.sum(keepdims=True), predicted.sum(keepdims=True), actual.sum(keepdims=True)
        weight = actual if self.average == "weighted" else ((predicted + actual) > 0).astype(np.float64)
        if not weight.sum() > 0:
            return 0.0 if predicted.sum() > 0 else float("nan")
        return float((self._score(hits, predicted, actual) * weight).sum() / weight.sum())

    def per_class(self) -> tuple[float, ...]:
        """Return the metric of each class; 0 where it would divide by 0."""
        return tuple(self._score(*(x.to_numpy() for x in (self.hits, self.predicted, self.actual))).tolist())

    @abstractmethod
    def _score(
        self, hits: NDArray[np.float64], predicted: NDArray[np.float64], actual: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the metric of each class from its counts."""


def counts(
    metric: str,
    prediction: Tensor[Any] | IntTensor[Any] | BoolTensor[Any],
    target: IntTensor[Any] | BoolTensor[Any],
    average: str,
    classes: int | None,
    threshold: float,
    weight: Tensor[Any] | None,
    ignore_index: int | None,
) -> dict[str, Tensor[Any]]:
    """Return the counts of `ClassCounts` by field."""
    if average not in ("macro", "micro", "weighted"):
        raise ArgumentError(
            f'{metric}.of() got average={average!r:.80}; expected "macro", "micro" or "weighted", and per_class() '
            "returns the metric of each class"
        )
    chosen = decisions(
        metric, prediction, target, classes=classes, threshold=threshold, weight=weight, ignore_index=ignore_index
    )
    if isinstance(chosen, Classes):
        right = doubles(chosen.right()) * chosen.weight
        return {
            "hits": bincount(chosen.target, right, chosen.count),
            "predicted": bincount(chosen.predicted, chosen.weight, chosen.count),
            "actual": bincount(chosen.target, chosen.weight, chosen.count),
        }
    both = {"hits": chosen.predicted & chosen.target, "predicted": chosen.predicted, "actual": chosen.target}
    return {name: (doubles(x) * chosen.weight).sum(0) for name, x in both.items()}


def ratio(numerator: NDArray[np.float64], denominator: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the quotient, 0 where the denominator is 0."""
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator != 0)
