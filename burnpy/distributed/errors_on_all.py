"""The end of all ranks when one of them raises, with its traceback as the last that is printed."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any


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
            time.sleep(5.0)  # rank 0 prints the same error, and ends this rank too
            mpi.COMM_WORLD.Abort(1)
        print(f"rank {rank} raised, and all ranks end:", file=sys.stderr)  # noqa: T201
        before(kind, error, trace)
        sys.stdout.flush()
        sys.stderr.flush()
        time.sleep(0.1)  # the launcher forwards what was printed before it ends the ranks
        mpi.COMM_WORLD.Abort(1)

    stop_all.stops_all = True  # type: ignore[attr-defined]  # a function's attributes
    sys.excepthook = stop_all
