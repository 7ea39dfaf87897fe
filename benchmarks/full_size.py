"""Benchmark of networks at the size at which they are used: training steps, inference, peak memory, and losses.

The networks are written with burnpy.nn and with torch.nn as users write them (`benchmarks.peers`), with the same first
weights and data. A process measures a network at one batch size: first inference, then training, as a training's peak
of memory includes what inference needs. Both peaks are the peak resident set less the resident set before the model is
made; tiny steps before that load what libraries load at first use.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

import numpy as np

from benchmarks.measure import ONE_THREAD, THREADS, TWO_THREADS, Effort, Figures, Notebook, forget_peak, resident
from benchmarks.peers import Peer
from benchmarks.processes import Job, collect
from benchmarks.report import Line, Section
from benchmarks.tasks import CLASSES, Array, Task, in_dtype
from benchmarks.training import LOSSES_COLUMNS, LOSSES_HOW, losses_line

PEERS = ("burnpy", "torch")
TITLE = "Full size"
LOSSES = {"float64": (3, 1e-9), "float32": (3, 2e-3)}
"""By dtype: the number of training steps whose losses are compared, and their maximum relative difference."""
PAGE = 4096.0
SHARED, MEMORY = 1.1, 1.0
"""The budgets of times on two threads, and of peak memory."""
WARM, COLD = 0.25, 3.0
"""The budgets of the seconds by which a process's first step is longer, with kernels on the disk and without."""


@dataclass(frozen=True)
class Network:
    """A network, the shape of a member of its batches, and its budgets on one thread."""

    model: str  #: a key of the peers' ``MODELS``
    sizes: Mapping[str, Any]  #: the keyword arguments of the model's constructor
    tiny: Mapping[str, Any]  #: what differs in the same model for a smoke test
    shape: tuple[int, ...]
    small: tuple[int, ...]  #: the same for a smoke test
    budgets: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    """By batch size: of a training step and of inference."""
    steps: int = 12  #: the most training steps that are measured
    optimizer: str = "SGD"
    rate: float = 1e-4


_RESNET = {"classes": CLASSES, "width": 64}
_MOBILE = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
NETWORKS = {
    "ResNet-18, 32 × 32": Network(
        "ResNet",
        {"blocks": (2, 2, 2, 2), "bottleneck": False, "large": False, **_RESNET},
        {"blocks": (1, 1), "width": 4},
        (3, 32, 32),
        (3, 8, 8),
        {1: (1.0, 1.0), 8: (0.95, 1.0), 32: (0.9, 1.05)},
    ),
    "ResNet-50, 224 × 224": Network(
        "ResNet",
        {"blocks": (3, 4, 6, 3), "bottleneck": True, "large": True, **_RESNET},
        {"blocks": (1, 1), "width": 4},
        (3, 224, 224),
        (3, 32, 32),
        {1: (1.0, 1.0), 8: (1.0, 1.0)},
        steps=4,
        rate=1e-5,  # with more, float32 losses of one member are chaotic
    ),
    "MobileNetV2, 224 × 224": Network(
        "MobileNetV2",
        {"stages": _MOBILE, "first": 32, "last": 1280, "classes": CLASSES},
        {"stages": [(1, 4, 1, 1), (2, 8, 2, 2)], "first": 4, "last": 16},
        (3, 224, 224),
        (3, 16, 16),
        {1: (1.0, 1.0), 8: (1.0, 1.0)},
        steps=6,
    ),
    "U-Net, 128 × 128": Network(
        "UNet",
        {"channels": (32, 64, 128, 256, 512), "classes": 2},
        {"channels": (4, 8)},
        (3, 128, 128),
        (3, 8, 8),
        {1: (1.0, 1.0), 4: (1.0, 1.0)},
        steps=6,
    ),
    "Transformer, 6 × 512, 128 places": Network(
        "mini-GPT",
        {"alphabet": 96, "length": 128, "size": 512, "heads": 8, "layers": 6},
        {"length": 4, "size": 8, "heads": 2, "layers": 1},
        (128,),
        (4,),
        {1: (0.95, 0.95), 8: (0.95, 0.95)},
        steps=6,
        optimizer="AdamW",
        rate=1e-4,
    ),
}
CASES = [(name, batch) for name, network in NETWORKS.items() for batch in network.budgets]


def full_task(name: str, batch: int, dtype: str = "float32", *, small: bool = False) -> Task:
    """Return the task of a network: a single batch, the same every time, and weights that the peers draw.

    Args:
        name: a key of `NETWORKS`.
        batch: the members of the batch.
        dtype: the dtype of the floats.
        small: whether to return the same operations on less, of at most two members.
    """
    network, rng = NETWORKS[name], np.random.default_rng(0)
    members = (1, min(batch, 2) if small else batch)
    shape, sizes = (network.small, {**network.sizes, **network.tiny}) if small else (network.shape, network.sizes)
    inputs: Array
    if len(shape) == 1:
        text = rng.integers(0, sizes["alphabet"], (*members, shape[0] + 1))
        inputs, labels = text[..., :-1], text[..., 1:]
    else:
        inputs = rng.standard_normal((*members, *shape))
        labels = rng.integers(0, sizes["classes"], (*members, *(shape[1:] if network.model == "UNet" else ())))
    return in_dtype(Task(network.model, sizes, {}, inputs, labels, network.optimizer, network.rate), dtype)


def work(peer: Peer, effort: Effort, notebook: Notebook, options: Mapping[str, Any]) -> None:
    """Measure a peer, in its own process."""
    given = partial(full_task, options["name"], options["batch"], small=not effort.seconds)
    if options["what"] == "first":
        _first(peer, notebook, given("float32"))
        return
    if options["what"] == "losses":
        training = peer.training(given(options["dtype"]))
        for step in range(LOSSES[options["dtype"]][0]):
            training.forward(0)
            notebook.values[f"loss/{step}"] = training.loss()
            training.backward()
            training.update()
        return
    tiny = full_task(options["name"], 2, small=True)
    _train(peer.training(tiny))
    peer.inference(tiny)()
    before = resident("VmRSS")
    forget_peak()
    clock = process_time if options["threads"] == 1 else perf_counter
    steps = max(2, min(NETWORKS[options["name"]].steps, effort.steps // 5)) if effort.seconds else 1
    task = given("float32")
    _enter(notebook, "inference", peer.inference(task), clock, 2 * steps)
    notebook.enter("inference, memory", lambda: max(resident("VmHWM") - before, PAGE))
    gc.collect()
    forget_peak()
    _enter(notebook, "training", partial(_train, peer.training(task)), clock, steps)
    notebook.enter("training, memory", lambda: max(resident("VmHWM") - before, PAGE))


def _first(peer: Peer, notebook: Notebook, task: Task) -> None:
    """Record the seconds by which the first step of a process is longer than a later one."""
    training, times = peer.training(task), []
    for k in range(4):
        notebook.turn(f"step {k}")
        start = process_time()
        _train(training)
        times.append(process_time() - start)
    notebook.values["first"] = times[0] - median(times[1:])


def _train(training: Any) -> None:
    """Make one step."""
    training.forward(0)
    training.backward()
    training.update()


def _enter(notebook: Notebook, key: str, run: Callable[[], Any], clock: Callable[[], float], count: int) -> None:
    """Record the median time of ``count`` runs, after one that is not measured; each waits for its turn."""
    times = []
    for k in range(count + 1):
        notebook.turn(f"{key}, {k}")
        start = clock()
        run()
        times.append(clock() - start)
    notebook.values[key] = median(times[1:])


def sections(effort: Effort, said: Callable[[str], None]) -> list[Section]:
    """Measure both peers."""
    tables, memory = [], []
    for threads, environment in ((1, ONE_THREAD), (THREADS, TWO_THREADS)):
        lines = []
        for name, batch in CASES:
            options = {"what": "times", "name": name, "batch": batch, "threads": threads}
            figures = collect({peer: Job("full_size", peer, environment, options) for peer in PEERS}, effort, said)
            for what, budget in zip(("training", "inference"), NETWORKS[name].budgets[batch], strict=True):
                limit = budget if threads == 1 else SHARED
                lines.append(_line(figures, name, batch, what, "", 1e3, limit))
                memory += [_line(figures, name, batch, what, ", memory", 2.0**-20, MEMORY)] if threads == 1 else []
        clock = "one thread, processor time" if threads == 1 else f"{threads} threads bound to cores, by the clock"
        how = f"float32, {clock}; the median of a few steps after the first, SGD with momentum (transformer: AdamW)."
        title = f"{TITLE}, {threads} {'thread' if threads == 1 else 'threads'}"
        tables.append(Section(title, how, "ms", PEERS, lines))
    how = "Peak resident set less the resident set before the model is made, one thread; each with its users' malloc."
    tables.append(Section(f"{TITLE}, peak memory", how, "MiB", PEERS, memory))
    return [*tables, _first_steps(effort, said), _losses(replace(effort, processes=1), said)]


def _line(figures: Figures, name: str, batch: int, what: str, suffix: str, factor: float, budget: float) -> Line:
    key = what + suffix
    ratio = figures.ratio(("burnpy", key), ("torch", key))
    return Line.of(f"{name}, batch {batch}, {what}", figures, dict.fromkeys(PEERS, key), factor, ratio, budget)


def _first_steps(effort: Effort, said: Callable[[str], None]) -> Section:
    """Measure the first training step of a process, with the kernels on the disk and without, at the smallest batch."""
    lines = []
    for name in NETWORKS:
        options = {"what": "first", "name": name, "batch": min(NETWORKS[name].budgets)}
        with TemporaryDirectory() as place:
            folder = {"BURNPY_CACHE_DIR": place}
            jobs = {peer: Job("full_size", peer, ONE_THREAD | folder, options) for peer in PEERS}
            cold = collect({"burnpy": jobs["burnpy"]}, replace(effort, processes=1), said)
            warm = collect(jobs, effort, said)
        for what, figures, limit in (("warm", warm, WARM), ("cold", cold, COLD)):
            cells = {peer: figures.of(peer, "first") for peer in PEERS}
            ours = cells["burnpy"]
            lines.append(Line(f"{name}, {what} cache", cells, ours and ours.times(1 / limit), 1.0))
    how = (
        "Processor time of the first training step of a process less a later one, at the smallest batch; the ratio is "
        f"to the budgets of {WARM:g} s with a warm cache of kernels and {COLD:g} s with a cold one."
    )
    return Section(f"{TITLE}, first step", how, "s", PEERS, lines)


def _losses(effort: Effort, said: Callable[[str], None]) -> Section:
    """Compare the losses of each network at its smallest batch."""
    lines = []
    for name, network in NETWORKS.items():
        figures = {}
        for dtype, (steps, limit) in LOSSES.items():
            options = {"what": "losses", "name": name, "batch": min(network.budgets), "dtype": dtype}
            jobs = {peer: Job("full_size", peer, TWO_THREADS, options) for peer in PEERS}
            figures[dtype] = collect(jobs, effort, said)
            line = losses_line(f"{name}, {dtype}, {steps} steps", figures[dtype], figures["float64"], steps, limit)
            lines.append(line)
    return Section(f"{TITLE}, losses", LOSSES_HOW, "", LOSSES_COLUMNS, lines)
