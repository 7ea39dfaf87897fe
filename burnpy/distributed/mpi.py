"""MPI: its import, the signs of a launcher, and the end of all ranks when one of them raises.

``MPI_Finalize`` waits for all ranks, and sometimes for ever if one of them was lost. Under fault tolerance the launcher
takes a process that ends without it for one that has done its work. So after `Elastic` the ranks that are left wait for
each other, and end; otherwise MPI is finalized as usual.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr
from importlib import import_module
from types import TracebackType
from typing import Any, NoReturn

from burnpy.backend.errors import GroupError, MissingPackageError

_TOLERANT = "OMPI_MCA_mpi_ft_enable"
"""The variable by which Open MPI's launcher tells the ranks that a lost one does not end the others."""

_instead: list[Callable[[], object]] = []
"""The function that is called instead of finalizing MPI; at most one."""


def tolerant() -> bool:
    """Return whether the launcher lets the other ranks go on when one is lost."""
    return os.environ.get(_TOLERANT, "").lower() in ("1", "true", "yes")


def take_over() -> None:
    """Make the end of the program depend on `instead_of_finalizing`; call it before mpi4py initializes MPI."""
    rc: Any = import_module("mpi4py").rc
    if rc.finalize is None:
        rc.finalize = False
        atexit.register(_leave)


def instead_of_finalizing(wait: Callable[[], object]) -> None:
    """Call ``wait`` at the end of the program instead of finalizing MPI."""
    _instead[:] = [wait]


_POLL_SECONDS = 1.0
"""Seconds between two looks at the launcher."""


def end_with_launcher() -> None:
    """End this process when its launcher has ended. With fault tolerance, Open MPI's launcher sends SIGTERM to a rank
    that hangs and does not wait for its end. A learner, which completes its step at SIGTERM, would stay for ever."""
    launcher = os.getppid()

    def watch() -> None:
        while os.getppid() == launcher:
            time.sleep(_POLL_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, name="burnpy launcher", daemon=True).start()


def leave_on_failure(mpi: Any) -> None:
    """Make ``python -m mpi4py`` end all ranks at once when a program exits with a status other than 0.

    It aborts at the end of the program, where the rank would first wait for others, who wait for it.

    Args:
        mpi: ``mpi4py.MPI``.
    """
    told = mpi._set_abort_status

    def tell(status: Any) -> None:
        instead_of_finalizing(lambda: None)
        told(status)

    mpi._set_abort_status = tell


def _leave() -> None:
    if _instead:
        _instead[0]()
    else:
        import_module("mpi4py.MPI").Finalize()


_PATIENCE = 5.0
"""Seconds in which another rank should have ended all."""

_FORWARDED = 1.0
"""Seconds in which a launcher should have read the output of a rank."""


def end_all(mpi: Any) -> NoReturn:
    """End the programs of all ranks, after the launcher has forwarded this one's output. An abort is faster than the
    launcher's reading: Open MPI's loses the last lines on a busy machine. It also ends all ranks when one of them ends
    with an error, and reads its output first; unless it was told to tolerate that."""
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


_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS")
"""The variables by which a launcher tells the number of its processes: Open MPI's, and MPICH's and Slurm's PMI."""


def launched(environ: Mapping[str, str] = os.environ) -> int | None:
    """Return the number of processes that a launcher of MPI programs started; None without a launcher.

    >>> launched({"OMPI_COMM_WORLD_SIZE": "4"}), launched({})
    (4, None)
    """
    for name in _SIZES:
        if environ.get(name, "").isdigit():
            return int(environ[name])
    return 1 if "PMIX_RANK" in environ else None  # Slurm's srun --mpi=pmix does not tell the number


def forgotten(environ: Mapping[str, str] = os.environ) -> str:
    """Return a sign that several processes were meant although no launcher started this one; "" if there is none.

    >>> forgotten({"SLURM_NTASKS": "8"})
    'Slurm has reserved 8 tasks'
    """
    for name, sign in (("SLURM_NTASKS", "Slurm has reserved {} tasks"), ("WORLD_SIZE", "WORLD_SIZE is {}")):
        if environ.get(name, "").isdigit() and int(environ[name]) > 1:
            return sign.format(environ[name])
    return "mpi4py runs the program" if "mpi4py.run" in sys.modules else ""


def import_mpi() -> Any:
    """Return ``mpi4py.MPI``, importing which initializes MPI."""
    try:
        if "mpi4py.MPI" in sys.modules or not tolerant():
            return import_module("mpi4py.MPI")
        take_over()
        mpi: Any = import_module("mpi4py.MPI")
        leave_on_failure(mpi)
        end_with_launcher()
        return mpi
    except ModuleNotFoundError as error:
        raise MissingPackageError(
            'Group.world() was called by a process that mpiexec started, and needs mpi4py: pip install "burnpy[mpi]"'
        ) from error
    except (ImportError, RuntimeError) as error:
        raise GroupError(
            f'mpi4py could not load an MPI library ({error}); pip install "burnpy[mpi]" installs Open MPI with it'
        ) from error
