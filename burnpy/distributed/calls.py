"""The exchanges of bytes and arrays between ranks. Headers go first and show the call of each rank."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from burnpy.backend.errors import GroupError, RanksLostError
from burnpy.distributed.errors_on_all import end_all
from burnpy.distributed.wait import Request, Waits, nothing
from burnpy.distributed.watchdog import Watchdog, ending

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HEADER = struct.Struct("<24sdq32s")
_CHUNK = 1 << 30
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
        """Return the header of every rank.

        Raises:
            GroupError: another rank has called something else.
            WaitError: a rank did not come within the limit.
            RanksLostError: a rank has ended.
        """
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
        for start in range(0, nbytes, _CHUNK):
            self.wait(self.begin("Ibcast", array[start : start + _CHUNK], root))
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

        Raises:
            GroupError: there are more.
        """
        if sum(sizes) >= 2 * _CHUNK * unit:
            raise GroupError(
                f"{self._operation}() cannot gather {sum(sizes)} bytes; at most {2 * _CHUNK * unit - 1}",
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
        """Call a method of the communicator that returns a request.

        Raises:
            RanksLostError: a rank has ended.
            GroupError: MPI reports another error.
        """
        try:
            request: Request = getattr(self.comm, name)(*args)
        except self.mpi.Exception as error:
            raise self.error(error) from error
        return request

    def wait(self, request: Request) -> None:
        """Wait for a request of this group's communicator.

        Raises:
            WaitError: it was not complete within the limit.
            RanksLostError: a rank has ended.
            GroupError: MPI reports another error.
        """
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
