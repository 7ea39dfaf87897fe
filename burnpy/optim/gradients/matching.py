"""Gradients and the models that they belong to: devices, parameters by id, sums and norms."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import getweakrefcount

from burnpy.autodiff.graph import Leaf
from burnpy.backend.errors import ArgumentError, BatchedError, DeviceError, GraphError, KindError, ShapeError, a
from burnpy.backend.operations.complex_numbers import magnitudes
from burnpy.nn.module_base import ModuleBase
from burnpy.nn.param import Param
from burnpy.nn.transform import suggestion
from burnpy.optim.settings import number
from burnpy.tensor.gradients import Gradients
from burnpy.tensor.levels import differs_between_examples, transfer
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import TensorBase, new_tensor, tensor_of

if TYPE_CHECKING:
    Tensors: TypeAlias = dict[str, Tensor[Any]]


def gradient_device(model: ModuleBase[Any]) -> Any:
    """Return the device of a model's gradients: the inner device of one that differentiates, otherwise its own.

    Raises:
        KindError: ``model`` is not a module.
    """
    if not isinstance(model, ModuleBase):
        raise _no_model(model)
    own: Any = model.device
    return own.inner if own.differentiates else own


def _no_model(argument: object) -> KindError:
    return KindError(f"a model is a burnpy.nn.Module, got {a(type(argument).__name__)}")


def refuse_device(model: ModuleBase[Any], device: Any) -> Any:
    """Check that ``device`` is the device of a model's gradients, and return the model's own device."""
    if not isinstance(model, ModuleBase):
        raise _no_model(model)
    own: Any = model.device
    expected = own.inner if own.differentiates else own
    if device is not expected:
        raise DeviceError(
            f"these gradients are on {device}, and those of {type(model).__name__}, on {model.device}, on {expected}; "
            "take them from the model that computed the loss, or move them with GradientsParams.to_device(device)"
        )
    return own


def matched(grads: Gradients[Any], model: ModuleBase[Any]) -> tuple[Tensors, dict[str, str], Tensors]:
    """Return, each by id, the gradients of parameters, the paths of trainable parameters, and the buffer updates."""
    argument: object = grads
    if not isinstance(argument, Gradients):
        hint = "; for gradients from burnpy.func write GradientsParams.from_module(gradients)"
        raise KindError(
            f"from_grads() takes the Gradients that backward() returned, got {a(type(argument).__name__)}"
            + (hint if isinstance(argument, ModuleBase) else "")
        )
    if not refuse_device(model, grads.device).differentiates:
        raise DeviceError(
            f"from_grads() got {a(type(model).__name__)} on {model.device}, which computes no gradients; "
            "give the model on Autodiff[...] that computed the loss, not the result of valid()"
        )
    values: Tensors = {}
    paths: dict[str, str] = {}
    updates: Tensors = {}
    device, found = grads.device, grads._values
    arrived = grads.buffer_updates if grads._updates else {}
    for path, variable in model._variables().items():
        ident, value = variable._id, variable._value
        if not variable._learned:
            if ident in arrived:
                updates[ident] = arrived[ident]
        elif not variable._frozen:
            paths[ident] = path
            grad = found.get(value._primitive.node)  # `key` is for the others: leaves with hooks, and errors
            if grad is not None or (grad := found.get(grads.key(value))) is not None:
                values[ident] = new_tensor(type(value), device, grad)
    if not values and not updates:
        raise ArgumentError(_strangers(len(grads), model, len(paths)))
    return values, paths, updates


def taken_from(gradients: ModuleBase[Any]) -> tuple[Tensors, dict[str, str]]:
    """Return the trainable gradients in a module of gradients, and their paths, both by id."""
    device = gradient_device(gradients)
    trainable = {path: param for path, param in gradients.named_params().items() if not param.frozen}
    if not trainable:
        raise ArgumentError(
            f"from_module() got {a(type(gradients).__name__)} in which no parameter learns; expected what "
            "burnpy.func.grad(loss)(model) returned"
        )
    refuse_derivative("from_module()", trainable.values())
    refuse_examples("from_module()", {path: param.value for path, param in trainable.items()})
    values: Tensors = {param.id: transfer(param.value.detach(), device) for param in trainable.values()}
    return values, {param.id: path for path, param in trainable.items()}


def refuse_derivative(operation: str, params: Iterable[Param[Any]]) -> None:
    """Check that an update, which has no derivative, is not in a function that `burnpy.func` differentiates."""
    for param in params:
        level: Any = param.device
        if level.level and param.value.is_require_grad():
            raise GraphError(
                f"{operation} is inside of a function that {level.api}() differentiates, and updates of optimizers "
                "have no derivative; compute the next model with tensors, as in model.with_state({path: weight - rate "
                "* gradient}), or make its weights constants: model.map(lambda w: w.detach())"
            )


def refuse_examples(operation: str, values: Mapping[str, Any]) -> None:
    """Check that tensors by path do not differ between the examples of `burnpy.func.vmap`, as updates take no batch."""
    for path, value in values.items():
        if differs_between_examples(value):
            raise BatchedError(
                f"{operation} is inside of a function under vmap(), whose examples differ in {path}, and updates of "
                "optimizers take no batch; step the stacked model outside of vmap(), or compute the next values with "
                "tensors, as weight - rate * gradient"
            )


def leaves_of(model: ModuleBase[Any]) -> dict[str, Any]:
    """Return the leaves of the learned parameters, by id, of a model on a device that differentiates."""
    none: Gradients[Any] = Gradients(model.device, {})
    return {param.id: none.key(param.value) for param in model.named_params().values() if not param.frozen}


def refuse_strangers(reached: Iterable[Any], leaves: Collection[Any], model: ModuleBase[Any]) -> None:
    """Check that one of the nodes that a backward pass visits is a parameter that learns, or records a buffer."""
    own, others = {*leaves}, set[Any]()
    for node in reached:
        if node in own:
            return
        if isinstance(node, Leaf):
            if node.buffer is not None:
                return
            others.add(node)
    raise ArgumentError(_strangers(len(others), model, len(own)))


def _strangers(count: int, model: ModuleBase[Any], trainable: int) -> str:
    """Return the error message for gradients without any of the model's ``trainable`` parameters."""
    name = type(model).__name__
    if not trainable:
        return f"every parameter of this {name} is frozen; unfreeze them with model.require_grad()"
    return (
        f"these gradients ({count}) belong to none of this {name}'s {trainable} parameters; pass the very model that "
        "computed the loss: step(), fork(), to_device() and with_state() make models with leaves of their own"
    )


def added(mine: Tensors, theirs: Tensors, paths: Mapping[str, str], device: Any, weight: float = 1.0) -> Tensors:
    """Add tensors by id, those of ``theirs`` multiplied by a weight; those in only one mapping are kept."""
    both = [ident for ident in theirs if ident in mine]
    xs, ys = [mine[k]._primitive for k in both], [theirs[k]._primitive for k in both]
    for ident, x, y in zip(both, xs, ys, strict=True):
        if x.shape != y.shape or x.dtype != y.dtype:
            raise ShapeError(
                f"the gradients of {paths.get(ident, f'the buffer {ident}')} are of shape {x.shape} and dtype "
                f"{x.dtype} in one, and {y.shape} and {y.dtype} in the other; they must be equal"
            )
    sums = device.foreach_add(xs, ys, weight)
    alone = [ident for ident in theirs if ident not in mine]
    others = [theirs[k]._primitive for k in alone]
    if weight != 1:
        others = device.foreach_mul(others, weight)
    new = zip((*both, *alone), (*sums, *others), strict=True)
    return {**mine, **{ident: tensor_of(device, x) for ident, x in new}}


def absent(key: Param[Any] | str, paths: Mapping[str, str]) -> str:
    """Return the end of an error message that explains why there is no gradient for a key. ``paths`` are the paths of
    all trainable parameters by id."""
    ident = key.id if isinstance(key, Param) else key
    path = paths.get(ident, ident if ident in paths.values() else None)
    if path is not None:
        return f"none for {path}: the loss does not depend on it; grads.get(key) gives None instead"
    if isinstance(key, str):
        return f"none for {key!r}{suggestion(key, [*paths.values()])}"
    return f"none for the parameter of shape {key.shape}, which is frozen or of another model"


def hold_alone(grads: Any) -> bool:
    """Return whether gradients hold the only references to their arrays, strong or weak, as `Mixed` has to operands."""
    values = [*grads._values.values()]
    if values and isinstance(values[0], TensorBase):  # otherwise they are primitives already
        if _most_references(values) > _TWO:
            return False
        values = [x._primitive for x in values]
    return _most_references(values) <= _TWO and not any(map(getweakrefcount, values))


def _most_references(objects: Sequence[Any]) -> int:
    return max(map(sys.getrefcount, objects), default=0)


_TWO = (lambda objects: _most_references([*objects]))([object()])
"""The count of references to an object that two containers hold, as `_most_references` sees it."""


def norm_of(grads: Any, p: float = 2.0) -> Tensor[Any]:
    """Return (Σ |x|ᵖ)^(1/p) over all elements of all gradients, 0-d; for ``p = inf`` the largest magnitude. It is 0
    without gradients. The dtype is at least float32; powers neither overflow nor underflow."""
    device = grads.device
    return new_tensor(Tensor, device, device.total_norm(magnitudes(device, grads.primitives()), _order(p)))  # type: ignore[no-any-return]  # of that class


def norms_of(grads: Any, p: float = 2.0) -> Tensor[Any]:
    """Return the norm of each gradient, as a vector; see `norm_of`."""
    device = grads.device
    return new_tensor(Tensor, device, device.foreach_norm(magnitudes(device, grads.primitives()), _order(p)))  # type: ignore[no-any-return]  # of that class


def _order(p: float) -> float:
    """Return the p of a norm, checked."""
    if number(p, "the p of a norm") <= 0:
        raise ArgumentError(f"norm() got p = {p!r}; p is positive: 2, 1 or math.inf, for example")
    return float(p)


def device_in(tensors: Sequence[Any], default: Any) -> Any:
    """Return the device of the first of some tensors, which in a recording is another one; a default without them."""
    return next((tensor._device for tensor in tensors if hasattr(tensor, "_device")), default)
