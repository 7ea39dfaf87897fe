"""Levels: the nested devices that `burnpy.func` creates, one for each derivative that is being computed.

A tensor on a device beneath a level is a constant to that level, and is lifted when it is combined with a tensor of the
level. Singleton devices, such as ``Autodiff(NumPy())``, are not levels: mixing their float tensors with those of the
device beneath is an error. Ints and bools carry no gradient, and mix with tensors of any device above. A level whose
function has returned is closed, and has a method ``refuse`` that raises an error.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn

from burnpy.backend.errors import DeviceError
from burnpy.tensor.tensor_base import TensorBase, new_tensor

open_levels: ContextVar[tuple[Any, ...]] = ContextVar("burnpy_levels", default=())
"""The levels of the derivatives that are being computed in this context, the outermost first."""


class Door:
    """A counter of the uses of a level, stored in the level's attribute ``door``.

    The level is open while `open` was called more often than `close`.
    """

    __slots__ = ("_closed", "_count", "_kind", "_lock")

    def __init__(self, kind: type, closed: type) -> None:
        from threading import Lock  # imported late: only derivatives need it, not `import burnpy`

        self._kind, self._closed, self._count, self._lock = kind, closed, 0, Lock()

    def open(self, level: Any) -> None:
        """Open the level, so that its operations work."""
        with self._lock:
            self._count += 1
            level.__class__ = self._kind

    def close(self, level: Any) -> None:
        """Close the level, so that its operations raise an error, unless it is open elsewhere."""
        with self._lock:
            self._count -= 1
            if not self._count:
                level.__class__ = self._closed


@contextmanager
def reopened() -> Generator[None, None, None]:
    """A context manager that opens the levels of this context again in its block, to recompute their functions."""
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
    """A context manager that sets the open levels for user code whose tensors are on ``device``.

    In its block these are the levels that ``device`` is, or is nested on, and then ``levels``. User code that gets
    tensors of a device beneath an open level, such as forward() of a `Function`, then computes derivatives of its own
    on that device, not on the open level.
    """
    before = open_levels.get()
    if before or levels:
        open_levels.set((*[level for level in before if levels_between(device, level) is not None], *levels))
    try:
        yield
    finally:
        open_levels.set(before)


def levels_between(high: Any, low: Any) -> list[Any] | None:
    """Return the levels from device ``high`` down to ``low``, which is excluded; None if ``high`` is not above it."""
    levels = []
    while high is not low:
        if not high.level:
            return None
        levels.append(high)
        high = high.inner
    return levels


def holds_discrete_of(high: Any, low: Any) -> bool:
    """Return whether ints and bools of device ``low`` are ints and bools of ``high``.

    They carry no gradient, so a device that differentiates has those of every device beneath it.
    """
    while high is not low:
        if not high.differentiates:
            return False
        if getattr(high, "wraps", None) is low:  # a `Strategy`, which shares its inner device with `Autodiff`
            return True
        high = high.inner
    return True


def common_device(operation: str, devices: Iterable[Any], discrete: Iterable[Any] = ()) -> Any:
    """Return the device, of at least one, that is the same as or a level above each of the others.

    Args:
        operation: the name of the operation, for messages.
        devices: the devices of float tensors, or of any.
        discrete: the devices of int and bool tensors, which may be any device beneath the result.

    Raises:
        DeviceError: there is no such device.
        EscapedError: a device is a level whose function has returned.
    """
    top: Any = None
    for device in devices:
        if top is None:
            top = device
        elif device is not top and levels_between(top, device) is None:
            if levels_between(device, top) is None:
                refuse_mixed(operation, top, device)
            top = device
    floats = top is not None
    for device in discrete:
        if top is None:
            top = device
        elif not holds_discrete_of(top, device):
            if levels_between(device, top) is None and (floats or not holds_discrete_of(device, top)):
                refuse_mixed(operation, top, device)
            top = device
    if hasattr(top, "refuse"):
        top.refuse(operation)
    return top


def refuse_mixed(operation: str, first_device: Any, second_device: Any) -> NoReturn:
    """Raise the error for tensors of two devices that cannot be combined.

    Raises:
        DeviceError: always, unless
        EscapedError: one of them is a level whose function has returned.
    """
    for device in (first_device, second_device):
        if hasattr(device, "refuse"):
            device.refuse(operation)
    levels = [device.level for device in (first_device, second_device)]
    first, second = (
        f"{d}, level {n}" if n else str(d) for d, n in zip((first_device, second_device), levels, strict=True)
    )
    if any(levels) and not all(levels):
        hint = (
            "a function that is differentiated can use what lies beneath its arguments: give it x.inner(), or call it "
            "with tensors of the other device"
        )
    elif all(levels):
        hint = (
            "they belong to two derivatives that are not nested; if a function runs in another thread or is kept for "
            "later, pass it as arguments all tensors that it differentiates or closes over"
        )
    else:
        hint = "move one with .to_device(...), or lift a plain tensor with Tensor[...].from_inner(x)"
    asked = operation if operation.endswith("]") else f"{operation}()"  # x[...] is no call
    message = f"{asked} got tensors on {first} ({{}}) and {second} ({{}}); {hint}"
    error = DeviceError(message.format("the first", "the second"))
    error.mixed = message, (first_device, second_device)
    raise error


def raised(x: TensorBase[Any], device: Any) -> TensorBase[Any]:
    """Return a tensor lifted to a device above its own, as a constant; the tensor itself if it is there already."""
    if x._device is device:
        return x
    primitive = x._primitive
    if x.kind == "float":
        for level in reversed(levels_between(device, x._device) or []):
            primitive = level.lift(primitive)
    return new_tensor(type(x), device, primitive)  # type: ignore[no-any-return]  # of that class
