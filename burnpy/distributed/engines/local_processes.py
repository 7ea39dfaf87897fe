"""The engine of processes of this machine, which need no package: values go through shared memory."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from multiprocessing.connection import wait
from typing import Any

from burnpy.backend.errors import WorkerError
from burnpy.data.engines import batch_process as loading
from burnpy.data.engines.kept_processes import context_for, ended, ending, refuse_unable, unguarded
from burnpy.data.engines.shared_memory import packed_for_processes, unpacked
from burnpy.distributed.engines import worker_process
from burnpy.distributed.engines.worker_engine import Failure, Lost, WorkerEngine, WorkerHandle, WorkerTask

_REMEDY = "use engine='ray', which sends functions as they are"


class Process(WorkerHandle):
    """A process with its connection."""

    def __init__(self, context: Any) -> None:
        self.connection, other = context.Pipe()
        self.process = context.Process(target=worker_process.run, args=(other,), name="burnpy.distributed", daemon=True)
        self._call: Any = None
        try:
            self.process.start()
        except BaseException:  # Ctrl-C too: the pipe is closed in any case
            self.connection.close()
            raise
        finally:
            other.close()

    def submit(self, call: worker_process.Parcel, task: WorkerTask, share: Any) -> None:
        """Send the call, unless it has it, and the share."""
        packed = packed_for_processes(
            share, {f"share {task.share}": share}, where="in the function", otherwise="send what describes it"
        )
        parcel = worker_process.Parcel(packed, f"share {task.share}")
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
            memory = worker_process.received(self.connection) if what == "done" else None
        except (EOFError, OSError):
            raise self._lost() from None
        if what == "done":
            return unpacked(memory, rest)
        return Failure(loading.failed(rest)) if what == "failed" else None

    def _lost(self) -> Lost:
        """Return the exception for a process that has ended.

        Raises:
            WorkerError: no process that is started in its place could live longer.
        """
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
        self._context = context_for(loading.__name__, worker_process.__name__, "burnpy.distributed.workers")

    def start(self) -> Process:
        """Start a process."""
        return Process(self._context)

    def call(self, function: Callable[[Any, Any], Any], model: Any) -> worker_process.Parcel:
        """Write the function and the model into shared memory."""
        parts = {"the function": function, "the model": model}
        packed = packed_for_processes((function, model), parts, where="in the function", otherwise=_REMEDY)
        return worker_process.Parcel(packed, "the model, which all workers share,")

    def wait(self, workers: Sequence[Process], seconds: float) -> list[Process]:
        """Wait for messages and for the ends of processes."""
        by_connection: dict[Any, Process] = {worker.connection: worker for worker in workers}
        return [by_connection[connection] for connection in wait([*by_connection], seconds)]

    def end(self, workers: Sequence[Process]) -> None:
        """Kill the processes."""
        if os.getpid() == self._owner:  # not in a fork of this program, whose processes these are not
            ended([*workers])
