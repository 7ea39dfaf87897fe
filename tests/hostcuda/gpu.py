"""What to run first on a machine with an NVIDIA GPU: ``make test-gpu``, some ten minutes.

One gradient; streams, memory and exchange; the conformance suite with CuPy's own reductions and with CUB's, which are
what CuPy takes by default; 10,000 steps; examples; and the kernels that scatter under compute-sanitizer, where that is
installed. It has not been run on a GPU yet. ``--rehearse`` runs the steps on the CPU, the suite in a small part.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from typing import NamedTuple

SMOKE = """
from burnpy import Autodiff, Tensor
from burnpy.backend import CuPy
x = Tensor.from_data([[1.0, 2.0], [3.0, 4.0]], device=Autodiff[CuPy]).require_grad()
print(x.grad((x @ x).relu().sum().backward()), CuPy().memory())
"""
GPT = """
import sys
sys.path.insert(0, "examples")
from burnpy import Autodiff
from burnpy.backend import CuPy
from char_gpt import train
train(Autodiff[CuPy], steps={}, seed=0, length={})
"""
REHEARSED = "import tests.hostcuda.simulator as s; s.load()\n"
CONFORMANCE = ["-m", "pytest", "-q", "--tb=line", "tests/conformance/test_cupy.py"]
CHECKS = ["-m", "tests.hostcuda.gpu_checks"]


class Step(NamedTuple):
    """A step: what it is called, the seconds that it may take, and what Python is given."""

    name: str
    seconds: int
    arguments: list[str]
    rehearsal: list[str] | None  #: what Python is given in a rehearsal; None to leave it out
    environment: dict[str, str] = {}  # noqa: RUF012  # never changed
    under: str = ""  #: the program that Python runs under, left out where it is not installed


STEPS = [
    Step("one gradient", 60, ["-c", SMOKE], ["-c", REHEARSED + SMOKE]),
    *(
        Step(name.replace("_", " "), 60, [*CHECKS, name], [*CHECKS, name, "--rehearse"])
        for name in (
            "streams",
            "order",
            "loading",
            "late_checks",
            "full_memory",
            "dlpack",
            "graphs",
            "tiles",
            "epilogues",
        )
    ),
    Step(
        "values, CuPy's own reductions",
        120,
        [*CONFORMANCE, "-n", "8", "-k", "test_values"],
        None,
        {"CUPY_ACCELERATORS": ""},
    ),
    Step(
        "everything, gradients by differences too, CuPy's defaults",
        240,
        [*CONFORMANCE, "-n", "8"],
        [*CONFORMANCE, "-p", "tests.hostcuda.plugin", "-n", "0", "-k", "maximum"],
    ),
    Step("10,000 steps with flat memory", 120, [*CHECKS, "flat_memory"], [*CHECKS, "flat_memory", "--rehearse"]),
    Step(
        "scatters under compute-sanitizer",
        120,
        [*CHECKS, "scatters"],
        [*CHECKS, "scatters", "--rehearse"],
        under="compute-sanitizer",
    ),
    Step("training a CNN", 60, ["examples/digits.py", "--backend", "cupy", "--epochs", "5"], None),
    Step("training a GPT", 60, ["-c", GPT.format(120, 30)], ["-c", REHEARSED + GPT.format(1, 1)]),
]


def main(rehearse: bool) -> int:
    """Run every step, also after one that fails, but for the first; 1 where one failed."""
    failed = []
    for step in STEPS:
        arguments = step.rehearsal if rehearse else step.arguments
        if arguments is None:
            print(f"== {step.name}: left out of the rehearsal", flush=True)
            continue
        command = [sys.executable, *arguments]
        if step.under and not rehearse:
            program = shutil.which(step.under)
            if program is None:
                print(f"== {step.name}: left out, as {step.under} is not installed", flush=True)
                continue
            command = [program, "--error-exitcode", "9", *command]
        print(f"== {step.name}", flush=True)
        begin = time.perf_counter()
        outcome = run(command, {**os.environ, **step.environment}, step.seconds * (10 if rehearse else 1))
        if outcome != "passed":
            failed.append(step.name)
        print(f"== {step.name}: {outcome}, {time.perf_counter() - begin:.0f} s", flush=True)
        if failed == [STEPS[0].name]:
            break
    print("all passed" if not failed else f"failed: {', '.join(failed)}")
    return int(bool(failed))


def run(command: list[str], environment: dict[str, str], seconds: int) -> str:
    """Run a command, and return how it ended."""
    try:
        done = subprocess.run(command, env=environment, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return f"was not done after {seconds} s"
    return "passed" if done.returncode == 0 else "failed"


if __name__ == "__main__":
    sys.exit(main("--rehearse" in sys.argv[1:]))
