"""Dimensions and shapes as users write them, made into what backends are given: non-negative, complete, checked."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from operator import index
from typing import Any, TypeAlias

import numpy as np

from burnpy.backend.errors import ArgumentError, DimError, KindError, ShapeError
from burnpy.backend.primitives import Dims, Shape
from burnpy.tensor.base import describe

DimsLike: TypeAlias = int | Sequence[int] | None
"""One dimension, several, or None for all."""

ALL: tuple[Dims, ...] = tuple(tuple(range(n)) for n in range(65))
"""All dimensions of a tensor, by their number. NumPy and CuPy have no more than 64."""

MOST = sys.maxsize // 8
"""How many elements a tensor can have: those of 8 bytes each that can be addressed."""


def dim_of(dim: int, ndim: int, operation: str) -> int:
    """``dim`` as a number from 0; negative ones count from the end.

    Raises:
        DimError: a tensor of ``ndim`` dimensions has no such dimension.

    >>> dim_of(-1, 3, "sum")
    2
    """
    if dim.__class__ is int and 0 <= dim < ndim:
        return dim
    number = integer(dim, "dim", operation)
    if -ndim <= number < ndim:
        return number % ndim
    raise DimError(f"{operation}() was asked for dim {number} of a tensor with {_dims(ndim)}")


def dims_of(dim: DimsLike, ndim: int, operation: str) -> Dims:
    """The dimensions meant by ``dim``, ascending; None means all of them, () none; of a 0-d tensor 0 and -1 mean none.

    Raises:
        DimError: there is no such dimension.
        ArgumentError: one is named twice.
    """
    if dim is None:
        return ALL[ndim]
    if not ndim:
        return _none_of(dim, operation)
    if isinstance(dim, int) or not isinstance(dim, Sequence):
        return (dim_of(dim, ndim, operation),)
    return tuple(sorted(distinct(dim, ndim, operation)))


def scalar_dim(dim: Any, operation: str) -> None:
    """Refuse any ``dim`` of a 0-d tensor but 0 and -1, by which it is taken for a vector of one element.

    Raises:
        DimError: it is another.
    """
    number = integer(dim, "dim", operation)
    if number not in (0, -1):
        raise DimError(f"{operation}() was asked for dim {number} of a 0-d tensor; it can be 0 or -1, as of a vector")


def _none_of(dim: Any, operation: str) -> Dims:
    """What `dims_of` gives for a 0-d tensor."""
    given = dim if isinstance(dim, Sequence) and not isinstance(dim, str) else (dim,)
    for d in given:
        scalar_dim(d, operation)
    if len(given) > 1:
        raise ArgumentError(f"{operation}() was asked for dims {tuple(given)} of a 0-d tensor; name one, 0 or -1")
    return ()


def distinct(dims: Sequence[int], ndim: int, operation: str) -> Dims:
    """Several dimensions in the order given, none of them twice."""
    found = tuple([dim_of(d, ndim, operation) for d in dims])
    if len(set(found)) != len(found):
        raise ArgumentError(f"{operation}() was asked for dims {tuple(dims)}, of which two are one; name each once")
    return found


def new_dim_of(dim: int, ndim: int, operation: str) -> int:
    """Where in a tensor of ``ndim`` dimensions a new one is to be, from 0 to ndim; -1 is after the last."""
    number = integer(dim, "dim", operation)
    if -ndim - 1 <= number <= ndim:
        return number % (ndim + 1)
    raise DimError(
        f"{operation}() was asked for a new dim {number} of a tensor with {ndim} dimensions; "
        f"it can be from {-ndim - 1} to {ndim}"
    )


def integers(numbers: tuple[Any, ...], name: str, operation: str) -> tuple[int, ...]:
    """What was given as ``f(2, 3)``, ``f((2, 3))`` or ``f([2, 3])``: a tuple of ints."""
    if len(numbers) == 1 and numbers[0].__class__ is not int:  # asking for an abstract class takes longer
        only = numbers[0]
        if only.__class__ is tuple or isinstance(only, Sequence):
            numbers = tuple(only)
    for number in numbers:
        if number.__class__ is not int:
            return tuple([integer(n, name, operation) for n in numbers])
    return numbers


def listed(numbers: tuple[Any, ...], keyword: Any, name: str, word: str, operation: str) -> tuple[int, ...]:
    """`integers` of what was given one by one or as a keyword, ``name``; not as both.

    Raises:
        ArgumentError: as both; or something is no int.
    """
    if keyword is None:
        return integers(numbers, word, operation)
    if numbers:
        raise ArgumentError(
            f"{operation}() was asked for {describe(numbers)} and {name}={describe(keyword)}; give one of them"
        )
    return integers((keyword,), word, operation)


def shape_of(shape: int | Sequence[int], operation: str) -> Shape:
    """A shape as a tuple of non-negative ints; an int is the shape of a vector.

    Raises:
        ArgumentError: it is no int or sequence of ints.
        ShapeError: a size is negative.
    """
    sizes = integers((shape,), "size", operation)
    if any(size < 0 for size in sizes):
        raise ShapeError(f"{operation}() was asked for shape {sizes}; sizes cannot be negative")
    return sizes


def need_bool(keepdim: object, operation: str) -> None:
    """Refuse a ``keepdim`` that is no truth value, such as the second of two dims.

    Raises:
        ArgumentError: it is none.
    """
    if keepdim is not False and keepdim is not True:
        raise ArgumentError(
            f"{operation}() was asked with keepdim={describe(keepdim)}, which is True or False; several dims are one "
            "argument, as in dim=(0, 1)"
        )


def addressable(shape: Shape, operation: str) -> Shape:
    """``shape``, if a tensor can have so many elements.

    Raises:
        ShapeError: it cannot; for libraries that is so even where one of the sizes is 0.
    """
    if math.prod([size or 1 for size in shape]) > MOST:
        raise ShapeError(f"{operation}() was asked for shape {shape}, which is more elements than can be addressed")
    return shape


def integer(number: object, name: str, operation: str) -> int:
    """An argument that must be an int.

    Raises:
        ArgumentError: it is none.
        KindError: it is a tensor or an array, though a dim is wanted.
    """
    if name == "dim" and hasattr(number, "shape") and not isinstance(number, np.generic):
        raise _no_dim(number, operation)
    found: Any = number
    try:
        if not isinstance(number, bool):
            return index(found)
    except TypeError:
        pass
    raise ArgumentError(f"{operation}() was asked for the {name} {describe(number)}, which is no int")


def _no_dim(found: Any, operation: str) -> KindError:
    """The error for a tensor or an array as a dim: even of a single int, it was meant for something else."""
    word = _EXTREMES.get(operation)
    hint = f"and the {word} of two tensors is x.{operation}imum(y)" if word else "such as 0 or (0, 1)"
    return KindError(f"{operation}() was asked for the dim {describe(found)}; dims are Python ints, {hint}")


_EXTREMES = {"max": "larger", "min": "smaller"}


def _dims(ndim: int) -> str:
    if ndim == 0:
        return "0 dimensions, which has none to name"
    return f"{ndim} dimension{'s' if ndim > 1 else ''}; it can be from {-ndim} to {ndim - 1}"
