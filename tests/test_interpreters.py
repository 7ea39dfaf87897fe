"""`make test-long` finds the interpreters that start, and passes over others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.interpreters import found


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.mark.skipif(os.name == "nt", reason="programs are shell scripts here")
def test_the_first_that_starts_is_taken(tmp_path: Path) -> None:
    shims, system, pyenv = (tmp_path / name for name in ("shims", "system", "pyenv"))
    for version in ("3.11", "3.12", "3.13"):
        program(shims / f"python{version}", "echo pyenv: command not found >&2; exit 127")
    right = program(system / "python3.11", "echo 3.11")
    program(system / "python3.12", "echo 3.8")
    other = program(pyenv / "versions" / "3.12.1" / "bin" / "python", "echo 3.12")
    assert found([str(shims), str(system)], pyenv) == {"3.11": right, "3.12": other}
