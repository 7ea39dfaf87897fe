"""Benchmark of differential equations: Lorenz's, compiled, with and without gradients, beside SciPy's `solve_ivp`.

SciPy gets the same tolerances, and its Runge-Kutta method of the same order; it has no gradients. Its function takes
and returns lists of Python numbers, which is the fastest for three of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from benchmarks.measure import ONE_THREAD, Effort, Figures, Notebook
from benchmarks.networks import best
from benchmarks.peers import Peer
from benchmarks.processes import Job, collect
from benchmarks.report import Line, Section

OURS, THEIRS = "burnpy, compiled", "SciPy"
JOB = "burnpy"
PLAIN, GRADIENT = "Lorenz to t = 10", "Lorenz to t = 10, with gradients"
SCIPY = "Lorenz to t = 10 by SciPy"
TOLERANCES: Mapping[str, Any] = {"rtol": 1e-6, "atol": 1e-6}
START, RATES = [1.0, 1.0, 1.0], [10.0, 28.0, 8 / 3]
BUDGET = 1.0
"""Of SciPy's time without gradients."""


def work(peer: Peer, effort: Effort, notebook: Notebook, options: Mapping[str, Any]) -> None:
    """Measure both, in one process."""
    from scipy.integrate import solve_ivp

    from burnpy import Tensor, compiled, func, stack
    from burnpy.backend import NumPy

    end = 10.0 if effort.seconds else 0.1

    def solved(rates: Any, start: Any) -> Any:
        def lorenz(t: Any, y: Any) -> Any:
            a, b, c = y.unbind()
            return stack([rates[0] * (b - a), a * (rates[1] - c) - b, a * b - rates[2] * c])

        return func.odeint(lorenz, start, [0.0, end], **TOLERANCES).y[-1].sum()

    def plain(t: float, y: Any) -> list[float]:
        a, b, c = y
        return [RATES[0] * (b - a), a * (RATES[1] - c) - b, a * b - RATES[2] * c]

    given = [Tensor[NumPy].from_data(values, dtype="float64") for values in (RATES, START)]
    forward, both = compiled(solved), compiled(func.value_and_grad(solved, argnums=(0, 1)))
    for run in (forward, both):
        run(*given)
    notebook.enter(PLAIN, partial(best, partial(forward, *given), effort.seconds))
    notebook.enter(SCIPY, partial(best, partial(solve_ivp, plain, (0.0, end), START, **TOLERANCES), effort.seconds))
    notebook.enter(GRADIENT, partial(best, partial(both, *given), effort.seconds))


def sections(effort: Effort, said: Callable[[str], None]) -> list[Section]:
    """Measure both."""
    figures: Figures = collect({JOB: Job("solvers", JOB, ONE_THREAD, {})}, effort, said)
    lines = []
    for key in (PLAIN, GRADIENT):
        columns = {OURS: (JOB, key), THEIRS: (JOB, SCIPY)}
        lines.append(Line.across(key, figures, columns, 1e3, figures.ratio((JOB, key), (JOB, SCIPY)), BUDGET))
    how = "One thread, processor time. SciPy computes no gradients: its figure is the same in both rows."
    return [Section("Solvers", how, "ms", (OURS, THEIRS), lines)]
