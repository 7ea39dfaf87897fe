"""Python's own protocols: length, iteration, numbers of one element, copies and pickles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

from burnpy.backend.errors import ScalarError, ShapeError, a
from burnpy.tensor.base import new_tensor
from burnpy.tensor.conversion import Conversion
from burnpy.tensor.readonly import writer
from burnpy.typevars import B

_WHOLE = slice(None, None, 1)


class Protocols(Conversion[B]):
    """Python's protocols of containers and numbers, and those of ``copy`` and ``pickle``."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Handle a NumPy function of tensors: ``ndarray + tensor`` must not become an array of objects."""
        from burnpy.tensor.numpy_functions import applied

        return applied(self, ufunc, method, inputs, options)

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
                f"{operation} got a 0-d {type(self).__name__}, which has no dimensions; .item() is its value"
            )
        return shape[0]

    def __contains__(self, value: object) -> bool:
        compared: Any = self
        equal = compared == value
        return bool(equal._backend.to_numpy(equal._primitive).any())

    def __bool__(self) -> bool:
        if self.numel() != 1:
            raise ShapeError(
                f"the truth value of {a(type(self).__name__)} with shape {self.shape} is ambiguous; use x.bool().any() "
                "or x.bool().all()"
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
    """Return a flag for each level of the tensor's device, the outermost first: True if the tensor is tracked there."""
    flags: list[bool] = []
    device, primitive = x._backend, x._primitive
    while device.differentiates:
        flags.append(getattr(primitive, "node", None) is not None)
        device, primitive = device.inner, device.lower(primitive)
    return tuple(flags)


def bare(x: Any) -> Any:
    """Return the primitive beneath all levels, on the innermost backend."""
    device, primitive = x._backend, x._primitive
    while device.differentiates:
        device, primitive = device.inner, device.lower(primitive)
    return primitive


def relifted(cls: type[Any], device: Any, primitive: Any, flags: tuple[bool, ...]) -> Any:
    """Return a tensor from a primitive of the innermost backend; a leaf on the levels whose flag is True."""
    backend = device if cls.kind == "float" else device.discrete
    devices = []
    while backend.differentiates:
        devices.append(backend)
        backend = backend.inner
    for level, flag in zip(reversed(devices), reversed(flags), strict=True):
        primitive = level.lift(primitive)
        if flag:
            primitive = level.require_grad(primitive)
    return new_tensor(cls, device, primitive)


def restored(cls: type[Any], device: Any, array: Any, flags: tuple[bool, ...]) -> Any:
    """Return an unpickled tensor on the device, as a new leaf if it was tracked.

    Arrays inside the pickle have no other owner and are not copied. Out-of-band buffers (``pickle.loads(...,
    buffers=)``) belong to the caller, and are copied unless they are bytes.
    """
    backend = device.discrete
    make = backend.adopt_numpy if array.base is None or not writer(array) else backend.from_numpy
    return relifted(cls, device, make(array), flags)
