"""`Group`: parameters that an optimizer treats in a way of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from burnpy.backend.errors import ArgumentError
from burnpy.nn.select import Where, selected
from burnpy.nn.variable import Param
from burnpy.optim.checks import at_least_zero

if TYPE_CHECKING:
    from burnpy.nn.base import ModuleBase


@dataclass(frozen=True)
class Group:
    """Some parameters, and what is different for them. What a group does not say stays as for all.

    A parameter may be in several groups that say different things of it: ``Group("*.bias", weight_decay=0.0)`` and
    ``Group("encoder", lr_scale=0.1)`` both count for ``encoder.0.bias``. Two that say the same thing are an error at
    the first step.

    Args:
        where: which parameters: a path (``"encoder"``: all below it), a pattern (``"*.bias"``), several of these, or a
            function of path and parameter.
        lr: the learning rate, whatever `Optimizer.step` is given.
        lr_scale: by what the rate that `Optimizer.step` is given is multiplied.
        weight_decay: instead of the optimizer's.

    Raises:
        ArgumentError: a number is negative or not finite; ``lr`` and ``lr_scale`` are both given; nothing is.
    """

    where: Where
    lr: float | None = None
    lr_scale: float | None = None
    weight_decay: float | None = None

    def __post_init__(self) -> None:
        given: object = self.where
        if isinstance(given, Sequence):
            wrong = [part for part in ([given] if isinstance(given, str) else given) if not isinstance(part, str)]
        else:
            wrong = [] if callable(given) else [given]
        if wrong or not given:
            raise ArgumentError(f"a Group is of a path, a pattern, several of these, or a function, not {given!r:.60}")
        for name in _OPTIONS:
            if getattr(self, name) is not None:
                at_least_zero(getattr(self, name), f"the {name} of {self}")
        if self.lr is not None and self.lr_scale is not None:
            raise ArgumentError(f"{self} has both a rate of its own and a factor of the common one; give one of them")
        if all(getattr(self, name) is None for name in _OPTIONS):
            raise ArgumentError(f"{self} says nothing; give it lr_scale=, lr= or weight_decay=")

    def __repr__(self) -> str:
        where = repr(self.where) if not callable(self.where) else getattr(self.where, "__name__", "a function")
        said = [f"{name}={getattr(self, name)}" for name in _OPTIONS if getattr(self, name) is not None]
        return f"Group({', '.join([where, *said])})"


_OPTIONS = ("lr", "lr_scale", "weight_decay")


class Options(NamedTuple):
    """What counts for one parameter."""

    lr: float | None
    lr_scale: float
    weight_decay: float

    def rate(self, lr: float) -> float:
        """The learning rate where all have ``lr``."""
        return lr * self.lr_scale if self.lr is None else self.lr


def options_of(model: ModuleBase[Any], groups: Sequence[Group], weight_decay: float) -> Mapping[str, Options]:
    """What counts for those parameters of a model that are in groups, by id.

    Raises:
        ArgumentError: a path or pattern meets no parameter; two groups say the same of one.
    """
    said: dict[str, dict[str, tuple[Group, Any]]] = {}
    for group in groups:
        met = {path: p for path, p in selected(model, group.where, str(group)).items() if isinstance(p, Param)}
        if not met and not callable(group.where):
            raise ArgumentError(f"{group} meets buffers of {type(model).__name__} only, and those have no gradient")
        for path, param in met.items():
            own = said.setdefault(param.id, {})
            for name in _OPTIONS:
                value = getattr(group, name)
                if value is None:
                    continue
                rate = "lr" if name == "lr_scale" else name
                if rate in own:
                    said_twice = "rate" if rate == "lr" else rate
                    raise ArgumentError(
                        f"{own[rate][0]} and {group} both say the {said_twice} of {path}; let only one of them meet it"
                    )
                own[rate] = group, value
    found = {}
    for ident, own in said.items():
        by_rate = own["lr"][0] if "lr" in own else None
        scale = 1.0 if by_rate is None or by_rate.lr_scale is None else by_rate.lr_scale
        decay = own["weight_decay"][1] if "weight_decay" in own else weight_decay
        found[ident] = Options(None if by_rate is None else by_rate.lr, scale, decay)
    return found
