"""Tensors on `Forward`: `make_dual` attaches a tangent to a tensor, `unpack_dual` takes both apart."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple

from burnpy.autodiff.forward import Forward
from burnpy.backend.errors import KindError, NotTrackedError, ShapeError
from burnpy.tensor.operands import together
from burnpy.tensor.tensor import DIFFERENTIABLE, Tensor
from burnpy.tensor.tensor_base import tensor_of
from burnpy.typevars import B


class Unpacked(NamedTuple, Generic[B]):
    """The result of `unpack_dual`."""

    primal: Tensor[B]
    """The values, on the inner backend."""
    tangent: Tensor[B] | None
    """Their tangent, of the same shape and dtype; None for a constant."""


def make_dual(x: Tensor[B], tangent: Tensor[B]) -> Tensor[Forward[B]]:
    """Return ``x`` with the tangent ``tangent``: results computed from it have the derivative in this direction.

    Args:
        x: the values, of any shape and dtype.
        tangent: the direction, of the same shape and dtype, on the same device.

    Raises:
        ShapeError: the shapes or dtypes differ.
        KindError: one of them is no float tensor.
        DeviceError: they are on two devices.

    >>> x = Tensor[NumPy].from_data(3.0)
    >>> unpack_dual(make_dual(x, Tensor[NumPy].ones(())) ** 2).tangent.item()
    6.0
    """
    for argument in (x, tangent):
        if not isinstance(argument, DIFFERENTIABLE):
            raise KindError(f"make_dual() takes two float tensors, got {argument!r}")
    x, tangent = together("make_dual", x, tangent)
    if (x.shape, x.dtype) != (tangent.shape, tangent.dtype):
        raise ShapeError(
            f"make_dual() got values of shape {x.shape} and dtype {x.dtype} and a tangent of shape "
            f"{tangent.shape} and dtype {tangent.dtype}; the tangent must be of the same"
        )
    device = Forward(x.device)
    return tensor_of(device, device.dual(x._primitive, tangent._primitive))  # type: ignore[no-any-return]  # of that class


def unpack_dual(x: Tensor[Forward[B]]) -> Unpacked[B]:
    """Return the values of a tensor on `Forward` and their tangent, which is None for a constant.

    Raises:
        NotTrackedError: the tensor is on another backend, where tensors have no tangent.

    >>> unpack_dual(Tensor[Forward[NumPy]].ones(())).tangent is None
    True
    """
    dual: Any = x
    if not isinstance(dual, DIFFERENTIABLE) or not isinstance(dual.device, Forward):
        raise NotTrackedError(f"unpack_dual() takes a Tensor on Forward, which make_dual() gives, got {dual!r}")
    inner: Any = dual.device.inner
    value, tangent = dual._primitive.value, dual._primitive.tangent
    return Unpacked(tensor_of(inner, value), None if tangent is None else tensor_of(inner, tangent))
