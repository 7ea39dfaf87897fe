"""The memory and the streams of a GPU: CuPy's pool, its peak, and the error when it is full; and `Stream`, a queue of
work that the GPU runs in parallel with other streams."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar
from threading import Lock
from types import TracebackType
from typing import Any, NamedTuple, Self

from burnpy.backend.device_memory import DeviceMemory, full
from burnpy.backend.errors import OutOfMemoryError
from burnpy.typevars import T


class PeakAllocator:
    """An allocator of CuPy that notes how many bytes of its pool are used at most, by device.

    CuPy calls it in place of the pool's ``malloc``, for allocations of all threads and devices. It is installed by the
    first `measure`, so that a program that measures nothing pays nothing.

    Args:
        malloc: the allocator that allocates.
        pool: the pool that it takes memory from.
        current: returns the index of the current device.
    """

    def __init__(self, malloc: Callable[[int], Any], pool: Any, current: Callable[[], int]) -> None:
        self._malloc, self._current = malloc, current
        self.pool = pool
        self.peaks: dict[int, int] = {}  #: the highest number of used bytes, by the index of the device
        self._raising = Lock()

    def __call__(self, size: int) -> Any:
        """Allocate, as CuPy asks."""
        pointer = self._malloc(size)
        used, device = self.pool.used_bytes(), self._current()
        if used > self.peaks.get(device, used):  # of a device that is not measured nothing is noted
            with self._raising:
                self.peaks[device] = max(used, self.peaks[device])
        return pointer


def pool_of(xp: Any, allocator: Any) -> Any:
    """Return the pool that an allocator of CuPy takes memory from; CuPy's default one if it does not say."""
    pool = allocator.pool if isinstance(allocator, PeakAllocator) else getattr(allocator, "__self__", None)
    has_figures = hasattr(pool, "used_bytes") and hasattr(pool, "free_all_blocks")
    return pool if has_figures else xp.get_default_memory_pool()


def measured(xp: Any) -> DeviceMemory:
    """Return the memory of the current device."""
    allocator = xp.cuda.get_allocator()
    pool, device = pool_of(xp, allocator), xp.cuda.runtime.getDevice()
    free, total = xp.cuda.runtime.memGetInfo()
    peak = allocator.peaks.get(device) if isinstance(allocator, PeakAllocator) else None
    return DeviceMemory(pool.used_bytes(), pool.total_bytes(), free, total, peak)


def measure(xp: Any) -> None:
    """Begin to measure the peak of the current device, or begin again."""
    allocator = xp.cuda.get_allocator()
    if not isinstance(allocator, PeakAllocator):
        allocator = PeakAllocator(allocator, pool_of(xp, allocator), xp.cuda.runtime.getDevice)
        xp.cuda.set_allocator(allocator)
    allocator.peaks[xp.cuda.runtime.getDevice()] = allocator.pool.used_bytes()


def empty_cache(xp: Any) -> None:
    """Give the unused blocks of the current device's pool, and of the pool of pinned memory, back to the system."""
    pool_of(xp, xp.cuda.get_allocator()).free_all_blocks()
    xp.get_default_pinned_memory_pool().free_all_blocks()


def explained(error: MemoryError, device: Any) -> OutOfMemoryError:
    """Return the error for one that CuPy raised, in terms of the device."""
    return full(device, getattr(error, "_size", None), getattr(error, "_limit", 0))


class Entered(NamedTuple):
    """A stream that the operations of this context go to, and that which they went to before."""

    stream: Any  #: a `cupy.cuda.Stream`
    outside: Entered | None


class Streams:
    """The streams of one device, and the ContextVar that says which one is in use.

    CuPy's own current stream belongs to a thread and would leak from one coroutine to the next, so each operation
    enters the context's stream anew (`burnpy_cupy.backend.CuPy._call`).

    Streams of users are CUDA's blocking ones: work on CUDA's default stream waits for all of theirs, and theirs for it.
    So memory that a thread on the default stream reuses is not in use on another stream any more. CuPy's pool keeps the
    memory that was freed for allocations on the same stream, and a stream that nobody uses is kept for the next
    `Stream`, because a new one could get its address in the pool.
    """

    def __init__(self, name: str, xp: Any) -> None:
        self._xp = xp
        self.entered: ContextVar[Entered | None] = ContextVar(f"stream of {name}", default=None)
        self._idle: list[Any] = []
        self._copying = threading.local()

    def take(self) -> Any:
        """Return a stream that nobody uses; called with the device as the current one."""
        try:
            return self._idle.pop()
        except IndexError:
            return self._xp.cuda.Stream()

    def put_back(self, stream: Any) -> None:
        """Keep a stream for a later `take`."""
        self._idle.append(stream)

    def ahead(self, make: Callable[[], T]) -> Callable[[], T]:
        """Implement `Backend.ahead`; called with the device as the current one.

        The copies go to a stream of this thread that is not ordered with the default stream, and so run in parallel
        with it. That stream waits for the work queued now, here and on the streams that took earlier copies, as it may
        still use the memory that the new copies get.
        """
        stream = getattr(self._copying, "stream", None)
        if stream is None:
            stream = self._copying.stream = self._xp.cuda.Stream(non_blocking=True)
            self._copying.takers = {}
        takers, current = self._copying.takers, self.current()
        for user in {current.ptr: current, **takers}.values():
            self.follow(stream, user)
        takers.clear()
        token = self.entered.set(Entered(stream, self.entered.get()))
        try:
            made = make()
        finally:
            self.entered.reset(token)
        done = self.event(stream)

        def take() -> T:
            current = self.current()
            current.wait_event(done)
            takers[current.ptr] = current
            return made

        return take

    def follow(self, later: Any, earlier: Any) -> None:
        """Have one stream wait for the work queued on another, on the GPU."""
        if later.ptr != earlier.ptr:
            later.wait_event(self.event(earlier))

    def event(self, stream: Any) -> Any:
        """Return an event that occurs when the work queued on a stream is done."""
        event = self._xp.cuda.Event(disable_timing=True)
        event.record(stream)
        return event

    def current(self) -> Any:
        """Return the stream that work goes to; called with the device as the current one."""
        entered = self.entered.get()
        return self._xp.cuda.get_current_stream() if entered is None else entered.stream


class Stream:
    """A context manager for operations on a stream of their own; `Backend.stream` returns one on a GPU.

    On entering, the stream waits for the work queued before on the stream outside, and on leaving the one outside
    waits for it, both on the GPU: no thread waits. A tensor may be used on other streams once the block was left.
    One that is passed to another thread's stream before needs ``device.synchronize()``, and must be kept until that
    stream's block was left.
    """

    def __init__(self, device: Any, streams: Streams) -> None:
        self._device, self._streams = device, streams
        self._stream = device._call(streams.take)

    def __enter__(self) -> Self:
        """Send the operations of this context on the device to the stream."""
        self._device._call(self._follow, self._stream, None)
        entered = self._streams.entered
        entered.set(Entered(self._stream, entered.get()))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        entered = self._streams.entered
        inside = entered.get()
        entered.set(inside.outside if inside is not None else None)
        self._device._call(self._follow, None, self._stream)

    def _follow(self, later: Any, earlier: Any) -> None:
        """Have one stream wait for another; None stands for the current one."""
        current = self._streams.current()
        self._streams.follow(later or current, earlier or current)

    def synchronize(self) -> None:
        """Wait for the work of this stream alone. ``device.synchronize()`` also raises errors of the GPU."""
        self._stream.synchronize()

    def __del__(self) -> None:
        stream = getattr(self, "_stream", None)
        if stream is not None:
            self._streams.put_back(stream)

    def __repr__(self) -> str:
        return f"{self._device}.stream()"
