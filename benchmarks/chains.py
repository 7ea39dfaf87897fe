"""Benchmark of chains of operations, each on the result of the last: forward, gradients and freeing, per node.

A chain ends in a sum. The time is from the first operation until the graph, the loss and the gradients have been freed.
One operation is one node; a slice is two, ``x[i]`` and the addition to the running total.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import process_time
from typing import Any

import numpy as np

from benchmarks.measure import ONE_THREAD, Effort, Figures, Notebook
from benchmarks.peers import Array, Peer
from benchmarks.processes import Job, collect
from benchmarks.report import Line, Section

PEERS = ("burnpy", "torch", "autograd", "MyGrad")
LIMIT = {"autograd": 10_000, "MyGrad": 10_000}
"""The maximum number of nodes for slow peers, which would take minutes for longer chains."""

ROUNDS = 3
"""The number of measurements of each chain in a process, one per round over all chains: a slow second of the machine
then affects only one of them."""

TWICE = 10_000
FLAT = ("x * y", "sin")
FLAT_ROUNDS = 2
"""The number of measurements of the long chain, and of as many nodes in short ones."""
BUDGETS = {"× 1.0000001": 0.5, "x * y": 0.5, "sin": 0.5, "matmul 8×8": 0.5, "+ bias": 0.8, "slices": 0.5}


def chains(peer: Peer, n: int) -> dict[str, tuple[Callable[..., Any], Sequence[Array]]]:
    """Return, by name, the function of a chain of n nodes and the arrays that it is differentiated by."""
    sin, total = peer.sin, peer.total
    row = np.linspace(0.5, 1.5, 8, dtype=np.float32)
    square = np.outer(row, row)
    rotation = np.linalg.qr(square + np.eye(8))[0].astype(np.float32)

    def by_constant(x: Any) -> Any:
        for _ in range(n):
            x = x * 1.0000001
        return total(x)

    def by_tracked(x: Any, y: Any) -> Any:
        for _ in range(n):
            x = x * y
        return total(x)

    def sines(x: Any) -> Any:
        for _ in range(n):
            x = sin(x)
        return total(x)

    def products(m: Any, w: Any) -> Any:
        for _ in range(n):
            m = m @ w
        return total(m)

    def biases(m: Any, b: Any) -> Any:
        for _ in range(n):
            m = m + b
        return total(m)

    def slices(x: Any) -> Any:
        s = x[0]
        for i in range(n // 2):
            s = s + x[i & 7]
        return s

    return {
        "× 1.0000001": (by_constant, [row]),
        "x * y": (by_tracked, [row, np.full(8, 1.0000001, np.float32)]),
        "sin": (sines, [row]),
        "matmul 8×8": (products, [square, rotation]),
        "+ bias": (biases, [square, row * np.float32(1e-6)]),
        "slices": (slices, [row]),
    }


def own_slices(peer: Peer, n: int) -> tuple[Callable[..., Any], Sequence[Array]]:
    """Return the sum of n slices ``x[i]`` of a vector of n; each slice's gradient has one nonzero element."""

    def slices(x: Any) -> Any:
        s = x[0]
        for i in range(n):
            s = s + x[i]
        return s

    return slices, [np.ones(n, np.float32)]


def best(run: Callable[[], Any], seconds: float, collect: bool) -> float:
    """Return the minimum time of repeated runs, until they take three times ``seconds`` together; at least one run."""
    times: list[float] = []
    while not times or sum(times) < 3 * seconds:
        if seconds:
            gc.collect()
        (gc.enable if collect else gc.disable)()
        start = process_time()
        run()
        times.append(process_time() - start)
        gc.enable()
    return min(times)


def work(peer: Peer, effort: Effort, notebook: Notebook, options: Mapping[str, Any]) -> None:
    """Measure a peer, in its own process."""

    def per_node(
        f: Callable[..., Any], arrays: Sequence[Array], n: int, collect: bool = True, count: int | None = None
    ) -> float:
        """Return the time per node of a chain of n nodes: the best of several, or the mean of ``count`` of them."""
        leaves = [peer.leaf(array) for array in arrays]
        if count is None:
            return best(lambda: peer.gradients(f, leaves), effort.seconds, collect) / n

        def several() -> None:
            for _ in range(count):
                peer.gradients(f, leaves)

        return best(several, 0.0, collect) / (n * count)

    def twice(f: Callable[..., Any], arrays: Sequence[Array], n: int) -> float:
        return best(peer.gradients_recorded(f, arrays), effort.seconds, True) / n

    lengths = {n: chains(peer, n) for n in effort.nodes if n <= options["limit"]}
    nested, first, last = min(TWICE, effort.nodes[-1]), effort.nodes[0], effort.nodes[-1]
    measured: dict[str, Callable[[], float]] = {}  # figures of one ratio are adjacent, to be measured close in time
    for name in BUDGETS:
        for n, functions in lengths.items():
            measured[f"{name}/{n}"] = partial(per_node, *functions[name], n)
            if name in FLAT and options["flat"] and n in (first, last):
                for on in (False, True):
                    key = f"{name}/{last} of {n}/{'on' if on else 'off'}"
                    measured[key] = partial(per_node, *functions[name], n, on, last // n)
        if options["flat"]:
            f, arrays = chains(peer, nested)[name]
            measured[f"{name}/once"] = partial(per_node, f, arrays, nested)
            measured[f"{name}/twice"] = partial(twice, f, arrays, nested)
    for n in (m for m in effort.nodes if m <= TWICE):
        measured[f"own slices/{n}"] = partial(per_node, *own_slices(peer, n), 2 * n)
    for _ in range(ROUNDS if effort.seconds else 1):
        for key, measure in measured.items():
            notebook.enter(key, measure)


def sections(effort: Effort, said: Callable[[str], None]) -> list[Section]:
    """Measure all peers."""
    jobs = {
        name: Job("chains", name, ONE_THREAD, {"limit": LIMIT.get(name, effort.nodes[-1]), "flat": name not in LIMIT})
        for name in PEERS
    }
    figures = collect(jobs, effort, said)
    return [_chains(figures, effort), _flatness(figures, effort), _nested(figures, effort)]


def _chains(figures: Figures, effort: Effort) -> Section:
    lines = []
    for name, budget in BUDGETS.items():
        for n in effort.nodes:
            key = f"{name}/{n}"
            ratio = figures.ratio(("burnpy", key), ("torch", key))
            keys = dict.fromkeys(PEERS, key)
            lines.append(Line.of(f"{name}, {n:,} nodes", figures, keys, 1e6, ratio, budget, curve=(name, n)))
    for n in (m for m in effort.nodes if m <= TWICE):
        key = f"own slices/{n}"
        ratio = figures.ratio(("burnpy", key), ("torch", key))
        lines.append(Line.of(f"{n:,} slices of a vector of {n:,}", figures, dict.fromkeys(PEERS, key), 1e6, ratio, 0.5))
    how = (
        "Forward, gradients and freeing, per node; one thread, processor time, garbage collector on. "
        "autograd and MyGrad up to 10,000 nodes."
    )
    return Section("Chains", how, "µs", PEERS, lines)


def _flatness(figures: Figures, effort: Effort) -> Section:
    first, last = effort.nodes[0], effort.nodes[-1]
    count = last // first
    columns = {
        f"burnpy, {count:,} of {first:,}": ("burnpy", first),
        f"burnpy, one of {last:,}": ("burnpy", last),
        f"torch, {count:,} of {first:,}": ("torch", first),
        f"torch, one of {last:,}": ("torch", last),
    }
    lines = []
    for name in FLAT:
        for collector, budget in (("off", 1.2), ("on", 1.4)):
            keys = {n: f"{name}/{last} of {n}/{collector}" for n in (first, last)}
            cells = {column: (peer, keys[n]) for column, (peer, n) in columns.items()}
            for peer in ("burnpy", "torch"):
                ratio = figures.ratio((peer, keys[last]), (peer, keys[first]))
                work = f"{name}, garbage collector {collector}"
                if peer == "burnpy":
                    lines.append(Line.across(work, figures, cells, 1e6, ratio, budget))
                else:
                    lines.append(Line(f"{work}: torch's ratio", {}, ratio, None))
    how = (
        f"As many nodes in one chain as in {count:,} short ones, one after the other. The ratio is the time of the "
        "long chain divided by the time of the short ones: 1 would be flat."
    )
    return Section("Long chains against short ones", how, "µs", list(columns), lines)


def _nested(figures: Figures, effort: Effort) -> Section:
    lines = []
    for name in BUDGETS:
        once, twice = f"{name}/once", f"{name}/twice"
        columns = {
            "burnpy": ("burnpy", once),
            "burnpy, recorded": ("burnpy", twice),
            "torch": ("torch", once),
            "torch, recorded": ("torch", twice),
        }
        ratio = figures.ratio(("burnpy", twice), ("burnpy", once))
        lines.append(Line.across(name, figures, columns, 1e6, ratio, 2.0))
    how = (
        f"{min(TWICE, effort.nodes[-1]):,} nodes, gradients that can be differentiated again "
        "(burnpy: Autodiff[Autodiff[NumPy]]; torch: create_graph=True) over gradients that cannot."
    )
    return Section("Twice nested against once", how, "µs", list(columns), lines)
