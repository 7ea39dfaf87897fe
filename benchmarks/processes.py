"""Fresh processes that take turns at every single measurement, so that a ratio compares the same moment's machine.

A machine that others use too has fast seconds and slow ones. The processes of all peers are alive together, and each
waits before it measures anything until it is called, while all others wait: so what is set against each other was
measured within a second or so.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from subprocess import PIPE, Popen
from tempfile import TemporaryFile
from time import sleep
from typing import IO, Any

from benchmarks.measure import Effort, Figures, Said
from benchmarks.peers import Key, installed

SETTLING = 0.1
"""Seconds before a turn of several threads: those of OpenBLAS and OpenMP look out for more work for a while, on all
processors."""


@dataclass(frozen=True)
class Job:
    """What one process measures: the name of a module here, the peer, and how."""

    module: str
    peer: str
    environment: Mapping[str, str]
    options: Mapping[str, Any] = field(default_factory=dict)


class Worker:
    """A fresh process with a job, which waits at each of its measurements to be called."""

    def __init__(self, job: Job, effort: Effort) -> None:
        request = json.dumps({"module": job.module, "peer": job.peer, "options": job.options, "effort": asdict(effort)})
        self._threads = job.environment.get("OMP_NUM_THREADS", "1") != "1"
        self.waits_for: Key | None = None  #: what it measures when it is called next; None once it has ended
        self.values: dict[str, float] = {}
        self.errors: dict[str, str] = {}
        self._said: IO[str] = TemporaryFile("w+")  # noqa: SIM115  # open for as long as the process lives
        self._process = Popen(
            [sys.executable, "-m", "benchmarks.worker", request],
            env={**os.environ, **job.environment},
            stdin=PIPE,
            stdout=PIPE,
            stderr=self._said,
            text=True,
        )
        self._read()

    def call(self) -> None:
        """Let it measure one thing, and wait until it has."""
        if self._threads:
            sleep(SETTLING)
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self._read()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("turn "):
                self.waits_for = json.loads(line.removeprefix("turn "))
                return
            if line.startswith("found "):
                found = json.loads(line.removeprefix("found "))
                self.values, self.errors = found["values"], found["errors"]
        self.waits_for = None
        if self._process.wait():
            self._said.seek(0)
            lines = self._said.read().strip().splitlines()
            self.errors = {"": lines[-1] if lines else f"ended with status {self._process.returncode}"}

    def end(self) -> None:
        """End it, if it has not ended, and close what leads to it."""
        self._process.kill()
        self._said.close()
        with self._process:
            pass


def collect(jobs: Mapping[str, Job], effort: Effort, said: Said) -> Figures:
    """Run every job in ``effort.processes`` fresh processes, each time begun by another job."""
    figures = Figures(missing={column for column, job in jobs.items() if not installed(job.peer)})
    present = [column for column in jobs if column not in figures.missing]
    for turn in range(effort.processes):
        first = turn % max(len(present), 1)
        order = present[first:] + present[:first]
        for column, worker in together({column: jobs[column] for column in order}, effort, said).items():
            figures.turns.setdefault(column, []).append(worker.values)
            figures.errors.setdefault(column, {}).update(worker.errors)
    return figures


def together(jobs: Mapping[str, Job], effort: Effort, said: Said) -> dict[str, Worker]:
    """One fresh process for each job, which take turns until all have ended."""
    workers: dict[str, Worker] = {}
    try:
        for column, job in jobs.items():
            said(f"{job.module}: {column} starts")
            workers[column] = Worker(job, effort)
        while waiting := {column: worker for column, worker in workers.items() if worker.waits_for is not None}:
            key = next(iter(waiting.values())).waits_for
            for column, worker in waiting.items():
                if worker.waits_for == key:
                    said(f"{jobs[column].module}: {key}, {column}")
                    worker.call()
    finally:
        for worker in workers.values():
            worker.end()
    return workers
