"""The processes of a loader: their start, program and end; and objects in memory that processes share.

The program gets messages through a connection: the work (once), slots of shared memory, and tasks. It answers each task
with the place of the result in a slot, or with an exception. All answers are small, so that it never waits for them to
be read. Forking a program with threads can deadlock; where there is no fork server, processes are spawned.

An object in shared memory is a pickle, followed by the arrays, which are used without a copy. An anonymous file has no
name, so none is left behind, whatever kills a process. Its pages are reserved when it is made, so that a full memory is
an error here, and no bus error at a later write.
"""

from __future__ import annotations

import errno
import mmap
import multiprocessing
import os
import pickle
import signal
import socket
import sys
import tempfile
import traceback
import weakref
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from io import BytesIO
from itertools import accumulate
from multiprocessing.reduction import ForkingPickler
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from burnpy.backend.errors import ArgumentError, OutOfMemoryError, WorkerError, a

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


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


class WorkerTraceback(Exception):
    """The traceback of an exception in another process, as text."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def send_file(connection: Connection, descriptor: int) -> None:
    """Send a descriptor after a message that announces it."""
    with socket.socket(fileno=os.dup(connection.fileno())) as channel:
        socket.send_fds(channel, [b"f"], [descriptor])


def receive_file(connection: Connection) -> int:
    """Receive the descriptor that a message announced."""
    with socket.socket(fileno=os.dup(connection.fileno())) as channel:
        _, (descriptor,), _, _ = socket.recv_fds(channel, 1, 1)
    return descriptor


def run(connection: Connection) -> None:
    """Do tasks until the other end of the connection is closed."""
    for number in (signal.SIGINT, signal.SIGTERM):  # of a terminal or a scheduler, sent to all processes of a program
        signal.signal(number, signal.SIG_IGN)  # for the process that started this one, which ends it, or trains on
    with suppress(EOFError, ConnectionError):
        _serve(connection)


def _serve(connection: Connection) -> None:
    sizes = connection.recv()
    memory = memoryview(mapped(receive_file(connection))).toreadonly()
    try:
        work = unpacked(memory, sizes)
    except Exception as error:  # unpickling imports modules and runs code of the user's classes
        connection.send(("unreadable", f"{type(error).__name__}: {error}"))
        return
    connection.send(("ready",))
    tasks: deque[tuple[int, Any, int | None]] = deque()
    slots: dict[int, Any] = {}
    waiting: dict[int, Packed] = {}  # results for which no slot was large enough; new slots come before other tasks
    while True:
        while waiting or not tasks or connection.poll():
            message = connection.recv_bytes()
            try:
                what, number, task, slot = pickle.loads(message)
            except Exception as error:  # a sample of a stream, of a class that is not known here
                connection.send(("unreadable", f"{type(error).__name__}: {error}"))
                return
            if what == "task":
                tasks.append((number, task, slot))
            else:
                slots[slot] = mapped(receive_file(connection))
                _give(connection, number, slot, slots[slot], waiting.pop(number))
        number, task, slot = tasks.popleft()
        try:
            result = Packed(work(task, _never))
        except Exception as error:  # of the user's dataset or collator; the other process raises it
            connection.send(("failed", number, slot, failure(error)))
            continue
        if slot is not None and result.size <= len(slots[slot]):
            _give(connection, number, slot, slots[slot], result)
        else:
            if slot is not None:
                del slots[slot]
            waiting[number] = result
            connection.send(("small", number, slot, result.size))
        del result


def _give(connection: Connection, number: int, slot: int, memory: Any, result: Packed) -> None:
    result.write(memory)
    connection.send(("done", number, slot, result.sizes))


def failure(error: Exception) -> bytes:
    """Return an exception and its cause, pickled, each as itself where that can be read again, with its traceback."""
    text = "".join(traceback.format_exception(error.__cause__ or error))
    for parts in ((error, error.__cause__, text), (error, None, text), (None, None, text)):
        try:
            pickled = pickle.dumps(parts)
            pickle.loads(pickled)
        except Exception:  # pickling an error runs code of its class, which may raise anything
            continue
        return pickled
    raise AssertionError("text can be pickled")


def failed(pickled: bytes) -> Exception:
    """Return the exception that `failure` pickled. Its traceback in the worker is the cause of its cause."""
    error, cause, text = pickle.loads(pickled)
    remote = WorkerTraceback(text)
    if error is None:
        error = WorkerError(f"a worker raised {text.strip().splitlines()[-1]}")
    if cause is None:
        error.__cause__ = remote
    else:
        cause.__cause__, error.__cause__ = remote, cause
    return error  # type: ignore[no-any-return]  # an exception


def _never() -> bool:
    return False


_UNGUARDED = 79  # the exit status of a process that would start processes while it imports the program


def context_for(*programs: str) -> Any:
    """Return the context that starts processes: a fork server with the modules of ``programs``, or else spawning.

    Each process is then a fork of the server, and imports nothing but the main program. All share one server. It
    imports the modules requested before it started, and not the main program, as it would by default from Python 3.14
    on: an unguarded one would end it. A list of imports that the main program has chosen is left as it is.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    server = import_module("multiprocessing.forkserver")
    chosen = getattr(getattr(server, "_forkserver", None), "_preload_modules", None)
    if chosen is not None and all(name == "__main__" or name.startswith("burnpy.") for name in chosen):
        names = dict.fromkeys([*chosen, *programs])
        context.set_forkserver_preload([name for name in names if name != "__main__"])
    return context


def refuse_unable(otherwise: str) -> None:
    """Refuse to start processes where there is no way to, or while a process imports the program that started it.

    Args:
        otherwise: what to do instead, such as "use engine='threads'", for the message.
    """
    current: Any = multiprocessing.current_process()
    if getattr(current, "_inheriting", False):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_UNGUARDED)  # an exception would only be printed, and its status be lost
    if not hasattr(socket, "send_fds"):
        raise ArgumentError(f"engine='processes' needs a system that passes files to processes; {otherwise}")
    if current.daemon:
        raise WorkerError(f"a daemon process may start no processes; {otherwise} in it")


def unguarded(process: Any) -> bool:
    """Return whether a process ended because the program that it imported starts processes."""
    return bool(process.exitcode == _UNGUARDED)


def ending(process: Any) -> str:
    """Return how a process ended: "was killed by SIGKILL", "ended with status 1"; it is waited for briefly."""
    process.join(5)
    status = process.exitcode
    if status is None:
        return "stopped answering"
    if status < 0:
        return f"was killed by {signal.Signals(-status).name}"
    return f"ended with status {status}"


class Idle(NamedTuple):
    """Processes that wait for tasks, and the memory with their work."""

    workers: list[Any]
    memory: Any
    sizes: list[int]


class Kept:
    """Holds processes that have done their tasks; ends them when it is closed or dropped, and when the program ends."""

    def __init__(self) -> None:
        self._idle: list[Idle] = []  # at most one
        self._owner = os.getpid()
        weakref.finalize(self, _end, self._idle, self._owner)

    def take(self, work: Packed, count: int) -> Idle | None:
        """Return the processes if they have the same work and number at least ``count``; otherwise end them.

        The work is packed anew and compared, so that a dataset that was changed reaches the processes.
        """
        if not self._idle or os.getpid() != self._owner:  # in a fork of the program, whose processes these are not
            return None
        idle = self._idle[0]
        alive = all(worker.process.is_alive() for worker in idle.workers)
        if alive and len(idle.workers) >= count and work.is_in(idle.memory, idle.sizes):
            return self._idle.pop()
        self.close()
        return None

    def give(self, idle: Idle) -> bool:
        """Keep processes, unless there are some already; return whether they are kept."""
        if not self._idle:
            self._idle.append(idle)
            return True
        return False

    def close(self) -> None:
        """End the processes."""
        _end(self._idle, self._owner)

    def __reduce__(self) -> tuple[Any, ...]:
        return Kept, ()


def ended(workers: list[Any]) -> None:
    """End processes, all at the same time."""
    for worker in workers:
        worker.end()
    for worker in workers:
        worker.join()


def _end(idle: list[Idle], owner: int) -> None:
    while idle:
        workers = idle.pop().workers
        if os.getpid() == owner:
            ended(workers)
