"""The example trains alone and on ranks, goes on with another number of ranks, and the page's workers run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interrupting import LONG

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "distributed_digits.py"
MPIEXEC = Path(sys.executable).with_name("mpiexec")
EPOCHS, LEAST = (2, 90) if LONG else (1, 60)  # percent; by guessing it is 10


def run(*launcher: str, arguments: tuple[str, ...]) -> str:
    command = [*launcher, sys.executable, "-W", "error", str(EXAMPLE), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout


@pytest.mark.heavy("mpi4py")
def test_it_learns_on_ranks_and_goes_on_alone(tmp_path: Path) -> None:
    mpiexec = (str(MPIEXEC), "--allow-run-as-root", "--oversubscribe", "-n", "2")
    arguments = ("--epochs", str(EPOCHS), "--out", str(tmp_path))
    first = run(*mpiexec, arguments=arguments).split()[-7:]
    assert first[1:] == ["after", str(EPOCHS), "epochs", "on", "2", "ranks"]
    assert float(first[0].rstrip("%")) > LEAST
    again = run(arguments=arguments)
    assert "resumed from" in again
    assert again.split()[-7:] == [*first[:5], "1", "ranks"]


@pytest.mark.slowest
def test_the_workers_of_the_page_run(tmp_path: Path) -> None:
    page = (ROOT / "burnpy" / "docs" / "distributed.md").read_text(encoding="utf-8")
    (code,) = [block for block in re.findall(r"```py\n(.*?)```", page, re.DOTALL) if "Workers(" in block]
    program = tmp_path / "program.py"
    program.write_text(code, encoding="utf-8")
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True, timeout=120)
    assert float(done.stdout.split()[-1]) > 0.9
