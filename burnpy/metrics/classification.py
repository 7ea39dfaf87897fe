"""Metrics of classification: `Accuracy`; `Precision`, `Recall`, `F1`, `IoU` by class; `AUROC` of scores; and others.

`AUROC` and `AveragePrecision` are exact, and so hold every score. They are computed on the CPU when `value` is called.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from burnpy.backend.errors import ArgumentError, KindError
from burnpy.metrics.metric import Classes, Metric, bincount, decisions, doubles, element_weights, plain, scores_by_class
from burnpy.tensor.tensor import BoolTensor, IntTensor, Tensor
from burnpy.tensor.tensor_base import describe


class Accuracy(Metric):
    """The fraction of elements whose class, or whose label, is predicted.

    >>> scores = Tensor[NumPy].from_data([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.5, 0.4, 0.1]])
    >>> y = IntTensor[NumPy].from_data([0, 1, 2])
    >>> Accuracy.of(scores, y), Accuracy.of(scores, y, k=2)
    (Accuracy(0.333333), Accuracy(0.666667))
    """

    correct: Tensor[Any]
    weight: Tensor[Any]
    k: int

    @classmethod
    def of(
        cls,
        prediction: Tensor[Any] | IntTensor[Any] | BoolTensor[Any],
        target: IntTensor[Any] | BoolTensor[Any],
        *,
        k: int = 1,
        threshold: float = 0.0,
        weight: Tensor[Any] | None = None,
        ignore_index: int | None = None,
    ) -> Self:
        """Return the accuracy of the predictions.

        Args:
            prediction: scores of classes, shape (N, C, ...), or of labels, shape (N,) or (N, L); or decisions: classes
                or labels of the targets' shape.
            target: the true classes, shape (N, ...), or labels, of the predictions' shape.
            k: a class counts as predicted if its score is among the k highest. Equal scores rank in the order of their
                classes, as in ``argmax``. With k > 1 a row with NaN is wrong.
            threshold: the score above which a label is predicted: 0 for logits, 0.5 for probabilities.
            weight: the weight of each sample, shape (N,), or of each element.
            ignore_index: a class of ``target`` whose elements are not counted.

        Raises:
            ShapeError: the shapes do not match.
            IndexRangeError: a target is out of range.
            ArgumentError: ``k`` is less than 1, or used without scores of classes.
        """
        if k != 1:
            return cls._top(k, prediction, target, weight, ignore_index)
        classes = 2**62 if isinstance(prediction, IntTensor) else None  # equality needs no number of classes
        chosen = decisions("Accuracy", prediction, target, classes, threshold, weight, ignore_index)
        right = doubles(chosen.right())
        weights = chosen.weight if isinstance(chosen, Classes) else chosen.weight.expand(right.shape)
        return cls(correct=(right * weights).sum(), weight=weights.sum(), k=k)

    @classmethod
    def _top(
        cls, k: int, prediction: object, target: Any, weight: Tensor[Any] | None, ignore_index: int | None
    ) -> Self:
        if k < 1:
            raise ArgumentError(f"Accuracy.of() got k={k}; expected 1 or more")
        if (
            not isinstance(prediction, Tensor)
            or not isinstance(target, IntTensor)
            or prediction.ndim != target.ndim + 1
        ):
            raise KindError(
                f"Accuracy.of() with k={k} takes scores with shape (N, C, ...) and an IntTensor with shape "
                f"(N, ...), got {describe(prediction)} and {describe(target)}"
            )
        chosen = decisions("Accuracy", prediction, target, weight=weight, ignore_index=ignore_index)
        assert isinstance(chosen, Classes)
        scores = plain(prediction).movedim(1, -1).reshape((-1 if chosen.target.numel() else 0, chosen.count))
        truth = chosen.target.unsqueeze(1)
        of_target = scores.gather(1, truth)
        earlier = IntTensor.arange(chosen.count, device=scores.device) < truth
        # Negated, so that every comparison with NaN ranks the other class ahead.
        ahead = ~(of_target > scores) & ~((of_target == scores) & ~earlier)
        right = doubles(ahead.int().sum(1) < k)
        return cls(correct=(right * chosen.weight).sum(), weight=chosen.weight.sum(), k=k)

    def value(self) -> float:
        """Return the accuracy, from 0 to 1; NaN if nothing was counted."""
        return (self.correct / self.weight).item()


Average: TypeAlias = Literal["macro", "micro", "weighted"]
Doubles: TypeAlias = NDArray[np.float64]
"""Numbers of each class, or of each score."""


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
        sums = counts(cls.__name__, prediction, target, average, classes, threshold, weight, ignore_index)
        return cls(average=average, **sums)

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
    def _score(self, hits: Doubles, predicted: Doubles, actual: Doubles) -> Doubles:
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
    chosen = decisions(metric, prediction, target, classes, threshold, weight, ignore_index)
    if isinstance(chosen, Classes):
        right = doubles(chosen.right()) * chosen.weight
        return {
            "hits": bincount(chosen.target, right, chosen.count),
            "predicted": bincount(chosen.predicted, chosen.weight, chosen.count),
            "actual": bincount(chosen.target, chosen.weight, chosen.count),
        }
    both = {"hits": chosen.predicted & chosen.target, "predicted": chosen.predicted, "actual": chosen.target}
    return {name: (doubles(x) * chosen.weight).sum(0) for name, x in both.items()}


def ratio(numerator: Doubles, denominator: Doubles) -> Doubles:
    """Return the quotient, 0 where the denominator is 0."""
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator != 0)


class Precision(ClassCounts):
    """The fraction of the predictions of a class that are right, averaged over the classes.

    >>> logits = Tensor[NumPy].from_data([1.0, 2.0, -1.0, 0.5])
    >>> Precision.of(logits, BoolTensor[NumPy].from_data([True, False, True, True])).value()
    0.6666666666666666
    """

    def _score(self, hits: Doubles, predicted: Doubles, actual: Doubles) -> Doubles:
        return ratio(hits, predicted)


class Recall(ClassCounts):
    """The fraction of a class's elements that are predicted to be of it, averaged over the classes.

    >>> Recall.of(IntTensor[NumPy].from_data([0, 1, 1]), IntTensor[NumPy].from_data([0, 1, 0]), classes=2).per_class()
    (0.5, 1.0)
    """

    def _score(self, hits: Doubles, predicted: Doubles, actual: Doubles) -> Doubles:
        return ratio(hits, actual)


class F1(ClassCounts):
    """The harmonic mean of precision and recall, averaged over the classes.

    >>> F1.of(IntTensor[NumPy].from_data([0, 1, 1]), IntTensor[NumPy].from_data([0, 1, 0]), classes=2).value()
    0.6666666666666666
    """

    def _score(self, hits: Doubles, predicted: Doubles, actual: Doubles) -> Doubles:
        return ratio(2 * hits, predicted + actual)


class FBeta(ClassCounts):
    """The weighted harmonic mean of precision P and recall R, (1 + β²) P R / (β² P + R), averaged over the classes.

    Source: van Rijsbergen, Information Retrieval, 1979.

    >>> x, y = IntTensor[NumPy].from_data([0, 1, 1]), IntTensor[NumPy].from_data([0, 1, 0])
    >>> [round(score, 4) for score in FBeta.of(x, y, beta=2.0, classes=2).per_class()]
    [0.5556, 0.8333]
    """

    beta: float

    @classmethod
    def of(
        cls,
        prediction: Tensor[Any] | IntTensor[Any] | BoolTensor[Any],
        target: IntTensor[Any] | BoolTensor[Any],
        *,
        beta: float = 1.0,
        average: Average = "macro",
        classes: int | None = None,
        threshold: float = 0.0,
        weight: Tensor[Any] | None = None,
        ignore_index: int | None = None,
    ) -> Self:
        """Return the F-score of the predictions; ``beta`` is how many times as much recall counts as precision.

        The other arguments are those of `Precision.of`.

        Raises:
            ArgumentError: ``beta`` is negative or not finite.
        """
        if not 0 <= beta < math.inf:
            raise ArgumentError(f"FBeta.of() got beta={beta!r:.80}; expected a finite number, and not negative")
        sums = counts(cls.__name__, prediction, target, average, classes, threshold, weight, ignore_index)
        return cls(average=average, beta=beta, **sums)

    def _score(self, hits: Doubles, predicted: Doubles, actual: Doubles) -> Doubles:
        square = self.beta**2
        return ratio((1 + square) * hits, square * actual + predicted)


class IoU(ClassCounts):
    """The intersection over the union of the predicted and true elements of a class (Jaccard), averaged over classes.

    >>> x, y = IntTensor[NumPy].from_data([[0, 0], [1, 1]]), IntTensor[NumPy].from_data([[0, 1], [1, 1]])
    >>> [round(score, 4) for score in IoU.of(x, y, classes=2).per_class()]
    [0.5, 0.6667]
    """

    def _score(self, hits: Doubles, predicted: Doubles, actual: Doubles) -> Doubles:
        return ratio(hits, predicted + actual - hits)


class Dice(ClassCounts):
    """Twice the intersection over the sum of the sizes of the predicted and true elements of a class, averaged.

    >>> x, y = IntTensor[NumPy].from_data([[0, 0], [1, 1]]), IntTensor[NumPy].from_data([[0, 1], [1, 1]])
    >>> [round(score, 4) for score in Dice.of(x, y, classes=2).per_class()]
    [0.6667, 0.8]
    """

    def _score(self, hits: Doubles, predicted: Doubles, actual: Doubles) -> Doubles:
        return ratio(2 * hits, predicted + actual)


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
        joined = [np.concatenate([x.to_numpy() for x in parts]) for parts in (self.scores, self.truth, self.weights)]
        scores, truth, weights = (x[joined[2] != 0] for x in joined)
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
