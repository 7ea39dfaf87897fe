"""Fresh processes that take turns at every single measurement, so that both figures of a ratio are from the same time.

A shared machine has fast seconds and slow ones. The processes of all peers are alive at the same time; each waits
before every measurement until it is called, while all others wait. So figures that are compared were measured within a
second or so of each other.
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
from benchmarks.peers import COMPILERS, Key, installed

SETTLING = 0.1
"""Seconds to wait before a turn with several threads: threads of OpenBLAS and OpenMP busy-wait for a while after work,
on all processors."""


@dataclass(frozen=True)
class Job:
    """The work of one process: the name of a benchmark module, the peer, the environment and the module's options."""

    module: str
    peer: str
    environment: Mapping[str, str]
    options: Mapping[str, Any] = field(default_factory=dict)


_BYTECODE = {"PYTHONDONTWRITEBYTECODE": ""}
"""The first step of a process would compile what a user's Python finds compiled."""


class Worker:
    """A fresh process with a job, which waits before each of its measurements until it is called."""

    def __init__(self, job: Job, effort: Effort) -> None:
        request = json.dumps({"module": job.module, "peer": job.peer, "options": job.options, "effort": asdict(effort)})
        self._threads = job.environment.get("OMP_NUM_THREADS", "1") != "1"
        self.waits_for: Key | None = None  #: the key of its next measurement; None once it has ended
        self.values: dict[str, float] = {}
        self.errors: dict[str, str] = {}
        self._said: IO[str] = TemporaryFile("w+")  # noqa: SIM115  # open for as long as the process lives
        self._process = Popen(
            [sys.executable, "-m", "benchmarks.worker", request],
            env={**os.environ, **_BYTECODE, **job.environment},
            stdin=PIPE,
            stdout=PIPE,
            stderr=self._said,
            text=True,
        )
        self._read()

    def call(self) -> None:
        """Let the process make one measurement, and wait for it."""
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
                results = json.loads(line.removeprefix("found "))
                self.values, self.errors = results["values"], results["errors"]
        self.waits_for = None
        if self._process.wait():
            self._said.seek(0)
            lines = self._said.read().strip().splitlines()
            self.errors = {"": lines[-1] if lines else f"ended with status {self._process.returncode}"}

    def end(self) -> None:
        """Kill the process if it has not ended, and close its pipes and files."""
        self._process.kill()
        self._said.close()
        with self._process:
            pass


def collect(jobs: Mapping[str, Job], effort: Effort, said: Said) -> Figures:
    """Run every job in ``effort.processes`` fresh processes, starting each round with another job."""
    figures = Figures(missing={column for column, job in jobs.items() if not installed(job.peer)})
    skipped = () if effort.compilers else COMPILERS
    present = [column for column, job in jobs.items() if column not in figures.missing and job.peer not in skipped]
    for turn in range(effort.processes):
        first = turn % max(len(present), 1)
        order = present[first:] + present[:first]
        for column, worker in together({column: jobs[column] for column in order}, effort, said).items():
            figures.turns.setdefault(column, []).append(worker.values)
            figures.errors.setdefault(column, {}).update(worker.errors)
    return figures


def together(jobs: Mapping[str, Job], effort: Effort, said: Said) -> dict[str, Worker]:
    """Run one fresh process for each job; they take turns until all have ended."""
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
