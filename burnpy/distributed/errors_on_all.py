"""The end of all ranks when one of them raises, with its traceback as the last that is printed."""

from __future__ import annotations

import os
import sys
import time
from contextlib import redirect_stderr
from types import TracebackType
from typing import Any, NoReturn

from burnpy.distributed.leaving import tolerant

_PATIENCE = 5.0
"""Seconds in which another rank should have ended all."""

_FORWARDED = 1.0
"""Seconds in which a launcher should have read what a rank has printed."""


def end_all(mpi: Any) -> NoReturn:
    """End the programs of all ranks, after the launcher has forwarded what this one has printed.

    An abort is faster than the launcher's reading: Open MPI's loses the last lines on a busy machine. It also ends all
    ranks when one of them ends with an error, and reads its output first; unless it was told to tolerate that.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    if not ("OMPI_COMM_WORLD_SIZE" in os.environ and not tolerant()):
        time.sleep(_FORWARDED)
        mpi.COMM_WORLD.Abort(1)
    os._exit(1)


def stop_all_on_error(mpi: Any, rank: int) -> None:
    """Make an exception that nothing catches end the programs of all ranks, rather than leave them waiting.

    Args:
        mpi: ``mpi4py.MPI``.
        rank: of this process in the world, for the message.
    """
    before = sys.excepthook
    if getattr(before, "stops_all", False):
        return

    def stop_all(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if getattr(error, "everywhere", False) and rank != 0:
            time.sleep(_PATIENCE)  # rank 0 prints the same error, and ends this rank too
        else:
            with redirect_stderr(sys.__stderr__ or sys.stderr):  # a hook around this one may print it later: too late
                print(f"rank {rank} raised, and all ranks end:", file=sys.stderr)  # noqa: T201
                before(kind, error, trace)
        end_all(mpi)

    stop_all.stops_all = True  # type: ignore[attr-defined]  # a function's attributes
    sys.excepthook = stop_all
