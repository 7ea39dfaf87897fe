"""Checks of the second operand of binary operations, and the errors for unsuitable ones."""

from __future__ import annotations

import math
from itertools import zip_longest
from typing import Any, TypeVar

import numpy as np

from burnpy.backend.dtypes import result_type
from burnpy.backend.error_origin import OWN_PACKAGES, raised_by_other_code
from burnpy.backend.errors import BurnpyError, DTypeError, KindError, OutOfMemoryError, ShapeError, a
from burnpy.backend.primitives import Scalar, Shape
from burnpy.tensor.base import TensorBase, class_name, describe
from burnpy.tensor.dims import MOST
from burnpy.tensor.levels import common_device, raised, refuse_mixed

_FROM_NARROW = ("bool", "int", "float")

T = TypeVar("T", bound=TensorBase[Any])


def operands(tensor: T, other: Any, operation: str) -> tuple[T, Any]:
    """Return the tensor, and the second operand of a binary operation as a primitive or a Python number.

    Both are lifted to one device if the device of one is a level above the other's (`burnpy.tensor.levels`).

    Raises:
        DeviceError: ``other`` is a tensor on another device.
        KindError: ``other`` is a tensor of another kind, an array, or something else that cannot be an operand.
    """
    if not isinstance(other, TensorBase):
        return tensor, number(tensor, other, operation)
    if other._device is not tensor._device:
        tensor, other = together(operation, tensor, other)
    if other.kind != tensor.kind:
        raise mixed_kinds(operation, tensor, other)
    return tensor, other._primitive


def number(tensor: TensorBase[Any], other: Any, operation: str) -> Scalar:
    """Return a number that can be combined with ``tensor``; NumPy scalars become Python numbers.

    Raises:
        KindError: it is not a number, or of a kind that cannot be combined with the tensor's.
        DTypeError: it is an int that the tensor's dtype cannot represent.
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
            f"{operation}() got {describe(tensor)} and the {type(other).__name__} {describe(other)}; "
            f"convert the tensor first, as in x.{'float' if isinstance(other, float) else 'int'}()"
        )
    if isinstance(other, TensorBase) and other.kind != tensor.kind:
        raise mixed_kinds(operation, tensor, other)
    name = type(tensor).__name__
    if isinstance(other, (list, tuple)) or hasattr(other, "__array_interface__") or hasattr(other, "__dlpack__"):
        raise KindError(
            f"{operation}() got {a(name)} and {a(class_name(other))}; "
            f"make a tensor of it first: {name}.from_data(values, device=x.device)"
        )
    hint = f"the other operand must be {a(name)} or a number"
    if isinstance(getattr(other, "value", None), TensorBase):
        hint = "write its .value, which is the tensor"
    elif callable(other) and getattr(other, "__name__", "") == "grad":
        hint = "tensors store no gradient: compute grads = loss.backward(), then read x.grad(grads)"
    raise KindError(f"{operation}() got {a(name)} and {describe(other)}; {hint}")


def mixed_kinds(operation: str, x: TensorBase[Any], y: TensorBase[Any]) -> KindError:
    """Return the error for tensors of two kinds: the narrower one is to be converted, which loses no value."""
    narrow, wide = sorted((x, y), key=lambda tensor: _FROM_NARROW.index(tensor.kind))
    if hasattr(type(narrow), operation) and not hasattr(type(wide), operation):  # such as bitwise_and
        hint = f"{operation}() takes no floats: make a mask of the {type(wide).__name__}, as in x != 0"
    else:
        hint = f"convert the {type(narrow).__name__} with .{wide.kind}()"
    return KindError(f"{operation}(): kinds do not mix, got {describe(x)} and {describe(y)}; {hint}")


def need_floats(operation: str, x: object) -> None:
    """Check that an argument is a float tensor.

    Raises:
        KindError: it is not.
    """
    if not isinstance(x, TensorBase) or x.kind != "float":
        raise KindError(f"{operation}() takes a Tensor, got {describe(x)}; make one of it first")


def times(alpha: Any, tensor: TensorBase[Any], other: Any, operation: str) -> Any:
    """Return ``alpha * other``, computed in the dtype that an operation of ``tensor`` and ``other`` promotes to.

    Raises:
        KindError: ``alpha`` or ``other`` is of a kind that cannot be combined with the tensor's, or not a number.
        DTypeError: one is an int that the tensor's dtype cannot represent.
    """
    factor = number(tensor, alpha, operation)
    if not isinstance(other, TensorBase):
        return factor * number(tensor, other, operation)
    operands(tensor, other, operation)  # raises an error if they cannot be combined
    scaled: Any = other
    dtype = result_type(tensor._primitive, other._primitive)
    if other.ndim and dtype != other.dtype:
        scaled = scaled.to_dtype(dtype)
    return scaled.mul(factor)


def together(operation: str, *tensors: Any) -> tuple[Any, ...]:
    """Return the tensors on one device, lifted if one of them is on a level above the others.

    Ints and bools may be on any device beneath the others.

    Raises:
        DeviceError: the tensors are on unrelated devices.
        EscapedError: a tensor is on a level whose function has returned.
    """
    device = tensors[0]._device
    for x in tensors:
        if x._device is not device:
            floats = [x._device for x in tensors if x.kind == "float"]
            device = common_device(operation, floats, [x._device for x in tensors if x.kind != "float"])
            return tuple([raised(x, device) for x in tensors])
    if hasattr(device, "refuse"):
        device.refuse(operation)
    return tensors


def same_device(operation: str, *tensors: TensorBase[Any]) -> None:
    """Check that all tensors are on the same device; a level and the device beneath it are two.

    Raises:
        DeviceError: the devices differ.
    """
    for other in tensors[1:]:
        if other._device is not tensors[0]._device:
            refuse_mixed(operation, tensors[0]._device, other._device)


def explain(error: Exception, operation: str, x: TensorBase[Any], y: Any) -> None:
    """Raise a clear error for an exception of a backend's binary operation, if the operands caused it.

    Return without an error for any other exception, such as a bug in a backend, or one that a signal handler raised,
    which the caller raises again.

    Raises:
        ShapeError: the shapes do not broadcast.
        DTypeError: a number does not fit the dtype.
        OutOfMemoryError: there is not enough memory for the result.
    """
    if isinstance(error, BurnpyError) and not isinstance(error, OutOfMemoryError):
        return
    shape = broadcast_shape(x.shape, y.shape) if isinstance(y, TensorBase) else x.shape
    if shape is None:
        raise ShapeError(
            f"{operation}() got shapes {x.shape} and {y.shape}, which do not broadcast: "
            "aligned at the right, sizes must be equal or one of them 1"
        ) from error
    if from_other_code(error, x._device):
        return
    if isinstance(error, MemoryError) or math.prod(shape) > MOST:
        raise out_of_memory(error, operation, x, y, shape) from error
    if isinstance(error, OverflowError) and not isinstance(y, TensorBase):
        raise too_large(operation, x, y) from error


def explain_memory(error: MemoryError, operation: str, x: TensorBase[Any]) -> None:
    """Raise a clear error if an operation of one tensor ran out of memory; return if a signal handler raised ``error``.

    Raises:
        OutOfMemoryError: there is not enough memory for the result or for intermediate results.
    """
    if not from_other_code(error, x._device):
        from burnpy.backend.memory import not_allocated

        raise not_allocated(operation if operation.endswith("]") else f"{operation}()", (x,), error) from error


def from_other_code(error: BaseException, device: Any) -> bool:
    """Return whether the error that the calling frame's caller caught came from foreign code.

    Foreign code belongs neither to burnpy, to NumPy nor to the device's backend. Most likely it is a signal handler,
    whose error says nothing about the arguments.
    """
    own = {*OWN_PACKAGES, "burnpy_array", "burnpy_numpy", "burnpy_cupy", "cupy", "cupyx"}
    own.add("None")  # the generated methods of Autodiff, which belong to no module
    while device is not None:
        own.add(type(device).__module__.partition(".")[0])
        device = device.inner
    return raised_by_other_code(error, own)


def too_large(operation: str, x: TensorBase[Any], y: object) -> DTypeError:
    """Return the error for an int that the dtype of x cannot represent."""
    return DTypeError(f"{operation}() got dtype {x.dtype} and {describe(y)}, which {x.dtype} cannot hold")


def out_of_memory(error: Exception, operation: str, x: TensorBase[Any], y: Any, shape: Shape) -> OutOfMemoryError:
    """Return the error for a binary operation that runs out of memory, with the device's own message, if there is one.

    Args:
        error: the exception of the backend.
        operation: the name of the operation.
        x: the first operand.
        y: the second operand, a tensor or a number.
        shape: the shape of the result.
    """
    asked = f"shapes {x.shape} and {y.shape}" if isinstance(y, TensorBase) else f"shape {x.shape} and {y!r}"
    if isinstance(error, OutOfMemoryError):
        return OutOfMemoryError(f"{operation}() got {asked}, for a result of shape {shape}, and {error}")
    return OutOfMemoryError(
        f"{operation}() got {asked}, and {x.device} has no memory for it: the result alone, of shape {shape}, "
        f"has {math.prod(shape):,} elements; compute it in parts, or delete tensors that you no longer need"
    )


def broadcast_shape(*shapes: Shape) -> Shape | None:
    """Return the shape that all ``shapes`` broadcast to, or None if they do not broadcast.

    >>> broadcast_shape((2, 1), (3,))
    (2, 3)
    """
    first = shapes[0]
    if shapes.count(first) == len(shapes):
        return first
    reversed_shape: list[int] = []
    for sizes in zip_longest(*[shape[::-1] for shape in shapes], fillvalue=1):
        wide = {size for size in sizes if size != 1} or {1}
        if len(wide) > 1:
            return None
        reversed_shape += wide
    return tuple(reversed_shape[::-1])
