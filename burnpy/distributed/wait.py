"""Waiting for other ranks with a limit, at which an error names those that did not arrive."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any, Protocol

from burnpy.backend.errors import WaitError

_SPIN = 0.0005
"""Seconds of asking without a pause, which is as fast as MPI's own waiting."""

_YIELD = 0.002
"""Seconds until which the processor is offered to others between two questions."""

_PAUSE = 0.0002
"""Seconds between two questions later on, which leave the processor to ranks that compute."""

_LONG = 0.5
"""Seconds after which a waiting rank tells the others that it is there."""

_CHECK = 0.05
"""Seconds between two calls of the function that looks for lost ranks."""


class Request(Protocol):
    """An operation that is under way, such as an MPI request."""

    def Test(self) -> bool:  # noqa: N802  # mpi4py's name
        """Advance the operation; return True once it is complete."""
        ...


def nothing() -> None:
    """Look for no lost ranks."""


_tags = count(1)
"""The tags of marks: one for each object, as all ranks make these objects in the same order."""


class Waits:
    """The waits of one rank of a communicator.

    A rank that has waited for half a second sends the number of its call, a mark, to all others. At the limit, the
    ranks that sent no mark are the late ones. Nothing is sent during short waits. Marks travel on the world
    communicator, which stays open when a rank is lost.

    Args:
        mpi: ``mpi4py.MPI``.
        comm: the communicator.
        timeout: the limit of each wait in seconds.
        hosts: the host of each rank; () if they are not known yet.
    """

    def __init__(self, mpi: Any, comm: Any, timeout: float, hosts: tuple[str, ...]) -> None:
        self.timeout = timeout
        self.hosts = hosts
        self._mpi = mpi
        self._world = mpi.COMM_WORLD
        self._members: list[int] = comm.Get_group().Translate_ranks(None, self._world.Get_group())
        self._here: int = comm.rank
        self._tag = next(_tags)
        self._seen = dict.fromkeys(range(comm.size), 0)
        self._sent: list[Any] = []

    def name(self, rank: int) -> str:
        """Return the description of a rank, such as "rank 2 on node5"."""
        if not self.hosts:
            return f"rank {rank}"
        return f"rank {rank} on {self.hosts[rank]}"

    def wait(self, request: Request, operation: str, call: int, check: Callable[[], None] = nothing) -> None:
        """Wait until a request is complete.

        Args:
            request: made by all ranks.
            operation: the name of the call, for the message.
            call: its number, the same on all ranks.
            check: called from time to time; an exception from it ends the wait.

        Raises:
            WaitError: it was not complete within the limit.
        """
        if request.Test():
            return
        began = time.perf_counter()
        marked, checked = False, began
        while not request.Test():
            now = time.perf_counter()
            waited = now - began
            if waited < _YIELD:
                if waited > _SPIN:
                    time.sleep(0.0)  # returns at once where no other thread or process waits for the processor
                continue
            if not marked and waited > min(_LONG, self.timeout / 4):
                marked = True
                self._mark(call)
            if now - checked > _CHECK:
                checked = now
                check()
            if waited > self.timeout:
                raise self._error(operation, call)
            time.sleep(_PAUSE)

    def _mark(self, call: int) -> None:
        """Tell the other ranks that this one is in a call. Ranks that are lost cannot be told."""
        number = call.to_bytes(8, "little")
        with suppress(self._mpi.Exception):
            self._sent = [send for send in self._sent if not send.Test()]
        self._receive()
        for rank, member in enumerate(self._members):
            if rank != self._here:
                with suppress(self._mpi.Exception):
                    self._sent.append(self._world.Isend([number, self._mpi.BYTE], member, self._tag))

    def _receive(self) -> None:
        """Take the marks that have come."""
        number = bytearray(8)
        for rank, member in enumerate(self._members):
            with suppress(self._mpi.Exception):
                while rank != self._here and self._world.Iprobe(member, self._tag):
                    self._world.Recv([number, self._mpi.BYTE], member, self._tag)
                    self._seen[rank] = max(self._seen[rank], int.from_bytes(number, "little"))

    def _error(self, operation: str, call: int) -> WaitError:
        self._receive()
        absent = tuple(rank for rank, seen in self._seen.items() if seen < call and rank != self._here)
        awaited = ", ".join(map(self.name, absent)) or "none: all have arrived, and the exchange stands still"
        return WaitError(
            f"{self.name(self._here)} has waited for {self.timeout:g} s in {operation}() of a group of "
            f"{len(self._members)}; awaited: {awaited}. Group.world(timeout=) sets the limit",
            absent,
        )
