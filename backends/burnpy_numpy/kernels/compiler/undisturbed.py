"""`undisturbed`: calls amid which no signal handler runs."""

from __future__ import annotations

import os
from _thread import allocate_lock, start_new_thread
from collections.abc import Callable

from burnpy.backend.errors import StateError, raised_by_other_code
from burnpy.typevars import T


def undisturbed(call: Callable[[], T]) -> T:
    """Return ``call()``, computed in a thread of its own, or raise what it raises.

    CPython runs signal handlers in the main thread, between any two bytecodes, and a handler may raise any class, such
    as TimeoutError, which is an OSError. Code that handles errors of the system and of libraries, as burnpy's cache
    and llvmlite do, takes it for one of these, and where llvmlite raises another in its place, no traceback tells the
    origin. In another thread no handler runs: it interrupts the wait alone. What it raises is raised when the call has
    ended, so that no thread is left that LLVM runs in when the process ends.

    `threading.Thread` is no help, as its ``start`` handles errors, too.
    """
    calls, results, errors = [call], list[T](), list[BaseException]()
    bell, process = allocate_lock(), os.getpid()
    bell.acquire()

    def run() -> None:
        try:
            taken = calls.pop()
        except IndexError:  # the caller was interrupted before
            return
        try:
            results.append(taken())
        except BaseException as error:  # raised again by the thread that waits
            errors.append(error)
        bell.release()

    def wait() -> None:
        while not (results or errors):
            bell.acquire(timeout=1)
            if os.getpid() != process:
                raise StateError(
                    "this process was forked while a kernel was compiled, by the handler of a signal; fork between "
                    "operations"
                )

    try:
        start_new_thread(run, ())
        wait()
    except BaseException as error:
        begun = False
        try:
            calls.pop()
        except IndexError:
            begun = True
        if begun:
            wait()
        elif isinstance(error, RuntimeError) and not raised_by_other_code(error, ()):
            return call()  # no thread can be started, as when the interpreter ends
        raise
    try:
        if errors:
            raise errors[0]
        return results[0]
    finally:
        errors.clear()  # whose traceback refers to this frame: a cycle that would stay until garbage collection
