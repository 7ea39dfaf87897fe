"""`Group`: parameter groups with their own optimizer settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from burnpy.backend.errors import ArgumentError
from burnpy.nn.module_paths import Where, selected
from burnpy.nn.param import Param
from burnpy.optim.settings import at_least_zero

if TYPE_CHECKING:
    from burnpy.nn.module_base import ModuleBase
    from burnpy.optim.update_step import Step


@dataclass(frozen=True)
class Group:
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
            raise ArgumentError(f"a Group is of a path, a pattern, several of these, or a function, not {where!r:.60}")
        for name in _OPTIONS:
            if getattr(self, name) is not None:
                at_least_zero(getattr(self, name), f"the {name} of {self}")
        if self.lr is not None and self.lr_scale is not None:
            raise ArgumentError(f"{self} has both a rate of its own and a factor of the common one; give one of them")
        if all(getattr(self, name) is None for name in _OPTIONS):
            raise ArgumentError(f"{self} sets nothing; pass lr_scale=, lr= or weight_decay=")

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


def options_of(model: ModuleBase[Any], groups: Sequence[Group], weight_decay: float) -> Mapping[str, Options]:
    """Return the settings of the parameters that are in groups, by parameter id.

    Raises:
        ArgumentError: a path or pattern matches no parameter; two groups set the same thing of one parameter.
    """
    settings: dict[str, dict[str, tuple[Group, Any]]] = {}
    for group in groups:
        members = {path: p for path, p in selected(model, group.where, str(group)).items() if isinstance(p, Param)}
        if not members and not callable(group.where):
            raise ArgumentError(f"{group} meets buffers of {type(model).__name__} only, and those have no gradient")
        for path, param in members.items():
            own = settings.setdefault(param.id, {})
            for name in _OPTIONS:
                value = getattr(group, name)
                if value is None:
                    continue
                rate = "lr" if name == "lr_scale" else name
                if rate in own:
                    duplicate = "rate" if rate == "lr" else rate
                    raise ArgumentError(
                        f"{own[rate][0]} and {group} both say the {duplicate} of {path}; let only one of them meet it"
                    )
                own[rate] = group, value
    options = {}
    for ident, own in settings.items():
        by_rate = own["lr"][0] if "lr" in own else None
        scale = 1.0 if by_rate is None or by_rate.lr_scale is None else by_rate.lr_scale
        decay = own["weight_decay"][1] if "weight_decay" in own else weight_decay
        options[ident] = Options(None if by_rate is None else by_rate.lr, scale, decay)
    return options
