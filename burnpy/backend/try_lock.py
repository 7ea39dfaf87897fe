"""`TryLock`: a lock that is tried and never waited for, and that no exception leaves taken for good."""

from __future__ import annotations

from contextlib import suppress
from typing import Generic, TypeVar
from weakref import ref

T = TypeVar("T")


class TryLock(Generic[T]):
    """Held by at most one object, its owner: until that releases it, or is gone.

    Handlers of signals raise wherever Python code is, also between the call that takes a lock and what was to release
    it. So whether it is held is no mark that somebody must remove, but whether its owner lives; what an exception drops
    has released it. `acquire` belongs inside of the ``try`` of which the ``finally`` calls `release`.

    >>> class Job:
    ...     pass
    >>> lock, one, other = TryLock(), Job(), Job()
    >>> lock.acquire(one), lock.acquire(other)
    (True, False)
    >>> lock.release(other)
    >>> lock.owner() is one
    True
    >>> del one
    >>> lock.acquire(other)
    True
    """

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[ref[T]] = []
        """Of the objects that live, the first has it. Lists are appended to, and removed from, in one piece."""

    def acquire(self, owner: T) -> bool:
        """Take it for an object that does not hold it yet, and is compared by identity; whether it was free."""
        waiting = self._waiting
        waiting.append(ref(owner))
        if waiting[0]() is owner or self.owner() is owner:
            return True
        self.release(owner)
        return False

    def release(self, owner: T) -> None:
        """Let others take it; nothing happens where the object does not hold it."""
        waiting, mine = self._waiting, ref(owner)
        if mine in waiting:  # and none but this thread takes it out
            waiting.remove(mine)

    def owner(self) -> T | None:
        """Whose it is; None where it is free."""
        for found in [*self._waiting]:
            owner = found()
            if owner is not None:
                return owner
            with suppress(ValueError):  # another thread was faster
                self._waiting.remove(found)
        return None
