"""One step of an optimizer: the new values of a model, from its gradients and the states in a `Memory`.

`stepped_model` is the step. Its *pending* parameters are those with a gradient that are not frozen. The *levels* of a
device are the `Autodiff` around its *plain* device, outermost first: a step updates primitives of the plain device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from burnpy.backend.errors import KindError, ModuleError, RecordingError, ShapeError, StateError, a, class_name
from burnpy.backend.operations.complex_numbers import paired, unpaired
from burnpy.nn.buffer_updates import buffer_values
from burnpy.nn.module import Module
from burnpy.optim.gradients.grads_params import GradientsParams
from burnpy.optim.gradients.matching import refuse_derivative, refuse_device, refuse_examples
from burnpy.optim.optimizer_states import Memory, ParamState, SlotShape, refuse_shape
from burnpy.optim.parameter_batch import Draft, Pending
from burnpy.optim.settings import options_of
from burnpy.tensor.gradients import Gradients
from burnpy.tensor.levels import levels_of, plain_device
from burnpy.tensor.tensor import Tensor

if TYPE_CHECKING:
    from weakref import ref

    from burnpy.backend.primitives import Bool, Float
    from burnpy.nn.param import Param
    from burnpy.optim.optimizer import Optimizer


def stepped_model(
    optimizer: Optimizer, memory: Memory, rate: Any, model: Any, grads: Any, spent: bool = False
) -> tuple[Any, dict[int, ref[Tensor[Any]]]]:
    """Return the next model, and the leaves that steps have replaced, so that a later step can refuse an old model.

    Args:
        optimizer: the optimizer.
        memory: its states, or those of a pure step, which are replaced.
        rate: the learning rate: a float; in a recording also a 0-d primitive.
        model: the model.
        grads: `Gradients` or `GradientsParams`.
        spent: whether nobody reads their arrays after the step, so that the new parameters may take their memory.
    """
    # In a loop, a step repeats the one before on its result, and `Repetition` skips the checks that still hold.
    if found := memory.repetition and memory.repetition.stepped(optimizer, memory, rate, model, grads, spent):
        return found
    param_grads = param_gradients(optimizer, grads, model)
    options = options_of(optimizer, model)
    levels, device, pending = checked_pending(optimizer, memory, model, param_grads)
    if device.stands_for is not None:  # inside a compiled function
        _check_recorded(optimizer, memory)
    # The new values of buffers; computing them may raise an error, so it comes before anything changes.
    buffers = model._renewed(buffer_values(model, param_grads.buffer_updates)) if param_grads._updates else {}
    # A draft holds the new states. A batch has the parameters with equal settings and counts, for one kernel.
    draft = Draft(memory, device, *_skipped(optimizer, device, param_grads._found_inf))
    batches = draft.batches(optimizer, rate, pending, options)
    values = {ident: x for batch in batches for ident, x in draft.update(optimizer, batch, spent).items()}
    new = model._with_variables({**buffers, **_lifted(pending, values, levels, device)})
    replaced = memory.with_replaced([item.param._value for item in pending])
    draft.finish(values)
    memory.repetition = draft.repetition(optimizer, batches, new, levels) if draft.in_place and not options else None
    return new, replaced


def param_gradients(optimizer: Optimizer, grads: object, model: Module[Any]) -> GradientsParams[Any]:
    """Return gradients by parameter, and check that they belong to the model."""
    if type(grads) is Gradients:  # final, and `isinstance` would call its abstract base class
        return GradientsParams.from_grads(grads, model)
    if not isinstance(grads, GradientsParams):
        hint = ""
        if isinstance(grads, Module):
            hint = "; for gradients from burnpy.func write GradientsParams.from_module(gradients)"
        elif callable(grads):
            hint = "; call it: model = optim.step(rate, model, loss.backward())"
            if hasattr(optimizer, "minimize"):
                hint = f"; write model, loss = {type(optimizer).__name__}().minimize(rate, model, loss_and_grads)"
        raise KindError(
            f"{type(optimizer).__name__}.step() takes the gradients that backward() returned, or GradientsParams, got "
            f"{a(class_name(grads))}{hint}"
        )
    refuse_device(model, grads._device)
    known = {variable._id for variable in model._variables().values() if variable._learned}
    if not known.issuperset(grads._values):
        unknown = [path for path, ident in zip(grads.named(), grads, strict=True) if ident not in known]
        raise ModuleError(
            f"these gradients are of {', '.join(unknown[:8])}{', …' if unknown[8:] else ''}, which this "
            f"{type(model).__name__} does not have under their ids; they come from another model"
        )
    return grads


def checked_pending(
    optimizer: Optimizer, memory: Memory, model: Module[Any], grads: GradientsParams[Any]
) -> tuple[list[Any], Any, list[Pending]]:
    """Return the levels of the model's device, the plain device beneath them, and the parameters to update, checked."""
    name, states = type(optimizer).__name__, memory.states
    outer: Any = model.device
    levels = levels_of(outer)
    if memory.loaded and not any(param.id in states for param in model.params()):
        raise StateError(
            f"the record that {name} has loaded knows no parameter of this {type(model).__name__}"
            " by id; load the model's record too, or load_record(record, model), which goes by paths as well"
        )
    if levels and levels[0].level:
        refuse_examples(f"{name}.step()", {path: param.value for path, param in model.named_params().items()})
    slot_shape = optimizer.slot_shape if optimizer.factored else None
    pending, mismatch = collect_pending(model, grads._values, states, levels, slot_shape)
    if levels and levels[0].level:
        refuse_derivative(f"{name}.step()", [item.param for item in pending])
    if not optimizer.takes_complex:
        for item in pending:
            if item.param.kind == "complex":
                raise KindError(
                    f"{name}.step() got the complex parameter {item.path}, which it cannot update; leave it out with "
                    "grads.without(path), and step it with another optimizer, such as AdamW"
                )
    memory.refuse_replaced(name, type(model).__name__, pending)
    if mismatch is not None:
        refuse_mismatch(mismatch, states.get(mismatch.param._id), optimizer.slot_shape)
    return levels, levels[-1].inner if levels else outer, pending


def collect_pending(
    model: Module[Any],
    grads: Mapping[str, Tensor[Any]],
    states: Mapping[str, ParamState],
    levels: Sequence[Any],
    slot_shape: SlotShape | None = None,
) -> tuple[list[Pending], Pending | None]:
    """Return the parameters to update, and the first that does not fit its gradient or its state.

    Args:
        model: the model.
        grads: gradients by parameter id, on the device beneath the outermost level.
        states: the optimizer's states by parameter id.
        levels: the levels of the model's device.
        slot_shape: the shape of a state tensor: see `Optimizer.slot_shape`; None if all have the parameter's.
    """
    pending: list[Pending] = []
    mismatch = None
    for path, param in model.named_params().items():
        ident = param._id
        tensor = None if param._frozen else grads.get(ident)
        if tensor is None:
            continue
        value, grad = param._value._primitive, tensor._primitive
        for level in levels:
            value = level.lower(value)
        for level in levels[1:]:
            grad = level.lower(grad)
        fits = grad.shape == value.shape and grad.dtype == value.dtype
        if fits and param.kind == "complex":
            device: Any = plain_device(model.device)
            value, grad = paired(device, value), paired(device, grad)
        item = Pending(path, param, value, grad)
        pending.append(item)
        if mismatch is None:
            shape, state = value.shape, states.get(ident)
            if fits and state is not None:
                for name, x in state.values.items():
                    expected = shape if slot_shape is None else slot_shape(name, shape)
                    fits = fits and (x._primitive if x.__class__ is Tensor else x).shape == expected
            if not fits:
                mismatch = item
    return pending, mismatch


def refuse_mismatch(item: Pending, state: ParamState | None, slot_shape: SlotShape) -> NoReturn:
    """Raise the error for a parameter that does not fit its gradient or its state."""
    value, grad = item.value, item.grad
    if state is not None and (grad.shape, grad.dtype) == (value.shape, value.dtype):
        refuse_shape(state, item.path, value.shape, slot_shape)
    raise ShapeError(
        f"the gradient of {item.path} has shape {grad.shape} and dtype {grad.dtype}, but the parameter has shape "
        f"{value.shape} and dtype {value.dtype}; compute the gradients with this model"
    )


def _check_recorded(optimizer: Optimizer, memory: Memory) -> None:
    name = type(optimizer).__name__
    if not memory.held:
        raise RecordingError(
            f"{name}.step() was called in a compiled function, whose replays would not advance the optimizer's "
            "states; pass the state as an argument, at first optim.init(model), and return the next: "
            "model, state = optim.pure_step(lr, model, grads, state)"
        )
    if not is_gated(type(optimizer)):
        raise RecordingError(
            f"{name}.pure_step() was called in a compiled function, but {name}.update() computes with the learning "
            "rate and the number of this one step; compute numbers that depend on them by step.numbers(formula, …), "
            "pass step.lr to device.foreach as a number, and set gated = True in the class"
        )


def is_gated(optimizer: type[Optimizer]) -> bool:
    """Return whether the class that defines an optimizer's `update` also sets `Optimizer.gated`."""
    return next(bool(vars(c).get("gated", False)) for c in optimizer.__mro__ if "update" in vars(c))


def _skipped(optimizer: Optimizer, device: Any, found_inf: Any) -> tuple[bool, Bool | None]:
    """Return whether to skip the step for infinite gradients: a decision of the host, or a 0-d flag of the device. The
    flag is None if the host decides, for which it may have to wait for the device. An optimizer that is not gated
    cannot leave the decision to the device."""
    if found_inf is None:
        return False, None
    if device.stands_for is None and (device.eager_checks or optimizer.joint or not is_gated(type(optimizer))):
        return bool(found_inf.item()), None
    return False, found_inf._primitive


def _lifted(
    pending: Sequence[Pending], values: Mapping[str, Float], levels: Sequence[Any], device: Any
) -> dict[str, Param[Any]]:
    """Return the parameters with new values, which are on the device beneath the levels."""
    params: dict[str, Param[Any]] = {}
    outer = levels[0] if levels else device
    for item in pending:
        param, value = item.param, values[item.param._id]
        value = unpaired(device, value) if param.kind == "complex" else value
        for level in reversed(levels):
            value = level.lift(value)
        params[param._id] = param._with_primitive(outer, value)
    return params
