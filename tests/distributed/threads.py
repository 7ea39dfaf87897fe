"""Groups whose ranks are threads of this process: sums in the order of ranks, requests that complete when they are
waited for, and a log of each rank's calls."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

import numpy as np

from burnpy.distributed import Group
from burnpy.distributed.mpi_calls import Alone, Header

T = TypeVar("T")
LIMIT = 30.0


class Board:
    """The state that the ranks of a group share: a barrier, and one place for each rank."""

    def __init__(self, size: int, turns: threading.Lock | None) -> None:
        self._barrier = threading.Barrier(size, timeout=LIMIT)
        self._turns = turns
        self.places: list[Any] = [None] * size
        self.sums: list[list[Any]] = []  #: by sum, the arrays of the ranks
        self.lock = threading.Lock()

    def wait(self) -> None:
        """Wait for the other ranks, which take their turns meanwhile."""
        with paused(self._turns):
            self._barrier.wait()

    def abort(self) -> None:
        self._barrier.abort()


@contextmanager
def paused(turns: threading.Lock | None) -> Iterator[None]:
    """Let other ranks compute during a block in which this one waits."""
    if turns is None:
        yield
        return
    turns.release()
    try:
        yield
    finally:
        turns.acquire()


class ThreadCalls(Alone):
    """The exchanges of one thread."""

    def __init__(self, rank: int, size: int, board: Board) -> None:
        self.rank, self.size = rank, size
        self.log: list[str] = []
        self.abandoned = 0
        self._board, self._started = board, 0

    def _exchange(self, value: T) -> list[T]:
        self._board.places[self.rank] = value
        self._board.wait()
        every = list(self._board.places)
        self._board.wait()
        return every

    def open(self, header: Header) -> list[Header]:
        self.log.append(f"open {header.operation}")
        headers = self._exchange(header)
        assert len({header.operation for header in headers}) == 1, headers
        return headers

    def broadcast(self, data: bytes, root: int, nbytes: int) -> bytes:
        every = self._exchange(data)
        assert len(every[root]) == nbytes
        return every[root]

    def gather(self, data: bytes, sizes: Sequence[int]) -> list[bytes]:
        every = self._exchange(bytes(data))
        assert [len(each) for each in every] == list(sizes)
        return every

    def exchange(self, array: Any, sizes: Sequence[int], unit: int = 1) -> None:
        assert all(size % unit == 0 for size in sizes)
        every = self._exchange((array, tuple(sizes)))
        assert len({each for _, each in every}) == 1
        assert len(array) == sum(sizes)
        stop = 0
        for (theirs, _), size in zip(every, sizes, strict=True):
            array[stop : stop + size] = theirs[stop : stop + size]
            stop += size
        self._board.wait()

    def begin_reduce(self, array: Any, root: int) -> Any:
        return root, self.begin_sum(array if self.rank == root else array.copy())

    def sum(self, array: Any) -> None:
        self.wait(self.begin_sum(array))

    def begin_sum(self, array: Any) -> Any:
        self.log.append(f"start {array.size}")
        with self._board.lock:
            if len(self._board.sums) == self._started:
                self._board.sums.append([None] * self.size)
            self._board.sums[self._started][self.rank] = array
        self._started += 1
        return self._started - 1

    def abandon(self, requests: Sequence[Any]) -> None:
        self.abandoned += len(requests)

    def progress(self, request: Any) -> None:
        self.log.append("progress")

    def wait(self, request: Any) -> None:
        self.log.append(f"wait {request}")
        _, request = request if isinstance(request, tuple) else (None, request)
        self._board.wait()
        arrays = self._board.sums[request]
        assert len({(each.size, each.dtype) for each in arrays}) == 1, "the ranks sum different arrays"
        total = np.array(arrays[0])
        for each in arrays[1:]:
            total = total + each
        self._board.wait()
        arrays[self.rank][...] = total
        self._board.wait()


def on_threads(size: int, function: Callable[[Group], T], turns: threading.Lock | None = None) -> list[T]:
    """Call a function on each of some ranks; return the results, or raise the first error.

    Args:
        size: the number of ranks.
        function: of the group of a rank.
        turns: held by the one rank that computes, for what is not safe for threads.
    """
    board = Board(size, turns)

    def rank(number: int) -> T:
        with turns or nullcontext():
            try:
                return function(Group(ThreadCalls(number, size, board)))
            except BaseException:
                board.abort()
                raise

    with ThreadPoolExecutor(size) as pool:
        futures = [pool.submit(rank, number) for number in range(size)]
        errors = [error for future in futures if (error := future.exception())]
    first = next((error for error in errors if not isinstance(error, threading.BrokenBarrierError)), None)
    if first or errors:
        raise first or errors[0]
    return [future.result() for future in futures]
