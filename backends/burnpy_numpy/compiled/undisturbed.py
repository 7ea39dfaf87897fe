"""`undisturbed`: calls amid which no signal handler runs."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import TypeVar

from burnpy.backend.errors import StateError

T = TypeVar("T")


def undisturbed(call: Callable[[], T]) -> T:
    """Return ``call()``, computed in a thread of its own, or raise what it raises.

    CPython runs signal handlers in the main thread, between any two bytecodes, and a handler may raise any class, such
    as TimeoutError, which is an OSError. Code that handles errors of the system and of libraries, as burnpy's cache
    and llvmlite do, takes it for one of these, and where llvmlite raises another in its place, no traceback tells the
    origin. In another thread no handler runs: it interrupts the wait alone, so that what it raises reaches the caller
    at once, and the call ends by itself.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:  # raised again by the thread that waits
            errors.append(error)

    thread = Thread(target=run, name="burnpy compiler")
    thread.start()
    thread.join()
    if errors:
        try:
            raise errors[0]
        finally:
            errors.clear()  # the traceback refers to this frame: a cycle that would stay until garbage collection
    if not results:  # this is a child of the process that called, and has no such thread
        raise StateError(
            "this process was forked while a kernel was compiled, by the handler of a signal; fork between operations"
        )
    return results[0]
