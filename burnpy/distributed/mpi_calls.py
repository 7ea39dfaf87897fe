"""The calls of MPI, each with a time limit; the error after it names the ranks that did not arrive.

At the limit of a call that cannot tell whether it is done, all ranks end.
"""

from __future__ import annotations

import struct
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate, count, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from burnpy.backend.errors import GroupError, RanksLostError, WaitError
from burnpy.distributed.mpi import end_all

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SPIN = 0.0005
"""Seconds of asking without a pause, which is as fast as MPI's own waiting."""

_YIELD = 0.002
"""Seconds until which the processor is offered to others between two questions."""

_PAUSE = 0.0002
"""Seconds between two questions later on, which leave the processor to ranks that compute."""

_ANNOUNCES_AFTER = 0.5
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


_LEFT = 1 << 62
"""Added to the mark of a rank whose program has come to its end."""
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
            if not marked and waited > min(_ANNOUNCES_AFTER, self.timeout / 4):
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

    def leave(self, calls: int) -> None:
        """Tell the other ranks that the program of this one has ended after so many calls."""
        self._mark(_LEFT + calls)

    def left(self) -> dict[int, int]:
        """Return the ranks whose program has ended, with the number of their calls."""
        self._receive()
        return {rank: seen - _LEFT for rank, seen in self._seen.items() if seen >= _LEFT}

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


class Watchdog:
    """Calls a function if a block takes longer than a limit. It looks at least four times within the limit.

    MPI's blocking calls are faster than those that can be polled, and do not return to Python before they are done. No
    exception can be raised in them, so the function ends the program.

    Args:
        limit: in seconds.
        end: called with a description of the block, by another thread.
    """

    def __init__(self, limit: float, end: Callable[[str], None]) -> None:
        self.limit = limit
        self._end = end
        self._block: tuple[float, str] | None = None
        self._thread: threading.Thread | None = None

    @contextmanager
    def limited(self, description: str) -> Generator[None, None, None]:
        """Limit the time of a block. Blocks are not nested."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="burnpy watchdog", daemon=True)
            self._thread.start()
        self._block = time.monotonic() + self.limit, description
        try:
            yield
        finally:
            self._block = None

    def _watch(self) -> None:
        pause = min(1.0, self.limit / 4)
        while True:
            time.sleep(pause)
            block = self._block
            if block is not None and time.monotonic() > block[0]:
                self._end(block[1])
                return


def ending(abort: Callable[[], object]) -> Callable[[str], None]:
    """Return a function that prints a message and ends all ranks."""

    def end(message: str) -> None:
        print(f"burnpy: {message}; all ranks end", file=sys.stderr, flush=True)  # noqa: T201  # the last words
        abort()

    return end


_HEADER = struct.Struct("<24sdq32s")
_MAX_MESSAGE_BYTES = 1 << 30
"""The largest number of bytes in a message: MPI counts in 32 bits."""

_ABANDONED: list[Any] = []
"""Requests that will never be waited for. They refer to their memory, into which MPI may still write."""


class Header(NamedTuple):
    """The message of a rank to all others at the beginning of a call."""

    operation: str
    weight: float = 0.0
    nbytes: int = 0  #: of the message that follows
    digest: bytes = b""  #: of the layout of gradients, or of data that must be equal on all ranks


class Alone:
    """The exchanges of a group of one."""

    rank: int = 0
    size: int = 1
    tolerant: bool = False  #: whether other ranks go on when one is lost

    def name(self, rank: int) -> str:
        """Return the description of a rank."""
        return "rank 0"

    def open(self, header: Header) -> list[Header]:
        """Return the header of every rank."""
        return [header]

    def broadcast(self, data: bytes, root: int, nbytes: int) -> bytes:
        """Return the bytes of rank ``root``."""
        return data

    def gather(self, data: bytes, sizes: Sequence[int]) -> list[bytes]:
        """Return the bytes of each rank."""
        return [data]

    def exchange(self, array: NDArray[np.uint8], sizes: Sequence[int], unit: int = 1) -> None:
        """Fill in the bytes of the other ranks, in an array that has those of this one in its place."""

    def sum(self, array: NDArray[Any]) -> None:
        """Replace an array by the sum over the ranks."""

    def weighted_sum(self, source: NDArray[Any], target: NDArray[Any], factors: Sequence[float]) -> None:
        """Fill an array with the sum over the ranks of their sources, each multiplied by the rank's factor.

        Args:
            source: may be ``target`` itself.
            target: of the same dtype and size.
            factors: one for each rank.
        """
        np.multiply(source, target.dtype.type(factors[self.rank]), out=target)
        self.sum(target)

    def begin_reduce(self, array: NDArray[Any], root: int) -> Any:
        """Begin to replace the array of rank ``root`` by the sum over the ranks; return the request, to `wait` for."""

    def abandon(self, requests: Sequence[Any]) -> None:
        """Keep the memory of sums that will never be waited for."""

    def begin_sum(self, array: NDArray[Any]) -> Any:
        """Begin to replace an array by the sum over the ranks; return the request, to `wait` for."""

    def progress(self, request: Any) -> None:
        """Let sums that have begun go on."""

    def wait(self, request: Any) -> None:
        """Wait until a sum that has begun is complete."""


class Calls(Alone):
    """The exchanges of a group over MPI. All ranks must make the same calls in the same order.

    Args:
        mpi: ``mpi4py.MPI``.
        comm: a communicator of the group alone.
        timeout: the limit of each wait in seconds.
        hosts: the host of each rank.
    """

    def __init__(self, mpi: Any, comm: Any, timeout: float, hosts: Sequence[str]) -> None:
        self.rank, self.size, self.hosts = comm.rank, comm.size, tuple(hosts)
        self.mpi, self.comm, self.timeout = mpi, comm, timeout
        self.waits = Waits(mpi, comm, timeout, self.hosts)
        self.watchdog = Watchdog(timeout, ending(lambda: end_all(mpi)))
        self._count = 0
        self._operation = ""
        self._units: dict[int, Any] = {1: mpi.BYTE}
        comm.Set_errhandler(mpi.ERRORS_RETURN)

    def name(self, rank: int) -> str:
        """Return the description of a rank, such as "rank 2 on node5"."""
        return self.waits.name(rank)

    def open(self, header: Header) -> list[Header]:
        """Return the header of every rank."""
        self._count += 1
        self._operation = header.operation
        mine = np.frombuffer(_HEADER.pack(header.operation.encode(), *header[1:]), np.uint8)
        every = np.empty((self.size, _HEADER.size), np.uint8)
        self.wait(self.begin("Iallgather", mine, every))
        headers: list[Header] = []
        for row in every:
            operation, weight, nbytes, digest = _HEADER.unpack(row.tobytes())
            headers.append(Header(operation.rstrip(b"\0").decode(), weight, nbytes, digest))
        others = [rank for rank, other in enumerate(headers) if other.operation != headers[0].operation]
        if others:
            raise GroupError(
                f"call {self._count} of this group is {headers[0].operation}() on {self.name(0)} and "
                f"{headers[others[0]].operation}() on {self.name(others[0])}; all ranks make the same calls in the "
                "same order, so no call may depend on the rank",
                everywhere=True,
            )
        return headers

    def broadcast(self, data: bytes, root: int, nbytes: int) -> bytes:
        """Return the bytes of rank ``root``; their number is ``nbytes``."""
        array = np.frombuffer(data, np.uint8) if self.rank == root else np.empty(nbytes, np.uint8)
        for start in range(0, nbytes, _MAX_MESSAGE_BYTES):
            self.wait(self.begin("Ibcast", array[start : start + _MAX_MESSAGE_BYTES], root))
        return data if self.rank == root else array.tobytes()

    def gather(self, data: bytes, sizes: Sequence[int]) -> list[bytes]:
        """Return the bytes of each rank; ``sizes`` are their numbers.

        Raises:
            GroupError: they are more than 2 GB.
        """
        every = np.empty(sum(sizes), np.uint8)
        starts = [*accumulate(sizes, initial=0)]
        every[starts[self.rank] : starts[self.rank + 1]] = np.frombuffer(data, np.uint8)
        self.exchange(every, sizes)
        return [every[start:stop].tobytes() for start, stop in pairwise(starts)]

    def exchange(self, array: NDArray[np.uint8], sizes: Sequence[int], unit: int = 1) -> None:
        """Fill in the bytes of the other ranks, in an array that has those of this one in its place.

        Args:
            array: of the bytes of all ranks, in their order.
            sizes: the number of bytes of each rank.
            unit: a divisor of all sizes. MPI counts up to 2^31 of them.
        """
        if sum(sizes) >= 2 * _MAX_MESSAGE_BYTES * unit:
            raise GroupError(
                f"{self._operation}() cannot gather {sum(sizes)} bytes; at most {2 * _MAX_MESSAGE_BYTES * unit - 1}",
                everywhere=True,
            )
        if unit not in self._units:
            self._units[unit] = self.mpi.BYTE.Create_contiguous(unit).Commit()
        counts = [size // unit for size in sizes]
        target = [array, counts, [*accumulate(counts, initial=0)][:-1], self._units[unit]]
        self.wait(self.begin("Iallgatherv", self.mpi.IN_PLACE, target))

    def sum(self, array: NDArray[Any]) -> None:
        """Replace an array by the sum over the ranks, the same bits on all.

        All ranks have told that they are in this call, so the faster, blocking call is limited by a watchdog.
        """
        with self.watchdog.limited(
            f"the exchange of buckets in {self._operation}(), which all {self.size} ranks had begun, stood still for "
            f"{self.timeout:g} s"
        ):
            try:
                self.comm.Allreduce(self.mpi.IN_PLACE, array)
            except self.mpi.Exception as error:
                raise self.error(error) from error

    def begin_sum(self, array: NDArray[Any]) -> Request:
        """Begin to replace an array by the sum over the ranks; `wait` waits for the result."""
        return self.begin("Iallreduce", self.mpi.IN_PLACE, array)

    def progress(self, request: Request) -> None:
        """Let sums that have begun go on: MPI moves data while it is called."""
        try:
            request.Test()
        except self.mpi.Exception as error:
            raise self.error(error) from error

    def begin_reduce(self, array: NDArray[Any], root: int) -> Request:
        """Begin to replace the array of rank ``root`` by the sum over the ranks; `wait` waits for the result."""
        if self.rank == root:
            return self.begin("Ireduce", self.mpi.IN_PLACE, array, self.mpi.SUM, root)
        return self.begin("Ireduce", array, None, self.mpi.SUM, root)

    def abandon(self, requests: Sequence[Request]) -> None:
        """Keep the memory of requests that will never be waited for: MPI may still write into it."""
        _ABANDONED.extend(requests)

    def begin(self, name: str, *args: Any) -> Request:
        """Call a method of the communicator that returns a request."""
        try:
            request: Request = getattr(self.comm, name)(*args)
        except self.mpi.Exception as error:
            raise self.error(error) from error
        return request

    def wait(self, request: Request) -> None:
        """Wait for a request of this group's communicator."""
        try:
            self.waits.wait(request, self._operation, self._count, self.check)
        except BaseException as error:
            _ABANDONED.append(request)
            if isinstance(error, self.mpi.Exception):
                raise self.error(error) from error
            raise

    check = staticmethod(nothing)
    """Called from time to time while waiting; raises an error if a rank is known to have ended."""

    def error(self, error: Any) -> GroupError:
        """Return the error for an exception of MPI."""
        kind = error.Get_error_class()
        if kind in (self.mpi.ERR_PROC_FAILED, self.mpi.ERR_PROC_FAILED_PENDING, self.mpi.ERR_REVOKED):
            return RanksLostError(
                f"{self.name(self.rank)} cannot go on in {self._operation}() of a group of {self.size}, as a rank has "
                "ended; Elastic(group).run(step) would go on without it"
            )
        return GroupError(f"MPI reports an error in {self._operation}() of a group of {self.size}: {error}")
