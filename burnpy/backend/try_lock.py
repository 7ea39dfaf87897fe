"""`TryLock`: a non-blocking lock that is released when its owner is garbage collected."""

from __future__ import annotations

from contextlib import suppress
from typing import Generic
from weakref import ref

from burnpy.typevars import T


class TryLock(Generic[T]):
    """A non-blocking lock held by at most one object, its owner, until the owner releases it or is garbage collected.

    Signal handlers may raise anywhere in Python code, also between acquiring a lock and the ``try`` that releases it.
    The lock is therefore no flag that must be cleared: it is held as long as its owner is alive, so that an exception
    that drops the owner releases it. Call `acquire` inside the ``try`` whose ``finally`` calls `release`.

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
        """The first object that is alive is the owner. Appending to and removing from a list are atomic."""

    def acquire(self, owner: T) -> bool:
        """Try to acquire the lock for an object, compared by identity, that does not hold it; return whether it was
        free."""
        waiting = self._waiting
        waiting.append(ref(owner))
        if waiting[0]() is owner or self.owner() is owner:
            return True
        self.release(owner)
        return False

    def release(self, owner: T) -> None:
        """Release the lock; do nothing if the object does not hold it."""
        waiting, mine = self._waiting, ref(owner)
        if mine in waiting:  # and only this thread removes it
            waiting.remove(mine)

    def owner(self) -> T | None:
        """Return the object that holds the lock; None if it is free."""
        for reference in [*self._waiting]:
            owner = reference()
            if owner is not None:
                return owner
            with suppress(ValueError):  # another thread has removed it already
                self._waiting.remove(reference)
        return None
