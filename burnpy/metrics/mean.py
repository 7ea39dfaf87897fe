"""`Mean`, the weighted mean of losses or other numbers, and `Perplexity` of language models."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal, Self

from burnpy.backend.errors import ArgumentError
from burnpy.metrics.metric import Metric, doubles, element_weights, plain
from burnpy.tensor.losses import cross_entropy
from burnpy.tensor.operands import MOST_FLOAT
from burnpy.tensor.tensor import IntTensor, Tensor
from burnpy.tensor.tensor_base import TensorBase, describe


class Mean(Metric):
    """The weighted mean of numbers, such as the losses of batches.

    The mean loss of a batch is weighted by the batch's size, so that the sum over batches is the mean over samples::

        Mean.of(loss, weight=len(batch.x))

    >>> Mean.of(Tensor[NumPy].from_data([1.0, 2.0, 6.0])).value()
    3.0
    """

    better: ClassVar[Literal["min", "max"]] = "min"

    sum: Tensor[Any]
    weight: Tensor[Any]

    @classmethod
    def of(cls, x: TensorBase[Any], weight: Tensor[Any] | float = 1.0) -> Self:
        """Return the mean of the elements of ``x``.

        Args:
            x: a tensor of any shape.
            weight: the weight of every element, a number that is not negative; or a tensor of the shape of ``x`` or of
                its first dimensions.

        Raises:
            ArgumentError: the number is negative or not finite.
            ShapeError: the shape of ``weight`` does not fit.
        """
        values = doubles(x)
        if isinstance(weight, TensorBase):
            weights = element_weights("Mean", weight, values, values.shape)
            return cls(sum=(values * weights).sum(), weight=weights.sum())
        if not 0 <= weight <= MOST_FLOAT:
            raise ArgumentError(f"Mean.of() got weight={describe(weight)}; expected a finite number, and not negative")
        total = values.sum() if values.ndim else values
        count: Tensor[Any] = Tensor.full((), float(weight) * values.numel(), dtype="float64", device=values.device)
        return cls(sum=total if weight == 1 else total * float(weight), weight=count)

    def value(self) -> float:
        """Return the mean; NaN if the weights sum to 0."""
        return (self.sum / self.weight).item()


class Perplexity(Metric):
    """The exponential of the mean cross entropy of the targets, in nats.

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
