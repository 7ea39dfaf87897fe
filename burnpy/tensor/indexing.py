"""Indexing with brackets: ``x[...]`` reads, and ``x.at[...]`` gives a tensor with something else there."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Self

from burnpy.backend.errors import ImmutableError
from burnpy.backend.primitives import Key, Shape
from burnpy.tensor.base import B, blank, owned
from burnpy.tensor.selecting import Selecting

if TYPE_CHECKING:
    from burnpy.tensor.at import At
    from burnpy.tensor.keys import Index


class Indexing(Selecting[B]):
    """Brackets, and the methods of `Selecting`."""

    __slots__ = ()

    @owned
    def __getitem__(self, key: Index[B]) -> Self:
        """Part of the tensor.

        Ints, slices, None and ``...`` mean what they do for a NumPy array. An `IntTensor`, or a list of ints, picks
        slices along its dimension, in any order and number; a `BoolTensor`, or a list of truth values, those where it
        is true. A tuple within the brackets, as in ``x[(0, 1), 2]``, is a list. Several of them broadcast and pick
        elements together. What they pick stands in place of the dimensions that they index, or in front where those
        are not adjacent, as in PyTorch.

        Raises:
            IndexRangeError: an index is out of range.
            DimError: more dimensions are indexed than there are.
            ShapeError: a mask's shape is not that of what it masks, or indices do not broadcast.
            KindError: something in the key is no index.

        >>> from burnpy import IntTensor
        >>> from burnpy.backend import NumPy
        >>> x = IntTensor[NumPy].from_data([[1, 2, 3], [4, 5, 6]])
        >>> x[0, -1].item(), x[:, ::-1].tolist(), x[[1, 1, 0], 2].tolist(), x[x > 4].tolist()
        (3, [[3, 2, 1], [6, 5, 4]], [6, 6, 3], [5, 6])
        """
        value: Any = self._primitive
        backend: Any = self._backend
        shape = value.shape
        index: Any = key
        if index.__class__ is int and shape and -shape[0] <= index < shape[0]:
            simple: Key | None = (index if index >= 0 else index + shape[0],)
        else:
            simple = quick(index, shape)
        if simple is not None:
            try:
                part = backend.slice(value, simple)
            except Exception:  # a part of a slice is no int, or its step 0, as `selection` will say
                part = None
            if part is not None:
                out: Self = blank()
                out._device = self._device
                out._primitive = part
                return out
        keys = _keys()
        basic, indexed = keys.selection(self, key)
        if basic is not None:
            value = backend.slice(value, basic)
        return self._like(value if indexed is None else keys.picked(backend, value, indexed))

    @property
    def at(self) -> At[Self, B]:
        """``x.at[key].set(v)``: a new tensor with v at ``x[key]``; also ``.add``, ``.mul``, ``.min`` and ``.max``.

        >>> from burnpy import Tensor
        >>> from burnpy.backend import NumPy
        >>> x = Tensor[NumPy].zeros((4,))
        >>> x.at[1:3].set(5.0).tolist(), x.at[[0, 0, 3]].add(1.0).tolist()
        ([0.0, 5.0, 5.0, 0.0], [2.0, 0.0, 0.0, 1.0])
        """
        at: type[At[Self, B]] = _at()
        return at(self)

    if not TYPE_CHECKING:  # to type checkers, as at run time, a tensor takes no assignments

        def __setitem__(self, key, value):
            raise ImmutableError(
                "x[...] = v would change the tensor, and tensors are immutable; write x = x.at[...].set(v), "
                "or .add, .mul, .min or .max in place of .set"
            )

        def __delitem__(self, key):
            raise ImmutableError(
                "del x[...] would change the tensor, and tensors are immutable; pick what stays: x[mask]"
            )


def quick(key: Any, shape: Shape) -> Key | None:
    """A key of ints in range and slices, the common case, as a basic index; None for any other."""
    if key.__class__ is not tuple:
        key = (key,)
    if len(key) > len(shape):
        return None
    entries: list[Any] = []
    for item, size in zip(key, shape, strict=False):
        if item.__class__ is int:
            if item < 0:
                item += size
            if not 0 <= item < size:
                return None
        elif item.__class__ is not slice:
            return None
        entries.append(item)
    return tuple(entries)


@cache
def _keys() -> Any:
    """The module that knows all other keys, from the first of them on."""
    from burnpy.tensor import keys

    return keys


@cache
def _at() -> Any:
    """The class of ``x.at``, from its first use on."""
    from burnpy.tensor.at import At

    return At
