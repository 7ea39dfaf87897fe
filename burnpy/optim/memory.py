"""`Memory`: what an optimizer remembers, changed by one step at a time, and shown between steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import ref

from burnpy.backend.errors import StateError
from burnpy.backend.try_lock import TryLock

if TYPE_CHECKING:
    from burnpy.optim.state import ParamState
    from burnpy.tensor.tensor import Tensor


class Use:
    """A call that has a memory for itself."""

    __slots__ = ("__weakref__", "does", "name")

    def __init__(self, name: str, does: str) -> None:
        self.name, self.does = name, does


class Memory:
    """What an optimizer remembers of each parameter, by id.

    A step has it for itself: it may write into arrays that nobody else has seen, and what is half old and half new is
    not shown to anyone. What was shown belongs to others too, and no step writes into it any more. Copies have the same
    arrays, as what was shown, and do not know which leaves were replaced.
    """

    __slots__ = ("_lock", "loaded", "replaced", "states", "unseen")

    def __init__(self, states: Mapping[str, ParamState], loaded: bool) -> None:
        self._lock: TryLock[Use] = TryLock()
        self.states = dict(states)
        """For the call that has the memory alone, as what follows."""
        self.loaded = loaded
        """Whether the states came from a record, and no step was taken since."""
        self.unseen: set[str] = set()
        """The ids of which nobody else has seen the states, so that a step may write into their memory."""
        self.replaced: dict[int, ref[Tensor[Any]]] = {}
        """The leaves that a step has made others of, by their ids, which others take when they are gone."""

    def begin(self, use: Use) -> None:
        """Have it for a call, to be written within the ``try`` that ends it.

        Raises:
            StateError: another call has it.
        """
        if not self._lock.acquire(use):
            other = self._lock.owner()
            raise StateError(
                f"{use.name} was asked of an optimizer amid its {other.name if other else 'step()'}, by the handler of "
                f"a signal or by another thread; set a flag there, and {use.does} after the step"
            )

    def end(self, use: Use) -> None:
        """Let others have it; nothing happens where the call did not."""
        self._lock.release(use)

    def shown(self, name: str) -> dict[str, ParamState]:
        """The states, for others to hold too.

        Args:
            name: of the call that asks for them.

        Raises:
            StateError: a step has them.
        """
        use = Use(name, "save")
        try:
            self.begin(use)
            self.unseen.clear()
            return dict(self.states)
        finally:
            self.end(use)

    def load(self, states: Mapping[str, ParamState]) -> None:
        """Remember these states, which others hold, and nothing else.

        Raises:
            StateError: a step has the memory.
        """
        use = Use("load_record()", "load")
        try:
            self.begin(use)
            self.unseen.clear()
            self.replaced, self.loaded, self.states = {}, bool(states), dict(states)
        finally:
            self.end(use)

    def copied(self, name: str) -> Memory:
        """Another memory of the same states.

        Raises:
            StateError: a step has them.
        """
        return Memory(self.shown(name), self.loaded)

    def has_replaced(self, leaves: Sequence[Tensor[Any]]) -> bool:
        """Whether a step has made others of all these leaves, of which there is at least one."""
        for leaf in leaves:
            found = self.replaced.get(id(leaf))
            if found is None or found() is not leaf:
                return False
        return bool(leaves)

    def with_replaced(self, leaves: Sequence[Tensor[Any]]) -> dict[int, ref[Tensor[Any]]]:
        """What `replaced` is when these leaves were; those that are gone are not in it."""
        alive = {place: found for place, found in self.replaced.items() if found() is not None}
        for leaf in leaves:
            alive[id(leaf)] = ref(leaf)
        return alive

    def __deepcopy__(self, memo: object) -> Memory:
        return self.copied("a deep copy, or asdict()")

    def __reduce__(self) -> tuple[Any, ...]:
        return Memory, (self.shown("a pickle"), self.loaded)
