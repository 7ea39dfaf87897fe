"""`Accuracy`, the fraction of right predictions."""

from __future__ import annotations

from typing import Any, Self

from burnpy.backend.errors import ArgumentError, KindError
from burnpy.metrics.metric import Classes, Metric, decisions, doubles, plain
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
