"""Which arguments of a call are on which devices, for the error of tensors on two of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from burnpy.backend.errors import DeviceError


def name_arguments(
    error: DeviceError, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    """Name in the error, in place of the tensors' order, the first argument of a call on each of the two devices.

    The error of an inner call keeps its names if the outer one has no such arguments. The tensor itself of a method is
    called x, as in all messages.
    """
    if error.mixed is None:
        return
    message, devices = error.mixed
    names: dict[int, str] = {}
    for name, x in _tensors(function, args, kwargs):
        names.setdefault(id(x.device), name)
    if all(id(device) in names for device in devices):
        error.args = (message.format(*[names[id(device)] for device in devices]),)


def _tensors(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the tensors among the arguments of a call, with their names."""
    for name, value in inspect.signature(function).bind(*args, **kwargs).arguments.items():
        shown = "x" if name == "self" else name
        if _is_tensor(value):
            yield shown, value
        elif isinstance(value, (list, tuple)):
            yield from ((f"{shown}[{k}]", each) for k, each in enumerate(value) if _is_tensor(each))


def _is_tensor(value: object) -> bool:
    return hasattr(value, "_primitive") and hasattr(value, "device")
