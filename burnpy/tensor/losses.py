"""Loss functions of predictions and targets.

All take ``reduction``: "mean", "sum", or "none" for the loss of each element. Targets and weights of a wider float
dtype than the prediction raise a `DTypeError`, unless they are 0-d.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, TypeVar, overload

import numpy as np

from burnpy.backend.backend import Backend
from burnpy.backend.errors import ArgumentError, DimError, KindError, ShapeError
from burnpy.backend.primitives import Bool, Int
from burnpy.tensor.base import TensorBase, describe
from burnpy.tensor.call_errors import explained
from burnpy.tensor.float_width import refuse_wider
from burnpy.tensor.int_tensor import IntTensor
from burnpy.tensor.operands import operands, together
from burnpy.tensor.ranges import in_range, out_of_range
from burnpy.tensor.tensor import Tensor

__all__ = ["binary_cross_entropy_with_logits", "cross_entropy", "mse_loss", "nll_loss"]

B = TypeVar("B", bound=Backend)
Reduction: TypeAlias = Literal["mean", "sum", "none"]


@overload
def cross_entropy(
    logits: Tensor[B],
    target: IntTensor[B],
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
    target: IntTensor[B] | Tensor[B],
    *,
    weight: Tensor[B] | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: Reduction = "mean",
) -> Tensor[B]:
    """The cross entropy of the softmax of ``logits`` against classes, or against probabilities of classes.

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

    >>> from burnpy import IntTensor, Tensor, cross_entropy
    >>> from burnpy.backend import NumPy
    >>> logits = Tensor[NumPy].from_data([[0.0, 0.0], [9.0, 9.0]])
    >>> round(cross_entropy(logits, IntTensor[NumPy].from_data([0, 1])).item(), 4)
    0.6931
    """
    dim = _class_dim("cross_entropy", logits)
    if not 0.0 <= label_smoothing <= 1.0:
        raise ArgumentError(f"cross_entropy() was asked for label_smoothing={label_smoothing}; it is from 0 to 1")
    if not isinstance(target, Tensor) and weight is None and not label_smoothing:
        index, counted = _targets("cross_entropy", logits, target, dim, ignore_index)
        losses = logits._like(logits._backend.cross_entropy(logits._primitive, index, dim)[0])
        return _counted("cross_entropy", losses, counted, None, reduction)
    log_p = logits.log_softmax(dim)
    if not isinstance(target, Tensor):
        return _classes("cross_entropy", log_p, target, weight, ignore_index, label_smoothing, reduction)
    operands(logits, target, "cross_entropy")  # raises an error if they cannot be combined
    refuse_wider("cross_entropy", "a prediction", logits.dtype, target=target)
    if target.shape != logits.shape:
        raise ShapeError(
            f"cross_entropy() was asked of logits of shape {logits.shape} and probabilities of shape {target.shape}, "
            "which must be equal; for classes give an IntTensor"
        )
    if label_smoothing:
        target = target * (1.0 - label_smoothing) + label_smoothing / logits.shape[dim]
    if weight is not None:
        target = target * _per_class("cross_entropy", log_p, weight, dim)
    losses = -_weighted(log_p, target).sum(dim)
    return _reduced("cross_entropy", losses, reduction)


@explained
def nll_loss(
    log_probabilities: Tensor[B],
    target: IntTensor[B],
    *,
    weight: Tensor[B] | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
) -> Tensor[B]:
    """The negative log likelihood of the target classes, as `cross_entropy` but of the ``log_softmax`` of logits.

    Args:
        log_probabilities: shape (C,), (N, C) or (N, C, d1, …), C the number of classes.
        target: classes from 0 to C - 1, of the same shape without C.
        weight: the weight of each class, of shape (C,).
        ignore_index: the class whose elements are ignored.
        reduction: "mean" is the weighted mean over the elements that are not ignored.

    Raises:
        ShapeError: the shapes do not match.
        IndexRangeError: a class is neither in range nor ``ignore_index``.
    """
    _class_dim("nll_loss", log_probabilities)
    return _classes("nll_loss", log_probabilities, target, weight, ignore_index, 0.0, reduction)


@explained
def mse_loss(input: Tensor[B], target: Tensor[B], *, reduction: Reduction = "mean") -> Tensor[B]:
    """The mean squared error. The shapes must be equal: in a loss, broadcasting is usually a mistake.

    Raises:
        ShapeError: the shapes differ.

    >>> from burnpy import Tensor, mse_loss
    >>> from burnpy.backend import NumPy
    >>> mse_loss(Tensor[NumPy].from_data([1.0, 2.0]), Tensor[NumPy].from_data([1.0, 4.0])).item()
    2.0
    """
    _same_shape("mse_loss", input, target)
    return _reduced("mse_loss", (input - target).square(), reduction)


@explained
def binary_cross_entropy_with_logits(
    input: Tensor[B],
    target: Tensor[B],
    *,
    weight: Tensor[B] | None = None,
    pos_weight: Tensor[B] | None = None,
    reduction: Reduction = "mean",
) -> Tensor[B]:
    """The cross entropy of ``sigmoid(input)`` against probabilities, without overflow.

    Args:
        input: logits, of any shape.
        target: probabilities from 0 to 1, of the same shape.
        weight: the weight of each element; broadcasts to the shape of ``input``.
        pos_weight: the weight of the positive class relative to the negative; broadcasts to the shape of ``input``.
        reduction: "mean" divides by the number of elements, not by the sum of the weights.

    Raises:
        ShapeError: the shapes are not equal, or a weight does not broadcast to them.

    >>> from burnpy import Tensor, binary_cross_entropy_with_logits
    >>> from burnpy.backend import NumPy
    >>> logits, target = Tensor[NumPy].from_data([0.0, 100.0]), Tensor[NumPy].from_data([1.0, 0.0])
    >>> binary_cross_entropy_with_logits(logits, target, reduction="none").tolist()
    [0.693..., 100.0]
    """
    _same_shape("binary_cross_entropy_with_logits", input, target)
    if weight is not None or pos_weight is not None:
        refuse_wider(
            "binary_cross_entropy_with_logits", "a prediction", input.dtype, weight=weight, pos_weight=pos_weight
        )
    # -log(sigmoid(x)) is softplus(-x), and -log(1 - sigmoid(x)) is softplus(x); adding positive terms cancels nothing.
    positive = target if pos_weight is None else target * pos_weight
    losses = _weighted((-input).softplus(), positive) + _weighted(input.softplus(), 1.0 - target)
    if weight is not None:
        losses = _weighted(losses, weight)
    if losses.shape != input.shape:
        raise ShapeError(
            f"binary_cross_entropy_with_logits() was asked of shape {input.shape} and of weights "
            f"with which it would be {losses.shape}"
        )
    return _reduced("binary_cross_entropy_with_logits", losses, reduction)


def _classes(
    operation: str,
    log_p: Tensor[B],
    target: IntTensor[B],
    weight: Tensor[B] | None,
    ignore_index: int,
    label_smoothing: float,
    reduction: Reduction,
) -> Tensor[B]:
    """Return the loss for targets that are classes."""
    dim = _class_dim(operation, log_p)
    index, counted = _targets(operation, log_p, target, dim, ignore_index)
    losses = -_at_class(log_p, dim, index)
    element_weight: Tensor[B] | None = None  # None if every element has weight 1
    smoothed = log_p
    if weight is not None:
        weights = _per_class(operation, log_p, weight, dim)
        element_weight = _at_class(weights.expand(log_p.shape), dim, index)
        losses = _weighted(losses, element_weight)
        smoothed = _weighted(log_p, weights)
    if label_smoothing:
        losses = losses * (1.0 - label_smoothing) - smoothed.sum(dim) * (label_smoothing / log_p.shape[dim])
    return _counted(operation, losses, counted, element_weight, reduction)


def _weighted(x: Tensor[B], weight: Tensor[B]) -> Tensor[B]:
    """Return x · weight with 0 · ∞ = 0: an element of weight 0 is ignored, however large."""
    d = x.device.discrete
    infinite = x.isinf()
    if d.eager_checks and not d.to_numpy(infinite._primitive).any():
        return x * weight
    ignored = infinite & (weight == 0.0)
    # Infinity is replaced by a large number, not by 0, so that the gradient with respect to the weight stays large.
    largest = float(np.finfo(x.dtype if x.dtype.kind == "f" else np.float32).max) / 2
    return x.clamp(-largest, largest).where(ignored, x) * weight


def _counted(
    operation: str, losses: Tensor[B], counted: Bool | None, element_weight: Tensor[B] | None, reduction: Reduction
) -> Tensor[B]:
    """Return the reduced losses of the elements where ``counted`` is True.

    ``element_weight`` is the weight of each element, or None if every element has weight 1.
    """
    if counted is not None:
        mask = losses._bool(counted)
        losses = losses.where(mask, 0.0)
        element_weight = (
            mask._float(losses.device.to_float(counted, losses.dtype))
            if element_weight is None
            else element_weight.where(mask, 0.0)
        )
    if reduction == "mean" and element_weight is not None:
        return losses.sum() / element_weight.sum()
    return _reduced(operation, losses, reduction)


def _targets(operation: str, log_p: Tensor[Any], target: Any, dim: int, ignore_index: int) -> tuple[Int, Bool | None]:
    """Return the classes, with 0 in place of ignored ones, and a mask of the others; None if no class is ignored.

    Raises:
        KindError: ``target`` is not an `IntTensor`.
        ShapeError: it does not have the shape of ``log_p`` without the classes.
        IndexRangeError: a class is out of range.
    """
    if not isinstance(target, IntTensor):
        what = describe(target)
        raise KindError(f"{operation}() takes its classes as an IntTensor, and was given {what}")
    together(operation, log_p, target)  # raises an error if they cannot be combined
    shape, classes = log_p.shape, log_p.shape[dim]
    if target.shape != shape[:dim] + shape[dim + 1 :]:
        classes_last = target.shape == shape[:-1]  # the layout of language models
        way_out = (
            f"; if the classes are last, write {operation}(x.flatten(0, -2), target.flatten())" if classes_last else ""
        )
        raise ShapeError(
            f"{operation}() was asked of shape {shape}, with {classes} classes in dim {dim}, and classes of shape "
            f"{target.shape}; they must be of shape {shape[:dim] + shape[dim + 1 :]}{way_out}"
        )
    d = log_p.device.discrete
    index = target._primitive
    if d.eager_checks and not (d.to_numpy(index) == ignore_index).any():
        return in_range(d, index, classes, False, f"{operation}()", dim, shape), None
    counted = d.ne(index, ignore_index)
    index = d.where(counted, index, 0)
    if classes == 0:
        raise out_of_range(0, 0, False, f"{operation}()", dim, shape)
    return in_range(d, index, classes, False, f"{operation}()", dim, shape), counted


def _at_class(x: Tensor[B], dim: int, index: Int) -> Tensor[B]:
    """Return the element of x at each class."""
    shape = x.shape
    b = x._backend
    picked = b.gather(x._primitive, dim, b.discrete.reshape(index, (*shape[:dim], 1, *shape[dim + 1 :])))
    return x._like(b.reshape(picked, shape[:dim] + shape[dim + 1 :]))


def _class_dim(operation: str, logits: Tensor[Any]) -> int:
    """Return the dimension of the classes: 1, or 0 for logits of shape (C,)."""
    if not isinstance(logits, Tensor):
        raise KindError(f"{operation}() takes a float Tensor, and was given {describe(logits)}")
    if logits.ndim == 0:
        raise DimError(f"{operation}() was asked of a 0-d tensor; it needs the shape (C,), (N, C) or (N, C, ...)")
    return min(logits.ndim - 1, 1)


def _per_class(operation: str, log_p: Tensor[B], weight: Tensor[B], dim: int) -> Tensor[B]:
    """Return the weights of the classes, reshaped to broadcast along the dimension of the classes."""
    if not isinstance(weight, TensorBase):
        raise KindError(f"{operation}() takes the weights of classes as a Tensor, and was given {describe(weight)}")
    operands(log_p, weight, operation)  # raises an error if they cannot be combined
    refuse_wider(operation, "a prediction", log_p.dtype, weight=weight)
    classes = log_p.shape[dim]
    if weight.shape != (classes,):
        raise ShapeError(f"{operation}() was asked with a weight of shape {weight.shape}; it must be ({classes},)")
    return weight.reshape((classes, *(1,) * (log_p.ndim - dim - 1)))


def _same_shape(operation: str, x: Tensor[Any], y: Tensor[Any]) -> None:
    if not isinstance(x, Tensor):
        raise KindError(f"{operation}() takes float tensors, and was given {describe(x)}")
    if not isinstance(y, TensorBase):
        raise KindError(f"{operation}() takes tensors of one shape, and was given {describe(y)}; write x.full_like(y)")
    operands(x, y, operation)  # raises an error if they cannot be combined
    if x._primitive.dtype is not y._primitive.dtype:
        refuse_wider(operation, "a prediction", x.dtype, target=y)
    if x.shape != y.shape:
        raise ShapeError(
            f"{operation}() was asked of shapes {x.shape} and {y.shape}, which must be equal; "
            "to repeat one, write so: y.expand_as(x)"
        )


def _reduced(operation: str, losses: Tensor[B], reduction: Reduction) -> Tensor[B]:
    if reduction == "mean":
        return losses.mean()
    if reduction == "sum":
        return losses.sum()
    if reduction == "none":
        return losses
    raise ArgumentError(f'{operation}() was asked for reduction={reduction!r}; it is "mean", "sum" or "none"')
