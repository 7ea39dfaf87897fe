"""Cold starts: what a process does before its first kernel runs, with and without compiled code on the disk."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from burnpy.backend import NumPy, explain, runtime
from burnpy.backend.runtime import CompileTimes
from burnpy_numpy import warm
from burnpy_numpy.kernels import kernel, programs, scans_and_losses
from burnpy_numpy.kernels.compiler import emitter, llvm

X = np.linspace(-2, 2, 64 * 128, dtype=np.float32).reshape(64, 128)
STEP = """
import sys
sys.path.insert(0, {root!r})
from benchmarks.peers import load
from benchmarks.tasks import TASKS, task
from burnpy_numpy.kernels import kernel
from burnpy_numpy.kernels.compiler import llvm

for model in TASKS:
    training = load("burnpy").training(task(model, "float32"))
    training.forward(0)
    training.backward()
    training.update()
print(len(kernel.times.seconds), len(llvm._engines) > 20)
"""


def only_here(b: Any, x: Any, rate: Any) -> tuple[Any]:
    return (b.sub(b.mul(b.mul(x, x), rate), x),)


def use() -> list[Any]:
    """Run a program, a template and a formula of lists as a new process would, and return their kernels."""
    kernel.forget()
    programs._program_kernel.cache_clear()
    device: Any = NumPy()

    def run() -> None:
        device.silu(X)
        device.cumsum(X, 1)
        device.foreach(only_here, [[X, X]], (0.5,))

    return [*explain(run).kernels]


def command(*arguments: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    given = os.environ | {"BURNPY_CACHE_DIR": str(folder)} | environment
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, env=given)


def test_with_a_warm_cache_no_text_is_written_and_nothing_is_compiled(
    kernels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[str] = []

    def noted(real: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(real)
        def call(*args: Any) -> Any:
            called.append(real.__name__)
            return real(*args)

        return call

    for module, name in ((emitter, "emit"), (programs, "emit"), (scans_and_losses, "scan"), (llvm, "compile_text")):
        monkeypatch.setattr(module, name, noted(getattr(module, name)))
    made = use()
    assert sorted(called) == ["compile_text"] * 3 + ["emit", "emit", "scan"]
    assert len([*kernels.iterdir()]) == 3
    called.clear()
    loaded = use()
    assert called == []
    assert [each.text for each in loaded] == [each.text for each in made]  # written when somebody reads it
    assert not any("@Py" in each.text for each in made)  # what calls kernels is compiled once for all of them
    assert {each.program for each in loaded} == {each.program for each in made}


def test_the_sources_of_programs_belong_to_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []
    real = Path.read_bytes

    def noted(path: Path) -> bytes:
        read.append(path)
        return real(path)

    monkeypatch.setattr(Path, "read_bytes", noted)
    kernel._environment.__wrapped__()
    assert {"program.py", "emitter.py", "instructions.py", "scans_and_losses.py"} <= {path.name for path in read}


@pytest.mark.parametrize(("patience", "setting", "lines"), [(0.0, "1", 1), (0.0, "0", 0), (1e9, "1", 0)])
def test_long_compiling_is_told_once(
    patience: float,
    setting: str,
    lines: int,
    kernels: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(runtime, "PATIENCE", patience)
    monkeypatch.setattr(kernel, "times", CompileTimes("burnpy: compiling"))
    monkeypatch.setenv("BURNPY_PROGRESS", setting)
    use()
    assert len(kernel.times.seconds) == 3
    captured = capsys.readouterr()
    assert captured.err == "burnpy: compiling\n" * lines
    assert captured.out == ""
    monkeypatch.setattr(kernel, "times", CompileTimes("burnpy: compiling"))
    use()
    assert capsys.readouterr().err == ""  # nothing was compiled
    assert kernel.times.seconds == []


@pytest.mark.long
def test_the_command_compiles_what_training_steps_need_once(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    first, second = (command("-m", "burnpy_numpy.warm", folder=folder) for _ in range(2))
    count = len([*folder.iterdir()])
    assert first.returncode == second.returncode == 0, first.stderr + second.stderr
    assert first.stdout.startswith(f"Compiled {count} kernels in ")
    assert first.stdout.endswith(f"There are {count} in {folder}.\n")
    assert second.stdout.startswith("Compiled 0 kernels in ")
    assert first.stderr == second.stderr == ""
    assert count > 100
    steps = command("-c", STEP.format(root=str(Path(__file__).parents[2])), folder=folder)
    assert steps.stdout == "0 True\n", steps.stdout + steps.stderr


def test_every_optimizer_is_warmed() -> None:
    from burnpy import optim

    made = {type(make()) for make in warm.OPTIMIZERS}
    public = [getattr(optim, name) for name in optim.__all__]
    known = {each for each in public if isinstance(each, type) and issubclass(each, optim.Optimizer)}
    assert made == known - {optim.Optimizer, optim.LBfgs, optim.Muon}  # no kernel, and matrices alone


@pytest.mark.slowest
@pytest.mark.parametrize(
    ("code", "environment", "sentence"),
    [
        ("sys.modules['llvmlite'] = None", {}, "No kernels to compile: llvmlite cannot be imported"),
        ("pass", {"BURNPY_COMPILE": "0"}, "No kernels to compile: BURNPY_COMPILE is 0"),
    ],
)
def test_without_kernels_the_command_says_a_sentence(
    code: str, environment: dict[str, str], sentence: str, tmp_path: Path
) -> None:
    program = f"import sys; {code}\nimport runpy; runpy.run_module('burnpy_numpy.warm', run_name='__main__')"
    done = command("-c", program, folder=tmp_path / "kernels", **environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(sentence)
    assert done.stderr == ""


@pytest.mark.slowest
def test_without_a_folder_the_command_fails(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = command("-m", "burnpy_numpy.warm", folder=tmp_path / "file")
    assert done.returncode == 1
    assert done.stdout.startswith("Kernels cannot be kept")


@pytest.mark.slowest
def test_the_command_has_a_help_that_compiles_nothing() -> None:
    command = [sys.executable, "-m", "burnpy_numpy.warm", "--help"]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "Compile the kernels" in shown
    assert "Compiled" not in shown
