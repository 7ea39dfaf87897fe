"""Benchmark of operations on all gradients of a model at once: norms, clipping, sums and multiples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.measure import ONE_THREAD, Effort, Figures, Notebook
from benchmarks.networks import best
from benchmarks.peers import Peer
from benchmarks.processes import Job, collect
from benchmarks.report import Line, Section

PEERS = ("burnpy", "torch")
BUDGET = 1.0
ROUNDS = 5
"""The number of measurements of each case in a process; the best one counts."""
SIZE, LAYERS = 128, 3


def shapes(size: int) -> list[tuple[int, ...]]:
    """Return the shapes of the parameters of a small transformer."""
    layer = [(size,), (size,), (size, 3 * size), (3 * size,), (size, size), (size,)]
    layer += [(size,), (size,), (size, 4 * size), (4 * size,), (4 * size, size), (size,)]
    return [(96, size), (64, size), *layer * LAYERS, (size,), (size,), (size, 96), (96,)]


def _ours(arrays: Sequence[Any]) -> dict[str, Callable[[], Any]]:
    """Return the cases of burnpy, whose gradients are new ones each time."""
    from burnpy import Tensor
    from burnpy.backend import NumPy
    from burnpy.optim import GradientsParams, clip_by_global_norm, clip_by_value

    values = {str(k): Tensor.from_data(x, device=NumPy) for k, x in enumerate(arrays)}
    grads = GradientsParams(NumPy, values, paths={ident: ident for ident in values})
    return {
        "norm": grads.norm,
        "clip by norm": lambda: clip_by_global_norm(grads, 1.0),
        "clip by value": lambda: clip_by_value(grads, 1.0),
        "sum": lambda: grads + grads,
        "multiple": lambda: grads * 0.5,
    }


def _torch(arrays: Sequence[Any]) -> dict[str, Callable[[], Any]]:
    """Return the cases of PyTorch, whose clipping is in place."""
    import torch

    params = [torch.zeros(x.shape) for x in arrays]
    grads = [torch.from_numpy(x.copy()) for x in arrays]
    for param, grad in zip(params, grads, strict=True):
        param.grad = grad.clone()
    utils: Any = torch.nn.utils
    each: Any = torch
    return {
        "norm": lambda: utils.get_total_norm(grads),
        "clip by norm": lambda: utils.clip_grad_norm_(params, 1.0),
        "clip by value": lambda: utils.clip_grad_value_(params, 1.0),
        "sum": lambda: each._foreach_add(grads, grads),
        "multiple": lambda: each._foreach_mul(grads, 0.5),
    }


CASES = ("norm", "clip by norm", "clip by value", "sum", "multiple")


def work(peer: Peer, effort: Effort, notebook: Notebook, options: Mapping[str, Any]) -> None:
    """Measure a peer, in its own process."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes(SIZE if effort.seconds else 8)]
    runs = _torch(arrays) if peer.package == "torch" else _ours(arrays)
    for _ in range(ROUNDS if effort.seconds else 1):
        for name in CASES:
            notebook.enter(name, partial(best, runs[name], effort.seconds))


def sections(effort: Effort, said: Callable[[str], None]) -> list[Section]:
    """Measure both peers."""
    figures: Figures = collect({name: Job("clipping", name, ONE_THREAD, {}) for name in PEERS}, effort, said)
    lines = [
        Line.of(
            name, figures, dict.fromkeys(PEERS, name), 1e3, figures.ratio(("burnpy", name), ("torch", name)), BUDGET
        )
        for name in CASES
    ]
    arrays = shapes(SIZE)
    count = sum(int(np.prod(shape)) for shape in arrays)
    how = (
        f"Gradients of {len(arrays)} parameters with {count:,} elements, float32, one thread, processor time, the best "
        "of several runs. PyTorch clips in place."
    )
    return [Section("Gradients of a model", how, "ms", list(PEERS), lines)]
