"""The import of mpi4py, which initializes MPI, and the signs of a launcher in the environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from burnpy.backend.errors import GroupError, MissingPackageError
from burnpy.distributed.leaving import take_over, tolerant

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
    """Return ``mpi4py.MPI``, importing which initializes MPI.

    Raises:
        MissingPackageError: it is not installed.
        GroupError: it finds no MPI library.
    """
    try:
        if tolerant() and "mpi4py.MPI" not in sys.modules:
            take_over()
        return import_module("mpi4py.MPI")
    except ModuleNotFoundError as error:
        raise MissingPackageError(
            'Group.world() was called by a process that mpiexec started, and needs mpi4py: pip install "burnpy[mpi]"'
        ) from error
    except (ImportError, RuntimeError) as error:
        raise GroupError(
            f'mpi4py could not load an MPI library ({error}); pip install "burnpy[mpi]" installs Open MPI with it'
        ) from error
