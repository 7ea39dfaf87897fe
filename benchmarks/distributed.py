"""Benchmark of `burnpy.distributed` on two ranks of one thread each, which the real mpiexec starts.

What is compared takes turns in the same processes; a figure is the least of its turns. While one rank is measured alone
the other waits, which takes next to no processor time. PyTorch is its DistributedDataParallel over gloo.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.measure import ONE_THREAD, Effort, Notebook
from benchmarks.peers import Peer
from benchmarks.processes import Job, collect
from benchmarks.ranks import WIDTHS
from benchmarks.report import Line, Section

REDUCTION, SCALING, RECOVERY = 1.2, 1 / 1.6, 1.0
RANKS = {"reduction": 2, "mlp": 2, "recovery": 3}


def launched(what: str, repeats: int) -> dict[str, float]:
    """Run `benchmarks.ranks`, and return its figures.

    Raises:
        OSError: there is no mpiexec beside this Python.
        RuntimeError: the program failed.
    """
    mpiexec = [str(Path(sys.executable).with_name("mpiexec")), "--allow-run-as-root", "--oversubscribe"]
    tolerant = ["--with-ft", "ulfm"] if what == "recovery" else []
    program = [sys.executable, "-m", "benchmarks.ranks", what, str(repeats)]
    done = subprocess.run(
        [*mpiexec, *tolerant, "-n", str(RANKS[what]), *program],
        env={**os.environ, **ONE_THREAD},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode:
        told = [line for line in done.stderr.splitlines() if "Error" in line]
        raise RuntimeError(f"{what} on {RANKS[what]} ranks failed: {told[0] if told else done.stderr}")
    values: dict[str, float] = json.loads(done.stdout)
    return values


def work(peer: Peer, effort: Effort, notebook: Notebook, options: Mapping[str, Any]) -> None:
    """Run the ranks once."""
    what = options["what"]
    notebook.turn(what)
    try:
        notebook.values |= launched(what, effort.steps)
    except (OSError, RuntimeError) as error:
        notebook.errors[""] = str(error)


def sections(effort: Effort, said: Callable[[str], None]) -> list[Section]:
    """Measure the reduction, a training step, and the loss of a rank."""

    def job(what: str) -> Job:
        return Job("distributed", "burnpy", ONE_THREAD, {"what": what})

    figures = {what: collect({"burnpy": job(what)}, effort, said) for what in RANKS}
    sums, steps, losses = figures["reduction"], figures["mlp"], figures["recovery"]
    rows = [
        Line.across(
            f"mean of gradients, {size}",
            sums,
            {column: ("burnpy", f"{column}/{size}") for column in ("burnpy", "Allreduce")},
            1e3,
            sums.ratio(("burnpy", f"burnpy/{size}"), ("burnpy", f"Allreduce/{size}")),
            REDUCTION,
        )
        for size in WIDTHS
    ]
    memory = [
        Line.across(
            f"memory taken, {size}", sums, {"times the gradients": ("burnpy", f"memory/{size}")}, 1.0, None, None
        )
        for size in WIDTHS
    ]
    columns = {"one rank": ("burnpy", "one"), "two ranks": ("burnpy", "two"), "torch DDP": ("burnpy", "torch")}
    shared = [
        Line.across(
            "twice the batch on two ranks, for each batch",
            steps,
            columns,
            1e3,
            _half(steps.ratio(("burnpy", "two"), ("burnpy", "one"))),
            SCALING,
        ),
        Line.across("beside torch DDP", steps, columns, 1e3, steps.ratio(("burnpy", "two"), ("burnpy", "torch")), 1.0),
    ]
    lost = Line.across(
        "a step in which one of three ranks is killed; budget 1 s",
        losses,
        {"usual": ("burnpy", "usual"), "with the loss": ("burnpy", "recovery")},
        1e3,
        losses.of("burnpy", "recovery"),
        RECOVERY,
    )
    return [
        Section("Reduction", "Beside MPI's sum of as many bytes, in place.", "ms", ("burnpy", "Allreduce"), rows),
        Section("Reduction, memory", "Resident memory beyond the gradients.", "", ("times the gradients",), memory),
        Section("Two ranks", "A training step of the MLP, batch 128 on each rank.", "ms", tuple(columns), shared),
        Section("A lost rank", "Until the step is repeated and done.", "ms", ("usual", "with the loss"), [lost]),
    ]


def _half(ratio: Any) -> Any:
    return None if ratio is None else ratio.times(0.5)
