"""The host's time for training steps and operations on CuPy, beside PyTorch's on the CPU: CuPy computes nothing.

    python -m tests.hostcuda.host_time [--torch FOLDER] [MLP CNN mini-GPT ResNet-50 operations]

The models are those of the benchmarks, with tiny sizes, so that PyTorch computes little, too. ResNet-50 has its full
size, so that each layer takes the kernels that it takes on a GPU, and is measured without PyTorch. ``operations`` are
those of the benchmark of tiny operations. The steps of all take turns in one process, and the tenth percentile of the
process's time is shown. PyTorch is imported from a folder of packages; without one, its times are left out.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import cycle
from typing import Any

from tests.hostcuda import simulator

STEPS = {"MLP": 500, "CNN": 150, "mini-GPT": 80, "ResNet-50": 30, "operations": 200}
"""The number of steps by model; of operations, the number of rounds."""
_WARM = 5
_EACH = 50
"""The calls of an operation in a round."""


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
        if name == "operations":
            print(*operations(bool(given.torch)), sep="\n")
        else:
            print(f"{name:9}", *times(name, bool(given.torch)), sep="  ")


def times(name: str, with_torch: bool) -> list[str]:
    """Return the launches and microseconds of a step, and their ratio to PyTorch's."""
    from benchmarks.full_size import full_task
    from benchmarks.peers.ours import OurTraining
    from benchmarks.peers.ours_compiled import PlannedTraining
    from benchmarks.tasks import task
    from burnpy import Autodiff
    from burnpy.backend import CuPy, Mixed

    is_full = name == "ResNet-50"
    given = full_task("ResNet-50, 224 × 224", 64) if is_full else task(name, "float32", small=True)
    with_torch = with_torch and not is_full
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
    for label, context in () if is_full else (("compiled", nullcontext), ("CUDA graph", CuPy.graphs)):
        steps[label] = within(context, stepping(PlannedTraining(given, Autodiff(CuPy())), len(given.inputs)))
        steps[label]()  # with true numbers, as a recording computes with them
    with simulator.dry_run():
        launches = {label: warmed(step) for label, step in steps.items()}
        micros = in_turns(steps, STEPS[name])
    described = []
    for label, each in micros.items():
        of_torch = f", {each / micros['PyTorch']:.2f} × PyTorch" if with_torch and label != "PyTorch" else ""
        counted = f", {launches[label]} launches" if launches[label] else ""
        described.append(f"{label} {each:.0f} µs{of_torch}{counted}")
    return described


def operations(with_torch: bool) -> list[str]:
    """Return the microseconds of each operation, beside PyTorch's."""
    import numpy as np

    from benchmarks.gpu.launches import EXPRESSIONS
    from burnpy import Autodiff, Tensor
    from burnpy.backend import CuPy

    arrays = [np.ones(shape, np.float32) for shape in ((8,), (8, 8))]
    plain = [Tensor.from_data(a, device=CuPy) for a in arrays]
    tracked = [Tensor.from_data(a, device=Autodiff[CuPy]).require_grad() for a in arrays]
    runs: dict[str, Callable[[], Any]] = {name: partial(f, *plain) for name, (f, _) in EXPRESSIONS.items()}
    runs |= {f"{name}, tracked": partial(f, *tracked) for name, (f, _) in EXPRESSIONS.items()}
    if with_torch:
        import torch

        torch.set_num_threads(1)
        theirs = [torch.tensor(a) for a in arrays]
        leaves = [t.clone().requires_grad_() for t in theirs]
        runs |= {f"{name}, torch": partial(f, *theirs) for name, (f, _) in EXPRESSIONS.items()}
        runs |= {f"{name}, tracked, torch": partial(f, *leaves) for name, (f, _) in EXPRESSIONS.items()}
    with simulator.dry_run():
        micros = in_turns({label: repeated(run) for label, run in runs.items()}, STEPS["operations"])
    described = []
    for label, each in micros.items():
        if not label.endswith(", torch"):
            of_torch = f", PyTorch {micros[f'{label}, torch'] / _EACH:.2f} µs" if with_torch else ""
            described.append(f"{label:20} {each / _EACH:.2f} µs{of_torch}")
    return described


def repeated(run: Callable[[], Any]) -> Callable[[], None]:
    """Return a function that makes a round of calls."""

    def calls() -> None:
        for _ in range(_EACH):
            run()

    return calls


def in_turns(steps: Mapping[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """Return the microseconds of the process's time of each step, the tenth percentile of rounds in turns."""
    from burnpy.backend import CuPy

    spent: dict[str, list[float]] = {label: [] for label in steps}
    for _ in range(rounds):
        for label, step in steps.items():
            begin = time.process_time()
            step()
            spent[label].append(time.process_time() - begin)
        CuPy()._late._waiting.clear()
    return {label: sorted(each)[len(each) // 10] * 1e6 for label, each in spent.items()}


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
