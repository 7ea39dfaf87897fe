"""A run that is killed at random moments, and resumed each time, ends with the same bits as an undisturbed one."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burnpy.record import load
from tests.interrupting import LONG

from .killed import EPOCHS, network
from .training import weights

ROOT = Path(__file__).parents[2]


def attempt(folder: Path, moment: float | None) -> tuple[Any, float]:
    """Start the run, kill it after some seconds, and return what it came to, if it did, and how long it took."""
    command = [sys.executable, "-m", "tests.train.killed", str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        began = time.perf_counter()
        process.stdin.write("\n")
        process.stdin.flush()
        try:
            process.wait(moment)
        except subprocess.TimeoutExpired:
            process.kill()
        status, seconds, out = process.wait(), time.perf_counter() - began, process.stdout.read()
    assert status in (0, -signal.SIGKILL)
    return (json.loads(out) if out.endswith("\n") else None), seconds


def contents(folder: Path) -> dict[str, Any]:
    """The checkpoints of a run: their counts and weights. Other parts have the ids of parameters, which are new."""
    names = {path.name for path in folder.iterdir() if path.suffix != ".jsonl"}
    records = {name: load(folder / name) for name in names}
    return {name: (record.part("run", dict), weights(record.apply_to(network()))) for name, record in records.items()}


@pytest.mark.slowest
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL")
def test_killed_at_random_moments_and_resumed_to_the_same_bits(tmp_path: Path) -> None:
    whole, duration = attempt(tmp_path / "whole", None)
    assert (len(whole["history"]), whole["step"]) == (EPOCHS, 3 * EPOCHS)
    files = contents(tmp_path / "whole")
    rng = np.random.default_rng()  # other moments each time
    wanted, kills, runs = LONG or 2, 0, 0
    while kills < wanted:
        folder, result, runs = tmp_path / str(runs), None, runs + 1
        while result is None:
            result, _ = attempt(folder, rng.uniform(0.0, duration / 2) if kills < wanted else None)
            kills += result is None
        assert result == whole, f"run {runs}, after {kills} kills in all"
        assert contents(folder) == files, f"run {runs}, after {kills} kills in all"
    print(f"{kills} kills in {runs} runs of {duration:.2f} s")
