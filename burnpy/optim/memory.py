"""Master weights: float32 copies of 16-bit parameters, which the optimizer updates and rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import ref

from burnpy.backend.dtypes import float32
from burnpy.backend.errors import StateError
from burnpy.backend.try_lock import TryLock
from burnpy.optim.state import ParamState, placed

if TYPE_CHECKING:
    from burnpy.backend.primitives import DType, Float
    from burnpy.optim.pending import Pending
    from burnpy.optim.update_step import UpdateCount
    from burnpy.tensor.tensor import Tensor

MASTER = "master"
"""The name of the master among the state tensors of a parameter."""


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
    """Return the lists after an update with the parameters rounded to their dtypes, and a list of masters at the end.

    A parameter that is not rounded has no master: None.
    """
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

    __slots__ = ("_lock", "counts", "held", "loaded", "replaced", "rounded", "states", "unseen")

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
        """The primitives that the last steps rounded masters to, by parameter id: see `burnpy.optim.memory`."""
        self.replaced: dict[int, ref[Tensor[Any]]] = {}
        """The leaves that a step has replaced, by `id()`; weak, because ids are reused when leaves are freed."""

    def begin(self, use: Use) -> None:
        """Acquire exclusive access; call it inside the ``try`` whose ``finally`` calls `end`.

        Raises:
            StateError: another call has access.
        """
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

        Raises:
            StateError: a step is in progress.
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
        """Read the numbers of updates that only the device knows, for which it is synchronized."""
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
        finally:
            self.end(use)

    def copied(self, name: str) -> Memory:
        """Return another memory with the same states.

        Raises:
            StateError: a step is in progress.
        """
        return Memory(self.shown(name), self.loaded)

    def has_replaced(self, leaves: Sequence[Tensor[Any]]) -> bool:
        """Return whether a step has replaced all of ``leaves`` already; False if there are none."""
        for leaf in leaves:
            reference = self.replaced.get(id(leaf))
            if reference is None or reference() is not leaf:
                return False
        return bool(leaves)

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
