"""One step of an optimizer: the new values of a model, from its gradients and the states in a `Memory`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from burnpy.backend.errors import KindError, ModuleError, RecordingError, StateError, a
from burnpy.nn.buffer_updates import buffer_values
from burnpy.nn.module import Module
from burnpy.optim.gradients.grads_params import GradientsParams
from burnpy.optim.gradients.matching import refuse_derivative, refuse_device
from burnpy.optim.memory import MASTER, Memory, masters_of, with_masters
from burnpy.optim.pending import Pending, batches, pending_in, refuse, updated_already
from burnpy.optim.update_step import Step, UpdateCounts
from burnpy.tensor.gradients import Gradients
from burnpy.tensor.levels import levels_of

if TYPE_CHECKING:
    from weakref import ref

    from burnpy.optim.optimizer import Optimizer
    from burnpy.tensor.tensor import Tensor


def stepped_model(
    optimizer: Optimizer, memory: Memory, rate: Any, model: Any, grads: Any
) -> tuple[Any, dict[int, ref[Tensor[Any]]]]:
    """Return the next model, and the record of replaced leaves including this step's.

    Args:
        optimizer: the optimizer.
        memory: its states, or those of a pure step, which are replaced.
        rate: the learning rate: a float; in a recording also a 0-d primitive.
        model: the model.
        grads: `Gradients` or `GradientsParams`.
    """
    param_grads = by_param(optimizer, grads, model)
    options = optimizer._options(model)
    levels, device, pending = pending_of(optimizer, memory, model, param_grads)
    recorded = device.stands_for is not None
    if recorded:
        _check_recorded(optimizer, memory)
    # Updates of buffers may raise an error, so compute them before anything changes.
    buffers = model._renewed(buffer_values(model, param_grads.buffer_updates)) if param_grads._updates else {}
    found_inf = param_grads._found_inf  # where true, the step is to change nothing
    skips, found = False, None
    if found_inf is not None:
        if not recorded and (device.eager_checks or optimizer.joint or not gates(type(optimizer))):
            skips = bool(found_inf.item())
        else:
            found = found_inf._primitive
    if memory.counts and not recorded and (found is None or memory.counted_on() is not device):
        memory.settle()
    # if False, an update may raise and change no states
    in_place = device.in_place_updates and not skips and not memory.held
    states, unseen, counts = memory.states, memory.unseen, memory.counts
    if not in_place:
        states, counts = dict(states), dict(counts)
    recorder = device if recorded else None
    common = Step(rate, 1, optimizer.weight_decay, optimizer.maximize, in_place, found, None, recorder)
    step_counts = UpdateCounts(device, found) if recorded or found is not None else None
    slots, rounded = optimizer.slots, memory.rounded
    renewed: dict[str, Any] = {}
    together = optimizer.joint, memory.held
    for batch in batches(pending, states, options, common, unseen, *together, counts):
        step, members = batch
        if step_counts is not None:
            step = step._replace(updates=step.updates or step_counts.known(step.number - 1))
        _, _, old, gradients = map(list, zip(*members, strict=True))
        if optimizer.master_weights:
            old = masters_of(device, members, states, rounded)
        before = batch.states(states, slots, device, optimizer.initial, old)
        after = (old, *before) if skips else optimizer.update(device, old, gradients, before, step)
        batch.check(after, slots, old, type(optimizer).__name__)
        names = slots
        if optimizer.master_weights:
            names, after = (*slots, MASTER), with_masters(device, after, members)
        for ident, value, state in batch.updated(after, states, names, device, skips):
            states[ident] = state
            renewed[ident] = value
        if step_counts is not None and step.updates is not None:
            counts.update(dict.fromkeys([m.param._id for m in members], step_counts.after(step.updates)))
        if in_place:
            unseen.update(renewed)
        if optimizer.master_weights:
            rounded = {**rounded, **dict(zip((m.param._id for m in members), after[0], strict=True))}
    for item in pending:
        param, value = item.param, renewed[item.param._id]
        for level in reversed(levels):
            value = level.lift(value)
        renewed[param._id] = param._with_primitive(levels[0] if levels else device, value)
    new = model._with_variables({**buffers, **renewed})
    replaced = memory.with_replaced([item.param._value for item in pending])
    if not in_place:
        unseen.difference_update(renewed)
        memory.states, memory.counts = states, counts
    memory.loaded, memory.rounded = False, rounded
    return new, replaced


def pending_of(
    optimizer: Optimizer, memory: Memory, model: Module[Any], grads: GradientsParams[Any]
) -> tuple[list[Any], Any, list[Pending]]:
    """Return the levels of the model's device, the device of the update, which records nothing, and the parameters.

    Raises:
        StateError: the state or a loaded record is of another model, or the parameters were replaced already.
        ShapeError: a gradient has another shape or dtype than its parameter.
        GraphError: a function of `burnpy.func` that is being differentiated would need the derivative of the update.
    """
    name, states = type(optimizer).__name__, memory.states
    outer: Any = model.device
    levels = levels_of(outer)
    if memory.loaded and not any(param.id in states for param in model.params()):
        raise StateError(
            f"the record that {name} has loaded knows no parameter of this {type(model).__name__}"
            " by id; load the model's record too, or load_record(record, model), which goes by paths as well"
        )
    slot_shape = optimizer.slot_shape if optimizer.factored else None
    pending, misfit = pending_in(model, grads._values, states, levels, slot_shape)
    if levels and levels[0].level:
        refuse_derivative(f"{name}.step()", [item.param for item in pending])
    if memory.has_replaced([item.param._value for item in pending]):
        raise updated_already(name, type(model).__name__, [item.path for item in pending])
    if misfit is not None:
        refuse(misfit, states.get(misfit.param._id), optimizer.slot_shape)
    return levels, levels[-1].inner if levels else outer, pending


def by_param(optimizer: Optimizer, grads: object, model: Module[Any]) -> GradientsParams[Any]:
    """Return the gradients by parameter, checked to be of parameters of the model."""
    if type(grads) is Gradients:  # final, and `isinstance` would call its abstract base class
        return GradientsParams.from_grads(grads, model)
    if not isinstance(grads, GradientsParams):
        hint = "; for gradients from burnpy.func write GradientsParams.from_module(gradients)"
        raise KindError(
            f"{type(optimizer).__name__}.step() takes the gradients that backward() returned, or GradientsParams, got "
            f"{a(type(grads).__name__)}{hint if isinstance(grads, Module) else ''}"
        )
    refuse_device(model, grads._device)
    known = {variable._id for variable in model._variables().values() if variable._learned}
    if not known.issuperset(grads._values):
        strangers = [path for path, ident in zip(grads.named(), grads, strict=True) if ident not in known]
        raise ModuleError(
            f"these gradients are of {', '.join(strangers[:8])}{', …' if strangers[8:] else ''}, which this "
            f"{type(model).__name__} does not have under their ids; they come from another model"
        )
    return grads


def gates(optimizer: type[Optimizer]) -> bool:
    """Return whether the class that has the `update` of an optimizer says itself that it is `Optimizer.gated`."""
    return next(bool(vars(c).get("gated", False)) for c in optimizer.__mro__ if "update" in vars(c))


def _check_recorded(optimizer: Optimizer, memory: Memory) -> None:
    """Check that a step can be recorded.

    Raises:
        RecordingError: it is not a pure one, or the update computes with numbers of this one step.
    """
    name = type(optimizer).__name__
    if not memory.held:
        raise RecordingError(
            f"{name}.step() was called inside of a compiled function, whose replays would not advance the states that "
            "the optimizer holds; give the function a state, at first optim.init(model), as an argument, and return "
            "the next: model, state = optim.pure_step(lr, model, grads, state)"
        )
    if not gates(type(optimizer)):
        raise RecordingError(
            f"{name}.pure_step() was called inside of a compiled function, but {name}.update() computes with the "
            "learning rate and the number of this one step; take what depends on them from step.numbers(formula, …), "
            "pass step.lr to device.foreach as a number, and set gated = True in the class"
        )
