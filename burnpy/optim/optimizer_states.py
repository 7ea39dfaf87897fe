"""The states of an optimizer: by parameter in a `Memory`, and as a record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from weakref import ref

import numpy as np

from burnpy.backend.dtypes import kind_of
from burnpy.backend.errors import BurnpyError, KindError, StateError, a, counted
from burnpy.backend.try_lock import TryLock
from burnpy.tensor.tensor import Tensor
from burnpy.tensor.tensor_base import describe

if TYPE_CHECKING:
    from burnpy.backend.primitives import Shape
    from burnpy.nn.module_base import ModuleBase
    from burnpy.nn.param import Param
    from burnpy.optim.parameter_batch import Pending, Repetition
    from burnpy.optim.update_formula import UpdateCount

SlotShape: TypeAlias = "Callable[[str, Shape], Shape]"
"""The shape of a state tensor by its name and the shape of its parameter: `Optimizer.slot_shape`."""


class ParamState(NamedTuple):
    """The optimizer state of one parameter."""

    path: str  #: the path of the parameter at its last update
    step: int  #: the number of updates
    values: dict[str, Any]  #: running averages and the like, by name: tensors, or NumPy arrays in a record


class OptimizerRecord(NamedTuple):
    """The saved state of an optimizer: plain values and read-only NumPy arrays, which belong to no device."""

    optimizer: str  #: the name of the optimizer's class
    states: dict[str, ParamState]  #: the states by parameter id

    @classmethod
    def of(cls, optimizer: str, states: Mapping[str, tuple[Any, ...]]) -> OptimizerRecord:
        """Create a record from plain triples (path, step, values), as read from a file."""
        return cls(optimizer, {ident: ParamState(*state) for ident, state in states.items()})

    def __repr__(self) -> str:
        count = counted(len(self.states), "parameter")
        steps = max((state.step for state in self.states.values()), default=0)
        return f"OptimizerRecord({self.optimizer}, {count}, at most {steps} updates)"


def checked_record(record: Any, name: str, slots: Sequence[str], optional: Sequence[str] = ()) -> dict[str, ParamState]:
    """Return a record's states, validated for an optimizer class ``name`` with ``slots``, and some ``optional``."""
    if not isinstance(record, tuple) or len(record) != 2 or not isinstance(record[1], Mapping):
        hint = "; of a file's record, give record.optim" if hasattr(record, "parts") else ""
        raise StateError(
            f"load_record() of {name} takes the result of into_record(), not {a(type(record).__name__)}; "
            f"nothing was loaded{hint}"
        )
    optimizer, states = record
    if optimizer != name:
        raise StateError(f"this record is of the optimizer {optimizer}, not of {name}; nothing was loaded")
    checked = {}
    for ident, item in states.items():
        if not isinstance(item, tuple) or len(item) != 3 or not isinstance(item[2], Mapping):
            raise StateError(f"this record of {name} has no state for {ident}; got {a(type(item).__name__)}")
        state = ParamState(*item)
        mismatch = _mismatch(state, (*slots, *[slot for slot in optional if slot in state.values]))
        if mismatch:
            raise StateError(f"the state of {state.path} in this record {mismatch}; nothing was loaded")
        checked[str(ident)] = ParamState(str(state.path), int(state.step), dict(state.values))
    return checked


def rekeyed(states: Mapping[str, ParamState], model: ModuleBase[Any], slot_shape: SlotShape) -> dict[str, ParamState]:
    """Return the states keyed by the ids of a model's parameters, matched by id, otherwise by path."""
    if not hasattr(model, "named_params"):
        raise KindError(f"load_record() takes the model to continue with, got {describe(model)}")
    params = model.named_params()
    by_id: dict[str, tuple[str, Param[Any]]] = {param.id: (path, param) for path, param in params.items()}
    matched: dict[str, ParamState] = {}
    unknown = []
    for ident, state in states.items():
        known = by_id.get(ident)
        if known is None and state.path in params and params[state.path].id not in states:
            known = state.path, params[state.path]
        if known is None:
            unknown.append(state.path)
            continue
        path, param = known
        refuse_shape(state, path, updated_shape(param), slot_shape)
        matched[param.id] = state._replace(path=path)
    if unknown:
        raise StateError(
            f"this record has states of {', '.join(unknown)}, which this {type(model).__name__} does not have; "
            "nothing was loaded"
        )
    return matched


def updated_shape(param: Param[Any]) -> Shape:
    """Return the shape in which optimizers update a parameter: complex numbers are pairs of floats."""
    return (*param.shape, 2) if param.kind == "complex" else param.shape


def refuse_shape(state: ParamState, path: str, shape: Shape, slot_shape: SlotShape) -> None:
    """Check that a state has the shape that its parameter asks for."""
    for name, value in state.values.items():
        if tuple(value.shape) != slot_shape(name, shape):
            raise StateError(
                f"the optimizer's {name} for {path} has shape {tuple(value.shape)}, but the parameter has {shape}; "
                "it comes from another model"
            )


def _mismatch(state: ParamState, slots: Sequence[str]) -> str:
    """Return the reason why a state does not fit an optimizer with these slots; empty if it does."""
    step: Any = state.step
    if isinstance(step, bool) or not isinstance(step, (int, np.integer)) or step < 0:
        return f"has the step {step!r}, which is no count of updates"
    if set(state.values) != set(slots):
        has, wants = (", ".join(names) or "nothing" for names in (sorted(state.values), slots))
        return f"holds {has}, and this optimizer remembers {wants}: it was saved with other settings"
    for name, value in state.values.items():
        if not isinstance(value, (Tensor, np.ndarray)):
            return f"has {a(type(value).__name__)} for {name}"
        try:
            kind = kind_of(value.dtype)
        except BurnpyError:
            kind = "bool"
        if kind != "float":
            return f"has dtype {value.dtype} for {name}"
    return ""


class Use:
    """A call with exclusive access to a memory.

    Args:
        name: the name of the call, for messages.
        does: the verb that completes a message: "set a flag there, and <does> after the step".
    """

    __slots__ = ("__weakref__", "does", "name")

    def __init__(self, name: str, does: str) -> None:
        self.name, self.does = name, does


class Memory:
    """The states of an optimizer by parameter id.

    A step has exclusive access: partially updated states are never exposed, and the step may write in place into arrays
    that were not exposed. Once states were exposed, no step writes into their arrays. Copies share the arrays as
    exposed states, and start without a record of replaced leaves.
    """

    __slots__ = ("_lock", "counts", "held", "loaded", "repetition", "replaced", "rounded", "states", "unseen")

    def __init__(self, states: Mapping[str, ParamState], loaded: bool) -> None:
        self._lock: TryLock[Use] = TryLock()
        self.states = dict(states)
        """The states by parameter id. Like the attributes below, for the call with exclusive access only."""
        self.counts: dict[str, UpdateCount] = {}
        """The numbers of updates by parameter id that only the device knows; ``step`` of a state is at least it."""
        self.held = False
        """True if the states before a step belong to the caller of a pure step, and so stay as they are."""
        self.loaded = loaded
        """True if the states were loaded from a record and no step was taken since."""
        self.unseen: set[str] = set()
        """The ids whose states were not exposed, so that a step may write into their arrays."""
        self.rounded: Mapping[str, Any] = {}
        """The primitives that the last steps rounded masters to, by id: `burnpy.optim.parameter_batch.masters_of`."""
        self.replaced: dict[int, ref[Tensor[Any]]] = {}
        """The leaves that a step has replaced, by `id()`; weak, because ids are reused when leaves are freed."""
        self.repetition: Repetition | None = None
        """The steps that follow the last one; the states do not count them before `settle`."""

    def begin(self, use: Use) -> None:
        """Acquire exclusive access; call it inside the ``try`` whose ``finally`` calls `end`."""
        if not self._lock.acquire(use):
            other = self._lock.owner()
            raise StateError(
                f"{use.name} was called during {other.name if other else 'step()'} of the same optimizer, by the "
                f"handler of a signal or by another thread; set a flag there, and {use.does} after the step"
            )

    def end(self, use: Use) -> None:
        """Release access; does nothing if the call does not have it."""
        self._lock.release(use)

    def shown(self, name: str) -> dict[str, ParamState]:
        """Return the states and mark them as exposed.

        Args:
            name: the name of the calling method, for messages.
        """
        use = Use(name, "save")
        try:
            self.begin(use)
            self.unseen.clear()
            self.settle()
            return dict(self.states)
        finally:
            self.end(use)

    def counted_on(self) -> Any:
        """Return the device of the counts; there must be at least one."""
        return next(iter(self.counts.values())).device

    def settle(self) -> None:
        """Have the states count all updates; for those that only the device knows, the host waits for it."""
        repetition = self.repetition
        if repetition is not None:
            repetition.settle(self.states)  # an interrupted one is repeated by the next call
            self.repetition = None
        known: dict[UpdateCount, int] = {}
        for ident, count in self.counts.items():
            if count not in known:
                known[count] = count.read()
            self.states[ident] = self.states[ident]._replace(step=known[count])
        self.counts.clear()

    def load(self, states: Mapping[str, ParamState]) -> None:
        """Replace all states with ``states``, whose arrays count as exposed.

        Raises:
            StateError: a step is in progress.
        """
        use = Use("load_record()", "load")
        try:
            self.begin(use)
            self.unseen.clear()
            self.counts.clear()
            self.replaced, self.loaded, self.states, self.rounded = {}, bool(states), dict(states), {}
            self.repetition = None
        finally:
            self.end(use)

    def copied(self, name: str) -> Memory:
        """Return another memory with the same states."""
        return Memory(self.shown(name), self.loaded)

    def refuse_replaced(self, optimizer: str, model: str, pending: Sequence[Pending]) -> None:
        """Check that no step has replaced the leaves of all these parameters already."""
        for item in pending:
            leaf = item.param._value
            reference = self.replaced.get(id(leaf))
            if reference is None or reference() is not leaf:
                return
        if pending:
            paths = [item.path for item in pending]
            of = f"{', '.join(paths[:8])}{', …' if paths[8:] else ''} of this {model}"
            raise StateError(
                f"{optimizer}.step() got {of}, which it has updated already: a step changes no model but returns the "
                "next; write model = optim.step(...), or for several trials from one model take each step with a "
                "copy.copy(optim) made before"
            )

    def with_replaced(self, leaves: Sequence[Tensor[Any]]) -> dict[int, ref[Tensor[Any]]]:
        """Return `replaced` with ``leaves`` added and freed leaves removed."""
        alive = {key: reference for key, reference in self.replaced.items() if reference() is not None}
        for leaf in leaves:
            alive[id(leaf)] = ref(leaf)
        return alive

    def __deepcopy__(self, memo: object) -> Memory:
        return self.copied("a deep copy, or asdict()")

    def __reduce__(self) -> tuple[Any, ...]:
        return Memory, (self.shown("a pickle"), self.loaded)
