"""The origin of an exception: code that may fail in known ways, or other code, such as the handler of a signal."""

from __future__ import annotations

import sys
from collections.abc import Container

OWN_PACKAGES = sys.stdlib_module_names | {"burnpy", "numpy"}
"""The packages whose exceptions burnpy expects when it reads and writes files."""


def raised_by_other_code(error: BaseException, own: Container[str] = OWN_PACKAGES) -> bool:
    """Return whether a caught error passed through a Python function of another package than ``own``.

    The handler of a signal may raise anything at any point, for example TimeoutError (an OSError) or ValueError, which
    does not mean that the code that it interrupted has failed.

    Args:
        error: an error that is being handled.
        own: the top-level packages whose functions do not count. The calling frame never counts, so with an empty
            container the answer is whether the error was raised inside any Python function that was called.

    >>> try:
    ...     int("x")
    ... except ValueError as error:
    ...     print(raised_by_other_code(error, ()))
    False
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
        if str(trace.tb_frame.f_globals.get("__name__")).partition(".")[0] not in own:
            return True
    return False
