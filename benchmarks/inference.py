"""Benchmark of the inference of the models of `benchmarks.tasks`: on the plain backend, where nothing can be recorded.

PyTorch's models are in evaluation mode, in ``torch.inference_mode``; the peers' compiled ones compile before. A CNN's
batch norm uses its running statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from time import perf_counter, process_time
from typing import Any

from benchmarks.measure import ONE_THREAD, Effort, Figures, Notebook
from benchmarks.networks import best
from benchmarks.peers import Peer
from benchmarks.processes import Job, collect
from benchmarks.report import Line, Section
from benchmarks.roofline import MACHINE, Amount
from benchmarks.roofline import job as machine_job
from benchmarks.tasks import TASKS, task

PEERS = ("burnpy", "torch", "torch.compile", "JAX")
BATCHES = (1, 64)
BUDGET = 0.9
ROUNDS = 5
"""The number of measurements of each case in a process; the best one counts."""


def work(peer: Peer, effort: Effort, notebook: Notebook, options: Mapping[str, Any]) -> None:
    """Measure a peer, in its own process."""
    runs: dict[str, Callable[[], Any]] = {}
    for model in TASKS:
        for batch in BATCHES:
            given = task(model, "float32", small=not effort.seconds, batch=batch)
            try:
                runs[f"{model}/{batch}"] = peer.inference(given)
                runs[f"{model}/{batch}"]()
            except Exception as error:  # of any peer, as in `Notebook.enter`
                notebook.errors[f"{model}/{batch}"] = f"{type(error).__name__}: {error}".split("\n")[0][:160]
                runs.pop(f"{model}/{batch}", None)
    # XLA computes on a thread of its own, whose processor time the system may add up after the call.
    clock = perf_counter if peer.package == "jax" else process_time
    for _ in range(ROUNDS if effort.seconds else 1):
        for key, run in runs.items():
            notebook.enter(key, partial(best, run, effort.seconds, clock))


def sections(effort: Effort, said: Callable[[str], None]) -> list[Section]:
    """Measure all peers."""
    jobs = {name: Job("inference", name, ONE_THREAD, {}) for name in PEERS} | {MACHINE: machine_job(ONE_THREAD)}
    figures = collect(jobs, effort, said)
    lines = [_line(figures, model, batch) for model in TASKS for batch in BATCHES]
    how = (
        "float32, one thread, processor time, JAX by the clock, the best of several; burnpy on `NumPy`, without "
        "`Autodiff`."
    )
    return [Section("Inference", how, "ms", list(PEERS), lines)]


def _line(figures: Figures, model: str, batch: int) -> Line:
    key = f"{model}/{batch}"
    ratio = figures.ratio(("burnpy", key), ("torch", key))
    line = Line.of(f"{model}, batch {batch}", figures, dict.fromkeys(PEERS, key), 1e3, ratio, BUDGET)
    amount = Amount(2.0 * batch * task(model, "float32").products)
    return replace(line, roofline=amount.share(figures, "burnpy", key))
