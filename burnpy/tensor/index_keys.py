"""Parsing of the keys of ``x[...]`` and ``x.at[...]`` into operations that backends support.

A key consists of ints, slices, None, one ``...``, int tensors, masks, lists, ranges, arrays, and nested tuples, which
are treated as lists. Its *basic* part goes to `Backend.slice`. The remaining dimensions of that slice each have a
tensor of indices; moved together and flattened, they are one dimension with a single 1-d index, which
`Backend.index_select` and similar operations accept. The dimensions of the result are placed as in PyTorch: in place of
the indexed ones if these are adjacent, else in front. Ints do not count as indices in this rule, unlike in NumPy:
``x[0, :, [1, 2]]`` is ``x[0][:, [1, 2]]``.
"""

from __future__ import annotations

import math
from types import EllipsisType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from burnpy.backend.dtypes import int64
from burnpy.backend.errors import ArgumentError, DimError, KindError, ShapeError, a
from burnpy.backend.primitives import INEXACT, Int, Key, Shape, Value
from burnpy.tensor.dim_checks import MOST_DIMS, WHOLE, addressable
from burnpy.tensor.operand_checks import broadcast_shape, check_beside, in_range, out_of_range
from burnpy.tensor.tensor_base import TensorBase, describe

if TYPE_CHECKING:
    from burnpy.tensor.tensor_types import Bools, Ints
    from burnpy.typevars import B

    Tensors: TypeAlias = Ints[B] | Bools[B]
    Item: TypeAlias = (
        Tensors[B]
        | int
        | np.integer[Any]
        | slice
        | EllipsisType
        | list[Any]
        | tuple[Any, ...]
        | range
        | np.ndarray[Any, Any]
        | None
    )
    Index: TypeAlias = Item[B] | tuple[Item[B], ...]
    """The types of keys that tensors can be indexed with."""


class ParsedKey(NamedTuple):
    """A key parsed into a basic slice and an index."""

    basic: Key | None  #: the key to slice x by first; None if it would select all of x
    indexed: Indexed | None  #: the elements to select from that slice; None for a basic key


class Indexed(NamedTuple):
    """The dimensions of a slice that are indexed by tensors, as one dimension with a 1-d index."""

    order: Shape | None  #: the permutation that moves the dimensions together; None if they are adjacent
    dim: int  #: the first of the dimensions, after the permutation
    sizes: Shape  #: the sizes of the dimensions
    index: Int  #: the 1-d index into the flattened dimensions
    shape: Shape  #: the shape that the 1-d index has in the result


def parsed_key(x: TensorBase[Any], key: Any) -> ParsedKey:
    """Parse a key into ``x``."""
    shape = x.shape
    index = row_index(x, key)
    if index is not None:
        return ParsedKey(None, _together(x, [(0, shape[0], index)], len(shape)))
    basic: list[Any] = []
    indexed: list[tuple[int, int, Int]] = []  # (dimension of the slice, its size, indices)
    dim = place = 0  # of x, and of the slice
    for item in _complete(x, key):
        kind = item.__class__
        if kind is slice:
            basic.append(_bounded(item, shape[dim]))
            dim += 1
            place += 1
        elif kind is int:
            basic.append(_nonnegative(item, dim, shape))
            dim += 1
        elif item is None:
            basic.append(None)
            place += 1
        elif item.kind == "int":
            basic.append(WHOLE)
            index = in_range(x.device, item._primitive, shape[dim], True, "x[...]", dim, shape)
            indexed.append((place, shape[dim], index))
            dim += 1
            place += 1
        elif item.ndim:
            indexed += _masked(x, item, dim, place)
            basic += [WHOLE] * item.ndim
            dim += item.ndim
            place += item.ndim
        else:  # a single bool: a new dimension of size 1, or 0 if it is False
            basic.append(None)
            count = x.device.discrete.nonzero(item._primitive).shape[0]
            indexed.append((place, 1, x.device.discrete.full((count,), 0, int64)))
            place += 1
    if place > MOST_DIMS:
        addressable((1,) * place, "x[...]")
    while basic and basic[-1] is WHOLE:
        basic.pop()
    return ParsedKey(tuple(basic) or None, _together(x, indexed, place) if indexed else None)


def row_index(x: TensorBase[Any], key: Any) -> Int | None:
    """Return the index of the frequent key that is one int tensor, as non-negative int64; None for any other key."""
    shape = x._primitive.shape
    if not shape or key.__class__ is not TensorBase.kinds["int"] or not key._primitive.shape:
        return None
    check_beside("x[...]", x, key)
    return in_range(x._device, key._primitive, shape[0], True, "x[...]", 0, shape)


def selected_rows(backend: Any, value: Value, index: Int) -> Value:
    """Return the slices of a primitive along its first dimension at an index of any shape."""
    if len(index.shape) == 1:
        return backend.index_select(value, 0, index)
    flat = backend.discrete.reshape(index, (math.prod(index.shape),))
    return backend.reshape(backend.index_select(value, 0, flat), (*index.shape, *value.shape[1:]))


def picked(backend: Any, value: Value, indexed: Indexed) -> Value:
    """Return the elements of a slice at the indices."""
    order, dim, sizes, index, shape = indexed
    flat = value if order is None and len(sizes) == 1 else flattened(backend, value, indexed)
    out = backend.index_select(flat, dim, index)
    if len(shape) == 1:
        return out
    return backend.reshape(out, (*flat.shape[:dim], *shape, *flat.shape[dim + 1 :]))


def flattened(backend: Any, value: Value, indexed: Indexed) -> Value:
    """Return a slice with its indexed dimensions moved together and flattened into one."""
    if indexed.order is not None:
        value = backend.permute(value, indexed.order)
    if len(indexed.sizes) == 1:
        return value
    shape, dim, count = value.shape, indexed.dim, len(indexed.sizes)
    return backend.reshape(value, (*shape[:dim], math.prod(indexed.sizes), *shape[dim + count :]))


def _complete(x: TensorBase[Any], key: Any) -> list[Any]:
    """Return a key completed to all dimensions of x: a list of ints, slices, None, index tensors and masks."""
    items = [_item(x, item) for item in (key if isinstance(key, tuple) else (key,))]
    used = 0
    ellipsis_position = None
    for position, item in enumerate(items):
        if item is ...:
            if ellipsis_position is not None:
                raise ArgumentError("x[...] got two ellipses; one stands for all dimensions not named")
            ellipsis_position = position
        elif isinstance(item, TensorBase) and item.kind == "bool":
            used += item.ndim
        elif item is not None:
            used += 1
    missing = x.ndim - used
    if missing < 0:
        raise DimError(f"x[...] cannot index {used} dimensions of shape {x.shape}, which has {x.ndim}")
    unnamed = [WHOLE] * missing
    return (
        items + unnamed
        if ellipsis_position is None
        else [*items[:ellipsis_position], *unnamed, *items[ellipsis_position + 1 :]]
    )


def _item(x: TensorBase[Any], item: Any) -> Any:
    """Return one item of a key as an int, a slice, None, ``...``, or a tensor that is an index or a mask."""
    kind = item.__class__
    if kind is int or kind is slice or item is None or item is ...:
        return item
    if isinstance(item, TensorBase):
        if item.kind in INEXACT:
            way = "i.int()" if item.kind == "float" else "z.real.int()"
            raise KindError(f"x[...] got {a(type(item).__name__)} of dtype {item.dtype}; indices are ints: x[{way}]")
        check_beside("x[...]", x, item)  # ints and truth values are the same on every level
        device = x.device.discrete
        if item.ndim or item.kind != "int" or device.lifts_discrete or device.stands_for is not None:
            return item  # whose values may differ by example, or from call to call
        return int(item._backend.to_numpy(item._primitive))
    if isinstance(item, np.ndarray) and not item.ndim and item.dtype.kind in "iu":
        return int(item)  # as a 0-d tensor
    if isinstance(item, (bool, np.bool_, list, tuple, range, np.ndarray)):
        return _tensor(x, item)
    if not getattr(item, "ndim", 0):  # another library's tensor of one element is not an int, if it has dims
        try:
            return item.__index__()
        except (AttributeError, TypeError):
            pass
    raise KindError(
        f"x[...] got {describe(item)}; an index is an int, a slice, None, ..., an IntTensor, a "
        "BoolTensor, a range, or a list, tuple or array of ints or bools"
    )


def _tensor(x: TensorBase[Any], values: Any) -> TensorBase[Any]:
    """Return a list, a tuple or an array of ints or bools as a tensor on x's device."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise ShapeError(f"x[...] got {describe(values)}, whose rows differ in length") from None
    if not array.size and not isinstance(values, np.ndarray):
        array = array.astype(int64)  # an empty list has no kind of its own
    if array.dtype.kind not in "biu":
        raise KindError(f"x[...] got {describe(values)}; lists and arrays of indices hold ints or truth values")
    primitive = x.device.discrete.from_numpy(array)
    return x._bool(primitive) if array.dtype.kind == "b" else x._int(primitive)


def _bounded(item: slice, size: int) -> slice:
    """Return a slice with its bounds in range; the object `WHOLE` itself if it selects everything in order."""
    try:
        start, stop, step = item.indices(size)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"x[...] got {item}; its parts are ints or None, its step not 0") from error
    if step == 1 and start == 0 and stop == size:
        return WHOLE
    if not range(start, stop, step):
        return slice(0, 0, 1)
    return slice(start, stop if stop >= 0 else None, step)


def _nonnegative(index: int, dim: int, shape: Shape) -> int:
    size = shape[dim]
    if -size <= index < size:
        return index % size
    raise out_of_range(index, size, True, "x[...]", dim, shape)


def _masked(x: TensorBase[Any], mask: TensorBase[Any], dim: int, place: int) -> list[tuple[int, int, Int]]:
    """Return a mask as one index for each of the dimensions that it covers."""
    d = x.device.discrete
    covered = x.shape[dim : dim + mask.ndim]
    if mask.shape != covered:
        raise ShapeError(
            f"x[...] got a mask of shape {mask.shape} for dims {dim} to {dim + mask.ndim - 1} of shape "
            f"{x.shape}, which are {covered}"
        )
    positions = d.nonzero(mask._primitive)
    return [(place + k, size, d.slice(positions, (WHOLE, k))) for k, size in enumerate(covered)]


def _together(x: TensorBase[Any], indexed: list[tuple[int, int, Int]], ndim: int) -> Indexed:
    """Combine the indexed dimensions of a slice of ``ndim`` dimensions into one."""
    d = x.device.discrete
    places = [place for place, _, _ in indexed]
    shapes = [index.shape for _, _, index in indexed]
    shape = broadcast_shape(*shapes)
    if shape is None:
        asked = ", ".join(map(str, shapes))
        raise ShapeError(f"x[...] got indices of shapes {asked}, which do not broadcast")
    flat_index = indexed[0][2]
    for _, size, index in indexed[1:]:
        flat_index = d.add(d.mul(flat_index, size), index)
    if len(shape) != 1:
        flat_index = d.reshape(flat_index, (math.prod(shape),))
    sizes = tuple([size for _, size, _ in indexed])
    if places[-1] - places[0] + 1 == len(places):
        return Indexed(None, places[0], sizes, flat_index, shape)
    order = (*places, *[p for p in range(ndim) if p not in places])
    return Indexed(order, 0, sizes, flat_index, shape)
