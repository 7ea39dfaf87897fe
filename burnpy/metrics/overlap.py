"""`IoU` and `Dice`: the overlap of predicted and true regions, for segmentation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from burnpy.metrics.class_counts import ClassCounts, ratio


class IoU(ClassCounts):
    """The intersection over the union of the predicted and true elements of a class (Jaccard), averaged over classes.

    >>> from burnpy import IntTensor
    >>> from burnpy.backend import NumPy
    >>> x, y = IntTensor[NumPy].from_data([[0, 0], [1, 1]]), IntTensor[NumPy].from_data([[0, 1], [1, 1]])
    >>> [round(score, 4) for score in IoU.of(x, y, classes=2).per_class()]
    [0.5, 0.6667]
    """

    def _score(
        self, hits: NDArray[np.float64], predicted: NDArray[np.float64], actual: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        return ratio(hits, predicted + actual - hits)


class Dice(ClassCounts):
    """Twice the intersection over the sum of the sizes of the predicted and true elements of a class, averaged.

    >>> from burnpy import IntTensor
    >>> from burnpy.backend import NumPy
    >>> x, y = IntTensor[NumPy].from_data([[0, 0], [1, 1]]), IntTensor[NumPy].from_data([[0, 1], [1, 1]])
    >>> [round(score, 4) for score in Dice.of(x, y, classes=2).per_class()]
    [0.6667, 0.8]
    """

    def _score(
        self, hits: NDArray[np.float64], predicted: NDArray[np.float64], actual: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        return ratio(2 * hits, predicted + actual)
