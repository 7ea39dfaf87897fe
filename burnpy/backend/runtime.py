"""`Runtime`, the part of `Backend` that computes nothing: memory, streams, clocks, and the time of compilers.

A device that wraps another returns those of its inner device.
"""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext, suppress
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol

from burnpy.backend.errors import DeviceError

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from typing import TypeVar

    from burnpy.backend.backend import Backend
    from burnpy.backend.device_memory import DeviceMemory
    from burnpy.backend.primitives import Value

    T = TypeVar("T")


class Communicator(Protocol):
    """Sums of primitives over the devices of several processes, which all begin the same sums in the same order."""

    def begin_sum(self, x: Any) -> Any:
        """Begin to replace a primitive by the sum over the processes; return the request."""
        ...

    def wait(self, request: Any) -> Any:
        """Return the sum; later work on the device waits for it."""
        ...

    def abandon(self, requests: list[Any]) -> None:
        """Keep the memory of sums that will never be waited for."""
        ...


class Runtime:
    """The facilities of a device beside operations: memory, streams, synchronization, exchange of arrays."""

    if TYPE_CHECKING:  # read-only, so that a backend that wraps another may declare the class of its inner device

        @property
        def inner(self) -> Backend | None:
            """The device that computes for this one; None if it wraps no other."""

        def lift(self, value: Value) -> Value:
            """Return the inner device's primitive as one of this device."""

    else:
        inner = None

    def __eq__(self, other: object) -> bool:
        """Compare devices by identity; a name, such as "cuda", is an error, which would silently be False."""
        if isinstance(other, str):
            raise DeviceError(
                f"a device is not a name: {self} == {other!r} would always be False; compare "
                "devices with `is`, as in x.device is NumPy()"
            )
        return self is other

    __hash__ = object.__hash__

    def synchronize(self) -> None:
        """Wait until all pending work of the device is done, and raise the first error of `Backend.defer_check`."""
        if self.inner is not None:
            self.inner.synchronize()

    def timestamp(self) -> Any:
        """Return the current time of the device; an asynchronous device records it when it gets there."""
        return perf_counter_ns() if self.inner is None else self.inner.timestamp()

    def duration(self, start: Any, stop: Any) -> float:
        """Return the nanoseconds from one `timestamp` to a later one; an asynchronous device is synchronized."""
        return float(stop - start) if self.inner is None else self.inner.duration(start, stop)

    def memory(self) -> DeviceMemory:
        """Return the bytes that are used, reserved and free on the device; does not wait for it.

        On a GPU the used bytes are those of arrays. The reserved bytes belong to CuPy's pool, which keeps the memory of
        freed arrays for the next ones. On the CPU both are the resident memory of the process, the interpreter
        included.

        Raises:
            DeviceError: the device does not measure its memory, as NumPy does not outside of Linux.
        """
        if self.inner is None:
            from burnpy.backend.device_memory import not_measured

            raise not_measured(self)
        return self.inner.memory()

    def reset_peak_memory(self) -> None:
        """Measure the highest number of used bytes from now on, for ``device.memory().peak``.

        On a GPU the first call makes each later allocation of the process some tenths of a microsecond slower.

        Raises:
            DeviceError: the device does not measure its memory.
        """
        if self.inner is None:
            from burnpy.backend.device_memory import not_measured

            raise not_measured(self)
        self.inner.reset_peak_memory()

    def empty_cache(self) -> None:
        """Give reserved memory that no array uses back to the system, for other libraries and processes.

        An allocation that finds no memory does so itself. On the CPU, where the C library decides, nothing happens.
        """
        if self.inner is not None:
            self.inner.empty_cache()

    def stream(self) -> AbstractContextManager[Any]:
        """Return a stream: a queue of work that an asynchronous device runs in parallel with other streams.

        Within ``with device.stream():`` the operations of this thread, or this coroutine, on the device go to the
        stream. The stream waits for work queued before the block, and work queued after the block waits for the
        stream, so a program gives the same results with the block and without. The object can be entered again and
        from several threads. On a device that is not asynchronous the block changes nothing.
        """
        return nullcontext() if self.inner is None else self.inner.stream()

    @property
    def copies_ahead(self) -> bool:
        """True if `ahead` copies to the device beside other work."""
        return False if self.inner is None else self.inner.copies_ahead

    def ahead(self, make: Callable[[], T]) -> Callable[[], T]:
        """Call ``make``, which copies arrays to the device and does nothing else, beside the work that is queued.

        Return a function to be called once, by the thread that uses the result: it returns the result of ``make``, and
        work that is queued after it waits for the copies. Where the device does not copy beside other work, ``make`` is
        called by that function.
        """
        return make if self.inner is None else self.inner.ahead(make)

    def communicator(self, rank: int, size: int, share: Callable[[Any], list[Any]]) -> Communicator | None:
        """Return the communicator that sums primitives of this device over processes; None if the host's memory serves.

        All ranks call it, and agree on whether there is one.

        Args:
            rank: the number of this process.
            size: the number of ranks.
            share: takes a value that can be pickled, and returns those of all ranks. It is called once.
        """
        if self.inner is not None:
            return self.inner.communicator(rank, size, share)
        share(None)
        return None

    def exported(self, x: Value) -> Any:
        """Return an object that exports the primitive x of a plain backend by DLPack from a device other than the CPU;
        None if x is on the CPU."""
        return None

    def imported(self, data: Any) -> Any:
        """Return a copy, as a primitive, of another library's array that is on a GPU; None if this device is not one.

        Args:
            data: an array that has DLPack's methods.

        Raises:
            ArgumentError: the library does not export it.
        """
        primitive = None if self.inner is None else self.inner.imported(data)
        return None if primitive is None else self.lift(primitive)


executed: list[list[Any]] = []
"""Lists to which backends append each kernel that they run, in any thread; empty unless `explain` is running."""

PATIENCE = 2.0
"""The seconds of compiling after which the user is told."""


class CompileTimes:
    """The seconds of each kernel that this process compiled, as the disk did not have it.

    Args:
        message: the line that says, once, why the process waits; ``BURNPY_PROGRESS=0`` hides it.
    """

    def __init__(self, message: str) -> None:
        self.seconds: list[float] = []
        self._untold = [message]

    def note(self, seconds: float) -> None:
        """Count a compiled kernel."""
        self.seconds.append(seconds)
        if sum(self.seconds) < PATIENCE or not self._untold or os.environ.get("BURNPY_PROGRESS", "1") == "0":
            return
        with suppress(IndexError):  # another thread has told it
            message = self._untold.pop()
            if sys.stderr is not None:  # as where there is no console
                sys.stderr.write(f"{message}\n")
