"""Weights of samples, which every metric takes."""

from __future__ import annotations

from typing import Any

from burnpy.backend.errors import ShapeError
from burnpy.backend.primitives import Shape
from burnpy.metrics.metric import doubles
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import TensorBase


def element_weights(metric: str, weight: Tensor[Any] | None, like: TensorBase[Any], shape: Shape) -> Tensor[Any]:
    """Return the weight of each element in float64: ones, or ``weight`` repeated over the trailing dimensions.

    Args:
        metric: the metric's name, for the message.
        weight: weights of shape (N,), or of any leading part of ``shape``; or None.
        like: a tensor on the plain device, on which ones are made.
        shape: the shape of the elements.

    Raises:
        ShapeError: the weights' shape is not a leading part of ``shape``.
    """
    if weight is None:
        return Tensor.ones(shape, dtype="float64", device=like.device)
    values = doubles(weight)
    if values.shape != shape[: values.ndim]:
        raise ShapeError(
            f"{metric}.of() got weights with shape {values.shape} for elements with shape {shape}; "
            f"pass one for each sample, shape {shape[:1]}, or one for each element"
        )
    return values.reshape((*values.shape, *(1,) * (len(shape) - values.ndim))).expand(shape)
