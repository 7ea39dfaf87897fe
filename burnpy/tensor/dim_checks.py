"""Checks of the numbers, dims and shapes that users pass, and the conversion of dims to complete, non-negative ones.

Operations along one dimension treat a 0-d tensor as a vector of one element: see `along`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from operator import index
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from burnpy.backend.errors import ArgumentError, DimError, KindError, ShapeError
from burnpy.backend.primitives import Dims, Shape, Value
from burnpy.tensor.tensor_base import TensorBase, describe

DimsLike: TypeAlias = int | Sequence[int] | None
"""One dimension, several, or None for all."""

MOST_DIMS = 64
"""The dimensions that a tensor can have. NumPy and CuPy support no more."""

ABOVE_0 = math.ulp(0.0)
"""The least number above 0."""

ALL: tuple[Dims, ...] = tuple(tuple(range(n)) for n in range(MOST_DIMS + 1))
"""``ALL[ndim]`` is the tuple of all dimensions."""

WHOLE = slice(None, None, 1)
"""The key of a dimension that stays whole."""

MOST = sys.maxsize // 8
"""The largest number of elements that a tensor can have: 8-byte elements in the address space."""


def dim_of(dim: int, ndim: int, operation: str) -> int:
    """Return ``dim`` as a non-negative int; negative dims count from the end.

    >>> dim_of(-1, 3, "sum")
    2
    """
    if dim.__class__ is int and -ndim <= dim < ndim:
        return dim % ndim
    number = integer(dim, "dim", operation)
    if -ndim <= number < ndim:
        return number % ndim
    raise DimError(f"{operation}() got dim {number} for a tensor with {_dims(ndim)}")


def dims_of(dim: DimsLike, ndim: int, operation: str) -> Dims:
    """Return ``dim`` as an ascending tuple of non-negative ints; None means all dimensions, () none. For a 0-d tensor
    the result is (), and ``dim`` may be 0 or -1."""
    if dim is None:
        return ALL[ndim]
    _refuse_text(dim, operation)
    if not ndim:
        return _none_of(dim, operation)
    if isinstance(dim, int) or not isinstance(dim, Sequence):
        return (dim_of(dim, ndim, operation),)
    return tuple(sorted(distinct(dim, ndim, operation)))


def _refuse_text(dim: object, operation: str) -> None:
    """Refuse a string, which is a sequence to Python."""
    if isinstance(dim, str):
        raise ArgumentError(f"{operation}(): dim must be an int or a tuple of ints, got {describe(dim)}")


def scalar_dim(dim: Any, operation: str) -> None:
    """Check a ``dim`` of a 0-d tensor: 0 and -1 are accepted, and treat it as a vector of one element."""
    number = integer(dim, "dim", operation)
    if number not in (0, -1):
        raise DimError(f"{operation}() got dim {number} of a 0-d tensor; it can be 0 or -1, as for a vector")


def _none_of(dim: Any, operation: str) -> Dims:
    """Return (), the result of `dims_of` for a 0-d tensor, after checking ``dim``."""
    dims = dim if isinstance(dim, Sequence) else (dim,)
    for d in dims:
        scalar_dim(d, operation)
    if len(dims) > 1:
        raise ArgumentError(f"{operation}() got dims {tuple(dims)} of a 0-d tensor; name one, 0 or -1")
    return ()


def distinct(dims: Sequence[int], ndim: int, operation: str) -> Dims:
    """Return several dims as non-negative ints, in the same order."""
    _refuse_text(dims, operation)
    resolved = tuple([dim_of(d, ndim, operation) for d in dims])
    if len(set(resolved)) != len(resolved):
        raise ArgumentError(f"{operation}() got dims {tuple(dims)}, which repeat a dimension; name each once")
    return resolved


def new_dim_of(dim: int, ndim: int, operation: str) -> int:
    """Return the position of a new dimension in a tensor of ``ndim``, from 0 to ``ndim``; -1 means after the last."""
    if dim.__class__ is int and 0 <= dim <= ndim < MOST_DIMS:
        return dim
    addressable((1,) * (ndim + 1), operation)
    number = integer(dim, "dim", operation)
    if -ndim - 1 <= number <= ndim:
        return number % (ndim + 1)
    raise DimError(
        f"{operation}() got a new dim {number} of a tensor with {ndim} dimensions; it can be from {-ndim - 1} to {ndim}"
    )


def integers(numbers: tuple[Any, ...], name: str, operation: str) -> tuple[int, ...]:
    """Return variadic arguments, passed as ``f(2, 3)``, ``f((2, 3))`` or ``f([2, 3])``, as a tuple of ints."""
    if len(numbers) == 1 and numbers[0].__class__ is not int:  # isinstance with an abstract class is slower
        only = numbers[0]
        if only.__class__ is tuple or (isinstance(only, Sequence) and not isinstance(only, str)):
            numbers = tuple(only)
    for number in numbers:
        if number.__class__ is not int:
            return tuple([integer(n, name, operation) for n in numbers])
    return numbers


def listed(numbers: tuple[Any, ...], keyword: Any, name: str, word: str, operation: str) -> tuple[int, ...]:
    """Return `integers` of arguments that may be passed by position or as the keyword ``name``, but not both."""
    if keyword is None:
        return integers(numbers, word, operation)
    if numbers:
        raise ArgumentError(f"{operation}() got {describe(numbers)} and {name}={describe(keyword)}; give one of them")
    return integers((keyword,), word, operation)


def shape_of(shape: int | Sequence[int], operation: str) -> Shape:
    """Return a shape as a tuple of non-negative ints; an int is the shape of a vector."""
    sizes = integers((shape,), "size", operation)
    if sizes and min(sizes) < 0:
        raise ShapeError(f"{operation}() got shape {sizes}; sizes cannot be negative")
    return sizes


def addressable(shape: Shape, operation: str) -> Shape:
    """Return ``shape`` after checking that a tensor can have this many elements."""
    if len(shape) > MOST_DIMS:
        raise ShapeError(f"{operation}() got {len(shape)} dimensions; a tensor has {MOST_DIMS} at most")
    if math.prod([size or 1 for size in shape]) > MOST:
        raise ShapeError(f"{operation}() got shape {describe(shape)}, which is more elements than can be addressed")
    return shape


def integer(number: object, name: str, operation: str) -> int:
    """Return an argument that must be an int."""
    if name == "dim" and hasattr(number, "shape") and not isinstance(number, np.generic):
        raise _no_dim(number, operation)
    value: Any = number
    try:
        if not isinstance(number, bool):
            found = index(value)
            if found.bit_length() > 64:
                raise ArgumentError(f"{operation}() got the {name} {describe(found)}, expected an int of 64 bits")
            return found
    except TypeError:
        pass
    if name == "dim":
        raise ArgumentError(f"{operation}(): dim must be an int, got {describe(number)}")
    hint = "; the shape comes first" if name == "size" and operation.partition(".")[2] in ("normal", "uniform") else ""
    raise ArgumentError(f"{operation}() got the {name} {describe(number)}, which is not an int{hint}")


def checked_count(number: Any, name: str, least: int, owner: str) -> int:
    """Return an int of 64 bits that is at least ``least``."""
    if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or number < least:
        raise ArgumentError(f"{owner} got {name}={describe(number)}; expected an int of at least {least}")
    if number >= 2**63:
        raise ArgumentError(f"{owner} got {name}={describe(number)}; expected an int of 64 bits")
    return int(number)


def checked_number(
    number: Any, name: str, owner: str, least: float = -sys.float_info.max, most: float = sys.float_info.max
) -> float:
    """Return a finite number from ``least`` to ``most`` as a float."""
    value = number.item() if isinstance(number, np.generic) else number
    if isinstance(value, (int, float)) and not isinstance(value, bool) and least <= value <= most:
        return float(value)
    words = f"a number from {least} to {most}"
    if most == sys.float_info.max:
        bound = " above 0" if least == ABOVE_0 else f" of at least {least}"
        words = f"a finite number{bound if least > -most else ''}"
    raise ArgumentError(f"{owner} got {name}={describe(number)}; expected {words}")


def _no_dim(value: Any, operation: str) -> KindError:
    """Return the error for a tensor or an array passed as a dim: even with a single int, it was meant otherwise."""
    word = _EXTREMES.get(operation)
    hint = f"and the {word} of two tensors is x.{operation}imum(y)" if word else "such as 0 or (0, 1)"
    return KindError(f"{operation}() got the dim {describe(value)}; dims are Python ints, {hint}")


_EXTREMES = {"max": "larger", "min": "smaller"}


def _dims(ndim: int) -> str:
    if ndim == 0:
        return "0 dimensions, which has none to name"
    return f"{ndim} dimension{'s' if ndim > 1 else ''}; it can be from {-ndim} to {ndim - 1}"


class Along(NamedTuple):
    """A tensor's primitive and the validated dimension that a method works along."""

    primitive: Value
    """The primitive, with at least one dimension."""
    dim: int
    scalar: bool
    """True if the tensor is 0-d."""

    @property
    def size(self) -> int:
        """The size along the dimension."""
        size: int = self.primitive.shape[self.dim]
        return size

    def shape(self, size: int) -> Shape:
        """Return the shape of a result with ``size`` elements along the dimension."""
        shape: Shape = self.primitive.shape
        return () if self.scalar and size == 1 else (*shape[: self.dim], size, *shape[self.dim + 1 :])


def along(x: TensorBase[Any], dim: int, operation: str) -> Along:
    """Return the primitive of x with its checked dim."""
    if x.ndim:
        return Along(x._primitive, dim_of(dim, x.ndim, operation), False)
    scalar_dim(dim, operation)
    return Along(x._backend.reshape(x._primitive, (1,)), 0, True)


def shaped(backend: Any, primitive: Value, shape: Shape) -> Value:
    """Return a primitive in a shape: itself, if it has it."""
    return primitive if primitive.shape == shape else backend.reshape(primitive, shape)
