"""Waiting for other ranks with a limit, at which an error names those that did not arrive."""

from __future__ import annotations

import os
import time
from typing import Any, Protocol

from burnpy.backend.errors import WaitError

_SPIN = 0.001
"""Seconds of asking without a pause, which is as fast as MPI's own waiting."""

_PAUSE = 0.0002
"""Seconds between two questions later on, which leave the processor to ranks that compute."""

_MARK_AFTER = 0.5
"""Seconds after which a waiting rank tells the others that it is there."""


class Request(Protocol):
    """An operation that is under way, such as an MPI request."""

    def Test(self) -> bool:  # noqa: N802  # mpi4py's name
        """Advance the operation; return True once it is complete."""
        ...


class Waits:
    """The waits of one rank on a communicator.

    A rank that has waited for half a second sends the number of its call to all others. At the limit, the ranks of
    which no such mark has come are those that are awaited. Nothing is sent while no wait is long.

    Args:
        mpi: ``mpi4py.MPI``.
        comm: a communicator that is used for marks alone.
        timeout: the limit of each wait in seconds.
        names: a description of each rank, such as "rank 2 on node5".
    """

    def __init__(self, mpi: Any, comm: Any, timeout: float, names: list[str]) -> None:
        self.timeout = timeout
        self.names = names
        self._mpi = mpi
        self._comm = comm
        self._seen = [0] * comm.size
        self._sent: list[Any] = []

    def wait(self, request: Request, operation: str, call: int) -> None:
        """Wait until a request is complete.

        Args:
            request: made by all ranks.
            operation: the name of the call, for the message.
            call: its number, the same on all ranks.

        Raises:
            WaitError: it was not complete within the limit.
        """
        if request.Test():
            return
        began = time.perf_counter()
        marked = False
        while not request.Test():
            waited = time.perf_counter() - began
            if waited < _SPIN:
                os.sched_yield()
                continue
            if not marked and waited > min(_MARK_AFTER, self.timeout / 4):
                marked = True
                self._mark(call)
            if waited > self.timeout:
                raise self._error(operation, call)
            time.sleep(_PAUSE)

    def _mark(self, call: int) -> None:
        """Tell the other ranks that this one is in a call."""
        self._sent = [send for send in self._sent if not send.Test()]
        self._receive()
        number = call.to_bytes(8, "little")
        for rank in range(self._comm.size):
            if rank != self._comm.rank:
                self._sent.append(self._comm.Isend([number, self._mpi.BYTE], rank, tag=1))

    def _receive(self) -> None:
        """Take the marks that have come."""
        status, number = self._mpi.Status(), bytearray(8)
        while self._comm.Iprobe(self._mpi.ANY_SOURCE, 1, status):
            rank = status.Get_source()
            self._comm.Recv([number, self._mpi.BYTE], rank, tag=1)
            self._seen[rank] = max(self._seen[rank], int.from_bytes(number, "little"))

    def _error(self, operation: str, call: int) -> WaitError:
        self._receive()
        here = self._comm.rank
        absent = tuple(rank for rank, seen in enumerate(self._seen) if seen < call and rank != here)
        awaited = (
            ", ".join(self.names[rank] for rank in absent) or "none: all have arrived, and the exchange stands still"
        )
        return WaitError(
            f"{self.names[here]} has waited for {self.timeout:g} s in {operation}() of a group of {len(self.names)}; "
            f"awaited: {awaited}. Group.world(timeout=) sets the limit",
            absent,
        )
