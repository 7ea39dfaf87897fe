"""Arguments and results of user code across levels: arguments are lowered to inner devices, results lifted back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from burnpy.autodiff.autodiff import Autodiff
from burnpy.autodiff.forward.forward import Forward
from burnpy.backend.errors import DeviceError, KindError, a
from burnpy.backend.primitives import DType, Shape, Value
from burnpy.tensor.levels import levels_between, raised
from burnpy.tensor.operands import together
from burnpy.tensor.tensor_base import TensorBase, new_tensor


class Kept(NamedTuple):
    """The class, shape and dtype of a tensor, without its values."""

    cls: type[TensorBase[Any]]
    shape: Shape
    dtype: DType
    floats: bool  #: whether it can have a gradient


def kept_of(x: object) -> Kept | None:
    """Return the `Kept` of an argument or result; None if it is no tensor."""
    return kept_of_tensor(x) if isinstance(x, TensorBase) else None


def kept_of_tensor(x: TensorBase[Any]) -> Kept:
    """Return the `Kept` of a tensor."""
    primitive = x._primitive
    return Kept(x.__class__, primitive.shape, primitive.dtype, x.kind == "float")


def levels_of(device: Any) -> list[Any]:
    """Return the device and all devices beneath it, the plain one last.

    >>> from burnpy import Autodiff
    >>> from burnpy.backend import NumPy
    >>> levels_of(Autodiff(Autodiff(NumPy())))
    [Autodiff[Autodiff[NumPy]], Autodiff[NumPy], NumPy]
    """
    levels = [device]
    while levels[-1].differentiates:
        levels.append(levels[-1].inner)
    return levels


def lined_up(operation: str, arguments: Sequence[object]) -> tuple[Any, Sequence[Any]]:
    """Find the common device of the tensors among the arguments of user code, and lift the tensors to it.

    Returns the device, or None if there is no tensor; and the arguments, with tensors of inner levels lifted.

    Raises:
        DeviceError: the tensors are on several devices.
        KindError: a list, tuple or dict among the arguments contains tensors.
    """
    device, all_same = None, True
    for position, argument in enumerate(arguments):
        if isinstance(argument, TensorBase):
            all_same = all_same and (device is None or argument.device is device)
            device = argument.device
        elif isinstance(argument, (tuple, list, dict)) and _holds_tensors(argument):
            raise KindError(
                f"{operation}() got tensors inside of {a(type(argument).__name__)}, as argument {position}, "
                "where they would not be differentiated; pass each as an argument of its own: f(*xs)"
            )
    if all_same:
        return device, arguments
    lifted_tensors = iter(together(operation, *[a for a in arguments if isinstance(a, TensorBase)]))
    arguments = [next(lifted_tensors) if isinstance(a, TensorBase) else a for a in arguments]
    return next(a.device for a in arguments if isinstance(a, TensorBase)), arguments


def brought(x: TensorBase[Any], device: Any) -> TensorBase[Any]:
    """Lift a tensor, computed by user code from constants alone, to ``device`` if that is a level above its own."""
    if device is None or x._device is device or levels_between(device, x._device) is None:
        return x
    return raised(x, device)


def _holds_tensors(container: Any) -> bool:
    members: Iterable[Any] = container.values() if isinstance(container, dict) else container
    return any(isinstance(m, TensorBase) or (isinstance(m, (tuple, list, dict)) and _holds_tensors(m)) for m in members)


def tensor(kept: Kept, device: Any, primitive: Value) -> Any:
    """Wrap a primitive as a tensor of the class in ``kept``, on a device of the same chain of levels."""
    return new_tensor(kept.cls, device, primitive)


def lowered(device: Any, kept: Sequence[Kept | None], values: Sequence[Any]) -> list[Any]:
    """Lower float primitives one level; ints and bools, which have no levels, and plain values are unchanged."""
    return [device.lower(v) if k is not None and k.floats else v for k, v in zip(kept, values, strict=True)]


def lifted(device: Any, kept: Sequence[Kept | None], values: Sequence[Any]) -> list[Any]:
    """Lift primitives of the device beneath ``device`` to it, as constants."""
    return [device.lift(v) if k is not None and k.floats else v for k, v in zip(kept, values, strict=True)]


def tensors(device: Any, kept: Sequence[Kept | None], values: Sequence[Any]) -> tuple[Any, ...]:
    """Return arguments on one level: primitives wrapped as tensors, plain values unchanged."""
    return tuple([v if k is None else tensor(k, device, v) for k, v in zip(kept, values, strict=True)])


def primitives(arguments: Iterable[object]) -> list[Any]:
    """Return the arguments with tensors replaced by their primitives, plain values unchanged."""
    return [a._primitive if isinstance(a, TensorBase) else a for a in arguments]


def differentiated(operation: str, level: Any, kept: Sequence[Kept | None], values: Sequence[Any]) -> tuple[bool, ...]:
    """Return for each argument whether a level differentiates by it, i.e. whether it is tracked or has a tangent.

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
        raise DeviceError(f"{operation}() got tensors on {level}, which its derivative does not support")
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
"""The reverse-mode replacements of functions of `burnpy.func` that use forward mode."""


def in_reverse(level: Any) -> str:
    """Return the end of an error message about a missing forward rule: the reverse-mode alternative, if known."""
    api = getattr(level, "api", None)
    return f", or use {_IN_REVERSE[api]}, which needs none" if api in _IN_REVERSE else ""
