"""Checks of settings that are numbers, such as learning rates and decay rates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from burnpy.backend.errors import ArgumentError, a
from burnpy.tensor.levels import beneath_levels, plain_device
from burnpy.tensor.operands import MOST_FLOAT
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import describe

Ranges: TypeAlias = Mapping[str, Callable[[Any, str], object]]
"""Checks of settings by name: functions of a value and of its name in messages, such as those below."""


def check_ranges(owner: object, ranges: Ranges) -> None:
    """Check the settings of an object by a table.

    Raises:
        ArgumentError: a setting is out of its range.
    """
    for name, checked in ranges.items():
        checked(getattr(owner, name), f"{type(owner).__name__}({name}=)")


def number(value: Any, what: str) -> float:
    """Return a Python or NumPy number as a Python number. ``what`` names it in messages.

    Raises:
        ArgumentError: the value is not a number, is NaN, or is an int that no float can hold.
    """
    if isinstance(value, (np.floating, np.integer)):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        hint = "; pass x.item() of a tensor" if hasattr(value, "item") else ""
        if hasattr(value, "named_params"):
            hint = "; the rate comes first: model = optim.step(1e-3, model, grads)"
        if callable(value) and hasattr(value, "at"):
            hint = "; pass the rate of a step: schedule(step)"
        shown = (
            f"{describe(value)}"
            if isinstance(value, (str, bool, complex, bytes, type(None)))
            else f"{a(type(value).__name__)}"
        )
        raise ArgumentError(f"{what} is a number, got {shown}{hint}")
    try:
        nan = math.isnan(value)
    except OverflowError:
        raise ArgumentError(f"{what} is {describe(value)}, which is too large for a float") from None
    if nan:
        raise ArgumentError(f"{what} is NaN")
    return value


def number_or_tensor(value: Any, device: Any, what: str, checked: Callable[[float], tuple[float]]) -> Any:
    """Return a number, also that in a 0-d tensor; of a recording a 0-d primitive, which each replay checks.

    Args:
        value: the number or tensor.
        device: the plain device that computes with it.
        what: the name of the number in messages.
        checked: a function of a module that returns it, or raises an error.

    Raises:
        ArgumentError: the value is a tensor with dimensions.
    """
    if not isinstance(value, Tensor):
        return checked(value)[0]
    if value.shape:
        raise ArgumentError(f"{what} is a number or a 0-d tensor, got a tensor of shape {value.shape}")
    if device.stands_for is None:
        return checked(value.detach().item())[0]
    primitive, source = beneath_levels(value._device, value._primitive), plain_device(value._device)
    if source.stands_for is None:  # from outside of the recording
        primitive = device.transfer_from(primitive, source)
    return device.on_host(checked, (primitive,))[0]


def at_least_zero(value: Any, what: str) -> float:
    """Return a finite, non-negative number.

    Raises:
        ArgumentError: the value is something else.
    """
    checked = number(value, what)
    if not 0 <= checked < math.inf:
        raise ArgumentError(f"{what} is {value!r}; expected a finite number that is not negative")
    return checked


def fraction(value: Any, what: str) -> float:
    """Return a number in [0, 1).

    Raises:
        ArgumentError: the value is something else.
    """
    checked = number(value, what)
    if not 0 <= checked < 1:
        raise ArgumentError(f"{what} is {value!r}; expected a number of at least 0 and less than 1")
    return checked


def flag(value: object, what: str) -> None:
    """Check that a value is True or False.

    Raises:
        ArgumentError: the value is something else.
    """
    if not isinstance(value, bool):
        raise ArgumentError(f"{what} is {value!r:.80}; expected True or False")


def decay_rates(value: object, what: str) -> None:
    """Check a pair of decay rates of averages, each in [0, 1).

    Raises:
        ArgumentError: the value is something else.
    """
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise ArgumentError(f"{what} is {describe(value)}; expected a pair such as (0.9, 0.999)")
    for rate in value:
        fraction(rate, f"one of {what.removesuffix(')')}{describe(value)})")


def count(value: Any, what: str, *, least: int = 1) -> int:
    """Return an int of at least ``least``.

    Raises:
        ArgumentError: the value is something else.
    """
    if isinstance(value, np.integer):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ArgumentError(f"{what} is {describe(value)}; expected an int of {least} or more")
    if value > MOST_FLOAT:  # schedules compute with floats
        raise ArgumentError(f"{what} is {describe(value)}, which is too large for a float")
    return value
