"""Benchmark of compiled functions: training steps, formulas as users write them by hand, inference, and compiling.

The peers are burnpy's eager mode and its plans, PyTorch's eager mode, ``torch.compile`` and JAX. Formulas are measured
forward, and with the gradients of their sum ("both"). On one thread times are processor time, on several they are by
the clock. A first call includes recording and compiling; a tiny function was compiled before, so that libraries are
loaded. The folders of compiled code are empty before the first calls of a cold process, and the next process has its
code. torch.compile, which takes minutes to compile all of this, is measured on one thread alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

import numpy as np

from benchmarks.formulas import Case, cases
from benchmarks.measure import ONE_THREAD, THREADS, TWO_THREADS, Effort, Figures, Notebook, Spread
from benchmarks.peers import COMPILERS, Peer
from benchmarks.processes import Job, collect
from benchmarks.report import Line, Section
from benchmarks.tasks import BATCHES, task
from benchmarks.training import PARITY

OURS = "burnpy, compiled"
PEERS = ("burnpy", OURS, "torch", *COMPILERS)
QUICKER = ("burnpy", OURS, "torch", "JAX")
"""The peers on several threads and of peak memory: torch.compile takes minutes to compile all again."""
STEPS = {"MLP": 0.7, "CNN": 0.55, "mini-GPT": 0.8 if PARITY else 0.9}
"""Budgets of a whole step on one thread, of PyTorch's eager mode: see `benchmarks.training.PARITY`."""
TINY = 0.35
"""The budget of steps of tiny models, of burnpy's eager mode."""
FORMULA, LEAPFROG = 1.0, 2.0
"""Budgets of formulas, of the better one of the compilers; and of Hamiltonian Monte Carlo, of JAX."""
FIRST = {"chain": (0.2, 0.3), "mini-GPT": (1.5, 0.3)}
"""Budgets of first calls in seconds: cold, and with code from the disk."""
COMPILED_FIRST = ("GELU, 10⁴, both", "PDE with u″, 10⁴, both", "mini-GPT, step")
ROUNDS = 7


def work(peer: Peer, effort: Effort, notebook: Notebook, options: Mapping[str, Any]) -> None:
    """Measure a peer, in its own process."""
    functions = {"first": _first}.get(options["what"], _times)
    functions(peer, effort, notebook, options)


def _times(peer: Peer, effort: Effort, notebook: Notebook, options: Mapping[str, Any]) -> None:
    clock = process_time if options["threads"] == 1 else perf_counter
    runs: dict[str, Callable[[], Any]] = {}
    for key, make in _made(peer, effort, options["what"]).items():
        try:
            runs[key] = make()
            for _ in range(3):
                runs[key]()
        except Exception as error:  # of any peer, as in `Notebook.enter`
            notebook.errors[key] = f"{type(error).__name__}: {error}".split("\n")[0][:160]
            runs.pop(key, None)
    for _ in range(ROUNDS if effort.seconds else 1):
        for key, run in runs.items():
            notebook.enter(key, partial(_each, run, effort.seconds, clock))


def _each(run: Callable[[], Any], seconds: float, clock: Callable[[], float]) -> float:
    """Return the time of a run, of a loop that takes about ``seconds``."""
    start = clock()
    run()
    count = max(1, int(seconds / max(clock() - start, 1e-6)))
    start = clock()
    for _ in range(count):
        run()
    return (clock() - start) / count


def _made(peer: Peer, effort: Effort, what: str) -> dict[str, Callable[[], Callable[[], Any]]]:
    """Return by key the functions that make what is measured."""
    small = not effort.seconds
    if what == "steps":
        made = {f"{model}, step": partial(_step, peer, model, small) for model in STEPS}
        return made | {f"tiny {model}, step": partial(_step, peer, model, True) for model in STEPS}
    if what == "inference":
        return {
            f"{model}, batch 1": partial(peer.inference, task(model, "float32", small=small, batch=1))
            for model in STEPS
        }
    return {
        f"{name}, {kind}": partial(_formula, peer, case, kind)
        for name, case in cases(small).items()
        for kind in ("forward", "both")[: 1 + case.both]
        if case.compiles or not peer.unrolls
    }


def _formula(peer: Peer, case: Case, kind: str) -> Callable[[], Any]:
    return peer.formula(case.formula, case.arguments, case.leaves if kind == "both" else ())


def _step(peer: Peer, model: str, small: bool) -> Callable[[], Any]:
    training = peer.training(task(model, "float32", small=small))
    count = 0

    def run() -> None:
        nonlocal count
        training.forward(count % BATCHES)
        training.backward()
        training.update()
        count += 1

    return run


def _first(peer: Peer, effort: Effort, notebook: Notebook, options: Mapping[str, Any]) -> None:
    """Measure first calls."""
    small = not effort.seconds
    peer.formula(lambda f, x: f.tanh(x) * 3.0, [np.ones(7, np.float32)], ())()
    made = {**_made(peer, effort, "formulas"), **_made(peer, effort, "steps")}
    for key in COMPILED_FIRST if not small else [key for key in made if "GELU" in key]:

        def seconds(make: Callable[[], Callable[[], Any]] = made[key]) -> float:
            run = make()
            start = perf_counter()
            run()
            return perf_counter() - start

        notebook.enter(key, seconds)


def sections(effort: Effort, said: Callable[[str], None]) -> list[Section]:
    """Measure all peers."""
    tables: list[Section] = []
    for threads, environment in ((1, ONE_THREAD), (THREADS, TWO_THREADS)):
        for what, table in (("steps", _steps), ("formulas", _formulas), ("inference", _inference)):
            options = {"what": what, "threads": threads}
            jobs = {name: Job("compiled", name, environment, options) for name in _peers(threads)}
            tables.append(table(collect(jobs, effort, said), effort, threads))
    memory = {
        model: collect(
            {
                name: Job("training", name, TWO_THREADS, {"what": "times", "model": model, "threads": THREADS})
                for name in QUICKER
            },
            replace(effort, processes=min(2, effort.processes)),
            said,
        )
        for model in STEPS
    }
    return [*tables, _memory(memory), _firsts(effort, said)]


def _head(threads: int) -> str:
    clock = "one thread, processor time" if threads == 1 else f"{threads} threads bound to cores, by the clock"
    return f"float32, {clock}, the best of several runs in each process."


def _peers(threads: int) -> tuple[str, ...]:
    return PEERS if threads == 1 else QUICKER


def _suffix(threads: int) -> str:
    return f"{threads} thread" if threads == 1 else f"{threads} threads"


def _steps(figures: Figures, effort: Effort, threads: int) -> Section:
    lines = []
    for model, budget in STEPS.items():
        key = f"{model}, step"
        ratio = figures.ratio((OURS, key), ("torch", key))
        lines.append(
            Line.of(key, figures, dict.fromkeys(_peers(threads), key), 1e3, ratio, budget if threads == 1 else None)
        )
        key = f"tiny {key}"
        ratio = figures.ratio((OURS, key), ("burnpy", key))
        lines.append(
            Line.of(key, figures, dict.fromkeys(_peers(threads), key), 1e3, ratio, TINY if threads == 1 else None)
        )
    how = f"{_head(threads)} The ratio is to PyTorch's eager mode; of tiny models to burnpy's."
    return Section(f"Compiled, training steps, {_suffix(threads)}", how, "ms", list(_peers(threads)), lines)


def _formulas(figures: Figures, effort: Effort, threads: int) -> Section:
    lines = []
    for name, case in cases(not effort.seconds).items():
        for kind in ("forward", "both")[: 1 + case.both]:
            key = f"{name}, {kind}"
            budget = LEAPFROG if "HMC" in name else None if "RNN" in name else FORMULA
            peers = ("JAX",) if budget == LEAPFROG else COMPILERS
            budget = budget if threads == 1 else None
            lines.append(
                Line.of(key, figures, dict.fromkeys(_peers(threads), key), 1e6, _to_best(figures, key, peers), budget)
            )
    how = (
        f"{_head(threads)} The ratio is to the better one of the compilers; of HMC to JAX. torch.compile "
        "unrolls loops, and is not measured for the RNN."
    )
    return Section(f"Compiled, formulas by hand, {_suffix(threads)}", how, "µs", list(_peers(threads)), lines)


def _to_best(figures: Figures, key: str, peers: tuple[str, ...]) -> Spread | None:
    """Return the ratio to the best one of some peers, computed within each turn."""
    ours = figures.turns.get(OURS, [])
    ratios = []
    for number, turn in enumerate(ours):
        turns = [figures.turns[peer][number] for peer in peers if len(figures.turns.get(peer, [])) > number]
        others = [other[key] for other in turns if key in other]
        if key in turn and others:
            ratios.append(turn[key] / min(others))
    return Spread.of(ratios)


def _inference(figures: Figures, effort: Effort, threads: int) -> Section:
    lines = []
    for model in STEPS:
        key = f"{model}, batch 1"
        ratio = figures.ratio((OURS, key), ("torch", key))
        lines.append(Line.of(key, figures, dict.fromkeys(_peers(threads), key), 1e6, ratio, None))
    how = f"{_head(threads)} The ratio is to PyTorch's eager mode."
    return Section(f"Compiled, inference, {_suffix(threads)}", how, "µs", list(_peers(threads)), lines)


def _memory(by_model: Mapping[str, Figures]) -> Section:
    lines = []
    for model, figures in by_model.items():
        ratio = figures.ratio((OURS, "memory"), ("burnpy", "memory"))
        lines.append(Line.of(model, figures, dict.fromkeys(QUICKER, "memory"), 2.0**-20, ratio, 1.0))
    how = (
        "Peak resident set during the steps, recording and compiling included, less the resident set before the model "
        f"is made; {THREADS} threads. The ratio is to burnpy's eager mode."
    )
    return Section("Compiled, peak memory of training", how, "MiB", list(QUICKER), lines)


def _firsts(effort: Effort, said: Callable[[str], None]) -> Section:
    """Measure first calls, cold and with code from the disk."""
    once = replace(effort, processes=1)
    peers = (OURS, "JAX")
    with TemporaryDirectory() as folder:
        places = {name: Path(folder, name.replace(" ", "")) for name in peers}
        environments = {
            name: {"BURNPY_CACHE_DIR": str(place)}
            | {"JAX_COMPILATION_CACHE_DIR": str(place / "jax"), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
            for name, place in places.items()
        }
        jobs = {name: Job("compiled", name, {**ONE_THREAD, **environments[name]}, {"what": "first"}) for name in peers}
        cold, warm = collect(jobs, once, said), collect(jobs, once, said)
    lines = []
    for key in COMPILED_FIRST:
        chain, disk = FIRST["mini-GPT" if "GPT" in key else "chain"]
        for figures, how, budget in ((cold, "cold", chain), (warm, "from the disk", disk)):
            seconds = figures.of(OURS, key)
            ratio = None if seconds is None else seconds.times(1 / budget)
            lines.append(Line.of(f"{key}, {how}", figures, dict.fromkeys(peers, key), 1.0, ratio, 1.0))
    how = (
        "Seconds of a first call by the clock, one thread, one process each. The ratio is to the budget: "
        f"{FIRST['chain'][0]} s for a formula and {FIRST['mini-GPT'][0]} s for a step of the mini-GPT, "
        f"{FIRST['chain'][1]} s from the disk."
    )
    return Section("Compiled, first calls", how, "s", list(peers), lines)
