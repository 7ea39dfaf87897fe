"""The programs of ``make test-gpu`` and ``make bench-gpu`` run, with tiny sizes; what they find is for a GPU to say."""

from __future__ import annotations

import re
import subprocess
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.hostcuda import simulator

simulator.require()

from benchmarks.gpu.__main__ import PARTS  # noqa: E402  # they load CuPy
from benchmarks.gpu.timing import REHEARSAL  # noqa: E402
from burnpy.backend import CuPy  # noqa: E402
from burnpy.environment import report  # noqa: E402
from tests.hostcuda import gpu, roofline  # noqa: E402
from tests.hostcuda.gpu_checks import CHECKS  # noqa: E402
from tests.hostcuda.host_time import STEPS, operations, times  # noqa: E402
from tests.interrupting import LONG  # noqa: E402


@pytest.mark.parametrize("name", CHECKS)
def test_checks(name: str) -> None:
    CHECKS[name](10)


def test_the_report_of_the_environment_names_the_gpu() -> None:
    assert "- backend CuPy: works, on hostcuda, compute capability 9.0, driver of CUDA" in report()


def test_the_hosts_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STEPS, "MLP", 1)
    found = times("MLP", with_torch=False)
    for name, line in zip(("CuPy", r"Mixed\[CuPy\]", "compiled", "CUDA graph"), found, strict=True):
        assert re.fullmatch(name + r" \d+ µs, \d+ launches", line)


def test_the_hosts_time_for_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STEPS, "operations", 1)
    found = operations(with_torch=False)
    assert re.fullmatch(r"add +[\d.]+ µs", found[0])
    assert re.fullmatch(r"softmax, tracked +[\d.]+ µs", found[-1])


@pytest.mark.parametrize("part", PARTS)
def test_benchmarks(part: str) -> None:
    for section in import_module(f"benchmarks.gpu.{part}").sections(REHEARSAL):
        reasons = [cell for line in section.lines for cell in line.cells.values() if isinstance(cell, str)]
        assert not reasons, section.title
        assert all(line.cells["burnpy" if "burnpy" in section.columns else "CuPy"] for line in section.lines)


def test_the_roofline_of_a_convolution(monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer of 3 × 3 of a ResNet-50 fills an H100 in all three problems, as far as the model knows."""
    monkeypatch.setattr(roofline, "LAYERS", ((128, 128, 3, 1, 28),))
    found = [*roofline.convolutions(CuPy(), "bfloat16")]
    assert len(found) == 3
    assert all(0.4 < each.share <= 1.0 and each.resident >= 2 for each in found), found


def test_the_roofline_of_batch_norms() -> None:
    """All of a ResNet-50 that are divided take an H100's bandwidth, as far as the model knows: those that its cache
    does not keep read their arrays twice."""
    found = [each for precision in ("float32", "bfloat16") for each in roofline.norms(CuPy(), precision)]
    assert len(found) == 4 * len(roofline.NORMS)
    assert all(0.55 < each.share <= 1.0 and each.resident >= 4 for each in found), found


def test_the_roofline_of_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    """`mma.sync` reaches 63 % of the peak; of the gradient's seven products, five are useful, in tiles that reach
    beyond the causal limit. The short form compiles for the largest heads, which take the most registers."""
    monkeypatch.setattr(roofline, "HEADS", roofline.HEADS if LONG else roofline.HEADS[-1:])
    found = [*roofline.attentions(CuPy(), "bfloat16")]
    assert len(found) == 2 * len(roofline.HEADS)
    assert all(0.35 < each.share < 0.7 and each.resident >= 2 for each in found), found


def test_a_step_that_hangs_is_ended_and_told(tmp_path: Path) -> None:
    program = "import time; print('tests/a.py::test_b ', flush=True); time.sleep(60)"
    step = gpu.Step("hanging", 2.0, ["-c", program], processes=2)
    told = gpu.run(0, step, tmp_path, 60.0, rehearse=False)
    assert told.startswith("was not done in time")
    assert told.count("did not end: tests/a.py::test_b") == 2
    assert gpu.run(1, step._replace(needs="absent-package"), tmp_path, 60.0, rehearse=False).startswith("left out")
    assert gpu.run(2, step, tmp_path, 5.0, rehearse=False) == "left out, as no time is left"


def test_processes_that_cannot_be_killed_are_left_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """They wait for the driver, and each would take as long as all."""
    now, killed = [100.0], list[int]()

    class Hanging:
        def __init__(self, pid: int) -> None:
            self.pid = pid

        def wait(self, seconds: float) -> int:
            now[0] += seconds
            raise subprocess.TimeoutExpired("hanging", seconds)

    monkeypatch.setattr(gpu.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(gpu.os, "killpg", lambda pid, _: killed.append(pid))
    processes: list[Any] = [Hanging(pid) for pid in range(gpu.PROCESSES)]
    assert gpu.ended(processes, 150.0) == [gpu.HANGS] * gpu.PROCESSES
    assert now == [150.0 + gpu.GRACE]
    assert killed == [*range(gpu.PROCESSES)]


def test_a_machine_whose_driver_hangs_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu.shutil, "which", lambda name: name)
    monkeypatch.setattr(gpu.subprocess, "Popen", lambda *_, **__: None)
    monkeypatch.setattr(gpu, "ended", lambda *_: [gpu.HANGS])
    assert gpu.found()[-1] == "nvidia-smi hangs"
