"""Stacking and block diagonals, loaded at first use; `burnpy.tensor.joining` has ``cat`` and ``stack``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, overload

from burnpy.backend.errors import ArgumentError, KindError, ShapeError
from burnpy.backend.primitives import Shape
from burnpy.tensor.call_errors import explained
from burnpy.tensor.joining import joined, with_common_dtype
from burnpy.tensor.tensor_base import TensorBase, X, describe
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.tensor import BoolTensor, ComplexTensor, IntTensor, Tensor


@overload
def atleast_1d(tensors: X, /) -> X: ...
@overload
def atleast_1d(first: X, second: X, /, *more: X) -> tuple[X, ...]: ...
@explained
def atleast_1d(*tensors: Any) -> Any:
    """Return the tensor, or a tuple of the tensors, with 0-d ones as vectors of one element.

    >>> atleast_1d(Tensor[NumPy].from_data(5.0)).shape
    (1,)
    """
    return _each("atleast_1d", tensors, _one)


@overload
def atleast_2d(tensors: X, /) -> X: ...
@overload
def atleast_2d(first: X, second: X, /, *more: X) -> tuple[X, ...]: ...
@explained
def atleast_2d(*tensors: Any) -> Any:
    """Return the tensor, or a tuple of the tensors, with vectors and 0-d tensors as matrices of one row.

    >>> atleast_2d(Tensor[NumPy].zeros((3,))).shape
    (1, 3)
    """
    return _each("atleast_2d", tensors, _two)


@overload
def atleast_3d(tensors: X, /) -> X: ...
@overload
def atleast_3d(first: X, second: X, /, *more: X) -> tuple[X, ...]: ...
@explained
def atleast_3d(*tensors: Any) -> Any:
    """Return the tensor, or a tuple of the tensors, with three dimensions or more: (n) becomes (1, n, 1), (m, n) (m, n,
    1).

    >>> x, y = atleast_3d(Tensor[NumPy].zeros((3,)), Tensor[NumPy].zeros((2, 3)))
    >>> x.shape, y.shape
    ((1, 3, 1), (2, 3, 1))
    """
    return _each("atleast_3d", tensors, _three)


@explained
def hstack(tensors: Sequence[X]) -> X:
    """Return the tensors concatenated along their second dimension, vectors along their only one; 0-d ones become
    vectors.

    Raises:
        ShapeError: the shapes differ in another dimension.
        ArgumentError: the sequence is empty or contains something that is not a tensor.

    >>> x = Tensor[NumPy].from_data([1.0, 2.0])
    >>> hstack([x, x]).tolist(), hstack([x.unsqueeze(1), x.unsqueeze(1)]).tolist()
    ([1.0, 2.0, 1.0, 2.0], [[1.0, 1.0], [2.0, 2.0]])
    """
    wide = _widened("hstack", tensors, _one)
    return joined("hstack", wide, 0 if wide[0].ndim == 1 else 1)  # type: ignore[no-any-return]  # of the tensors' class


@explained
def column_stack(tensors: Sequence[X]) -> X:
    """Return the tensors concatenated along their second dimension; vectors and 0-d ones become columns.

    Raises:
        ShapeError: the shapes differ in another dimension.
        ArgumentError: the sequence is empty or contains something that is not a tensor.

    >>> x = Tensor[NumPy].from_data([1.0, 2.0])
    >>> column_stack([x, x]).tolist()
    [[1.0, 1.0], [2.0, 2.0]]
    """
    return joined("column_stack", _widened("column_stack", tensors, _column), 1)  # type: ignore[no-any-return]  # as above


@explained
def vstack(tensors: Sequence[X]) -> X:
    """Return the tensors concatenated along their first dimension; vectors and 0-d ones become rows.

    Raises:
        ShapeError: the shapes differ in another dimension.
        ArgumentError: the sequence is empty or contains something that is not a tensor.

    >>> x = Tensor[NumPy].from_data([1.0, 2.0])
    >>> vstack([x, x]).tolist()
    [[1.0, 2.0], [1.0, 2.0]]
    """
    return joined("vstack", _widened("vstack", tensors, _two), 0)  # type: ignore[no-any-return]  # as above


@explained
def dstack(tensors: Sequence[X]) -> X:
    """Return the tensors concatenated along their third dimension, after `atleast_3d`.

    Raises:
        ShapeError: the shapes differ in another dimension.
        ArgumentError: the sequence is empty or contains something that is not a tensor.

    >>> x = Tensor[NumPy].from_data([1.0, 2.0])
    >>> dstack([x, x]).tolist()
    [[[1.0, 1.0], [2.0, 2.0]]]
    """
    return joined("dstack", _widened("dstack", tensors, _three), 2)  # type: ignore[no-any-return]  # as above


@overload
def block_diag(*tensors: Tensor[B]) -> Tensor[B]: ...
@overload
def block_diag(*tensors: ComplexTensor[B]) -> ComplexTensor[B]: ...
@overload
def block_diag(*tensors: IntTensor[B]) -> IntTensor[B]: ...
@overload
def block_diag(*tensors: BoolTensor[B]) -> BoolTensor[B]: ...
@explained
def block_diag(*tensors: Any) -> Any:
    """Return a matrix with the tensors, matrices or rows of them, along its diagonal, and zeros (or False) elsewhere.

    Args:
        tensors: one or more, of one kind and device and at most two dimensions; dtypes promote.

    Raises:
        ShapeError: a tensor has more than two dimensions.
        ArgumentError: there are no tensors.

    >>> block_diag(IntTensor[NumPy].from_data([[1], [2]]), IntTensor[NumPy].from_data([3, 4])).tolist()
    [[1, 0, 0], [2, 0, 0], [0, 3, 4]]
    """
    first, values = with_common_dtype("block_diag", tensors)
    for k, value in enumerate(values):
        if len(value.shape) > 2:
            raise ShapeError(f"block_diag() got shape {value.shape} as number {k + 1}; expected two dimensions at most")
    b: Any = first._backend
    blocks = [b.reshape(value, _two(value.shape)) for value in values]
    columns = sum(block.shape[1] for block in blocks)
    zero, dtype = False if first.kind == "bool" else 0, blocks[0].dtype
    rows, start = [], 0
    for block in blocks:
        height, width = block.shape
        ends = [b.full((height, n), zero, dtype) for n in (start, columns - start - width)]
        rows.append(b.cat([ends[0], block, ends[1]], 1))
        start += width
    return first._like(b.cat(rows, 0))


def _one(shape: Shape) -> Shape:
    return shape or (1,)


def _two(shape: Shape) -> Shape:
    return (1,) * (2 - len(shape)) + tuple(shape)


def _column(shape: Shape) -> Shape:
    return shape if len(shape) > 1 else (math.prod(shape), 1)


def _three(shape: Shape) -> Shape:
    return shape if len(shape) > 2 else (*_two(shape), 1)


def _reshaped(operation: str, x: Any, shape_of: Callable[[Shape], Shape]) -> Any:
    """Return a tensor in the shape that ``shape_of`` makes of its own."""
    if not isinstance(x, TensorBase):
        raise KindError(f"{operation}() takes tensors, got {describe(x)}; make a tensor of it first")
    shape = shape_of(x.shape)
    return x if shape == x.shape else x._like(x._backend.reshape(x._primitive, shape))


def _each(operation: str, tensors: tuple[Any, ...], shape_of: Callable[[Shape], Shape]) -> Any:
    """Return the one tensor reshaped, or a tuple of several; they may be passed as one list or tuple."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tuple(tensors[0])
    elif len(tensors) == 1:
        return _reshaped(operation, tensors[0], shape_of)
    return tuple([_reshaped(operation, x, shape_of) for x in tensors])


def _widened(operation: str, tensors: Any, shape_of: Callable[[Shape], Shape]) -> list[Any]:
    """Return the tensors of a sequence reshaped."""
    sequence = tensors if isinstance(tensors, (list, tuple)) else ()
    if not sequence:
        raise ArgumentError(f"{operation}() takes a list or tuple of tensors, at least one, got {describe(tensors)}")
    return [_reshaped(operation, x, shape_of) for x in sequence]
