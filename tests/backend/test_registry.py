"""Backends are found by name: burnpy's own, and what an installed package registers as an entry point."""

from __future__ import annotations

import importlib.metadata
import os
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import burnpy.backend
from burnpy.backend import NumPy
from burnpy.backend.devices import available, load


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package as pip would install it: a module, and the metadata that names its backend."""
    (tmp_path / "acme_backend.py").write_text("from burnpy.backend import NumPy\n\n\nclass Acme(NumPy):\n    pass\n")
    info = tmp_path / "acme_backend-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-backend\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        dedent("""\
        [burnpy.backends]
        Acme = acme_backend:Acme
        """)
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(vars(burnpy.backend), "Acme", raising=False)


@pytest.mark.usefixtures("package")
def test_a_package_registers_its_backend() -> None:
    assert "Acme" in available()
    found = load("Acme")
    assert issubclass(found, NumPy)
    assert burnpy.backend.Acme is found, "from burnpy.backend import Acme"
    assert found() is found()


def test_burnpys_own_are_there_whether_or_not_they_can_be_used() -> None:
    assert {"CuPy", "NumPy"} <= set(available())
    assert load("NumPy") is NumPy


def test_a_missing_name_reads_the_installed_packages_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation, which changes a folder of packages, is seen at once."""
    monkeypatch.syspath_prepend(tmp_path)
    reads: list[str] = []
    entry_points = importlib.metadata.entry_points

    def counted(group: str) -> Any:
        reads.append(group)
        return entry_points(group=group)

    monkeypatch.setattr(importlib.metadata, "entry_points", counted)
    for _ in range(5):
        assert not hasattr(burnpy.backend, "Later")
    assert len(reads) == 1
    info = tmp_path / "later-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: later\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[burnpy.backends]\nLater = burnpy_numpy:NumPy\n")
    os.utime(tmp_path, ns=(1, 1))
    assert "Later" in available()


def test_an_unknown_name_lists_those_that_are_installed() -> None:
    with pytest.raises(AttributeError, match=r"no backend 'Tpu' is installed; there are: .*CuPy, NumPy"):
        _ = burnpy.backend.Tpu
