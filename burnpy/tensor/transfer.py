"""Tensors from one device to another, up and down the levels without a copy where one is on top of the other."""

from __future__ import annotations

from typing import Any

from burnpy.autodiff.autodiff import Autodiff
from burnpy.tensor.base import TensorBase, new_tensor


def transfer(x: TensorBase[Any], target: Any) -> Any:
    """An untracked tensor on another device: in the same memory where one device is a level of the other."""
    source = x.device
    if target is source:
        return x
    levels = []
    beneath = target
    while beneath is not source and hasattr(beneath, "lift"):
        levels.append(beneath)
        beneath = beneath.inner
    if beneath is source:
        primitive = x._primitive
        if x.kind == "float":
            for level in reversed(levels):
                primitive = level.lift(primitive)
        return new_tensor(type(x), target, primitive)
    lower: Any = x
    while hasattr(lower.device, "lower"):
        lower = lower.inner()
        if lower.device is target:
            return lower
    return lower.to_device(target) if lower.device is source else transfer(lower, target)


def differentiates(device: Any) -> bool:
    """Whether what runs on a device is training: it, or a device beneath, is an `Autodiff` that is no level of
    `burnpy.func`, whose derivatives leave a function as it is."""
    while device is not None:
        if isinstance(device, Autodiff) and not device.level:
            return True
        device = getattr(device, "inner", None)
    return False
