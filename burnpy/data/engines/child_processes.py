"""The processes of a loader: their start, program and end. The next epoch uses them again if its work is the same.

The program gets messages through a connection: the work (once), slots of shared memory, and tasks. It answers each task
with the place of the result in a slot, or with an exception. All answers are small, so that it never waits for them to
be read. Forking a program with threads can deadlock; where there is no fork server, processes are spawned.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import socket
import sys
import traceback
import weakref
from collections import deque
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from burnpy.backend.errors import ArgumentError, WorkerError
from burnpy.data.engines.shared_memory import Packed, mapped, unpacked

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


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
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one, which ends it
    try:
        _serve(connection)
    except (EOFError, ConnectionError, BrokenPipeError):
        return


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
    imports the modules requested before it started; a list of imports that the main program has chosen is left as it
    is.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    server = import_module("multiprocessing.forkserver")
    chosen = getattr(getattr(server, "_forkserver", None), "_preload_modules", None)
    if chosen is not None and all(name == "__main__" or name.startswith("burnpy.") for name in chosen):
        context.set_forkserver_preload([*dict.fromkeys([*chosen, *programs])])
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
