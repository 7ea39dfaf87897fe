"""`ConfusionMatrix`: the numbers of examples by their class and the class that was predicted."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.metrics.classification import ratio
from burnpy.metrics.metric import Labels, Metric, bincount, decisions
from burnpy.tensor.tensor import BoolTensor, IntTensor, Tensor


class ConfusionMatrix(Metric):
    """The matrix of the weighted counts of elements by true class (row) and predicted class (column).

    >>> x, y = IntTensor[NumPy].from_data([0, 1, 1]), IntTensor[NumPy].from_data([0, 1, 0])
    >>> ConfusionMatrix.of(x, y, classes=2).value().tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """

    matrix: Tensor[Any]

    @classmethod
    def of(
        cls,
        prediction: Tensor[Any] | IntTensor[Any] | BoolTensor[Any],
        target: IntTensor[Any] | BoolTensor[Any],
        *,
        classes: int | None = None,
        threshold: float = 0.0,
        weight: Tensor[Any] | None = None,
        ignore_index: int | None = None,
    ) -> Self:
        """Return the confusion matrix of the predictions; of a binary decision it is 2 × 2.

        The arguments are those of `Precision.of`; of labels there is one, shape (N,).

        Raises:
            ShapeError: the shapes do not match, or there are several labels.
            IndexRangeError: a class is out of range.
            ArgumentError: ``classes`` is missing.
        """
        chosen = decisions("ConfusionMatrix", prediction, target, classes, threshold, weight, ignore_index)
        if isinstance(chosen, Labels):
            if chosen.target.shape[1] != 1:
                raise ShapeError(
                    f"ConfusionMatrix.of() takes labels of shape (N,), got {chosen.target.shape}; "
                    "make one for each label, x[:, i]"
                )
            n, size = (chosen.target.shape[0],), 2
            truth, guess = chosen.target.int().reshape(n), chosen.predicted.int().reshape(n)
            weights = chosen.weight.reshape(n)
        else:
            truth, guess, weights, size = chosen.target, chosen.predicted, chosen.weight, chosen.count
        return cls(matrix=bincount(truth.int() * size + guess.int(), weights, size * size).reshape((size, size)))

    def value(self, normalize: Literal["true", "pred", "all"] | None = None) -> NDArray[np.float64]:
        """Return the matrix, of shape (C, C), with true classes as rows.

        Args:
            normalize: "true" divides each row by its sum, "pred" each column, "all" all by the sum; 0 / 0 is 0.

        Raises:
            ArgumentError: ``normalize`` is something else.
        """
        counts: NDArray[np.float64] = self.matrix.to_numpy()
        if normalize is None:
            return counts
        axes = {"true": (1,), "pred": (0,), "all": (0, 1)}
        given: object = normalize
        if not isinstance(given, str) or given not in axes:
            raise ArgumentError(f'value() got normalize={normalize!r:.80}; expected "true", "pred", "all" or None')
        return ratio(counts, np.broadcast_to(counts.sum(axes[normalize], keepdims=True), counts.shape))
