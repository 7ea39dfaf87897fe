"""Benchmark of interpolation, convolution of sequences and transposed convolution, forward and with gradients; and of
the layers of convolutional networks, forward, and the gradients of input and weight alone.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from time import process_time
from typing import Any

import numpy as np

from benchmarks.measure import ONE_THREAD, Effort, Figures, Notebook
from benchmarks.peers import Array, Peer
from benchmarks.processes import Job, collect
from benchmarks.report import Line, Section

PEERS = ("burnpy", "torch")
BUDGET = 1.5
ROUNDS = 5
"""The number of measurements of each case in a process; the best one counts."""

Case = tuple[str, tuple[tuple[int, ...], ...], Mapping[str, Any]]
"""A function of ``nn.functional``, the shapes of its tensors, and its settings."""

_IMAGES = ((8, 16, 64, 64),)
CASES: dict[str, Case] = {
    **{
        f"interpolate, {mode}, × {factor:g}": (
            "interpolate",
            _IMAGES,
            {"mode": mode, "scale_factor": factor} | ({} if mode == "nearest" else {"align_corners": False}),
        )
        for mode in ("nearest", "bilinear", "bicubic")
        for factor in (2.0, 0.5)
    },
    "conv1d, 32 to 64 channels, kernel 5": ("conv1d", ((16, 32, 256), (64, 32, 5), (64,)), {"padding": 2}),
    "conv1d, 1 to 16 channels, kernel 9": ("conv1d", ((16, 1, 1024), (16, 1, 9), (16,)), {"padding": 4}),
    "conv_transpose2d, 64 to 32 channels, kernel 4, stride 2": (
        "conv_transpose2d",
        ((8, 64, 16, 16), (64, 32, 4, 4), (32,)),
        {"stride": 2, "padding": 1},
    ),
    "conv_transpose2d, 16 to 8 channels, kernel 3": (
        "conv_transpose2d",
        ((8, 16, 32, 32), (16, 8, 3, 3), (8,)),
        {"padding": 1},
    ),
}


def _layer(batch: int, inputs: int, outputs: int, size: int, pixels: int, *, stride: int = 1, groups: int = 1) -> Case:
    shapes = (batch, inputs, pixels, pixels), (outputs, inputs // groups, size, size)
    return "conv2d", shapes, {"stride": stride, "padding": size // 2, "groups": groups}


LAYERS: dict[str, Case] = {
    "3 × 3, 64 channels, 32 × 32": _layer(8, 64, 64, 3, 32),
    "3 × 3, 128 channels, 16 × 16": _layer(8, 128, 128, 3, 16),
    "3 × 3, 256 channels, 8 × 8": _layer(8, 256, 256, 3, 8),
    "3 × 3, 512 channels, 4 × 4": _layer(8, 512, 512, 3, 4),
    "3 × 3, 512 channels, 4 × 4, batch 1": _layer(1, 512, 512, 3, 4),
    "3 × 3, 64 to 128 channels, 32 × 32, stride 2": _layer(8, 64, 128, 3, 32, stride=2),
    "3 × 3, 256 to 512 channels, 8 × 8, stride 2": _layer(8, 256, 512, 3, 8, stride=2),
    "7 × 7, 3 to 64 channels, 224 × 224, stride 2": _layer(1, 3, 64, 7, 224, stride=2),
    "1 × 1, 64 to 256 channels, 56 × 56": _layer(2, 64, 256, 1, 56),
    "1 × 1, 1024 to 256 channels, 14 × 14": _layer(4, 1024, 256, 1, 14),
    "1 × 1, 64 to 128 channels, 32 × 32, stride 2": _layer(8, 64, 128, 1, 32, stride=2),
    "depthwise, 144 channels, 56 × 56": _layer(4, 144, 144, 3, 56, groups=144),
    "depthwise, 192 channels, 28 × 28": _layer(4, 192, 192, 3, 28, groups=192),
    "depthwise, 96 channels, 14 × 14": _layer(4, 96, 96, 3, 14, groups=96),
    "depthwise, 576 channels, 14 × 14": _layer(4, 576, 576, 3, 14, groups=576),
    "depthwise, 144 channels, 56 × 56, stride 2": _layer(4, 144, 144, 3, 56, stride=2, groups=144),
    "depthwise, 192 channels, 28 × 28, stride 2": _layer(4, 192, 192, 3, 28, stride=2, groups=192),
    "depthwise, 576 channels, 14 × 14, stride 2": _layer(4, 576, 576, 3, 14, stride=2, groups=576),
    "transposed, 2 × 2, 128 to 64 channels, 32 × 32, stride 2": (
        "conv_transpose2d",
        ((4, 128, 32, 32), (128, 64, 2, 2)),
        {"stride": 2},
    ),
    "transposed, 2 × 2, 512 to 256 channels, 8 × 8, stride 2": (
        "conv_transpose2d",
        ((4, 512, 8, 8), (512, 256, 2, 2)),
        {"stride": 2},
    ),
}
"""Layers of ResNets, of MobileNetV2 and of a U-Net."""
DIRECTIONS = {"forward": "forward", "input": "gradient of input", "weight": "gradient of weight"}


def functional(peer: Peer) -> Any:
    """Return the functions of a library."""
    if peer.package == "torch":
        import torch

        return torch.nn.functional
    from burnpy.nn import functional as ours

    return ours


def work(peer: Peer, effort: Effort, notebook: Notebook, options: Mapping[str, Any]) -> None:
    """Measure a peer, in its own process."""
    functions = functional(peer)
    for name, (function, shapes, settings) in CASES.items():
        rng = np.random.default_rng(0)
        arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
        measured(peer, effort, notebook, name, partial(getattr(functions, function), **settings), arrays)
    for name, (function, shapes, settings) in LAYERS.items():
        rng = np.random.default_rng(0)
        arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
        _measure_layer(peer, effort, notebook, name, partial(getattr(functions, function), **settings), arrays)


def _measure_layer(
    peer: Peer, effort: Effort, notebook: Notebook, name: str, f: Callable[..., Any], arrays: Sequence[Array]
) -> None:
    """Measure a function of an input and a weight: forward, and the gradient of each of them alone."""
    given = dict(zip(("input", "weight"), arrays, strict=True))
    untracked = peer.untracked(given)
    _enter(notebook, f"{name}/forward", partial(f, untracked["input"], untracked["weight"]), effort)
    tracked = peer.tracked(given)
    x, weight = map(peer.constant, arrays)
    by_input = peer.gradients_again(lambda leaf: f(leaf, weight), [tracked["input"]])
    _enter(notebook, f"{name}/input", by_input, effort)
    by_weight = peer.gradients_again(lambda leaf: f(x, leaf), [tracked["weight"]])
    _enter(notebook, f"{name}/weight", by_weight, effort)


def measured(
    peer: Peer,
    effort: Effort,
    notebook: Notebook,
    name: str,
    f: Callable[..., Any],
    arrays: Sequence[Array],
    indices: Sequence[Any] = (),
) -> None:
    """Measure a function of tensors and of indices: forward, and with the gradients of its sum.

    Without tensors, or if its result is not of floats, it has no gradients.
    """
    given = {f"x{k}": array for k, array in enumerate([*arrays, *indices])}
    untracked = peer.untracked(given)  # with functions of the peer besides
    forward = partial(f, *[untracked[key] for key in given])
    _enter(notebook, f"{name}/forward", forward, effort)
    if not arrays or "int" in str(forward().dtype):
        return
    tracked = peer.tracked(given)
    xs = [tracked[key] for key in given]
    fixed = xs[len(arrays) :]
    both = partial(peer.gradients, lambda *xs: peer.total(f(*xs, *fixed)), xs[: len(arrays)])
    _enter(notebook, f"{name}/both", both, effort)


def _enter(notebook: Notebook, key: str, run: Callable[[], Any], effort: Effort) -> None:
    for _ in range(ROUNDS if effort.seconds else 1):
        notebook.enter(key, partial(best, run, effort.seconds))


def best(run: Callable[[], Any], seconds: float, clock: Callable[[], float] = process_time) -> float:
    """Return the minimum time of repeated runs by a clock, which together take about ``seconds``; at least two runs.

    If ``seconds`` is 0, one run, which only shows that it can be done.
    """
    if seconds:
        gc.collect()
    times: list[float] = []
    while not times or sum(times) < seconds or (seconds and len(times) < 2):
        start = clock()
        run()
        times.append(clock() - start)
    return min(times)


def sections(effort: Effort, said: Callable[[str], None]) -> list[Section]:
    """Measure all peers."""
    figures = collect({name: Job("networks", name, ONE_THREAD, {}) for name in PEERS}, effort, said)
    how = "float32, one thread, processor time, the best of several runs; forward alone, and with all gradients."
    layers = [
        Line.of(
            f"{name}, {direction}",
            figures,
            dict.fromkeys(PEERS, f"{name}/{key}"),
            1e3,
            figures.ratio(("burnpy", f"{name}/{key}"), ("torch", f"{name}/{key}")),
            BUDGET,
        )
        for name in LAYERS
        for key, direction in DIRECTIONS.items()
    ]
    each = (
        "float32, one thread, processor time, the best of several runs; a gradient alone, of a result computed before."
    )
    return [
        Section("Networks", how, "ms", list(PEERS), lines(figures, CASES)),
        Section("Layers of networks", each, "ms", list(PEERS), layers),
    ]


def lines(figures: Figures, names: Iterable[str]) -> list[Line]:
    """Return the lines of cases that were `measured`."""
    measured_lines = []
    for name in names:
        for what, work in (("forward", name), ("both", f"{name}, with gradients")):
            key = f"{name}/{what}"
            ratio = figures.ratio(("burnpy", key), ("torch", key))
            if figures.of("burnpy", key) or what == "forward":
                measured_lines.append(Line.of(work, figures, dict.fromkeys(PEERS, key), 1e3, ratio, BUDGET))
    return measured_lines
