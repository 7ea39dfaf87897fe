"""Levels: a device for each derivative that is being taken, made when it begins and closed when it has been taken.

A level is an `Autodiff` or `Forward` device that is nobody else's, on top of the device that the derivative is taken
on: the innermost level that is open here, where that is above the arguments. So derivatives inside of each other are
never confused, whichever tensors they close over. `burnpy.tensor.levels` lifts what lies beneath a level where the two
meet. With one device for all, d/dx [x · d/dy (x · y)] at 3 would silently be 3; it is 6.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from burnpy.autodiff.modes import next_level
from burnpy.backend.alias import Subscriptable
from burnpy.backend.backend import Backend
from burnpy.backend.errors import EscapedError, KindError
from burnpy.backend.primitives import Value
from burnpy.backend.schema import declarations
from burnpy.tensor.base import TensorBase, new_tensor
from burnpy.tensor.levels import Door, common_device, levels_between, open_levels, raised, refuse_mixed


class Level:
    """A level for the length of a ``with`` block. It is an `Autodiff` or `Forward` device on ``base``."""

    __slots__ = ("_before", "device")

    def __init__(self, kind: Any, api: str, base: Any) -> None:
        self.device: Any = kind.unregistered(base)
        self.device.level = next_level()
        self.device.api = api
        self.device.door = Door(kind, Closed)

    def __enter__(self) -> Any:
        self._before = open_levels.get()
        open_levels.set((*self._before, self.device))
        self.device.door.open(self.device)
        return self.device

    def __exit__(self, *exception: object) -> None:
        open_levels.set(self._before)
        self.device.door.close(self.device)


class Closed(Subscriptable, Backend):  # bases as those of `Autodiff` and `Forward`, whose instances become its own
    """What a level becomes once the function that ran on it has returned, for the tensors that escaped from it.

    They can be looked at, not computed with: nothing would ever differentiate what is made of them.
    """

    inner: Any
    level: int
    api: str

    @property
    def name(self) -> str:
        """Of which derivative it was."""
        return f"the closed level of {self.api}()"

    def refuse(self, operation: str) -> NoReturn:
        """Say what happened.

        Raises:
            EscapedError: always.
        """
        raise EscapedError(
            f"{operation}() was asked of a tensor from inside of a function that {self.api}() differentiated and that "
            "has returned; return it from the function, as part of its result or beside it (has_aux=True)"
        )

    def lift(self, value: Value) -> NoReturn:
        """Refuse: nothing can be lifted to it any more."""
        self.refuse("lift")

    def lower(self, x: Any) -> Value:
        """The primitive of the device beneath."""
        return x.value

    def to_numpy(self, x: Any) -> Any:
        """The values, so that the tensor can be shown."""
        return self.inner.to_numpy(x.value)


def _refusal(operation: str) -> Any:
    def refuse(self: Closed, *args: Any, **kwargs: Any) -> NoReturn:
        self.refuse(operation)

    refuse.__name__ = operation
    return refuse


for _name in declarations(Backend):
    if _name != "to_numpy":
        setattr(Closed, _name, _refusal(_name))


def base_for(api: str, tensors: Iterable[TensorBase[Any]], beneath: Any = None) -> Any:
    """The device that a derivative by or of ``tensors`` is taken on: the innermost open level above all of them, or
    else the device of the highest.

    Args:
        api: who asks.
        tensors: what takes part, of any kind.
        beneath: a device that must be below, or be, the one that is found.

    Raises:
        KindError: there is no tensor at all.
        DeviceError: they are on several devices, none of which is a level above the others.
        EscapedError: one is of a level that was closed.
    """
    devices = [x._device for x in tensors] + ([] if beneath is None else [beneath])
    if not devices:
        raise KindError(f"{api}() was given no tensor to work with; pass at least one as an argument of the function")
    top = common_device(api, devices)
    for level in reversed(open_levels.get()):
        if levels_between(level, top) is not None:
            return level
    return top


def lowered(value: Any, level: Any) -> Any:
    """A tensor of a level on the device beneath; anything else as it is."""
    if not isinstance(value, TensorBase) or value._device is not level:
        return value
    inner = level.inner
    if value.kind == "float":
        return new_tensor(type(value), inner, level.lower(value._primitive))
    return new_tensor(type(value), inner, value._primitive)


def primitive_on(api: str, x: TensorBase[Any], device: Any) -> Value:
    """A float tensor's primitive, lifted to a device above its own.

    Raises:
        DeviceError: it is on no device beneath.
        EscapedError: it is of a level that was closed.
    """
    if x._device is not device and common_device(api, (device, x._device)) is not device:
        refuse_mixed(api, device, x._device)
    return raised(x, device)._primitive
