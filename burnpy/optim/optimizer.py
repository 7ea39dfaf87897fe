"""`Optimizer`: what all optimizers have in common. Each is a file with its settings and one update."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Self, TypeVar

from burnpy.autodiff.gradients import Gradients
from burnpy.backend.errors import ArgumentError, KindError, ModuleError, ShapeError, StateError
from burnpy.nn.buffer_updates import stepped
from burnpy.nn.call_errors import Explaining
from burnpy.nn.display import missing_attribute
from burnpy.nn.module import Module
from burnpy.optim.checks import at_least_zero
from burnpy.optim.grads_params import GradientsParams
from burnpy.optim.groups import Group, Options, options_of
from burnpy.optim.matching import gradient_device, refuse_device
from burnpy.optim.memory import Memory, Use
from burnpy.optim.state import OptimizerRecord, ParamState, checked_record, placed, refuse_shape, rekeyed
from burnpy.tensor.base import new_tensor
from burnpy.tensor.call_errors import explained
from burnpy.tensor.protocols import bare
from burnpy.tensor.tensor import Tensor

if TYPE_CHECKING:
    from weakref import ref

    from burnpy.backend.primitives import Float
    from burnpy.nn.variable import Param

M = TypeVar("M", bound=Module[Any])

_set = object.__setattr__


@dataclass(frozen=True, eq=False, kw_only=True)
class Optimizer(metaclass=Explaining):
    """Makes a better model of a model and its gradients.

    `step` returns the new model; the old one stays as it was. Of each parameter the optimizer remembers what its
    method needs, by the parameter's id: that memory is the one thing about it that changes, and a step that is refused
    changes nothing. Arrays that nobody else has seen are changed in place; those that `state`, `into_record` or a copy
    has shown stay as they are, and the next step makes new ones.

    A step of which the result was dropped trains nothing, so one from parameters that the optimizer has replaced
    already is refused. A copy (`copy.copy`) goes on from where it was made, and knows of no such parameters: for
    several trials from one model, as in a search for the rate, give each a copy that was made before::

        trials = []
        for rate in (0.03, 0.3, 3.0):
            trial = copy.copy(optim)
            trials.append((trial, trial.step(rate, model, grads)))
        optim, model = min(trials, key=lambda trial: loss(trial[1]).item())

    An optimizer is used by one thread at a time. Amid a step, where the handler of a signal may come, it can be neither
    saved nor copied, nor take another step: there, set a flag, and save after the step. A step that is cut short, by
    Ctrl-C or for want of memory, returns no model, and yet may leave what is remembered of some parameters a step
    ahead, and of one of them, in the midst of its update, in part old and in part new; of those whose turn had not come
    it is as it was. To go on exactly, load a record.

    A new optimizer is a frozen dataclass with its settings, `slots` and `update`.

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
    groups: Sequence[Group] = ()

    _memory: Memory = field(init=False, repr=False)
    _known: tuple[tuple[Any, ...], Mapping[str, Options]] = field(init=False, repr=False)
    """What the groups say of the model last met."""

    def __post_init__(self) -> None:
        self.check()
        groups: Any = self.groups
        if not isinstance(groups, (list, tuple)) or not all(isinstance(group, Group) for group in groups):
            raise ArgumentError(f"{type(self).__name__}(groups=) takes a list of Group(...), not {groups!r:.80}")
        _set(self, "groups", tuple(groups))
        _set(self, "_memory", Memory({}, False))
        _set(self, "_known", ((), {}))

    def check(self) -> None:
        """Refuse settings that make no sense; called when the optimizer is made.

        Raises:
            ArgumentError: they make none.
        """
        at_least_zero(self.weight_decay, f"{type(self).__name__}(weight_decay=)")

    @property
    @abstractmethod
    def slots(self) -> tuple[str, ...]:
        """The names of what is remembered of each parameter, besides the count of its updates."""

    @abstractmethod
    def update(
        self,
        device: Any,
        param: Float,
        grad: Float,
        state: tuple[Float, ...],
        *,
        lr: float,
        weight_decay: float,
        step: int,
        owned: bool,
    ) -> tuple[Float, ...]:
        """The parameter's next value and, in the order of `slots`, what to remember: one operation of the device.

        Args:
            device: a backend that records nothing; what follows are its primitives, and are not changed, but for the
                states where ``owned``.
            param: the value.
            grad: the gradient.
            state: what was remembered, in the order of `slots`.
            lr: the learning rate.
            weight_decay: how much the value itself counts.
            step: 1 for the first update of the parameter.
            owned: whether the states are what `initial` or the last update returned, and nobody was shown them: the
                last argument of the device's own updates, which then may write into their memory. Pass it on only if
                those were new arrays, each of its own; never if one was the parameter or the gradient.
        """

    def initial(self, device: Any, param: Float) -> tuple[Float, ...]:
        """What is remembered of a parameter before its first update: zeros, in new memory."""
        return tuple(device.full(param.shape, 0.0, param.dtype) for _ in self.slots)

    @explained
    def step(self, lr: float, model: M, grads: GradientsParams[Any] | Gradients[Any]) -> M:
        """The model after one update of every parameter that has a gradient.

        Frozen parameters, and those without a gradient, keep their values and what is remembered of them. Buffers
        become what the pass that made the gradients would have them become.

        Args:
            lr: the learning rate, as a schedule gives it: ``schedule(step)``.
            model: a model, of which the parameters have the ids that the gradients have.
            grads: what ``backward()`` returned, or `GradientsParams` of it, of a fork, or of many batches.

        Raises:
            ArgumentError: the rate is negative or not finite; a group's path meets nothing; the model and
                ``backward()``'s gradients have nothing in common.
            ModuleError: gradients are of parameters that the model does not have.
            DeviceError: the gradients are not on the device beneath the model's.
            ShapeError: a gradient is of another shape or dtype than its parameter.
            StateError: what is remembered, or was loaded, is of another model; the optimizer has replaced all these
                parameters already; it is amid another step.
        """
        memory, use = self._memory, Use("step()", "go on")
        try:
            memory.begin(use)
            new, replaced = self._next(memory, lr, model, grads)
        finally:
            memory.end(use)
        memory.replaced = replaced  # with nothing between this and the caller's that could keep the model from it
        return new

    def _next(
        self, memory: Memory, lr: float, model: M, grads: GradientsParams[Any] | Gradients[Any]
    ) -> tuple[M, dict[int, ref[Tensor[Any]]]]:
        """The next model, and all leaves that were replaced by then."""
        rate = at_least_zero(lr, f"the learning rate of {type(self).__name__}.step()")
        device = gradient_device(model)
        found = self._by_param(grads, model)
        options = self._options(model)
        while hasattr(device, "lower"):  # nothing here is to be recorded, on no level
            device = device.inner
        everywhere = Options(None, 1.0, self.weight_decay)
        states, unseen = memory.states, memory.unseen
        if memory.loaded and not any(param.id in states for param in model.params()):
            raise StateError(
                f"the record that {type(self).__name__} has loaded knows no parameter of this {type(model).__name__}"
                " by id; load the model's record too, or load_record(record, model), which goes by paths as well"
            )
        todo = [
            (path, param, found[param.id])
            for path, param in model.named_params().items()
            if not param.frozen and param.id in found
        ]
        leaves = [param.value for _, param, _ in todo]
        if memory.has_replaced(leaves):
            raise StateError(_already(type(self).__name__, type(model).__name__, [path for path, *_ in todo]))
        for path, param, grad in todo:
            self._refuse(path, param, grad, states.get(param.id))
        # What layers say of their buffers may be refused, and is asked for before anything changes.
        with_buffers = stepped(model, {}, found.buffer_updates) if found.buffer_updates else model
        plain = not hasattr(device, "inner")  # others may refuse what they compute, and then nothing has changed
        if not plain:
            states = dict(states)
        values: dict[str, Tensor[Any]] = {}
        for path, param, grad in todo:
            own = options.get(param.id, everywhere)
            known = states.get(param.id)
            owned = plain and (known is None or param.id in unseen)
            value, states[param.id] = self._updated(
                path, bare(param.value), bare(grad), known, device, own, rate, owned
            )
            if plain:
                unseen.add(param.id)
            values[param.id] = new_tensor(Tensor, device, value)
        new = with_buffers.with_values(values)
        replaced = memory.with_replaced(leaves)
        if not plain:
            unseen.difference_update(values)
            memory.states = states
        memory.loaded = False
        return new, replaced

    if not TYPE_CHECKING:  # to type checkers an optimizer has what is written above

        def __getattr__(self, name: str) -> object:
            """What to say of what there is not, as of PyTorch's methods."""
            raise missing_attribute(self, "Optimizer", name)

    def state(self) -> dict[str, ParamState]:
        """What is remembered, by the parameters' ids: tensors, which no step changes.

        Raises:
            StateError: it is asked for amid a step.
        """
        states = self._memory.shown("state()")
        return {ident: state._replace(values=dict(state.values)) for ident, state in states.items()}

    def into_record(self) -> OptimizerRecord:
        """The `state` as read-only NumPy arrays, which can be pickled and belong to no device.

        `burnpy.record` writes it to a file. Settings are not part of it.

        Raises:
            StateError: it is asked for amid a step.
        """
        states = {}
        for ident, state in self._memory.shown("into_record()").items():
            arrays = {name: x.to_numpy() if isinstance(x, Tensor) else x for name, x in state.values.items()}
            states[ident] = state._replace(values=arrays)
        return OptimizerRecord(type(self).__name__, states)

    def load_record(self, record: OptimizerRecord, model: Module[Any] | None = None) -> Self:
        """Remember what a record has, and nothing else; training goes on bit for bit as if it had not stopped.

        Args:
            record: what `into_record` of an optimizer of this class and with these slots gave.
            model: the model to go on with: every state must be of one of its parameters, by id or else by path. Without
                it, states go by id and are compared with parameters at the next step.

        Returns:
            The optimizer itself.

        Raises:
            StateError: the record is of another optimizer, of one with other settings, or of another model, or comes
                amid a step. Nothing was loaded.
        """
        states = checked_record(record, type(self).__name__, self.slots)
        if model is not None:
            states = rekeyed(states, model)
        self._memory.load(states)
        return self

    def __copy__(self) -> Self:
        """An optimizer that goes on from here by itself."""
        memory, other = self._memory.copied("a copy"), object.__new__(type(self))
        for name in {*vars(self), *(known.name for known in fields(self))}:
            _set(other, name, getattr(self, name))
        _set(other, "_memory", memory)
        return other

    def _by_param(self, grads: object, model: Module[Any]) -> GradientsParams[Any]:
        """The gradients, which are all of parameters of the model."""
        if isinstance(grads, Gradients):
            return GradientsParams.from_grads(grads, model)
        if not isinstance(grads, GradientsParams):
            hint = "; of what burnpy.func gives, write GradientsParams.from_module(gradients)"
            raise KindError(
                f"{type(self).__name__}.step() takes the gradients that backward() returned, or GradientsParams, not a "
                f"{type(grads).__name__}{hint if isinstance(grads, Module) else ''}"
            )
        refuse_device(model, grads.device)
        known = {param.id for param in model.params()}
        if not known.issuperset(grads):
            strangers = [path for path, ident in zip(grads.named(), grads, strict=True) if ident not in known]
            raise ModuleError(
                f"these gradients are of {', '.join(strangers[:8])}{', …' if strangers[8:] else ''}, which this "
                f"{type(model).__name__} does not have under their ids; they come from another model"
            )
        return grads

    def _refuse(self, path: str, param: Param[Any], grad: Tensor[Any], known: ParamState | None) -> None:
        """Refuse a gradient, or what is remembered, of another shape than the parameter."""
        if (grad.shape, grad.dtype) != (param.shape, param.dtype):
            raise ShapeError(
                f"the gradient of {path} is of shape {grad.shape} and dtype {grad.dtype}, and the parameter of "
                f"{param.shape} and {param.dtype}; take the gradients from the model as it is"
            )
        if known is not None:
            refuse_shape(known, path, param.shape)

    def _options(self, model: Module[Any]) -> Mapping[str, Options]:
        """What the groups say of a model's parameters; looked for once for models of the same paths and ids."""
        if not self.groups:
            return {}
        key = tuple((path, param.id, param.frozen) for path, param in model.named_params().items())
        if key != self._known[0]:
            _set(self, "_known", (key, options_of(model, self.groups, self.weight_decay)))
        return self._known[1]

    def _updated(
        self,
        path: str,
        param: Float,
        grad: Float,
        known: ParamState | None,
        device: Any,
        own: Options,
        lr: float,
        owned: bool,
    ) -> tuple[Float, ParamState]:
        slots = self.slots
        if known is None:
            before, count = self.initial(device, param), 1
        else:
            before = tuple([placed(known.values[name], device, param.dtype) for name in slots])
            count = known.step + 1
        value, *after = self.update(
            device, param, grad, before, lr=own.rate(lr), weight_decay=own.weight_decay, step=count, owned=owned
        )
        values = {name: new_tensor(Tensor, device, x) for name, x in zip(slots, after, strict=True)}
        return value, ParamState(path, count, values)


def _already(optimizer: str, model: str, paths: Sequence[str]) -> str:
    """Why a step trains nothing."""
    of = f"{', '.join(paths[:8])}{', …' if paths[8:] else ''} of this {model}"
    return (
        f"{optimizer}.step() was given {of} once more, of which it has made others already: a step changes no model "
        "but returns the next; write model = optim.step(...), or for several trials from one model take each step with "
        "a copy.copy(optim) made before"
    )
