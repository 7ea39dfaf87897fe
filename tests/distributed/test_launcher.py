"""`python -m burnpy.distributed` starts a program on more ranks than there are cores, as root too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from burnpy.distributed.__main__ import main

PROGRAM = """
import os, sys
from burnpy.distributed import Group
group = Group.world()
print("ranks", group.size, "sum", group.sum(group.rank), sys.argv[1:], os.environ["OMP_NUM_THREADS"])
sys.exit(3 if group.rank == 1 and "fail" in sys.argv else 0)
"""


@pytest.mark.heavy("mpi4py")
@pytest.mark.slow
def test_four_ranks_anywhere(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    start = [sys.executable, "-m", "burnpy.distributed", "-n", "4", str(tmp_path / "train.py"), "--rate", "1"]
    done = subprocess.run(start, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("ranks 4 sum 6 ['--rate', '1']") == 4
    failed = subprocess.run([*start, "fail"], capture_output=True, text=True, timeout=120, check=False)
    # Open MPI's own launcher sometimes crashes after its report, so only the report has the exact status.
    assert failed.returncode != 0
    assert "Errorcode: 3" in failed.stdout + failed.stderr


@pytest.mark.parametrize("arguments", [["train.py"], ["-n", "0", "train.py"], ["-n", "2"], ["-n", "two", "train.py"]])
def test_mistakes(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert "usage: python -m burnpy.distributed" in capsys.readouterr().err
