"""The exchanges of bytes and arrays between ranks, each preceded by one of headers, which shows who asks for what."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from burnpy.backend.errors import GroupError
from burnpy.distributed.wait import Waits

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HEADER = struct.Struct("<24sdq32s")
_CHUNK = 1 << 30
"""The largest number of bytes in a message: MPI counts in 32 bits."""


class Header(NamedTuple):
    """What a rank tells all others at the beginning of a call."""

    operation: str
    weight: float = 0.0
    nbytes: int = 0  #: of the message that follows
    digest: bytes = b""  #: of the layout of gradients, or of what all must have alike


class Alone:
    """The exchanges of a group of one."""

    rank: int = 0
    size: int = 1
    names: tuple[str, ...] = ("rank 0",)

    def open(self, header: Header) -> list[Header]:
        """Return the header of every rank."""
        return [header]

    def broadcast(self, data: bytes, root: int, nbytes: int) -> bytes:
        """Return the bytes of rank ``root``."""
        return data

    def gather(self, data: bytes, sizes: Sequence[int]) -> list[bytes]:
        """Return the bytes of each rank."""
        return [data]

    def sum(self, array: NDArray[Any]) -> None:
        """Replace an array by the sum over the ranks."""

    def exchange(self, array: NDArray[np.uint8], sizes: Sequence[int]) -> None:
        """Fill in the bytes of the other ranks, in an array that has those of this one in its place."""

    def reduce(self, array: NDArray[Any], root: int) -> Any:
        """Begin to replace the array of rank ``root`` by the sum over the ranks; return the request, to `wait` for."""

    def start(self, array: NDArray[Any]) -> Any:
        """Begin to replace an array by the sum over the ranks; return the request, to `wait` for."""

    def progress(self, request: Any) -> None:
        """Let sums that have started go on."""

    def wait(self, request: Any) -> None:
        """Wait until a sum that has started is complete."""


class Calls(Alone):
    """The exchanges of a group over MPI. All ranks must make the same calls in the same order.

    Args:
        mpi: ``mpi4py.MPI``.
        comm: a communicator of the group alone.
        waits: with the limit of each wait.
    """

    def __init__(self, mpi: Any, comm: Any, waits: Waits) -> None:
        self.rank, self.size, self.names = comm.rank, comm.size, tuple(waits.names)
        self._mpi, self._comm, self._waits = mpi, comm, waits
        self._count = 0
        self._operation = ""

    def open(self, header: Header) -> list[Header]:
        """Return the header of every rank.

        Raises:
            GroupError: another rank has called something else.
            WaitError: a rank did not come within the limit.
        """
        self._count += 1
        self._operation = header.operation
        mine = np.frombuffer(_HEADER.pack(header.operation.encode(), *header[1:]), np.uint8)
        every = np.empty((self.size, _HEADER.size), np.uint8)
        self._wait(self._comm.Iallgather(mine, every))
        headers: list[Header] = []
        for row in every:
            operation, weight, nbytes, digest = _HEADER.unpack(row.tobytes())
            headers.append(Header(operation.rstrip(b"\0").decode(), weight, nbytes, digest))
        others = [rank for rank, other in enumerate(headers) if other.operation != headers[0].operation]
        if others:
            raise GroupError(
                f"call {self._count} of this group is {headers[0].operation}() on {self.names[0]} and "
                f"{headers[others[0]].operation}() on {self.names[others[0]]}; all ranks make the same calls in the "
                "same order, so a call must not depend on the rank"
            )
        return headers

    def broadcast(self, data: bytes, root: int, nbytes: int) -> bytes:
        """Return the bytes of rank ``root``, of which there are ``nbytes``."""
        array = np.frombuffer(data, np.uint8) if self.rank == root else np.empty(nbytes, np.uint8)
        for start in range(0, nbytes, _CHUNK):
            self._wait(self._comm.Ibcast(array[start : start + _CHUNK], root))
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

    def exchange(self, array: NDArray[np.uint8], sizes: Sequence[int]) -> None:
        """Fill in the bytes of the other ranks, in an array that has those of this one in its place.

        Raises:
            GroupError: they are more than 2 GB.
        """
        if sum(sizes) >= 2 * _CHUNK:
            raise GroupError(f"{self._operation}() was asked to gather {sum(sizes)} bytes; at most {2 * _CHUNK - 1}")
        target = [array, list(sizes), [*accumulate(sizes, initial=0)][:-1], self._mpi.BYTE]
        self._wait(self._comm.Iallgatherv(self._mpi.IN_PLACE, target))

    def reduce(self, array: NDArray[Any], root: int) -> Any:
        """Begin to replace the array of rank ``root`` by the sum over the ranks; return the request, to `wait` for."""
        if self.rank == root:
            return self._comm.Ireduce(self._mpi.IN_PLACE, array, root=root)
        return self._comm.Ireduce(array, None, root=root)

    def sum(self, array: NDArray[Any]) -> None:
        """Replace an array by the sum over the ranks, the same bits on all."""
        self._comm.Allreduce(self._mpi.IN_PLACE, array)

    def start(self, array: NDArray[Any]) -> Any:
        """Begin to replace an array by the sum over the ranks, the same bits on all; return the request."""
        return self._comm.Iallreduce(self._mpi.IN_PLACE, array)

    def progress(self, request: Any) -> None:
        """Let sums that have started go on: MPI moves data while it is called."""
        request.Test()

    def wait(self, request: Any) -> None:
        """Wait until a sum that has started is complete.

        Raises:
            WaitError: it was not within the limit.
        """
        self._wait(request)

    def _wait(self, request: Any) -> None:
        self._waits.wait(request, self._operation, self._count)
