"""Benchmark of `burnpy.train.Learner` beside the same loop by hand, and of the cost of a checkpoint.

The loops take turns, epoch by epoch in one process, with the same batches; a figure is the median of differences or
ratios of neighbouring epochs. The digits CNN comes from examples/digits.py, on random images; the tiny model is one
linear layer, whose step is nothing but overhead. Both loops read each loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time, thread_time
from typing import Any

import numpy as np

from benchmarks.measure import ONE_THREAD, Effort, Figures, Notebook
from benchmarks.peers import Peer
from benchmarks.processes import Job, collect
from benchmarks.report import Line, Section

BATCH = 64
BUDGETS = {"digits CNN": 1.03, "tiny": None}
MICROSECONDS, STALLED = 50.0, 0.05
SAVED = (
    "A model of 4.2 million parameters and AdamW, 50 MB, is saved amid a run. The stall is the time by the clock until "
    "the writing thread has taken over, and the processor time of the training thread in the steps until the file is "
    "complete, beyond the time of other steps."
)


def cnn(device: Any) -> Any:
    """Return the network of examples/digits.py."""
    from burnpy.nn import BatchNorm, Conv2d, Dropout, Flatten, Linear, MaxPool2d, Relu, Sequential

    layers: list[Any] = []
    for inputs, outputs in ((1, 16), (16, 32), (32, 32)):
        layers += [MaxPool2d(2)] if outputs == inputs else []
        layers += [Conv2d(inputs, outputs, 3, padding=1, bias=False, device=device), BatchNorm(outputs, device=device)]
        layers += [Relu()]
    return Sequential(*layers, Flatten(), Dropout(0.25), Linear(32 * 4 * 4, 10, device=device))


def tiny(device: Any) -> Any:
    """Return one linear layer."""
    from burnpy.nn import Linear

    return Linear(4, 10, device=device)


def batches(model: str, count: int) -> list[Any]:
    """Return batches of images, or of rows, and their labels."""
    from burnpy import Autodiff, IntTensor, Tensor
    from burnpy.backend import NumPy

    rng, device = np.random.default_rng(0), Autodiff[NumPy]
    shape = (BATCH, 1, 8, 8) if model == "digits CNN" else (8, 4)
    made = []
    for _ in range(count):
        x = Tensor.from_data(rng.normal(size=shape).astype(np.float32), device=device)
        made.append((x, IntTensor.from_data(rng.integers(0, 10, shape[:1]), device=device)))
    return made


def loops(model: str, count: int) -> tuple[Callable[[], float], Callable[[], float]]:
    """Return an epoch by hand and one by the learner, which return their seconds a step, in processor time."""
    import burnpy
    from burnpy import Autodiff
    from burnpy.backend import NumPy
    from burnpy.optim import AdamW, OneCycleLr
    from burnpy.train import Learner, Step

    make = cnn if model == "digits CNN" else tiny
    data, schedule = batches(model, count), OneCycleLr(1e-3, steps=count)

    def step(model: Any, batch: Any) -> Step[Any]:
        x, y = batch
        return Step(burnpy.cross_entropy(model(x), y))

    def by_hand() -> float:
        model, optim, total, seen = make(Autodiff[NumPy]), AdamW(), 0.0, 0
        start = process_time()
        for number, (x, y) in enumerate(data):
            loss = burnpy.cross_entropy(model(x), y)
            value = loss.item()
            if not math.isfinite(value):
                raise ArithmeticError("the loss is not finite")
            total, seen = total + value * len(x), seen + len(x)
            model = optim.step(schedule(number), model, loss.backward())
        return (process_time() - start) / count

    learner: Any = Learner(step, optim=AdamW(), lr=schedule)

    def by_learner() -> float:
        model = make(Autodiff[NumPy])
        start = process_time()
        learner.fit(model, data, epochs=1)
        return (process_time() - start) / count

    return by_hand, by_learner


def saves(count: int, width: int) -> tuple[float, float]:
    """Return by how much a save stalls the training, and how long its writing takes: the medians of some saves, in s.

    The stall is the time by the clock until the writing thread has taken over, and the processor time of the training
    thread in the steps until the file is complete, beyond the time of other steps: it needs new memory for the file.
    """
    from burnpy import Autodiff, Tensor
    from burnpy.backend import NumPy
    from burnpy.nn import Linear, Sequential
    from burnpy.optim import AdamW
    from burnpy.train import BatchEnd, Checkpoints, Learner, Saved, Step, Steps

    device, period = Autodiff[NumPy], 40
    x = Tensor.from_data(np.ones((4, width), np.float32), device=device)
    model = Sequential(*(Linear(width, width, device=device) for _ in range(4)))

    def step(model: Any, batch: Any) -> Step[Any]:
        return Step(model(batch).square().mean())

    held, writing = list[float](), list[float]()
    usual, meanwhile = list[float](), [list[float]() for _ in range(count)]
    with TemporaryDirectory() as folder:
        saved = Checkpoints(folder, every=Steps(period), keep=1)
        learner: Any = Learner(step, optim=AdamW(), lr=1e-5, callbacks=[saved])
        file, begun, clock, used = Path(), 0.0, perf_counter(), thread_time()
        for event in learner.events(model, [x] * (period * (count + 1)), epochs=1):
            if isinstance(event, Saved):
                if len(writing) < len(held):  # the writer ends a file before it begins the next
                    writing.append(perf_counter() - begun)
                if len(held) < count:
                    held.append(perf_counter() - clock)
                    file, begun = event.path, perf_counter()
            elif isinstance(event, BatchEnd):
                if len(writing) < len(held):
                    meanwhile[len(writing)].append(thread_time() - used)
                    if file.exists():
                        writing.append(perf_counter() - begun)
                elif event.step > period // 2:
                    usual.append(thread_time() - used)
            clock, used = perf_counter(), thread_time()
    alone = median(usual)
    stalls = [a + sum(steps) - len(steps) * alone for a, steps in zip(held, meanwhile, strict=True)]
    return median(stalls), median(writing)


def work(peer: Peer, effort: Effort, notebook: Notebook, options: Mapping[str, Any]) -> None:
    """Measure the loops of a model in turns, or saves."""
    if options["what"] == "saves":
        notebook.turn("saves")
        stall, writing = saves(7, 1024) if effort.seconds else saves(1, 64)
        notebook.values |= {"stall": max(stall, 0.0), "writing": writing}
        return
    model = options["model"]
    count = (4 if not effort.seconds else 10) if model == "digits CNN" else (5 if not effort.seconds else 300)
    by_hand, by_learner = loops(model, count)
    by_hand(), by_learner()
    turns = list[tuple[float, float]]()
    notebook.turn(model)
    for turn in range(effort.steps):
        pair = (by_hand(), by_learner()) if turn % 2 else (by_learner(), by_hand())[::-1]
        turns.append(pair)
    hand = median(hand for hand, _ in turns)
    notebook.values |= {
        "by hand": hand,
        "learner": hand * median(ours / hand for hand, ours in turns),
        "overhead": median(ours - hand for hand, ours in turns),
    }


def sections(effort: Effort, said: Callable[[str], None]) -> list[Section]:
    """Measure both models, then saves."""
    lines = []
    for model, budget in BUDGETS.items():
        job = Job("learner", "burnpy", ONE_THREAD, {"what": "loops", "model": model})
        figures = collect({"burnpy": job}, effort, said)
        ratio = figures.ratio(("burnpy", "learner"), ("burnpy", "by hand"))
        lines.append(_line(f"a step of the {model} model", figures, ("by hand", "learner"), ratio, budget))
    overhead = figures.of("burnpy", "overhead")
    micro = None if overhead is None else overhead.times(1e6 / MICROSECONDS)
    lines.append(_line("overhead of the last, as a ratio to 50 µs", figures, ("overhead",), micro, 1.0))
    job = Job("learner", "burnpy", ONE_THREAD, {"what": "saves"})
    figures = collect({"burnpy": job}, effort, said)
    ratio = figures.ratio(("burnpy", "stall"), ("burnpy", "writing"))
    stalls = _line("a save: stall, of its writing", figures, ("stall", "writing"), ratio, STALLED, 1e3)
    return [
        Section(
            "Learner",
            "The learner beside the same loop by hand, without loggers; batch 64 of 8 × 8 pixels, and 8 rows of 4. "
            "Processor time, one thread.",
            "µs",
            ("by hand", "learner", "overhead"),
            lines,
        ),
        Section("Learner, saves", SAVED, "ms", ("stall", "writing"), [stalls]),
    ]


def _line(
    work: str, figures: Figures, keys: tuple[str, ...], ratio: Any, budget: float | None, factor: float = 1e6
) -> Line:
    return Line.across(work, figures, {key: ("burnpy", key) for key in keys}, factor, ratio, budget)
