"""What to run first on a machine with an NVIDIA GPU: ``make test-gpu``, some ten minutes.

One gradient; the conformance suite with CuPy's own reductions and with CUB's, which are what CuPy takes by default; and
examples. It has not been run on a GPU yet.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

SMOKE = """
from burnpy import Autodiff, Tensor
from burnpy.backend import CuPy
x = Tensor.from_data([[1.0, 2.0], [3.0, 4.0]], device=Autodiff[CuPy]).require_grad()
print(x.grad((x @ x).relu().sum().backward()))
"""
CONFORMANCE = ["-m", "pytest", "-q", "-n", "8", "--tb=line", "tests/conformance/test_cupy.py"]
STEPS = [
    ("one gradient", {}, ["-c", SMOKE], 60),
    ("values, CuPy's own reductions", {"CUPY_ACCELERATORS": ""}, [*CONFORMANCE, "-k", "test_values and plain"], 180),
    ("everything, CuPy's defaults", {}, CONFORMANCE, 240),
    ("training a CNN", {}, ["examples/digits.py", "--backend", "cupy", "--epochs", "5"], 60),
    ("training a GPT", {}, ["examples/char_gpt.py", "--backend", "cupy", "--steps", "120", "--length", "30"], 60),
]
"""What it is called, the environment, what Python is given, and the seconds that it may take."""


def main() -> int:
    """Run every step, also after one that fails, but for the first; 1 where one failed."""
    failed = []
    for name, environment, arguments, seconds in STEPS:
        print(f"== {name}", flush=True)
        begin = time.perf_counter()
        try:
            done = subprocess.run(
                [sys.executable, *arguments], env={**os.environ, **environment}, timeout=seconds, check=False
            )
            outcome = "passed" if done.returncode == 0 else "failed"
        except subprocess.TimeoutExpired:
            outcome = f"was not done after {seconds} s"
        if outcome != "passed":
            failed.append(name)
        print(f"== {name}: {outcome}, {time.perf_counter() - begin:.0f} s", flush=True)
        if failed == [STEPS[0][0]]:
            break
    print("all passed" if not failed else f"failed: {', '.join(failed)}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
