"""mypy and pyright accept and reject what they must, line by line, and the rejected raises a clear TypeError."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

from burnpy.backend.errors import BurnpyError

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ACCEPTED = tuple(sorted(HERE.glob("*accepted.py")))
REJECTED = tuple(sorted(HERE.glob("*rejected.py")))
ENVIRONMENT = {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])}
"""In which the checkers stand that were installed beside this interpreter."""


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


def ty_lines() -> set[tuple[str, int]]:
    command = ["ty", "check", "--output-format", "concise", "--python", sys.executable, *map(str, REJECTED)]
    done = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    return {(Path(name).name, int(line)) for name, line in re.findall(r"^(\S+?):(\d+):\d+: error", done.stdout, re.M)}


def pyrefly_lines() -> set[tuple[str, int]]:
    command = ["pyrefly", "check", "--output-format", "json", "--python-interpreter-path", sys.executable]
    done = subprocess.run(
        [*command, *map(str, REJECTED)], cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    report = json.loads(done.stdout)["errors"]
    return {(Path(d["path"]).name, d["line"]) for d in report if d["severity"] == "error"}


def marked(checker: str) -> set[tuple[str, int]]:
    """The lines that a checker is to reject."""
    found = set()
    for path in REJECTED:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            mark = re.search(r"  # E(?:, not ([\w, ]+))?$", line)
            if mark and checker not in (mark[1] or "").split(", "):
                found.add((path.name, number))
    return found


CHECKERS = {"mypy": mypy_lines, "pyright": pyright_lines, "ty": ty_lines, "pyrefly": pyrefly_lines}


@pytest.mark.slow
@pytest.mark.parametrize("checker", CHECKERS)
def test_checkers_reject_the_marked_lines_and_no_others(checker: str) -> None:
    """mypy and pyright always; ty and pyrefly, which have not settled yet, where they are installed."""
    if checker in ("ty", "pyrefly") and shutil.which(checker, path=ENVIRONMENT["PATH"]) is None:
        pytest.skip(f"{checker} is not installed")
    found, wanted = CHECKERS[checker](), marked(checker)
    assert found == wanted, f"not rejected: {sorted(wanted - found)}; wrongly rejected: {sorted(found - wanted)}"


def test_mypy_and_pyright_see_every_marked_line() -> None:
    assert marked("mypy") == marked("pyright") == marked("no checker")
    assert len(marked("mypy")) >= 130


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


def mistakes() -> list[Any]:
    """Every mistake with words of its error: the functions of the modules, and the rows of their tables."""
    found = []
    for path in REJECTED:
        names = vars(module(path))
        functions = [f for f in names.values() if isinstance(f, FunctionType) and f.__module__ == path.stem]
        for f in functions:
            if not f.__code__.co_argcount:  # others are what mistakes are made with
                found.append(pytest.param(f, (f.__doc__ or "").strip(), id=f.__name__))
        for row, (words, f) in enumerate(names.get("MISTAKES", [])):
            found.append(pytest.param(f, words, id=f"{path.stem}-{row}-{words}"))
    return found


@pytest.mark.parametrize(("mistake", "words"), mistakes())
def test_rejected_code_raises_a_type_error_that_says_what_to_do(mistake: Callable[[], object], words: str) -> None:
    with pytest.raises((TypeError, BurnpyError), match=re.escape(words)) as caught:
        mistake()
    assert "\n" not in str(caught.value)
    assert str(caught.value).count(". ") == 0, "one sentence"
