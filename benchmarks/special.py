"""Benchmark of special functions of a million values, forward and with the gradient of the last argument."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.measure import ONE_THREAD, Effort, Figures, Notebook
from benchmarks.networks import best
from benchmarks.peers import Peer
from benchmarks.processes import Job, collect
from benchmarks.report import Line, Section

PEERS = ("burnpy", "torch")
COUNT = 1_000_000
BUDGET = 1.5

Range = tuple[float, float]
RANGES: dict[str, tuple[Range, ...]] = {
    "i0": ((-20.0, 20.0),),
    "i0e": ((-20.0, 20.0),),
    "i1": ((-20.0, 20.0),),
    "i1e": ((-20.0, 20.0),),
    "gammainc": ((0.1, 30.0), (0.1, 36.0)),
    "gammaincc": ((0.1, 30.0), (0.1, 36.0)),
    "zeta": ((1.1, 8.0), (0.1, 9.0)),
    "erfcx": ((-5.0, 20.0),),
    "ndtr": ((-6.0, 6.0),),
    "log_ndtr": ((-20.0, 6.0),),
    "ndtri": ((0.0, 1.0),),
    "entr": ((0.0, 5.0),),
    "xlog1py": ((-3.0, 3.0), (-0.9, 4.0)),
}
"""The names in ``torch.special`` and in `burnpy.special`, and the range of each argument."""
DTYPES = ("float32", "float64")


def work(peer: Peer, effort: Effort, notebook: Notebook, options: Mapping[str, Any]) -> None:
    """Measure a peer, in its own process."""
    functions = import_module(f"{peer.package}.special")
    rng = np.random.default_rng(0)
    for name, ranges in RANGES.items():
        f = getattr(functions, name)
        for dtype in DTYPES:
            count = COUNT if effort.seconds else 64
            arrays = {str(k): rng.uniform(*ends, count).astype(dtype) for k, ends in enumerate(ranges)}
            untracked, tracked = peer.untracked(arrays), peer.tracked(arrays)
            plain = [untracked[key] for key in arrays]
            *fixed, leaf = [tracked[key] for key in arrays]
            fixed = [x.detach() for x in fixed]

            def total(x: Any, fixed: list[Any] = fixed, f: Callable[..., Any] = f) -> Any:
                return f(*fixed, x).sum()

            forward = partial(f, *plain)
            notebook.enter(f"{name} of {dtype}, forward", partial(best, forward, effort.seconds))
            both = partial(peer.gradients, total, [leaf])
            notebook.enter(f"{name} of {dtype}, gradients", partial(best, both, effort.seconds))


def sections(effort: Effort, said: Callable[[str], None]) -> list[Section]:
    """Measure both peers."""
    figures: Figures = collect({name: Job("special", name, ONE_THREAD, {}) for name in PEERS}, effort, said)
    lines = []
    for name in RANGES:
        for dtype in DTYPES:
            for what in ("forward", "gradients"):
                key = f"{name} of {dtype}, {what}"
                ratio = figures.ratio(("burnpy", key), ("torch", key))
                budget = BUDGET if what == "forward" else None
                lines.append(Line.of(key, figures, dict.fromkeys(PEERS, key), 1e3, ratio, budget))
    how = "A million values, one thread, processor time; gradients of the sum with respect to the last argument."
    return [Section("Special functions", how, "ms", PEERS, lines)]
