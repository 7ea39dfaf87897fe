"""The first checks to run on a machine with an NVIDIA GPU: ``make test-gpu``, nine minutes at most.

    PYTHONPATH=.:backends python -m tests.hostcuda.gpu [--out FOLDER] [--only WORD] [--rehearse]

It installs nothing, and says what it finds: CuPy, PyTorch, pytest and compute-sanitizer. The steps that tell most come
first. Each is a process that is ended after its time, with all that it started. Every outcome is written to
``results.txt`` in the folder at once, and what a step prints to a file of its own. ``--rehearse`` runs the same on the
CPU, with tiny sizes and the conformance suite in a small part.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

LIMIT = 540.0
"""The seconds after which nothing runs any more."""
GRACE = 3.0
"""The seconds in which processes that are killed end, unless they are in a call of the driver that hangs."""
PROCESSES = 14
"""The processes of the conformance suite."""
NO_TESTS = 5
"""The status of pytest for a part without tests."""
PART = "BURNPY_PART"
"""The environment variable that names the part of the tests that a process runs, as in 3/14."""

LOADED = "import tests.hostcuda.simulator as s; s.load()\n"
SMOKE = """
from burnpy import Autodiff, Tensor
from burnpy.backend import CuPy
x = Tensor.from_data([[1.0, 2.0], [3.0, 4.0]], device=Autodiff[CuPy]).require_grad()
found = x.grad((x @ x).relu().sum().backward())
print(found, CuPy().memory())
assert found.tolist() == [[7.0, 11.0], [9.0, 13.0]]
"""


class Step(NamedTuple):
    """A step."""

    name: str
    seconds: float  #: that it may take
    arguments: list[str]  #: of Python
    environment: dict[str, str] = {}  # noqa: RUF012  # never changed
    under: tuple[str, ...] = ()  #: the program that Python runs under, with its arguments
    processes: int = 1  #: that each run a part of the tests
    needs: str = ""  #: a package without which it is left out


def checks(seconds: float, *names: str) -> list[Step]:
    """Return a step for each of these functions of `gpu_checks`."""
    return [Step(name.replace("_", " "), seconds, ["-m", "tests.hostcuda.gpu_checks", name]) for name in names]


def sanitized(tool: str) -> Step:
    """Return the kernels that share memory under a tool of compute-sanitizer."""
    under = ("compute-sanitizer", "--tool", tool, "--error-exitcode", "9")
    return Step(tool, 25, ["-m", "tests.hostcuda.gpu_checks", "shared_memory"], under=under)


def measured(part: str, seconds: float) -> Step:
    """Return a part of the benchmarks, which print each line at once."""
    return Step(f"times of {part}", seconds, ["-m", "benchmarks.gpu", "--part", part, "--out", f"{{out}}/{part}.json"])


CONFORMANCE = ["-m", "pytest", "-v", "--tb=short", "-p", "no:cacheprovider", "-p", "tests.hostcuda.gpu"]
STEPS = [
    Step("one gradient", 40, ["-c", SMOKE]),
    *checks(
        30,
        "reused_thread",
        "epilogues",
        "graphs",
        "draws",
        "tiles",
        "convolutions",
        "recurrent_layers",
        "late_checks",
        "streams",
    ),
    sanitized("racecheck"),
    sanitized("synccheck"),
    Step(
        "conformance",
        150,
        [*CONFORMANCE, "tests/conformance/test_cupy.py"],
        {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        processes=PROCESSES,
        needs="pytest",
    ),
    measured("roofline", 30),
    measured("steps", 110),
    measured("operations", 40),
    *checks(30, "order", "loading", "full_memory", "large_arrays", "dlpack", "scatters", "flat_memory"),
]


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Keep one part of the tests, where this module is a plugin of pytest."""
    part, parts = map(int, os.environ.get(PART, "0/1").split("/"))
    items[:] = [item for item in items if zlib.crc32(item.nodeid.encode()) % parts == part]


class Report:
    """The file of results, in which each line stands as soon as it is known."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / "results.txt").open("w", encoding="utf-8")
        self.begin = time.monotonic()

    def tell(self, line: str) -> None:
        """Write a line, with the seconds since the beginning."""
        line = f"{time.monotonic() - self.begin:5.0f} s  {line}"
        print(line, flush=True)
        print(line, file=self._file, flush=True)
        os.fsync(self._file.fileno())

    @property
    def left(self) -> float:
        """The seconds that are left."""
        return LIMIT - (time.monotonic() - self.begin)


def main(arguments: list[str]) -> int:
    """Run every step, also after one that fails, but for the first; return 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostcuda.gpu", description="Run CuPy's checks on a GPU.")
    parser.add_argument(
        "--out", type=Path, default=Path("out/gpu"), help="the folder of results (default: %(default)s)"
    )
    parser.add_argument("--only", default="", help="the steps whose names contain this word")
    parser.add_argument("--rehearse", action="store_true", help="on the CPU, with tiny sizes")
    options = parser.parse_args(arguments)
    if not options.rehearse:
        faulthandler.dump_traceback_later(LIMIT, exit=True)  # whatever this process itself waits for
    report, failed = Report(options.out), list[str]()
    for line in found():
        report.tell(line)
    for number, step in enumerate(STEPS):
        if options.only not in step.name:
            continue
        outcome = run(number, step, options.out, report.left, options.rehearse)
        report.tell(f"{step.name}: {outcome}")
        if not outcome.startswith(("passed", "left out")):
            failed.append(step.name)
        if failed == [STEPS[0].name]:
            break
    report.tell("all passed" if not failed else f"failed: {', '.join(failed)}")
    faulthandler.cancel_dump_traceback_later()
    return int(bool(failed))


def found() -> list[str]:
    """Return what this machine has, in sentences."""
    lines = [f"Python {sys.version.split()[0]}"]
    packages = ("cupy-cuda13x", "cupy-cuda12x", "cupy", "torch", "numpy", "ml_dtypes", "pytest", "jax")
    for name in packages:
        try:
            lines.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            lines.append(f"{name} is not installed")
    for program in ("nvidia-smi", "compute-sanitizer"):
        lines.append(f"{program}: {shutil.which(program) or 'not found'}")
    if shutil.which("nvidia-smi"):
        query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
        with tempfile.TemporaryFile("w+") as said:  # a pipe would be read until the process ends, whatever hangs
            running = subprocess.Popen(query, stdout=said, stderr=said, start_new_session=True)
            (outcome,) = ended([running], time.monotonic() + 15)
            said.seek(0)
            lines.append(said.read().strip() if outcome != HANGS else "nvidia-smi hangs")
    return lines


def run(number: int, step: Step, out: Path, left: float, rehearse: bool) -> str:
    """Run a step, and return how it ended."""
    if step.needs and not _is_installed(step.needs):
        return f"left out, as {step.needs} is not installed"
    under = list(step.under)
    if under and not rehearse:
        program = shutil.which(under[0])
        if program is None:
            return f"left out, as {under[0]} is not found"
        under[0] = program
    seconds = step.seconds * 20 if rehearse else min(step.seconds, left - 5)  # g++ compiles what NVRTC would
    if seconds <= 0:
        return "left out, as no time is left"
    command = [argument.format(out=out) if "{out}" in argument else argument for argument in step.arguments]
    if rehearse:
        command, under = rehearsal(command), []
    processes, begin = [], time.monotonic()
    parts = 2 if rehearse and step.processes > 1 else step.processes
    for part in range(parts):
        name = f"{number:02d}-{step.name.replace(' ', '-')}{f'-{part}' if parts > 1 else ''}.log"
        environment = {**os.environ, **step.environment, "PYTHONUNBUFFERED": "1", PART: f"{part}/{parts}"}
        with (out / name).open("w", encoding="utf-8") as log:
            running = subprocess.Popen(
                [*under, sys.executable, *command],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        processes.append((running, out / name))
    outcomes = ended([running for running, _ in processes], begin + seconds)
    failures = [f"{each}, see {log}" for each, (_, log) in zip(outcomes, processes, strict=True) if each != "passed"]
    worst = failures[0] if failures else "passed"
    taken = f"{worst}, {time.monotonic() - begin:.0f} s"
    logs = [log.read_text(encoding="utf-8", errors="replace") for _, log in processes]
    return f"{taken}\n{_tests(logs) if step.processes > 1 else _last_lines(logs[0])}"


def rehearsal(command: list[str]) -> list[str]:
    """Return the arguments of Python for the same on the CPU."""
    if command[0] == "-c":
        return ["-c", LOADED + command[1]]
    if "pytest" in command:
        return [*command, "-p", "tests.hostcuda.plugin", "-p", "no:xdist", "-k", "maximum"]
    return [*command, "--rehearse"]


def _is_installed(package: str) -> bool:
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False


HANGS = "hangs, and cannot be killed"


def ended(processes: Sequence[subprocess.Popen[bytes]], deadline: float) -> list[str]:
    """Wait for processes, end those whose time is over with all that they started, and return how each ended."""
    late = set[int]()
    for running in processes:
        try:
            running.wait(max(deadline - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            late.add(running.pid)
            os.killpg(running.pid, signal.SIGKILL)
    last = time.monotonic() + GRACE  # of all together
    outcomes = list[str]()
    for running in processes:
        try:
            status = running.wait(max(last - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            outcomes.append(HANGS)
            continue
        failure = "was not done in time" if running.pid in late else f"failed with status {status}"
        outcomes.append("passed" if status in (0, NO_TESTS) else failure)
    return outcomes


def _last_lines(log: str) -> str:
    return "\n".join(f"         {line[:200]}" for line in log.splitlines()[-6:])


def _tests(logs: list[str]) -> str:
    """Return the number of tests that passed, and the names of those that failed or did not end."""
    passed, lines = 0, list[str]()
    for log in logs:
        outcomes = re.findall(r"^(\S+::.*?) (?:<- \S+ )?(PASSED|FAILED|ERROR|SKIPPED)?(?= |$)", log, re.MULTILINE)
        passed += sum(outcome == "PASSED" for _, outcome in outcomes)
        lines += [
            f"         {outcome or 'did not end'}: {name}"
            for name, outcome in outcomes
            if outcome in ("FAILED", "ERROR", "")
        ]
        if "::" not in log:
            lines.append(_last_lines(log))
    return "\n".join([f"         {passed} passed", *lines[:60]])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
