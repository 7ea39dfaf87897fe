"""`Perplexity` of language models."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal, Self

from burnpy.metrics.metric import Metric, doubles, plain
from burnpy.metrics.weights import element_weights
from burnpy.tensor.losses import cross_entropy
from burnpy.tensor.tensor import IntTensor, Tensor


class Perplexity(Metric):
    """The exponential of the mean cross entropy of the targets, in nats.

    >>> from burnpy import IntTensor, Tensor
    >>> from burnpy.backend import NumPy
    >>> round(Perplexity.of(Tensor[NumPy].zeros((5, 4)), IntTensor[NumPy].zeros((5,))).value(), 6)
    4.0
    """

    better: ClassVar[Literal["min", "max"]] = "min"

    loss: Tensor[Any]
    weight: Tensor[Any]

    @classmethod
    def of(
        cls,
        logits: Tensor[Any],
        target: IntTensor[Any],
        *,
        weight: Tensor[Any] | None = None,
        ignore_index: int = -100,
    ) -> Self:
        """Return the perplexity of the predictions.

        Args:
            logits: shape (N, C) or (N, C, d1, …), C the number of classes or tokens.
            target: classes, of the same shape without C.
            weight: the weight of each sample, shape (N,), or of each element of ``target``.
            ignore_index: the target whose elements are not counted, such as padding.

        Raises:
            ShapeError: the shapes do not match.
            IndexRangeError: a target is out of range.
        """
        scores, classes = plain(logits), plain(target)
        losses = doubles(cross_entropy(scores, classes, ignore_index=ignore_index, reduction="none"))
        weights = element_weights("Perplexity", weight, losses, losses.shape).where(classes != ignore_index, 0.0)
        return cls(loss=(losses * weights).sum(), weight=weights.sum())

    def value(self) -> float:
        """Return the perplexity; NaN if nothing was counted, infinity if it overflows."""
        loss = (self.loss / self.weight).item()
        return math.exp(loss) if not loss > 709.0 else math.inf
