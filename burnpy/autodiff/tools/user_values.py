"""The values that cross user code on all levels: arguments lowered, results checked and lifted, residuals kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from burnpy.autodiff.autodiff import Autodiff
from burnpy.autodiff.forward import Forward
from burnpy.autodiff.graph import absent
from burnpy.autodiff.tools.user_code import map_members, probable_cause, tensors_in
from burnpy.backend.errors import ArgumentError, DeviceError, DTypeError, KindError, ShapeError, a
from burnpy.backend.primitives import INEXACT, DType, Float, Shape, Value
from burnpy.backend.rules import PartialGrad
from burnpy.tensor.levels import levels_between, raised
from burnpy.tensor.operand_checks import together
from burnpy.tensor.tensor import DIFFERENTIABLE
from burnpy.tensor.tensor_base import TensorBase, new_tensor, tensor_of


class TensorSpec(NamedTuple):
    """The class, shape and dtype of a tensor, without its values."""

    cls: type[TensorBase[Any]]
    shape: Shape
    dtype: DType
    floats: bool  #: whether it can have a gradient


def spec_of(x: object) -> TensorSpec | None:
    """Return the `TensorSpec` of an argument or result; None if it is not a tensor."""
    return spec_of_tensor(x) if isinstance(x, TensorBase) else None


def spec_of_tensor(x: TensorBase[Any]) -> TensorSpec:
    """Return the `TensorSpec` of a tensor."""
    primitive = x._primitive
    return TensorSpec(x.__class__, primitive.shape, primitive.dtype, x.kind in INEXACT)


def devices_of(device: Any) -> list[Any]:
    """Return the device and all devices beneath it, down to a plain one or to a level of `vmap`, whose examples the
    user's code computes together.

    >>> devices_of(Autodiff(Autodiff(NumPy())))
    [Autodiff[Autodiff[NumPy]], Autodiff[NumPy], NumPy]
    """
    devices = [device]
    while devices[-1].differentiates and not devices[-1].lifts_discrete:
        devices.append(devices[-1].inner)
    return devices


def lined_up(operation: str, arguments: Sequence[object]) -> tuple[Any, Sequence[Any]]:
    """Find the common device of the tensors among the arguments of user code, and lift the tensors to it. Returns the
    device, or None if there is no tensor; and the arguments, with tensors of inner levels lifted."""
    device, all_same = None, True
    for position, argument in enumerate(arguments):
        if isinstance(argument, TensorBase):
            all_same = all_same and (device is None or argument.device is device)
            device = argument.device
        elif any(True for _ in tensors_in(argument)):
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


def tensor(spec: TensorSpec, device: Any, primitive: Value) -> Any:
    """Wrap a primitive as a tensor of the class in ``spec``, on a device of the same chain of levels."""
    return new_tensor(spec.cls, device, primitive)


def lowered(device: Any, specs: Sequence[TensorSpec | None], values: Sequence[Any]) -> list[Any]:
    """Lower float primitives one level; ints and bools, which have no levels, and plain values are unchanged."""
    return [device.lower(v) if s is not None and s.floats else v for s, v in zip(specs, values, strict=True)]


def lowered_tensor(x: TensorBase[Any], level: Any) -> Any:
    """Return a tensor of a level on the device beneath it."""
    return new_tensor(type(x), level.inner, level.lower(x._primitive) if x.kind in INEXACT else x._primitive)


def lifted(device: Any, specs: Sequence[TensorSpec | None], values: Sequence[Any]) -> list[Any]:
    """Lift primitives of the device beneath ``device`` to it, as constants."""
    return [device.lift(v) if s is not None and s.floats else v for s, v in zip(specs, values, strict=True)]


def tensors(device: Any, specs: Sequence[TensorSpec | None], values: Sequence[Any]) -> tuple[Any, ...]:
    """Return arguments on one level: primitives wrapped as tensors, plain values unchanged."""
    return tuple([v if s is None else tensor(s, device, v) for s, v in zip(specs, values, strict=True)])


def primitives(arguments: Iterable[object]) -> list[Any]:
    """Return the arguments with tensors replaced by their primitives, plain values unchanged."""
    return [a._primitive if isinstance(a, TensorBase) else a for a in arguments]


def differentiated(
    operation: str, level: Any, specs: Sequence[TensorSpec | None], values: Sequence[Any]
) -> tuple[bool, ...]:
    """Return for each argument whether a level differentiates it, i.e. whether it is tracked or has a tangent."""
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
        return (False,) * len(specs)
    return tuple(
        [s is not None and s.floats and getattr(v, attribute) is not None for s, v in zip(specs, values, strict=True)]
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


def mismatch(returned: object, spec: TensorSpec, device: Any) -> Exception | None:
    """Return an error if a gradient or tangent is not a float tensor with the expected shape, dtype and device. The
    error's message is the end of a sentence that begins with the name of the function."""
    if not isinstance(returned, DIFFERENTIABLE):
        shown = (
            a(type(returned).__name__)
            if isinstance(returned, TensorBase)
            else f"{type(returned).__name__} {returned!r:.80}"
        )
        return KindError(f"{shown}, where a Tensor of shape {spec.shape} is needed")
    if returned.device is not device:
        hint = "; use .inner()" if returned.device.inner is device else ""
        return DeviceError(f"a tensor on {returned.device}, where one on {device} is needed{hint}")
    if returned.shape != spec.shape:
        larger = math.prod(returned.shape) > math.prod(spec.shape)
        return ShapeError(
            f"a tensor of shape {returned.shape}, where shape {spec.shape} is needed; "
            + ("sum what was broadcast" if larger else "it has one element for each of the argument's")
        )
    if returned.dtype != spec.dtype:
        return DTypeError(
            f"a tensor of dtype {returned.dtype}, where {spec.dtype} is needed (shape {spec.shape}); "
            f"convert it with .to_dtype('{spec.dtype}')"
        )
    return None


def parts_of(
    who: str,
    what: str,
    returned: object,
    places: Sequence[TensorSpec | None],
    device: Any,
    *,
    needed: Sequence[bool] | None = None,
    marked: Sequence[bool] | None = None,
) -> list[Float | PartialGrad | None]:
    """Check the gradients or tangents that user code returned and return their primitives, one for each place.

    A missing one is None if it is not needed.

    Args:
        who: the function that returned them, for messages, such as ``Exp.backward()``.
        what: the name of a member, "gradient" or "tangent".
        returned: a single member, or the tuple of one for each place.
        places: the expected kind, shape and dtype of each; None for a place that is not a tensor.
        device: the expected device.
        needed: for each place, whether a missing member becomes an `absent` part, for the engine.
        marked: for each place, whether it must be None although it is a float tensor.
    """
    if isinstance(returned, list):
        raise KindError(f"{who} returned a list, expected a tuple of {len(places)}, with a {what} or None for each")
    members: tuple[Any, ...] = returned if isinstance(returned, tuple) else (returned,)
    if len(members) > len(places) and all(m is None for m in members[len(places) :]):
        members = members[: len(places)]
    if len(members) != len(places):
        raise ArgumentError(
            f"{who} returned {len(members)} {what}{'' if len(members) == 1 else 's'}, expected {len(places)}: "
            f"a tuple with a {what} or None for each"
        )
    parts: list[Float | PartialGrad | None] = []
    for k, (value, place) in enumerate(zip(members, places, strict=True)):
        member: Any = brought(value, device) if isinstance(value, TensorBase) else value
        if member is None:
            is_needed = place is not None and needed is not None and needed[k]
            parts.append(PartialGrad(absent, place.shape, place.dtype) if is_needed and place is not None else None)
            continue
        if place is None or not place.floats or (marked is not None and marked[k]):
            kind = "not a tensor" if place is None else a(place.cls.__name__)
            if place is not None and place.floats:
                kind = "marked as non-differentiable"
            raise KindError(
                f"{who} returned {what} {k} for a value that is {kind}; expected None, got {_shown(member)}"
            )
        error = mismatch(member, place, device)
        if error is not None:
            raise type(error)(f"{who} returned as {what} {k} {error}")
        parts.append(member._primitive)
    return parts


def zero_like(spec: TensorSpec, device: Any) -> Any:
    """Return a float tensor of zeros with the shape and dtype of ``spec``."""
    return tensor_of(device, device.full(spec.shape, 0.0, spec.dtype))


def results_of(who: str, returned: object, device: Any) -> tuple[TensorBase[Any], ...]:
    """Check the results of user code and return them as a tuple of at least one tensor on a device."""
    members: tuple[Any, ...] = returned if isinstance(returned, tuple) else (returned,)
    if not members:
        raise KindError(f"{who} returned an empty tuple; return a tensor, or a tuple of tensors")
    outs = []
    for k, member in enumerate(members):
        if not isinstance(member, TensorBase):
            raise KindError(
                f"{who} returned {_shown(member)} as result {k}{probable_cause(member)}; "
                "return a tensor, or a tuple of tensors"
            )
        out = brought(member, device)
        if device is not None and out.device is not device:
            raise DeviceError(
                f"{who} returned result {k} on {out.device}, but its arguments are on {device}; "
                "compute results from the arguments alone"
            )
        outs.append(out)
    return tuple(outs)


def regrouped(returned: object, outs: Sequence[Any]) -> Any:
    """Return the results in the form of ``returned``: a single one, a tuple or a named tuple."""
    if not isinstance(returned, tuple):
        return outs[0]
    make: Callable[[Sequence[Any]], Any] = getattr(type(returned), "_make", tuple)
    return make(outs)


def _shown(x: object) -> str:
    return f"{type(x).__name__} of shape {x.shape}" if isinstance(x, TensorBase) else f"{type(x).__name__} {x!r:.80}"


class ResidualSlot:
    """A placeholder for a tensor in the residuals."""

    __slots__ = ("index", "spec")

    def __init__(self, index: int, spec: TensorSpec) -> None:
        self.index = index
        self.spec = spec


def packed(who: str, tree: Any, device: Any, values: list[Value]) -> Any:
    """Replace each tensor in a tree by a `ResidualSlot`; the primitives are appended to ``values``."""

    def pack(residual: TensorBase[Any]) -> ResidualSlot:
        x = brought(residual, device)
        if x.device is not device:
            raise DeviceError(
                f"{who} returned a residual on {x.device}, but its arguments are on {device}; "
                "compute residuals from the arguments alone"
            )
        values.append(x._primitive)
        return ResidualSlot(len(values) - 1, spec_of_tensor(x))

    return map_members(TensorBase, pack, tree)


def unpacked(tree: Any, device: Any, values: tuple[Value, ...]) -> Any:
    """Replace each slot in a tree by the tensor of its primitive in ``values``."""
    return map_members(ResidualSlot, lambda slot: tensor(slot.spec, device, values[slot.index]), tree)
