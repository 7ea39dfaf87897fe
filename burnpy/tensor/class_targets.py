"""Targets of losses that are classes: their checks, their weights, and the values at them."""

from __future__ import annotations

from typing import Any

from burnpy.backend.dtypes import int64
from burnpy.backend.errors import KindError, ShapeError
from burnpy.backend.primitives import Bool, Int, value_range
from burnpy.tensor.base import TensorBase, describe
from burnpy.tensor.float_width import refuse_wider
from burnpy.tensor.index_checks import in_range, out_of_range
from burnpy.tensor.int_tensor import IntTensor
from burnpy.tensor.operands import operands, together
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import B


def counted_targets(
    operation: str, log_p: Tensor[Any], target: Any, dim: int, ignore_index: int
) -> tuple[Int, Bool | None]:
    """Return the classes, with 0 in place of ignored ones, and a mask of the others; None if no class is ignored.

    Raises:
        KindError: ``target`` is not an `IntTensor`.
        ShapeError: it does not have the shape of ``log_p`` without the classes.
        IndexRangeError: a class is out of range.
    """
    _classes_fit(operation, log_p, target, dim)
    shape = log_p.shape
    classes = shape[dim]
    d = log_p.device.discrete
    index = target._primitive
    if d.eager_checks and 0 not in shape:
        least, most = value_range(d.to_numpy(index))
        if least >= 0 and most < classes and not least <= ignore_index <= most:
            return (index if index.dtype is int64 else d.cast(index, int64)), None
    if d.eager_checks and not (d.to_numpy(index) == ignore_index).any():
        return in_range(d, index, classes, False, f"{operation}()", dim, shape), None
    counted = d.ne(index, ignore_index)
    if classes == 0:
        raise out_of_range(0, 0, False, f"{operation}()", dim, shape)
    return in_range(d, index, classes, False, f"{operation}()", dim, shape, ignore_index), counted


def _classes_fit(operation: str, log_p: Tensor[Any], target: Any, dim: int) -> None:
    """Check the kind, device and shape of targets that are classes."""
    if not isinstance(target, IntTensor):
        what = describe(target)
        raise KindError(f"{operation}() takes its classes as an IntTensor, got {what}")
    together(operation, log_p, target)  # raises an error if they cannot be combined
    shape = log_p.shape
    classes = shape[dim]
    if target.shape != shape[:dim] + shape[dim + 1 :]:
        classes_last = target.shape == shape[:-1]  # the layout of language models
        way_out = (
            f"; if the classes are last, write {operation}(x.flatten(0, -2), target.flatten())" if classes_last else ""
        )
        raise ShapeError(
            f"{operation}() got shape {shape}, with {classes} classes in dim {dim}, and classes of shape "
            f"{target.shape}; they must be of shape {shape[:dim] + shape[dim + 1 :]}{way_out}"
        )


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
