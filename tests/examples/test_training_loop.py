"""The training loop learns; killed in the middle and resumed, it ends with the bits that it would have ended with."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from burnpy.record import load
from tests.interrupting import LONG

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[2] / "examples" / "custom_training_loop.py"
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
EPOCHS, LEAST = (4, 94) if LONG else (3, 93)


def command(path: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-W", "error", str(EXAMPLE), "--file", str(path), "--epochs", str(EPOCHS), *arguments]


def run(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(path, *arguments), capture_output=True, text=True, check=False, env=ENVIRONMENT)


def epochs(output: str) -> dict[int, str]:
    return {int(k): rest for k, rest in re.findall(r"^epoch (\d+)/\d+, (.*)$", output, re.MULTILINE)}


def fingerprint(output: str) -> str:
    found = re.search(r"the model is ([0-9a-f]{16}),", output)
    assert found, f"no fingerprint in:\n{output}"
    return found[1]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    path = tmp_path_factory.mktemp("unbroken") / "run.safetensors"
    done = run(path)
    assert done.returncode == 0, done.stderr
    return path, done.stdout


@pytest.mark.slowest
def test_it_learns(unbroken: tuple[Path, str]) -> None:
    lines = epochs(unbroken[1])
    assert list(lines) == list(range(1, EPOCHS + 1))
    accuracy = re.search(r"accuracy ([\d.]+)%", lines[EPOCHS])
    assert accuracy
    assert float(accuracy[1]) > LEAST


@pytest.mark.slowest
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL")
def test_killed_and_resumed_it_ends_the_same(unbroken: tuple[Path, str], tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    with subprocess.Popen(command(path), stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:
        assert process.stdout is not None
        before = ""
        for line in process.stdout:
            before += line
            if line.startswith("epoch 1/"):
                process.send_signal(signal.SIGKILL)
                break
        before += process.stdout.read()
    assert process.returncode == -signal.SIGKILL
    assert "the model is" not in before, "it had ended before it was killed"

    resumed = run(path, "--resume", "--seed", "9")  # the file's seed is used
    assert resumed.returncode == 0, resumed.stderr
    assert resumed.stdout.startswith("resumed after epoch "), resumed.stdout
    expected = epochs(unbroken[1])
    assert epochs(resumed.stdout).items() <= expected.items()
    assert set(epochs(before)) | set(epochs(resumed.stdout)) == set(expected)
    assert fingerprint(resumed.stdout) == fingerprint(unbroken[1])

    ours, theirs = load(path), load(unbroken[0])
    for where, entry in ours.model.items():
        assert entry.value.tobytes() == theirs.model[where].value.tobytes(), where
    (_, states), (_, expected_states) = ours.optim, theirs.optim
    by_path = {where: (step, values) for where, step, values in expected_states.values()}
    assert len(states) == len(by_path) == 6
    for where, step, values in states.values():
        expected_step, expected_values = by_path[where]
        assert step == expected_step
        for name, value in values.items():
            assert value.tobytes() == expected_values[name].tobytes(), f"{name} of {where}"
    assert ours.generator == theirs.generator


def test_with_no_file_one_sentence_says_so(example: Callable[..., str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as caught:  # Python prints its text, and exits with 1
        example("custom_training_loop", "--file", tmp_path / "none.safetensors", "--resume")
    assert isinstance(caught.value.code, str)
    assert "there is nothing to resume" in caught.value.code
    assert len(caught.value.code.strip().splitlines()) == 1
