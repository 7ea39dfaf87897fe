"""Levels: devices that `burnpy.func` makes, one for each derivative that is being taken, on top of each other.

What lies on a device beneath a level is constant to it, and is lifted where it meets a tensor of the level. Devices
that are singletons, such as ``Autodiff(NumPy())``, are no levels: there, mixing is a mistake. A level whose function
has returned has a method ``refuse`` that says so.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn

from burnpy.backend.errors import DeviceError
from burnpy.tensor.base import TensorBase, new_tensor

open_levels: ContextVar[tuple[Any, ...]] = ContextVar("burnpy_levels", default=())
"""The levels of the derivatives that are being taken here, the outermost first."""


class Door:
    """Opens and closes a level, which has it as ``door``: open as long as somebody has opened and not closed it."""

    __slots__ = ("_closed", "_count", "_kind", "_lock")

    def __init__(self, kind: type, closed: type) -> None:
        from threading import Lock  # which only derivatives need, and `import burnpy` not

        self._kind, self._closed, self._count, self._lock = kind, closed, 0, Lock()

    def open(self, level: Any) -> None:
        """Let the level be what it is."""
        with self._lock:
            self._count += 1
            level.__class__ = self._kind

    def close(self, level: Any) -> None:
        """Let it refuse everything, unless others have it open."""
        with self._lock:
            self._count -= 1
            if not self._count:
                level.__class__ = self._closed


@contextmanager
def reopened() -> Generator[None, None, None]:
    """A block in which the levels of this context are open, if their functions have returned: they are run again."""
    levels = open_levels.get()
    for level in levels:
        level.door.open(level)
    try:
        yield
    finally:
        for level in levels:
            level.door.close(level)


@contextmanager
def working_on(device: Any, *levels: Any) -> Generator[None, None, None]:
    """A block in which the open levels are those on top of which ``device`` is, and then ``levels``.

    User code that is handed tensors of a device beneath an open level, as forward() of a `Function` is, takes
    derivatives of its own there, not on that level.
    """
    before = open_levels.get()
    if before or levels:
        open_levels.set((*[level for level in before if levels_between(device, level) is not None], *levels))
    try:
        yield
    finally:
        open_levels.set(before)


def levels_between(high: Any, low: Any) -> list[Any] | None:
    """The levels from device ``high`` down to ``low``, it not among them; None where there is no such way."""
    found = []
    while high is not low:
        if not getattr(high, "level", 0):
            return None
        found.append(high)
        high = high.inner
    return found


def common_device(operation: str, devices: Iterable[Any]) -> Any:
    """The one of some devices, at least one, that is a level above all others, or is all of them.

    Raises:
        DeviceError: there is none.
        EscapedError: one is a level whose function has returned.
    """
    remaining = iter(devices)
    top = next(remaining)
    for device in remaining:
        if device is not top and levels_between(top, device) is None:
            if levels_between(device, top) is None:
                refuse_mixed(operation, top, device)
            top = device
    if hasattr(top, "refuse"):
        top.refuse(operation)
    return top


def refuse_mixed(operation: str, one: Any, other: Any) -> NoReturn:
    """Say that two devices do not mix.

    Raises:
        DeviceError: always, unless
        EscapedError: one of them is a level whose function has returned.
    """
    for device in (one, other):
        if hasattr(device, "refuse"):
            device.refuse(operation)
    levels = [getattr(device, "level", 0) for device in (one, other)]
    first, second = (f"{d}, level {n}" if n else str(d) for d, n in zip((one, other), levels, strict=True))
    if any(levels) and not all(levels):
        hint = (
            "a function that is differentiated can use what lies beneath its arguments: give it x.inner(), or call it "
            "with tensors of the other device"
        )
    elif all(levels):
        hint = (
            "these are of two derivatives of which neither is taken inside of the other; give a function all tensors "
            "that it differentiates or closes over as arguments, if it runs in another thread or is kept for later"
        )
    else:
        hint = "move one with .to_device(...), or lift a plain tensor with Tensor[...].from_inner(x)"
    asked = operation if operation.endswith("]") else f"{operation}()"  # x[...] is no call
    raise DeviceError(f"{asked} was asked of tensors on {first} and {second}; {hint}")


def raised(x: TensorBase[Any], device: Any) -> TensorBase[Any]:
    """A tensor on a level above its device, as a constant of it; itself where that is its device."""
    between = levels_between(device, x._device)
    if not between:
        return x
    primitive = x._primitive
    if x.kind == "float":
        for level in reversed(between):
            primitive = level.lift(primitive)
    return new_tensor(type(x), device, primitive)  # type: ignore[no-any-return]  # of that class
