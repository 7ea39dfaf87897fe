"""mypy and pyright accept and reject what they must, line by line, and the rejected raises a clear TypeError."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ACCEPTED = tuple(sorted(HERE.glob("*accepted.py")))
REJECTED = tuple(sorted(HERE.glob("*rejected.py")))


def mypy_lines() -> set[tuple[str, int]]:
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--no-error-summary",
        "--hide-error-context",
        *map(str, ACCEPTED + REJECTED),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert not done.stderr, done.stderr
    found = re.findall(r"^(\S+?):(\d+): error", done.stdout, re.MULTILINE)
    return {(Path(name).name, int(line)) for name, line in found}


def pyright_lines() -> set[tuple[str, int]]:
    command = [sys.executable, "-m", "basedpyright", "--outputjson", *map(str, ACCEPTED + REJECTED)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    report = json.loads(done.stdout)["generalDiagnostics"]
    return {(Path(d["file"]).name, d["range"]["start"]["line"] + 1) for d in report if d["severity"] == "error"}


@pytest.mark.parametrize("checker", [mypy_lines, pyright_lines], ids=["mypy", "pyright"])
def test_checkers_reject_the_marked_lines_and_no_others(checker: object) -> None:
    marked = {
        (path.name, number)
        for path in REJECTED
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if line.endswith("# E")
    }
    assert isinstance(checker, FunctionType)
    found = checker()
    assert found == marked, f"not rejected: {sorted(marked - found)}; wrongly rejected: {sorted(found - marked)}"


def module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.mark.parametrize("path", ACCEPTED, ids=lambda path: path.stem)
def test_accepted_code_runs(path: Path) -> None:
    module(path)


def mistakes() -> list[FunctionType]:
    found = [f for path in REJECTED for f in vars(module(path)).values() if isinstance(f, FunctionType)]
    return [f for f in found if f.__module__ in [path.stem for path in REJECTED]]


@pytest.mark.parametrize("mistake", mistakes(), ids=lambda f: f.__name__)
def test_rejected_code_raises_a_type_error_that_says_what_to_do(mistake: FunctionType) -> None:
    with pytest.raises(TypeError, match=re.escape((mistake.__doc__ or "").strip())):
        mistake()
