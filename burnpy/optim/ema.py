"""`Ema`: the exponential moving average of a model, as a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Self

from burnpy.backend.dtypes import int64
from burnpy.backend.errors import ArgumentError, CallError, KindError, ModuleError, a
from burnpy.func.pytree import register_tree
from burnpy.nn.module_base import ModuleBase
from burnpy.optim.settings import count
from burnpy.tensor.call_errors import Explaining, next_value, refuse_attribute
from burnpy.tensor.levels import plain_device, transfer
from burnpy.tensor.tensor import BoolTensor, IntTensor
from burnpy.tensor.tensor_base import new_tensor, tensor_of
from burnpy.typevars import M


@dataclass(frozen=True, eq=False)
class Ema(Generic[M], metaclass=Explaining):
    """An exponential moving average of a model's parameters, which often generalizes better than the last of them.

    `update` returns a new average and leaves the old one as it is::

        average = decay · average + (1 - decay) · parameter

    Buffers, such as running statistics, are those of the latest model. The average has the parameters' ids, so that
    records and optimizers of the model fit it.

    Args:
        model: the average; at first the model, of whose values it has leaves of its own.
        decay: how much of the average stays, from 0 to 1.
        warm_up: whether to begin with less: with ``min(decay, (1 + t) / (10 + t))`` at update t, from 1.
        updates: the number of updates so far; after a compiled function a 0-d tensor.

    Raises:
        ArgumentError: ``decay`` is not from 0 to 1, or ``updates`` is negative.
        KindError: ``model`` is not a module.

    Source of the warm-up: TensorFlow's ExponentialMovingAverage.

    >>> from burnpy.nn import Linear
    >>> model = Linear(1, 1, device=NumPy).map(lambda w: w * 0.0)
    >>> ema = Ema(model, decay=0.75)
    >>> ema = ema.update(model.map(lambda w: w + 8.0))
    >>> ema.model.weight.value.tolist(), ema.updates
    ([[2.0]], 1)
    """

    model: M
    decay: float = 0.999
    warm_up: bool = False
    updates: int | IntTensor[Any] = 0

    def __post_init__(self) -> None:
        argument: object = self.model
        if not isinstance(argument, ModuleBase):
            raise KindError(f"Ema() averages a burnpy.nn.Module, got {a(type(argument).__name__)}")
        check_decay("Ema", self.decay)
        if not isinstance(self.updates, IntTensor):
            count(self.updates, "Ema(updates=)", least=0)
        if isinstance(self.updates, int) and not self.updates:  # a compiled step has plans by which leaves are the same
            model: Any = self.model
            first = model.with_values({param.id: param.value.detach() for param in model.params()})
            object.__setattr__(self, "model", first)

    if not TYPE_CHECKING:  # type checkers see only the attributes above
        __getattr__ = refuse_attribute

        def __call__(self, *args, **kwargs):
            """Refuse: the average is called, as ``ema.model(x)``."""
            raise CallError("Ema holds a model and is none; call the average itself: ema.model(x)")

    @next_value
    def update(self, model: M, *, skipped: BoolTensor[Any] | None = None) -> Self:
        """Return the average with a model after a step added.

        Args:
            model: the model after the step.
            skipped: whether the step changed nothing, 0-d, as `GradientsParams.found_inf` says it: if so, the average
                stays, and the update does not count.

        Raises:
            ModuleError: the parameters are not those of the average, by id.
        """
        known = {param.id: param.value for param in self.model.params()}
        added = {param.id: param.value for param in model.params()}
        if known.keys() != added.keys():
            raise ModuleError(
                f"Ema.update() got {a(type(model).__name__)} whose parameters are not those of the average; give "
                "the result of optim.step() for the model that Ema began with"
            )
        device: Any = plain_device(model.device)
        if skipped is not None and device.stands_for is None and device.eager_checks:
            if skipped.item():
                return self
            skipped = None
        flag = None if skipped is None else transfer(skipped, device)
        updates: Any = self.updates + (1 if flag is None else (~flag).int())
        share: Any = 1.0 - self.decay  # of the model
        if self.warm_up and isinstance(updates, IntTensor):
            (share,) = device.on_host(_warmed_up, (self.decay, transfer(updates, device)._primitive))
        elif self.warm_up:
            (share,) = _warmed_up(self.decay, updates)
        before = [transfer(known[ident].detach(), device)._primitive for ident in added]
        after = [transfer(value.detach(), device)._primitive for value in added.values()]
        # From the one that has the larger share, so that an average of a decay of 0 or 1 is exact.
        if self.warm_up or self.decay >= 0.5:
            averages = device.foreach_lerp(before, after, share)
        else:
            averages = device.foreach_lerp(after, before, self.decay)
        if flag is not None:
            averages = device.foreach_where(flag._primitive, before, averages)
        values = {ident: tensor_of(device, x) for ident, x in zip(added, averages, strict=True)}
        return replace(self, model=model.with_values(values), updates=updates)


def check_decay(name: str, decay: float) -> None:
    """Check that a decay is a number from 0 to 1."""
    if not 0.0 <= decay <= 1.0:
        raise ArgumentError(f"{name}() got decay={decay!r:.80}; expected a number from 0 to 1")


def _warmed_up(decay: float, updates: int) -> tuple[float]:
    """Return the share of the model in an update that may begin with a smaller decay."""
    return (1.0 - min(decay, (1 + updates) / (10 + updates)),)


def _flatten(ema: Ema[Any]) -> tuple[list[Any], tuple[Any, ...]]:
    """Return the parts; the number of updates becomes a tensor, so that it is no constant of a plan."""
    updates, device = ema.updates, ema.model._own_device()
    if device is not None and not isinstance(updates, IntTensor):
        plain: Any = plain_device(device)
        updates = new_tensor(IntTensor, plain, plain.discrete.full((), updates, int64))
    return [ema.model, updates], (type(ema), ema.decay, ema.warm_up)


def _unflatten(children: Sequence[Any], rest: tuple[Any, ...]) -> Ema[Any]:
    model, updates = children
    return rest[0](model, *rest[1:], updates)  # type: ignore[no-any-return]  # of that class


register_tree(Ema, _flatten, _unflatten)
