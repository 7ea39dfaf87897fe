"""Checks of operands: second operands of binary operations, index tensors, and float tensors of too wide a dtype."""

from __future__ import annotations

import math
from itertools import zip_longest
from typing import Any, NoReturn

import numpy as np

from burnpy.backend.dtypes import int64, int_limits, promote_types, result_type, uint64
from burnpy.backend.errors import (
    BACKENDS,
    OWN_PACKAGES,
    BurnpyError,
    DTypeError,
    IndexRangeError,
    KindError,
    OutOfMemoryError,
    ShapeError,
    a,
    class_name,
    raised_by_other_code,
)
from burnpy.backend.primitives import INEXACT, Bool, DType, Int, KindName, Scalar, Shape, below, value_range
from burnpy.tensor.dim_checks import MOST
from burnpy.tensor.levels import OutsideError, common_device, raised, refuse_mixed
from burnpy.tensor.tensor_base import TensorBase, X, describe, made_of

_MOST_INT = (1 << 63) - 1
"""The largest int64."""
MOST_FLOAT = int(np.finfo(np.float64).max)
"""The largest int that is a Python float; a larger one raises an `OverflowError` wherever it is converted."""
_FITTING: dict[KindName, Any] = {
    "float": (float, int),
    "int": (int,),
    "bool": (bool,),
    "complex": (float, int, complex),
}
"""The types of Python numbers that can be combined with tensors of a kind."""
_FROM_NARROW = ("bool", "int", "float", "complex")


def operands(tensor: X, other: Any, operation: str) -> tuple[X, Any]:
    """Return the tensor, and the second operand of a binary operation as a primitive or a Python number.

    Both are lifted to one device if the device of one is a level above the other's (`burnpy.tensor.levels`).
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
    if isinstance(other, _FITTING[tensor.kind]):
        if tensor.kind == "int" and not 0 <= other <= 127:
            low, high = int_limits(tensor.dtype)
            if not low <= other <= high:
                raise too_large(operation, tensor, other)
        elif isinstance(other, int) and abs(other) > MOST_FLOAT:
            raise too_large(operation, tensor, other)
        return other  # type: ignore[no-any-return]  # a number
    if isinstance(other, (bool, int, float, complex)):
        way = "complex" if isinstance(other, complex) else "float" if isinstance(other, float) else "int"
        raise KindError(
            f"{operation}() got {describe(tensor)} and the {type(other).__name__} {describe(other)}; "
            f"convert the tensor first, as in x.{way}()"
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
    if other is None and operation in ("eq", "ne"):
        hint = "write x is None, or x is not None"
    raise KindError(f"{operation}() got {a(name)} and {describe(other)}; {hint}")


def mixed_kinds(operation: str, x: TensorBase[Any], y: TensorBase[Any]) -> KindError:
    """Return the error for tensors of two kinds: the narrower one is to be converted, which loses no value."""
    narrow, wide = sorted((x, y), key=lambda tensor: _FROM_NARROW.index(tensor.kind))
    only_narrow = hasattr(type(narrow), operation) and not hasattr(type(wide), operation)
    if wide.kind == "complex" and only_narrow:  # such as maximum
        hint = f"complex numbers have no {operation}(): take z.real, z.imag, z.abs() or z.angle() of the ComplexTensor"
    elif only_narrow:  # such as bitwise_and
        hint = f"{operation}() takes no floats: make a mask of the {type(wide).__name__}, as in x != 0"
    else:
        hint = f"convert the {type(narrow).__name__} with .{wide.kind}()"
    return KindError(f"{operation}(): kinds do not mix, got {describe(x)} and {describe(y)}; {hint}")


def to_float(x: TensorBase[Any]) -> str:
    """Return what makes floats of a tensor of another kind, for error messages."""
    return "take z.real, z.imag or z.abs()" if x.kind == "complex" else "convert it with x.float()"


def refuse_bits(x: TensorBase[Any], other: object = None) -> NoReturn:
    """Raise the error for a bitwise operator of floats."""
    raise KindError(
        f"&, |, ^, ~, << and >> take ints or masks, got {describe(x)}; make a mask of it, as in (x > 0) & mask, or "
        "ints with x.int()"
    )


def refuse_arithmetic(x: TensorBase[Any], other: object = None) -> Any:
    """Raise the error for arithmetic with a mask; leave it to the other operand if that is a tensor of another kind."""
    if isinstance(other, TensorBase) and other.kind != x.kind:
        return NotImplemented
    raise KindError(
        f"+, -, *, /, < and > take numbers, got {describe(x)}; convert it with .int() or .float(), or combine masks by "
        "&, |, ^ and ~"
    )


def refuse_index(x: TensorBase[Any]) -> NoReturn:
    """Raise the error for a float tensor in place of an int."""
    raise KindError(f"an index or a count is an int, got {describe(x)}; write int(x)")


def need_floats(operation: str, x: object, *, also_complex: bool = False) -> None:
    """Check that an argument is a tensor of floats, or perhaps of complex numbers."""
    if not isinstance(x, TensorBase) or (x.kind != "float" and not (also_complex and x.kind == "complex")):
        raise KindError(f"{operation}() takes a Tensor, got {describe(x)}; make one of it first")


def times(alpha: Any, tensor: TensorBase[Any], other: Any, operation: str) -> Any:
    """Return ``alpha * other``, computed in the dtype that an operation of ``tensor`` and ``other`` promotes to."""
    factor = alpha if is_number(alpha) else number(tensor, alpha, operation)
    if not isinstance(other, TensorBase):
        return factor * number(tensor, other, operation)
    operands(tensor, other, operation)  # raises an error if they cannot be combined
    scaled: Any = other
    dtype = result_type(tensor._primitive, other._primitive)
    if other.ndim and dtype != other.dtype:
        scaled = scaled.to_dtype(dtype)
    return scaled.mul(factor)


def together(operation: str, *tensors: Any) -> tuple[Any, ...]:
    """Return the tensors on one device, lifted if one of them is on a level above the others. Ints and bools may be on
    any device beneath the others."""
    device = tensors[0]._device
    for x in tensors:
        if x._device is not device:
            floats = [x._device for x in tensors if x.kind in INEXACT]
            device = common_device(operation, floats, [x._device for x in tensors if x.kind not in INEXACT])
            return tuple([raised(x, device) for x in _with_fitting_numbers(operation, tensors)])
    if hasattr(device, "refuse"):
        device.refuse(operation)
    return tensors


def _with_fitting_numbers(operation: str, tensors: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the tensors, with those that stand for Python numbers in a dtype that does not promote the others. As
    numbers are, they become complex beside complex numbers, and ints are divided by them as floats."""
    numbers = [is_number(x) for x in tensors]
    if not any(numbers):
        return tensors
    if operation == "div":
        tensors = tuple([x.float() if x.kind == "int" else x for x in tensors])
    if any(x.kind == "complex" for x in tensors):
        tensors = tuple([x.complex() if found else x for x, found in zip(tensors, numbers, strict=True)])
    values = [x._primitive for x, found in zip(tensors, numbers, strict=True) if x.kind in INEXACT and not found]
    if not values or any(value.shape != () for value in values):
        return tensors
    dtype = result_type(*values)
    return tuple([x.to_dtype(dtype) if found else x for x, found in zip(tensors, numbers, strict=True)])


def is_number(x: object) -> bool:
    """Return whether ``x`` is a tensor that stands for a Python float in a compiled function."""
    return isinstance(x, TensorBase) and x._device.holds_numbers and x.kind == "float"


def same_device(operation: str, *tensors: TensorBase[Any]) -> None:
    """Check that all tensors are on the same device; a level and the device beneath it are two."""
    for other in tensors[1:]:
        if other._device is not tensors[0]._device:
            refuse_mixed(operation, tensors[0]._device, other._device)


def explain(error: Exception, operation: str, x: TensorBase[Any], y: Any) -> None:
    """Raise a clear error for an exception of a backend's binary operation, if the operands caused it.

    Return for any other exception, such as a bug in a backend or one that a signal handler raised; the caller raises it
    again.

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
    """Raise a clear error if an operation of one tensor ran out of memory; return if a signal handler raised it."""
    if not from_other_code(error, x._device):
        from burnpy.backend.device_memory import not_allocated

        raise not_allocated(operation if operation.endswith("]") else f"{operation}()", (x,), error) from error


def from_other_code(error: BaseException, device: Any) -> bool:
    """Return whether the error that the calling frame's caller caught came from foreign code. Foreign code belongs
    neither to burnpy, to NumPy nor to the device's backend. Most likely it is a signal handler, whose error says
    nothing about the arguments."""
    own = {*OWN_PACKAGES, *BACKENDS}
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


def check_beside(operation: str, x: TensorBase[Any], index: TensorBase[Any]) -> None:
    """Check that an index or mask may be used with a tensor; ints and bools are the same on every level."""
    device: Any = x._device
    if index._device is device:  # as `together` does, in a call less
        if hasattr(device, "refuse"):
            device.refuse(operation)
        return
    placed = together(operation, x, index)[0]
    if placed._device.discrete is not x._device.discrete:
        raise OutsideError(
            f"{operation}() got an index that is recorded and a tensor of shape {x.shape} from outside; pass the "
            "tensor as an argument of the function",
            placed._device,
        )


def index_of(x: TensorBase[Any], index: Any, operation: str) -> Int:
    """Return the primitive of a tensor of indices into ``x``."""
    if not isinstance(index, TensorBase) or index.kind != "int":
        what = describe(index)
        raise KindError(f"{operation}() takes its indices as an IntTensor, got {what}{made_of(index)}")
    check_beside(operation, x, index)
    return index._primitive


def in_range(device: Any, index: Int, size: int, negative: bool, operation: str, dim: int, shape: Shape) -> Int:
    """Return an index into ``dim`` of ``shape`` as non-negative int64, after checking its range.

    If ``negative`` is True, negative indices count from the end. The values are checked at once on devices that can do
    so without synchronization (`Backend.eager_checks`). On others, an index out of range is reported at the next
    synchronization, and until then replaced by one that is in range.
    """
    d = device.discrete
    low, high = (-size if negative else 0), size - 1
    if d.eager_checks or (not size and 0 not in index.shape):
        values = d.to_numpy(index)
        if values.dtype is int64 and below(values, size):
            return index
        least, most = value_range(values) if values.size else (0, -1)
        if most > high or least < low:
            raise out_of_range(most if most > high else least, size, negative, operation, dim, shape)
        negative = least < 0
    elif 0 not in index.shape:
        refused = lambda value: out_of_range(value, size, negative, operation, dim, shape)  # noqa: E731
        whole = _as_int64(d, index)
        return d.bounded_from_end(whole, size, refused) if negative else d.bounded(whole, low, high, refused, None)
    if index.dtype != int64:
        index = d.cast(index, int64)
    return d.where(d.lt(index, 0), d.add(index, size), index) if negative else index


def in_range_unless(
    device: Any, index: Int, ignored: int, size: int, operation: str, dim: int, shape: Shape
) -> tuple[Int, Bool]:
    """Check non-negative indices as `in_range` does, except those that are ``ignored``, which become 0. The second
    result is a mask of those that are not ignored."""
    d = device.discrete
    if d.eager_checks or 0 in index.shape:
        counted = d.ne(index, ignored)
        return in_range(device, d.where(counted, index, 0), size, False, operation, dim, shape), counted
    refused = lambda value: out_of_range(value, size, False, operation, dim, shape)  # noqa: E731
    return d.bounded_and_counted(_as_int64(d, index), 0, size - 1, refused, ignored)  # type: ignore[no-any-return]  # as declared


def _as_int64(d: Any, index: Int) -> Int:
    """Return an index as int64; larger values become the largest one, which no range has."""
    if index.dtype == uint64:
        index = d.minimum(index, _MOST_INT)  # larger values would become negative
    return index if index.dtype == int64 else d.cast(index, int64)


def refuse_unless(device: Any, truth: Bool, error: Exception) -> None:
    """Raise ``error`` if an element of ``truth`` is False: at once, or at the next synchronization as in `in_range`."""
    d = device.discrete
    if not d.eager_checks:
        d.defer_check((d.all(truth, tuple(range(len(truth.shape))), False),), lambda fine: None if fine else error)
    elif not d.to_numpy(truth).all():
        raise error


def out_of_range(index: int, size: int, negative: bool, operation: str, dim: int, shape: Shape) -> IndexRangeError:
    """Return the error for an index out of range."""
    valid = f"expected an index from {-size if negative else 0} to {size - 1}" if size else "it has no elements"
    return IndexRangeError(
        f"{operation} got index {describe(index)} along dim {dim}, of size {size}, of shape {shape}; {valid}"
    )


def refuse_wider(operation: str, basis: str, dtype: DType, **tensors: Any) -> None:
    """Check that no float tensor makes an operation compute in a wider dtype than ``dtype``.

    Narrower tensors are promoted; a 0-d tensor does not promote others, and may have any dtype.

    Args:
        operation: the name of the operation.
        basis: the description of the tensors that decide the dtype: "weights", "a prediction".
        dtype: the dtype of these tensors.
        tensors: the tensors to check, by name; values that are not float tensors are skipped.
    """
    for name, x in tensors.items():
        if getattr(x, "kind", "") != "float" or x.dtype == dtype or not x.ndim:
            continue
        promoted = promote_types(x.dtype, dtype)
        if promoted != dtype:
            raise DTypeError(
                f"{operation}() got {name} of dtype {x.dtype} for {basis} of dtype {dtype}, and would compute in "
                f'{promoted} from there on; write {name}.to_dtype("{dtype}"), or make it so: '
                f'Tensor.from_data(values, dtype="{dtype}")'
            )


def combined(operation: str, x: Any, *others: Any) -> tuple[Any, ...]:
    """Return tensors of one kind on one device; numbers among the operands stay numbers."""
    kind, shape, device = x.__class__, x._primitive.shape, x._device
    for other in others:
        if other.__class__ is float and x.kind == "float":
            continue
        if other.__class__ is not kind or other._device is not device or other._primitive.shape != shape:
            break
    else:  # as they usually are
        return x, *others
    given = [x, *(other if isinstance(other, TensorBase) else operands(x, other, operation)[1] for other in others)]
    tensors = [operand for operand in given if isinstance(operand, TensorBase)]
    for other in tensors[1:]:
        operands(x, other, operation)  # raises an error if they cannot be combined
    check_broadcast(operation, *tensors)
    placed = iter(together(operation, *tensors))
    return tuple([next(placed) if isinstance(operand, TensorBase) else operand for operand in given])


def check_broadcast(operation: str, *tensors: TensorBase[Any]) -> None:
    """Check that the shapes of tensors broadcast."""
    if broadcast_shape(*[tensor.shape for tensor in tensors]) is None:
        raise ShapeError(
            f"{operation}() got shapes {', '.join(str(tensor.shape) for tensor in tensors)}, which do not "
            "broadcast: aligned at the right, sizes must be equal or 1"
        )
