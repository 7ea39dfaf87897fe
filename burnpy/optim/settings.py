"""The settings of optimizers: their checks, and `Group`, settings of a part of the parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from burnpy.backend.errors import ArgumentError, a
from burnpy.nn.param import Param
from burnpy.nn.transform import Where, selected
from burnpy.tensor.call_errors import Explaining
from burnpy.tensor.levels import beneath_levels, plain_device
from burnpy.tensor.operand_checks import MOST_FLOAT
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import describe

if TYPE_CHECKING:
    from burnpy.nn.module_base import ModuleBase
    from burnpy.optim.optimizer import Optimizer
    from burnpy.optim.update_formula import Step

Ranges: TypeAlias = Mapping[str, Callable[[Any, str], object]]
"""Checks of settings by name: functions of a value and of its name in messages, such as those below."""


def check_ranges(owner: object, ranges: Ranges) -> None:
    """Check the settings of an object by a table."""
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
        plain = isinstance(value, (str, bool, complex, bytes, type(None)))
        shown = describe(value) if plain else a(type(value).__name__)
        raise ArgumentError(f"{what} must be a number, got {shown}{hint}")
    try:
        nan = math.isnan(value)
    except OverflowError:
        raise ArgumentError(f"{what} is {describe(value)}, which is too large for a float") from None
    if nan:
        raise ArgumentError(f"{what} is NaN; expected a number")
    return value


def number_or_tensor(value: Any, device: Any, what: str, checked: Callable[[float], tuple[float]]) -> Any:
    """Return a number, also that in a 0-d tensor; of a recording a 0-d primitive, which each replay checks.

    Args:
        value: the number or tensor.
        device: the plain device that computes with it.
        what: the name of the number in messages.
        checked: a function of a module that returns it, or raises an error.
    """
    if not isinstance(value, Tensor):
        return checked(value)[0]
    if value.shape:
        raise ArgumentError(f"{what} must be a number or a 0-d tensor, got a tensor of shape {value.shape}")
    if device.stands_for is None:
        return checked(value.detach().item())[0]
    primitive, source = beneath_levels(value._device, value._primitive), plain_device(value._device)
    if source.stands_for is None:  # from outside of the recording
        primitive = device.transfer_from(primitive, source)
    return device.on_host(checked, (primitive,))[0]


def at_least_zero(value: Any, what: str) -> float:
    """Return a finite, non-negative number."""
    checked = number(value, what)
    if not 0 <= checked < math.inf:
        raise ArgumentError(f"{what} is {value!r}; expected a finite number that is not negative")
    return checked


def fraction(value: Any, what: str) -> float:
    """Return a number in [0, 1)."""
    checked = number(value, what)
    if not 0 <= checked < 1:
        raise ArgumentError(f"{what} is {value!r}; expected a number of at least 0 and less than 1")
    return checked


def decay_rates(value: object, what: str) -> None:
    """Check a pair of decay rates of averages, each in [0, 1)."""
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


@dataclass(frozen=True)
class Group(metaclass=Explaining):
    """A selection of parameters with settings that differ from the optimizer's; other settings stay the optimizer's.

    A parameter may be in several groups that set different things: ``Group("*.bias", weight_decay=0.0)`` and
    ``Group("encoder", lr_scale=0.1)`` both apply to ``encoder.0.bias``. Two groups that set the same thing of one
    parameter are an error at the first step.

    Args:
        where: the parameters: a path (``"encoder"``, including all below it), a pattern (``"*.bias"``), several of
            these, or a predicate of path and parameter.
        lr: a fixed learning rate, in place of `Optimizer.step`'s.
        lr_scale: a factor of the learning rate of `Optimizer.step`.
        weight_decay: the weight decay, in place of the optimizer's.

    Raises:
        ArgumentError: a number is negative or not finite; ``lr`` and ``lr_scale`` are both set; nothing is set.

    >>> from burnpy.nn import Linear
    >>> from burnpy.optim import AdamW
    >>> model = Linear(2, 1, device=Autodiff[NumPy])
    >>> optim = AdamW(weight_decay=0.5, groups=[Group("bias", lr=0.0)])
    >>> grads = model(Tensor[Autodiff[NumPy]].ones((1, 2))).sum().backward()
    >>> after = optim.step(0.1, model, grads)
    >>> [bool((a.value == b.value).all()) for a, b in zip(model.params(), after.params(), strict=True)]
    [False, True]
    """

    where: Where
    lr: float | None = None
    lr_scale: float | None = None
    weight_decay: float | None = None

    def __post_init__(self) -> None:
        where: object = self.where
        if isinstance(where, Sequence):
            wrong = [part for part in ([where] if isinstance(where, str) else where) if not isinstance(part, str)]
        else:
            wrong = [] if callable(where) else [where]
        if wrong or not where:
            raise ArgumentError(f"a Group takes a path, a pattern, several of these, or a function, not {where!r:.60}")
        for name in _OPTIONS:
            if getattr(self, name) is not None:
                at_least_zero(getattr(self, name), f"the {name} of {self}")
        if self.lr is not None and self.lr_scale is not None:
            raise ArgumentError(f"{self} has both a rate of its own and a factor of the common one; give one of them")
        if all(getattr(self, name) is None for name in _OPTIONS):
            raise ArgumentError(f"{self} sets nothing; pass lr_scale=, lr= or weight_decay=")

    def _says(self) -> dict[str, Any]:
        """Return what the group sets: the rate, by ``lr`` or by ``lr_scale``, and the weight decay."""
        settings: dict[str, Any] = {"rate": (self.lr, self.lr_scale), "weight_decay": self.weight_decay}
        return {name: value for name, value in settings.items() if value not in (None, (None, None))}

    def __repr__(self) -> str:
        where = repr(self.where) if not callable(self.where) else getattr(self.where, "__name__", "a function")
        options = [f"{name}={getattr(self, name)}" for name in _OPTIONS if getattr(self, name) is not None]
        return f"Group({', '.join([where, *options])})"


_OPTIONS = ("lr", "lr_scale", "weight_decay")


class Options(NamedTuple):
    """The settings that apply to one parameter."""

    lr: float | None
    lr_scale: float
    weight_decay: float

    def rate(self, step: Step) -> Any:
        """Return the parameter's learning rate in a step."""
        return step.computed(_scaled, step.lr, self.lr_scale)[0] if self.lr is None else self.lr


def _scaled(lr: float, scale: float) -> tuple[float]:
    """Return a group's learning rate."""
    return (lr * scale,)


def options_of(optimizer: Optimizer, model: ModuleBase[Any]) -> Mapping[str, Options]:
    """Return the settings of the parameters that are in groups, by id; cached for models of the same paths and ids."""
    if not optimizer.groups:
        return {}
    key = tuple((path, param.id, param.frozen) for path, param in model.named_params().items())
    if key != optimizer._known[0]:
        object.__setattr__(optimizer, "_known", (key, _options_of(model, optimizer.groups, optimizer.weight_decay)))
    return optimizer._known[1]


def _options_of(model: ModuleBase[Any], groups: Sequence[Group], weight_decay: float) -> Mapping[str, Options]:
    chosen: dict[str, dict[str, tuple[Group, Any]]] = {}  # by parameter and setting, the group that says it, and what
    for group in groups:
        members = {path: p for path, p in selected(model, group.where, str(group)).items() if isinstance(p, Param)}
        if not members and not callable(group.where):
            raise ArgumentError(f"{group} meets buffers of {type(model).__name__} only, and those have no gradient")
        for path, param in members.items():
            own = chosen.setdefault(param.id, {})
            for setting, value in group._says().items():
                first, known = own.setdefault(setting, (group, value))
                if known != value:
                    raise ArgumentError(
                        f"{first} and {group} both say the {setting} of {path}; let only one of them meet it"
                    )
    options = {}
    for ident, own in chosen.items():
        lr, scale = own["rate"][1] if "rate" in own else (None, None)
        decay = own["weight_decay"][1] if "weight_decay" in own else weight_decay
        options[ident] = Options(lr, 1.0 if scale is None else scale, decay)
    return options
