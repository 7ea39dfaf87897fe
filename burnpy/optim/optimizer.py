"""`Optimizer`: the base class of optimizers. Each optimizer is a file with its settings and its update."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, TypeVar, overload

from burnpy.backend.errors import ArgumentError, KindError, ModuleError, StateError, a
from burnpy.nn.buffer_updates import buffer_values
from burnpy.nn.module import Module
from burnpy.nn.module_errors import Explaining, missing_attribute
from burnpy.optim.grads_params import GradientsParams
from burnpy.optim.groups import Group, Options, options_of
from burnpy.optim.matching import refuse_device
from burnpy.optim.memory import MASTER, Memory, Use, masters_of, with_masters
from burnpy.optim.pending import Pending, batches, levels_of, pending_in, refuse, updated_already
from burnpy.optim.settings import at_least_zero
from burnpy.optim.state import OptimizerRecord, ParamState, checked_record, rekeyed
from burnpy.optim.trees import is_tree, tree_step
from burnpy.optim.update_step import Step
from burnpy.tensor.call_errors import explained
from burnpy.tensor.gradients import Gradients
from burnpy.tensor.tensor import Tensor
from burnpy.typevars import M

if TYPE_CHECKING:
    from weakref import ref

    from burnpy.backend.backend import Backend
    from burnpy.backend.primitives import Float

    Floats: TypeAlias = Sequence[Float]

T = TypeVar("T", bound=Tensor[Any] | dict[str, Any] | list[Any] | tuple[Any, ...])

_set = object.__setattr__


@dataclass(frozen=True, eq=False, kw_only=True)
class Optimizer(metaclass=Explaining):
    """The base class of optimizers: `step` computes an updated model from a model and its gradients.

    `step` returns the new model and leaves the old one unchanged. The optimizer stores a state per parameter, keyed by
    the parameter's id; that is its only mutable part, and a step that raises an argument error changes nothing. State
    arrays are updated in place unless `state`, `into_record` or a copy has exposed them; then the next step allocates
    new ones.

    A step whose result is discarded trains nothing, so a step from parameters that the optimizer has already replaced
    is an error. A copy (`copy.copy`) continues from the current state without a record of replaced parameters: for
    several trials from one model, such as a search for the learning rate, use a new copy for each::

        trials = []
        for rate in (0.03, 0.3, 3.0):
            trial = copy.copy(optim)
            trials.append((trial, trial.step(rate, model, grads)))
        optim, model = min(trials, key=lambda trial: loss(trial[1]).item())

    Use an optimizer from one thread at a time. During a step, for example in a signal handler, it cannot be saved or
    copied or take another step: set a flag in the handler, and save after the step. A step that is interrupted, by
    Ctrl-C or lack of memory, returns no model, yet the states of some parameters with a gradient may be one step ahead
    or partially updated. To continue exactly, load a record.

    To write an optimizer, define a frozen dataclass with its settings, `slots` and `update`.

    Args:
        weight_decay: the coefficient of weight decay, used as the optimizer's class says.
        maximize: whether to go up the gradient instead of down.
        groups: parameters with different settings: see `Group`.
        master_weights: whether the state of a float16 or bfloat16 parameter has a float32 copy of it, ``"master"``.
            Then averages and steps are computed in float32, and the parameter is the copy, rounded, so that steps
            smaller than the spacing of its dtype add up. A parameter that was changed by something else than `step`
            changes its copy. Source: Micikevicius et al., Mixed precision training, 2018.

    >>> import copy
    >>> from burnpy import Autodiff, Tensor
    >>> from burnpy.backend import NumPy
    >>> from burnpy.nn import Linear
    >>> from burnpy.optim import Adam
    >>> x = Tensor[Autodiff[NumPy]].from_data([[1.0, 2.0]])
    >>> model, optim = Linear(2, 1, device=Autodiff[NumPy]).map(lambda w: w * 0.0 + 1.0), Adam()
    >>> grads = model(x).square().mean().backward()
    >>> trials = []
    >>> for rate in (0.03, 0.3, 3.0):
    ...     trial = copy.copy(optim)
    ...     trials.append((trial, trial.step(rate, model, grads)))
    >>> [round(model(x).square().mean().item(), 2) for _, model in trials]
    [15.05, 7.84, 64.0]
    >>> optim, model = min(trials, key=lambda trial: trial[1](x).square().mean().item())
    >>> optim.state()[model.weight.id].step
    1
    """

    weight_decay: float = 0.0
    maximize: bool = False
    groups: Sequence[Group] = ()
    master_weights: bool = False

    gated: ClassVar[bool] = False
    """True in a class whose own `update` leaves all as it is where ``step.found_inf`` is true, as
    `burnpy.backend.Backend.foreach` does if it is passed as ``skipped``, and takes what depends on the number of the
    update from `burnpy.optim.Step.numbers`. Otherwise, a step after `GradScaler.unscale` waits for the device."""

    joint: ClassVar[bool] = False
    """True if one call of `update` always takes all parameters, as their updates depend on each other."""

    _memory: Memory = field(init=False, repr=False)
    _known: tuple[tuple[Any, ...], Mapping[str, Options]] = field(init=False, repr=False)
    """The settings of the groups for the last model, and the key of that model: a cache."""

    def __post_init__(self) -> None:
        self.check()
        groups: Any = self.groups
        if not isinstance(groups, (list, tuple)) or not all(isinstance(group, Group) for group in groups):
            raise ArgumentError(f"{type(self).__name__}(groups=) takes a list of Group(...), not {groups!r:.80}")
        _set(self, "groups", tuple(groups))
        _set(self, "_memory", Memory({}, False))
        _set(self, "_known", ((), {}))

    def check(self) -> None:
        """Check the settings; called on construction.

        Raises:
            ArgumentError: a setting is invalid.
        """
        at_least_zero(self.weight_decay, f"{type(self).__name__}(weight_decay=)")
        flags: list[tuple[str, object]] = [("maximize", self.maximize), ("master_weights", self.master_weights)]
        for name, flag in flags:
            if not isinstance(flag, bool):
                raise ArgumentError(f"{type(self).__name__}({name}=) is {flag!r:.80}; expected True or False")

    @property
    @abstractmethod
    def slots(self) -> tuple[str, ...]:
        """The names of the state tensors per parameter; the number of updates is stored in addition."""

    @abstractmethod
    def update(
        self, device: Backend, params: Floats, grads: Floats, states: tuple[Floats, ...], step: Step
    ) -> tuple[Floats, ...]:
        """Return a list of the parameters' next values, followed by a list of each of the new states.

        It is called once for all parameters with equal settings, so that a backend can update them in one kernel. Pass
        a formula of one parameter to ``device.foreach`` (`burnpy.backend.Backend.foreach`), or compute each parameter
        on its own with `for_each_param`. The lists have one entry per parameter, in one order, and parameters may
        differ in shape and dtype.

        Args:
            device: a plain backend that records no graph. The arrays below are its primitives, and must not be
                modified, except the states if ``step.owned``.
            params: the parameters' values.
            grads: the gradients.
            states: a list of the state tensors for each name in `slots`.
            step: the learning rate and the other settings that all optimizers have in common. ``step.owned`` says that
                the states may be modified in place: they are results of `initial` or of the last update and were not
                exposed. Pass it on to ``device.foreach`` only if `initial` and `update` return new, distinct
                arrays, never the parameters or the gradients. ``step.found_inf`` is for an update that is `gated`.
        """

    def initial(self, device: Backend, param: Float) -> tuple[Float, ...]:
        """Return the state tensors before the first update of a parameter: zeros, in new memory."""
        return tuple(device.full(param.shape, 0.0, param.dtype) for _ in self.slots)

    @overload
    def step(self, lr: float, model: M, grads: GradientsParams[Any] | Gradients[Any]) -> M: ...
    @overload
    def step(self, lr: float, model: T, grads: T | Gradients[Any]) -> T: ...
    @explained
    def step(self, lr: float, model: Any, grads: Any) -> Any:
        """Update every parameter that has a gradient, and return the new model.

        Frozen parameters, and those without a gradient, keep their values and states. The updates of buffers in the
        gradients are applied.

        Args:
            lr: the learning rate, for example from a schedule: ``schedule(step)``.
            model: a model whose parameters have the ids of the gradients; or a float tensor, or dicts, lists and tuples
                of them, whose states and groups go by their paths, such as ``"h"`` or ``"layers.0"``.
            grads: the result of ``backward()``, or `GradientsParams` of it, of a fork, or of several batches; of a tree
                of tensors also a tree of gradients, as `burnpy.func.grad` gives it.

        Raises:
            ArgumentError: the rate is negative or not finite; a group's path matches nothing; ``backward()``'s
                gradients contain none of the model's parameters.
            ModuleError: there are gradients of parameters that the model does not have.
            DeviceError: the gradients are not on the device beneath the model's.
            ShapeError: a gradient has another shape or dtype than its parameter.
            StateError: the optimizer's state, or a loaded record, is of another model; the optimizer has replaced all
                these parameters already; another step is in progress.
            KindError: a leaf of a tree is not a float tensor.

        >>> from burnpy import Autodiff, Tensor
        >>> from burnpy.backend import NumPy
        >>> from burnpy.optim import Adam
        >>> tree, optim = {"h": Tensor[Autodiff[NumPy]].from_data([4.0]).require_grad()}, Adam()
        >>> for _ in range(3):
        ...     tree = optim.step(1.0, tree, tree["h"].square().sum().backward())
        >>> [round(x, 1) for x in tree["h"].tolist()]
        [1.1]
        """
        if not isinstance(model, Module) and is_tree(model):
            return tree_step(self, lr, model, grads)
        memory, use = self._memory, Use("step()", "go on")
        try:
            memory.begin(use)
            new, replaced = self._next(memory, lr, model, grads)
        finally:
            memory.end(use)
        memory.replaced = replaced  # last, so that an interrupt cannot mark leaves as replaced and lose the model
        return new

    def _next(
        self, memory: Memory, lr: float, model: M, grads: GradientsParams[Any] | Gradients[Any]
    ) -> tuple[M, dict[int, ref[Tensor[Any]]]]:
        """Return the next model, and the record of replaced leaves including this step's."""
        rate, name = at_least_zero(lr, f"the learning rate of {type(self).__name__}.step()"), type(self).__name__
        param_grads = self._by_param(grads, model)
        options = self._options(model)
        levels, device, pending = self._pending(memory, model, param_grads)
        # Updates of buffers may raise an error, so compute them before anything changes.
        buffers = model._renewed(buffer_values(model, param_grads.buffer_updates)) if param_grads._updates else {}
        found_inf = param_grads._found_inf  # where true, the step is to change nothing
        skips, found = False, None
        if found_inf is not None:
            if device.eager_checks or self.joint or not _gates(type(self)):
                skips = bool(found_inf.item())
            else:
                found = found_inf._primitive
        if memory.counts and (found is None or memory.counted_on() is not device):
            memory.settle()
        # if False, an update may raise and change no states
        in_place = device.in_place_updates and not skips
        states, unseen, counts = memory.states, memory.unseen, memory.counts
        if not in_place:
            states, counts = dict(states), dict(counts)
        common, step_counts = Step(rate, 1, self.weight_decay, self.maximize, in_place, found), None
        if found is not None:
            from burnpy.optim.update_step import UpdateCounts

            step_counts = UpdateCounts(device, found)
        slots, rounded = self.slots, memory.rounded
        renewed: dict[str, Any] = {}
        for batch in batches(pending, states, options, common, unseen, self.joint, counts):
            step, members = batch
            if step_counts is not None:
                step = step._replace(updates=step.updates or step_counts.known(step.number - 1))
            _, _, old, gradients = map(list, zip(*members, strict=True))
            if self.master_weights:
                old = masters_of(device, members, states, rounded)
            before = batch.states(states, slots, device, self.initial, old)
            after = (old, *before) if skips else self.update(device, old, gradients, before, step)
            batch.check(after, slots, old, name)
            names = slots
            if self.master_weights:
                names, after = (*slots, MASTER), with_masters(device, after, members)
            for ident, value, state in batch.updated(after, states, names, device, skips):
                states[ident] = state
                renewed[ident] = value
            if step_counts is not None and step.updates is not None:
                counts.update(dict.fromkeys([m.param._id for m in members], step_counts.after(step.updates)))
            if in_place:
                unseen.update(renewed)
            if self.master_weights:
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

    def _pending(
        self, memory: Memory, model: Module[Any], grads: GradientsParams[Any]
    ) -> tuple[list[Any], Any, list[Pending]]:
        """Return the levels of the model's device, the device of the update, which records nothing, and the parameters.

        Raises:
            StateError: the state or a loaded record is of another model, or the parameters were replaced already.
            ShapeError: a gradient has another shape or dtype than its parameter.
        """
        name, states = type(self).__name__, memory.states
        outer: Any = model.device
        levels = levels_of(outer)
        if memory.loaded and not any(param.id in states for param in model.params()):
            raise StateError(
                f"the record that {name} has loaded knows no parameter of this {type(model).__name__}"
                " by id; load the model's record too, or load_record(record, model), which goes by paths as well"
            )
        pending, misfit = pending_in(model, grads._values, states, levels)
        if memory.has_replaced([item.param._value for item in pending]):
            raise updated_already(name, type(model).__name__, [item.path for item in pending])
        if misfit is not None:
            refuse(misfit, states.get(misfit.param._id))
        return levels, levels[-1].inner if levels else outer, pending

    if not TYPE_CHECKING:  # type checkers see only the attributes above

        def __getattr__(self, name: str) -> object:
            """Raise an error for an unknown attribute, with a hint if it is one of PyTorch's methods."""
            raise missing_attribute(self, "Optimizer", name)

    def state(self) -> dict[str, ParamState]:
        """Return the states by parameter id: tensors, which later steps do not modify.

        Raises:
            StateError: a step is in progress.
        """
        states = self._memory.shown("state()")
        return {ident: state._replace(values=dict(state.values)) for ident, state in states.items()}

    def into_record(self) -> OptimizerRecord:
        """Return the `state` as read-only NumPy arrays, which can be pickled and belong to no device.

        `burnpy.record` writes it to a file. Settings are not part of it.

        Raises:
            StateError: a step is in progress.
        """
        states = {}
        for ident, state in self._memory.shown("into_record()").items():
            arrays = {name: x.to_numpy() if isinstance(x, Tensor) else x for name, x in state.values.items()}
            states[ident] = state._replace(values=arrays)
        return OptimizerRecord(type(self).__name__, states)

    def load_record(self, record: OptimizerRecord, model: Module[Any] | None = None) -> Self:
        """Replace the states with those of a record; training then continues bit for bit as if it had not stopped.

        Args:
            record: the result of `into_record` of an optimizer of the same class and slots.
            model: the model to continue with: every state must match one of its parameters, by id or else by path.
                Without it, states are matched by id and validated at the next step.

        Returns:
            The optimizer itself.

        Raises:
            StateError: the record is of another optimizer, of one with other settings, or of another model, or a step
                is in progress. Nothing is loaded.
        """
        states = checked_record(record, type(self).__name__, self.slots, (MASTER,) if self.master_weights else ())
        if model is not None:
            states = rekeyed(states, model)
        self._memory.load(states)
        return self

    def __copy__(self) -> Self:
        """Return an independent optimizer with the same settings and states."""
        memory, other = self._memory.copied("a copy"), object.__new__(type(self))
        for name in {*vars(self), *(known.name for known in fields(self))}:
            _set(other, name, getattr(self, name))
        _set(other, "_memory", memory)
        return other

    def _by_param(self, grads: object, model: Module[Any]) -> GradientsParams[Any]:
        """Return the gradients by parameter, checked to be of parameters of the model."""
        if type(grads) is Gradients:  # final, and `isinstance` would call its abstract base class
            return GradientsParams.from_grads(grads, model)
        if not isinstance(grads, GradientsParams):
            hint = "; for gradients from burnpy.func write GradientsParams.from_module(gradients)"
            raise KindError(
                f"{type(self).__name__}.step() takes the gradients that backward() returned, or GradientsParams, got "
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

    def _options(self, model: Module[Any]) -> Mapping[str, Options]:
        """Return the settings of the parameters in groups by id; cached for models with the same paths and ids."""
        if not self.groups:
            return {}
        key = tuple((path, param.id, param.frozen) for path, param in model.named_params().items())
        if key != self._known[0]:
            _set(self, "_known", (key, options_of(model, self.groups, self.weight_decay)))
        return self._known[1]


def _gates(optimizer: type[Optimizer]) -> bool:
    """Return whether the class that has the `update` of an optimizer says that it is `Optimizer.gated`."""
    return next(bool(vars(c).get("gated", False)) for c in optimizer.__mro__ if "update" in vars(c))
