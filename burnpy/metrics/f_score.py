"""`Precision`, `Recall`, and their weighted harmonic mean, `FBeta` and `F1`."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from burnpy.backend.errors import ArgumentError
from burnpy.metrics.class_counts import Average, ClassCounts, counts, ratio
from burnpy.tensor.tensor import BoolTensor, IntTensor, Tensor


class Precision(ClassCounts):
    """The fraction of the predictions of a class that are right, averaged over the classes.

    >>> from burnpy import BoolTensor, Tensor
    >>> from burnpy.backend import NumPy
    >>> logits = Tensor[NumPy].from_data([1.0, 2.0, -1.0, 0.5])
    >>> Precision.of(logits, BoolTensor[NumPy].from_data([True, False, True, True])).value()
    0.6666666666666666
    """

    def _score(
        self, hits: NDArray[np.float64], predicted: NDArray[np.float64], actual: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        return ratio(hits, predicted)


class Recall(ClassCounts):
    """The fraction of a class's elements that are predicted to be of it, averaged over the classes.

    >>> from burnpy import IntTensor
    >>> from burnpy.backend import NumPy
    >>> Recall.of(IntTensor[NumPy].from_data([0, 1, 1]), IntTensor[NumPy].from_data([0, 1, 0]), classes=2).per_class()
    (0.5, 1.0)
    """

    def _score(
        self, hits: NDArray[np.float64], predicted: NDArray[np.float64], actual: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        return ratio(hits, actual)


class F1(ClassCounts):
    """The harmonic mean of precision and recall, averaged over the classes.

    >>> from burnpy import IntTensor
    >>> from burnpy.backend import NumPy
    >>> F1.of(IntTensor[NumPy].from_data([0, 1, 1]), IntTensor[NumPy].from_data([0, 1, 0]), classes=2).value()
    0.6666666666666666
    """

    def _score(
        self, hits: NDArray[np.float64], predicted: NDArray[np.float64], actual: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        return ratio(2 * hits, predicted + actual)


class FBeta(ClassCounts):
    """The weighted harmonic mean of precision P and recall R, (1 + β²) P R / (β² P + R), averaged over the classes.

    Source: van Rijsbergen, Information Retrieval, 1979.

    >>> from burnpy import IntTensor
    >>> from burnpy.backend import NumPy
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

    def _score(
        self, hits: NDArray[np.float64], predicted: NDArray[np.float64], actual: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        square = self.beta**2
        return ratio((1 + square) * hits, square * actual + predicted)
