"""The host's time for a training step on CuPy, beside PyTorch's on the CPU: nothing is computed on CuPy.

    python -m tests.hostcuda.host_time [--torch FOLDER] [MLP CNN mini-GPT]

The models are those of the benchmarks, with tiny sizes, so that PyTorch computes little, too. The steps of all take
turns in one process, and the tenth percentile of the process's time is shown. PyTorch is imported from a folder of
packages; without one, its times are left out.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import cycle
from typing import Any

from tests.hostcuda import simulator

STEPS = {"MLP": 500, "CNN": 150, "mini-GPT": 80}
_WARM = 5


def main(arguments: list[str]) -> None:
    """Print a line for each model."""
    parser = argparse.ArgumentParser(prog="tests.hostcuda.host_time")
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"{', '.join(STEPS)}; by default all")
    parser.add_argument("--torch", default="", help="the folder of packages that has PyTorch")
    given = parser.parse_args(arguments)
    simulator.load()
    if given.torch:
        sys.path.append(given.torch)
    for name in given.models or STEPS:
        print(f"{name:9}", *times(name, bool(given.torch)), sep="  ")


def times(name: str, with_torch: bool) -> list[str]:
    """Return the launches and microseconds of a step, and their ratio to PyTorch's."""
    from benchmarks.peers.ours import OurTraining
    from benchmarks.peers.ours_compiled import PlannedTraining
    from benchmarks.tasks import task
    from burnpy import Autodiff
    from burnpy.backend import CuPy, Mixed

    given = task(name, "float32", small=True)
    runs: dict[str, Any] = {
        "CuPy": OurTraining(given, Autodiff(CuPy())),
        "Mixed[CuPy]": OurTraining(given, Autodiff(Mixed(CuPy()))),
    }
    if with_torch:
        import torch

        from benchmarks.peers.pytorch import TorchTraining

        torch.set_num_threads(1)
        runs["PyTorch"] = TorchTraining(given)
    steps = {label: stepping(run, len(given.inputs)) for label, run in runs.items()}
    for label, context in (("compiled", nullcontext), ("CUDA graph", CuPy.graphs)):
        steps[label] = within(context, stepping(PlannedTraining(given, Autodiff(CuPy())), len(given.inputs)))
        steps[label]()  # with true numbers, as a recording computes with them
    with simulator.dry_run():
        launches = {label: warmed(step) for label, step in steps.items()}
        spent: dict[str, list[float]] = {label: [] for label in steps}
        for _ in range(STEPS[name]):
            for label, step in steps.items():
                begin = time.process_time()
                step()
                spent[label].append(time.process_time() - begin)
            CuPy()._late._waiting.clear()
    micros = {label: sorted(each)[len(each) // 10] * 1e6 for label, each in spent.items()}
    described = []
    for label, each in micros.items():
        of_torch = f", {each / micros['PyTorch']:.2f} × PyTorch" if with_torch and label != "PyTorch" else ""
        counted = f", {launches[label]} launches" if launches[label] else ""
        described.append(f"{label} {each:.0f} µs{of_torch}{counted}")
    return described


def stepping(training: Any, batches: int) -> Callable[[], None]:
    """Return a function that makes the next step."""
    numbers = cycle(range(batches))

    def step() -> None:
        training.forward(next(numbers))
        training.backward()
        training.update()

    return step


def within(context: Callable[[], AbstractContextManager[Any]], step: Callable[[], None]) -> Callable[[], None]:
    """Return a step that is made within a context."""

    def inside() -> None:
        with context():
            step()

    return inside


def warmed(step: Callable[[], None]) -> int:
    """Make some steps, and return the launches of the last one."""
    for _ in range(_WARM):
        step()
    with simulator.watched() as journal:
        step()
    return len(journal.launches)


if __name__ == "__main__":
    main(sys.argv[1:])
