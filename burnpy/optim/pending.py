"""The parameters that a step updates: found and checked in one pass over parameter, gradient and state."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeAlias

from burnpy.backend.errors import ShapeError, StateError
from burnpy.optim.state import ParamState, SlotShape, placed, refuse_shape
from burnpy.optim.update_step import Step
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import new_tensor

if TYPE_CHECKING:
    from burnpy.backend.primitives import Float
    from burnpy.nn.module import Module
    from burnpy.nn.param import Param
    from burnpy.optim.groups import Options
    from burnpy.optim.update_step import UpdateCount

    Initial: TypeAlias = Callable[[Any, Float], tuple[Float, ...]]


_NO_COUNTS: Mapping[str, UpdateCount] = MappingProxyType({})


class Pending(NamedTuple):
    """A parameter to update. The primitives are on the device beneath all levels of differentiation.

    It has no reference to the state, so that old states are freed one by one while a step makes new ones.
    """

    path: str
    param: Param[Any]
    value: Float
    grad: Float


class Batch(NamedTuple):
    """Parameters that one call of `Optimizer.update` updates, since they have one `Step`."""

    step: Step
    members: list[Pending]

    def states(
        self,
        known: Mapping[str, ParamState],
        slots: Sequence[str],
        device: Any,
        initial: Initial,
        params: Sequence[Float],
    ) -> tuple[list[Float], ...]:
        """Return a list of the states of all members for each slot, in the dtypes of ``params``.

        ``initial`` makes those of a first update.
        """
        rows: list[Sequence[Float]] = []
        for m, param in zip(self.members, params, strict=True):
            state = known.get(m.param._id)
            if state is None:
                rows.append(initial(device, param))
                continue
            tensors, dtype = state.values, param.dtype
            row = []
            for name in slots:
                x = tensors[name]
                ready = x.__class__ is Tensor and x._device is device and x._primitive.dtype == dtype
                row.append(x._primitive if ready else placed(x, device, dtype))
            rows.append(row)
        return tuple(map(list, zip(*rows, strict=True)))

    def check(
        self, columns: Sequence[Sequence[Float]], slots: Sequence[str], params: Sequence[Float], optimizer: str
    ) -> None:
        """Check the result of `Optimizer.update`.

        Raises:
            ShapeError: the result has another structure, or a new value another shape or dtype than the old one.
        """
        lengths = [*map(len, columns)]
        if lengths != [len(self.members)] * (1 + len(slots)):
            raise ShapeError(
                f"{optimizer}.update() returned lists of {', '.join(map(str, lengths))} arrays for "
                f"{len(self.members)} parameters; return a list of the new parameters, and one of each state: "
                f"{', '.join(slots) or 'there are none'}"
            )
        for m, param, value in zip(self.members, params, columns[0], strict=True):
            if value.shape != param.shape or value.dtype != param.dtype:
                raise ShapeError(
                    f"{optimizer}.update() returned shape {value.shape} and dtype {value.dtype} for {m.path}, which is "
                    f"of shape {param.shape} and dtype {param.dtype}"
                )

    def updated(
        self,
        columns: Sequence[Sequence[Float]],
        known: Mapping[str, ParamState],
        slots: Sequence[str],
        device: Any,
        skipped: bool = False,
    ) -> list[tuple[str, Float, ParamState]]:
        """Return id, new value and new state of each member, from lists of the values and of each state.

        A state that is None is left out. If the update was ``skipped``, it does not count.
        """
        number, results = self.step.number, []
        for m, value, *after in zip(self.members, *columns, strict=True):
            ident = m.param._id
            old, tensors = known.get(ident), {}
            for name, x in zip(slots, after, strict=True):
                if x is None:
                    continue
                tensor: Any = None if old is None else old.values.get(name)
                in_place = tensor.__class__ is Tensor and tensor._primitive is x
                tensors[name] = tensor if in_place else new_tensor(Tensor, device, x)
            count = (0 if old is None else old.step) if skipped else number
            results.append((ident, value, ParamState(m.path, count, tensors)))
        return results


def pending_in(
    model: Module[Any],
    grads: Mapping[str, Tensor[Any]],
    states: Mapping[str, ParamState],
    levels: Sequence[Any],
    slot_shape: SlotShape | None = None,
) -> tuple[list[Pending], Pending | None]:
    """Return the parameters with a gradient that are not frozen, and the first that does not fit it or its state.

    Args:
        model: the model.
        grads: gradients by parameter id, on the device beneath the outermost level.
        states: the optimizer's states by parameter id.
        levels: the levels of the model's device.
        slot_shape: the shape of a state tensor: see `Optimizer.slot_shape`; None if all have the parameter's.
    """
    pending: list[Pending] = []
    misfit = None
    inner = levels[1:]
    for path, param in model.named_params().items():
        ident = param._id
        tensor = None if param._frozen else grads.get(ident)
        if tensor is None:
            continue
        value, grad = param._value._primitive, tensor._primitive
        for level in levels:
            value = level.lower(value)
        for level in inner:
            grad = level.lower(grad)
        item = Pending(path, param, value, grad)
        pending.append(item)
        if misfit is None:
            shape, state = value.shape, states.get(ident)
            fits = grad.shape == shape and grad.dtype == value.dtype
            if fits and state is not None:
                for name, x in state.values.items():
                    expected = shape if slot_shape is None else slot_shape(name, shape)
                    fits = fits and (x._primitive if x.__class__ is Tensor else x).shape == expected
            if not fits:
                misfit = item
    return pending, misfit


def refuse(item: Pending, state: ParamState | None, slot_shape: SlotShape) -> NoReturn:
    """Raise the error for a parameter that does not fit its gradient or its state.

    Raises:
        ShapeError: the gradient has another shape or dtype.
        StateError: a state has another shape.
    """
    value, grad = item.value, item.grad
    if state is not None and (grad.shape, grad.dtype) == (value.shape, value.dtype):
        refuse_shape(state, item.path, value.shape, slot_shape)
    raise ShapeError(
        f"the gradient of {item.path} has shape {grad.shape} and dtype {grad.dtype}, but the parameter has shape "
        f"{value.shape} and dtype {value.dtype}; compute the gradients with this model"
    )


def batches(
    pending: Sequence[Pending],
    states: Mapping[str, ParamState],
    options: Mapping[str, Options],
    common: Step,
    unseen: Container[str],
    joint: bool = False,
    held: bool = False,
    counts: Mapping[str, UpdateCount] = _NO_COUNTS,
) -> list[Batch]:
    """Return the parameters in batches of one `Step` each.

    A parameter whose states may not be updated in place is a batch of its own, so that the memory of its old states is
    free before the next one needs memory for new states, unless they are held by others.

    Args:
        pending: the parameters.
        states: the optimizer's states by parameter id.
        options: the settings of those in groups, by id.
        common: the settings of the others; ``owned`` if the device updates states in place.
        unseen: the ids of those whose states were not exposed, and so may be updated in place.
        joint: whether all are one batch, numbered like the parameter with the fewest updates.
        held: whether old states are needed after the step.
        counts: the numbers of updates by id, where only the device knows them.
    """
    if joint and pending:
        number = 1 + min([0 if (state := states.get(item.param._id)) is None else state.step for item in pending])
        return [Batch(common._replace(number=number, owned=False), [*pending])]
    by_step: dict[Any, Batch] = {}
    lr, decay = common.lr, common.weight_decay
    # One rate for equal options, as it may be a primitive.
    rates = {own: own.rate(common) for own in options.values()} if options else {}
    for item in pending:
        ident = item.param._id
        state = states.get(ident)
        number = 1 if state is None else state.step + 1
        owned = common.owned and (state is None or ident in unseen)
        own = options.get(ident)
        settings = (lr, decay) if own is None else (rates[own], own.weight_decay)
        count = counts.get(ident) if counts else None
        key = (*settings, number, count, None if owned or held else ident)
        batch = by_step.get(key)
        if batch is None:
            found, recorder = common.found_inf, common.recorder
            step = Step(settings[0], number, settings[1], common.maximize, owned, found, count, recorder)
            batch = by_step[key] = Batch(step, [])
        batch.members.append(item)
    return list(by_step.values())


def updated_already(optimizer: str, model: str, paths: Sequence[str]) -> StateError:
    """Return the error for a step from parameters that the optimizer has replaced already."""
    of = f"{', '.join(paths[:8])}{', …' if paths[8:] else ''} of this {model}"
    return StateError(
        f"{optimizer}.step() got {of}, which it has updated already: a step changes no model "
        "but returns the next; write model = optim.step(...), or for several trials from one model take each step with "
        "a copy.copy(optim) made before"
    )
