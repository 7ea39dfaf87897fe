"""Telling what reading and writing files fails with from what somebody else raises meanwhile."""

from __future__ import annotations

import sys

_OURS = sys.stdlib_module_names | {"burnpy", "numpy"}


def is_anothers(error: BaseException) -> bool:
    """Whether an error comes from code that files are not read or written by: the handler of a signal, most of all.

    A handler may raise anything: a TimeoutError, which is an OSError, or a ValueError. That is no failure of the file.
    """
    trace = error.__traceback__
    while trace is not None:
        if str(trace.tb_frame.f_globals.get("__name__")).partition(".")[0] not in _OURS:
            return True
        trace = trace.tb_next
    return False


class ignoring_failures:  # noqa: N801  # as contextlib.suppress, whose place it takes
    """``with ignoring_failures():`` goes on after an OSError of the system's, and raises one of somebody else's."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        return isinstance(error, OSError) and not is_anothers(error)
