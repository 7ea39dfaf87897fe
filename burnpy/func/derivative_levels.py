"""Levels: a new device for each derivative, created when its computation starts and closed when it ends.

A level is an `Autodiff` or `Forward` device that is not a singleton, on top of a base device: the innermost open level
if that is above the arguments, else the device of the arguments. Nested derivatives are therefore never confused,
whichever tensors they close over. `burnpy.tensor.levels` lifts tensors from beneath a level where they are combined
with tensors on it. With a single device, d/dx [x · d/dy (x · y)] at 3 would silently be 3; it is 6.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from burnpy.autodiff.recording import new_level
from burnpy.backend.backend import Backend
from burnpy.backend.devices import Itself, Subscriptable
from burnpy.backend.errors import EscapedError, KindError
from burnpy.backend.primitives import INEXACT, Value
from burnpy.backend.schema import declarations
from burnpy.tensor.levels import Door, common_device, levels_between, open_levels, raised, refuse_mixed
from burnpy.tensor.tensor_base import TensorBase, new_tensor


class Level:
    """A context manager that creates an `Autodiff` or `Forward` device on ``base``, and closes it on exit."""

    __slots__ = ("_before", "device")

    def __init__(self, kind: Any, api: str, base: Any) -> None:
        self.device: Any = new_level(kind, base)
        self.device.api = api
        self.device.door = Door(kind, ClosedLevel)

    def __enter__(self) -> Any:
        self._before = open_levels.get()
        open_levels.set((*self._before, self.device))
        self.device.door.open(self.device)
        return self.device

    def __exit__(self, *exception: object) -> None:
        open_levels.set(self._before)
        self.device.door.close(self.device)


class ClosedLevel(
    Subscriptable, Backend
):  # same bases as `Autodiff` and `Forward`, so that `__class__` can be assigned
    """The class of a level once the function that ran on it has returned.

    Tensors that escaped from the function can be displayed, but not computed with: the results could not be
    differentiated.
    """

    differentiates = True
    discrete: Any = Itself()  # of a level of `vmap`; a level that differentiates stores its own
    inner: Any
    api: str

    @property
    def name(self) -> str:
        """The name in messages, which contains the derivative's name."""
        return f"the closed level of {self.api}()"

    def refuse(self, operation: str) -> NoReturn:
        """Raise the error for an operation on an escaped tensor."""
        beside = "" if self.api == "vmap" else " or beside it (has_aux=True)"
        raise EscapedError(
            f"{operation}() got a tensor from inside of a function that {self.api}() called and that "
            f"has returned; return it from the function, as part of its result{beside}"
        )

    def lift(self, value: Value) -> NoReturn:
        """Raise an error: nothing can be lifted to a closed level."""
        self.refuse("lift")

    def lower(self, x: Any) -> Value:
        """Return the primitive of the device beneath."""
        return x.value

    def to_numpy(self, x: Any) -> Any:
        """Return the values, so that the tensor can be displayed."""
        return self.inner.to_numpy(x.value)


def _refusal(operation: str) -> Any:
    def refuse(self: ClosedLevel, *args: Any, **kwargs: Any) -> NoReturn:
        self.refuse(operation)

    refuse.__name__ = operation
    return refuse


for _name in declarations(Backend):
    if _name != "to_numpy":
        setattr(ClosedLevel, _name, _refusal(_name))


def base_for(api: str, tensors: Iterable[TensorBase[Any]], beneath: Any = None) -> Any:
    """Return the device on which to differentiate functions of ``tensors``.

    It is the innermost open level above all of them, or else the highest of their devices.

    Args:
        api: the function that is called, for messages.
        tensors: the tensors involved, of any kind.
        beneath: a device that must be beneath, or equal to, the result.
    """
    floats: list[Any] = [] if beneath is None else [beneath]
    discrete: list[Any] = []
    for x in tensors:
        (floats if x.kind in INEXACT else discrete).append(x._device)
    if not floats and not discrete:
        raise KindError(f"{api}() got no tensor to work with; pass at least one as an argument of the function")
    top = common_device(api, floats, discrete)
    for level in reversed(open_levels.get()):
        if levels_between(level, top) is not None:
            return level
    return top


def lowered(value: Any, level: Any) -> Any:
    """Lower a tensor from a level to the device beneath; return anything else unchanged."""
    if not isinstance(value, TensorBase) or value._device is not level:
        return value
    inner = level.inner
    if value.kind in INEXACT or level.lifts_discrete:
        return new_tensor(type(value), inner, level.lower(value._primitive))
    return new_tensor(type(value), inner, value._primitive)


def primitive_on(api: str, x: TensorBase[Any], device: Any) -> Value:
    """Return a float tensor's primitive, lifted to a device above its own."""
    if x._device is not device and common_device(api, (device, x._device)) is not device:
        refuse_mixed(api, device, x._device)
    return raised(x, device)._primitive
