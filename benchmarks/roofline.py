"""The rates that the machine reaches, and burnpy's share of them: the roofline model.

Work that needs so many floating-point operations and moves so many bytes takes at least as long as the longer of both
would at the rates of a product of large matrices and of copying memory. The share is this time over the measured one.
Both rates are measured in the same turns as the work.

Source: Williams, Waterman and Patterson, Roofline: An Insightful Visual Performance Model for Multicore
Architectures, 2009.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter, process_time
from typing import Any

import numpy as np

from benchmarks.measure import Effort, Figures, Notebook, Spread
from benchmarks.peers import Peer
from benchmarks.processes import Job

MACHINE = "machine"
"""The name of the job that measures the rates, in the figures of a benchmark."""
SIDE, COPIED = 1024, 1 << 26
"""The rows and columns of the matrices, and the bytes that are copied."""
ROUNDS = 5


@dataclass(frozen=True)
class Amount:
    """The floating-point operations that work needs, and the bytes that it reads and writes at least."""

    operations: float = 0.0
    bytes: float = 0.0

    def share(self, figures: Figures, column: str, key: str) -> Spread | None:
        """Return the least possible time over the measured one, within each turn."""
        if not (self.operations or self.bytes):
            return None
        turns = zip(figures.turns.get(column, []), figures.turns.get(MACHINE, []), strict=False)
        return Spread.of(
            max(self.operations * rates["product"], self.bytes * rates["copy"]) / turn[key]
            for turn, rates in turns
            if key in turn and "product" in rates
        )


def job(environment: Mapping[str, str], threads: int = 1) -> Job:
    """Return the job that measures the machine's rates on some number of threads."""
    return Job("roofline", "NumPy", environment, {"threads": threads})


def work(peer: Peer, effort: Effort, notebook: Notebook, options: Mapping[str, Any]) -> None:
    """Measure the seconds that one operation of a product takes, and one byte of a copy."""
    clock = process_time if options["threads"] == 1 else perf_counter
    side, copied = (SIDE, COPIED) if effort.seconds else (8, 1 << 10)
    x = np.random.default_rng(0).standard_normal((side, side)).astype(np.float32)
    product = np.empty_like(x)
    source, target = np.ones(copied, np.uint8), np.zeros(copied, np.uint8)

    def each(run: Callable[[], Any], amount: float) -> float:
        start = clock()
        run()
        return max(clock() - start, 1e-9) / amount

    for _ in range(ROUNDS if effort.seconds else 1):
        notebook.enter("product", lambda: each(lambda: np.matmul(x, x, out=product), 2.0 * side**3))
        notebook.enter("copy", lambda: each(lambda: np.copyto(target, source), 2.0 * copied))
