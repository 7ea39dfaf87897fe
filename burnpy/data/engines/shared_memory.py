"""Python objects in memory that processes share: a pickle, followed by the arrays, which are used without a copy.

An anonymous file has no name that could be left behind, whatever kills a process, and its pages are reserved when it is
made, so that a full memory is an error here and no bus error where it is written to.
"""

from __future__ import annotations

import errno
import mmap
import os
import pickle
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from io import BytesIO
from itertools import accumulate
from multiprocessing.reduction import ForkingPickler
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from burnpy.backend.errors import OutOfMemoryError, WorkerError, a


def anonymous_file(size: int, what: str) -> int:
    """Return the descriptor of a new anonymous file of ``size`` bytes, all of them reserved."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("burnpy.data")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    try:
        _reserve(descriptor, size)
    except OSError as error:
        os.close(descriptor)
        if error.errno not in (errno.ENOSPC, errno.ENOMEM, errno.EFBIG, errno.EDQUOT):
            raise
        raise OutOfMemoryError(
            f"{what} takes {size / 2**20:.1f} MiB of shared memory, and there is not enough ({error.strerror}); use "
            "smaller batches or fewer of them ahead (prefetch), or threads, which need none"
        ) from None
    return descriptor


def _reserve(descriptor: int, size: int) -> None:
    available = _available()
    if available is not None and size > available:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    else:
        os.ftruncate(descriptor, size)


def _available() -> int | None:
    """Return the memory that Linux estimates to be available, in bytes; None elsewhere."""
    with suppress(OSError, ValueError, IndexError), open("/proc/meminfo") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None


def mapped(descriptor: int) -> mmap.mmap:
    """Map an anonymous file, and close the descriptor. The mapping ends when nothing refers to it."""
    try:
        return mmap.mmap(descriptor, os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)


_ALIGNMENT = 64
_COMPARED = 1 << 20
"""The number of bytes that are compared at once, so that the result of the comparison takes no memory to speak of."""


class Packed:
    """An object that is ready to be written into shared memory.

    Raises:
        Exception: it cannot be pickled.
    """

    def __init__(self, value: object) -> None:
        file, buffers = BytesIO(), list[memoryview]()
        _Pickler(file, buffers).dump(value)
        # Not getbuffer(), a view that keeps the file from closing: its finalizer fails if a cycle is collected.
        self._parts = [memoryview(file.getvalue()), *buffers]

    @property
    def sizes(self) -> list[int]:
        """The number of bytes of each part, which `unpacked` needs."""
        return [part.nbytes for part in self._parts]

    @property
    def size(self) -> int:
        """The number of bytes that it takes."""
        return _starts(self.sizes)[-1]

    def is_in(self, memory: Any, sizes: Sequence[int]) -> bool:
        """Return whether it equals the beginning of a memory, in parts of these sizes."""
        if self.sizes != sizes:
            return False
        for start, part in zip(_starts(sizes), self._parts, strict=False):
            mine, its = np.frombuffer(part, np.uint8), np.frombuffer(memory, np.uint8, part.nbytes, start)
            for place in range(0, len(mine), _COMPARED):
                if not np.array_equal(mine[place : place + _COMPARED], its[place : place + _COMPARED]):
                    return False
        return True

    def write(self, memory: Any) -> None:
        """Copy it to the beginning of a writable memory."""
        for start, part in zip(_starts(self.sizes), self._parts, strict=False):
            memory[start : start + part.nbytes] = part


def unpacked(memory: Any, sizes: Sequence[int]) -> Any:
    """Return an object that was written into a memory. Its arrays are views of the memory."""
    parts = [memory[start : start + size] for start, size in zip(_starts(sizes), sizes, strict=False)]
    return pickle.loads(parts[0], buffers=parts[1:])


def _starts(sizes: Sequence[int]) -> list[int]:
    """Return where parts of some sizes begin, and where the last one ends."""
    return [*accumulate((-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes), initial=0)]


class _Pickler(ForkingPickler):
    """A pickler that keeps the memory of arrays out of the pickle, and stores memory maps of files as their paths."""

    def __init__(self, file: BytesIO, buffers: list[memoryview]) -> None:
        super().__init__(file, 5, True, lambda buffer: buffers.append(buffer.raw()))

    def reducer_override(self, obj: Any) -> Any:
        """Return how a memory map is opened again."""
        if type(obj) is np.memmap and not isinstance(obj.base, np.ndarray) and obj.mode == "r" and obj.filename:
            order = "F" if obj.flags.f_contiguous and obj.ndim > 1 else "C"
            return np.memmap, (obj.filename, obj.dtype, "r", obj.offset, obj.shape, order)
        return NotImplemented


def packed_for_processes(
    value: object,
    parts: Mapping[str, object],
    *,
    where: str = "where a sample is read",
    otherwise: str = "use engine='threads'",
) -> Packed:
    """Return an object that can be written for processes.

    Args:
        value: the object.
        parts: those parts of it that a user gave, by name, for the message.
        where: where the processes can make an object that cannot be sent, for the message.
        otherwise: another remedy, for the message.
    """
    try:
        return Packed(value)
    except Exception as error:  # pickling runs code of the user's classes, which may raise anything
        for name, part in parts.items():
            unpicklable = _culprit(part, name)
            if unpicklable is not None:
                path, culprit = unpicklable
                raise WorkerError(
                    f"engine='processes' sends {name} to other processes by pickle, and {path} cannot be sent: it is "
                    f"{_described(culprit)}; {_advice(culprit, where)}, or {otherwise}"
                ) from error
        raise WorkerError(
            f"engine='processes' sends {' and '.join(parts) or a(type(value).__name__)} to other processes by pickle, "
            f"which failed: {error}; {otherwise}"
        ) from error


def _culprit(value: Any, path: str, seen: frozenset[int] = frozenset()) -> tuple[str, Any] | None:
    """Return the path and the value of the smallest part that cannot be pickled; None if all can."""
    try:
        Packed(value)
    except Exception:  # as above
        for name, part in _parts(value) if id(value) not in seen else ():
            smaller = _culprit(part, f"{path}{name}", seen | {id(value)})
            if smaller is not None:
                return smaller
        return path, value
    return None


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, (list, tuple)):
        yield from ((f"[{k}]", part) for k, part in enumerate(value))
    elif isinstance(value, Mapping):
        yield from ((f"[{key!r}]", part) for key, part in value.items())
    elif isinstance(value, partial):
        yield from ((".func", value.func), (".args", value.args), (".keywords", value.keywords))
    elif isinstance(value, MethodType):
        yield ".__self__", value.__self__
    elif not isinstance(value, (FunctionType, type)):
        yield from ((f".{name}", part) for name, part in getattr(value, "__dict__", {}).items())


def _described(value: Any) -> str:
    if isinstance(value, FunctionType):
        code = value.__code__
        what = "a lambda" if value.__name__ == "<lambda>" else f"the function {value.__qualname__}"
        return f"{what}, defined in {code.co_filename} at line {code.co_firstlineno}"
    return a(type(value).__name__)


def _advice(value: Any, where: str) -> str:
    if isinstance(value, FunctionType):
        return "define it by def at the top level of a module"
    if hasattr(value, "fileno"):
        return f"open it {where}"
    return f"make it {where}"
