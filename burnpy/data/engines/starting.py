"""Starting processes by a fork server, and the words for how they ended.

Forking a program with threads can deadlock; where there is no fork server, processes are spawned.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import sys
from importlib import import_module
from typing import Any

from burnpy.backend.errors import ArgumentError, WorkerError

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

    Raises:
        ArgumentError: the system cannot pass descriptors to other processes.
        WorkerError: this is a daemon process, which may start no others.
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
