"""What user code returned: checked, with messages that name the function, the place, and both shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from burnpy.autodiff.custom.arguments import Kept, brought
from burnpy.autodiff.graph import PartialGrad, absent
from burnpy.autodiff.return_errors import probable_cause
from burnpy.backend.errors import ArgumentError, DeviceError, DTypeError, KindError, ShapeError, a
from burnpy.backend.primitives import Float
from burnpy.tensor.base import TensorBase, new_tensor
from burnpy.tensor.tensor import Tensor


def misfit(found: object, like: Kept, device: Any) -> Exception | None:
    """What is wrong with a gradient or tangent, which is to be a float tensor of a shape and dtype on a device.

    The error's message is the end of a sentence that names what was asked of whom.
    """
    if not isinstance(found, Tensor):
        shown = a(type(found).__name__) if isinstance(found, TensorBase) else f"{type(found).__name__} {found!r:.80}"
        return KindError(f"{shown}, where a Tensor of shape {like.shape} is needed")
    if found.device is not device:
        hint = "; use .inner()" if getattr(found.device, "inner", None) is device else ""
        return DeviceError(f"a tensor on {found.device}, where one on {device} is needed{hint}")
    if found.shape != like.shape:
        return ShapeError(
            f"a tensor of shape {found.shape}, where shape {like.shape} is needed; sum what was broadcast"
        )
    if found.dtype != like.dtype:
        return DTypeError(
            f"a tensor of dtype {found.dtype}, where {like.dtype} is needed (shape {like.shape}); "
            f"convert it with .to_dtype('{like.dtype}')"
        )
    return None


def parts_of(
    who: str,
    what: str,
    found: object,
    places: Sequence[Kept | None],
    device: Any,
    *,
    needed: Sequence[bool] | None = None,
    marked: Sequence[bool] | None = None,
) -> list[Float | PartialGrad | None]:
    """The primitives of what user code returned: one for each place, None where nothing was given and nothing needed.

    Args:
        who: whose result it is, ``Exp.backward()``.
        what: what its members are called, "gradient" or "tangent".
        found: a member, or the tuple of as many as there are places.
        places: what each place is like; None for what is no tensor.
        device: where the members are to be.
        needed: for which places None is a part that is `absent`, for the engine.
        marked: which places are to have none though they are float tensors.

    Raises:
        ArgumentError: another number of members.
        KindError, DeviceError, ShapeError, DTypeError: a member that is not like its place.
    """
    if isinstance(found, list):
        raise KindError(f"{who} returned a list, where a tuple of {len(places)} is needed: a {what} or None for each")
    members: tuple[Any, ...] = found if isinstance(found, tuple) else (found,)
    if len(members) > len(places) and all(m is None for m in members[len(places) :]):
        members = members[: len(places)]
    if len(members) != len(places):
        raise ArgumentError(
            f"{who} returned {len(members)} {what}{'' if len(members) == 1 else 's'}, where {len(places)} are needed: "
            "a tuple of one for each, None for what has none"
        )
    parts: list[Float | PartialGrad | None] = []
    for k, (returned, place) in enumerate(zip(members, places, strict=True)):
        member: Any = brought(returned, device) if isinstance(returned, TensorBase) else returned
        if member is None:
            asked = place is not None and needed is not None and needed[k]
            parts.append(PartialGrad(absent, place.shape, place.dtype) if asked and place is not None else None)
            continue
        if place is None or not place.floats or (marked is not None and marked[k]):
            kind = "no tensor" if place is None else a(place.cls.__name__)
            if place is not None and place.floats:
                kind = "marked as non-differentiable"
            raise KindError(
                f"{who} returned {what} {k} for what is {kind} and has none: it must be None, not {_shown(member)}"
            )
        error = misfit(member, place, device)
        if error is not None:
            raise type(error)(f"{who} returned as {what} {k} {error}")
        parts.append(member._primitive)
    return parts


def zero_like(like: Kept, device: Any) -> Any:
    """A float tensor of zeros."""
    return new_tensor(Tensor, device, device.full(like.shape, 0.0, like.dtype))


def results_of(who: str, found: object, device: Any) -> tuple[TensorBase[Any], ...]:
    """What user code computed, as a tuple of tensors, at least one, on a device.

    Raises:
        KindError: something else is among it.
        DeviceError: a tensor of another device.
    """
    members: tuple[Any, ...] = found if isinstance(found, tuple) else (found,)
    if not members:
        raise KindError(f"{who} returned an empty tuple; return a tensor, or a tuple of some")
    outs = []
    for k, member in enumerate(members):
        if not isinstance(member, TensorBase):
            raise KindError(
                f"{who} returned {_shown(member)} as result {k}{probable_cause(member)}; "
                "return a tensor, or a tuple of some"
            )
        out = brought(member, device)
        if device is not None and out.device is not device:
            raise DeviceError(
                f"{who} returned as result {k} a tensor on {out.device}, and was given tensors on {device}; "
                "compute it of the arguments alone"
            )
        outs.append(out)
    return tuple(outs)


def regrouped(found: object, outs: Sequence[Any]) -> Any:
    """The results, single or in a tuple (a named one too) as ``found`` was."""
    if not isinstance(found, tuple):
        return outs[0]
    make: Callable[[Sequence[Any]], Any] = getattr(type(found), "_make", tuple)
    return make(outs)


def _shown(x: object) -> str:
    return f"{type(x).__name__} of shape {x.shape}" if isinstance(x, TensorBase) else f"{type(x).__name__} {x!r:.80}"
