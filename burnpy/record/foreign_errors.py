"""Distinguishing errors of reading and writing files from errors that other code, such as a signal handler, raises."""

from __future__ import annotations

import sys

_OURS = sys.stdlib_module_names | {"burnpy", "numpy"}


def is_anothers(error: BaseException) -> bool:
    """Whether an error was raised outside burnpy, NumPy and the standard library: by a signal handler, most likely.

    A handler may raise anything, for example TimeoutError (an OSError) or ValueError, which is not a failure of the
    file.
    """
    trace = error.__traceback__
    while trace is not None:
        if str(trace.tb_frame.f_globals.get("__name__")).partition(".")[0] not in _OURS:
            return True
        trace = trace.tb_next
    return False


class ignoring_failures:  # noqa: N801  # lower case, like contextlib.suppress, which it replaces
    """A context manager that suppresses an OSError of the system, but not one raised by other code."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        return isinstance(error, OSError) and not is_anothers(error)
