"""Loss functions of predictions and targets.

All take ``reduction``: "mean", "sum", or "none" for the loss of each element. Targets and weights of a wider float
dtype than the prediction raise a `DTypeError`, unless they are 0-d.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from burnpy.backend.errors import ArgumentError, DimError, KindError, ShapeError
from burnpy.backend.primitives import Bool
from burnpy.tensor.call_errors import explained
from burnpy.tensor.functions.loss_checks import (
    Reduction,
    class_weights,
    counted_targets,
    largest,
    reduced,
    same_shape,
    times_weight,
    value_at_class,
    weighted,
    weighted_mean,
)
from burnpy.tensor.operands import operands, refuse_wider, together
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import describe
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor_types import Ints

__all__ = ["binary_cross_entropy_with_logits", "cross_entropy", "mse_loss", "nll_loss"]


@overload
def cross_entropy(
    logits: Tensor[B],
    target: Ints[B],
    *,
    weight: Tensor[B] | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: Reduction = "mean",
) -> Tensor[B]: ...
@overload
def cross_entropy(
    logits: Tensor[B],
    target: Tensor[B],
    *,
    weight: Tensor[B] | None = None,
    label_smoothing: float = 0.0,
    reduction: Reduction = "mean",
) -> Tensor[B]: ...
@explained
def cross_entropy(
    logits: Tensor[B],
    target: Ints[B] | Tensor[B],
    *,
    weight: Tensor[B] | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: Reduction = "mean",
) -> Tensor[B]:
    """Return the cross entropy of the softmax of ``logits`` against classes, or against probabilities of classes.

    Args:
        logits: shape (C,), (N, C) or (N, C, d1, …), C the number of classes.
        target: classes from 0 to C - 1, an `IntTensor` of the shape of ``logits`` without C; or probabilities, a
            `Tensor` of the same shape as ``logits``.
        weight: the weight of each class, of shape (C,).
        ignore_index: the class whose elements are ignored. Only for targets that are classes.
        label_smoothing: the part of the target, from 0 to 1, that is distributed evenly over all classes.
        reduction: "mean" is the weighted mean over the elements that are not ignored; for probabilities, over all.

    Raises:
        ShapeError: the shapes do not match.
        IndexRangeError: a class is neither in range nor ``ignore_index``.

    Source of label smoothing: Szegedy et al., Rethinking the Inception Architecture for Computer Vision, 2015.

    >>> from burnpy import cross_entropy
    >>> logits = Tensor[NumPy].from_data([[0.0, 0.0], [9.0, 9.0]])
    >>> round(cross_entropy(logits, IntTensor[NumPy].from_data([0, 1])).item(), 4)
    0.6931
    """
    dim = _class_dim("cross_entropy", logits)
    if weight is None and not label_smoothing and target.__class__ is not Tensor:
        index, counted = counted_targets("cross_entropy", logits, target, dim, ignore_index)
        b, x = logits._device, logits._primitive
        if reduction == "mean":
            return logits._like(b.mean_cross_entropy(x, index, counted, dim)[0])
        losses = b.cross_entropy(x, index, dim)[0]
        return _counted("cross_entropy", logits._like(losses), counted, None, reduction)
    if not 0.0 <= label_smoothing <= 1.0:
        raise ArgumentError(f"cross_entropy() got label_smoothing={label_smoothing}; expected a number from 0 to 1")
    log_p = logits.log_softmax(dim)
    if not isinstance(target, Tensor):
        return _classes("cross_entropy", log_p, target, weight, ignore_index, label_smoothing, reduction)
    operands(logits, target, "cross_entropy")  # raises an error if they cannot be combined
    refuse_wider("cross_entropy", "a prediction", logits.dtype, target=target)
    if target.shape != logits.shape:
        raise ShapeError(
            f"cross_entropy() got logits of shape {logits.shape} and probabilities of shape {target.shape}, "
            "which must be equal; for classes give an IntTensor"
        )
    if label_smoothing:
        target = target * (1.0 - label_smoothing) + label_smoothing / logits.shape[dim]
    if weight is not None:
        target = target * class_weights("cross_entropy", log_p, weight, dim)
    losses = -weighted(log_p, target).sum(dim)
    return reduced("cross_entropy", losses, reduction)


@explained
def nll_loss(
    log_probabilities: Tensor[B],
    target: Ints[B],
    *,
    weight: Tensor[B] | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Tensor[B]:
    """Return the negative log likelihood of the target classes, as `cross_entropy` but of the ``log_softmax`` of
    logits.

    Args:
        log_probabilities: shape (C,), (N, C) or (N, C, d1, …), C the number of classes.
        target: classes from 0 to C - 1, of the same shape without C.
        weight: the weight of each class, of shape (C,).
        ignore_index: the class whose elements are ignored.
        reduction: "mean" is the weighted mean over the elements that are not ignored.

    Raises:
        ShapeError: the shapes do not match.
        IndexRangeError: a class is neither in range nor ``ignore_index``.

    >>> log_probabilities = Tensor[NumPy].from_data([[0.25, 0.75]]).log()
    >>> round(nll_loss(log_probabilities, IntTensor[NumPy].from_data([1])).item(), 4)
    0.2877
    """
    _class_dim("nll_loss", log_probabilities)
    return _classes("nll_loss", log_probabilities, target, weight, ignore_index, 0.0, reduction)


@explained
def mse_loss(
    input: Tensor[B], target: Tensor[B], *, weight: Tensor[B] | None = None, reduction: Reduction = "mean"
) -> Tensor[B]:
    """Return the mean squared error. The shapes must be equal: in a loss, broadcasting is usually a mistake.

    Args:
        input: the prediction, of any shape.
        target: the target values, of the same shape.
        weight: the weight of each element, of the same shape; "mean" divides by the sum of the weights.
        reduction: "mean", "sum", or "none" for the loss of each element.

    Raises:
        ShapeError: the shapes differ.

    >>> from burnpy import mse_loss
    >>> mse_loss(Tensor[NumPy].from_data([1.0, 2.0]), Tensor[NumPy].from_data([1.0, 4.0])).item()
    2.0
    """
    same_shape("mse_loss", input, target)
    x, y = together("mse_loss", input, target)
    losses: Tensor[B] = x._like(x._backend.squared_difference(x._primitive, y._primitive))
    return weighted_mean("mse_loss", losses, weight, reduction)


@explained
def binary_cross_entropy_with_logits(
    input: Tensor[B],
    target: Tensor[B],
    *,
    weight: Tensor[B] | None = None,
    pos_weight: Tensor[B] | None = None,
    reduction: Reduction = "mean",
) -> Tensor[B]:
    """Return the cross entropy of ``sigmoid(input)`` against probabilities, without overflow.

    Args:
        input: logits, of any shape.
        target: probabilities from 0 to 1, of the same shape.
        weight: the weight of each element; broadcasts to the shape of ``input``.
        pos_weight: the weight of the positive class relative to the negative; broadcasts to the shape of ``input``.
        reduction: "mean" divides by the number of elements, not by the sum of the weights.

    Raises:
        ShapeError: the shapes are not equal, or a weight does not broadcast to them.

    >>> from burnpy import binary_cross_entropy_with_logits
    >>> logits, target = Tensor[NumPy].from_data([0.0, 100.0]), Tensor[NumPy].from_data([1.0, 0.0])
    >>> binary_cross_entropy_with_logits(logits, target, reduction="none").tolist()
    [0.693..., 100.0]
    """
    same_shape("binary_cross_entropy_with_logits", input, target)
    if weight is not None or pos_weight is not None:
        refuse_wider(
            "binary_cross_entropy_with_logits", "a prediction", input.dtype, weight=weight, pos_weight=pos_weight
        )
    # -log(sigmoid(x)) is softplus(-x), and -log(1 - sigmoid(x)) is softplus(x); adding positive terms cancels nothing.
    positive = target if pos_weight is None else target * pos_weight
    xs = together("binary_cross_entropy_with_logits", input, positive, target)
    most = largest(input)
    (terms,) = xs[0]._backend.fused(_both_terms, [x._primitive for x in xs], (-most, most))
    losses: Tensor[B] = xs[0]._like(terms)
    if weight is not None:
        losses = weighted(losses, weight)
    if losses.shape != input.shape:
        raise ShapeError(
            f"binary_cross_entropy_with_logits() got shape {input.shape} and weights that broadcast it to "
            f"{losses.shape}"
        )
    return reduced("binary_cross_entropy_with_logits", losses, reduction)


def _both_terms(b: Any, x: Any, positive: Any, target: Any, *bounds: Any) -> tuple[Any]:
    ones = times_weight(b, b.softplus(b.neg(x), 1.0), positive, *bounds)
    return (b.add(ones, times_weight(b, b.softplus(x, 1.0), b.add(b.neg(target), 1.0), *bounds)),)


def _classes(
    operation: str,
    log_p: Tensor[B],
    target: Ints[B],
    weight: Tensor[B] | None,
    ignore_index: int,
    label_smoothing: float,
    reduction: Reduction,
) -> Tensor[B]:
    """Return the loss for targets that are classes."""
    dim = _class_dim(operation, log_p)
    index, counted = counted_targets(operation, log_p, target, dim, ignore_index)
    losses = -value_at_class(log_p, dim, index)
    element_weight: Tensor[B] | None = None  # None if every element has weight 1
    smoothed = log_p
    if weight is not None:
        weights = class_weights(operation, log_p, weight, dim)
        element_weight = value_at_class(weights.expand(log_p.shape), dim, index)
        losses = weighted(losses, element_weight)
        smoothed = weighted(log_p, weights)
    if label_smoothing:
        losses = losses * (1.0 - label_smoothing) - smoothed.sum(dim) * (label_smoothing / log_p.shape[dim])
    return _counted(operation, losses, counted, element_weight, reduction)


def _counted(
    operation: str, losses: Tensor[B], counted: Bool | None, element_weight: Tensor[B] | None, reduction: Reduction
) -> Tensor[B]:
    """Return the reduced losses of the elements where ``counted`` is True.

    ``element_weight`` is the weight of each element, or None if every element has weight 1.
    """
    if counted is not None:
        if reduction == "mean" and element_weight is None:
            return losses._like(losses._backend.masked_mean(losses._primitive, counted))
        mask = losses._bool(counted)
        losses = losses.where(mask, 0.0)
        element_weight = (
            mask._float(losses.device.to_float(counted, losses.dtype))
            if element_weight is None
            else element_weight.where(mask, 0.0)
        )
    if reduction == "mean" and element_weight is not None:
        return losses.sum() / element_weight.sum()
    return reduced(operation, losses, reduction)


def _class_dim(operation: str, logits: Tensor[Any]) -> int:
    """Return the dimension of the classes: 1, or 0 for logits of shape (C,)."""
    if not isinstance(logits, Tensor):
        raise KindError(f"{operation}() takes a float Tensor, got {describe(logits)}")
    ndim = len(logits._primitive.shape)
    if ndim == 0:
        raise DimError(f"{operation}() got a 0-d tensor; it needs the shape (C,), (N, C) or (N, C, ...)")
    return 1 if ndim > 1 else 0
