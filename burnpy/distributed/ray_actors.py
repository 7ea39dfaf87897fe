"""The engine of Ray's actors, on this machine or on those of a cluster; values go through Ray's object store."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from burnpy.backend.errors import ArgumentError, MissingPackageError, WorkerError
from burnpy.data.child_processes import failed, failure
from burnpy.distributed.worker_engine import Failure, Lost, WorkerEngine, WorkerHandle, WorkerTask, done

_REACHED = 10.0
"""How many seconds a cluster's address may take to accept a connection."""


class Remote:
    """The class of the actors."""

    def ready(self) -> tuple[str, None]:
        """Say that the actor is there."""
        return "ready", None

    def run(self, work: tuple[Callable[[Any, Any], Any], Any], share: Any, seed: int) -> tuple[str, Any]:
        """Do a task; return the value, or the pickled exception that it raised."""
        try:
            return "done", done(*work, share, seed)
        except Exception as error:  # the function is the user's; the other process raises its exception
            return "failed", failure(error)


class Actor(WorkerHandle):
    """An actor and the answer that is awaited of it."""

    def __init__(self, ray: Any, handle: Any) -> None:
        self.ray, self.handle = ray, handle
        self.awaited = handle.ready.remote()

    def submit(self, call: Any, task: WorkerTask, share: Any) -> None:
        """Call the actor; Ray finds out later if it has ended."""
        try:
            self.awaited = self.handle.run.remote(call, share, task.seed)
        except Exception as error:  # pickling runs code of the user's classes
            raise WorkerError(
                f"engine='ray' cannot send share {task.share} ({_said(error.__cause__ or error)}); send what describes "
                "it"
            ) from error

    def answer(self) -> Any:
        """Read the answer."""
        errors = self.ray.exceptions
        try:
            what, value = self.ray.get(self.awaited)
        except errors.RayTaskError as error:  # the program of the actor raises nothing: a value could not be pickled
            return Failure(
                WorkerError(
                    f"a worker could not read its input, or send its answer ({_said(error, -1)}); modules that the "
                    "function uses must be on all machines, and its result is pickled"
                )
            )
        except errors.RayError as error:
            raise Lost(f"an actor was lost ({type(error).__name__}: {_said(error)})") from None
        return Failure(failed(value)) if what == "failed" else value


class RayActors(WorkerEngine):
    """Actors of Ray.

    Raises:
        MissingPackageError: Ray is not installed.
        ArgumentError: nothing answers at the address.
    """

    def __init__(self, address: str | None, count: int, limit: float) -> None:
        given: object = address
        if given is not None and not isinstance(given, str):
            raise ArgumentError(f"Workers() got address={given!r:.80}; expected a text such as '10.0.0.1:6379'")
        try:
            self._ray: Any = import_module("ray")
        except ImportError as error:
            raise MissingPackageError(
                f"engine='ray' needs the package ray, which cannot be imported ({error}); install it with: "
                "pip install \"burnpy[ray]\", or use engine='processes'"
            ) from None
        self._owned = not self._ray.is_initialized()
        if self._owned:
            self._connect(address, count)
        self._class: Any = self._ray.remote(Remote).options(num_cpus=1, max_restarts=0, max_task_retries=0)

    def _connect(self, address: str | None, count: int) -> None:
        if address is None:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a library that starts Ray reports to nobody
            self._ray.init(num_cpus=count, include_dashboard=False, logging_level="ERROR")
            return
        refused = _refused(address)
        if refused is None:
            try:
                self._ray.init(address=address, logging_level="ERROR")
                return
            except Exception as error:  # Ray raises several classes for a cluster that does not answer
                if "auth" in f"{error} {error.__cause__}".lower():
                    raise ArgumentError(
                        f"Workers() got address={address!r:.80}, where a Ray cluster refuses this program; set "
                        "RAY_AUTH_MODE=token and RAY_AUTH_TOKEN as the cluster was started with, here and on its nodes"
                    ) from error
                refused = _said(error)
        raise ArgumentError(
            f"Workers() got address={address!r:.80}, where no Ray cluster answers ({refused}); start one there by "
            "'ray start --head', or leave address out to use this machine alone"
        )

    def start(self) -> Actor:
        """Start an actor."""
        return Actor(self._ray, self._class.remote())

    def call(self, function: Callable[[Any, Any], Any], model: Any) -> Any:
        """Put the function and the model into the object store."""
        try:
            return self._ray.put((function, model))
        except Exception as error:  # pickling runs code of the user's classes
            raise WorkerError(
                f"engine='ray' cannot send the function and the model to other processes: "
                f"{_said(error.__cause__ or error)}; make what cannot be sent (a file, a lock, a connection) in the "
                "function"
            ) from error

    def wait(self, workers: Sequence[Actor], seconds: float) -> list[Actor]:
        """Wait for the actors' answers."""
        by_answer = {worker.awaited: worker for worker in workers}
        ready, _ = self._ray.wait([*by_answer], num_returns=1, timeout=seconds)
        return [by_answer[answer] for answer in ready]

    def end(self, workers: Sequence[Actor]) -> None:
        """Kill the actors."""
        for worker in workers:
            self._ray.kill(worker.handle, no_restart=True)

    def close(self) -> None:
        """End Ray, unless the program had started it before."""
        if self._owned:
            self._ray.shutdown()


def _refused(address: str) -> str | None:
    """Return why nothing can be reached at an address; None if something can, or the address names no port."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return None
    try:
        socket.create_connection((host, int(port)), timeout=_REACHED).close()
    except (OSError, OverflowError) as error:
        return str(error)
    return None


def _said(error: BaseException, line: int = 0) -> str:
    """Return one line of an error's message: the first, or the last if the message is a traceback."""
    lines = [text.strip() for text in str(error).splitlines() if text.strip()]
    return lines[line].rstrip(".") if lines else type(error).__name__
