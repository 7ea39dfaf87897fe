"""The program of a process that does the shares of calls, and how both sides send values: through shared memory.

A message is a small tuple through the connection, which is never waited for, and the descriptor of an anonymous file
with the value. Arrays in it are used where they are.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from burnpy.backend.errors import OutOfMemoryError, WorkerError
from burnpy.data.engines.batch_process import failure, receive_file, send_file
from burnpy.data.engines.shared_memory import Packed, anonymous_file, mapped, unpacked
from burnpy.distributed.engines.worker_engine import WorkerTask, done


class Parcel:
    """A packed value in an anonymous file, which can be sent to several processes.

    Raises:
        OutOfMemoryError: there is not as much memory.
    """

    def __init__(self, packed: Packed, what: str) -> None:
        self._sizes = packed.sizes
        self._descriptor = anonymous_file(max(packed.size, 1), what)
        try:
            packed.write(mapped(os.dup(self._descriptor)))
        except BaseException:
            self.close()
            raise

    def send(self, connection: Connection, what: str, task: WorkerTask | None = None) -> None:
        """Send it, with a word that names its kind.

        Raises:
            OSError: the other end is closed.
        """
        connection.send((what, task, self._sizes))
        send_file(connection, self._descriptor)

    def close(self) -> None:
        """Close the file; those to whom it was sent keep it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        if getattr(self, "_descriptor", -1) >= 0:
            self.close()


def received(connection: Connection) -> memoryview:
    """Receive the file that a message announced; `unpacked` returns the value, whose arrays are views of the file."""
    return memoryview(mapped(receive_file(connection))).toreadonly()


def run(connection: Connection) -> None:
    """Do tasks until the other end of the connection is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one, which ends it
    try:
        _serve(connection)
    except (EOFError, ConnectionError, BrokenPipeError):
        return


def _serve(connection: Connection) -> None:
    connection.send(("ready", None, None))
    call: Any = None
    while True:
        what, task, sizes = connection.recv()
        value, error = _read(received(connection), sizes)
        if what == "call":
            call = (value, error)
            continue
        work, unreadable = call
        error = unreadable or error
        result = _result(work, value, task) if error is None else failure(error)
        parcel: Parcel | bytes = _parcel(result) if isinstance(result, Packed) else result
        if isinstance(parcel, bytes):
            connection.send(("failed", task, parcel))
        else:
            parcel.send(connection, "done", task)
            parcel.close()
        del value, result, parcel


def _read(memory: memoryview, sizes: list[int]) -> tuple[Any, Exception | None]:
    try:
        return unpacked(memory, sizes), None
    except Exception as error:  # unpickling imports modules and runs code of the user's classes
        return None, WorkerError(
            f"a worker could not read what it was sent ({type(error).__name__}: {error}); functions and classes of an "
            "interactive session are unknown to other processes, so define them in a module"
        )


def _result(work: tuple[Callable[[Any, Any], Any], Any], share: Any, task: WorkerTask) -> Packed | bytes:
    """Return the packed result of a task, or the pickled exception that it raised."""
    try:
        result = done(*work, share, task.seed)
    except Exception as error:  # the function is the user's; the other process raises its exception
        return failure(error)
    try:
        return Packed(result)
    except Exception as error:  # pickling runs code of the user's classes
        return failure(
            WorkerError(f"the function returned {type(result).__name__}, which cannot be sent by pickle: {error}")
        )


def _parcel(packed: Packed) -> Parcel | bytes:
    """Return an answer in a file, or the pickled error that there is no memory for it."""
    try:
        return Parcel(packed, "a worker's answer")
    except OutOfMemoryError as error:
        return failure(error)
