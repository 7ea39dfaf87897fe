"""Argument checks shared by the functions of this package."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from burnpy.backend.dtypes import promote_types
from burnpy.backend.errors import ArgumentError, KindError, ShapeError, a
from burnpy.backend.primitives import Shape
from burnpy.tensor.base import TensorBase, class_name, describe
from burnpy.tensor.float_width import refuse_wider
from burnpy.tensor.operands import together
from burnpy.tensor.tensor import Tensor


def floats(operation: str, required: int, **tensors: Any) -> list[Any]:
    """Convert float tensors to a common device and their widest dtype.

    The first ``required`` of them must be given; the others may be None, and stay None. The weights (for attention, the
    queries) determine the dtype: ``x``, ``x1``, ``x2``, ``key`` and ``value`` may be narrower than those, not wider.

    Raises:
        KindError: an argument is not a float tensor.
        DeviceError: they are on different devices.
        DTypeError: ``x``, ``key`` or ``value`` is wider than the weights.
    """
    values: list[Any] = [*tensors.values()]
    first = values[0]
    if first.__class__ is not Tensor:
        return _together(operation, required, tensors)
    device, dtype = first._device, first._primitive.dtype
    for k, x in enumerate(values):
        if x.__class__ is Tensor and x._device is device and x._primitive.dtype == dtype:
            continue
        if x is not None or k < required:
            return _together(operation, required, tensors)
    return values


def _together(operation: str, required: int, tensors: dict[str, Any]) -> list[Any]:
    """The slow path of `floats`, for tensors that differ in device or dtype, or are invalid."""
    present = [x for x in tensors.values() if x is not None]
    for k, (name, x) in enumerate(tensors.items()):
        if (x is not None or k < required) and (not isinstance(x, TensorBase) or x.kind != "float"):
            what = "None" if x is None else a(class_name(x))
            what += f" of dtype {x.dtype}" if isinstance(x, TensorBase) else ""
            hint = "" if x is None else "; make one of it first: Tensor.from_data(values, device=device)"
            if isinstance(x, TensorBase):
                hint = "; convert it with x.float()"
            elif isinstance(getattr(x, "value", None), TensorBase):
                hint = "; write its .value, which is the tensor"
            raise KindError(f"{operation}() takes a float Tensor as {name}, got {what}{hint}")
    placed = list(together(operation, *present))
    if any(x.dtype != placed[0].dtype for x in placed):
        dtype = reduce(promote_types, [x.dtype for x in placed])
        data = {name: x for name, x in tensors.items() if name in ("x", "x1", "x2", "key", "value")}
        deciding = [x.dtype for name, x in tensors.items() if x is not None and name not in data]
        if deciding:
            basis = "queries" if "query" in tensors else "weights"
            refuse_wider(operation, basis, reduce(promote_types, deciding), **data)
        placed = [x.to_dtype(dtype) for x in placed]
    rest = iter(placed)
    return [None if x is None else next(rest) for x in tensors.values()]


def dims_at_least(operation: str, name: str, shape: Shape, least: int, form: str) -> None:
    """Check that a tensor of this shape has at least ``least`` dimensions.

    Raises:
        ShapeError: it has fewer.
    """
    if len(shape) < least:
        raise ShapeError(f"{operation}() takes {name} of shape {form}, got shape {shape}")


def exact_dims(
    operation: str, name: str, shape: Shape, count: int, form: str, hint: str = "", last: int | None = None
) -> None:
    """Check that a tensor of this shape has exactly ``count`` dimensions, and the size ``last`` in the last one.

    Raises:
        ShapeError: it has another number of dimensions, or another size there.
    """
    if len(shape) != count or (last is not None and shape[-1] != last):
        raise ShapeError(f"{operation}() takes {name} of shape {form}, got shape {shape}{hint}")


def last_sizes(operation: str, normalized_shape: int | Sequence[int], shape: Shape) -> tuple[int, ...]:
    """Return ``normalized_shape`` as a tuple, after checking that it is the end of the shape of x.

    Raises:
        ShapeError: it is not.
    """
    argument: Any = normalized_shape
    if not isinstance(argument, (int, TensorBase)):
        argument = tuple(normalized_shape)  # type: ignore[arg-type]  # no int
    sizes: Any = (argument,) if isinstance(argument, int) else argument
    if isinstance(sizes, TensorBase) or not sizes or shape[-len(sizes) :] != sizes:
        given = describe(sizes)
        raise ShapeError(
            f"{operation}() got x of shape {shape} and normalized_shape={given}, which must be its last dimensions"
        )
    checked: tuple[int, ...] = sizes
    return checked


def probability(operation: str, p: float) -> float:
    """Return a probability as a float.

    Raises:
        ArgumentError: ``p`` is not a number from 0 to 1.
    """
    argument: Any = p
    if not isinstance(argument, (int, float, np.number)) or not 0.0 <= p <= 1.0:
        raise ArgumentError(f"{operation}() got p={describe(p)}; expected a probability, from 0 to 1")
    return float(p)
