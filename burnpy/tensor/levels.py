"""Levels: the nested devices that `burnpy.func` creates, one for each derivative that is being computed.

A tensor on a device beneath a level is a constant to that level, and is lifted when it is combined with a tensor of the
level; `transfer` moves tensors between them without a copy. Singleton devices, such as ``Autodiff(NumPy())``, are not
levels: mixing their float tensors with those of the device beneath is an error. Ints and bools carry no gradient, and
mix with tensors of any device above. A level whose function has returned is closed, and has a method ``refuse`` that
raises an error.
"""

from __future__ import annotations

from _thread import allocate_lock  # part of the interpreter, unlike threading, which `import burnpy` does without
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn, TypeVar

from burnpy.backend.errors import DeviceError, RecordingError
from burnpy.backend.primitives import INEXACT
from burnpy.tensor.tensor_base import TensorBase, new_tensor

T = TypeVar("T", bound=TensorBase[Any])

open_levels: ContextVar[tuple[Any, ...]] = ContextVar("burnpy_levels", default=())
"""The levels of the derivatives that are being computed in this context, the outermost first."""


class OutsideError(DeviceError):
    """An index of a recording meets a tensor from outside, which `explained` lifts to ``device`` for another call."""

    def __init__(self, message: str, device: Any) -> None:
        super().__init__(message)
        self.device = device

    def lifted(self, arguments: Iterable[Any]) -> list[Any]:
        """Return the arguments of the call, with tensors lifted to the device."""
        return [raised(x, self.device) if isinstance(x, TensorBase) else x for x in arguments]


class UseCount:
    """A counter of the uses of a level, stored in the level's attribute ``uses``.

    The level is open while `open` was called more often than `close`.
    """

    __slots__ = ("_closed", "_count", "_kind", "_lock")

    def __init__(self, kind: type, closed: type) -> None:
        self._kind, self._closed, self._count, self._lock = kind, closed, 0, allocate_lock()

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
    """Return a context manager that opens the levels of this context again, to recompute their functions."""
    levels = open_levels.get()
    for level in levels:
        level.uses.open(level)
    try:
        yield
    finally:
        for level in levels:
            level.uses.close(level)


@contextmanager
def working_on(device: Any, *levels: Any) -> Generator[None, None, None]:
    """Return a context manager that sets the open levels for user code whose tensors are on ``device``.

    In its block these are the levels that ``device`` is, or is nested on, and then ``levels``. User code such as
    forward() of a `Function` gets tensors of a device beneath an open level. The derivatives that it computes are then
    on that device, not on the open level.
    """
    before = open_levels.get()
    if before or levels:
        open_levels.set((*[level for level in before if levels_between(device, level) is not None], *levels))
    try:
        yield
    finally:
        open_levels.set(before)


class _Replaced:
    """The step from a device to the one that records in its place: a tensor from outside is a constant there."""

    __slots__ = ("high", "low")

    def __init__(self, high: Any, low: Any) -> None:
        self.high, self.low = high, low

    @property
    def lifts_discrete(self) -> bool:
        """True if ints and bools are primitives of the device, too."""
        return self.low.lifts_discrete  # type: ignore[no-any-return]  # as declared

    def lift(self, primitive: Any) -> Any:
        """Return a primitive of the device as a constant of the other one."""
        high, low = self.high, self.low
        if high.entry is not None:
            if high.stands_for is not low:
                primitive = _Replaced(high.stands_for, low).lift(primitive) if low.differentiates else primitive
                low = high.stands_for
            return high.entry(low, primitive)
        if self.low.is_require_grad(primitive):
            raise RecordingError(
                f"a compiled function closes over a tensor of shape {primitive.shape} that requires a gradient; pass "
                "it, or its model, as an argument, or close over x.detach()"
            )
        return lifted_to(high, beneath_levels(low, primitive))


def _stands_for(high: Any, low: Any) -> bool:
    """Return whether a device records in place of another, or of one that does."""
    while high is not None and high is not low:
        high = high.stands_for
    return high is low


def constant(x: Any) -> Any:
    """Return a float tensor detached, or as it is in a function of `burnpy.func`, which differentiates through it."""
    return x if x._device.level else x.detach()


def levels_of(device: Any) -> list[Any]:
    """Return a device that differentiates and those beneath it that do, from the outermost to the innermost."""
    levels = []
    while device.differentiates:
        levels.append(device)
        device = device.inner
    return levels


def plain_device(device: Any) -> Any:
    """Return the device beneath all levels of a device: the device itself if it does not differentiate."""
    while device.differentiates:
        device = device.inner
    return device


def lifted_to(device: Any, primitive: Any) -> Any:
    """Return a primitive of the innermost device as a constant of all levels of ``device``."""
    for level in reversed(levels_of(device)):
        primitive = level.lift(primitive)
    return primitive


def beneath_levels(device: Any, primitive: Any) -> Any:
    """Return the primitive of the innermost device that is beneath a primitive of ``device``."""
    for level in levels_of(device):
        primitive = level.lower(primitive)
    return primitive


def levels_between(high: Any, low: Any) -> list[Any] | None:
    """Return the levels from device ``high`` down to ``low``, which is excluded; None if ``high`` is not above it."""
    levels: list[Any] = []
    crossed = False  # a singleton in whose place a compiled function records, which takes no tensors from beneath
    while high is not low:
        if _stands_for(high, low):
            return [*levels, _Replaced(high, low)] if low.differentiates else levels
        if not high.level:
            if high.stands_for is None or not high.differentiates:
                return levels if _has_numbers(high, low) else None
            crossed = True
        levels.append(high)
        high = high.inner
    return None if crossed else levels


def _has_numbers(recorder: Any, device: Any) -> bool:
    """Return whether a device has the numbers that are arguments of a function that is recorded, or of an outer one."""
    while recorder is not None:
        if device is getattr(recorder, "numbers", None):
            return True
        recorder = getattr(recorder, "outer", None)
    return False


def drawing_device(device: Any) -> Any:
    """Return the device that draws random numbers for code on ``device``: the innermost level of `vmap` above it. So
    each example has its own, whichever tensors the function closes over."""
    for level in reversed(open_levels.get()):
        if level.lifts_discrete and levels_between(level, device):
            return level
    return device


def holds_discrete_of(high: Any, low: Any) -> bool:
    """Return whether ints and bools of device ``low`` are ints and bools of ``high``. They carry no gradient, so a
    device that differentiates has those of every device beneath it."""
    while high is not low:
        if _stands_for(high, low):
            return True
        if not high.differentiates:
            return _has_numbers(high, low)
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
    """Raise the error for tensors of two devices that cannot be combined."""
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
    for level in reversed(levels_between(device, x._device) or []):
        if x.kind in INEXACT or level.lifts_discrete:
            primitive = level.lift(primitive)
    return new_tensor(type(x), device, primitive)  # type: ignore[no-any-return]  # of that class


def drawing(x: T) -> T:
    """Return a tensor lifted to the level of `vmap` that draws random numbers for its elements, if there is one."""
    device: Any = x._device
    on = drawing_device(device)
    return x if on is device else raised(x, on)  # type: ignore[return-value]  # of x's class


def has_values(x: TensorBase[Any]) -> bool:
    """Return whether the values of a tensor can be read: not while a function is recorded, nor those of `vmap`."""
    device: Any = x._device
    while device is not None:
        if device.records:
            return False
        device = getattr(device, "inner", None)
    return not differs_between_examples(x)


def values_beneath(x: TensorBase[Any]) -> Iterator[Any]:
    """Yield the primitive of a tensor on each level of its device, from the innermost level to the outermost."""
    device: Any = x._device
    primitive = x._primitive
    while device.differentiates:
        yield primitive
        primitive, device = getattr(primitive, "value", primitive), device.inner


def is_followed(primitive: Any) -> bool:
    """Return whether the level of a primitive differentiates by it: it is tracked, or has a tangent."""
    return getattr(primitive, "node", None) is not None or getattr(primitive, "tangent", None) is not None


def differs_between_examples(x: TensorBase[Any]) -> bool:
    """Return whether the values of a tensor differ between the examples of a function under `vmap`."""
    primitive = x._primitive
    while hasattr(primitive, "value"):
        if getattr(primitive, "batched", False):
            return True
        primitive = primitive.value
    return False


def transfer(x: TensorBase[Any], target: Any) -> Any:
    """Return an untracked tensor on another device; it shares memory if one device is nested on the other."""
    source = x.device
    if target is source:
        return x
    levels = []
    lower_device = target
    while lower_device is not source and lower_device.differentiates:
        levels.append(lower_device)
        lower_device = lower_device.inner
    if lower_device is source:
        primitive = x._primitive
        if x.kind in INEXACT:
            for level in reversed(levels):
                primitive = level.lift(primitive)
        return new_tensor(type(x), target, primitive)
    current: Any = x
    while current.device.differentiates:
        current = current.inner()
        if current.device is target:
            return current
    return current.to_device(target) if current.device is source else transfer(current, target)


def in_training_mode(device: Any) -> bool:
    """Return True if code on a device is in training mode: the device, or one beneath it, is a plain `Autodiff`. Levels
    of `burnpy.func` do not count: a derivative of a function must not change its mode."""
    if device.inner is None:  # without a look at the base classes of a plain device, which takes a microsecond
        return False
    from burnpy.autodiff.autodiff import Autodiff  # at the top, it would load with burnpy

    while device is not None:
        if isinstance(device, Autodiff) and not device.level:
            return True
        device = device.inner
    return False
