"""Functions of several tensors: concatenation, selection, broadcasting, maximum and minimum."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from burnpy.backend.dtypes import DEFAULT, promote_types, result_type
from burnpy.backend.errors import ArgumentError, KindError, ShapeError
from burnpy.backend.primitives import Bool, KindName, Shape, Value
from burnpy.tensor.call_errors import explained
from burnpy.tensor.dim_checks import dim_of, new_dim_of
from burnpy.tensor.levels import raised
from burnpy.tensor.operand_checks import broadcast_shape, check_beside, is_number, number, operands, together
from burnpy.tensor.tensor_base import TensorBase, TensorMeta, describe, made_of, new_tensor
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import BoolTensor, ComplexTensor, IntTensor, Tensor
    from burnpy.tensor.tensor_types import Bools

_CLASS: Any = TensorMeta
"""The class of the classes of tensors; `isinstance` takes longer for a class that has another class than ``type``."""

__all__ = ["broadcast_tensors", "cat", "maximum", "minimum", "stack", "where"]


@overload
def cat(tensors: Sequence[Tensor[B]], dim: int = 0) -> Tensor[B]: ...
@overload
def cat(tensors: Sequence[ComplexTensor[B]], dim: int = 0) -> ComplexTensor[B]: ...
@overload
def cat(tensors: Sequence[IntTensor[B]], dim: int = 0) -> IntTensor[B]: ...
@overload
def cat(tensors: Sequence[BoolTensor[B]], dim: int = 0) -> BoolTensor[B]: ...
@explained
def cat(tensors: Sequence[Any], dim: int = 0) -> Any:
    """Return the tensors concatenated along an existing dimension.

    Args:
        tensors: at least one tensor, all of one kind and device; dtypes promote.
        dim: the dimension to concatenate along, in which the sizes may differ.

    Raises:
        ShapeError: the shapes differ in another dimension, or the tensors are 0-d.
        ArgumentError: the sequence is empty or contains something that is not a tensor.

    >>> x = Tensor[NumPy].from_data([[1.0, 2.0]])
    >>> cat([x, x]).tolist(), cat([x, x], dim=1).tolist()
    ([[1.0, 2.0], [1.0, 2.0]], [[1.0, 2.0, 1.0, 2.0]])
    """
    return joined("cat", tensors, dim)


@overload
def stack(tensors: Sequence[Tensor[B]], dim: int = 0) -> Tensor[B]: ...
@overload
def stack(tensors: Sequence[ComplexTensor[B]], dim: int = 0) -> ComplexTensor[B]: ...
@overload
def stack(tensors: Sequence[IntTensor[B]], dim: int = 0) -> IntTensor[B]: ...
@overload
def stack(tensors: Sequence[BoolTensor[B]], dim: int = 0) -> BoolTensor[B]: ...
@explained
def stack(tensors: Sequence[Any], dim: int = 0) -> Any:
    """Return the tensors concatenated along a new dimension.

    Args:
        tensors: at least one tensor, all of one kind, device and shape; dtypes promote.
        dim: the position of the new dimension; -1 means after the last.

    Raises:
        ShapeError: the shapes differ.
        ArgumentError: the sequence is empty or contains something that is not a tensor.

    >>> x, y = Tensor[NumPy].from_data([1.0, 2.0]), Tensor[NumPy].from_data([3.0, 4.0])
    >>> stack([x, y], dim=1).tolist()
    [[1.0, 3.0], [2.0, 4.0]]
    """
    return joined("stack", tensors, dim)


@overload
def where(condition: Bools[B], x: Tensor[B], y: Tensor[B] | float) -> Tensor[B]: ...
@overload
def where(condition: Bools[B], x: float, y: Tensor[B]) -> Tensor[B]: ...
@overload
def where(condition: Bools[B], x: ComplexTensor[B], y: ComplexTensor[B] | complex) -> ComplexTensor[B]: ...
@overload
def where(condition: Bools[B], x: complex, y: ComplexTensor[B]) -> ComplexTensor[B]: ...
@overload
def where(condition: Bools[B], x: IntTensor[B], y: IntTensor[B] | int) -> IntTensor[B]: ...
@overload
def where(condition: Bools[B], x: int, y: IntTensor[B]) -> IntTensor[B]: ...
@overload
def where(condition: Bools[B], x: BoolTensor[B], y: BoolTensor[B] | bool) -> BoolTensor[B]: ...
@overload
def where(condition: Bools[B], x: bool, y: BoolTensor[B]) -> BoolTensor[B]: ...
@overload
def where(  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]  # a bool is an int
    condition: Bools[B], x: bool, y: bool
) -> BoolTensor[B]: ...
@overload
def where(  # pyright: ignore[reportOverlappingOverload]  # and an int a float
    condition: Bools[B], x: int, y: int
) -> IntTensor[B]: ...
@overload
def where(  # pyright: ignore[reportOverlappingOverload]  # and a float complex
    condition: Bools[B], x: float, y: float
) -> Tensor[B]: ...
@overload
def where(condition: Bools[B], x: complex, y: complex) -> ComplexTensor[B]: ...
@explained
def where(condition: Any, x: Any, y: Any) -> Any:
    """Return the elements of x where ``condition`` is True, and of y elsewhere; all three broadcast.

    Args:
        condition: a `BoolTensor`.
        x: a tensor or a number.
        y: a tensor of x's kind, or a number; dtypes promote. Of two numbers the result is an int64, float32, bool or
            complex64 tensor on the device of the condition.

    The gradient of an element that was not selected is 0 times its local derivative, which is NaN if that is infinite:
    for ``sqrt`` of negative numbers use where twice, ``where(x > 0, where(x > 0, x, 1).sqrt(), 0)``.

    Raises:
        KindError: the condition is not a `BoolTensor`, or x and y are tensors of two kinds.
        ShapeError: the shapes do not broadcast.

    >>> x = Tensor[NumPy].from_data([-1.0, 2.0])
    >>> where(x < 0, 10, x).tolist()
    [10.0, 2.0]
    >>> where(x < 0, 0.1, -0.1).tolist()
    [0.10000000149011612, -0.10000000149011612]
    """
    return chosen(condition, x, y)


@overload
def maximum(x: Tensor[B], y: Tensor[B] | float) -> Tensor[B]: ...
@overload
def maximum(x: IntTensor[B], y: IntTensor[B] | int) -> IntTensor[B]: ...
@explained
def maximum(x: Any, y: Any) -> Any:
    """Return the elementwise maximum of x and y, as ``x.maximum(y)``.

    >>> maximum(Tensor[NumPy].from_data([-1.0, 0.0, 2.0]), 1.0).tolist()
    [1.0, 1.0, 2.0]
    """
    _need_tensor("maximum", x)
    return x.maximum(y)


@overload
def minimum(x: Tensor[B], y: Tensor[B] | float) -> Tensor[B]: ...
@overload
def minimum(x: IntTensor[B], y: IntTensor[B] | int) -> IntTensor[B]: ...
@explained
def minimum(x: Any, y: Any) -> Any:
    """Return the elementwise minimum of x and y, as ``x.minimum(y)``.

    >>> minimum(Tensor[NumPy].from_data([-1.0, 0.0, 2.0]), 1.0).tolist()
    [-1.0, 0.0, 1.0]
    """
    _need_tensor("minimum", x)
    return x.minimum(y)


@overload
def broadcast_tensors(*tensors: Tensor[B]) -> list[Tensor[B]]: ...
@overload
def broadcast_tensors(*tensors: ComplexTensor[B]) -> list[ComplexTensor[B]]: ...
@overload
def broadcast_tensors(*tensors: IntTensor[B]) -> list[IntTensor[B]]: ...
@overload
def broadcast_tensors(*tensors: BoolTensor[B]) -> list[BoolTensor[B]]: ...
@explained
def broadcast_tensors(*tensors: Any) -> list[Any]:
    """Return the tensors broadcast to their common shape.

    Raises:
        ShapeError: the shapes do not broadcast.

    >>> [each.shape for each in broadcast_tensors(Tensor[NumPy].ones((2, 1)), Tensor[NumPy].ones((3,)))]
    [(2, 3), (2, 3)]
    """
    for x in tensors:
        _need_tensor("broadcast_tensors", x)
    shape = broadcast_shape(*[x.shape for x in tensors]) if tensors else ()
    if shape is None:
        raise ShapeError(f"broadcast_tensors() got {', '.join(str(x.shape) for x in tensors)}, which do not broadcast")
    return [x._like(x._backend.expand(x._primitive, shape)) for x in tensors]


def _need_tensor(operation: str, x: object) -> None:
    if not isinstance(x, TensorBase):
        raise KindError(f"{operation}() takes tensors, got {describe(x)}; make a tensor of it first")


def chosen(condition: Any, x: Any, y: Any) -> Any:
    """Return the result of `where`."""
    quick = _quick_operands(condition, x, y)
    if quick is not None:
        return new_tensor(x.__class__, x._device, x._backend.where(*quick))
    if all(is_number(each) or not isinstance(each, TensorBase) for each in (x, y)):
        x, y = _tensors_beside(condition, x, y)
    if isinstance(x, TensorBase) and isinstance(y, TensorBase):
        x, y = together("where", x, y)
    tensor = x if isinstance(x, TensorBase) else y
    mask = condition_of(tensor, condition, "where")
    backend: Any = tensor._backend
    if tensor is x:
        first, second = x._primitive, operands(x, y, "where")[1]
        if isinstance(y, TensorBase):
            first, second = _promoted(backend, first, second)
    else:
        first, second = y._primitive, number(y, x, "where")
        mask = condition._backend.bitwise_not(mask)
    shapes = (
        [mask.shape, first.shape]
        if isinstance(second, (int, float, complex))
        else [mask.shape, first.shape, second.shape]
    )
    if broadcast_shape(*shapes) is None:
        raise ShapeError(f"where() got shapes {', '.join(map(str, shapes))}, which do not broadcast")
    return tensor._like(backend.where(mask, first, second))


def _quick_operands(condition: Any, x: Any, y: Any) -> tuple[Bool, Value, Value | float] | None:
    """Return the operands of `where` if they need no further check: of one kind, device, dtype and shape, or a float. A
    closed level refuses the operation itself."""
    kind: Any = x.__class__
    if kind.__class__ is not _CLASS or condition.__class__ is not TensorBase.kinds["bool"]:
        return None
    device, mask, first = x._device, condition._primitive, x._primitive
    if condition._device is not device or mask.shape != first.shape:
        return None
    if y.__class__ is float and kind.kind == "float":
        return mask, first, y
    if y.__class__ is not kind or y._device is not device:
        return None
    second = y._primitive
    return (mask, first, second) if second.dtype is first.dtype and second.shape == mask.shape else None


_KINDS: dict[type, KindName] = {bool: "bool", int: "int", float: "float", complex: "complex"}
"""From the narrowest."""


def _tensors_beside(condition: Any, *numbers: Any) -> tuple[TensorBase[Any], ...]:
    """Return numbers as 0-d tensors, of the kind that holds all of them and its default dtype, as PyTorch."""
    plain = [each.item() if isinstance(each, np.generic) else each for each in numbers]
    kinds: list[KindName] = [
        k for each in plain if (k := _KINDS.get(float if is_number(each) else type(each))) is not None
    ]
    if len(kinds) < len(plain):
        raise KindError(
            f"where() cannot choose between {' and '.join(map(describe, numbers))}; give tensors or numbers"
        )
    if not isinstance(condition, TensorBase) or condition.kind != "bool":
        raise _no_condition("where", condition)
    kind = max(kinds, key=[*_KINDS.values()].index)
    owner: Any = TensorBase.kinds[kind]
    made: list[Any] = [x if is_number(x) else owner.full((), x, device=condition._device) for x in plain]
    made = [x.complex() if kind == "complex" else x for x in made]
    return tuple([raised(x.to_dtype(DEFAULT[kind]), condition._device) for x in made])


def condition_of(x: TensorBase[Any], condition: Any, operation: str) -> Bool:
    """Return the primitive of a mask for ``x``."""
    if not isinstance(condition, TensorBase) or condition.kind != "bool":
        raise _no_condition(operation, condition)
    check_beside(operation, x, condition)
    return condition._primitive


def _no_condition(operation: str, condition: object) -> KindError:
    way = "; write x != 0" if isinstance(condition, TensorBase) else made_of(condition, "BoolTensor")
    return KindError(f"{operation}() takes its condition as a BoolTensor, got {describe(condition)}{way}")


def _promoted(backend: Any, x: Value, y: Value) -> tuple[Value, Value]:
    if x.dtype is y.dtype:
        return x, y
    dtype = result_type(x, y)
    return (x if x.dtype == dtype else backend.cast(x, dtype)), (y if y.dtype == dtype else backend.cast(y, dtype))


def joined(operation: str, tensors: Sequence[Any], dim: int) -> Any:
    """Return the tensors concatenated by the operation "stack", or for another function along an existing dimension."""
    stacks = operation == "stack"
    values = _alike(tensors)
    at = -1
    if values is not None and dim.__class__ is int:
        at = dim if dim >= 0 else dim + len(values[0].shape) + stacks
    if at >= 0:
        first = tensors[0]
        b = first._backend
        try:
            return new_tensor(first.__class__, first._device, (b.stack if stacks else b.cat)(values, at))
        except Exception:  # of the array library, of any class; it is explained or raised again
            _checked_dim(operation, with_common_dtype(operation, tensors)[1], dim)
            raise
    first, values = with_common_dtype(operation, tensors)
    dim = _checked_dim(operation, values, dim)
    return first._like((first._backend.stack if stacks else first._backend.cat)(values, dim))


def _checked_dim(operation: str, values: Sequence[Value], dim: int) -> int:
    """Return the dimension to join along, as a non-negative int."""
    shape: Shape = values[0].shape
    stacks = operation == "stack"
    if not shape and not stacks:
        raise ShapeError(f"{operation}() cannot join 0-d tensors, which have no dimension to join along; use stack()")
    resolved = (new_dim_of if stacks else dim_of)(dim, len(shape), operation)
    end = resolved if stacks else resolved + 1
    rest = (*shape[:resolved], *shape[end:])
    for k, value in enumerate(values):
        other = value.shape
        if (*other[:resolved], *other[end:]) != rest or len(other) != len(shape):
            must = "they must be equal" if stacks else "all other sizes must be equal"
            along = "" if stacks else f" along dim {resolved}"
            raise ShapeError(
                f"{operation}() cannot join shapes {shape} and {other} (the first and number {k + 1}){along}; {must}"
            )
    return resolved


def with_common_dtype(operation: str, tensors: Sequence[Any]) -> tuple[Any, list[Value]]:
    """Return the first tensor and the primitives of all, cast to their common dtype."""
    sequence = tensors if isinstance(tensors, (list, tuple)) else ()
    if not sequence:
        single = f"a single {type(tensors).__name__}" if isinstance(tensors, TensorBase) else describe(tensors)
        raise ArgumentError(f"{operation}() takes a list or tuple of tensors, at least one, got {single}")
    for k, x in enumerate(sequence):
        if not isinstance(x, TensorBase):
            raise ArgumentError(
                f"{operation}() takes a list or tuple of tensors, at least one, got {describe(x)} as number {k + 1}"
            )
    tensors = together(operation, *sequence)
    first = tensors[0]
    kind, dtype = first.__class__, first._primitive.dtype
    values = [x._primitive if x.__class__ is kind else operands(first, x, operation)[1] for x in tensors]
    for value in values:
        if value.dtype is not dtype:
            dtype = reduce(promote_types, [v.dtype for v in values])
            return first, [v if v.dtype == dtype else first._backend.cast(v, dtype) for v in values]
    return first, values


def _alike(tensors: Any) -> list[Value] | None:
    """Return the primitives of tensors of one kind, device and dtype; None for anything else."""
    if not ((tensors.__class__ is list or tensors.__class__ is tuple) and tensors):
        return None
    first = tensors[0]
    kind: Any = first.__class__
    if kind.__class__ is not _CLASS:
        return None
    device, dtype = first._device, first._primitive.dtype
    values: list[Value] = []
    for x in tensors:
        if x.__class__ is not kind or x._device is not device:
            return None
        value = x._primitive
        if value.dtype is not dtype:
            return None
        values.append(value)
    return values
