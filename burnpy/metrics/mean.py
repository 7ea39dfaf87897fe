"""`Mean`: the weighted mean of losses or other numbers."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal, Self

from burnpy.backend.errors import ArgumentError
from burnpy.metrics.metric import Metric, doubles
from burnpy.metrics.weights import element_weights
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import TensorBase


class Mean(Metric):
    """The weighted mean of numbers, such as the losses of batches.

    The mean loss of a batch is weighted by the batch's size, so that the sum over batches is the mean over samples::

        Mean.of(loss, weight=len(batch.x))

    >>> from burnpy import Tensor
    >>> from burnpy.backend import NumPy
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
        if not 0 <= weight < math.inf:
            raise ArgumentError(f"Mean.of() got weight={weight!r:.80}; expected a finite number, and not negative")
        total = values.sum() if values.ndim else values
        count: Tensor[Any] = Tensor.full((), float(weight) * values.numel(), dtype="float64", device=values.device)
        return cls(sum=total if weight == 1 else total * float(weight), weight=count)

    def value(self) -> float:
        """Return the mean; NaN if the weights sum to 0."""
        return (self.sum / self.weight).item()
