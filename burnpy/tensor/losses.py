"""Loss functions of predictions and targets, and targets that are classes.

All take ``reduction``: "mean", "sum", or "none" for the loss of each element. Targets and weights of a wider float
dtype than the prediction raise a `DTypeError`, unless they are 0-d.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

import numpy as np

from burnpy.backend.dtypes import float32, int64
from burnpy.backend.errors import ArgumentError, DimError, KindError, ShapeError
from burnpy.backend.primitives import Bool, Int, Shape, below, value_range
from burnpy.tensor.call_errors import explained
from burnpy.tensor.operand_checks import in_range, in_range_unless, operands, out_of_range, refuse_wider, together
from burnpy.tensor.tensor import ComplexTensor, IntTensor, Tensor
from burnpy.tensor.tensor_base import TensorBase, describe, made_of
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor_types import Ints

__all__ = ["binary_cross_entropy_with_logits", "cross_entropy", "mse_loss", "nll_loss"]
Reduction: TypeAlias = Literal["mean", "sum", "none"]


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

    >>> logits = Tensor[NumPy].from_data([[0.0, 0.0], [9.0, 9.0]])
    >>> round(cross_entropy(logits, IntTensor[NumPy].from_data([0, 1])).item(), 4)
    0.6931
    """
    dim = _class_dim("cross_entropy", logits)
    if not 0.0 <= label_smoothing <= 1.0:
        raise ArgumentError(f"cross_entropy() got label_smoothing={label_smoothing}; expected a number from 0 to 1")
    if not isinstance(target, Tensor):
        if weight is None and not label_smoothing and reduction == "mean":
            x, index, counted = counted_targets("cross_entropy", logits, target, dim, ignore_index)
            return x._like(x._device.first_result("mean_cross_entropy", x._primitive, index, counted, dim))
        return _classes("cross_entropy", logits, dim, target, weight, ignore_index, label_smoothing, reduction)
    log_p = logits.log_softmax(dim)
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
    dim = _class_dim("nll_loss", log_probabilities)
    return _classes("nll_loss", log_probabilities, dim, target, weight, ignore_index, 0.0, reduction)


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

    >>> logits, target = Tensor[NumPy].from_data([0.0, 100.0]), Tensor[NumPy].from_data([1.0, 0.0])
    >>> binary_cross_entropy_with_logits(logits, target, reduction="none").tolist()
    [0.693..., 100.0]
    """
    name = "binary_cross_entropy_with_logits"
    same_shape(name, input, target)
    if weight is not None or pos_weight is not None:
        refuse_wider(name, "a prediction", input.dtype, weight=weight, pos_weight=pos_weight)
    positive = () if pos_weight is None else (target * pos_weight,)
    xs = together(name, input, target, *positive)
    most = largest(input)
    (terms,) = xs[0]._backend.fused(_binary_terms, [x._primitive for x in xs], (-most, most))
    losses: Tensor[B] = xs[0]._like(terms)
    if weight is not None:
        losses = weighted(losses, weight)
    if losses.shape != input.shape:
        raise ShapeError(f"{name}() got shape {input.shape} and weights that broadcast it to {losses.shape}")
    return reduced(name, losses, reduction)


def _binary_terms(b: Any, x: Any, target: Any, *rest: Any) -> tuple[Any]:
    """-log(sigmoid(x)) is softplus(-x), -log(1 - sigmoid(x)) is softplus(-x) + x; terms above 0 cancel nothing."""
    *positive, least, most = rest  # the targets times ``pos_weight``, if any, and two bounds
    negative, other, own = b.lt(x, 0.0), b.add(b.neg(target), 1.0), (*positive, target)[0]
    below = b.where(negative, x, b.neg(x))
    tail = b.softplus(below, 1.0)
    if positive:
        tail = b.mul(tail, b.add(own, other))
    return (b.add(tail, times_weight(b, b.neg(below), b.where(negative, own, other), least, most)),)


def _classes(
    operation: str,
    x: Tensor[B],
    dim: int,
    target: Ints[B],
    weight: Tensor[B] | None,
    ignore_index: int,
    label_smoothing: float,
    reduction: Reduction,
) -> Tensor[B]:
    """Return the loss of logits, or of log probabilities, for targets that are classes."""
    x, index, counted = counted_targets(operation, x, target, dim, ignore_index)
    if operation == "cross_entropy" and not label_smoothing:
        losses = x._like(x._device.first_result("cross_entropy", x._primitive, index, dim))
    else:
        x = x.log_softmax(dim) if label_smoothing else x
        losses = -value_at_class(x, dim, index)
    weights = None if weight is None else class_weights(operation, x, weight, dim)
    element_weight = None if weights is None else weight_at_class(weights, index)  # None if each has weight 1
    if element_weight is not None:
        losses = weighted(losses, element_weight)
    if label_smoothing:
        smoothed = x if weights is None else weighted(x, weights)
        losses = losses * (1.0 - label_smoothing) - smoothed.mean(dim) * label_smoothing
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
        return ratio(losses, element_weight)
    return reduced(operation, losses, reduction)


def _class_dim(operation: str, logits: Tensor[Any]) -> int:
    """Return the dimension of the classes: 1, or 0 for logits of shape (C,)."""
    if not isinstance(logits, Tensor):
        raise KindError(f"{operation}() takes a float Tensor, got {describe(logits)}")
    ndim = len(logits._primitive.shape)
    if ndim == 0:
        raise DimError(f"{operation}() got a 0-d tensor; it needs the shape (C,), (N, C) or (N, C, ...)")
    return 1 if ndim > 1 else 0


def weighted(x: Tensor[B], weight: Tensor[B]) -> Tensor[B]:
    """Return x · weight with 0 · ∞ = 0: an element of weight 0 is ignored, however large."""
    d = x.device.discrete
    infinite = x.isinf()
    if d.eager_checks and not d.to_numpy(infinite._primitive).any():
        return x * weight
    ignored = infinite & (weight == 0.0)
    # Infinity is replaced by a large number, not by 0, so that the gradient with respect to the weight stays large.
    most = largest(x)
    return x.clamp(-most, most).where(ignored, x) * weight


def times_weight(b: Any, x: Any, weight: Any, least: Any, most: Any) -> Any:
    """Multiply primitives as `weighted` does; the numbers take the place of infinities."""
    d, infinite = b.discrete, b.isinf(x)
    if d.eager_checks and not d.to_numpy(infinite).any():
        return b.mul(x, weight)
    ignored = d.bitwise_and(infinite, b.eq(weight, 0.0))
    return b.mul(b.where(ignored, b.clamp(x, least, most), x), weight)


def largest(x: Tensor[Any]) -> float:
    """Return the number that takes the place of infinity where a weight is 0."""
    return float(np.finfo(x.dtype if x.dtype.kind == "f" else np.float32).max) / 2


def same_shape(operation: str, x: Any, y: Any) -> None:
    """Check that a prediction and its target are float tensors of one shape, the target not wider. Of `l1_loss` and
    `triplet_margin_loss` they may be complex."""
    if not isinstance(x, (Tensor, ComplexTensor) if operation in ("l1_loss", "triplet_margin_loss") else Tensor):
        raise KindError(f"{operation}() takes float tensors, got {describe(x)}")
    if not isinstance(y, TensorBase):
        way = "; write x.full_like(y)" if isinstance(y, (int, float)) else made_of(y, "Tensor")
        raise KindError(f"{operation}() takes tensors of one shape, got {describe(y)}{way}")
    operands(x, y, operation)  # raises an error if they cannot be combined
    if x._primitive.dtype is not y._primitive.dtype:
        refuse_wider(operation, "a prediction", x.dtype, target=y)
    if x.shape != y.shape:
        raise ShapeError(
            f"{operation}() got shapes {x.shape} and {y.shape}, which must be equal; "
            "to broadcast one, write y.expand_as(x)"
        )


def reduced(operation: str, losses: Tensor[B], reduction: Reduction) -> Tensor[B]:
    """Return the mean or the sum of the losses, or the losses themselves."""
    if reduction == "mean":
        return losses.mean()
    if reduction == "sum":
        return losses.sum()
    if reduction == "none":
        return losses
    raise ArgumentError(f'{operation}() got reduction={reduction!r:.80}; expected "mean", "sum" or "none"')


def by_weight(operation: str, losses: Tensor[B], weight: Tensor[B] | None) -> Tensor[B]:
    """Return the losses times a weight for each."""
    if weight is None:
        return losses
    if not isinstance(weight, Tensor):
        raise KindError(f"{operation}() takes the weights of elements as a Tensor, got {describe(weight)}")
    operands(losses, weight, operation)  # raises an error if they cannot be combined
    refuse_wider(operation, "a prediction", losses.dtype, weight=weight)
    if weight.shape != losses.shape:
        raise ShapeError(
            f"{operation}() got shape {losses.shape} with a weight of shape {weight.shape}, which must be "
            "equal; to broadcast one, write weight.expand_as(x)"
        )
    return weighted(losses, weight)


def weighted_mean(operation: str, losses: Tensor[B], weight: Tensor[B] | None, reduction: Reduction) -> Tensor[B]:
    """Return the reduced losses with a weight for each, by whose sum the mean divides."""
    losses = by_weight(operation, losses, weight)
    if weight is None or reduction != "mean":
        return reduced(operation, losses, reduction)
    return ratio(losses, weight)


def ratio(losses: Tensor[B], weight: Tensor[B]) -> Tensor[B]:
    """Divide the sum of losses by the sum of weights, in float32 for 16-bit floats, whose range the sums may exceed."""
    if losses.dtype.itemsize > 2:
        return losses.sum() / weight.sum(dtype=losses.dtype)
    return (losses.sum(dtype=float32) / weight.sum(dtype=float32)).to_dtype(losses.dtype)


def labels(operation: str, x: Tensor[B], target: Tensor[B] | Ints[B], shape: tuple[int, ...]) -> Tensor[B]:
    """Return labels, 1 and -1 as floats or ints, as floats of the dtype of x.

    Raises:
        KindError: the target is not a float or int tensor.
        DeviceError: it is on another device.
        DTypeError: it is wider than x.
        ShapeError: it is not of the shape that is wanted.
    """
    if not isinstance(target, (Tensor, IntTensor)):
        raise KindError(f"{operation}() takes labels 1 and -1 as a Tensor or IntTensor, got {describe(target)}")
    x, given = together(operation, x, target)
    refuse_wider(operation, "a prediction", x.dtype, target=given)
    if given.shape != shape:
        raise ShapeError(
            f"{operation}() got shape {x.shape} and labels of shape {given.shape}; they must be of shape {shape}"
        )
    return given if isinstance(given, Tensor) else x._like(x._device.to_float(given._primitive, x.dtype))


def counted_targets(
    operation: str, log_p: Tensor[B], target: Any, dim: int, ignore_index: int
) -> tuple[Tensor[B], Int, Bool | None]:
    """Return ``log_p`` on the level of the target, the classes, and a mask of those that are not ignored. Ignored
    classes are replaced by 0. The mask is None if no class is ignored."""
    log_p = _beside_classes(operation, log_p, target, dim)
    shape = log_p._primitive.shape
    classes = shape[dim]
    d, index = log_p._device.discrete, target._primitive
    if d.eager_checks and 0 not in shape:
        values = d.to_numpy(index)
        if index.dtype is int64 and not 0 <= ignore_index < classes and below(values, classes):
            return log_p, index, None
        least, most = value_range(values)
        if least >= 0 and most < classes and not least <= ignore_index <= most:
            return log_p, (index if index.dtype is int64 else d.cast(index, int64)), None
    if d.eager_checks and not (d.to_numpy(index) == ignore_index).any():
        return log_p, in_range(d, index, classes, False, f"{operation}()", dim, shape), None
    if classes == 0:
        raise out_of_range(0, 0, False, f"{operation}()", dim, shape)
    return log_p, *in_range_unless(d, index, ignore_index, classes, f"{operation}()", dim, shape)


def _beside_classes(operation: str, log_p: Tensor[B], target: Any, dim: int) -> Tensor[B]:
    """Check the kind, device and shape of targets that are classes; return their scores on the level of the target."""
    if target.__class__ is not IntTensor:
        raise KindError(f"{operation}() takes its classes as an IntTensor, got {describe(target)}{made_of(target)}")
    if target._device is not log_p._device or hasattr(log_p._device, "refuse"):
        log_p, _ = together(operation, log_p, target)
    shape: Shape = log_p._primitive.shape
    if target._primitive.shape != shape[:dim] + shape[dim + 1 :]:
        classes = shape[dim]
        classes_last = target.shape == shape[:-1]  # the layout of language models
        way_out = (
            f"; if the classes are last, write {operation}(x.flatten(0, -2), target.flatten())" if classes_last else ""
        )
        raise ShapeError(
            f"{operation}() got shape {shape}, with {classes} classes in dim {dim}, and classes of shape "
            f"{target.shape}; they must be of shape {shape[:dim] + shape[dim + 1 :]}{way_out}"
        )
    return log_p


def class_targets(operation: str, scores: Tensor[B], target: Any, dim: int) -> tuple[Tensor[B], Int]:
    """Return the scores on the level of the target, and the classes; no class is ignored."""
    scores = _beside_classes(operation, scores, target, dim)
    d, shape = scores._device.discrete, scores.shape
    return scores, in_range(d, target._primitive, shape[dim], False, f"{operation}()", dim, shape)


def value_at_class(x: Tensor[B], dim: int, index: Int) -> Tensor[B]:
    """Return the element of x at each class."""
    shape = x.shape
    b = x._backend
    picked = b.gather(x._primitive, dim, b.discrete.reshape(index, (*shape[:dim], 1, *shape[dim + 1 :])))
    return x._like(b.reshape(picked, shape[:dim] + shape[dim + 1 :]))


def weight_at_class(weights: Tensor[B], index: Int) -> Tensor[B]:
    """Return the weight of each element's class, from weights that broadcast along the dimension of the classes."""
    b = weights._backend
    d, flat = b.discrete, b.reshape(weights._primitive, (weights.numel(),))
    picked = b.index_select(flat, 0, d.reshape(index, (math.prod(index.shape),)))
    return weights._like(b.reshape(picked, index.shape))


def class_weights(operation: str, log_p: Tensor[B], weight: Tensor[B], dim: int) -> Tensor[B]:
    """Return the weights of the classes, reshaped to broadcast along the dimension of the classes. They are on the
    level of ``log_p``, or on their own above it."""
    if not isinstance(weight, TensorBase):
        raise KindError(f"{operation}() takes the weights of classes as a Tensor, got {describe(weight)}")
    log_p, _ = operands(log_p, weight, operation)  # raises an error if they cannot be combined
    weight = together(operation, log_p, weight)[1]
    refuse_wider(operation, "a prediction", log_p.dtype, weight=weight)
    classes = log_p.shape[dim]
    if weight.shape != (classes,):
        raise ShapeError(f"{operation}() got a weight of shape {weight.shape}; it must be ({classes},)")
    return weight.reshape((classes, *(1,) * (log_p.ndim - dim - 1)))
