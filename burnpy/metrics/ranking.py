"""`AUROC` and `AveragePrecision`: the ranking of positives before negatives by score, over all thresholds.

Both are exact, and so hold every score. They are computed on the CPU when `value` is called.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from burnpy.backend.errors import ArgumentError
from burnpy.metrics.metric import Metric, element_weights, scores_by_class
from burnpy.tensor.tensor import BoolTensor, IntTensor, Tensor

Doubles: TypeAlias = NDArray[np.float64]
ClassAverage: TypeAlias = Literal["macro", "weighted"]


class Ranking(Metric):
    """Scores and truth of one-against-the-rest decisions. A subclass defines `_score`."""

    scores: tuple[Tensor[Any], ...]  #: of each batch, shape (n, C), float64
    truth: tuple[BoolTensor[Any], ...]
    weights: tuple[Tensor[Any], ...]  #: shape (n,)
    average: ClassAverage

    @classmethod
    def of(
        cls,
        scores: Tensor[Any],
        target: IntTensor[Any] | BoolTensor[Any],
        *,
        average: ClassAverage = "macro",
        weight: Tensor[Any] | None = None,
    ) -> Self:
        """Return the metric of the scores.

        Args:
            scores: shape (N,) for a binary decision, (N, L) for labels, (N, C) for classes. Any increasing function of
                them gives the same value; scores of classes are compared between samples, so that probabilities,
                ``logits.softmax(1)``, are what one usually wants there.
            target: labels of the shape of ``scores``, or classes of shape (N,).
            average: "macro" is the mean over classes; "weighted" weights them by their frequency.
            weight: the weight of each sample, shape (N,).

        Raises:
            ShapeError: the shapes do not match.
            IndexRangeError: a class is out of range.
            ArgumentError: ``average`` is unknown.
        """
        if average not in ("macro", "weighted"):
            raise ArgumentError(f'{cls.__name__}.of() got average={average!r:.80}; expected "macro" or "weighted"')
        values, truth = scores_by_class(cls.__name__, scores, target)
        weights = element_weights(cls.__name__, weight, values, values.shape[:1])
        return cls(scores=(values,), truth=(truth,), weights=(weights,), average=average)

    def value(self) -> float:
        """Return the average over the classes for which the metric is defined; NaN if there is none.

        Raises:
            ArgumentError: a score is NaN.
        """
        by_class, frequency = self._by_class()
        defined = ~np.isnan(by_class)
        weight = frequency[defined] if self.average == "weighted" else np.ones(int(defined.sum()))
        return float((by_class[defined] * weight).sum() / weight.sum()) if weight.sum() > 0 else float("nan")

    def per_class(self) -> tuple[float, ...]:
        """Return the metric of each class; NaN where it is not defined, as for a class that does not occur."""
        return tuple(self._by_class()[0].tolist())

    def _by_class(self) -> tuple[Doubles, Doubles]:
        scores, truth, weights = (
            np.concatenate([x.to_numpy() for x in parts]) for parts in (self.scores, self.truth, self.weights)
        )
        if missing := int(np.isnan(scores).sum()):
            raise ArgumentError(f"{type(self).__name__} got {missing} NaN among its scores, which have no order")
        by_class = [self._score(*_steps(scores[:, c], truth[:, c], weights)) for c in range(scores.shape[1])]
        return np.array(by_class), (truth * weights[:, None]).sum(0)

    @abstractmethod
    def _score(self, positive: Doubles, negative: Doubles) -> float:
        """Return the metric from the weights of positives and negatives at each score, in descending order of score."""

    def _check_addable(self, other: object) -> None:
        super()._check_addable(other)
        mine, theirs = self.scores[0].shape[1], other.scores[0].shape[1]  # type: ignore[attr-defined]  # of this class
        if mine != theirs:
            raise ArgumentError(f"{type(self).__name__} of {mine} classes was added to one of {theirs}")


class AUROC(Ranking):
    """The area under the ROC curve: the probability that a positive is ranked before a negative, ties counting half.

    Source: Hanley and McNeil, The meaning and use of the area under a ROC curve, Radiology 143, 1982.

    >>> scores = Tensor[NumPy].from_data([0.1, 0.4, 0.35, 0.8])
    >>> AUROC.of(scores, BoolTensor[NumPy].from_data([False, False, True, True])).value()
    0.75
    """

    def _score(self, positive: Doubles, negative: Doubles) -> float:
        pairs = positive.sum() * negative.sum()
        below = negative.sum() - np.cumsum(negative)
        return float((positive * (below + negative / 2)).sum() / pairs) if pairs > 0 else float("nan")


class AveragePrecision(Ranking):
    """The mean of the precision at each threshold, weighted by the increase in recall: Σ (Rₙ - Rₙ₋₁) Pₙ.

    Source: scikit-learn's ``average_precision_score``.

    >>> scores = Tensor[NumPy].from_data([0.1, 0.4, 0.35, 0.8])
    >>> round(AveragePrecision.of(scores, BoolTensor[NumPy].from_data([False, False, True, True])).value(), 4)
    0.8333
    """

    def _score(self, positive: Doubles, negative: Doubles) -> float:
        if not positive.sum() > 0:
            return float("nan")
        hits = np.cumsum(positive)
        selected = hits + np.cumsum(negative)
        precision = np.divide(hits, selected, out=np.zeros_like(hits), where=selected > 0)
        return float((positive * precision).sum() / positive.sum())


def _steps(scores: Doubles, truth: NDArray[np.bool_], weights: Doubles) -> tuple[Doubles, Doubles]:
    """Return the weights of positives and of negatives at each distinct score, in descending order of score."""
    values, step = np.unique(-scores, return_inverse=True)
    positive, negative = (np.bincount(step, weights * mask, len(values)) for mask in (truth, ~truth))
    return positive.astype(np.float64), negative.astype(np.float64)  # of nothing, bincount returns ints
