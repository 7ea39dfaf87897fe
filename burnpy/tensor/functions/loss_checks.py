"""Checks of the arguments of loss functions, targets that are classes, and the reduction of losses to one number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from burnpy.backend.dtypes import int64
from burnpy.backend.errors import ArgumentError, KindError, ShapeError
from burnpy.backend.primitives import Bool, Int, Shape, below, value_range
from burnpy.tensor.operands import in_range, in_range_unless, operands, out_of_range, refuse_wider, together
from burnpy.tensor.tensor import IntTensor, Tensor
from burnpy.tensor.tensor_base import TensorBase, describe
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor_types import Ints

Reduction: TypeAlias = Literal["mean", "sum", "none"]


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
    """As `weighted`, of primitives; the numbers take the place of infinities."""
    d, infinite = b.discrete, b.isinf(x)
    if d.eager_checks and not d.to_numpy(infinite).any():
        return b.mul(x, weight)
    ignored = d.bitwise_and(infinite, b.eq(weight, 0.0))
    return b.mul(b.where(ignored, b.clamp(x, least, most), x), weight)


def largest(x: Tensor[Any]) -> float:
    """Return the number that takes the place of infinity where a weight is 0."""
    return float(np.finfo(x.dtype if x.dtype.kind == "f" else np.float32).max) / 2


def same_shape(operation: str, x: Tensor[Any], y: Tensor[Any]) -> None:
    """Check that a prediction and its target are float tensors of one shape, the target not wider.

    Raises:
        KindError: one is no float tensor.
        DeviceError: they are on different devices.
        DTypeError: the target is wider.
        ShapeError: the shapes differ.
    """
    if not isinstance(x, Tensor):
        raise KindError(f"{operation}() takes float tensors, got {describe(x)}")
    if not isinstance(y, TensorBase):
        raise KindError(f"{operation}() takes tensors of one shape, got {describe(y)}; write x.full_like(y)")
    operands(x, y, operation)  # raises an error if they cannot be combined
    if x._primitive.dtype is not y._primitive.dtype:
        refuse_wider(operation, "a prediction", x.dtype, target=y)
    if x.shape != y.shape:
        raise ShapeError(
            f"{operation}() got shapes {x.shape} and {y.shape}, which must be equal; "
            "to broadcast one, write y.expand_as(x)"
        )


def reduced(operation: str, losses: Tensor[B], reduction: Reduction) -> Tensor[B]:
    """Return the mean or the sum of the losses, or the losses themselves.

    Raises:
        ArgumentError: the reduction is none of the three.
    """
    if reduction == "mean":
        return losses.mean()
    if reduction == "sum":
        return losses.sum()
    if reduction == "none":
        return losses
    raise ArgumentError(f'{operation}() got reduction={reduction!r:.80}; expected "mean", "sum" or "none"')


def by_weight(operation: str, losses: Tensor[B], weight: Tensor[B] | None) -> Tensor[B]:
    """Return the losses times a weight for each.

    Raises:
        KindError, DeviceError, DTypeError, ShapeError: the weight does not fit the losses.
    """
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
    return losses.sum() / weight.sum()


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
    together(operation, x, target)  # raises an error if they cannot be combined
    refuse_wider(operation, "a prediction", x.dtype, target=target)
    if target.shape != shape:
        raise ShapeError(
            f"{operation}() got shape {x.shape} and labels of shape {target.shape}; they must be of shape {shape}"
        )
    return x._like(x.device.to_float(target._primitive, x.dtype)) if isinstance(target, IntTensor) else target


def counted_targets(
    operation: str, log_p: Tensor[Any], target: Any, dim: int, ignore_index: int
) -> tuple[Int, Bool | None]:
    """Return the classes, with 0 in place of ignored ones, and a mask of the others; None if no class is ignored.

    Raises:
        KindError: ``target`` is not an `IntTensor`.
        ShapeError: it does not have the shape of ``log_p`` without the classes.
        IndexRangeError: a class is out of range.
    """
    shape = _classes_fit(operation, log_p, target, dim)
    classes = shape[dim]
    d, index = log_p._device.discrete, target._primitive
    if d.eager_checks and 0 not in shape:
        values = d.to_numpy(index)
        if index.dtype is int64 and not 0 <= ignore_index < classes and below(values, classes):
            return index, None
        least, most = value_range(values)
        if least >= 0 and most < classes and not least <= ignore_index <= most:
            return (index if index.dtype is int64 else d.cast(index, int64)), None
    if d.eager_checks and not (d.to_numpy(index) == ignore_index).any():
        return in_range(d, index, classes, False, f"{operation}()", dim, shape), None
    if classes == 0:
        raise out_of_range(0, 0, False, f"{operation}()", dim, shape)
    return in_range_unless(d, index, ignore_index, classes, f"{operation}()", dim, shape)


def _classes_fit(operation: str, log_p: Tensor[Any], target: Any, dim: int) -> Shape:
    """Check the kind, device and shape of targets that are classes; return the shape of their scores."""
    if target.__class__ is not IntTensor:
        raise KindError(f"{operation}() takes its classes as an IntTensor, got {describe(target)}")
    if target._device is not log_p._device or hasattr(log_p._device, "refuse"):
        together(operation, log_p, target)  # raises an error if they cannot be combined
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
    return shape


def class_targets(operation: str, scores: Tensor[Any], target: Any, dim: int) -> Int:
    """Return the classes of ``target``; no class is ignored.

    Raises:
        KindError: ``target`` is not an `IntTensor`.
        ShapeError: it does not have the shape of ``scores`` without the classes.
        IndexRangeError: a class is out of range.
    """
    _classes_fit(operation, scores, target, dim)
    return in_range(
        scores.device.discrete, target._primitive, scores.shape[dim], False, f"{operation}()", dim, scores.shape
    )


def value_at_class(x: Tensor[B], dim: int, index: Int) -> Tensor[B]:
    """Return the element of x at each class."""
    shape = x.shape
    b = x._backend
    picked = b.gather(x._primitive, dim, b.discrete.reshape(index, (*shape[:dim], 1, *shape[dim + 1 :])))
    return x._like(b.reshape(picked, shape[:dim] + shape[dim + 1 :]))


def class_weights(operation: str, log_p: Tensor[B], weight: Tensor[B], dim: int) -> Tensor[B]:
    """Return the weights of the classes, reshaped to broadcast along the dimension of the classes."""
    if not isinstance(weight, TensorBase):
        raise KindError(f"{operation}() takes the weights of classes as a Tensor, got {describe(weight)}")
    operands(log_p, weight, operation)  # raises an error if they cannot be combined
    refuse_wider(operation, "a prediction", log_p.dtype, weight=weight)
    classes = log_p.shape[dim]
    if weight.shape != (classes,):
        raise ShapeError(f"{operation}() got a weight of shape {weight.shape}; it must be ({classes},)")
    return weight.reshape((classes, *(1,) * (log_p.ndim - dim - 1)))
