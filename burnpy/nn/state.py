"""The state of a module: what it holds, by path, taken out and put in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias, TypeVar

import numpy as np

from burnpy.backend.backend import Backend
from burnpy.backend.dtypes import kind_of
from burnpy.backend.errors import DTypeError, KindError, ModuleError, StateError, a
from burnpy.nn.base import ModuleBase
from burnpy.nn.tree import Rebuild, walk
from burnpy.nn.variable import Variable
from burnpy.tensor.base import TensorBase
from burnpy.tensor.transfer import transfer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from burnpy.backend.primitives import DType

B = TypeVar("B", bound=Backend)


SHOWN = 6
"""How many paths of each sort a report shows; its fields have all of them."""


class Entry(NamedTuple):
    """What a state has at one path."""

    id: str | None  #: what the parameter or buffer is known by; None leaves it as it is
    value: Any  #: a tensor or NumPy array


State: TypeAlias = Mapping[str, Any]
"""By path: an `Entry`, a tensor, or a NumPy array."""


class StateReport(NamedTuple):
    """What putting a state into a module comes to."""

    applied: tuple[str, ...]  #: the paths that the state has a fitting value for
    missing: tuple[str, ...]  #: those of the module that the state does not have
    unexpected: tuple[str, ...]  #: those of the state that the module does not have
    mismatched: tuple[str, ...]  #: those with a value of another shape or kind, with both

    @property
    def fits(self) -> bool:
        """Whether the state has a value for each path, and no other."""
        return not (self.missing or self.unexpected or self.mismatched)

    def __str__(self) -> str:
        """How many paths there are of each sort, and the first of them."""
        parts = [f"{len(self.applied)} fit"]
        for name in ("missing", "unexpected", "mismatched"):
            paths: tuple[str, ...] = getattr(self, name)
            if paths:
                rest = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN + 1 else ""
                parts.append(f"{len(paths)} {name}: {', '.join(paths[:SHOWN] if rest else paths)}{rest}")
        return "; ".join(parts)


class Stateful(ModuleBase[B]):
    """Taking the state out of a module, and putting one in."""

    __slots__ = ()

    def state(self) -> dict[str, Entry]:
        """Everything held, by path: its id and its value, an untracked tensor in the module's own memory.

        What is shared is there once, under its first path.

        >>> from burnpy.backend import NumPy
        >>> from burnpy.nn import Linear
        >>> {path: value.shape for path, (id, value) in Linear(2, 3, device=NumPy).state().items()}
        {'weight': (2, 3), 'bias': (3,)}
        """
        return {path: Entry(held.id, held._value.detach()) for path, held in self._all_held().items()}

    def with_state(self, state: State, *, strict: bool = True) -> Self:
        """The same module with the values, and ids, that a state has for its paths; as new leaves.

        Values come to the module's device and dtype. Of what is shared, any of its paths will do. Nothing is loaded,
        and nothing changed, where something is wrong.

        Args:
            state: by path `Entry`, tensor or array; with a bare one, and with the id None, the id stays.
            strict: False takes what fits and leaves the rest as it is: see `state_report`.

        Raises:
            StateError: ``strict`` and something is missing, unexpected or of another shape, or ints are outside of what
                the module's dtype holds; its ``report`` has all of it.
            ModuleError: two parameters would have one id.
        """
        report, found = _compared(self, state)
        if strict and not report.fits:
            raise StateError(
                f"this state is not one of {type(self).__name__}, and nothing was loaded: {report}", report
            )
        ids: dict[str, str] = {}
        for path, held in self._all_held().items():
            given = found[path].id if path in found else None
            other = ids.setdefault(given or held.id, path)
            if other != path:
                raise ModuleError(
                    f"this state would give {other} and {path} of {type(self).__name__} one id, and nothing was "
                    "loaded; for values alone, give tensors or arrays instead of entries"
                )

        def valued(path: str, held: Variable[Any]) -> Variable[Any]:
            entry = found.get(path)
            if entry is None:
                return held
            new = held.holding(_tensor(entry.value, held))
            return new if entry.id is None else new.with_id(entry.id)

        return Rebuild(valued)(self)  # type: ignore[no-any-return]  # of the same class

    def state_report(self, state: State) -> StateReport:
        """What `with_state` would find, with nothing done."""
        return _compared(self, state)[0]

    def into_record(self) -> dict[str, Entry]:
        """The `state` as read-only NumPy arrays, which can be pickled and belong to no device.

        `burnpy.record` writes it to a file.
        """
        return {path: Entry(held.id, held._value.to_numpy()) for path, held in self._all_held().items()}

    def load_record(self, record: State, *, strict: bool = True) -> Self:
        """The same module with what a record has for it: `with_state`.

        Raises:
            StateError: as `with_state`.

        >>> from burnpy.backend import NumPy
        >>> from burnpy.nn import Linear
        >>> model, other = Linear(2, 3, device=NumPy), Linear(2, 3, device=NumPy)
        >>> other.load_record(model.into_record()).weight.id == model.weight.id
        True
        """
        return self.with_state(record, strict=strict)


def _compared(module: ModuleBase[Any], state: State) -> tuple[StateReport, dict[str, Entry]]:
    """The report, and what fits, by the first path of each.

    Raises:
        KindError: the state is none.
    """
    given: Any = state
    if not isinstance(given, Mapping):
        hint = "; of a file's record, write record.apply_to(model)" if hasattr(given, "parts") else ""
        raise KindError(
            f"the state of {a(type(module).__name__)} is a mapping by path, not {a(type(given).__name__)}{hint}"
        )
    first = {id(held): path for path, held in module._all_held().items()}
    known = {path: item for path, item in walk(module) if isinstance(item, Variable)}
    unexpected, mismatched = [], []
    found: dict[str, Entry] = {}
    source: dict[str, str] = {}
    seen = set()
    for path, given in state.items():
        held = known.get(path)
        if held is None:
            unexpected.append(path)
            continue
        place = first[id(held)]
        seen.add(place)
        entry = given if isinstance(given, Entry) else Entry(*given) if isinstance(given, tuple) else Entry(None, given)
        trouble = _trouble(held, entry.value)
        if not trouble and place in found and not _equal(found[place].value, entry.value):
            trouble = f"another value than at {source[place]}, with which it is one {held.word}"
        if trouble:
            mismatched.append(f"{path} ({trouble})")
        elif place == path or place not in found:
            found[place], source[place] = entry, path
    missing = tuple(path for path in first.values() if path not in seen)
    return StateReport(tuple(found), missing, tuple(unexpected), tuple(mismatched)), found


def _trouble(held: Variable[Any], value: Any) -> str:
    """Why a value does not fit; empty if it does."""
    if not isinstance(value, (TensorBase, np.ndarray)):
        return f"neither tensor nor array: {a(type(value).__name__)}"
    if tuple(value.shape) != held.shape:
        return f"of shape {tuple(value.shape)}, not {held.shape}"
    try:
        kind = kind_of(value.dtype)
    except DTypeError:
        return f"of dtype {value.dtype}, which no tensor has"
    if kind != held.kind:
        return f"of dtype {value.dtype}, not {held.dtype}"
    return _outside(value, held.dtype) if kind == "int" and value.dtype != held.dtype else ""


def _equal(one: Any, other: Any) -> bool:
    """Whether two values are the same, not-a-number included; in one memory they are not looked at."""
    a, b = (x.to_numpy() if isinstance(x, TensorBase) else x for x in (one, other))  # type: ignore[attr-defined]  # every tensor has it
    same = a.__array_interface__["data"] == b.__array_interface__["data"] and a.strides == b.strides
    return same or bool(((a == b) | ((a != a) & (b != b))).all())


def _outside(value: Any, dtype: DType) -> str:
    """What of ints a narrower dtype does not hold; empty if it holds all of them."""
    array: NDArray[Any] = value.to_numpy() if isinstance(value, TensorBase) else value  # type: ignore[attr-defined]  # every tensor has it
    limits = np.iinfo(dtype)
    if np.can_cast(array.dtype, dtype) or not array.size:
        return ""
    least, most = int(array.min()), int(array.max())
    if limits.min <= least and most <= limits.max:
        return ""
    return f"of dtype {array.dtype} from {least} to {most}, which {dtype} does not hold"


def _tensor(value: Any, held: Variable[Any]) -> Any:
    """A value as a tensor of what is held: its device and dtype."""
    if isinstance(value, TensorBase):
        source: Any = value.detach() if value.kind == "float" else value  # type: ignore[attr-defined]  # a Tensor
        return transfer(source, held.device).to_dtype(held.dtype)
    array: NDArray[Any] = value
    return type(held._value).from_data(array.astype(held.dtype, copy=False), device=held.device)
