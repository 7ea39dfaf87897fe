"""The interface of engines, which start workers and send them calls, and the engine for processes of this machine.

There, a message is a small tuple through the connection, which is never waited for, and the descriptor of an anonymous
file with the value. Arrays in it are used where they are.
"""

from __future__ import annotations

import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

from burnpy.backend.errors import OutOfMemoryError, WorkerError
from burnpy.data import child_processes as loading
from burnpy.data.child_processes import (
    Packed,
    anonymous_file,
    context_for,
    ended,
    ending,
    failure,
    mapped,
    packed_for_processes,
    receive_file,
    refuse_unable,
    send_file,
    unguarded,
    unpacked,
)
from burnpy.optim.gradients.flat_buckets import Layout, entries_of
from burnpy.optim.gradients.grads_params import GradientsParams
from burnpy.tensor.generator import manual_seed
from burnpy.tensor.tensor import Tensor


class Flat(NamedTuple):
    """Gradients in buckets."""

    buckets: tuple[Tensor[Any], ...]
    digest: bytes  #: of the layout
    layout: Layout[Any] | None  #: the layout, if this process has not sent it before


_sent: dict[bytes, Layout[Any]] = {}
"""The layouts that this process has sent, by their digests; the latest is the last."""


def flattened(value: Any) -> Any:
    """Return gradients in buckets, and other values as they are."""
    if not isinstance(value, GradientsParams):
        return value
    layout = next(reversed(_sent.values()), None)
    if layout is None or layout.entries != entries_of(value) or layout.paths != value._paths:
        layout = Layout.of(value)
    known = _sent.pop(layout.digest, None) is not None
    _sent[layout.digest] = layout
    return Flat(layout.on(value.device).flatten(value), layout.digest, None if known else layout)


class FlatLayouts:
    """The layouts that workers have sent, which every answer is shown to, in the order of each worker's answers."""

    def __init__(self) -> None:
        self._known: dict[bytes, Layout[Any]] = {}

    def opened(self, value: Any) -> Any:
        """Return the gradients in buckets, and other values as they are."""
        if not isinstance(value, Flat):
            return value
        layout = self._known[value.digest] if value.layout is None else value.layout
        self._known[value.digest] = layout
        return layout.on(value.buckets[0].device if value.buckets else layout.device).unflatten(value.buckets)


class Lost(Exception):
    """A worker has ended, or cannot be reached; the argument says how, for messages."""


class Failure(NamedTuple):
    """An exception that a task raised instead of returning a value."""

    error: Exception


class WorkerTask(NamedTuple):
    """One share of one call."""

    call: int  #: the number of the call
    share: int  #: its number
    seed: int  #: of the random numbers that are drawn for the share


class WorkerHandle(ABC):
    """A worker, which does one task at a time. One that was started has a first answer to give: that it is ready."""

    @abstractmethod
    def submit(self, call: Any, task: WorkerTask, share: Any) -> None:
        """Give it a task of a call."""

    @abstractmethod
    def answer(self) -> Any:
        """Return its answer, which `Engine.wait` said is there: a value or a `Failure`."""


class WorkerEngine(ABC):
    """Starts workers and carries calls to them."""

    @abstractmethod
    def start(self) -> WorkerHandle:
        """Start a worker, and return without waiting until it is ready."""

    @abstractmethod
    def call(self, function: Callable[[Any, Any], Any], model: Any) -> Any:
        """Return a call that can be submitted to any worker: the function and the model are packed once."""

    @abstractmethod
    def wait(self, workers: Sequence[Any], seconds: float) -> list[Any]:
        """Return those of the workers that have answered or ended, as soon as there are some; none if time is up."""

    @abstractmethod
    def end(self, workers: Sequence[Any]) -> None:
        """End workers at once, whatever they are doing; some may have ended already."""

    def close(self) -> None:  # noqa: B027  # most have nothing to do
        """End the resources started for the workers, which have ended."""


def done(function: Callable[[Any, Any], Any], model: Any, share: Any, seed: int) -> Any:
    """Do a task: call the function, with random numbers that depend on the task alone, and not on the worker."""
    manual_seed(seed)
    return flattened(function(model, share))


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
        """Send it, with a word that names its kind."""
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


_REMEDY = "use engine='ray', which sends functions as they are"


class Process(WorkerHandle):
    """A process with its connection."""

    def __init__(self, context: Any) -> None:
        self.connection, other = context.Pipe()
        self.process = context.Process(target=run, args=(other,), name="burnpy.distributed", daemon=True)
        self._call: Any = None
        try:
            self.process.start()
        except BaseException:  # Ctrl-C too: the pipe is closed in any case
            self.connection.close()
            raise
        finally:
            other.close()

    def submit(self, call: Parcel, task: WorkerTask, share: Any) -> None:
        """Send the call, unless it has it, and the share."""
        packed = packed_for_processes(
            share, {f"share {task.share}": share}, where="in the function", otherwise="send what describes it"
        )
        parcel = Parcel(packed, f"share {task.share}")
        try:
            if self._call is not call:
                call.send(self.connection, "call")
                self._call = call
            parcel.send(self.connection, "share", task)
        except OSError:
            raise self._lost() from None
        finally:
            parcel.close()

    def answer(self) -> Any:
        """Read the answer."""
        try:
            what, _, rest = self.connection.recv()
            memory = received(self.connection) if what == "done" else None
        except (EOFError, OSError):
            raise self._lost() from None
        if what == "done":
            return unpacked(memory, rest)
        return Failure(loading.failed(rest)) if what == "failed" else None

    def _lost(self) -> Lost:
        """Return the exception for a process that has ended."""
        how = ending(self.process)
        if unguarded(self.process):
            raise WorkerError(
                "a worker imports the program again, and the program starts workers when it is imported; put its "
                "code under: if __name__ == '__main__':"
            )
        hint = "; perhaps memory ran out" if self.process.exitcode == -signal.SIGKILL else ""
        return Lost(f"process {self.process.pid} {how}{hint}")

    def end(self) -> None:
        """Kill the process: it holds nothing that has to be put in order."""
        self.connection.close()
        self.process.kill()

    def join(self) -> None:
        """Wait for the end of the process."""
        self.process.join()
        self.process.close()


class Processes(WorkerEngine):
    """Processes of this machine.

    Raises:
        ArgumentError: the system cannot pass files to other processes.
        WorkerError: this is a daemon process, which may start no others.
    """

    def __init__(self) -> None:
        refuse_unable("use engine='ray'")
        self._owner = os.getpid()
        self._context = context_for(loading.__name__, __name__, "burnpy.distributed.workers")

    def start(self) -> Process:
        """Start a process."""
        return Process(self._context)

    def call(self, function: Callable[[Any, Any], Any], model: Any) -> Parcel:
        """Write the function and the model into shared memory."""
        parts = {"the function": function, "the model": model}
        packed = packed_for_processes((function, model), parts, where="in the function", otherwise=_REMEDY)
        return Parcel(packed, "the model, which all workers share,")

    def wait(self, workers: Sequence[Process], seconds: float) -> list[Process]:
        """Wait for messages and for the ends of processes."""
        by_connection: dict[Any, Process] = {worker.connection: worker for worker in workers}
        return [by_connection[connection] for connection in wait([*by_connection], seconds)]

    def end(self, workers: Sequence[Process]) -> None:
        """Kill the processes."""
        if os.getpid() == self._owner:  # not in a fork of this program, whose processes these are not
            ended([*workers])
