"""Benchmark of the memory and time of checkpointing and `Balanced`, for an MLP of 64 layers and a small transformer.

The MLP has GELU after each layer, batch 1024; the transformer consists of plain tensor operations, so that nothing is
fused. Each variant runs in its own process: no checkpointing, ``checkpoint`` (√n segments of the MLP, each block of the
transformer), ``Autodiff[Balanced[NumPy]]``, and both; for comparison PyTorch without and with
``torch.utils.checkpoint``. A step is a forward and a backward pass. Memory is measured in two ways: the live arrays, by
`tracemalloc`, which sees NumPy's and not PyTorch's; and the peak resident set during the steps, less the resident set
before them. Memory "held by the graph" is measured at the end of the forward pass.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap
from statistics import median
from time import process_time
from typing import Any, TypeAlias

import numpy as np

from benchmarks.measure import ONE_THREAD, Effort, Figures, Notebook, forget_peak, resident
from benchmarks.peers import Peer
from benchmarks.processes import Job, collect
from benchmarks.report import Line, Section

WIDTH, ROWS, LAYERS, SEGMENTS = 256, 1024, 64, 8
BATCH, LENGTH, MODEL, HEADS, BLOCKS = 8, 64, 128, 4, 6
WAYS = ("nothing", "checkpoint", "Balanced", "both")
COLUMNS = {
    **{way: ("burnpy", way) for way in WAYS},
    "torch": ("torch", "nothing"),
    "torch, checkpoint": ("torch", "checkpoint"),
}
BUDGETS = {"checkpoint": (1.35, 1 / 3), "Balanced": (1.15, 1 / 2), "both": (None, None)}
"""Budgets of the time of both models, and of the peak of arrays of the MLP, as ratios to no checkpointing."""

Layer: TypeAlias = Callable[[Any], Any]


@dataclass(frozen=True)
class Library:
    """The functions of a library that the models use."""

    leaf: Callable[[Any], Any]
    constant: Callable[[Any], Any]
    gelu: Layer
    checkpoint: Callable[[Layer, Any], Any]
    sequential: Callable[[Sequence[Layer], int, Any], Any]
    gradients: Callable[[Any, Sequence[Any]], Any]


def burnpy(way: str) -> Library:
    """Return burnpy's functions, on `Balanced` or plain NumPy."""
    from burnpy import Autodiff, Tensor
    from burnpy.autodiff import Balanced, checkpoint, checkpoint_sequential
    from burnpy.backend import NumPy

    device: Any = Autodiff[Balanced[NumPy]] if way in ("Balanced", "both") else Autodiff[NumPy]

    def gradients(loss: Any, leaves: Sequence[Any]) -> Any:
        grads = loss.backward()
        return [grads[leaf] for leaf in leaves]

    return Library(
        leaf=lambda array: Tensor.from_data(array, device=device).require_grad(),
        constant=lambda array: Tensor.from_data(array, device=device),
        gelu=lambda x: x.gelu(),
        checkpoint=checkpoint,
        sequential=checkpoint_sequential,
        gradients=gradients,
    )


def torch() -> Library:
    """Return PyTorch's functions."""
    import torch
    from torch.utils.checkpoint import checkpoint, checkpoint_sequential

    return Library(
        leaf=lambda array: torch.from_numpy(array.copy()).requires_grad_(),
        constant=lambda array: torch.from_numpy(array.copy()),
        gelu=torch.nn.functional.gelu,
        checkpoint=lambda f, x: checkpoint(f, x, use_reentrant=False),
        sequential=lambda fs, n, x: checkpoint_sequential(fs, n, x, use_reentrant=False),
        gradients=torch.autograd.grad,
    )


def mlp(library: Library, checkpointed: bool, small: bool) -> tuple[Layer, list[Any], Any]:
    """Create the MLP; return a scalar function of the input, its leaves, and the input."""
    rng = np.random.default_rng(0)
    leaves: list[Any] = []
    layers: list[Layer] = []
    for _ in range(4 if small else LAYERS):
        w = library.leaf(rng.normal(0.0, 1.4 * WIDTH**-0.5, (WIDTH, WIDTH)).astype(np.float32))
        b = library.leaf(np.zeros(WIDTH, np.float32))
        leaves += [w, b]
        layers.append(lambda x, w=w, b=b: library.gelu(x @ w + b))  # type: ignore[misc]  # the defaults determine the types

    def forward(x: Any) -> Any:
        if checkpointed:
            x = library.sequential(layers, 2 if small else SEGMENTS, x)
        else:
            for layer in layers:
                x = layer(x)
        return (x * x).mean()

    return forward, leaves, library.constant(rng.normal(size=(ROWS, WIDTH)).astype(np.float32))


def transformer(library: Library, checkpointed: bool, small: bool) -> tuple[Layer, list[Any], Any]:
    """Create the transformer; return a scalar function of the input, its leaves, and the input."""
    rng = np.random.default_rng(0)
    leaves: list[Any] = []

    def weight(*shape: int) -> Any:
        leaves.append(library.leaf(rng.normal(0.0, shape[0] ** -0.5, shape).astype(np.float32)))
        return leaves[-1]

    def normalised(x: Any) -> Any:
        centred = x - x.mean(-1, keepdim=True)
        return centred / ((centred * centred).mean(-1, keepdim=True) + 1e-5).sqrt()

    def heads(x: Any) -> Any:
        return x.reshape(BATCH, LENGTH, HEADS, MODEL // HEADS).permute(0, 2, 1, 3)

    def block() -> Layer:
        q, k, v, o = (weight(MODEL, MODEL) for _ in range(4))
        up, bias, down = weight(MODEL, 4 * MODEL), weight(4 * MODEL), weight(4 * MODEL, MODEL)

        def run(x: Any) -> Any:
            y = normalised(x)
            scores = heads(y @ q) @ heads(y @ k).mT * (MODEL // HEADS) ** -0.5
            attended = (scores.softmax(-1) @ heads(y @ v)).permute(0, 2, 1, 3).reshape(BATCH, LENGTH, MODEL)
            x = x + attended @ o
            return x + library.gelu(normalised(x) @ up + bias) @ down

        return run

    blocks = [block() for _ in range(1 if small else BLOCKS)]

    def forward(x: Any) -> Any:
        for layer in blocks:
            x = library.checkpoint(layer, x) if checkpointed else layer(x)
        return (x * x).mean()

    return forward, leaves, library.constant(rng.normal(size=(BATCH, LENGTH, MODEL)).astype(np.float32))


MODELS = {"MLP": mlp, "transformer": transformer}


def work(peer: Peer, effort: Effort, notebook: Notebook, options: Mapping[str, Any]) -> None:
    """Measure one variant, in its own process."""
    way = options["way"]
    library = torch() if peer.package == "torch" else burnpy(way)
    checkpointed = way in ("checkpoint", "both")
    forward, leaves, x = mlp(library, checkpointed, True)
    library.gradients(forward(x[:1]), leaves)  # so that imports at first use are not counted
    forward, leaves, x = MODELS[options["model"]](library, checkpointed, not effort.seconds)
    before = resident("VmRSS")
    forget_peak()
    times = []
    for step in range(max(2, effort.steps // 4)):
        notebook.turn(f"{options['model']}, step {step}")
        start = process_time()
        loss = forward(x)
        value = float(loss.item())
        library.gradients(loss, leaves)
        times.append(process_time() - start)
        del loss
    notebook.values["time"] = median(times[1:])  # the first step warms up
    notebook.values["resident"] = resident("VmHWM") - before
    notebook.values["loss"] = value
    if peer.package == "burnpy":
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        loss = forward(x)
        notebook.values["held"] = tracemalloc.get_traced_memory()[0] - before
        library.gradients(loss, leaves)
        notebook.values["peak"] = tracemalloc.get_traced_memory()[1] - before
        tracemalloc.stop()


def sections(effort: Effort, said: Callable[[str], None]) -> list[Section]:
    """Measure all variants of both models."""
    tables = []
    for model in MODELS:
        jobs = {
            column: Job("checkpointing", peer, ONE_THREAD, {"model": model, "way": way})
            for column, (peer, way) in COLUMNS.items()
        }
        tables.append(_section(model, collect(jobs, effort, said)))
    return tables


def _section(model: str, figures: Figures) -> Section:
    measures = {
        "time, ms": ("time", 1e3),
        "held by the graph, MiB": ("held", 2.0**-20),
        "peak of arrays in a step, MiB": ("peak", 2.0**-20),
        "peak resident set in steps, MiB": ("resident", 2.0**-20),
    }
    lines = [
        Line.of(work, figures, dict.fromkeys(COLUMNS, key), factor, None, None)
        for work, (key, factor) in measures.items()
    ]
    for way, (time, memory) in BUDGETS.items():
        pairs = [("time", time), ("held", None), ("peak", memory if model == "MLP" else None), ("resident", None)]
        lines += starmap(lambda key, budget, way=way: _against(figures, way, "nothing", key, budget), pairs)
    lines += [_against(figures, "torch, checkpoint", "torch", key, None) for key in ("time", "resident")]
    what = f"64 layers of {WIDTH} with GELU, {ROWS} rows, {SEGMENTS} segments"
    if model != "MLP":
        what = f"{BLOCKS} blocks of {MODEL} with {HEADS} heads, {BATCH} × {LENGTH}, each block checkpointed"
    how = f"{what}; float32, one thread, processor time. Ratios are against doing nothing."
    return Section(f"Checkpointing, {model}", how, "", list(COLUMNS), lines)


def _against(figures: Figures, way: str, base: str, key: str, budget: float | None) -> Line:
    return Line(f"{way} / {base}: {key}", {}, figures.ratio((way, key), (base, key)), budget)
