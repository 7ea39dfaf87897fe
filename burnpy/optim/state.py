"""The state of an optimizer: export, validation and import of its states per parameter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from burnpy.backend.dtypes import kind_of
from burnpy.backend.errors import BurnpyError, StateError, a, counted
from burnpy.tensor.tensor import Tensor

if TYPE_CHECKING:
    from burnpy.backend.primitives import Shape
    from burnpy.nn.module_base import ModuleBase
    from burnpy.nn.param import Param


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
    """Return the states of a record, validated for an optimizer class ``name`` with ``slots``, and some ``optional``.

    Raises:
        StateError: it is not a record, or is of another optimizer, or of one with other settings.
    """
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
            raise StateError(f"this record of {name} has no state for {ident}, but {a(type(item).__name__)}")
        state = ParamState(*item)
        mismatch = _mismatch(state, (*slots, *[name for name in optional if name in state.values]))
        if mismatch:
            raise StateError(f"the state of {state.path} in this record {mismatch}; nothing was loaded")
        checked[str(ident)] = ParamState(str(state.path), int(state.step), dict(state.values))
    return checked


def rekeyed(states: Mapping[str, ParamState], model: ModuleBase[Any], slot_shape: SlotShape) -> dict[str, ParamState]:
    """Return the states keyed by the ids of a model's parameters, matched by id, otherwise by path.

    Raises:
        StateError: a state matches no parameter of the model, or has another shape.
    """
    params = model.named_params()
    by_id: dict[str, tuple[str, Param[Any]]] = {param.id: (path, param) for path, param in params.items()}
    matched: dict[str, ParamState] = {}
    strangers = []
    for ident, state in states.items():
        known = by_id.get(ident)
        if known is None and state.path in params and params[state.path].id not in states:
            known = state.path, params[state.path]
        if known is None:
            strangers.append(state.path)
            continue
        path, param = known
        refuse_shape(state, path, param.shape, slot_shape)
        matched[param.id] = state._replace(path=path)
    if strangers:
        raise StateError(
            f"this record has states of {', '.join(strangers)}, which this {type(model).__name__} does not have; "
            "nothing was loaded"
        )
    return matched


def refuse_shape(state: ParamState, path: str, shape: Shape, slot_shape: SlotShape) -> None:
    """Check that a state has the shape that its parameter asks for.

    Raises:
        StateError: it has another shape.
    """
    for name, value in state.values.items():
        if tuple(value.shape) != slot_shape(name, shape):
            raise StateError(
                f"the optimizer's {name} for {path} has shape {tuple(value.shape)}, but the parameter has {shape}; "
                "it comes from another model"
            )


def placed(value: Any, device: Any, dtype: Any) -> Any:
    """Convert a tensor or array of a state to a primitive on a plain device, in ``dtype``."""
    if isinstance(value, np.ndarray):
        value = Tensor.from_data(value, device=device)
    elif value._device is not device:
        value = value.to_device(device)
    primitive = value._primitive
    return primitive if primitive.dtype == dtype else device.cast(primitive, dtype)


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
