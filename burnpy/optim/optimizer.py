"""`Optimizer`: the base class of optimizers. Each optimizer is a file with its settings and its update."""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, TypeVar, overload

from burnpy.backend.errors import ArgumentError
from burnpy.backend.operations.programs import no_results, one_position, unless
from burnpy.nn.module import Module
from burnpy.optim.gradients.grads_params import GradientsParams
from burnpy.optim.gradients.matching import hold_alone
from burnpy.optim.optimizer_states import Memory, OptimizerRecord, ParamState, Use, checked_record, rekeyed
from burnpy.optim.parameter_batch import MASTER
from burnpy.optim.pure_functions import OptimizerState, as_model, initial_state, is_tree, pure_step
from burnpy.optim.settings import Group, Options, Ranges, at_least_zero, check_ranges
from burnpy.optim.step import stepped_model
from burnpy.optim.update_formula import Step, Update
from burnpy.tensor.call_errors import Explaining, explained, refuse_attribute
from burnpy.tensor.gradients import Gradients
from burnpy.tensor.tensor import ComplexTensor, Tensor
from burnpy.typevars import M

if TYPE_CHECKING:
    from burnpy.backend.backend import Backend
    from burnpy.backend.primitives import Float, Shape

    Floats: TypeAlias = Sequence[Float]

T = TypeVar("T", bound=Tensor[Any] | ComplexTensor[Any] | dict[str, Any] | list[Any] | tuple[Any, ...])

_set = object.__setattr__
_RANGES: Ranges = {"weight_decay": at_least_zero}
"""The checks of the settings that all optimizers have."""


def _spent(grads: object) -> bool:
    """Return whether nobody reads gradients, which only a call refers to, after it."""
    return type(grads) in (Gradients, GradientsParams) and hold_alone(grads)


@explained
def _references(optimizer: Any, lr: float, model: Any, grads: object) -> int:
    return sys.getrefcount(grads)


def _passed() -> int:
    """Return the reference count of gradients that only a call of `Optimizer.step` holds; 0 if it cannot tell."""
    held = object()
    alone = _references(None, 0.0, None, object())
    return alone if _references(None, 0.0, None, held) > alone else 0


_PASSED = _passed()


@dataclass(frozen=True, eq=False, kw_only=True)
class Optimizer(metaclass=Explaining):
    """The base class of optimizers: `step` computes an updated model from a model and its gradients.

    `step` returns the new model and leaves the old one unchanged. The optimizer stores a state per parameter, keyed by
    the parameter's id; that is its only mutable part, and a step that raises an argument error changes nothing. State
    arrays are updated in place unless `state`, `into_record` or a copy has exposed them; then the next step allocates
    new ones. New parameters take the memory of gradients that nobody can read later, as with
    ``step(lr, model, loss.backward())``.

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

    To write an optimizer, define a frozen dataclass with its settings, `slots` and `formula`, or `update`.

    Args:
        weight_decay: the coefficient of weight decay, used as the optimizer's class says.
        maximize: whether to go up the gradient instead of down.
        groups: parameters with different settings: see `Group`.
        master_weights: whether the state of a float16 or bfloat16 parameter has a float32 copy of it, ``"master"``.
            Then averages and steps are computed in float32, and the parameter is the copy, rounded, so that steps
            smaller than the spacing of its dtype add up. A parameter that was changed by something else than `step`
            changes its copy. Source: Micikevicius et al., Mixed precision training, 2018.

    >>> import copy
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

    ranges: ClassVar[Ranges] = {}
    """The checks of the settings of a class by name, such as `burnpy.optim.settings.at_least_zero`."""

    gated: ClassVar[bool] = True
    """True in a class whose own `update` changes nothing where ``step.found_inf`` is true, as
    `burnpy.backend.Backend.foreach` does with ``skipped``, and takes what depends on the number of the update from
    `burnpy.optim.Step.numbers`; an update by `formula` does. If a class that writes `update` does not set it, a step
    after `GradScaler.unscale` waits for the device."""

    joint: ClassVar[bool] = False
    """True if one call of `update` always takes all parameters, as their updates depend on each other."""

    factored: ClassVar[bool] = False
    """True in a class whose state tensors have other shapes than their parameters: see `slot_shape`."""

    takes_complex: ClassVar[bool] = True
    """False in a class whose updates depend on the shape of a parameter: complex ones are pairs of floats to it."""

    impure: ClassVar[str] = ""
    """Why the class has no `pure_step`, for its message; empty if it has one."""

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
        """Check the settings, by `ranges`; called on construction.

        Raises:
            ArgumentError: a setting is invalid.
        """
        check_ranges(self, {**_RANGES, **self.ranges})

    @property
    @abstractmethod
    def slots(self) -> tuple[str, ...]:
        """The names of the state tensors per parameter; the number of updates is stored in addition."""

    def formula(self, step: Step) -> Update:
        """Return the formula that updates one parameter, with its numbers: see `burnpy.optim.update_formula`.

        A class writes this method, or `update`.
        """
        raise NotImplementedError(f"{type(self).__name__} has neither formula() nor update(); write one of them")

    def update(
        self, device: Backend, params: Floats, grads: Floats, states: tuple[Floats, ...], step: Step
    ) -> tuple[Floats, ...]:
        """Return a list of the parameters' next values, followed by a list of each of the new states.

        By default they are computed by `formula`. A class whose update is no formula of one parameter overrides it; it
        may compute each parameter on its own with `for_each_param`.

        It is called once for all parameters with equal settings, so that a backend can update them in one kernel. The
        lists have one entry per parameter, in one order, and parameters may
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
        formula, numbers, flags, decoupled, elementwise = self.formula(step)
        lists, numbers = (params, grads, *states), (*numbers, step.decay(decoupled))
        flags = (*flags, bool(step.weight_decay), step.maximize, decoupled)
        if elementwise:
            return device.foreach(formula, lists, numbers, flags, step.owned, step.found_inf)
        rows = [one_position(device, formula, k, row, numbers, flags) for k, row in enumerate(zip(*lists, strict=True))]
        after = tuple(map(list, zip(*rows, strict=True))) if rows else no_results(lists)
        return after if step.found_inf is None else unless(device, step.found_inf, (params, *states), after)

    def initial(self, device: Backend, param: Float) -> tuple[Float, ...]:
        """Return the state tensors before the first update of a parameter: zeros, in new memory."""
        return tuple(device.full(self.slot_shape(slot, param.shape), 0.0, param.dtype) for slot in self.slots)

    def slot_shape(self, slot: str, shape: Shape) -> Shape:
        """Return the shape of a state tensor of a parameter of a shape: the same, unless the class is `factored`."""
        return shape

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

        >>> from burnpy.optim import Adam
        >>> tree, optim = {"h": Tensor[Autodiff[NumPy]].from_data([4.0]).require_grad()}, Adam()
        >>> for _ in range(3):
        ...     tree = optim.step(1.0, tree, tree["h"].square().sum().backward())
        >>> [round(x, 1) for x in tree["h"].tolist()]
        [1.1]
        """
        if not isinstance(model, Module) and is_tree(model):
            held, given, restored = as_model(f"{type(self).__name__}.step()", model, grads)
            return restored(self.step(lr, held, given))
        rate = at_least_zero(lr, f"the learning rate of {type(self).__name__}.step()")
        spent = sys.getrefcount(grads) <= _PASSED and type(self).update is Optimizer.update and _spent(grads)
        memory, use = self._memory, Use("step()", "go on")
        try:
            memory.begin(use)
            new, replaced = stepped_model(self, memory, rate, model, grads, spent)
        finally:
            memory.end(use)
        memory.replaced = replaced  # last, so that an interrupt cannot mark leaves as replaced and lose the model
        return new

    @explained
    def init(self, model: Any, record: OptimizerRecord | None = None) -> OptimizerState:
        """Return the state before the first `pure_step` of a model: a value, for all parameters that are not frozen.

        Args:
            model: a model; or a float tensor, or dicts, lists and tuples of them.
            record: the result of `OptimizerState.into_record`, or of `into_record` of an optimizer of the same class
                and slots, to continue from. Its states go to parameters by id or else by path.

        Raises:
            ArgumentError: the optimizer has no pure step.
            KindError: ``model`` is something else.
            StateError: the record is of another optimizer, of one with other slots, or of another model.

        >>> from burnpy.optim import Adam
        >>> state = Adam().init({"h": Tensor[NumPy].ones((2,))})
        >>> state, state["h"]["m"].tolist(), state.step("h").item()
        (OptimizerState(Adam, 1 parameter), [0.0, 0.0], 0)
        """
        return initial_state(self, model, record)

    @overload
    def pure_step(
        self, lr: float | Tensor[Any], model: M, grads: GradientsParams[Any] | Gradients[Any], state: OptimizerState
    ) -> tuple[M, OptimizerState]: ...
    @overload
    def pure_step(
        self, lr: float | Tensor[Any], model: T, grads: T | Gradients[Any], state: OptimizerState
    ) -> tuple[T, OptimizerState]: ...
    @explained
    def pure_step(self, lr: Any, model: Any, grads: Any, state: OptimizerState) -> tuple[Any, OptimizerState]:
        """Update parameters as `step` does, with the same bits, by a state that is an argument and a result.

        The optimizer itself stores nothing, and no argument changes, so that such a step can be repeated, and recorded
        by `burnpy.compiled`. A parameter without a state gets the one of a first update.

        Args:
            lr: the learning rate: a number, or a 0-d tensor.
            model: see `step`.
            grads: see `step`.
            state: the result of `init`, or of the last pure step.

        Returns:
            The new model and the new state.

        Raises:
            ArgumentError: the optimizer has no pure step; see `step` for others.
            StateError: the state is of another optimizer or model.
            KindError: ``state`` is no `OptimizerState`.
            RecordingError: it is recorded, and the optimizer's `update` is not `gated`, so that it would compute with
                the learning rate and the number of this one step.
            ModuleError, DeviceError, ShapeError: see `step`.

        >>> from burnpy import compiled
        >>> from burnpy.nn import Linear
        >>> from burnpy.optim import Adam
        >>> model, optim = Linear(2, 1, device=Autodiff[NumPy]), Adam()
        >>> state, x = optim.init(model), Tensor[Autodiff[NumPy]].from_data([[0.0, 1.0], [1.0, 0.0]])
        >>> @compiled
        ... def step(model, state, lr, x):
        ...     loss = (model(x) - 1.0).square().mean()
        ...     model, state = optim.pure_step(lr, model, loss.backward(), state)
        ...     return model, state, loss.detach()
        >>> for k in range(100):
        ...     model, state, loss = step(model, state, 0.1, x)
        >>> loss.item() < 1e-2, state.step(model.weight).item()
        (True, 100)
        """
        return pure_step(self, lr, model, grads, state)

    if not TYPE_CHECKING:  # type checkers see only the attributes above
        __getattr__ = refuse_attribute

    def state(self) -> dict[str, ParamState]:
        """Return the states by parameter id: tensors, which later steps do not modify.

        From `load_record` to the next step they are the record's NumPy arrays, which belong to no device.

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
            StateError: the record is of another optimizer, of one with other slots, or of another model, or a step
                is in progress. Nothing is loaded.
        """
        states = checked_record(record, type(self).__name__, self.slots, (MASTER,) if self.master_weights else ())
        if model is not None:
            states = rekeyed(states, model, self.slot_shape)
        self._memory.load(states)
        return self

    def __copy__(self) -> Self:
        """Return an independent optimizer with the same settings and states."""
        memory, other = self._memory.copied("a copy"), object.__new__(type(self))
        for name in {*vars(self), *(known.name for known in fields(self))}:
            _set(other, name, getattr(self, name))
        _set(other, "_memory", memory)
        return other
