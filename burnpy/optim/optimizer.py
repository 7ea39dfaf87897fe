"""`Optimizer`: what all optimizers have in common. Each is a file with its settings and one update."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, SupportsIndex, TypeVar

from burnpy.autodiff.gradients import Gradients
from burnpy.backend.errors import ArgumentError, KindError, ModuleError, ShapeError, StateError
from burnpy.nn.calling import Explaining
from burnpy.nn.looking import missing_attribute
from burnpy.nn.module import Module
from burnpy.nn.updates import stepped
from burnpy.optim.checks import at_least_zero
from burnpy.optim.grads_params import GradientsParams
from burnpy.optim.groups import Group, Options, options_of
from burnpy.optim.matching import beneath, refuse_device
from burnpy.optim.state import OptimizerRecord, ParamState, checked_record, placed, refuse_shape, rekeyed
from burnpy.tensor.base import made
from burnpy.tensor.calling import explained
from burnpy.tensor.protocols import bare
from burnpy.tensor.tensor import Tensor

if TYPE_CHECKING:
    from burnpy.backend.primitives import Float
    from burnpy.nn.param import Param

M = TypeVar("M", bound=Module[Any])

_set = object.__setattr__


@dataclass(frozen=True, eq=False, kw_only=True)
class Optimizer(metaclass=Explaining):
    """Makes a better model of a model and its gradients.

    `step` returns the new model; the old one stays as it was. Of each parameter the optimizer remembers what its
    method needs, by the parameter's id: that memory is the one thing about it that changes, and a step that is refused
    changes nothing. Arrays that nobody else has seen are changed in place; those that `state`, `into_record` or a copy
    has shown stay as they are, and the next step makes new ones. A copy (`copy.copy`) goes on from where it was made.

    A step that is cut short, by Ctrl-C or for want of memory, returns no model, and yet may leave what is remembered of
    some parameters a step ahead, and of one of them, in the midst of its update, in part old and in part new. To go on
    exactly, load a record. An optimizer is used by one thread at a time.

    A new optimizer is a frozen dataclass with its settings, `slots` and `update`.
    """

    weight_decay: float = 0.0
    groups: Sequence[Group] = ()

    _states: dict[str, ParamState] = field(init=False, repr=False)
    """By id; a step makes a new one, as copies of the optimizer have the old one."""
    _loaded: bool = field(init=False, repr=False)
    """Whether the states came from a record, and no step was taken since."""
    _known: tuple[tuple[Any, ...], Mapping[str, Options]] = field(init=False, repr=False)
    """What the groups say of the model last met."""
    _unseen: set[str] = field(init=False, repr=False)
    """The ids of which nobody else has seen the states, so that a step may write into their memory. A step makes a new
    one, and so does whatever shows the states."""

    def __post_init__(self) -> None:
        self.check()
        groups: Any = self.groups
        if not isinstance(groups, (list, tuple)) or not all(isinstance(group, Group) for group in groups):
            raise ArgumentError(f"{type(self).__name__}(groups=) takes a list of Group(...), not {groups!r:.80}")
        _set(self, "groups", tuple(groups))
        _set(self, "_states", {})
        _set(self, "_loaded", False)
        _set(self, "_known", ((), {}))
        _set(self, "_unseen", set())

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
            StateError: what is remembered, or was loaded, is of another model.
        """
        rate = at_least_zero(lr, f"the learning rate of {type(self).__name__}.step()")
        device = beneath(model)
        found = self._by_param(grads, model)
        options = self._options(model)
        while hasattr(device, "lower"):  # nothing here is to be recorded, on no level
            device = device.inner
        everywhere = Options(None, 1.0, self.weight_decay)
        if self._loaded and not any(param.id in self._states for param in model.params()):
            raise StateError(
                f"the record that {type(self).__name__} has loaded knows no parameter of this {type(model).__name__}"
                " by id; load the model's record too, or load_record(record, model), which goes by paths as well"
            )
        todo = [
            (path, param, found[param.id])
            for path, param in model.named_params().items()
            if not param.frozen and param.id in found
        ]
        for path, param, grad in todo:
            self._refuse(path, param, grad)
        # What layers say of their buffers may be refused, and is asked for before anything changes.
        with_buffers = stepped(model, {}, found.buffer_updates) if found.buffer_updates else model
        states, unseen = dict(self._states), set(self._unseen)
        plain = not hasattr(device, "inner")  # others may refuse what they compute, and then nothing has changed
        if plain:
            _set(self, "_states", states)  # so that each old state is freed when there is a new one
            _set(self, "_unseen", unseen)
        values: dict[str, Tensor[Any]] = {}
        for path, param, grad in todo:
            own = options.get(param.id, everywhere)
            known = states.get(param.id)
            owned = plain and (known is None or (param.id in unseen and unseen is self._unseen))
            value, states[param.id] = self._updated(
                path, bare(param.value), bare(grad), known, device, own, rate, owned
            )
            unseen.add(param.id)
            values[param.id] = made(Tensor, device, value)
        new = with_buffers.with_values(values)
        _set(self, "_states", states)
        _set(self, "_loaded", False)
        return new

    if not TYPE_CHECKING:  # to type checkers an optimizer has what is written above

        def __getattr__(self, name: str) -> object:
            """What to say of what there is not, as of PyTorch's methods."""
            raise missing_attribute(self, "Optimizer", name)

    def state(self) -> dict[str, ParamState]:
        """What is remembered, by the parameters' ids: tensors, which no step changes."""
        return {ident: state._replace(values=dict(state.values)) for ident, state in self._shown().items()}

    def into_record(self) -> OptimizerRecord:
        """The `state` as read-only NumPy arrays, which can be pickled and belong to no device.

        `burnpy.record` writes it to a file. Settings are not part of it.
        """
        states = {}
        for ident, state in self._shown().items():
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
            StateError: the record is of another optimizer, of one with other settings, or of another model. Nothing was
                loaded.
        """
        states = checked_record(record, type(self).__name__, self.slots)
        if model is not None:
            states = rekeyed(states, model)
        _set(self, "_unseen", set())
        _set(self, "_states", states)
        _set(self, "_loaded", bool(states))
        return self

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        """What a copy or a pickle is made of, with the same states."""
        self._shown()
        return super().__reduce_ex__(protocol)

    def _shown(self) -> dict[str, ParamState]:
        """The states, for others to hold too: no step writes into their memory any more."""
        _set(self, "_unseen", set())
        return self._states

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

    def _refuse(self, path: str, param: Param[Any], grad: Tensor[Any]) -> None:
        """Refuse a gradient, or what is remembered, of another shape than the parameter."""
        if (grad.shape, grad.dtype) != (param.shape, param.dtype):
            raise ShapeError(
                f"the gradient of {path} is of shape {grad.shape} and dtype {grad.dtype}, and the parameter of "
                f"{param.shape} and {param.dtype}; take the gradients from the model as it is"
            )
        known = self._states.get(param.id)
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
        values = {name: made(Tensor, device, x) for name, x in zip(slots, after, strict=True)}
        return value, ParamState(path, count, values)
