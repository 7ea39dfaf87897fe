"""The program of a process that makes batches.

It gets messages through a connection: the work (once), slots of shared memory, and tasks. It answers each task with the
place of the result in a slot, or with an exception. All answers are small, so that it never waits for them to be read.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import traceback
from collections import deque
from multiprocessing.connection import Connection
from typing import Any

from burnpy.backend.errors import WorkerError
from burnpy.data.engines.shared_memory import Packed, mapped, unpacked


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
