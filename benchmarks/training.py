"""Benchmark of training steps of an MLP, a CNN, a mini-GPT, an Lstm and a Gru, which `benchmarks.tasks` defines.

Each peer has the same data and first weights. Both use their own layers and optimizers; PyTorch's work in place. The
losses in float64 and in float32 are compared step by step with PyTorch's in float64. Each model and peer runs in its
own process, once with the malloc settings that its users have (burnpy's NumPy backend sets glibc to keep freed memory),
and once with the other's. Peak memory is the peak resident set during the steps, with weights and data, less the
resident set before the model is created; a tiny model has taken two steps before that, so that libraries loaded at
first use are not counted. `Profiled` measures the time of each operation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from statistics import median
from time import perf_counter, process_time
from typing import Any

from benchmarks.measure import ONE_THREAD, THREADS, TWO_THREADS, Effort, Figures, Notebook, forget_peak, resident
from benchmarks.peers import Peer
from benchmarks.processes import Job, collect
from benchmarks.report import Cell, Line, Section
from benchmarks.roofline import MACHINE, Amount
from benchmarks.roofline import job as machine_job
from benchmarks.tasks import BATCHES, TASKS, task
from burnpy.environment import processor

PHASES = ("forward", "backward", "optimizer", "step")
PARITY = "Intel" not in processor()
"""True if NumPy's OpenBLAS multiplies as fast as PyTorch's MKL: on Intel's processors it takes about 1.2 × its time."""
BUDGETS = {
    ("MLP", 1): 0.85,
    ("MLP", 2): 1.0,
    ("CNN", 1): 0.9,
    ("CNN", 2): 1.0,
    ("mini-GPT", 1): 0.85 if PARITY else 1.1,
    ("mini-GPT", 2): 1.0 if PARITY else 1.2,
    ("Lstm", 1): 1.3,
    ("Gru", 1): 1.3,
}
"""Budgets of a step by model and number of threads."""
ADAM = 0.7
"""The budget of the optimizer, on one thread, of a model without clipping and of more than a few parameters."""
LOSSES = {"float64": (100, 1e-10), "float32": (20, 1e-5)}
"""By dtype: the number of steps over which losses are compared, and the maximum error of burnpy's."""
LOSSES_COLUMNS = ("last, burnpy", "last, torch", "error, burnpy", "error, torch", "at most", "kept")
LOSSES_HOW = (
    "Losses from the same weights and data. The error is the largest relative difference from PyTorch's losses in "
    "float64, over all steps: so a row of float32 shows both peers' rounding."
)

SHOWN = 12  # number of operations in the tables
ROUND = 5  # number of steps until the next process's turn
GLIBC = {"BURNPY_MALLOPT": "0"}
KEEP = {
    "GLIBC_TUNABLES": ":".join(
        f"glibc.malloc.{name}={value}"
        for name, value in {"mmap_threshold": 256 << 20, "trim_threshold": 512 << 20, "arena_max": 1}.items()
    )
}
"""The settings of `burnpy_numpy.allocator`, as an environment for another peer."""

COLUMNS = {
    "burnpy": ("burnpy", {}),
    "burnpy, default malloc": ("burnpy", GLIBC),
    "torch": ("torch", {}),
    "torch, burnpy's malloc": ("torch", KEEP),
    "torch.compile": ("torch.compile", {}),
    "JAX": ("JAX", {}),
}


def work(peer: Peer, effort: Effort, notebook: Notebook, options: Mapping[str, Any]) -> None:
    """Measure a peer, in its own process."""
    {"times": _work_times, "losses": _work_losses, "operations": _work_operations}[options["what"]](
        peer, effort, notebook, options
    )


def _work_times(peer: Peer, effort: Effort, notebook: Notebook, options: Mapping[str, Any]) -> None:
    _warm_up(peer, options["model"])
    before = resident("VmRSS")
    forget_peak()
    training = peer.training(task(options["model"], "float32"))
    clock = process_time if options["threads"] == 1 else perf_counter
    times: dict[str, list[float]] = {phase: [] for phase in PHASES}
    for step in range(_steps(effort, options["model"])):
        if step % ROUND == 0:
            notebook.turn(f"{options['model']}, steps from {step}")
        start = clock()
        training.forward(step % BATCHES)
        forward = clock()
        training.backward()
        backward = clock()
        training.update()
        end = clock()
        for name, seconds in zip(
            PHASES, (forward - start, backward - forward, end - backward, end - start), strict=True
        ):
            times[name].append(seconds)
    for name, values in times.items():
        if not training.phased and name != "step":
            continue
        notebook.values[name] = median(values[len(values) // 4 :])  # the first steps warm up
    notebook.enter("memory", lambda: resident("VmHWM") - before)


def _warm_up(peer: Peer, model: str) -> None:
    tiny = peer.training(task(model, "float32", small=True))
    for step in range(2):
        tiny.forward(step)
        tiny.backward()
        tiny.update()


def _work_losses(peer: Peer, effort: Effort, notebook: Notebook, options: Mapping[str, Any]) -> None:
    training = peer.training(task(options["model"], options["dtype"]))
    for step in range(_compared(effort, options["dtype"])):
        training.forward(step % BATCHES)
        notebook.values[f"loss/{step}"] = training.loss()
        training.backward()
        training.update()


def _work_operations(peer: Peer, effort: Effort, notebook: Notebook, options: Mapping[str, Any]) -> None:
    from burnpy.backend import Profiled

    training = peer.training(task(options["model"], "float32"), profiled=True)
    steps = max(2, _steps(effort, options["model"]) // 2)

    def run(first: int, last: int) -> None:
        for step in range(first, last):
            training.forward(step % BATCHES)
            training.backward()
            training.update()

    run(0, 2)
    start = perf_counter()  # the profiler's clock
    with Profiled.record(lines=False) as profile:
        run(2, 2 + steps)
    notebook.values["all"] = (perf_counter() - start) / steps
    for row in profile.by_operation():
        of = f", of {row.rule}" if row.rule and not row.operation.startswith(row.rule) else ""
        key = f"{row.operation}, {row.direction}{of}"
        notebook.values[key] = notebook.values.get(key, 0.0) + row.seconds / steps


def _steps(effort: Effort, model: str) -> int:
    """Return the number of measured steps: fewer for the slower models."""
    return effort.steps if model == "MLP" or not effort.seconds else effort.steps // 2


def _compared(effort: Effort, dtype: str) -> int:
    return LOSSES[dtype][0] if effort.seconds else effort.steps


def sections(effort: Effort, said: Callable[[str], None]) -> list[Section]:
    """Measure all peers on one thread."""
    return [_times(_timed(model, 1, effort, said), model, 1) for model in TASKS]


def shared_sections(effort: Effort, said: Callable[[str], None]) -> list[Section]:
    """Measure all peers on several threads, and their memory."""
    figures = {model: _timed(model, THREADS, effort, said) for model in TASKS}
    return [*(_times(found, model, THREADS) for model, found in figures.items()), _memory(figures)]


def detailed_sections(effort: Effort, said: Callable[[str], None]) -> list[Section]:
    """Compare the losses of burnpy and PyTorch, and profile burnpy."""
    once = replace(effort, processes=1)
    losses = {}
    operations = {}
    for model in TASKS:
        for dtype in LOSSES:
            options = {"what": "losses", "model": model, "dtype": dtype}
            jobs = {peer: Job("training", peer, TWO_THREADS, options) for peer in ("burnpy", "torch")}
            losses[model, dtype] = collect(jobs, once, said)
        options = {"what": "operations", "model": model}
        operations[model] = collect({"burnpy": Job("training", "burnpy", ONE_THREAD, options)}, once, said)
    return [_losses(losses, effort), *(_operations(figures, model) for model, figures in operations.items())]


def _timed(model: str, threads: int, effort: Effort, said: Callable[[str], None]) -> Figures:
    """Return the figures of all peers' steps."""
    environment = ONE_THREAD if threads == 1 else TWO_THREADS
    options = {"what": "times", "model": model, "threads": threads}
    jobs = {column: Job("training", peer, {**environment, **more}, options) for column, (peer, more) in COLUMNS.items()}
    return collect(jobs | {MACHINE: machine_job(environment, threads)}, effort, said)


def _times(figures: Figures, model: str, threads: int) -> Section:
    amounts, limits = amounts_of(model), {"step": BUDGETS.get((model, threads))}
    if (model, threads) == ("MLP", 1):
        limits["optimizer"] = ADAM
    lines = [
        replace(
            _line(figures, phase, phase, 1e3, limits.get(phase)),
            roofline=amounts[phase].share(figures, "burnpy", phase),
        )
        for phase in PHASES
    ]
    lines += _same_allocator(figures, "step", "step")
    what = " ".join((TASKS[model].__doc__ or "").split())
    clock = "one thread, processor time" if threads == 1 else f"{threads} threads bound to cores, by the clock"
    how = f"{what} float32, {clock}; both with their own layers and Adam."
    return Section(
        f"Training, {model}, {threads} {'thread' if threads == 1 else 'threads'}", how, "ms", list(COLUMNS), lines
    )


def amounts_of(model: str) -> dict[str, Amount]:
    """Return what each phase needs at least: its products, and the reads and writes of the optimizer's arrays."""
    definition = task(model, "float32")
    members = definition.inputs.shape[1]
    forward, backward = (
        2.0 * members * n for n in (definition.products, 2 * definition.products - definition.unneeded)
    )
    moved = 7.0 * sum(weight.nbytes for weight in definition.weights.values())  # reads 4 arrays, writes 3
    return {
        "forward": Amount(forward),
        "backward": Amount(backward),
        "optimizer": Amount(bytes=moved),
        "step": Amount(forward + backward, moved),
    }


def _line(figures: Figures, work: str, key: str, factor: float, budget: float | None) -> Line:
    """Return a line that compares the peers, each with the malloc settings that its users have."""
    ratio = figures.ratio(("burnpy", key), ("torch", key))
    return Line.of(work, figures, dict.fromkeys(COLUMNS, key), factor, ratio, budget)


def _same_allocator(figures: Figures, work: str, key: str) -> list[Line]:
    """Lines with the ratios of both peers under the same malloc settings."""
    pairs = {
        "both with burnpy's malloc": ("burnpy", "torch, burnpy's malloc"),
        "both with the default malloc": ("burnpy, default malloc", "torch"),
    }
    ratios = {how: figures.ratio((ours, key), (theirs, key)) for how, (ours, theirs) in pairs.items()}
    return [Line(f"{work}, {how}", {}, ratio, None) for how, ratio in ratios.items()]


def _memory(by_model: Mapping[str, Figures]) -> Section:
    lines = []
    for model, figures in by_model.items():
        lines.append(_line(figures, model, "memory", 2.0**-20, 1.0))
        lines += _same_allocator(figures, model, "memory")
    how = (
        "Peak resident set during the steps, with data and weights, less the resident set before the model is made; "
        f"{THREADS} threads; glibc's malloc."
    )
    return Section("Training, peak memory", how, "MiB", list(COLUMNS), lines)


def _losses(by_model: Mapping[tuple[str, str], Figures], effort: Effort) -> Section:
    lines = []
    for (model, dtype), figures in by_model.items():
        steps, limit = _compared(effort, dtype), LOSSES[dtype][1]
        lines.append(losses_line(f"{model}, {dtype}, {steps} steps", figures, by_model[model, "float64"], steps, limit))
    return Section("Training, losses", LOSSES_HOW, "", LOSSES_COLUMNS, lines)


def losses_line(work: str, figures: Figures, exact: Figures, steps: int, limit: float) -> Line:
    """Return a line that compares both peers' losses with PyTorch's in float64."""
    cells: dict[str, Cell] = {"at most": f"{limit:.0e}"}
    for peer in ("burnpy", "torch"):
        last, error = figures.of(peer, f"loss/{steps - 1}"), loss_error(figures, peer, exact, steps)
        cells[f"last, {peer}"] = f"{last.middle:.12g}" if last else None
        cells[f"error, {peer}"] = f"{error:.1e}" if error is not None else None
        if peer == "burnpy" and error is not None:
            cells["kept"] = "yes" if error <= limit else "NO"
    return Line(work, cells, None, None)


def loss_error(figures: Figures, peer: str, exact: Figures, steps: int) -> float | None:
    """Return the largest relative difference of a peer's losses from PyTorch's in ``exact``; None if one is missing."""
    turns = zip(figures.turns.get(peer, []), exact.turns.get("torch", []), strict=False)
    both = [(a, b) for a, b in turns if a and b]
    differences = [abs(a[f"loss/{step}"] / b[f"loss/{step}"] - 1) for a, b in both for step in range(steps)]
    return max(differences) if differences else None


def _operations(figures: Figures, model: str) -> Section:
    turn = (figures.turns.get("burnpy") or [{}])[0]
    total = turn.get("all", 0.0)
    ranked = sorted(((seconds, key) for key, seconds in turn.items() if key != "all"), reverse=True)
    rows = [(key, seconds) for seconds, key in ranked[:SHOWN]]
    if ranked:
        rows.append(("other operations", sum(seconds for seconds, _ in ranked[SHOWN:])))
        rows.append(("between operations: Python, the graph, the profiler", total - sum(s for s, _ in ranked)))
    lines = [Line(key, {"ms": f"{1e3 * s:.2f}", "share": f"{s / total:.0%}"}, None, None) for key, s in rows]
    how = "By operation of the backend, per step; float32, one thread, by the clock, on Autodiff[Profiled[NumPy]]."
    return Section(f"Training, {model}: where the time goes", how, "", ("ms", "share"), lines)
