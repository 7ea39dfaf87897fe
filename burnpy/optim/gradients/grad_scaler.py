"""`GradScaler`: scaling of the loss for 16-bit training."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Self, final

from burnpy.backend.devices import Subscriptable, device_of
from burnpy.backend.errors import ArgumentError, DeviceError, KindError, StateError, a
from burnpy.func.pytree import register_tree
from burnpy.optim.gradients.grads_params import GradientsParams
from burnpy.optim.gradients.matching import device_in
from burnpy.optim.settings import count, number
from burnpy.tensor.call_errors import Explaining, refuse_attribute
from burnpy.tensor.gradients import Gradients
from burnpy.tensor.levels import levels_of, plain_device
from burnpy.tensor.tensor import IntTensor, Tensor
from burnpy.typevars import B2, B

_SMALLEST, _LARGEST = 2.0**-149, 2.0**127
"""The powers of two between which a scale is, a float32."""


@final
@dataclass(frozen=True, eq=False)
class GradScaler(Subscriptable, Generic[B], metaclass=Explaining):
    """The scale of the loss in float16 training, a value: each method returns a new one and waits for no device.

    Gradients of float16 products below 6e-8 round to 0. `scale` multiplies the loss, and `unscale` divides the
    gradients; where one of them has overflowed to infinity or NaN, `Optimizer.step` leaves parameters and states
    unchanged, and the next scale is smaller::

        model, optim, scaler = Net(Train), Adam(), GradScaler(Infer)   # Train = Autodiff[Mixed[CuPy]] in float16
        for x, y in batches:
            loss = scaler.scale(cross_entropy(model(x), y))
            grads, scaler = scaler.unscale(GradientsParams.from_grads(loss.backward(), model))
            model = optim.step(rate, model, clip_by_global_norm(grads, 1.0))

    To accumulate, add gradients of one scale, and unscale the sum. bfloat16 has the range of float32 and needs no
    scale. A skipped step is not counted in the number of updates, by which `Adam` corrects its averages.

    Args:
        device: the backend of the gradients, beneath `Autodiff`.
        init_scale: the first scale.
        growth_factor: the factor of the scale after ``growth_interval`` steps without overflow.
        backoff_factor: the factor of the scale after an overflow. The scale stays between 2⁻¹⁴⁹ and 2¹²⁷, as a float32.
        growth_interval: the number of steps without overflow after which the scale grows.

    Raises:
        ArgumentError: a setting is out of its range.

    Source: Micikevicius et al., Mixed precision training, 2018; the defaults are ``torch.amp.GradScaler``'s.

    >>> from burnpy.nn import Linear
    >>> from burnpy.optim import Sgd
    >>> model, scaler = Linear(1, 1, device=Autodiff[NumPy]), GradScaler(NumPy)
    >>> for x in (1.0, 1e38):
    ...     loss = scaler.scale(model(Tensor[Autodiff[NumPy]].from_data([[x]])).sum())
    ...     grads, scaler = scaler.unscale(GradientsParams.from_grads(loss.backward(), model))
    ...     after = Sgd().step(0.1, model, grads)
    ...     print(grads["weight"].item(), after.weight.value.tolist() == model.weight.value.tolist(), scaler.loss_scale)
    1.0 False 65536.0
    inf True 32768.0
    """

    device: B | type[B]
    init_scale: float = 65536.0
    growth_factor: float = 2.0
    backoff_factor: float = 0.5
    growth_interval: int = 2000
    _current: Any = None
    """The scale, and the number of steps since it changed, both 0-d tensors on the device."""

    if not TYPE_CHECKING:  # type checkers see only the attributes above
        __getattr__ = refuse_attribute

    def __post_init__(self) -> None:
        device: Any = device_of(self.device)
        if device.differentiates:
            raise DeviceError(
                f"GradScaler() got {device}; gradients are on the device beneath, so give it {device.inner}"
            )
        _checked_scale(self.init_scale, "GradScaler(init_scale=)")
        if not number(self.growth_factor, "GradScaler(growth_factor=)") >= 1.0:
            raise ArgumentError(f"GradScaler() got growth_factor={self.growth_factor!r:.80}; expected at least 1")
        if not 0.0 < number(self.backoff_factor, "GradScaler(backoff_factor=)") <= 1.0:
            raise ArgumentError(f"GradScaler() got backoff_factor={self.backoff_factor!r:.80}; expected 0 to 1")
        count(self.growth_interval, "GradScaler(growth_interval=)")
        object.__setattr__(self, "device", device)
        if self._current is None:
            start = Tensor.full((), float(self.init_scale), device=device), IntTensor.full((), 0, device=device)
            object.__setattr__(self, "_current", start)

    @property
    def loss_scale(self) -> float:
        """The present scale, for which the device is synchronized."""
        scale: Tensor[B] = self._current[0]
        return scale.item()

    def scale(self, loss: Tensor[B2]) -> Tensor[B2]:
        """Return the loss multiplied by the scale.

        Args:
            loss: a tensor on a device that differentiates, over the scaler's.

        Raises:
            KindError: ``loss`` is not a float tensor.
            DeviceError: it is on another device.
        """
        given: object = loss
        if not isinstance(given, Tensor):
            raise KindError(f"GradScaler.scale() takes the loss, a float tensor, not {a(type(given).__name__)}")
        scale: Any = self._current[0]
        if plain_device(given.device) is not self.device:
            raise DeviceError(f"GradScaler.scale() got a loss on {given.device}; the scale is on {self.device}")
        for level in reversed(levels_of(given.device)):
            scale = Tensor.from_inner(scale, device=level)
        scaled: Tensor[B2] = given * scale
        return scaled

    def unscale(self, grads: GradientsParams[B]) -> tuple[GradientsParams[B], Self]:
        """Divide gradients by the scale, and check them.

        Returns:
            The gradients, whose `GradientsParams.found_inf` tells `Optimizer.step` whether to skip the update; and the
            scaler of the next step.

        Raises:
            KindError: ``grads`` are not `GradientsParams`.
            DeviceError: they are on another device than the scaler.
            StateError: they were unscaled already.
        """
        given: object = grads
        if not isinstance(given, GradientsParams):
            hint = "GradientsParams.from_grads(grads, model)" if isinstance(given, Gradients) else "those of a model"
            raise KindError(f"GradScaler.unscale() takes GradientsParams, not {a(type(given).__name__)}; give {hint}")
        if grads.device is not self.device:
            raise DeviceError(f"GradScaler.unscale() got gradients on {grads.device}; the scale is on {self.device}")
        if grads.found_inf is not None:
            raise StateError("GradScaler.unscale() got gradients that were unscaled already; a step unscales once")
        scale, steps = self._current
        if not grads:
            return grads, self
        finite = grads.norm(math.inf).isfinite()  # the largest magnitude, NaN if one is NaN
        steps = (steps + 1).where(finite, 0)
        grown = steps == self.growth_interval
        next_scale = (scale * self.growth_factor).where(grown, scale).where(finite, scale * self.backoff_factor)
        next_scale = next_scale.clamp(_SMALLEST, _LARGEST)  # from 0 and ∞ no way leads back
        unscaled = (grads / scale).checked(~finite)
        return unscaled, replace(self, _current=(next_scale, steps % self.growth_interval))

    def into_record(self) -> dict[str, float]:
        """Return the scale and the number of steps since it changed, as plain numbers, which `burnpy.record` saves."""
        scale, steps = self._current
        return {"scale": scale.item(), "steps": steps.item()}

    def load_record(self, record: Mapping[str, Any]) -> Self:
        """Return a scaler with these settings that continues from a record.

        Args:
            record: the result of `into_record`. Only its numbers are used.

        Raises:
            StateError: it is not such a record.
        """
        given: object = record
        if not isinstance(given, Mapping) or set(given) != {"scale", "steps"}:
            raise StateError(f"GradScaler.load_record() takes the result of into_record(), not {given!r:.80}")
        device: Any = self.device
        try:
            scale, steps = _checked_scale(record["scale"], "the scale"), count(record["steps"], "its age", least=0)
        except ArgumentError as error:
            raise StateError(f"GradScaler.load_record() got a record that no scaler made: {error}") from error
        return replace(self, _current=(Tensor.full((), scale, device=device), IntTensor.full((), steps, device=device)))


def _checked_scale(scale: Any, what: str) -> float:
    """Return a scale, checked to be a float32 that is a normal or subnormal number above 0."""
    if not _SMALLEST <= number(scale, what) <= _LARGEST:
        raise ArgumentError(f"{what} is {scale!r}; expected one from 2⁻¹⁴⁹ to 2¹²⁷")
    return float(scale)


def _flatten_scaler(scaler: GradScaler[Any]) -> tuple[list[Any], tuple[Any, ...]]:
    settings = scaler.init_scale, scaler.growth_factor, scaler.backoff_factor, scaler.growth_interval
    device: Any = scaler.device
    return [*scaler._current], (device.stands_for or device, *settings)


def _unflatten_scaler(children: Sequence[Any], rest: tuple[Any, ...]) -> GradScaler[Any]:
    device, scale, growth, backoff, interval = rest
    return GradScaler(device_in(children, device), scale, growth, backoff, interval, tuple(children))


register_tree(GradScaler, _flatten_scaler, _unflatten_scaler)
