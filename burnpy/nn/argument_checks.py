"""Checks of the arguments of layers and of their functions: numbers, float tensors and their dimensions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import index
from typing import Any, Literal, TypeAlias

import numpy as np

from burnpy.backend.dtypes import promote_types
from burnpy.backend.errors import ArgumentError, KindError, ShapeError, a
from burnpy.backend.primitives import Shape
from burnpy.tensor.operands import MOST_FLOAT, refuse_wider, together
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import TensorBase, class_name, describe

QuantizedDType: TypeAlias = Literal["int8", "int4"]
"""The size of the ints of quantized weights."""

_MOST = 1 << 62


def positive(layer: str, **sizes: int) -> None:
    """Check that all sizes are positive ints.

    Raises:
        ArgumentError: one of them is not.
    """
    for name, size in sizes.items():
        positive_int(layer, name, size)


def positive_int(operation: str, name: str, value: int) -> int:
    """Convert a positive integer value to int."""
    number = _int(value)
    if number is None or number < 1:
        raise ArgumentError(f"{operation}() got {name}={describe(value)}; expected a positive int")
    return number


def above_zero(operation: str, **numbers: float) -> None:
    """Check that all numbers are above 0."""
    for name, number in numbers.items():
        if not number > 0.0:
            raise ArgumentError(f"{operation}() got {name}={describe(number)}; expected a number above 0")
        if isinstance(number, int) and number > MOST_FLOAT:
            raise ArgumentError(f"{operation}() got {name}={describe(number)}, which is too large for a float")


def check_choice(operation: str, name: str, value: object, choices: Iterable[str]) -> None:
    """Check that a setting is one of a few words."""
    words = tuple(choices)
    if value not in words:
        *most, last = map(repr, words)
        raise ArgumentError(f"{operation}() got {name}={describe(value)}; expected {', '.join(most)} or {last}")


def grouped(layer: str, in_channels: int, out_channels: int, groups: int) -> None:
    """Check the channels of a convolution and its groups, which divide both."""
    positive(layer, in_channels=in_channels, out_channels=out_channels, groups=groups)
    if in_channels % groups or out_channels % groups:
        raise ArgumentError(
            f"{layer}() got groups={groups} for {in_channels} → {out_channels} channels; it must divide both"
        )


def last_dims(layer: str, normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    """Return the sizes of the last dimensions, over which a layer normalizes, as a tuple."""
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if not shape:
        raise ArgumentError(f"{layer}() got normalized_shape=(); expected at least one size")
    for size in shape:
        positive(layer, normalized_shape=size)
    return shape


def whole(operation: str, name: str, value: int) -> int:
    """Convert an integer value to int."""
    number = _int(value)
    if number is None:
        raise ArgumentError(f"{operation}() got {name}={describe(value)}; expected an int")
    return number


def _int(value: Any) -> int | None:
    try:
        number = index(value)
    except TypeError:
        return None
    return number if -_MOST < number < _MOST else None


def floats(operation: str, required: int, **tensors: Any) -> list[Any]:
    """Convert float tensors to a common device and their widest dtype.

    The first ``required`` of them must be given; the others may be None, and stay None. The weights (for attention, the
    queries) determine the dtype: ``x``, ``x1``, ``x2``, ``key`` and ``value`` may be narrower than those, not wider.

    Raises:
        KindError: an argument is not a float tensor.
        DeviceError: they are on different devices.
        DTypeError: ``x``, ``key`` or ``value`` is wider than the weights.
    """
    left, device, dtype = required, None, None
    for x in tensors.values():
        if x.__class__ is not Tensor:
            if x is not None or left > 0:
                return _floats_together(operation, required, tensors)
        elif device is None:
            device, dtype = x._device, x._primitive.dtype
        elif x._device is not device or x._primitive.dtype is not dtype:
            return _floats_together(operation, required, tensors)
        left -= 1
    return [*tensors.values()]


def _floats_together(operation: str, required: int, tensors: dict[str, Any]) -> list[Any]:
    """Convert tensors as `floats` does: the slow path, for other devices and dtypes, and for errors."""
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
    """Check that a tensor of this shape has at least ``least`` dimensions."""
    if len(shape) < least:
        raise ShapeError(f"{operation}() takes {name} of shape {form}, got shape {shape}")


def exact_dims(
    operation: str, name: str, shape: Shape, count: int, form: str, hint: str = "", last: int | None = None
) -> None:
    """Check that a tensor of this shape has exactly ``count`` dimensions, and the size ``last`` in the last one."""
    if len(shape) != count or (last is not None and shape[-1] != last):
        raise ShapeError(f"{operation}() takes {name} of shape {form}, got shape {shape}{hint}")


def probability(operation: str, p: float) -> float:
    """Return a probability as a float."""
    argument: Any = p
    if not isinstance(argument, (int, float, np.number)) or not 0.0 <= p <= 1.0:
        raise ArgumentError(f"{operation}() got p={describe(p)}; expected a probability, from 0 to 1")
    return float(p)
