"""Modules as values: the state by path, and modules as trees for `burnpy.func`.

For derivatives a module is a tree of its parameters: ``grad(loss)(model)`` returns a module of gradients. For functions
that are compiled as a whole, it is a tree of all its tensors, buffers included.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import is_
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias

import numpy as np

from burnpy.backend.dtypes import kind_of
from burnpy.backend.errors import DTypeError, KindError, ModuleError, StateError, a
from burnpy.backend.primitives import INEXACT
from burnpy.func.pytree import Handler, register_tree, register_whole
from burnpy.nn.module_base import ModuleBase
from burnpy.nn.module_tree import Rebuild, Recipe, walk
from burnpy.nn.param import Variable, level_above
from burnpy.tensor.call_errors import next_value
from burnpy.tensor.host_data import readonly, writer
from burnpy.tensor.levels import transfer
from burnpy.tensor.tensor_base import TensorBase
from burnpy.typevars import B

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from burnpy.backend.primitives import DType

SHOWN = 6
"""The number of paths per category that a report prints; its fields contain all of them."""


class Entry(NamedTuple):
    """One parameter or buffer of a state."""

    id: str | None  #: the id of the parameter or buffer; None keeps the module's
    value: Any  #: a tensor or NumPy array


State: TypeAlias = Mapping[str, Any]
"""A mapping from paths to an `Entry`, a tensor, or a NumPy array each."""


class StateReport(NamedTuple):
    """The result of comparing a state with a module."""

    applied: tuple[str, ...]  #: paths with a matching value in the state
    missing: tuple[str, ...]  #: paths of the module that the state does not have
    unexpected: tuple[str, ...]  #: paths of the state that the module does not have
    mismatched: tuple[str, ...]  #: paths with a value of another shape or kind, and the reason

    @property
    def fits(self) -> bool:
        """True if the state has a matching value for every path, and no other paths."""
        return not (self.missing or self.unexpected or self.mismatched)

    def __str__(self) -> str:
        """Return the number of paths in each category, and the first of them."""
        parts = [f"{len(self.applied)} fit"]
        for name in ("missing", "unexpected", "mismatched"):
            paths: tuple[str, ...] = getattr(self, name)
            if paths:
                rest = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN + 1 else ""
                parts.append(f"{len(paths)} {name}: {', '.join(paths[:SHOWN] if rest else paths)}{rest}")
        return "; ".join(parts)


class Stateful(ModuleBase[B]):
    """The methods of a module that export and import its state."""

    __slots__ = ()

    def state(self) -> dict[str, Entry]:
        """Return all parameters and buffers by path: id and value, an untracked tensor that shares the module's memory.

        A shared one is included once, under its first path.

        >>> from burnpy.nn import Linear
        >>> {path: value.shape for path, (id, value) in Linear(2, 3, device=NumPy).state().items()}
        {'weight': (2, 3), 'bias': (3,)}
        """
        return {path: Entry(variable.id, variable._value.detach()) for path, variable in self._variables().items()}

    def with_state(self, state: State, *, strict: bool = True) -> Self:
        """Return the module with the values and ids of a state, as new leaves.

        Values are converted to the module's device and dtype; on the CPU, arrays that nobody can write to, as those of
        a record, are not copied. A shared parameter may be given under any of its paths.
        On an error nothing is loaded.

        Args:
            state: by path, `Entry`, tensor or array; without an id, or with id None, the module's id stays.
            strict: if False, load matching entries and leave the rest unchanged: see `state_report`.

        Raises:
            StateError: if ``strict``, something is missing, unexpected or of another shape, or ints are out of range
                for the module's dtype; ``error.report`` has all of it.
            ModuleError: two parameters would have the same id.
            NotTrackedError: a parameter's value was computed from tracked tensors, outside of `burnpy.func`.
        """
        report, entries = _compared(self, state)
        if strict and not report.fits:
            raise StateError(
                f"this state is not one of {type(self).__name__}, and nothing was loaded: {report}", report
            )
        ids: dict[str, str] = {}
        for path, variable in self._variables().items():
            new_id = entries[path].id if path in entries else None
            other = ids.setdefault(new_id or variable.id, path)
            if other != path:
                raise ModuleError(
                    f"this state would give {other} and {path} of {type(self).__name__} one id, and nothing was "
                    "loaded; for values alone, give tensors or arrays instead of entries"
                )
        if not entries:
            return self

        device = level_above(self.device, [entry.value for entry in entries.values()])

        def valued(path: str, variable: Variable[Any]) -> Variable[Any]:
            entry = entries.get(path)
            variable = variable if variable.device is device else variable._on(device)
            if entry is None:
                return variable
            new = variable._with_value(_tensor(entry.value, variable, path))
            return new if entry.id is None else new._with_id(entry.id)

        return Rebuild(valued)(self)  # type: ignore[no-any-return]  # of the same class

    def state_report(self, state: State) -> StateReport:
        """Return the report of `with_state` without loading anything."""
        return _compared(self, state)[0]

    def into_record(self) -> dict[str, Entry]:
        """Return the `state` as read-only NumPy arrays, which can be pickled and belong to no device.

        `burnpy.record` writes it to a file.
        """
        return {path: Entry(variable.id, variable._value.to_numpy()) for path, variable in self._variables().items()}

    @next_value
    def load_record(self, record: State, *, strict: bool = True) -> Self:
        """Return the module with the values of a record: the same as `with_state`.

        Raises:
            StateError: see `with_state`.

        >>> from burnpy.nn import Linear
        >>> model, other = Linear(2, 3, device=NumPy), Linear(2, 3, device=NumPy)
        >>> other.load_record(model.into_record()).weight.id == model.weight.id
        True
        """
        return self.with_state(record, strict=strict)


def _compared(module: ModuleBase[Any], state: State) -> tuple[StateReport, dict[str, Entry]]:
    """Compare a state with a module; return the report and the matching entries by first path."""
    argument: Any = state
    if not isinstance(argument, Mapping):
        hint = "; of a file's record, write record.apply_to(model)" if hasattr(argument, "parts") else ""
        raise KindError(
            f"the state of {a(type(module).__name__)} is a mapping by path, not {a(type(argument).__name__)}{hint}"
        )
    first = {id(variable): path for path, variable in module._variables().items()}
    known = {path: item for path, item in walk(module) if isinstance(item, Variable)}
    unexpected, mismatched = [], []
    entries: dict[str, Entry] = {}
    source: dict[str, str] = {}
    seen = set()
    for path, item in state.items():
        variable = known.get(path)
        if variable is None:
            unexpected.append(path)
            continue
        place = first[id(variable)]
        seen.add(place)
        entry = item if isinstance(item, Entry) else Entry(*item) if isinstance(item, tuple) else Entry(None, item)
        mismatch = _mismatch(variable, entry.value)
        if not mismatch and place in entries and not _equal(entries[place].value, entry.value):
            mismatch = f"another value than at {source[place]}, with which it is one {variable.word}"
        if mismatch:
            mismatched.append(f"{path} ({mismatch})")
        elif place == path or place not in entries:
            entries[place], source[place] = entry, path
    missing = tuple(path for path in first.values() if path not in seen)
    return StateReport(tuple(entries), missing, tuple(unexpected), tuple(mismatched)), entries


def _mismatch(variable: Variable[Any], value: Any) -> str:
    """Return the reason why a value does not match a variable; empty if it does."""
    if not isinstance(value, (TensorBase, np.ndarray)):
        return f"neither tensor nor array: {a(type(value).__name__)}"
    if tuple(value.shape) != variable.shape:
        return f"of shape {tuple(value.shape)}, not {variable.shape}"
    try:
        kind = kind_of(value.dtype)
    except DTypeError:
        return f"of dtype {value.dtype}, which no tensor has"
    if kind != variable.kind:
        return f"of dtype {value.dtype}, not {variable.dtype}"
    return _outside(value, variable.dtype) if kind == "int" and value.dtype != variable.dtype else ""


def _equal(left: Any, right: Any) -> bool:
    """Return whether two values are equal, NaN equal to NaN; values in the same memory are not compared."""
    a, b = (x.to_numpy() if isinstance(x, TensorBase) else x for x in (left, right))  # type: ignore[attr-defined]  # every tensor has it
    same = a.__array_interface__["data"] == b.__array_interface__["data"] and a.strides == b.strides
    return same or bool(((a == b) | ((a != a) & (b != b))).all())


def _outside(value: Any, dtype: DType) -> str:
    """Return the reason why ints do not fit into a narrower dtype; empty if they do."""
    array: NDArray[Any] = value.to_numpy() if isinstance(value, TensorBase) else value  # type: ignore[attr-defined]  # every tensor has it
    limits = np.iinfo(dtype)
    if np.can_cast(array.dtype, dtype) or not array.size:
        return ""
    least, most = int(array.min()), int(array.max())
    if limits.min <= least and most <= limits.max:
        return ""
    return f"of dtype {array.dtype} from {least} to {most}, which {dtype} does not hold"


def _tensor(value: Any, variable: Variable[Any], path: str) -> Any:
    """Convert a value to a tensor on the device and in the dtype of a variable."""
    if isinstance(value, TensorBase):
        source: Any = variable._cut(value, "with_state()", path) if value.kind in INEXACT else value
        return transfer(source, variable.device).to_dtype(variable.dtype)
    array: NDArray[Any] = value
    if array.dtype != variable.dtype:
        array = readonly(array.astype(variable.dtype))
    return type(variable._value).from_data(array, device=variable.device, copy=bool(writer(array)))


class ModuleStructure:
    """The structure of a module without its parameters' values. Equal if classes, paths and shapes are equal."""

    __slots__ = ("_known", "module", "params")

    def __init__(self, module: ModuleBase[Any], params: tuple[Variable[Any], ...]) -> None:
        self.module, self.params = module, params
        self._known: tuple[Any, ...] | None = None

    @property
    def _key(self) -> tuple[Any, ...]:
        if self._known is None:
            self._known = (
                tuple((path, type(part)) for path, part in self.module.named_modules().items()),
                tuple((path, variable.shape) for path, variable in self.module.named_params().items()),
            )
        return self._known

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ModuleStructure) and (self.module is other.module or self._key == other._key)

    def __hash__(self) -> int:
        return hash(self._key)


def flatten_module(module: ModuleBase[Any]) -> tuple[list[Any], ModuleStructure]:
    """Flatten a module into the values of its parameters and its structure. Shared parameters are there once; buffers
    and everything else are constants of the structure, so that a derivative is a module with gradients in place of
    parameters and the same buffers."""
    params = module.params()
    return [param._value for param in params], ModuleStructure(module, params)


def unflatten_module(values: Sequence[Any], structure: ModuleStructure) -> Any:
    """Rebuild a module from parameter values, unchecked, and a structure returned by `flatten_module`."""
    if all(map(is_, values, [param._value for param in structure.params])):
        return structure.module
    return _with_values(structure.module, structure.params, values)


def _with_values(module: ModuleBase[Any], variables: Iterable[Variable[Any]], values: Sequence[Any]) -> Any:
    """Rebuild a module with other values of some of its variables, unchecked."""
    known = {id(variable): variable._unchecked(value) for variable, value in zip(variables, values, strict=True)}
    return Rebuild(known=known)(module)


class WholeStructure:
    """A module without the values of its parameters and buffers. It keeps neither them nor the module alive.

    Two are equal if their modules have the same classes, ids, settings and modes, so that one may have the other's
    values. Settings are compared with ``==``, and where that gives no bool, by identity.
    """

    __slots__ = ("_key", "_settings", "recipe")

    def __init__(self, module: ModuleBase[Any], variables: dict[str, Variable[Any]]) -> None:
        parts = module.named_modules()
        self._key = (
            tuple([(path, type(part), part._override) for path, part in parts.items()]),
            tuple([(path, type(v), v._id, getattr(v, "_frozen", False)) for path, v in variables.items()]),
        )
        self._settings = [
            {name: value for name, value in vars(part).items() if name not in part._parts} for part in parts.values()
        ]
        empty = Recipe(module)([None] * len(variables))
        self.recipe = Recipe(empty)  #: how to rebuild the module with other values

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WholeStructure):
            return False
        return self is other or (self._key == other._key and all(map(_same, self._settings, other._settings)))

    def __hash__(self) -> int:
        return hash(self._key)


def _same(left: dict[str, Any], right: dict[str, Any]) -> bool:
    """Return whether the settings of two modules are equal."""
    return left.keys() == right.keys() and all(
        value is right[name] or bool(type(value) is type(right[name]) and value == right[name])
        for name, value in left.items()
    )


def flatten_whole(module: ModuleBase[Any]) -> tuple[list[Any], WholeStructure]:
    """Flatten a module into the values of its parameters and buffers, and its structure."""
    known: tuple[list[Any], WholeStructure] | None = module._whole
    if known is None:
        variables = module._variables()
        known = [variable._value for variable in variables.values()], WholeStructure(module, variables)
        object.__setattr__(module, "_whole", known)
    return known


def unflatten_whole(values: Sequence[Any], structure: WholeStructure) -> Any:
    """Rebuild a module from the values of its parameters and buffers, unchecked."""
    module = structure.recipe(values)
    object.__setattr__(module, "_whole", ([*values], structure))
    return module


register_tree(ModuleBase, flatten_module, unflatten_module)
register_whole(ModuleBase, Handler(flatten_whole, unflatten_whole))
