"""Benchmark of interpolation, convolution of sequences and transposed convolution, forward and with gradients."""

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


def measured(
    peer: Peer,
    effort: Effort,
    notebook: Notebook,
    name: str,
    f: Callable[..., Any],
    arrays: Sequence[Array],
    indices: Sequence[Any] = (),
) -> None:
    """Measure a function of tensors and of indices: forward, and with the gradients of its sum by all tensors.

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


def best(run: Callable[[], Any], seconds: float) -> float:
    """Return the minimum processor time of repeated runs, which together take about ``seconds``; at least two runs.

    If ``seconds`` is 0, one run, which only shows that it can be done.
    """
    if seconds:
        gc.collect()
    times: list[float] = []
    while not times or sum(times) < seconds or (seconds and len(times) < 2):
        start = process_time()
        run()
        times.append(process_time() - start)
    return min(times)


def sections(effort: Effort, said: Callable[[str], None]) -> list[Section]:
    """Measure all peers."""
    figures = collect({name: Job("networks", name, ONE_THREAD, {}) for name in PEERS}, effort, said)
    how = "float32, one thread, processor time, the best of several runs; forward alone, and with all gradients."
    return [Section("Networks", how, "ms", list(PEERS), lines(figures, CASES))]


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
