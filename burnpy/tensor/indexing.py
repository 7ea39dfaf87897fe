"""Indexing with brackets: ``x[...]`` reads elements, and ``x.at[...]`` returns updated copies."""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING, Any, Self

from burnpy.backend.errors import DeviceError, ImmutableError
from burnpy.backend.primitives import Key, Shape
from burnpy.tensor.levels import raised
from burnpy.tensor.operand_checks import explain_memory, from_other_code
from burnpy.tensor.tensor_base import TensorBase, blank, owned
from burnpy.typevars import B

if TYPE_CHECKING:
    from burnpy.tensor.at import At
    from burnpy.tensor.index_keys import Index


class Indexing(TensorBase[B]):
    """Indexing with brackets."""

    __slots__ = ()

    @owned
    def __getitem__(self, key: Index[B]) -> Self:
        """Return the selected elements.

        Ints, slices, None and ``...`` mean the same as for a NumPy array. An `IntTensor`, or a list of ints, selects
        slices along its dimension, in any order and number; a `BoolTensor`, or a list of bools, those where it is True.
        A tuple within the brackets, as in ``x[(0, 1), 2]``, a range and an array are treated as lists. Several indices
        broadcast and select elements together. The resulting dimensions replace the indexed ones, or come first if
        those are not adjacent, as in PyTorch; ints do not count there: ``x[0, :, [1, 2]]`` is ``x[0][:, [1, 2]]``.

        >>> x = IntTensor[NumPy].from_data([[1, 2, 3], [4, 5, 6]])
        >>> x[0, -1].item(), x[:, ::-1].tolist(), x[[1, 1, 0], 2].tolist(), x[x > 4].tolist()
        (3, [[3, 2, 1], [6, 5, 4]], [6, 6, 3], [5, 6])
        """
        value: Any = self._primitive
        backend: Any = self._backend
        shape = value.shape
        index: Any = key
        kind = index.__class__
        simple: Key | None = None
        if kind is int:
            if shape and -shape[0] <= index < shape[0]:
                simple = (index if index >= 0 else index + shape[0],)
        elif kind is slice or kind is tuple:
            simple = quick(index, shape)
        if simple is not None:
            try:
                part = backend.slice(value, simple)
            except Exception as error:  # array libraries raise errors of various classes for one mistake
                _keys().parsed_key(self, key)  # raises an error if a part of a slice is not an int, or its step is 0
                if from_other_code(error, self._device):
                    raise
                part = None
            if part is not None:
                out: Self = blank()
                out._device = self._device
                out._primitive = part
                return out
        keys = _keys()
        try:
            rows = keys.row_index(self, key)
            basic, indexed = (None, None) if rows is not None else keys.parsed_key(self, key)
        except DeviceError as error:
            device = getattr(error, "device", None)
            if device is None:
                raise
            lifted: Any = raised(self, device)
            return lifted[key]  # type: ignore[no-any-return]  # a tensor of this class
        if basic is not None:
            value = backend.slice(value, basic)
        try:
            if rows is not None:
                value = keys.selected_rows(backend, value, rows)
            elif indexed is not None:
                value = keys.picked(backend, value, indexed)
            return self._like(value)
        except MemoryError as error:
            explain_memory(error, "x[...]", self)
            raise

    @property
    def at(self) -> At[Self, B]:
        """An object for updated copies: ``x.at[key].set(v)``, and ``.add``, ``.mul``, ``.min`` and ``.max``.

        >>> x = Tensor[NumPy].zeros((4,))
        >>> x.at[1:3].set(5.0).tolist(), x.at[[0, 0, 3]].add(1.0).tolist()
        ([0.0, 5.0, 5.0, 0.0], [2.0, 0.0, 0.0, 1.0])
        """
        at: type[At[Self, B]] = _at()
        return at(self)

    if not TYPE_CHECKING:  # hidden from type checkers, so that they reject assignments too

        def __setitem__(self, key, value):
            namespace = sys.modules.get("burnpy.array_api.data_types")
            if namespace is not None and namespace.assign(self, key, value):
                return
            raise ImmutableError(
                "x[...] = v would change the tensor, and tensors are immutable; write x = x.at[...].set(v), "
                "or .add, .mul, .min or .max in place of .set"
            )

        def __delitem__(self, key):
            raise ImmutableError(
                "del x[...] would change the tensor, and tensors are immutable; select the rest: x[mask]"
            )


def quick(key: Any, shape: Shape) -> Key | None:
    """Return a key of ints in range and slices, the common case, as a basic index; None for any other key."""
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
    """Return the module `burnpy.tensor.index_keys`, imported at first use, which handles all other keys."""
    from burnpy.tensor import index_keys as keys

    return keys


@cache
def _at() -> Any:
    """Return the class of ``x.at``, imported at first use."""
    from burnpy.tensor.at import At

    return At
