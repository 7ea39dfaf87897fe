"""`MSE`, `MAE` and `R2`, errors of predicted numbers; `Mean` of losses or other numbers, and `Perplexity`."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar, Literal, Self

import numpy as np

from burnpy.backend.errors import ArgumentError, ShapeError
from burnpy.metrics.metric import Metric, doubles, element_weights, plain, total, weighted
from burnpy.tensor.losses import cross_entropy
from burnpy.tensor.operand_checks import MOST_FLOAT
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
            return cls(sum=total(values, weights), weight=weights.sum())
        if not 0 <= weight <= MOST_FLOAT:
            raise ArgumentError(f"Mean.of() got weight={describe(weight)}; expected a finite number, and not negative")
        whole = values.sum() if values.ndim else values
        count: Tensor[Any] = Tensor.full((), float(weight) * values.numel(), dtype="float64", device=values.device)
        return cls(sum=whole if weight == 1 else whole * float(weight), weight=count)

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
        cls, logits: Tensor[Any], target: IntTensor[Any], *, weight: Tensor[Any] | None = None, ignore_index: int = -100
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
        return cls(loss=total(losses, weights), weight=weights.sum())

    def value(self) -> float:
        """Return the perplexity; NaN if nothing was counted, infinity if it overflows."""
        loss = (self.loss / self.weight).item()
        return math.exp(loss) if not loss > 709.0 else math.inf


class Error(Metric):
    """The weighted mean of a function of the errors. A subclass defines `_of_errors`."""

    better: ClassVar[Literal["min", "max"]] = "min"

    sum: Tensor[Any]
    weight: Tensor[Any]

    @classmethod
    def of(cls, prediction: Tensor[Any], target: Tensor[Any], *, weight: Tensor[Any] | None = None) -> Self:
        """Return the metric of the predictions, computed in float64.

        Args:
            prediction: any shape.
            target: the same shape.
            weight: the weight of each sample, shape (N,), or of each element.

        Raises:
            ShapeError: the shapes differ; they do not broadcast.
        """
        errors, weights = _errors(cls.__name__, prediction, target, weight)[1:]
        return cls(sum=total(cls._of_errors(errors), weights), weight=weights.sum())

    def value(self) -> float:
        """Return the mean; NaN if the weights sum to 0."""
        return (self.sum / self.weight).item()

    @staticmethod
    @abstractmethod
    def _of_errors(errors: Tensor[Any]) -> Tensor[Any]:
        """Return the function of the errors, elementwise."""


class MSE(Error):
    """The mean squared error.

    >>> MSE.of(Tensor[NumPy].from_data([1.0, 2.0]), Tensor[NumPy].from_data([1.0, 4.0])).value()
    2.0
    """

    @staticmethod
    def _of_errors(errors: Tensor[Any]) -> Tensor[Any]:
        return errors.square()


class MAE(Error):
    """The mean absolute error.

    >>> MAE.of(Tensor[NumPy].from_data([1.0, 2.0]), Tensor[NumPy].from_data([1.0, 4.0])).value()
    1.0
    """

    @staticmethod
    def _of_errors(errors: Tensor[Any]) -> Tensor[Any]:
        return errors.abs()


class R2(Metric):
    """The coefficient of determination: 1 minus the squared error over the variance of the targets.

    For several outputs it is the mean of theirs. For constant targets it is 1 if they are predicted exactly, and
    else 0. Means and squared deviations are combined without cancellation, by the method of Chan, Golub and LeVeque,
    Algorithms for computing the sample variance, 1983.

    >>> R2.of(Tensor[NumPy].from_data([1.0, 2.0, 4.0]), Tensor[NumPy].from_data([1.0, 2.0, 3.0])).value()
    0.5
    """

    weight: Tensor[Any]  #: shape ()
    mean: Tensor[Any]  #: of the targets, shape (D,)
    deviations: Tensor[Any]  #: the sum of the squared deviations of the targets from their mean, shape (D,)
    errors: Tensor[Any]  #: the sum of the squared errors, shape (D,)

    @classmethod
    def of(cls, prediction: Tensor[Any], target: Tensor[Any], *, weight: Tensor[Any] | None = None) -> Self:
        """Return the coefficient of determination of the predictions.

        Args:
            prediction: shape (N,), or (N, ...) with several outputs.
            target: the same shape.
            weight: the weight of each sample, shape (N,).

        Raises:
            ShapeError: the shapes differ, or are ().
        """
        truth, errors, weights = _errors("R2", prediction, target, weight)
        if not truth.ndim or (weight is not None and weight.ndim != 1):
            raise ShapeError(
                f"R2.of() takes targets with shape (N, ...) and weights with shape (N,), got {truth.shape}"
                + (f" and {weight.shape}" if weight is not None else "")
            )
        n, outputs = truth.shape[0], int(np.prod(truth.shape[1:]))
        truth, errors, weights = (x.reshape((n, outputs)) for x in (truth, errors, weights))
        totals = weights.sum(0)
        mean = _finite_ratio(weighted(truth, weights).sum(0), totals)
        return cls(
            weight=totals[0] if outputs else totals.sum(),
            mean=mean,
            deviations=weighted((truth - mean).square(), weights).sum(0),
            errors=weighted(errors.square(), weights).sum(0),
        )

    def value(self) -> float:
        """Return the coefficient, at most 1; NaN if nothing was counted."""
        if not self.weight.item() > 0:
            return float("nan")
        deviations, errors = self.deviations.to_numpy(), self.errors.to_numpy()
        constant = np.where(errors == 0, 1.0, 0.0)
        by_output = 1 - np.divide(errors, deviations, out=1 - constant, where=deviations != 0)
        return float(by_output.mean())

    def _combined(self, other: Any) -> Self:
        weight = self.weight + other.weight
        step = other.mean - self.mean
        share = _finite_ratio(other.weight, weight)
        return type(self)(
            weight=weight,
            mean=self.mean + step * share,
            deviations=self.deviations + other.deviations + step.square() * (self.weight * share),
            errors=self.errors + other.errors,
        )


def _finite_ratio(x: Tensor[Any], y: Tensor[Any]) -> Tensor[Any]:
    empty = y == 0.0
    return x.where(~empty, 0.0) / y.where(~empty, 1.0)


def _errors(
    metric: str, prediction: Tensor[Any], target: Tensor[Any], weight: Tensor[Any] | None
) -> tuple[Tensor[Any], Tensor[Any], Tensor[Any]]:
    x, y = doubles(prediction), doubles(target)
    if x.shape != y.shape:
        raise ShapeError(
            f"{metric}.of() got predictions with shape {x.shape} and targets with shape {y.shape}; they must be equal"
        )
    return y, x - y, element_weights(metric, weight, y, y.shape)
