"""The wheel is small, typed and whole; `make packages` also installs it for each Python."""

from __future__ import annotations

import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest

pytest.importorskip("hatchling")

from tests.packages import MOST_BYTES, ROOT, TYPED, built


@pytest.mark.slowest
def test_the_packages(tmp_path: Path) -> None:
    wheel, sdist = built(tmp_path)
    with ZipFile(wheel) as file:
        names = set(file.namelist())
    assert wheel.stat().st_size <= MOST_BYTES
    assert {f"{package}/py.typed" for package in TYPED} <= names
    sources = {
        path.relative_to(top).as_posix()
        for top in (ROOT, ROOT / "backends")
        for package in TYPED
        for path in (top / package).rglob("*.py*")
        if path.suffix in (".py", ".pyi")
    }
    assert sources - names == {name for name in sources if name.startswith("burnpy/docs/")}
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {*TYPED}
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert {"README.md", "LICENSE", "Makefile", "pyproject.toml", "burnpy/docs/train.md", "tests/conftest.py"} <= inside
    assert not [name for name in inside if name.startswith((".venv", "out/"))]
