"""The end of a program that Open MPI's fault tolerance runs.

``MPI_Finalize`` waits for all ranks, and sometimes for ever if one of them was lost. Under fault tolerance the launcher
takes a process that ends without it for one that has done its work. So after `Elastic` the ranks that are left wait for
each other, and end; otherwise MPI is finalized as usual.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from importlib import import_module
from typing import Any

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


def _leave() -> None:
    if _instead:
        _instead[0]()
    else:
        import_module("mpi4py.MPI").Finalize()
