"""Targets that are classes, and what is looked up by them: scores, and weights of classes."""

from __future__ import annotations

import math
from typing import Any

from burnpy.backend.dtypes import int64
from burnpy.backend.errors import KindError, ShapeError
from burnpy.backend.primitives import Bool, Int, Shape, below, value_range
from burnpy.tensor.operand_checks import in_range, in_range_unless, operands, out_of_range, refuse_wider, together
from burnpy.tensor.tensor import IntTensor, Tensor
from burnpy.tensor.tensor_base import TensorBase, describe, made_of
from burnpy.typevars import B


def counted_targets(
    operation: str, log_p: Tensor[B], target: Any, dim: int, ignore_index: int
) -> tuple[Tensor[B], Int, Bool | None]:
    """Return ``log_p`` on the level of the target, the classes, and a mask of those that are not ignored.

    Ignored classes are replaced by 0. The mask is None if no class is ignored.
    """
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
    """Return the weights of the classes, reshaped to broadcast along the dimension of the classes.

    They are on the level of ``log_p``, or on their own above it.
    """
    if not isinstance(weight, TensorBase):
        raise KindError(f"{operation}() takes the weights of classes as a Tensor, got {describe(weight)}")
    log_p, _ = operands(log_p, weight, operation)  # raises an error if they cannot be combined
    weight = together(operation, log_p, weight)[1]
    refuse_wider(operation, "a prediction", log_p.dtype, weight=weight)
    classes = log_p.shape[dim]
    if weight.shape != (classes,):
        raise ShapeError(f"{operation}() got a weight of shape {weight.shape}; it must be ({classes},)")
    return weight.reshape((classes, *(1,) * (log_p.ndim - dim - 1)))
