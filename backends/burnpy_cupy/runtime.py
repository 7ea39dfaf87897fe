"""The parts of CuPy that compute nothing, as in `burnpy.backend.runtime`: memory, streams, exchange, compilation.

Memory is CuPy's pool, its peak, and the error when it is full; a `Stream` is a queue of work that the GPU runs in
parallel with other streams. Arrays are exchanged with other libraries by DLPack without going through the CPU; source:
its Python specification, https://dmlc.github.io/dlpack/latest/python_spec.html. NVRTC's time is noted, and it compiles
the kernels of a plan side by side.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from functools import cache
from threading import Lock
from time import perf_counter
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import numpy as np

from burnpy.backend.device_memory import DeviceMemory, full
from burnpy.backend.errors import ArgumentError, OutOfMemoryError, a
from burnpy.backend.primitives import DType, Shape
from burnpy.backend.runtime import CompileTimes
from burnpy.typevars import T


@cache
def allocating(xp: Any) -> Callable[[Shape, DType], Any]:
    """Return the function that allocates an array, in row-major order on the GPU that is current. `cupy.ndarray` runs
    two functions of Python around the one of C that allocates, for a third of its time."""
    array = xp.ndarray
    if not hasattr(array, "_init"):  # of another CuPy
        return array  # type: ignore[no-any-return]  # a class is such a function
    new = array.__base__.__new__

    def allocated(shape: Shape, dtype: DType) -> Any:
        x = new(array)
        x._init(shape, dtype)
        return x

    return allocated


def empty(xp: Any, shape: Shape, dtype: DType) -> Any:
    """Allocate an array, in row-major order on the GPU that is current."""
    return allocating(xp)(shape, dtype)


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


_DEFAULT_STREAMS = range(3)
"""The addresses of CUDA's default streams."""


class Entered(NamedTuple):
    """The stream of the operations of this context, and the stream that they had before."""

    stream: Any  #: a `cupy.cuda.Stream`
    outside: Entered | None
    is_ordered: bool = True  #: whether the default stream waits for its work


class Streams:
    """The streams of one device, and the ContextVar that says which one is in use.

    CuPy's own current stream belongs to a thread and would leak from one coroutine to the next, so each operation
    enters the context's stream anew (`burnpy_cupy.backend.CuPy._call`).

    Streams of users are CUDA's blocking ones: work on CUDA's default stream waits for all of theirs, and theirs for it.
    So memory that a thread on the default stream reuses is not in use on another stream any more. CuPy's pool keeps the
    memory that was freed for allocations on the same stream, and a stream that nobody uses is kept for the next
    `Stream`, because a new one could get its address in the pool.
    """

    def __init__(self, name: str, xp: Any, index: int) -> None:
        self._xp, self._index = xp, index
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
            self._copying.users = {}
        users, current = self._copying.users, self.current()
        users[current.ptr] = current
        while users:  # one by one, as another thread may be taking a copy
            self.follow(stream, users.popitem()[1])
        token = self.entered.set(Entered(stream, self.entered.get(), is_ordered=False))
        try:
            made = make()
        finally:
            self.entered.reset(token)
        done = self.event(stream)

        def take() -> T:
            current = self.current()
            current.wait_event(done)
            users[current.ptr] = current
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

    def unordered(self) -> Any:
        """Return the stream that work goes to, if the default stream may not wait for it; else None."""
        entered = self.entered.get()
        if entered is not None:
            return None if entered.is_ordered else entered.stream
        current = self._xp.cuda.get_current_stream(self._index)  # perhaps a non-blocking one of the program
        return None if current.ptr in _DEFAULT_STREAMS else current


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


CUDA, CUDA_MANAGED = 2, 13
"""DLPack's kDLCUDA and kDLCUDAManaged."""
_READ_ONLY: Final = 1  # DLPACK_FLAG_BITMASK_READ_ONLY


class _Versioned(ctypes.Structure):
    """The beginning of DLPack's DLManagedTensorVersioned."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
    )


class Exported:
    """An array on a GPU, for ``__dlpack__`` of a tensor.

    Args:
        call: a function that calls another on the array's device and stream.
        array: a `cupy.ndarray`.
    """

    def __init__(self, call: Callable[..., Any], array: Any) -> None:
        self._call, self._array = call, array

    def __dlpack_device__(self) -> tuple[int, int]:
        device: tuple[int, int] = self._array.__dlpack_device__()
        return int(device[0]), int(device[1])

    def __dlpack__(self, *, stream: Any, max_version: tuple[int, int] | None, copy: bool | None) -> Any:
        """Return a capsule of a copy on the GPU, which the consumer owns, or of the array's own memory, flagged
        read-only. The consumer's stream waits for the work that is queued on this one."""
        if copy is not False:
            return self._capsule(self._call(self._array.copy), stream, max_version)
        if max_version is None or max_version[0] < 1:
            raise ArgumentError(
                "DLPack export of a tensor's own memory, which is read-only, needs max_version=(1, 0), and the "
                "consumer requested none or an older one; allow a copy"
            )
        capsule = self._capsule(self._array, stream, max_version)
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        _Versioned.from_address(pointer(capsule, b"dltensor_versioned")).flags |= _READ_ONLY
        return capsule

    def _capsule(self, array: Any, stream: Any, max_version: tuple[int, int] | None) -> Any:
        try:
            return self._call(array.__dlpack__, stream=stream, max_version=max_version)
        except ValueError as error:
            raise ArgumentError(
                f"DLPack export from a GPU got stream {stream!r}; expected 1 for the default stream, 2 for "
                "the thread's default stream, -1 for no order, or the address of a CUDA stream"
            ) from error


@cache
def _tells_pinned(xp: Any) -> Callable[[int], bool]:
    """Return the function that tells whether memory at an address is pinned."""
    memory: Any = getattr(xp.cuda, "pinned_memory", None)  # which other CuPys lack
    return memory.is_memory_pinned if memory is not None else lambda _: False


def uploaded(xp: Any, array: np.ndarray[Any, Any]) -> Any:
    """Return a copy of a NumPy array in row-major order on the current device. CuPy copies the array before it returns,
    but for pinned memory, which the GPU reads later: its owner may have written to it by then."""
    if array.ndim and _tells_pinned(xp)(array.__array_interface__["data"][0]):
        array = array.copy()
    return xp.array(array)


def is_on_gpu(data: Any) -> bool:
    """Return whether an object with DLPack's methods is on an NVIDIA GPU."""
    return data.__dlpack_device__()[0] in (CUDA, CUDA_MANAGED)


def copied(xp: Any, data: Any) -> Any:
    """Return a copy, in row-major order on the current device, of an array on any GPU."""
    if not isinstance(data, xp.ndarray):
        try:
            data = xp.from_dlpack(data)
        except (BufferError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
            raise ArgumentError(
                f"cannot take {a(type(data).__name__)} on a GPU: its library does not export it ({error}); detach it "
                "from its graph, or convert it to a dtype that NumPy or ml_dtypes knows"
            ) from error
    return xp.array(data, order="C")


compile_times = CompileTimes(
    "burnpy: compiling CUDA kernels for this GPU, once, as CuPy keeps them in ~/.cupy/kernel_cache (CUPY_CACHE_DIR); "
    "BURNPY_PROGRESS=0 hides this line"
)
"""The seconds of the kernels that this process compiled, CuPy's own among them."""


class TimedCache:
    """CuPy's cache of compiled kernels, which notes the time from asking for one that it lacks to keeping it.

    Args:
        cache: a cache of CuPy's.
    """

    def __init__(self, cache: Any) -> None:
        self._cache = cache
        self._begun = threading.local()

    def load(self, name: str) -> bytes | None:
        """Return a kernel's code; None if the cache lacks it, so that CuPy compiles."""
        code: bytes | None = self._cache.load(name)
        self._begun.at = perf_counter()
        return code

    def save(self, name: str, code: bytes, source: str) -> None:
        """Keep a kernel's code."""
        compile_times.note(perf_counter() - self._begun.at)
        self._cache.save(name, code, source)


@cache
def note_times(xp: Any) -> None:
    """Note the time of all kernels that CuPy compiles from now on, if this CuPy can have another cache.

    Args:
        xp: the module cupy.
    """
    compiler: Any = getattr(xp.cuda, "compiler", None)
    if hasattr(compiler, "_set_kernel_cache_backend"):  # CuPy 14.2
        compiler._set_kernel_cache_backend(TimedCache(compiler._kernel_cache_backend))


class Compilations:
    """Kernels that threads compile while a plan is being made.

    NVRTC takes some 0.1 s for a kernel, and compiles several at a time.

    Args:
        call: a function that calls another on the device's GPU.
    """

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call
        self._begun: dict[Any, Future[Any]] = {}  # by the kernel

    def begin(self, kernels: Iterable[Any]) -> None:
        """Begin to compile kernels, each a `cupy.RawKernel`."""
        for kernel in kernels:
            if kernel not in self._begun:
                self._begun[kernel] = _compiling_threads().submit(self._call, getattr, kernel, "kernel")

    def function(self, kernel: Any) -> Any:
        """Return the function of a kernel that was begun, once it is compiled."""
        return self._begun[kernel].result()


@cache
def _compiling_threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(thread_name_prefix="burnpy-nvrtc")
