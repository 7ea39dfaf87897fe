"""How the functions of this package call elementwise operations that tensors have no method for."""

from __future__ import annotations

from typing import Any

from burnpy.backend.errors import KindError, ShapeError
from burnpy.tensor.linalg import floating
from burnpy.tensor.operands import broadcast_shape, explain, explain_memory, operands, together
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import TensorBase, describe, new_tensor


def of_one(operation: str, x: Any) -> Any:
    """Return the result of an operation of a float tensor.

    Raises:
        KindError: x is no float tensor.
    """
    x = floating(operation, x, "x")
    try:
        return new_tensor(Tensor, x._device, getattr(x._backend, operation)(x._primitive))
    except MemoryError as error:
        explain_memory(error, operation, x)
        raise


def of_two(operation: str, x: Any, y: Any) -> Any:
    """Return the result of an operation of two operands, a float tensor and another or a number.

    Raises:
        KindError: an operand is neither a float tensor nor a number, or both are numbers.
        ShapeError: the shapes do not broadcast.
        DeviceError: they are on different devices.
    """
    x = first_operand(operation, x, y)
    tensor, value = operands(x, y, operation)
    try:
        return new_tensor(Tensor, tensor._device, getattr(tensor._backend, operation)(tensor._primitive, value))
    except Exception as error:  # of the array library, of any class; it is explained or raised again
        explain(error, operation, x, y)
        raise


def of_three(operation: str, **operands: Any) -> Any:
    """Return the result of an operation of three float tensors or numbers, at least one a tensor.

    Raises:
        KindError: an operand is neither a float tensor nor a number, or all are numbers.
        ShapeError: the shapes do not broadcast.
        DeviceError: they are on different devices.
    """
    some = next((x for x in operands.values() if isinstance(x, TensorBase)), None)
    if some is None:
        shown = " and ".join(map(describe, operands.values()))
        raise KindError(f"{operation}() takes float Tensors and numbers, at least one Tensor, got {shown}")
    tensors = [
        Tensor.from_data(float(x), dtype=some.dtype, device=some.device)
        if isinstance(x, (int, float))
        else floating(operation, x, name)
        for name, x in operands.items()
    ]
    if broadcast_shape(*[x.shape for x in tensors]) is None:
        shown = " and ".join(str(x.shape) for x in tensors)
        raise ShapeError(f"{operation}() got shapes {shown}, which do not broadcast")
    first, *_ = tensors = list(together(operation, *tensors))
    return first._like(getattr(first._backend, operation)(*[x._primitive for x in tensors]))


def first_operand(operation: str, x: Any, y: Any) -> Any:
    """Return the first operand as a float tensor: a number becomes a 0-d tensor beside y.

    Raises:
        KindError: it is neither a float tensor nor a number beside one.
    """
    if isinstance(x, (int, float)) and isinstance(y, TensorBase):
        y = floating(operation, y, "y")
        return Tensor.from_data(float(x), dtype=y.dtype, device=y.device)
    if not isinstance(x, TensorBase):
        raise KindError(f"{operation}() takes a float Tensor or a number beside one, got {describe(x)}")
    return floating(operation, x, "x")
