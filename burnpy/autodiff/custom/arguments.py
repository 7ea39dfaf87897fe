"""What stands between user code and the devices below: arguments taken down a level, results brought up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from burnpy.autodiff.autodiff import Autodiff
from burnpy.autodiff.forward.forward import Forward
from burnpy.backend.errors import DeviceError, KindError, a
from burnpy.backend.primitives import DType, Shape, Value
from burnpy.tensor.base import TensorBase, new_tensor
from burnpy.tensor.levels import levels_between, raised
from burnpy.tensor.operands import together


class Kept(NamedTuple):
    """What is remembered of a tensor."""

    cls: type[TensorBase[Any]]
    shape: Shape
    dtype: DType
    floats: bool  #: whether it can have a gradient


def kept_of(x: object) -> Kept | None:
    """What is remembered of an argument or result; None of what is no tensor."""
    return kept_of_tensor(x) if isinstance(x, TensorBase) else None


def kept_of_tensor(x: TensorBase[Any]) -> Kept:
    """What is remembered of a tensor."""
    primitive = x._primitive
    return Kept(x.__class__, primitive.shape, primitive.dtype, x.kind == "float")


def levels_of(device: Any) -> list[Any]:
    """The device and all that lie beneath it, the plain one last.

    >>> from burnpy import Autodiff
    >>> from burnpy.backend import NumPy
    >>> levels_of(Autodiff(Autodiff(NumPy())))
    [Autodiff[Autodiff[NumPy]], Autodiff[NumPy], NumPy]
    """
    found = [device]
    while hasattr(found[-1], "lower"):
        found.append(found[-1].inner)
    return found


def lined_up(operation: str, arguments: Sequence[object]) -> tuple[Any, Sequence[Any]]:
    """The device of the tensors among the arguments of user code, None where there is no tensor; and the arguments,
    the tensors lifted to that device where it is a level above theirs.

    Raises:
        DeviceError: they are on several devices.
        KindError: a list, tuple or dict among them contains tensors.
    """
    device, alike = None, True
    for position, argument in enumerate(arguments):
        if isinstance(argument, TensorBase):
            alike = alike and (device is None or argument.device is device)
            device = argument.device
        elif isinstance(argument, (tuple, list, dict)) and _holds_tensors(argument):
            raise KindError(
                f"{operation}() was given tensors inside of {a(type(argument).__name__)}, as argument {position}, "
                "where they would not be differentiated; pass each as an argument of its own: f(*xs)"
            )
    if alike:
        return device, arguments
    found = iter(together(operation, *[a for a in arguments if isinstance(a, TensorBase)]))
    arguments = [next(found) if isinstance(a, TensorBase) else a for a in arguments]
    return next(a.device for a in arguments if isinstance(a, TensorBase)), arguments


def brought(x: TensorBase[Any], device: Any) -> TensorBase[Any]:
    """A tensor lifted to ``device``, where that is a level above its own: what user code made of constants alone."""
    if device is None or x._device is device or levels_between(device, x._device) is None:
        return x
    return raised(x, device)


def _holds_tensors(container: Any) -> bool:
    members: Iterable[Any] = container.values() if isinstance(container, dict) else container
    return any(isinstance(m, TensorBase) or (isinstance(m, (tuple, list, dict)) and _holds_tensors(m)) for m in members)


def tensor(kept: Kept, device: Any, primitive: Value) -> Any:
    """A tensor like the one remembered, on a device of the same chain."""
    return new_tensor(kept.cls, device, primitive)


def lowered(device: Any, kept: Sequence[Kept | None], values: Sequence[Any]) -> list[Any]:
    """Primitives of a device one level down; ints and bools, which have no levels, and plain values as they are."""
    return [device.lower(v) if k is not None and k.floats else v for k, v in zip(kept, values, strict=True)]


def lifted(device: Any, kept: Sequence[Kept | None], values: Sequence[Any]) -> list[Any]:
    """Primitives of the device beneath ``device`` one level up, as constants."""
    return [device.lift(v) if k is not None and k.floats else v for k, v in zip(kept, values, strict=True)]


def tensors(device: Any, kept: Sequence[Kept | None], values: Sequence[Any]) -> tuple[Any, ...]:
    """Arguments on one level: tensors of the primitives, and plain values as they are."""
    return tuple([v if k is None else tensor(k, device, v) for k, v in zip(kept, values, strict=True)])


def primitives(arguments: Iterable[object]) -> list[Any]:
    """The primitives of the tensors among the arguments, and plain values as they are."""
    return [a._primitive if isinstance(a, TensorBase) else a for a in arguments]


def differentiated(operation: str, level: Any, kept: Sequence[Kept | None], values: Sequence[Any]) -> tuple[bool, ...]:
    """For each argument whether a level differentiates by it: whether it is tracked, or has a tangent.

    Raises:
        EscapedError: the function that ran on the level has returned.
        DeviceError: the level is neither `Autodiff` nor `Forward`.
    """
    if isinstance(level, Autodiff):
        attribute = "node"
    elif isinstance(level, Forward):
        attribute = "tangent"
    else:
        if hasattr(level, "refuse"):  # a level whose function has returned
            level.refuse(operation)
        raise DeviceError(f"{operation}() was given tensors on {level}, through which it knows no derivative")
    mode = level.mode()
    if mode is not None and mode.silences(level.level):
        return (False,) * len(kept)
    return tuple(
        [k is not None and k.floats and getattr(v, attribute) is not None for k, v in zip(kept, values, strict=True)]
    )


_IN_REVERSE = {
    "hessian": 'hessian(f, mode="reverse-over-reverse")',
    "hvp": "vhp()",
    "jacfwd": "jacrev()",
    "jacobian": 'jacobian(f, mode="reverse")',
    "jvp": "vjp()",
}
"""For functions of `burnpy.func` that take derivatives in forward mode, what takes them in reverse."""


def in_reverse(level: Any) -> str:
    """The end of a sentence that says that something has no forward rule: what to use instead, where it is known."""
    api = getattr(level, "api", None)
    return f", or use {_IN_REVERSE[api]}, which needs none" if api in _IN_REVERSE else ""
