"""Which gradients are whose: leaves of a backward pass matched with the parameters of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from burnpy.autodiff.gradients import Gradients
from burnpy.backend.errors import ArgumentError, DeviceError, KindError, ShapeError, a
from burnpy.nn.base import ModuleBase
from burnpy.nn.select import suggestion
from burnpy.nn.variable import Param
from burnpy.tensor.transfer import transfer

if TYPE_CHECKING:
    from burnpy.tensor.tensor import Tensor

    Tensors: TypeAlias = dict[str, Tensor[Any]]


def gradient_device(model: ModuleBase[Any]) -> Any:
    """The device of a model's gradients: the one beneath its own; of a plain one, its own.

    Raises:
        KindError: it is no module.
    """
    given: object = model
    if not isinstance(given, ModuleBase):
        raise KindError(f"a model is a burnpy.nn.Module, and was given as {a(type(given).__name__)}")
    device: Any = model.device
    return device.inner if hasattr(device, "lower") else device


def refuse_device(model: ModuleBase[Any], device: Any) -> None:
    """Refuse gradients that are on another device than a model's.

    Raises:
        DeviceError: they are.
    """
    wanted = gradient_device(model)
    if device is not wanted:
        raise DeviceError(
            f"these gradients are on {device}, and those of {type(model).__name__}, on {model.device}, on {wanted}; "
            "take them from the model that computed the loss, or move them with GradientsParams.to_device(device)"
        )


def matched(grads: Gradients[Any], model: ModuleBase[Any]) -> tuple[Tensors, dict[str, str], Tensors]:
    """The gradients by parameter id, the paths of all parameters that learn by id, and the updates of buffers by id.

    Raises:
        ArgumentError: the model and the gradients have nothing in common.
        DeviceError: they are not on the device beneath the model's.
        KindError: ``grads`` are no `Gradients`.
    """
    given: object = grads
    if not isinstance(given, Gradients):
        hint = "; of what burnpy.func gives write GradientsParams.from_module(gradients)"
        raise KindError(
            f"from_grads() takes the Gradients that backward() returned, and was given {a(type(given).__name__)}"
            + (hint if isinstance(given, ModuleBase) else "")
        )
    refuse_device(model, grads.device)
    if not hasattr(model.device, "lower"):
        raise DeviceError(
            f"from_grads() was given {a(type(model).__name__)} on {model.device}, which computes no gradients; "
            "give the model on Autodiff[...] that computed the loss, not what valid() made of it"
        )
    learning = {path: param for path, param in model.named_params().items() if not param.frozen}
    values: Tensors = {}
    for param in learning.values():
        grad = grads.get(param.value)
        if grad is not None:
            values[param.id] = grad
    buffers = {buffer.id for buffer in model.named_buffers().values()}
    updates = {ident: update for ident, update in grads.buffer_updates.items() if ident in buffers}
    if not values and not updates:
        raise ArgumentError(_strangers(grads, model, len(learning)))
    return values, {param.id: path for path, param in learning.items()}, updates


def taken_from(gradients: ModuleBase[Any]) -> tuple[Tensors, dict[str, str]]:
    """What a module of gradients holds for parameters that learn, by id, and their paths by id.

    Raises:
        KindError: it is no module.
        ArgumentError: no parameter in it learns.
    """
    device = gradient_device(gradients)
    learning = {path: param for path, param in gradients.named_params().items() if not param.frozen}
    if not learning:
        raise ArgumentError(
            f"from_module() was given {a(type(gradients).__name__)} in which no parameter learns; it takes what "
            "burnpy.func.grad(loss)(model) returned"
        )
    values: Tensors = {param.id: transfer(param.value.detach(), device) for param in learning.values()}
    return values, {param.id: path for path, param in learning.items()}


def _strangers(grads: Gradients[Any], model: ModuleBase[Any], learning: int) -> str:
    name = type(model).__name__
    if not learning:
        return f"{a(name)} was given of which every parameter is frozen; model.require_grad() lets them learn"
    return (
        f"these gradients of {len(grads)} leaves have none of the {learning} parameters of this {name}; give the very "
        "model that computed the loss: step(), fork() and to_device() make models with leaves of their own"
    )


def added(mine: Tensors, theirs: Tensors, paths: Mapping[str, str]) -> Tensors:
    """The sums of tensors by id; what only one of the two has stays.

    Raises:
        ShapeError: of one id, the two are of different shapes or dtypes.
    """
    total = dict(mine)
    for ident, value in theirs.items():
        known = mine.get(ident)
        if known is not None and (known.shape, known.dtype) != (value.shape, value.dtype):
            raise ShapeError(
                f"the gradients of {paths.get(ident, f'the buffer {ident}')} are of shape {known.shape} and dtype "
                f"{known.dtype} in one, {value.shape} and {value.dtype} in the other, and do not add"
            )
        total[ident] = value if known is None else known + value
    return total


def absent(key: Param[Any] | str, paths: Mapping[str, str]) -> str:
    """Why gradients have none for a key, as the end of a message; ``paths`` of all that could have one."""
    ident = key.id if isinstance(key, Param) else key
    path = paths.get(ident, ident if ident in paths.values() else None)
    if path is not None:
        return f"none for {path}: the loss does not depend on it; grads.get(key) gives None instead"
    if isinstance(key, str):
        return f"none for {key!r}{suggestion(key, [*paths.values()])}"
    return f"none for the parameter of shape {key.shape}, which is frozen or of another model"
