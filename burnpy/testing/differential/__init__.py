"""A differential machine: random functions of tensors, each computed in many ways that must agree.

The functions, *samples*, are made from a seed: of the schema's operations with the arguments of the conformance suite's
rows, and of building blocks such as loops, checkpoints, solvers and distributions. `TRANSFORMATIONS` is the table of
the ways: derivatives against differences, narrow floats against float64, compiled functions, batches, decorators, and
nestings of these. A failure is a sample of few operations, as runnable code.

A third party's backend, or an operation of one's own, is tried in one call, in a test::

    from burnpy.testing.differential import Block, differential
    def test_my_backend() -> None:
        differential(MyBackend, count=300)
    def test_my_operation() -> None:
        differential(NumPy, count=300, blocks=[Block("mine", mine, ((x(2, 3),),))])

``python -m burnpy.testing.differential --seconds 600`` goes on from a seed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from burnpy.backend import NumPy
from burnpy.backend.devices import device_of
from burnpy.testing.cases.blocks import BLOCKS, Block
from burnpy.testing.differential.calls import block, call, constant, described, fitted, flat, near, within
from burnpy.testing.differential.judging import compare
from burnpy.testing.differential.machine import Failure, Report, chosen, run
from burnpy.testing.differential.samples import Case, Unsuitable
from burnpy.testing.differential.transformations import TRANSFORMATIONS, Transformation

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from burnpy.backend.backend import Backend

__all__ = [
    "BLOCKS",
    "TRANSFORMATIONS",
    "Block",
    "Failure",
    "Report",
    "Transformation",
    "block",
    "call",
    "check",
    "constant",
    "described",
    "differential",
    "fitted",
    "flat",
    "near",
    "within",
]


def differential(
    backend: Backend | type[Backend],
    *,
    seed: int | None = 0,
    count: int | None = 300,
    seconds: float | None = None,
    only: str | None = None,
    plans: float = 0.1,
    each: int = 6,
    blocks: Sequence[Block] = (),
    entries: Sequence[str] | None = None,
) -> Report:
    """Make samples, compare some transformations of each, and raise an error with those that disagree.

    Args:
        backend: the backend that computes, as a class, an alias or a device.
        seed: the seed of the samples; None for another one each time.
        count: the number of samples; None for as many as there is time for.
        seconds: the time after which no further sample is tried.
        only: words, separated by commas; transformations whose names contain one are tried.
        plans: the share of the samples that are compiled, too, which takes longest.
        each: the number of transformations of a sample, and a third as many that compile.
        blocks: further building blocks, which are tried most often.
        entries: operations and building blocks that samples may have, by name; None for all.

    Returns:
        The numbers of comparisons, by transformation.

    Raises:
        AssertionError: transformations disagree; the message has a short sample of each as code.

    >>> report = differential(NumPy, count=2, only="vmap(f)", entries=["add", "mul", "sum"])
    >>> report.samples
    2
    """
    chosen_seed = int.from_bytes(os.urandom(4), "little") if seed is None else seed
    report = run(
        backend,
        chosen_seed,
        count=count,
        seconds=seconds,
        only=only,
        plans=plans,
        each=each,
        blocks=blocks,
        entries=entries,
    )
    if report.failures:
        raise AssertionError("\n".join([f"{len(report.failures)} samples disagree:", *map(str, report.failures)]))
    return report


def check(
    f: Callable[..., Any],
    inputs: Sequence[ArrayLike],
    backend: Backend | type[Backend] = NumPy,
    *,
    only: str | None = None,
) -> None:
    """Compare all transformations of one function, at given arguments.

    Args:
        f: a function of float tensors that returns a tensor, or a tuple of them.
        inputs: its arguments, as arrays, which become float64 tensors.
        backend: the backend that computes.
        only: words, separated by commas; transformations whose names contain one are tried.

    Raises:
        AssertionError: a transformation disagrees.

    >>> check(lambda x: x.sin() * x.sum(), [np.array([0.5, 2.0])], only="grad(f) = differences")
    """
    case = Case(f, [np.asarray(x) for x in inputs], device_of(backend))
    for t in chosen(only):
        try:
            with np.errstate(all="ignore"):
                wrong = compare(case, t)
        except Unsuitable:
            continue
        assert wrong is None, f"{t.name}: {wrong}"
