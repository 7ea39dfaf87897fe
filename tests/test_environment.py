"""`python -m burnpy` prints what a bug report needs, also where something is missing or broken."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from burnpy import environment
from burnpy.environment import EXTRAS, report

FACTS = ["burnpy", "Python", "NumPy", "system", "CPU", "BLAS", "kernels", "settings", "backend CuPy", "backend NumPy"]
DEVELOPMENT = {"bench", "bench-peers", "demo", "docs", "hostcuda", "parity", "test", "test-heavy"}


def facts(text: str) -> dict[str, str]:
    return dict(re.findall(r"^- ([\w ]+): (.+)$", text, re.MULTILINE))


@pytest.mark.slow
def test_the_command_prints_the_report() -> None:
    done = subprocess.run([sys.executable, "-m", "burnpy"], capture_output=True, text=True, check=True)
    found = facts(done.stdout)
    assert list(found) == FACTS
    assert found["backend NumPy"] == "works"
    for name in EXTRAS:
        assert f"\n| {name} " in done.stdout


@pytest.mark.slowest
def test_a_reader_may_close_the_pipe() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as pipe:
        done = subprocess.run([sys.executable, "-m", "burnpy"], stdout=pipe, stderr=subprocess.PIPE, check=True)
    assert done.stderr == b""


def test_what_is_broken_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise OSError("the disk is\ngone")

    for name in ("import_module", "version", "processor", "blas", "_backend"):
        monkeypatch.setattr(environment, name, broken)
    monkeypatch.setattr("burnpy.backend.devices.available", broken)
    found = facts(report())
    assert sorted(found) == sorted(FACTS)
    for name in ("CPU", "BLAS", "kernels", "backend CuPy"):
        assert found[name] == "fails with OSError: the disk is gone"


def test_the_extras_are_those_of_the_package() -> None:
    project: Any = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = project["optional-dependencies"]
    names = {extra: tuple(re.split(r"[\[><=;]", each)[0] for each in needs) for extra, needs in declared.items()}
    assert {extra: EXTRAS[extra].packages for extra in EXTRAS} == {
        extra: packages for extra, packages in names.items() if extra not in DEVELOPMENT
    }, "EXTRAS of burnpy/environment.py says which packages an extra has, and what for"
