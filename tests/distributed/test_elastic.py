"""Ranks that are killed at random moments: the others end with the weights of an undisturbed run."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burnpy.backend.errors import ArgumentError, ImmutableError, KindError
from burnpy.distributed import DataParallel, Elastic, Group
from tests.interrupting import LONG

from .conftest import command, launch

pytestmark = pytest.mark.slow

RANKS = 4
LIMIT = 120.0


def attempt(folder: Path, moments: list[float], victims: list[int]) -> list[dict[str, Any]]:
    """Start the run, kill some ranks after some seconds, and return what it came to, by those that are left."""
    folder.mkdir()
    options = ("--with-ft", "ulfm")
    with subprocess.Popen(
        **command(RANKS, "killed", str(folder), options=options),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            limit = time.monotonic() + LIMIT
            pids: list[int] = []
            while len(pids) < RANKS:
                assert process.poll() is None, process.communicate()[1]
                assert time.monotonic() < limit
                time.sleep(0.02)
                texts = [path.read_text() for path in sorted(folder.glob("*.pid"))]
                pids = [int(text) for text in texts if text]
            began = time.monotonic()
            for moment, victim in zip(sorted(moments), victims, strict=True):
                time.sleep(max(0.0, began + moment - time.monotonic()))
                with suppress(ProcessLookupError):
                    os.kill(pids[victim], signal.SIGKILL)
            out, err = process.communicate(timeout=LIMIT)
        except BaseException:
            process.kill()  # the ranks end with their launcher
            raise
    assert len(out.splitlines()) >= RANKS - len(victims), f"killed {victims} at {moments}:\n{out}\n{err}"
    return [json.loads(line) for line in out.splitlines()]


@pytest.mark.slowest
@pytest.mark.heavy("mpi4py")
def test_ranks_killed_at_random_moments(tmp_path: Path) -> None:
    rng = np.random.default_rng()  # other moments each time
    wanted, kills, runs, slowest = LONG or 2, 0, 0, 0.0
    while kills < wanted:
        count = min(int(rng.integers(2, RANKS)), wanted - kills)
        victims = [int(victim) for victim in rng.permutation(RANKS)[:count]]
        moments = [float(moment) for moment in rng.uniform(0.0, 0.8, count)]
        for result in attempt(tmp_path / str(runs), moments, victims):
            told = f"run {runs}, ranks {victims} killed at {moments}: {result}"
            assert result["same"], told
            assert result["apart"] < 1e-13, told  # sums of other shares, in 40 steps of AdamW
            assert result["size"] + len(result["lost"]) == RANKS, told
            slowest = max(slowest, result["slowest"])
        kills += count
        runs += 1
    print(f"{kills} kills in {runs} runs; the slowest step with a loss took {slowest:.3f} s")


def leaving(how: str, limit: float) -> Any:
    """Run two ranks: one exits or hangs, and the other one waits for it up to some seconds."""
    return launch(2, "leaving", how, str(limit), options=("--with-ft", "ulfm"), runner=("-m", "mpi4py"))


@pytest.mark.heavy("mpi4py")
def test_a_rank_that_exits_with_an_error_ends_all_at_once() -> None:
    assert leaving("exits", 600.0).returncode == 3


@pytest.mark.heavy("mpi4py")
def test_a_rank_that_returns_too_early_is_named_at_once() -> None:
    done = leaving("returns", 600.0)
    assert done.returncode != 0
    assert re.search(
        r"rank 0 on .* is in barrier\(\) with 2 ranks, and rank 1 on .* has ended its program", done.stderr
    )


@pytest.mark.heavy("mpi4py")
def test_a_rank_that_hangs_ends_with_its_launcher() -> None:
    done = leaving("hangs", 2.0)
    assert done.returncode != 0
    assert "awaited: rank 1 on" in done.stderr
    limit = time.monotonic() + 20.0
    with suppress(ProcessLookupError):
        while time.monotonic() < limit:
            os.kill(int(done.stdout), 0)
            time.sleep(0.1)
        os.kill(int(done.stdout), signal.SIGKILL)
        pytest.fail("the rank that hangs stays")


@pytest.mark.heavy("mpi4py")
def test_it_is_refused_where_a_lost_rank_would_end_all() -> None:
    done = launch(2, "refused")
    assert done.returncode != 0
    assert done.stderr.count("GroupError: Elastic() needs fault tolerance") == 1, done.stderr
    assert "mpiexec --with-ft ulfm" in done.stderr


def test_alone() -> None:
    elastic = Elastic(Group.world())
    assert (elastic.rank, elastic.size, elastic.leads, elastic.lost) == (0, 1, True, ())
    assert elastic.run(lambda group: group.gather(group.rank)) == [0]
    for run in (elastic.run, DataParallel(Group.world()).run):
        wrong: Any = run
        with pytest.raises(ArgumentError, match=r"run\(\) got step=None; expected a function"):
            wrong(None)
    with pytest.raises(KindError, match=r"Elastic\(Group.world\(\)\)"):
        Elastic(3)  # type: ignore[arg-type]  # as a user might
    with pytest.raises(ImmutableError):
        elastic.group = Group.world()
    with pytest.raises(ImmutableError):
        del elastic.group
