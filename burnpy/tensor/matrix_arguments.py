"""Checks of arguments that are matrices, in batches, and the promotion and broadcasting of two of them."""

from __future__ import annotations

from typing import Any

from burnpy.backend.dtypes import promote_types
from burnpy.backend.errors import KindError, ShapeError, a
from burnpy.backend.primitives import Shape
from burnpy.tensor.operands import broadcast_shape, together
from burnpy.tensor.tensor_base import TensorBase, describe


def floating(operation: str, x: Any, name: str = "matrices") -> Any:
    """Return a float tensor.

    Raises:
        KindError: it is something else.
    """
    if isinstance(x, TensorBase) and x.kind == "float":
        return x
    hint = "; convert it with x.float()" if isinstance(x, TensorBase) else ""
    described = a(type(x).__name__) if isinstance(x, TensorBase) else describe(x)
    raise KindError(f"{operation}() takes {name} as a float Tensor, got {described}{hint}")


def matrices(operation: str, x: Any, *, square: bool = False) -> Any:
    """Return a float tensor of matrices (…, n, m), which are square if asked for.

    Raises:
        KindError: it is no float tensor.
        ShapeError: it has fewer than two dimensions, or the matrices are not square.
    """
    x = floating(operation, x)
    shape = x.shape
    if len(shape) < 2 or (square and shape[-1] != shape[-2]):
        form = "square matrices, of shape (…, n, n)" if square else "matrices, of shape (…, n, m)"
        raise ShapeError(f"{operation}() takes {form}, got shape {shape}")
    return x


def alike(operation: str, *tensors: Any) -> list[Any]:
    """Return float tensors on one device and in the dtype to which theirs promote.

    Raises:
        KindError: one is no float tensor.
        DeviceError: they are on different devices.
    """
    placed = together(operation, *[floating(operation, x) for x in tensors])
    dtype = placed[0].dtype
    for x in placed[1:]:
        dtype = promote_types(dtype, x.dtype)
    return [x if x.dtype == dtype else x.to_dtype(dtype) for x in placed]


def expanded(operation: str, x: Any, y: Any) -> tuple[Any, Any]:
    """Return two tensors of matrices, whose dimensions before the last two are broadcast.

    Raises:
        ShapeError: they do not broadcast.
    """
    if x.shape[:-2] == y.shape[:-2]:
        return x, y
    batch = broadcast_shape(x.shape[:-2], y.shape[:-2])
    if batch is None:
        raise ShapeError(
            f"{operation}() got shapes {x.shape} and {y.shape}, whose dimensions before the last two do not broadcast"
        )
    return _expanded(x, batch), _expanded(y, batch)


def _expanded(x: Any, batch: Shape) -> Any:
    shape = (*batch, *x.shape[-2:])
    return x if x.shape == shape else x.expand(shape)
