"""The digits example learns, draws its picture, and says in one sentence where there is no GPU."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from burnpy.backend import errors

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits.py"


def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", str(EXAMPLE), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})


def accuracy(output: str) -> float:
    found = re.search(r"test accuracy ([\d.]+)%", output)
    assert found, f"no test accuracy in:\n{output}"
    return float(found.group(1))


def test_a_few_epochs_learn_and_draw(tmp_path: Path) -> None:
    done = run("--epochs", "4", "--seed", "1", "--out", tmp_path / "deep" / "out")
    assert done.returncode == 0, done.stderr
    assert accuracy(done.stdout) >= 96
    assert (tmp_path / "deep" / "out" / "digits.png").read_bytes().startswith(b"\x89PNG")
    lines = done.stdout.splitlines()
    assert [line.split(":")[0] for line in lines[1:-1]] == [f"epoch {n}/4" for n in (1, 2, 3, 4)]
    assert "\x1b" not in done.stdout, "escape sequences where no terminal is"


def test_one_seed_gives_one_result(tmp_path: Path) -> None:
    first, second = (run("--epochs", "1", "--seed", "3", "--out", tmp_path).stdout for _ in range(2))
    assert first == second


def test_without_a_gpu_one_sentence_says_so(tmp_path: Path) -> None:
    done = run("--backend", "cupy", "--out", tmp_path, CUDA_VISIBLE_DEVICES="-1")
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert "CuPy" in done.stderr


def test_the_gpu_learns_as_well(tmp_path: Path) -> None:
    try:
        from burnpy.backend import CuPy

        CuPy.device()
    except errors.BackendUnavailableError as error:
        pytest.skip(str(error))
    done = run("--backend", "cupy", "--epochs", "4", "--seed", "1", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert accuracy(done.stdout) >= 96
