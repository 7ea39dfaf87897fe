"""Benchmark of linear algebra and einsum: of batches of small matrices and of one of 512 × 512, float32.

Each is a function of one or two arguments, forward, and forward with gradients of the sum of its result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.measure import ONE_THREAD, Effort, Figures, Notebook
from benchmarks.networks import best
from benchmarks.peers import Array, Peer
from benchmarks.processes import Job, collect
from benchmarks.report import Line, Section

PEERS = ("burnpy", "torch")
SHAPES = {"64 of 8 × 8": (64, 8, 8), "512 × 512": (512, 512)}
SMALL = (2, 3, 3)
"""The shape of all matrices where it is only found out whether everything runs."""

Function = Callable[[Any, Any, Any], Any]
FUNCTIONS: dict[str, Function] = {
    "cholesky": lambda lib, x, y: lib.linalg.cholesky(x),
    "solve": lambda lib, x, y: lib.linalg.solve(x, y),
    "solve_triangular": lambda lib, x, y: lib.linalg.solve_triangular(x, y, upper=False),
    "inv": lambda lib, x, y: lib.linalg.inv(x),
    "det": lambda lib, x, y: lib.linalg.det(x),
    "slogdet": lambda lib, x, y: lib.linalg.slogdet(x)[1],
    "eigh": lambda lib, x, y: lib.linalg.eigh(x)[0],
    "qr": lambda lib, x, y: lib.linalg.qr(x)[1],
    "svd": lambda lib, x, y: lib.linalg.svd(x, False)[1],
    "log-determinant by cholesky": lambda lib, x, y: lib.linalg.cholesky(x).diagonal(0, -2, -1).log(),
}
"""Functions of a library, a positive definite matrix and another."""

EQUATIONS = {
    "ij,jk->ik": ((8, 8), (8, 8)),
    "bhqd,bhkd->bhqk": ((4, 4, 64, 32), (4, 4, 64, 32)),
    "bqhd,bkhd->bhqk": ((4, 64, 4, 32), (4, 64, 4, 32)),
    "bij,bj->bi": ((64, 32, 32), (64, 32)),
    "abc,cd->abd": ((32, 64, 64), (64, 64)),
}
LOGDET = "log-determinant by cholesky, 512 × 512, gradients"


def cases(effort: Effort) -> dict[str, tuple[Function, Array, Array]]:
    """Return functions and their arguments by name."""
    rng = np.random.default_rng(0)
    cases_by_name: dict[str, tuple[Function, Array, Array]] = {}
    for size, full in SHAPES.items():
        shape = full if effort.seconds else SMALL
        a = rng.normal(size=shape)
        positive = a @ a.swapaxes(-1, -2) / shape[-1] + np.eye(shape[-1])
        for name, f in FUNCTIONS.items():
            cases_by_name[f"{name}, {size}"] = f, positive.astype(np.float32), a.astype(np.float32)
    for equation, shapes in EQUATIONS.items():
        sizes = shapes if effort.seconds else [[min(n, SMALL[-1]) for n in shape] for shape in shapes]
        x, y = (rng.normal(size=size).astype(np.float32) for size in sizes)
        cases_by_name[equation] = partial(_einsum, equation), x, y
    return cases_by_name


def _einsum(equation: str, lib: Any, x: Any, y: Any) -> Any:
    return lib.einsum(equation, x, y)


def work(peer: Peer, effort: Effort, notebook: Notebook, options: Mapping[str, Any]) -> None:
    """Measure a peer, in its own process."""
    lib = import_module(peer.package)
    for name, (f, x, y) in cases(effort).items():
        plain = peer.untracked({"x": x, "y": y})

        def total(x: Any, y: Any = plain["y"], f: Function = f) -> Any:
            return f(lib, x, y).sum()

        forward = partial(f, lib, plain["x"], plain["y"])
        notebook.enter(f"{name}, forward", partial(best, forward, effort.seconds))
        tracked = peer.tracked({"x": x, "y": y})
        leaves = [tracked[k] for k in ("xy" if name in EQUATIONS or name.startswith("solve") else "x")]
        both = partial(peer.gradients, total, leaves)
        notebook.enter(f"{name}, gradients", partial(best, both, effort.seconds))


def sections(effort: Effort, said: Callable[[str], None]) -> list[Section]:
    """Measure all peers."""
    figures: Figures = collect({name: Job("linalg", name, ONE_THREAD, {}) for name in PEERS}, effort, said)
    lines = []
    for name in cases(effort):
        for what in ("forward", "gradients"):
            key = f"{name}, {what}"
            ratio = figures.ratio(("burnpy", key), ("torch", key))
            lines.append(Line.of(key, figures, dict.fromkeys(PEERS, key), 1e3, ratio, 1.2 if key == LOGDET else 1.5))
    how = (
        "float32, one thread, processor time. burnpy calls LAPACK by NumPy for small matrices, and by SciPy for those "
        "of many rows, where it is installed."
    )
    return [Section("Linear algebra and einsum", how, "ms", PEERS, lines)]
