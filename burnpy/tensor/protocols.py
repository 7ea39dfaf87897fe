"""Python's own protocols: length, iteration, numbers of one element, copies and pickles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

from burnpy.backend.errors import ScalarError, ShapeError, a
from burnpy.tensor.base import B, new_tensor
from burnpy.tensor.conversion import Conversion
from burnpy.tensor.readonly import writer

_WHOLE = slice(None, None, 1)


class Protocols(Conversion[B]):
    """What Python asks of a container, of a number, and of what is copied or pickled."""

    __slots__ = ()

    def __len__(self) -> int:
        return self._length("len()")

    def __iter__(self) -> Iterator[Self]:
        return self._rows(self._length("iteration"))

    def _rows(self, count: int) -> Iterator[Self]:
        backend, primitive = self._backend, self._primitive
        rest = (_WHOLE,) * (self.ndim - 1)
        for row in range(count):
            yield self._like(backend.slice(primitive, (row, *rest)))

    def _length(self, operation: str) -> int:
        shape = self.shape
        if not shape:
            raise ScalarError(
                f"{operation} was asked of a 0-d {type(self).__name__}, which has no dimensions; .item() is its value"
            )
        return shape[0]

    def __contains__(self, value: object) -> bool:
        compared: Any = self
        equal = compared == value
        return bool(equal._backend.to_numpy(equal._primitive).any())

    def __bool__(self) -> bool:
        if self.numel() != 1:
            raise ShapeError(
                f"the truth of {a(type(self).__name__)} of shape {self.shape} was asked for, and only one element has "
                "any; say x.bool().any() or x.bool().all()"
            )
        return bool(self._item("bool()"))

    def __float__(self) -> float:
        return float(self._item("float()"))

    def __int__(self) -> int:
        return int(self._item("int()"))

    def __copy__(self) -> Self:
        flags = levels(self)
        return relifted(type(self), self._device, bare(self), flags) if any(flags) else self

    def __deepcopy__(self, memo: object) -> Self:
        return self.__copy__()

    def __reduce__(self) -> tuple[Any, ...]:
        return restored, (type(self), self._device, self.to_numpy(), levels(self))


def levels(x: Any) -> tuple[bool, ...]:
    """For each level of the tensor's device, from the outermost, whether the tensor is tracked on it."""
    found: list[bool] = []
    device, primitive = x._backend, x._primitive
    while hasattr(device, "lower"):
        found.append(getattr(primitive, "node", None) is not None)
        device, primitive = device.inner, device.lower(primitive)
    return tuple(found)


def bare(x: Any) -> Any:
    """The primitive beneath all levels."""
    device, primitive = x._backend, x._primitive
    while hasattr(device, "lower"):
        device, primitive = device.inner, device.lower(primitive)
    return primitive


def relifted(cls: type[Any], device: Any, primitive: Any, flags: tuple[bool, ...]) -> Any:
    """A tensor of what `bare` gave, a leaf on the levels that are flagged."""
    backend = device if cls.kind == "float" else device.discrete
    path = []
    while hasattr(backend, "lower"):
        path.append(backend)
        backend = backend.inner
    for level, flag in zip(reversed(path), reversed(flags), strict=True):
        primitive = level.lift(primitive)
        if flag:
            primitive = level.require_grad(primitive)
    return new_tensor(cls, device, primitive)


def restored(cls: type[Any], device: Any, array: Any, flags: tuple[bool, ...]) -> Any:
    """What a pickle calls: the values on the device, as a new leaf where they were tracked.

    What the pickle contained is nobody else's. Buffers that came beside it (``pickle.loads(..., buffers=)``) are their
    owner's, and copied unless they are bytes.
    """
    backend = device.discrete
    make = backend.adopt_numpy if array.base is None or not writer(array) else backend.from_numpy
    return relifted(cls, device, make(array), flags)
