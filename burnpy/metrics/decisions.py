"""Predictions and targets of classification, brought into the two forms that metrics count.

`Classes` is one class out of several for each element. `Labels` is a yes or no for each of several labels of a sample;
binary classification has one label.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from burnpy.backend.errors import ArgumentError, KindError, ShapeError
from burnpy.backend.primitives import Shape
from burnpy.metrics.metric import doubles, element_weights, plain
from burnpy.tensor.operands import in_range
from burnpy.tensor.tensor import BoolTensor, IntTensor, Tensor
from burnpy.tensor.tensor_base import describe


@dataclass(frozen=True)
class Classes:
    """One class for each of n elements."""

    predicted: IntTensor[Any]  #: shape (n,)
    target: IntTensor[Any]  #: shape (n,); 0 where the element is ignored
    weight: Tensor[Any]  #: shape (n,), float64; 0 where the element is ignored
    count: int  #: the number of classes

    def right(self) -> BoolTensor[Any]:
        """Return where the prediction is right, shape (n,)."""
        return self.predicted == self.target


@dataclass(frozen=True)
class Labels:
    """A decision for each of L labels of n samples."""

    predicted: BoolTensor[Any]  #: shape (n, L)
    target: BoolTensor[Any]  #: shape (n, L)
    weight: Tensor[Any]  #: shape (n, 1), float64

    def right(self) -> BoolTensor[Any]:
        """Return where the decision is right, shape (n, L)."""
        return self.predicted == self.target


def decisions(
    metric: str,
    prediction: Tensor[Any] | IntTensor[Any] | BoolTensor[Any],
    target: IntTensor[Any] | BoolTensor[Any],
    classes: int | None = None,
    threshold: float = 0.0,
    weight: Tensor[Any] | None = None,
    ignore_index: int | None = None,
) -> Classes | Labels:
    """Return the predictions and the targets, as classes or as labels.

    Args:
        metric: the metric's name, for messages.
        prediction: scores of classes, a `Tensor` of shape (N, C, ...) for targets of shape (N, ...); or scores of
            labels, a `Tensor` of the targets' shape (N,) or (N, L); or decisions: an `IntTensor` of classes or a
            `BoolTensor` of labels, of the targets' shape.
        target: an `IntTensor` of classes, or a `BoolTensor` of labels or an `IntTensor` of 0 and 1.
        classes: the number of classes, if ``prediction`` is an `IntTensor`.
        threshold: the score above which a label is predicted.
        weight: the weight of each sample, of shape (N,), or of each element.
        ignore_index: a class of ``target`` whose elements are not counted.

    Raises:
        KindError, ShapeError, IndexRangeError, ArgumentError: the arguments do not fit each other.
    """
    given: object
    for given in (prediction, target):
        if not isinstance(given, (Tensor, IntTensor, BoolTensor)):
            raise KindError(f"{metric}.of() takes tensors, got {describe(given)}")
    if isinstance(given, Tensor):
        raise KindError(f"{metric}.of() takes targets as an IntTensor or a BoolTensor, got {describe(target)}")
    shape = prediction.shape
    if isinstance(prediction, Tensor) and isinstance(target, IntTensor) and len(shape) == target.ndim + 1:
        _same_shape(metric, shape[:1] + shape[2:], target.shape, shape)
        if not shape[1]:
            raise ShapeError(f"{metric}.of() got scores with shape {shape}, which has no classes")
        return _classes(metric, plain(prediction).argmax(1), plain(target), shape[1], weight, ignore_index)
    _same_shape(metric, shape, target.shape, shape)
    if isinstance(prediction, IntTensor):
        if isinstance(target, BoolTensor):
            raise KindError(f"{metric}.of() got classes as predictions and a BoolTensor as targets; give both as one")
        if classes is None:
            raise ArgumentError(
                f"{metric}.of() of predicted classes needs their number: {metric}.of(x, y, classes=...)"
            )
        return _classes(metric, plain(prediction), plain(target), classes, weight, ignore_index)
    if ignore_index is not None:
        raise ArgumentError(f"{metric}.of() got ignore_index={ignore_index} for labels, which are 0 or 1; use weight")
    if not 1 <= len(shape) <= 2:
        raise ShapeError(f"{metric}.of() takes labels of shape (N,) or (N, L), got {shape}")
    chosen = plain(prediction)
    if isinstance(chosen, Tensor):
        chosen = chosen > threshold
    labels = (shape[0], shape[1] if len(shape) == 2 else 1)
    if weight is not None and weight.shape != shape[:1]:
        raise ShapeError(f"{metric}.of() got weights of shape {weight.shape}; give one for each sample: {shape[:1]}")
    return Labels(
        predicted=chosen.reshape(labels),
        target=_yes_or_no(metric, plain(target)).reshape(labels),
        weight=element_weights(metric, weight, chosen, shape[:1]).reshape((-1, 1) if shape[0] else (0, 1)),
    )


def bincount(x: IntTensor[Any], weight: Tensor[Any], size: int) -> Tensor[Any]:
    """Return the sum of the weights of each value of ``x`` from 0 to ``size`` - 1, in float64."""
    zeros: Tensor[Any] = Tensor.zeros((size,), dtype="float64", device=x.device)
    return zeros.scatter_add(0, x, weight)


def _classes(
    metric: str,
    predicted: IntTensor[Any],
    target: IntTensor[Any],
    count: int,
    weight: Tensor[Any] | None,
    ignore_index: int | None,
) -> Classes:
    weights = element_weights(metric, weight, target, target.shape)
    if ignore_index is not None:
        counted = target != ignore_index
        weights, target = weights.where(counted, 0.0), target.where(counted, 0)
    n = (target.numel(),)
    return Classes(
        predicted=_below(metric, predicted, count).reshape(n),
        target=_below(metric, target, count).reshape(n),
        weight=weights.reshape(n),
        count=count,
    )


def _below(metric: str, x: IntTensor[Any], count: int) -> IntTensor[Any]:
    """Return the classes, checked to be from 0 to ``count`` - 1."""
    return x._like(in_range(x.device, x._primitive, count, False, f"{metric}.of()", 0, (count,)))


def _yes_or_no(metric: str, target: IntTensor[Any] | BoolTensor[Any]) -> BoolTensor[Any]:
    return target if isinstance(target, BoolTensor) else _below(metric, target, 2) == 1


def _same_shape(metric: str, expected: Shape, given: Shape, scores: Shape) -> None:
    if expected != given:
        raise ShapeError(
            f"{metric}.of() got predictions with shape {scores} and targets with shape {given}; expected scores with "
            "shape (N, C, ...) for targets with shape (N, ...), or labels or decisions with the targets' shape"
        )


def scores_by_class(
    metric: str, scores: Tensor[Any], target: IntTensor[Any] | BoolTensor[Any]
) -> tuple[Tensor[Any], BoolTensor[Any]]:
    """Return scores and truth of one-against-the-rest decisions, both of shape (n, C), on the plain device.

    Raises:
        KindError, ShapeError, IndexRangeError: the arguments do not fit each other.
    """
    given: tuple[object, object] = (scores, target)
    if not isinstance(given[0], Tensor) or not isinstance(given[1], (IntTensor, BoolTensor)):
        raise KindError(
            f"{metric}.of() takes scores as a Tensor and targets as an IntTensor or a BoolTensor, got "
            f"{describe(scores)} and {describe(target)}"
        )
    shape, values, truth = scores.shape, doubles(scores), plain(target)
    if isinstance(truth, IntTensor) and len(shape) == 2 and truth.ndim == 1:
        _same_shape(metric, shape[:1], truth.shape, shape)
        chosen = _below(metric, truth, shape[1])
        return values, chosen.unsqueeze(1) == IntTensor.arange(shape[1], device=chosen.device)
    _same_shape(metric, shape, truth.shape, shape)
    if not 1 <= len(shape) <= 2:
        raise ShapeError(f"{metric}.of() takes scores of shape (N,) or (N, C), got {shape}")
    labels = (shape[0], shape[1] if len(shape) == 2 else 1)
    return values.reshape(labels), _yes_or_no(metric, truth).reshape(labels)
