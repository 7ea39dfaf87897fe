"""The memory of a GPU: the contents of CuPy's pool, its peak, and the error when it is full."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any

from burnpy.backend.device_memory import DeviceMemory, full
from burnpy.backend.errors import OutOfMemoryError


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
