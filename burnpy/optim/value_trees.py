"""The values of `burnpy.optim` as trees for `burnpy.func`, so that a compiled function may take and return them.

Their devices are those of their tensors: while a function is recorded, other ones than before and after.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burnpy.backend.dtypes import int64
from burnpy.func.pytree import register_tree
from burnpy.optim.ema import Ema
from burnpy.optim.gradients.accumulator import GradientsAccumulator
from burnpy.optim.gradients.grad_scaler import GradScaler
from burnpy.optim.gradients.grads_params import GradientsParams
from burnpy.tensor.levels import plain_device
from burnpy.tensor.tensor import IntTensor
from burnpy.tensor.tensor_base import new_tensor


def _device_in(tensors: Sequence[Any], default: Any) -> Any:
    """Return the device of the first of some tensors; a default if there are none."""
    return next((tensor._device for tensor in tensors if hasattr(tensor, "_device")), default)


def _flatten_grads(grads: GradientsParams[Any]) -> tuple[list[Any], tuple[Any, ...]]:
    device = grads._device.stands_for or grads._device
    rest = device, tuple(grads._values), tuple(grads._updates), tuple(grads._paths.items())
    return [[*grads._values.values()], [*grads._updates.values()], grads._found_inf], rest


def _unflatten_grads(children: Sequence[Any], rest: tuple[Any, ...]) -> GradientsParams[Any]:
    (values, updates, found_inf), (device, idents, buffers, paths) = children, rest
    return GradientsParams(
        _device_in((*values, *updates), device),
        dict(zip(idents, values, strict=True)),
        paths=dict(paths),
        updates=dict(zip(buffers, updates, strict=True)),
        found_inf=found_inf,
    )


def _flatten_accumulator(accumulator: GradientsAccumulator[Any]) -> tuple[list[Any], tuple[int, float]]:
    return [accumulator._total], (accumulator._count, accumulator._weight)


def _unflatten_accumulator(children: Sequence[Any], rest: tuple[int, float]) -> GradientsAccumulator[Any]:
    out: GradientsAccumulator[Any] = object.__new__(GradientsAccumulator)
    out._set(rest[0], children[0], rest[1])
    return out


def _flatten_scaler(scaler: GradScaler[Any]) -> tuple[list[Any], tuple[Any, ...]]:
    settings = scaler.init_scale, scaler.growth_factor, scaler.backoff_factor, scaler.growth_interval
    device: Any = scaler.device
    return [*scaler._current], (device.stands_for or device, *settings)


def _unflatten_scaler(children: Sequence[Any], rest: tuple[Any, ...]) -> GradScaler[Any]:
    device, scale, growth, backoff, interval = rest
    return GradScaler(_device_in(children, device), scale, growth, backoff, interval, tuple(children))


def _flatten_ema(ema: Ema[Any]) -> tuple[list[Any], tuple[Any, ...]]:
    """Return the number of updates becomes a tensor, so that it is no constant of a plan."""
    updates, device = ema.updates, ema.model._own_device()
    if device is not None and not isinstance(updates, IntTensor):
        plain: Any = plain_device(device)
        updates = new_tensor(IntTensor, plain, plain.discrete.full((), updates, int64))
    return [ema.model, updates], (type(ema), ema.decay, ema.warm_up)


def _unflatten_ema(children: Sequence[Any], rest: tuple[Any, ...]) -> Ema[Any]:
    model, updates = children
    return rest[0](model, *rest[1:], updates)  # type: ignore[no-any-return]  # of that class


def register_values() -> None:
    """Register the classes."""
    register_tree(GradientsParams, _flatten_grads, _unflatten_grads)
    register_tree(GradientsAccumulator, _flatten_accumulator, _unflatten_accumulator)
    register_tree(GradScaler, _flatten_scaler, _unflatten_scaler)
    register_tree(Ema, _flatten_ema, _unflatten_ema)
