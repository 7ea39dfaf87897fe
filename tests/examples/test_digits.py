"""The digits example learns, draws its picture, and says in one sentence where there is no GPU."""

from __future__ import annotations

import io
import itertools
import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from burnpy import Tensor
from burnpy.backend import NumPy, errors

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits.py"


def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", str(EXAMPLE), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})


def accuracy(output: str) -> float:
    found = re.search(r"held-out accuracy ([\d.]+)%", output)
    assert found, f"no held-out accuracy in:\n{output}"
    return float(found.group(1))


@pytest.fixture(scope="module", params=[2, pytest.param(4, marks=pytest.mark.long)])
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, str]:
    """The folder, the epochs and the output of a short training."""
    folder = tmp_path_factory.mktemp("digits") / "deep" / "out"
    done = run("--epochs", str(request.param), "--seed", "1", "--out", folder)
    assert done.returncode == 0, done.stderr
    return folder, request.param, done.stdout


@pytest.mark.slowest
def test_a_few_epochs_learn_and_draw(trained: tuple[Path, int, str]) -> None:
    folder, epochs, output = trained
    assert accuracy(output) >= {2: 95, 4: 96}[epochs]
    assert (folder / "digits.png").read_bytes().startswith(b"\x89PNG")
    lines = output.splitlines()
    assert lines[0] == "A convolutional network learns to read handwritten digits, in about 3 seconds …"
    assert [line.split(":")[0] for line in lines[2:-1]] == [f"epoch {n}/{epochs}" for n in range(1, epochs + 1)]
    assert "\x1b" not in output, "escape sequences where no terminal is"


@pytest.mark.slowest
def test_what_takes_long_is_imported_after_the_first_line() -> None:
    code = "import sys; sys.path.insert(0, 'examples'); import digits; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=EXAMPLE.parents[1]
    )
    assert not {"sklearn", "matplotlib", "rich"} & {*done.stdout.split()}


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_the_bar_moves_with_every_batch_and_keeps_number_and_time(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE.parent))
    report: Any = import_module("digits_report")
    clock = itertools.count()
    console = Console(
        file=io.StringIO(), force_terminal=True, width=width, color_system=None, get_time=lambda: float(next(clock))
    )
    monkeypatch.setattr("rich.progress.Progress.start", lambda self: None)  # no thread draws in between
    progress = report.Report(3, Path(), console)
    progress.start("title", 20)
    number = Tensor[NumPy].from_data
    bars = []
    for batch in range(40):
        progress.batch(number(1.25), number(0.5))
        if batch % 20 == 19:
            progress.epoch(number(1.125), number(0.625))
        with console.capture() as capture:
            console.print(progress._bar.get_renderable())
        (line,) = capture.get().splitlines()
        assert len(line) <= width
        assert line.startswith(f"epoch {1 + (batch + 1) // 20}/3 ")
        assert re.search(r" (\d\d:\d\d|--:--) left$", line)
        assert "…" not in line
        assert ("accuracy 62.5%" in line) == (batch > 18 and width >= 60)
        assert ("loss 1.250, held out 1.125" in line) == (batch > 18 and width >= 100)
        bars.append(line.count("━") * 2 + line.count("╸"))
    assert re.search(r" \d\d:\d\d left$", line)
    assert bars[18] >= 3
    assert width < 80 or len({*bars[:18]}) > 9


@pytest.mark.slowest
def test_one_seed_gives_one_result(trained: tuple[Path, int, str], example: Callable[..., str]) -> None:
    folder, epochs, output = trained  # of another process
    assert example("digits", "--epochs", epochs, "--seed", 1, "--out", folder) == output


@pytest.mark.slowest
def test_without_a_gpu_one_sentence_says_so(tmp_path: Path) -> None:
    done = run("--backend", "cupy", "--out", tmp_path, CUDA_VISIBLE_DEVICES="-1")
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert "CuPy" in done.stderr


def test_the_gpu_learns_as_well(tmp_path: Path) -> None:
    try:
        from burnpy.backend import CuPy

        CuPy.device()
    except errors.BackendUnavailableError as error:
        pytest.skip(str(error))
    done = run("--backend", "cupy", "--epochs", "4", "--seed", "1", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert accuracy(done.stdout) >= 96
