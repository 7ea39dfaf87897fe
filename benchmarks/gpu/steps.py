"""Training steps in float32, TF32 and bfloat16, and compiled: of models at the size at which they are used, where
products dominate, and of small ones, where launches do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import cycle, pairwise
from typing import Any, NamedTuple

import numpy as np

from benchmarks.full_size import full_task
from benchmarks.gpu.libraries import PRECISIONS, is_rehearsal, torch, torch_device, torch_precision, wait, why_no_torch
from benchmarks.gpu.timing import Effort, measured
from benchmarks.measure import Spread
from benchmarks.peers import Training
from benchmarks.peers.ours import OurTraining
from benchmarks.peers.ours_compiled import PlannedTraining
from benchmarks.report import Cell, Line, Section
from benchmarks.tasks import CLASSES, Task, linear_weights, task
from burnpy.backend import CuPy
from burnpy_cupy.runtime import compile_times

LAUNCHES, PRODUCTS = 1.3, 1.1
"""The budgets of a step over PyTorch's: where launches dominate, and where products do."""


def wide_mlp(small: bool) -> Task:
    """4096-4096-4096-10 with ReLU, batch 4096."""
    width = 8 if small else 4096
    sizes, rng = (width, width, width, CLASSES), np.random.default_rng(0)
    weights: dict[str, Any] = {}
    for k, (inputs, outputs) in enumerate(pairwise(sizes)):
        weights |= linear_weights(rng, f"layers.{k}", inputs, outputs)
    weights = {path: value.astype(np.float32) for path, value in weights.items()}
    images = rng.standard_normal((2, width, width), np.float32)
    return Task("MLP", {"sizes": sizes}, weights, images, rng.integers(0, CLASSES, images.shape[:2]), dtype="float32")


def gpt2(small: bool) -> Task:
    """GPT-2 of 124 million parameters: 12 layers of size 768, 8 windows of 1,024 tokens."""
    alphabet, length, size, layers = (96, 4, 8, 1) if small else (50257, 1024, 768, 12)
    sizes = {
        "alphabet": alphabet,
        "length": length,
        "size": size,
        "heads": size // (4 if small else 64),
        "layers": layers,
    }
    text = np.random.default_rng(0).integers(0, alphabet, (1, 8, length + 1))
    return Task("mini-GPT", sizes, {}, text[..., :-1], text[..., 1:], "AdamW", 1e-4, dtype="float32")


MODELS: dict[str, tuple[Callable[[bool], Task], float]] = {
    "MLP, 4,096 wide": (wide_mlp, PRODUCTS),
    "ResNet-50, batch 64": (lambda small: full_task("ResNet-50, 224 × 224", 64, small=small), PRODUCTS),
    "GPT-2, batch 8": (gpt2, PRODUCTS),
    "MLP": (lambda small: task("MLP", "float32", small=small), LAUNCHES),
    "CNN": (lambda small: task("CNN", "float32", small=small), LAUNCHES),
    "mini-GPT": (lambda small: task("mini-GPT", "float32", small=small), LAUNCHES),
    "Lstm": (lambda small: task("Lstm", "float32", small=small), LAUNCHES),
}
"""The task of a model, and the budget of its step."""


class Way(NamedTuple):
    """A way to train with burnpy, beside PyTorch's eager steps in a precision."""

    training: Callable[[Task, Any], Training]
    context: Callable[[], AbstractContextManager[Any]]
    precision: str


WAYS = {
    **{name: Way(OurTraining, context, name) for name, (_, context) in PRECISIONS.items()},
    "float32, compiled": Way(PlannedTraining, nullcontext, "float32"),
    "float32, as CUDA graphs": Way(PlannedTraining, CuPy.graphs, "float32"),
}

REMEMBERED = ("float32", "bfloat16", "float32, as CUDA graphs")
"""The ways in which the memory of models of full size is measured."""


def sections(effort: Effort) -> list[Section]:
    """Measure the time of a step, and the peak of memory."""
    columns = ["burnpy", *["torch"] * (torch() is not None)]
    times, memory = [], []
    for name, (make, budget) in MODELS.items():
        ways = dict([*WAYS.items()][:1]) if effort.small and make is not wide_mlp else WAYS
        for kind, way in ways.items():
            work = f"{name}, {kind}"
            line, ours, theirs = _step(work, make(effort.small), way, budget, effort)
            times.append(line)
            if budget == PRODUCTS and kind in REMEMBERED:
                memory.append((work, ours, theirs))
    memory = memory[:1] if effort.small else memory
    peaks = [_peak(*each) for each in memory]  # once all times are measured, as measuring slows allocations down
    nvrtc = f"NVRTC compiled {len(compile_times.seconds)} kernels in {sum(compile_times.seconds):.1f} s."
    how = f"Forward, backward and optimizer; ratios are burnpy's time over PyTorch's. {nvrtc} {why_no_torch()}"
    return [
        Section("Training steps", how, "ms", columns, times),
        Section(
            "Memory of training steps",
            "The peak of making the model and two steps, data included.",
            "MiB",
            columns,
            peaks,
        ),
    ]


def _step(
    work: str, made: Task, way: Way, budget: float, effort: Effort
) -> tuple[Line, Callable[[], Any], Callable[[], Any] | None]:
    """Return the line of a model, and functions that make a step of each library from scratch, for its memory."""
    device, _ = PRECISIONS[way.precision]

    def our_step() -> Callable[[], None]:
        return _stepping(way.training(made, device), len(made.inputs), way.context)

    def their_step() -> Callable[[], None]:
        return _stepping(_cuda_training(made, way.precision), len(made.inputs))

    runs: dict[str, Any] = {"burnpy": (our_step(), wait)}
    if torch() is not None:
        runs["torch"] = (their_step(), wait)
    times = measured(work, runs, effort)
    cells = {column: times.cell(column, 1e3) for column in runs}
    line = Line(work, cells, times.ratio("burnpy", "torch"), budget)
    return line, our_step, their_step if torch() is not None else None


def _stepping(
    training: Training, batches: int, context: Callable[[], AbstractContextManager[Any]] = nullcontext
) -> Callable[[], None]:
    """Return a function that makes a step with the next batch."""
    numbers: Iterator[int] = cycle(range(batches))

    def step() -> None:
        with context():
            training.forward(next(numbers))
            training.backward()
            training.update()

    return step


def _cuda_training(made: Task, precision: str) -> Training:
    """Return PyTorch's training on the GPU."""
    from benchmarks.peers.pytorch import TorchTraining

    training = TorchTraining(made)
    training.model.to(torch_device())
    training.inputs, training.labels = ([x.to(torch_device()) for x in xs] for xs in (training.inputs, training.labels))
    compute = training.loss_of

    def loss_of(x: Any, labels: Any) -> Any:
        with torch_precision(precision):
            return compute(x, labels)

    training.loss_of = loss_of
    return training


def _peak(work: str, ours: Callable[[], Any], theirs: Callable[[], Any] | None) -> Line:
    device = CuPy()
    device.empty_cache()
    device.reset_peak_memory()
    before = device.memory().used
    step = ours()
    for _ in range(2):
        step()
    wait()
    figures = {"burnpy": device.memory().peak - before}
    del step
    if theirs is not None and not is_rehearsal():
        cuda = torch().cuda
        cuda.empty_cache()
        cuda.reset_peak_memory_stats()
        before = cuda.memory_allocated()
        step = theirs()
        for _ in range(2):
            step()
        wait()
        figures["torch"] = cuda.max_memory_allocated() - before
    cells: dict[str, Cell] = {column: Spread.of([size / 2**20]) for column, size in figures.items()}
    ratio = Spread.of([figures["burnpy"] / figures["torch"]]) if "torch" in figures else None
    return Line(work, cells, ratio, None)
