"""Run `make test-fast` on every Python from 3.11 to 3.14 that starts here: ``python -m tests.interpreters``."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

VERSIONS = ("3.11", "3.12", "3.13", "3.14")
PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
ASKED = "import ensurepip, sys; print('%d.%d' % sys.version_info[:2])"


def starts(program: Path, version: str) -> bool:
    """Return whether a program is Python of a version and makes virtual environments; a shim of pyenv may fail."""
    try:
        done = subprocess.run([program, "-c", ASKED], capture_output=True, text=True, check=False, timeout=60)
    except OSError:
        return False
    return done.returncode == 0 and done.stdout.strip() == version


def found(folders: Iterable[str], pyenv: Path) -> dict[str, Path]:
    """Return one interpreter of each version, from the folders of PATH or among the versions of pyenv."""
    every = list(folders)
    result = {}
    for version in VERSIONS:
        programs = [Path(folder, f"python{version}") for folder in every]
        programs += sorted(pyenv.glob(f"versions/{version}.*/bin/python"))
        working = (program for program in programs if program.exists() and starts(program, version))
        if program := next(working, None):
            result[version] = program
    return result


def main() -> int:
    """Run the tests in an environment for each interpreter; the exit status is 1 where one fails."""
    programs = found(os.get_exec_path(), PYENV)
    failed = []
    for version, program in programs.items():
        print(f"Python {version}, {program}:", flush=True)
        command = ["make", "--no-print-directory", f"PYTHON={program}", f"VENV=out/python{version}", "test-fast"]
        if subprocess.run(command, check=False).returncode:
            failed.append(version)
    absent = [version for version in VERSIONS if version not in programs]
    lists = {"ran": [*programs], "failed": failed, "not found": absent}
    print("; ".join(f"{what}: {', '.join(versions) or 'none'}" for what, versions in lists.items()))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
