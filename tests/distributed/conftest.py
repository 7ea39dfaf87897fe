"""Programs on several ranks, started by the real ``mpiexec`` of Open MPI."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
MPIEXEC = Path(sys.executable).with_name("mpiexec")


def command(
    ranks: int, module: str, *args: str, options: tuple[str, ...] = (), runner: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return what starts ``python -m tests.distributed.MODULE ARGS`` on some ranks, as arguments of `subprocess.Popen`.

    A test that uses it is marked ``heavy("mpi4py")``.
    """
    mpiexec = [str(MPIEXEC), "--allow-run-as-root", "--oversubscribe", *options, "-n", str(ranks)]
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    program = [sys.executable, *runner, "-m", f"tests.distributed.{module}", *args]
    return {"args": [*mpiexec, *program], "cwd": ROOT, "env": {**os.environ, **threads}}


def launch(
    ranks: int,
    module: str,
    *args: str,
    options: tuple[str, ...] = (),
    runner: tuple[str, ...] = (),
    limit: float = 120.0,
) -> Any:
    """Run a program on some ranks, and return the completed process."""
    started = command(ranks, module, *args, options=options, runner=runner)
    return subprocess.run(**started, capture_output=True, text=True, timeout=limit, check=False)
