"""The launcher of a program on several ranks of this machine: ``python -m burnpy.distributed -n 4 train.py``.

It calls the ``mpiexec`` of the environment with the options that the library needs: Open MPI starts no more ranks than
there are cores, and nothing as root, without an option that says so. Clusters have launchers of their own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from argparse import REMAINDER, ArgumentParser
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import which


def command(ranks: int, program: Sequence[str], mpiexec: str, version: str, root: bool) -> list[str]:
    """Return the command that starts a program on some ranks.

    Args:
        ranks: the number of processes.
        program: what follows ``python``: a file or ``-m module``, with its arguments.
        mpiexec: the path of the library's launcher.
        version: the first line that it prints for ``--version``.
        root: whether the user is root.

    >>> command(4, ["train.py"], "mpiexec", "mpiexec (Open MPI) 5.0.11", root=True)[:4]
    ['mpiexec', '--oversubscribe', '--allow-run-as-root', '-n']
    >>> command(4, ["train.py"], "mpiexec", "HYDRA build details:", root=True)[:3]
    ['mpiexec', '-n', '4']
    """
    options = ["--oversubscribe", *(["--allow-run-as-root"] if root else [])] if "Open MPI" in version else []
    return [mpiexec, *options, "-n", str(ranks), sys.executable, "-m", "mpi4py", *program]


def environment(ranks: int, cores: int, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the ranks, which divide the cores of the machine among their threads.

    >>> environment(4, 2, {}), environment(2, 8, {"OMP_NUM_THREADS": "1"})
    ({'OMP_NUM_THREADS': '1'}, {'OMP_NUM_THREADS': '1'})
    """
    return {"OMP_NUM_THREADS": str(max(1, cores // ranks)), **environ}


def main(arguments: Sequence[str] | None = None) -> int:
    """Start the program that the command line names; return its exit status, 128 + n where signal n ended it."""
    parser = ArgumentParser(prog="python -m burnpy.distributed", description="Start a program on several ranks.")
    parser.add_argument("-n", dest="ranks", type=int, required=True, help="the number of ranks")
    parser.add_argument("program", nargs=REMAINDER, help="a file or -m module, with its arguments")
    given = parser.parse_args(arguments)
    if given.ranks < 1 or not given.program:
        parser.error("give a positive number of ranks and a program: -n 4 train.py")
    beside = Path(sys.executable).with_name("mpiexec")  # of the environment's own MPI
    mpiexec = str(beside) if beside.exists() else which("mpiexec")
    if mpiexec is None:
        parser.error('there is no mpiexec; pip install "burnpy[mpi]" installs Open MPI')
    about = subprocess.run([mpiexec, "--version"], capture_output=True, text=True, check=False).stdout
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    variables = environment(given.ranks, os.cpu_count() or 1, os.environ)
    status = subprocess.run(
        command(given.ranks, given.program, mpiexec, about, root), env=variables, check=False
    ).returncode
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
