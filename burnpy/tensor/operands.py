"""What may stand on the other side of an operator, and what is said of anything else."""

from __future__ import annotations

import math
from itertools import zip_longest
from typing import Any, TypeVar

import numpy as np

from burnpy.backend.dtypes import result_type
from burnpy.backend.errors import BurnpyError, DTypeError, KindError, OutOfMemoryError, ShapeError, a
from burnpy.backend.primitives import Scalar, Shape
from burnpy.tensor.base import TensorBase, describe
from burnpy.tensor.dims import MOST
from burnpy.tensor.levels import common_device, raised, refuse_mixed

_CONVERSION = {"float": ".float()", "int": ".int()", "bool": ".bool()"}


T = TypeVar("T", bound=TensorBase[Any])


def operands(tensor: T, other: Any, operation: str) -> tuple[T, Any]:
    """For a binary operation, the tensor and the primitive or Python number for its second operand.

    The two are lifted to one device where that of one is a level above the other's (`burnpy.tensor.levels`).

    Raises:
        DeviceError: a tensor of another device.
        KindError: a tensor of another kind, an array, or anything else that does not mix with ``tensor``.
    """
    if not isinstance(other, TensorBase):
        return tensor, number(tensor, other, operation)
    if other._device is not tensor._device:
        tensor, other = together(operation, tensor, other)
    if other.kind != tensor.kind:
        raise KindError(
            f"{operation}() was asked of {describe(tensor)} and {describe(other)}; kinds do not mix by themselves: "
            f"convert one of them, as in x{_CONVERSION[tensor.kind]}"
        )
    return tensor, other._primitive


def number(tensor: TensorBase[Any], other: Any, operation: str) -> Scalar:
    """A Python number that may be combined with ``tensor``; NumPy's scalars become Python's.

    Raises:
        KindError: it is of a kind that does not mix with the tensor's, or no number.
        DTypeError: an int that the tensor's dtype cannot hold.
    """
    if isinstance(other, np.generic):
        other = other.item()
    fits = {"float": (float, int), "int": (int,), "bool": (bool,)}
    if isinstance(other, fits[tensor.kind]):
        if tensor.kind == "int" and not 0 <= other <= 127:
            info = np.iinfo(tensor.dtype)
            if not info.min <= other <= info.max:
                raise too_large(operation, tensor, other)
        return other
    if isinstance(other, (bool, int, float)):
        raise KindError(
            f"{operation}() was asked of {describe(tensor)} and the {type(other).__name__} {other!r}; "
            f"convert the tensor first, as in x{_CONVERSION['float' if isinstance(other, float) else 'int']}"
        )
    name = type(tensor).__name__
    if isinstance(other, (np.ndarray, list, tuple)):
        raise KindError(
            f"{operation}() was asked of {a(name)} and {a(type(other).__name__)}; "
            f"make a tensor of it first: {name}.from_data(values, device=x.device)"
        )
    raise KindError(
        f"{operation}() was asked of {a(name)} and {describe(other)}; the other operand must be {a(name)} or a number"
    )


def times(alpha: Any, tensor: TensorBase[Any], other: Any, operation: str) -> Any:
    """``alpha * other``, in the dtype that it has in an operation with ``tensor``.

    Raises:
        KindError: ``alpha``, or ``other``, is of a kind that does not mix with the tensor's, or no number.
        DTypeError: an int that the tensor's dtype cannot hold.
    """
    factor = number(tensor, alpha, operation)
    if not isinstance(other, TensorBase):
        return factor * number(tensor, other, operation)
    operands(tensor, other, operation)  # or says why not
    scaled: Any = other
    dtype = result_type(tensor._primitive, other._primitive)
    if other.ndim and dtype != other.dtype:
        scaled = scaled.to_dtype(dtype)
    return scaled.mul(factor)


def together(operation: str, *tensors: Any) -> tuple[Any, ...]:
    """The tensors on one device: as they are, or lifted where one is on a level above the others.

    Raises:
        DeviceError: they are on several devices.
        EscapedError: one is of a level whose function has returned.
    """
    device = common_device(operation, [x._device for x in tensors])
    return tuple([x if x._device is device else raised(x, device) for x in tensors])


def same_device(operation: str, *tensors: TensorBase[Any]) -> None:
    """Refuse tensors of different devices, and of a level and what lies beneath."""
    for other in tensors[1:]:
        if other._device is not tensors[0]._device:
            refuse_mixed(operation, tensors[0]._device, other._device)


def explain(error: Exception, operation: str, x: TensorBase[Any], y: Any) -> None:
    """Raise in the user's terms what a backend's binary operation raised, where the operands account for it.

    Of anything else, such as a mistake in a backend or in a hook, nothing is known here, and nothing is said: the
    caller raises it as it is.

    Raises:
        ShapeError: the shapes do not broadcast.
        DTypeError: a number does not fit the dtype.
        OutOfMemoryError: there is no memory for the result.
    """
    if isinstance(error, BurnpyError):
        return
    shape = broadcast_shape(x.shape, y.shape) if isinstance(y, TensorBase) else x.shape
    if shape is None:
        raise ShapeError(
            f"{operation}() was asked of shapes {x.shape} and {y.shape}, which do not broadcast: "
            "aligned at the right, sizes must be equal or one of them 1"
        ) from error
    if isinstance(error, MemoryError) or math.prod(shape) > MOST:
        raise out_of_memory(operation, x, y, shape) from error
    if isinstance(error, OverflowError) and not isinstance(y, TensorBase):
        raise too_large(operation, x, y) from error


def too_large(operation: str, x: TensorBase[Any], y: object) -> DTypeError:
    """The error for an int that the dtype of x cannot hold."""
    return DTypeError(f"{operation}() was asked of dtype {x.dtype} and {y!r}, which {x.dtype} cannot hold")


def out_of_memory(operation: str, x: TensorBase[Any], y: Any, shape: Shape) -> OutOfMemoryError:
    """The error for a binary operation whose result, of ``shape``, or what it takes to compute it, finds no memory."""
    asked = f"shapes {x.shape} and {y.shape}" if isinstance(y, TensorBase) else f"shape {x.shape} and {y!r}"
    return OutOfMemoryError(
        f"{operation}() was asked of {asked}, and {x.device} has no memory for it: the result alone, of shape {shape}, "
        f"has {math.prod(shape):,} elements; compute it in parts, or let go of tensors that are needed no more"
    )


def broadcast_shape(*shapes: Shape) -> Shape | None:
    """The shape to which all of ``shapes`` broadcast; None where they do not.

    >>> broadcast_shape((2, 1), (3,))
    (2, 3)
    """
    found: list[int] = []
    for sizes in zip_longest(*[shape[::-1] for shape in shapes], fillvalue=1):
        wide = {size for size in sizes if size != 1} or {1}
        if len(wide) > 1:
            return None
        found += wide
    return tuple(found[::-1])
