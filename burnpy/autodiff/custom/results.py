"""Checks of the results of user code, with messages that name the function, the position, and both shapes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from burnpy.autodiff.custom.arguments import Kept, brought
from burnpy.autodiff.graph import absent
from burnpy.autodiff.return_errors import probable_cause
from burnpy.backend.errors import ArgumentError, DeviceError, DTypeError, KindError, ShapeError, a
from burnpy.backend.primitives import Float
from burnpy.backend.rules import PartialGrad
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import TensorBase, new_tensor


def misfit(returned: object, like: Kept, device: Any) -> Exception | None:
    """Return an error if a gradient or tangent is no float tensor of the expected shape, dtype and device, else None.

    The error's message is the end of a sentence that begins with the name of the function.
    """
    if not isinstance(returned, Tensor):
        shown = (
            a(type(returned).__name__)
            if isinstance(returned, TensorBase)
            else f"{type(returned).__name__} {returned!r:.80}"
        )
        return KindError(f"{shown}, where a Tensor of shape {like.shape} is needed")
    if returned.device is not device:
        hint = "; use .inner()" if returned.device.inner is device else ""
        return DeviceError(f"a tensor on {returned.device}, where one on {device} is needed{hint}")
    if returned.shape != like.shape:
        larger = math.prod(returned.shape) > math.prod(like.shape)
        return ShapeError(
            f"a tensor of shape {returned.shape}, where shape {like.shape} is needed; "
            + ("sum what was broadcast" if larger else "it has one element for each of the argument's")
        )
    if returned.dtype != like.dtype:
        return DTypeError(
            f"a tensor of dtype {returned.dtype}, where {like.dtype} is needed (shape {like.shape}); "
            f"convert it with .to_dtype('{like.dtype}')"
        )
    return None


def parts_of(
    who: str,
    what: str,
    returned: object,
    places: Sequence[Kept | None],
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
        places: the expected kind, shape and dtype of each; None for a place that is no tensor.
        device: the expected device.
        needed: for each place, whether a missing member becomes an `absent` part, for the engine.
        marked: for each place, whether it must be None although it is a float tensor.

    Raises:
        ArgumentError: the number of members is wrong.
        KindError, DeviceError, ShapeError, DTypeError: a member does not fit its place.
    """
    if isinstance(returned, list):
        raise KindError(f"{who} returned a list, where a tuple of {len(places)} is needed: a {what} or None for each")
    members: tuple[Any, ...] = returned if isinstance(returned, tuple) else (returned,)
    if len(members) > len(places) and all(m is None for m in members[len(places) :]):
        members = members[: len(places)]
    if len(members) != len(places):
        raise ArgumentError(
            f"{who} returned {len(members)} {what}{'' if len(members) == 1 else 's'}, where {len(places)} are needed: "
            "a tuple of one for each, None for what has none"
        )
    parts: list[Float | PartialGrad | None] = []
    for k, (value, place) in enumerate(zip(members, places, strict=True)):
        member: Any = brought(value, device) if isinstance(value, TensorBase) else value
        if member is None:
            is_needed = place is not None and needed is not None and needed[k]
            parts.append(PartialGrad(absent, place.shape, place.dtype) if is_needed and place is not None else None)
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
    """Return a float tensor of zeros with the shape and dtype of ``like``."""
    return new_tensor(Tensor, device, device.full(like.shape, 0.0, like.dtype))


def results_of(who: str, returned: object, device: Any) -> tuple[TensorBase[Any], ...]:
    """Check the results of user code and return them as a tuple of at least one tensor on a device.

    Raises:
        KindError: a result is no tensor, or there is none.
        DeviceError: a result is on another device.
    """
    members: tuple[Any, ...] = returned if isinstance(returned, tuple) else (returned,)
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
