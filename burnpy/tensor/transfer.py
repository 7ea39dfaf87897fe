"""Transfer of tensors between devices, without a copy between a device and the levels on top of it."""

from __future__ import annotations

from typing import Any

from burnpy.autodiff.autodiff import Autodiff
from burnpy.backend.primitives import INEXACT
from burnpy.tensor.tensor_base import TensorBase, new_tensor


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
    """Return True if code on a device is in training mode: the device, or one beneath it, is a plain `Autodiff`.

    Levels of `burnpy.func` do not count: a derivative of a function must not change its mode.
    """
    while device is not None:
        if isinstance(device, Autodiff) and not device.level:
            return True
        device = device.inner
    return False
