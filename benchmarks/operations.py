"""Benchmark of scans, reductions, norms, distances, losses, interpolation, ordering, scattering, sampling, padding,
volumes and bags of embeddings, forward and with gradients."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.measure import ONE_THREAD, Effort, Notebook
from benchmarks.networks import PEERS, functional, lines, measured
from benchmarks.peers import Peer
from benchmarks.processes import Job, collect
from benchmarks.report import Section

Case = tuple[Callable[..., Any], tuple[tuple[int, ...], ...], tuple[tuple[tuple[int, ...], int], ...]]
"""A function of a library's ``nn.functional``, of tensors and of indices; the tensors' shapes; the indices' shapes, and
the number that they are below. What it returns, if it is a float, is differentiated by all tensors."""


def _package(x: Any) -> Any:
    """Return the package of a tensor, for functions that are not in ``nn.functional``."""
    return sys.modules[type(x).__module__.partition(".")[0]]


_ROWS = ((128, 1024),)
_POINTS = ((256, 64), (256, 64))
_INDEX = (((4096,), 256),)
_IMAGES = (8, 16, 64, 64)
CASES: dict[str, Case] = {
    **{
        f"{name}, {along}": (lambda f, x, name=name, dim=dim: getattr(x, name)(dim), _ROWS, ())
        for name in ("cumsum", "cumprod", "logcumsumexp")
        for along, dim in (("last dim", 1), ("first dim", 0))
    },
    **{
        f"{name}, {along}": (lambda f, x, name=name, dim=dim: getattr(x, name)(dim)[0], _ROWS, ())
        for name in ("cummax", "cummin")
        for along, dim in (("last dim", 1), ("first dim", 0))
    },
    "norm": (lambda f, x: x.norm(), _ROWS, ()),
    **{
        f"norm, p = {p:g}, last dim": (lambda f, x, p=p: x.norm(p, 1), _ROWS, ()) for p in (1.0, 2.0, 3.0, float("inf"))
    },
    "norm, first dim": (lambda f, x: x.norm(2, 0), _ROWS, ()),
    **{
        f"{name}, {along}": (lambda f, x, name=name, dims=dims: getattr(x, name)(*dims), _ROWS, ())
        for name in ("prod", "nansum")
        for along, dims in (("last dim", (1,)), ("first dim", (0,)), ("all", ()))
    },
    "trapezoid": (lambda f, x: _package(x).trapezoid(x), _ROWS, ()),
    "trapezoid, places": (lambda f, x, y: _package(x).trapezoid(x, y), (*_ROWS, (1024,)), ()),
    **{
        f"cdist, p = {p:g}": (lambda f, x, y, p=p: _package(x).cdist(x, y, p), _POINTS, ())
        for p in (1.0, 2.0, float("inf"))
    },
    **{
        name: (lambda f, x, y, name=name: getattr(f, name)(x, y), _ROWS * 2, ())
        for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy_with_logits")
    },
    "lerp, number": (lambda f, x, y: x.lerp(y, 0.3), _ROWS * 2, ()),
    "lerp, tensor": (lambda f, x, y, z: x.lerp(y, z), _ROWS * 3, ()),
    "index_add, rows of 32": (lambda f, x, y, i: x.index_add(0, i, y), ((256, 32), (4096, 32)), _INDEX),
    "index_add, rows of 1": (lambda f, x, y, i: x.index_add(0, i, y), ((256,), (4096,)), _INDEX),
    "index_select, rows of 32": (lambda f, x, i: x.index_select(0, i), ((256, 32),), _INDEX),
    "gather": (lambda f, x, i: x.gather(1, i), _ROWS, (((128, 256), 1024),)),
    "scatter_add": (lambda f, x, y, i: x.scatter_add(1, i, y), (*_ROWS, (128, 256)), (((128, 256), 1024),)),
    **{
        f"scatter_reduce, {how}": (
            lambda f, x, y, i, how=how: x.scatter_reduce(1, i, y, how),
            (*_ROWS, (128, 256)),
            (((128, 256), 1024),),
        )
        for how in ("prod", "amax", "mean")
    },
    "embedding": (lambda f, x, i: f.embedding(i, x), ((1000, 64),), (((64, 64), 1000),)),
    "sort": (lambda f, x: x.sort(1)[0], _ROWS, ()),
    "argsort": (lambda f, x: x.argsort(1), _ROWS, ()),
    "topk, 10": (lambda f, x: x.topk(10, 1)[0], _ROWS, ()),
    "kthvalue": (lambda f, x: x.kthvalue(100, 1)[0], _ROWS, ()),
    "median": (lambda f, x: x.median(1)[0], _ROWS, ()),
    "quantile": (lambda f, x: x.quantile(0.3, 1), _ROWS, ()),
    "unique": (lambda f, i: i.unique(), (), (((65536,), 1000),)),
    "bincount": (lambda f, i: i.bincount(), (), (((65536,), 1000),)),
    "grid_sample, bilinear": (
        lambda f, x, y: f.grid_sample(x, y, align_corners=False),
        (_IMAGES, (8, 64, 64, 2)),
        (),
    ),
    "grid_sample, bicubic": (
        lambda f, x, y: f.grid_sample(x, y, mode="bicubic", align_corners=False),
        (_IMAGES, (8, 64, 64, 2)),
        (),
    ),
    "adaptive_avg_pool2d, 64 to 7": (lambda f, x: f.adaptive_avg_pool2d(x, 7), (_IMAGES,), ()),
    "adaptive_max_pool2d, 64 to 7": (lambda f, x: f.adaptive_max_pool2d(x, 7), (_IMAGES,), ()),
    **{
        f"pad, {mode}": (lambda f, x, mode=mode: f.pad(x, (2, 3, 1, 4), mode=mode), (_IMAGES,), ())
        for mode in ("constant", "reflect", "replicate", "circular")
    },
    "conv3d, 16 channels, 64 × 64 × 64": (
        lambda f, x, w, b: f.conv3d(x, w, b, padding=1),
        ((1, 16, 64, 64, 64), (16, 16, 3, 3, 3), (16,)),
        (),
    ),
    "conv3d of stride 2, 16 channels, 64 × 64 × 64": (
        lambda f, x, w, b: f.conv3d(x, w, b, stride=2, padding=1),
        ((1, 16, 64, 64, 64), (16, 16, 3, 3, 3), (16,)),
        (),
    ),
    "max_pool3d and max_unpool3d, 64 × 64 × 64": (
        lambda f, x: f.max_unpool3d(*f.max_pool3d(x, 2, return_indices=True), 2),
        ((1, 16, 64, 64, 64),),
        (),
    ),
    **{
        f"{name}, 32 × 32 × 32": (lambda f, x, name=name: getattr(f, name)(x, 2), ((2, 16, 32, 32, 32),), ())
        for name in ("max_pool3d", "avg_pool3d")
    },
    "ctc_loss, 500 steps": (
        lambda f, x, i: f.ctc_loss(x.log_softmax(-1), i + 1, (500,) * 16, (50,) * 16),
        ((500, 16, 40),),
        (((16, 50), 39),),
    ),
    **{
        f"embedding_bag, {mode}": (
            lambda f, x, i, mode=mode: f.embedding_bag(i, x, mode=mode),
            ((100_000, 64),),
            (((10_000, 10), 100_000),),
        )
        for mode in ("sum", "mean", "max")
    },
    "unfold": (lambda f, x: f.unfold(x, 3, padding=1), (_IMAGES,), ()),
}


def work(peer: Peer, effort: Effort, notebook: Notebook, options: Mapping[str, Any]) -> None:
    """Measure a peer, in its own process."""
    library = functional(peer)
    for name, (f, shapes, indices) in CASES.items():
        rng = np.random.default_rng(0)
        arrays = [(rng.standard_normal(shape) / 2).astype(np.float32) for shape in shapes]
        fixed = [rng.integers(0, bound, shape) for shape, bound in indices]
        measured(peer, effort, notebook, name, lambda *xs, f=f: f(library, *xs), arrays, fixed)


def sections(effort: Effort, said: Callable[[str], None]) -> list[Section]:
    """Measure all peers."""
    figures = collect({name: Job("operations", name, ONE_THREAD, {}) for name in PEERS}, effort, said)
    how = (
        "float32, one thread, processor time, the best of several runs; forward alone, and with all gradients. "
        "Matrices are 128 × 1024, points 256 × 64, images 8 × 16 × 64 × 64, tables of embeddings 100,000 × 64."
    )
    return [
        Section(
            "Scans, reductions, losses, ordering, scattering, sampling", how, "ms", list(PEERS), lines(figures, CASES)
        )
    ]
