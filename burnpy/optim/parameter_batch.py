"""The update of a batch of parameters: the states before it, the call of `Optimizer.update`, and the states after it.

`Repetition` is the whole of a step whose checks and lists are those of the step before.

Master weights are float32 copies of 16-bit parameters, which the optimizer updates and rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from operator import attrgetter, is_
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from weakref import ref

import numpy as np

from burnpy.autodiff.graph import leaf_on
from burnpy.backend.dtypes import float32
from burnpy.backend.errors import ShapeError
from burnpy.backend.operations.programs import Spent
from burnpy.nn.buffer_updates import buffer_values
from burnpy.nn.module_state import flatten_whole, unflatten_whole
from burnpy.optim.gradients.grads_params import GradientsParams
from burnpy.optim.optimizer_states import Memory, ParamState
from burnpy.optim.update_formula import Step, UpdateCounts
from burnpy.tensor.gradients import Gradients
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import new_tensor

if TYPE_CHECKING:
    from burnpy.backend.primitives import Bool, DType, Float
    from burnpy.nn.module import Module
    from burnpy.nn.param import Param
    from burnpy.optim.optimizer import Optimizer
    from burnpy.optim.settings import Options

    Initial: TypeAlias = Callable[[Any, Float], tuple[Float, ...]]


class Pending(NamedTuple):
    """A parameter to update. The primitives are on the device beneath all levels of differentiation.

    Complex numbers are pairs of floats, of one dimension more.

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


def joint_batch(pending: Sequence[Pending], states: Mapping[str, ParamState], common: Step) -> Batch:
    """Return all parameters as one batch, numbered like the parameter with the fewest updates."""
    number = 1 + min([0 if (state := states.get(item.param._id)) is None else state.step for item in pending])
    return Batch(common._replace(number=number, owned=False), [*pending])


class Repetition:
    """The steps that follow a step, if each updates all parameters of the model that the last one returned.

    All of them are one batch, whose states are updated in place, and all variables are renewed. So what the step before
    has checked holds for this one, and only gradients are looked at. The states of the memory do not count these steps
    before `settle`.

    Args:
        batch: the parameters of the step before.
        states: the states after it, by parameter id.
        model: its result.
        outer: the device of the model.
        device: the device beneath it.
        slots: the names of the states.
    """

    __slots__ = (
        "_device",
        "_dtypes",
        "_idents",
        "_model",
        "_names",
        "_number",
        "_outer",
        "_paths",
        "_shapes",
        "_states",
    )

    def __init__(
        self,
        batch: Batch,
        states: Mapping[str, ParamState],
        model: Module[Any],
        outer: Any,
        device: Any,
        slots: tuple[str, ...],
    ) -> None:
        members = batch.members
        self._device, self._outer, self._names = device, outer, slots
        self._model: ref[Any] = ref(model)
        self._number = batch.step.number  #: of the last step
        self._idents, self._paths = [m.param._id for m in members], [m.path for m in members]
        self._states = [[states[ident].values[name]._primitive for ident in self._idents] for name in slots]
        self._shapes, self._dtypes = ([*map(get, [m.value for m in members])] for get in (_shape, _dtype))

    def settle(self, states: dict[str, ParamState]) -> None:
        """Have the states count the steps."""
        for ident in self._idents:
            states[ident] = states[ident]._replace(step=self._number)

    def stepped(
        self, optimizer: Optimizer, memory: Memory, rate: float, model: Any, grads: Any, spent: bool
    ) -> tuple[Any, dict[int, ref[Tensor[Any]]]] | None:
        """Return what `burnpy.optim.step.stepped_model` does; None, with settled states, if this is another step."""
        found, last = None, self._model()
        if last is not None and last is model:
            by_param = GradientsParams.from_grads(grads, model) if type(grads) is Gradients else grads
            found = self._repeated(optimizer, memory, rate, model, by_param, spent)
        if found is None:
            memory.settle()
        return found

    def _repeated(
        self, optimizer: Optimizer, memory: Memory, rate: float, model: Any, grads: Any, spent: bool
    ) -> tuple[Any, dict[int, ref[Tensor[Any]]]] | None:
        if type(grads) is not GradientsParams or grads._device is not self._device or grads._found_inf is not None:
            return None
        if [*grads._values] != self._idents:
            return None
        given = (Spent if spent else list)([x._primitive for x in grads._values.values()])
        if [*map(_shape, given)] != self._shapes or [*map(_dtype, given)] != self._dtypes:
            return None
        variables = model._variables()
        buffers = model._renewed(buffer_values(model, grads._updates)) if grads._updates else {}
        if len(buffers) + len(given) != len(variables):
            return None
        params = [x for x in variables.values() if x._learned] if buffers else [*variables.values()]
        old = [self._outer.lower(param._value._primitive) for param in params]
        step = Step(rate, self._number + 1, optimizer.weight_decay, optimizer.maximize, True)
        after = optimizer.update(self._device, old, given, tuple(map(list, self._states)), step)
        self._number += 1
        if not self._in_place(after):
            memory.repetition = None
            batch = Batch(step, [*map(Pending, self._paths, params, old, given)])
            batch.check(after, self._names, old, type(optimizer).__name__)
            updated = batch.updated(after, memory.states, self._names, self._device)
            memory.states.update({ident: state for ident, _, state in updated})
        values = [new_tensor(Tensor, self._outer, leaf_on(self._outer, value)) for value in after[0]]
        if buffers:
            known = dict(zip(self._idents, values, strict=True))
            values = [buffers[x._id]._value if x._id in buffers else known[x._id] for x in variables.values()]
        new = unflatten_whole(values, flatten_whole(model)[1])
        replaced = memory.with_replaced([param._value for param in params])
        self._model = ref(new)
        return new, replaced

    def _in_place(self, after: Sequence[Sequence[Float]]) -> bool:
        """Return whether the results of an update are new parameters, and the states' own memory."""
        if [*map(len, after)] != [len(self._idents)] * (1 + len(self._states)):
            return False
        alike = [*map(_shape, after[0])] == self._shapes and [*map(_dtype, after[0])] == self._dtypes
        return alike and all(map(is_, chain(*after[1:]), chain(*self._states)))


_shape, _dtype = attrgetter("shape"), attrgetter("dtype")


MASTER = "master"
"""The name of the master among the state tensors of a parameter."""


class Draft:
    """The states that a step writes: the memory's own, in place, or copies, which replace them at the end.

    With copies, an update that raises changes nothing.

    Args:
        memory: the states before the step.
        device: the plain device of the update.
        skips: whether the step is to change nothing.
        found: where true, 0-d, the step is to change nothing; None if ``skips`` says it.
    """

    __slots__ = (
        "_after",
        "_device",
        "_memory",
        "counts",
        "found",
        "in_place",
        "recorder",
        "rounded",
        "skips",
        "states",
    )

    def __init__(self, memory: Memory, device: Any, skips: bool, found: Bool | None) -> None:
        recorded = device.stands_for is not None
        if memory.counts and not recorded and (found is None or memory.counted_on() is not device):
            memory.settle()
        self.skips, self.found, self.recorder = skips, found, device if recorded else None
        self.in_place: bool = device.in_place_updates and not skips and not memory.held
        self.states, self.counts, self.rounded = memory.states, memory.counts, memory.rounded
        if not self.in_place:
            self.states, self.counts = dict(self.states), dict(self.counts)
        self._memory, self._device = memory, device
        self._after = UpdateCounts(device, found) if recorded or found is not None else None

    def batches(
        self, optimizer: Optimizer, rate: Any, pending: Sequence[Pending], options: Mapping[str, Options]
    ) -> list[Batch]:
        """Return the parameters in batches of one `Step` each.

        A parameter whose states may not be updated in place is a batch of its own. So the memory of its old states is
        free before the next parameter needs memory for new ones, unless the caller of a pure step holds them.

        Args:
            optimizer: the optimizer.
            rate: the learning rate.
            pending: the parameters.
            options: the settings of those in groups, by id.
        """
        memory = self._memory
        settings = optimizer.weight_decay, optimizer.maximize
        common = Step(rate, 1, *settings, self.in_place, self.found, None, self.recorder)
        if optimizer.joint and pending:
            return [joint_batch(pending, self.states, common)]
        by_step: dict[Any, Batch] = {}
        # One rate for equal options, as it may be a primitive.
        rates = {own: own.rate(common) for own in options.values()} if options else {}
        for item in pending:
            ident = item.param._id
            state, own = self.states.get(ident), options.get(ident)
            number = 1 if state is None else state.step + 1
            owned = common.owned and (state is None or ident in memory.unseen)
            lr, decay = (rate, optimizer.weight_decay) if own is None else (rates[own], own.weight_decay)
            count = self.counts.get(ident)
            key = (lr, decay, number, count, None if owned or memory.held else ident)
            batch = by_step.get(key)
            if batch is None:
                step = Step(lr, number, decay, common.maximize, owned, common.found_inf, count, common.recorder)
                batch = by_step[key] = Batch(step, [])
            batch.members.append(item)
        return list(by_step.values())

    def update(self, optimizer: Optimizer, batch: Batch, spent: bool) -> dict[str, Float]:
        """Compute the new values of a batch of parameters, by id, and write the new states."""
        members, step, slots, device = batch.members, batch.step, optimizer.slots, self._device
        if self._after is not None:
            step = step._replace(updates=step.updates or self._after.known(step.number - 1))
        old = [m.value for m in members]
        if optimizer.master_weights:
            old = masters_of(device, members, self.states, self.rounded)
        before = batch.states(self.states, slots, device, optimizer.initial, old)
        after: Sequence[Sequence[Float | None]] = (old, *before)
        if not self.skips:
            grads = (Spent if spent else list)([m.grad for m in members])
            after = optimizer.update(device, old, grads, before, step)
        batch.check(after, slots, old, type(optimizer).__name__)
        if optimizer.master_weights:
            slots, after = (*slots, MASTER), with_masters(device, after, members)
        values: dict[str, Float] = {}
        for ident, value, state in batch.updated(after, self.states, slots, device, self.skips):
            self.states[ident] = state
            values[ident] = value
        if self._after is not None and step.updates is not None:
            self.counts.update(dict.fromkeys(values, self._after.after(step.updates)))
        if self.in_place:
            self._memory.unseen.update(values)
        if optimizer.master_weights:
            self.rounded = {**self.rounded, **values}
        return values

    def repetition(
        self, optimizer: Optimizer, batches: Sequence[Batch], model: Module[Any], levels: Sequence[Any]
    ) -> Repetition | None:
        """Return the steps that may follow this one, which returned a model; None if they have to be looked at."""
        if len(batches) != 1 or not batches[0].step.owned or len(levels) != 1 or levels[0].level:
            return None
        if self.found is not None or optimizer.joint or optimizer.master_weights:
            return None
        members, slots = batches[0].members, optimizer.slots
        if any(m.param.kind == "complex" or len(self.states[m.param._id].values) < len(slots) for m in members):
            return None
        return Repetition(batches[0], self.states, model, levels[0], self._device, slots)

    def finish(self, values: Mapping[str, Float]) -> None:
        """Make the states those of the memory, after a step that gave ``values`` by parameter id."""
        memory = self._memory
        if not self.in_place:
            memory.unseen.difference_update(values)
            memory.states, memory.counts = self.states, self.counts
        memory.loaded, memory.rounded = False, self.rounded


def masters_of(
    device: Any, members: Sequence[Pending], states: Mapping[str, ParamState], rounded: Mapping[str, Float]
) -> list[Float]:
    """Return the values that an update computes with: the masters of 16-bit parameters, and the values of others.

    The master of a parameter's first update is its value. Where rounding the master does not give the parameter's
    value, as it was changed by something else than a step, the value takes the master's place, element by element.

    Args:
        device: the plain device of the parameters.
        members: the parameters.
        states: the optimizer's states by parameter id.
        rounded: the values, by parameter id, that the last steps rounded masters to.
    """
    params: list[Float] = []
    unknown: dict[DType, list[int]] = {}
    for k, m in enumerate(members):
        state, value = states.get(m.param._id), m.value
        master = None if state is None else state.values.get(MASTER)
        if value.dtype.itemsize > 2:
            params.append(value)
        elif master is None:
            params.append(device.cast(value, float32))
        else:
            params.append(placed(master, device, float32))
            if rounded.get(m.param._id) is not value:
                unknown.setdefault(value.dtype, []).append(k)
    for dtype, places in unknown.items():
        masters = [params[k] for k in places]
        nearest = device.foreach_cast(masters, dtype)
        values = [members[k].value for k in places]
        (kept,) = device.foreach(kept_each, (masters, nearest, values))
        for k, x in zip(places, kept, strict=True):
            params[k] = x
    return params


def kept_each(b: Any, master: Float, nearest: Float, value: Float) -> tuple[Float]:
    """Return a master where rounding it gives the parameter's value, else the value: a formula of lists."""
    return (b.where(b.eq(nearest, value), master, value),)


def with_masters(
    device: Any, after: Sequence[Sequence[Float]], members: Sequence[Pending]
) -> tuple[Sequence[Float | None], ...]:
    """Return the lists after an update with the parameters rounded to their dtypes, and a list of masters at the end. A
    parameter that is not rounded has no master: None."""
    values, masters = [*after[0]], [None] * len(members)
    wide: dict[DType, list[int]] = {}
    for k, m in enumerate(members):
        if values[k].dtype != m.value.dtype:
            wide.setdefault(m.value.dtype, []).append(k)
    for dtype, places in wide.items():
        new = device.foreach_cast([values[k] for k in places], dtype)
        for k, x in zip(places, new, strict=True):
            values[k], masters[k] = x, values[k]
    return values, *after[1:], masters


def placed(value: Any, device: Any, dtype: Any) -> Any:
    """Convert a tensor or array of a state to a primitive on a plain device, in ``dtype``."""
    if isinstance(value, np.ndarray):
        value = Tensor.from_data(value, device=device)
    elif value._device is not device:
        value = value.to_device(device)
    primitive = value._primitive
    return primitive if primitive.dtype == dtype else device.cast(primitive, dtype)
