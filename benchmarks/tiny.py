"""Benchmark of tiny operations on 8 or 8×8 float32 elements: untracked, tracked forward, and forward with gradients.

Each is a statement, as a user writes it, in loops of `timeit` with the garbage collector on; the fastest loop counts.
Forward alone includes dropping the result and its graph. Forward with gradients includes reading the gradient of every
tracked operand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from benchmarks.measure import ONE_THREAD, Effort, Figures, Notebook, seconds_each
from benchmarks.peers import EXPRESSIONS, NETWORKS, Array, Peer
from benchmarks.processes import Job, collect
from benchmarks.report import Line, Section

PEERS = ("burnpy", "torch", "autograd", "MyGrad", "NumPy")
MODES = {
    "untracked": "Tiny operations, untracked",
    "tracked": "Tiny operations, tracked, forward",
    "gradients": "Tiny operations, forward and gradients",
}
LEAVES = {
    **dict.fromkeys(("add", "mul", "div", "cat", "stack"), "xy"),
    **dict.fromkeys(("matmul 8×8", "where"), "mw"),
    **dict.fromkeys(("softmax", "log_softmax", "cross_entropy", "transpose"), "m"),
    "+ bias": "mx",
    "layer_norm": "mxy",
}
"""The operands that each expression is differentiated by, if other than x alone."""

SEEDS = {
    **dict.fromkeys(("matmul 8×8", "+ bias", "softmax", "log_softmax", "layer_norm", "where", "transpose"), "square"),
    **dict.fromkeys(("sum", "x[i]", "cross_entropy", "mean", "max")),
    "reshape": "oblong",
    "cat": "long",
    "stack": "pair",
}
"""The name of the gradient to start from, if it is not the one of 8 elements."""
GRADIENTS = {"row": (8,), "square": (8, 8), "oblong": (2, 4), "long": (16,), "pair": (2, 8)}
"""The shapes of the gradients to start from."""

ROUNDS = 10
"""The number of measurements of each operation in a process, one per round over all operations: a slow second of the
machine then affects only one of them."""

LOOSE, CONSTANT = {"+ bias", "sum", "x[i]"}, {"x > y"}
"""The operations with a wider budget, and those that have no gradient."""


def budget(operation: str, mode: str) -> float | None:
    """Return the maximum ratio to PyTorch's time; None for operations without a budget."""
    if mode == "gradients":
        return None
    if operation == "softmax" or operation in NETWORKS:
        return 1.5
    return 0.95 if operation in LOOSE else 0.55


def arrays() -> Mapping[str, Array]:
    """Return the operands, positive numbers around 1, and the gradients to start from."""
    rng = np.random.default_rng(0)
    shapes = {"x": (8,), "y": (8,), "m": (8, 8), "w": (8, 8)} | GRADIENTS
    numbers = {name: rng.uniform(0.5, 1.5, shape).astype(np.float32) for name, shape in shapes.items()}
    choices: dict[str, Any] = {"classes": rng.integers(0, 8, 8), "mask": rng.integers(0, 2, (8, 8)).astype(np.bool_)}
    return numbers | choices


def work(peer: Peer, effort: Effort, notebook: Notebook, options: Mapping[str, Any]) -> None:
    """Measure a peer, in its own process."""
    operands = arrays()
    untracked = peer.untracked(operands)
    statements = {f"untracked/{operation}": (e, untracked) for operation, e in peer.expressions.items()}
    if options["tracked"]:
        names = peer.tracked(operands) | {name: untracked[name] for name in GRADIENTS}
        for operation, expression in peer.expressions.items():
            whole = peer.differentiated(expression, LEAVES.get(operation, "x"), SEEDS.get(operation, "row"))
            statements[f"tracked/{operation}"] = expression, names
            if operation not in CONSTANT:
                statements[f"gradients/{operation}"] = whole, names
    for _ in range(ROUNDS if effort.seconds else 1):
        for key, (statement, names) in statements.items():
            notebook.enter(key, partial(seconds_each, statement, names, effort.seconds / ROUNDS))


def sections(effort: Effort, said: Callable[[str], None]) -> list[Section]:
    """Measure all peers."""
    jobs = {name: Job("tiny", name, ONE_THREAD, {"tracked": name != "NumPy"}) for name in PEERS}
    figures = collect(jobs, effort, said)
    return [_section(figures, mode, title) for mode, title in MODES.items()]


def _section(figures: Figures, mode: str, title: str) -> Section:
    columns = [name for name in PEERS if name != "NumPy" or mode == "untracked"]
    lines = []
    constant = CONSTANT if mode == "gradients" else ()
    for operation in EXPRESSIONS | NETWORKS:
        if operation in constant:
            continue
        key = f"{mode}/{operation}"
        ratio = figures.ratio(("burnpy", key), ("torch", key))
        lines.append(Line.of(operation, figures, dict.fromkeys(columns, key), 1e6, ratio, budget(operation, mode)))
    return Section(
        title, "8 or 8×8 float32 elements, one thread, processor time, garbage collector on.", "µs", columns, lines
    )
