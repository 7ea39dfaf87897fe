"""Which tests are left out, and that a run says so above its failures: `tests/conftest.py`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TESTS = """
import pytest

@pytest.mark.long
def test_long(): pass

@pytest.mark.heavy("json", "no_such_module")
def test_heavy(): pass

@pytest.mark.heavy("json")
def test_installed(): pass

def test_failing(): assert False
"""


def ran(folder: Path, *arguments: str, **environment: str) -> list[str]:
    """Return the last lines of a run on tests in a folder."""
    settings = [
        "-c",
        str(ROOT / "pyproject.toml"),
        "--rootdir",
        str(folder),
        "-p",
        "tests.conftest",
        "-p",
        "no:cacheprovider",
    ]
    settled = {**os.environ, "PYTHONPATH": str(ROOT), "BURNPY_HEAVY_TESTS": "", "BURNPY_LONG_TESTS": "0", **environment}
    settled["PYTEST_ADDOPTS"] = ""  # the output of these tests is read
    settled["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # plugins take longer to import than these tests to run
    command = [sys.executable, "-m", "pytest", "-q", *settings, *arguments]
    done = subprocess.run(command, cwd=folder, env=settled, capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).splitlines()[-8:]


@pytest.mark.slowest
def test_what_is_left_out_is_counted_by_reason_above_the_failures(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(TESTS)
    folder = tmp_path / "tests" / "train"
    folder.mkdir(parents=True)
    (folder / "test_b.py").write_text("def test_later(): assert False\n")
    lines = ran(tmp_path, ".", BURNPY_HEAVY_TESTS="0")
    assert "1 × takes minutes: `make test-long` runs it" in lines
    assert "2 × needs json: `make test-heavy` installs it and runs this" in lines
    assert [line.partition(" - ")[0] for line in lines[-3:-1]] == [
        "FAILED tests/train/test_b.py::test_later",  # a folder whose tests are long comes first
        "FAILED test_a.py::test_failing",
    ]
    assert "2 failed, 3 skipped" in lines[-1]


@pytest.mark.slowest
def test_a_long_test_runs_where_it_is_named_or_chosen(tmp_path: Path) -> None:
    (tmp_path / "beside.py").touch()
    (project := tmp_path / "project").mkdir()
    (project / "test_a.py").write_text(TESTS)
    lines = ran(project, "test_a.py::test_long", "test_a.py::test_heavy", "test_a.py::test_installed")
    assert "1 × needs no_such_module: `make test-heavy` installs it and runs this" in lines
    assert "2 passed, 1 skipped" in lines[-1]
    assert "1 passed, 3 deselected" in ran(project, ".", "-m", "long")[-1]
    assert "1 failed, 2 passed, 1 skipped" in ran(project, "test_a.py", BURNPY_LONG_TESTS="1")[-1]


@pytest.mark.slowest
def test_names_of_tests_have_no_addresses(tmp_path: Path) -> None:
    """As workers of pytest-xdist refuse to run what they have not collected alike."""
    text = "import pytest\n@pytest.mark.parametrize('x', [object()], ids=repr)\ndef test_it(x): pass\n"
    (tmp_path / "test_a.py").write_text(text)
    assert "has an address in its name" in "".join(ran(tmp_path, "test_a.py"))
